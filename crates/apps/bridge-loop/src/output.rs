//! One output of a balancer: what waits for its port, and what became of what was meant for it.

use linerate_mem::{Batch, Pool};

/// The packets that wait for a port, and their counts.
pub struct Output {
    queue: Batch,
    /// The pool of the port.
    pool: Pool,
    /// The port has memory of its own, so packets are copied into it.
    copies: bool,
    /// Packets in the queue.
    held: u64,
    /// What has happened.
    pub counts: Counts,
}

/// Packets of an output. `assigned + handed = taken + overflowed + too_long + no_buffer`, and what is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Meant for this output by this worker.
    pub assigned: u64,
    /// Meant for it by another worker, which handed them over.
    pub handed: u64,
    /// Taken by its port.
    pub taken: u64,
    /// Gave way to newer ones when no more could wait.
    pub overflowed: u64,
    /// Longer than the port takes.
    pub too_long: u64,
    /// Could not be copied for want of a free frame.
    pub no_buffer: u64,
}

impl Counts {
    /// Adds what another worker counted.
    pub fn add(&mut self, other: &Counts) {
        self.assigned += other.assigned;
        self.handed += other.handed;
        self.taken += other.taken;
        self.overflowed += other.overflowed;
        self.too_long += other.too_long;
        self.no_buffer += other.no_buffer;
    }

    /// Packets that were dropped.
    pub fn lost(&self) -> u64 {
        self.overflowed + self.too_long + self.no_buffer
    }
}

impl Output {
    /// An output with room for `slots` slots of `pool`, the pool of its port; with `copies`, packets are of another one.
    pub fn new(pool: &Pool, copies: bool, slots: usize) -> Output {
        let queue = Batch::with_times(pool, slots);
        Output { queue, pool: pool.clone(), copies, held: 0, counts: Counts::default() }
    }

    /// What waits, for the port.
    #[inline]
    pub fn queue(&mut self) -> &mut Batch {
        &mut self.queue
    }

    /// Slots that wait.
    #[inline]
    pub fn backlog(&self) -> usize {
        self.queue.len()
    }

    /// Packets that wait.
    #[inline]
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Takes the first packet of `batch`, of `slots` slots; its frames are of pool `home`.
    #[inline]
    pub fn assign(&mut self, batch: &mut Batch, slots: usize, home: &mut Pool) {
        if self.copies {
            self.assign_copy(batch);
            home.free_front(batch, slots);
        } else {
            batch.move_to(&mut self.queue, slots);
            self.counts.assigned += 1;
            self.held += 1;
        }
    }

    /// Copies the first packet of `batch`.
    #[inline]
    pub fn assign_copy(&mut self, batch: &Batch) {
        self.counts.assigned += 1;
        if self.pool.copy(batch, 0, &mut self.queue) {
            self.held += 1;
        } else {
            self.counts.no_buffer += 1;
        }
    }

    /// Takes all packets of `batch`, which another worker assigned; they are of the port's own pool.
    #[inline]
    pub fn take_over(&mut self, batch: &mut Batch) {
        let packets = batch.totals().packets;
        batch.move_to(&mut self.queue, batch.len());
        self.counts.handed += packets;
        self.held += packets;
    }

    /// The port took some.
    #[inline]
    pub fn tx_done(&mut self, packets: u64) {
        self.counts.taken += packets;
        self.held -= packets;
    }

    /// Drops the oldest packet, which the port refused as too long.
    pub fn too_long(&mut self) {
        self.counts.too_long += u64::from(self.drop_oldest() > 0);
    }

    /// Drops the oldest packets that wait, of `slots` slots at least in all.
    pub fn overflow(&mut self, slots: usize) {
        let mut gone = 0;
        while gone < slots {
            let dropped = self.drop_oldest();
            if dropped == 0 {
                break;
            }
            gone += dropped;
            self.counts.overflowed += 1;
        }
    }

    /// Returns how many slots it had.
    fn drop_oldest(&mut self) -> usize {
        let Some(span) = self.queue.span(0) else { return 0 };
        self.pool.free_front(&mut self.queue, span.slots);
        self.held -= 1;
        span.slots
    }
}
