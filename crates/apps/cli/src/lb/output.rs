//! One output of a balancer: what waits for its port, and what became of what was meant for it.

use linerate_mem::{Batch, Pool};
use linerate_port::{Port, PortError};

use crate::bridge::copy::Copier;

/// A port, the packets that wait for it, and their counts.
pub struct Output {
    /// The port.
    pub port: Box<dyn Port>,
    queue: Batch,
    /// For a port with memory of its own.
    copier: Option<Copier>,
    /// Packets in the queue and in the copier.
    held: u64,
    /// What has happened.
    pub counts: Counts,
}

/// Packets of an output. `assigned = taken + overflowed + too_long + no_frame + left`, and what is held while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Meant for this output.
    pub assigned: u64,
    /// Taken by its port.
    pub taken: u64,
    /// Gave way to newer ones when no more could wait.
    pub overflowed: u64,
    /// Longer than the port takes.
    pub too_long: u64,
    /// Could not be copied for want of a free frame.
    pub no_frame: u64,
    /// Held at the end.
    pub left: u64,
}

impl Output {
    /// An output with room for `slots` slots of `home`; with `copy_into`, packets are copied into frames of that pool.
    pub fn new(port: Box<dyn Port>, home: &Pool, copy_into: Option<&Pool>, slots: usize, batch: usize) -> Output {
        let queue = Batch::with_times(home, slots);
        let copier = copy_into.map(|pool| Copier::new(pool, batch));
        Output { port, queue, copier, held: 0, counts: Counts::default() }
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

    /// Takes the first packet of `batch`, of `slots` slots.
    #[inline]
    pub fn assign(&mut self, batch: &mut Batch, slots: usize) {
        batch.move_to(&mut self.queue, slots);
        self.counts.assigned += 1;
        self.held += 1;
    }

    /// Copies the first packet of `batch` into frames of its own pool.
    #[inline]
    pub fn assign_copy(&mut self, batch: &Batch, pool: &mut Pool) {
        self.counts.assigned += 1;
        if pool.copy(batch, 0, &mut self.queue) {
            self.held += 1;
        } else {
            self.counts.no_frame += 1;
        }
    }

    /// Sends what waits, as far as the port takes it; true when anything moved.
    #[inline]
    pub fn send(&mut self, home: &mut Pool) -> Result<bool, PortError> {
        if self.held == 0 {
            return Ok(false);
        }
        let outgoing = match &mut self.copier {
            None => &mut self.queue,
            Some(copier) => {
                copier.copy(&mut self.queue, home);
                &mut copier.copies
            }
        };
        match self.port.transmit(outgoing) {
            Ok(taken) => {
                self.counts.taken += taken as u64;
                self.held -= taken as u64;
                Ok(taken > 0)
            }
            Err(PortError::Down { .. }) => Ok(false),
            Err(error) => self.refused(error, home),
        }
    }

    /// Counts what went before the packet that the port refused, and drops that one if it is too long.
    #[cold]
    fn refused(&mut self, error: PortError, home: &mut Pool) -> Result<bool, PortError> {
        let copied = self.copier.as_ref().map_or(0, |copier| copier.copies.totals().packets);
        let waiting = self.queue.totals().packets + copied;
        self.counts.taken += self.held - waiting;
        self.held = waiting;
        if !matches!(error, PortError::FrameTooLong { .. }) {
            return Err(error);
        }
        match &mut self.copier {
            None => {
                let slots = self.queue.span(0).map_or(self.queue.len(), |span| span.slots);
                home.free_front(&mut self.queue, slots);
            }
            Some(copier) => {
                let slots = copier.copies.span(0).map_or(copier.copies.len(), |span| span.slots);
                copier.drop_front(slots);
            }
        }
        self.counts.too_long += 1;
        self.held -= 1;
        Ok(true)
    }

    /// Drops the oldest packets that wait, of `slots` slots at least in all.
    pub fn overflow(&mut self, slots: usize, home: &mut Pool) {
        let mut gone = 0;
        while gone < slots {
            let Some(span) = self.queue.span(0) else { break };
            home.free_front(&mut self.queue, span.slots);
            gone += span.slots;
            self.counts.overflowed += 1;
            self.held -= 1;
        }
    }

    /// Gives back what waits, and counts it.
    pub fn give_up(&mut self, home: &mut Pool) {
        self.counts.left += self.held;
        self.held = 0;
        home.free(&mut self.queue);
        if let Some(copier) = &mut self.copier {
            copier.clear();
        }
    }
}
