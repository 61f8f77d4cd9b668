//! Frames on their way: packets go out with theirs, and free ones go to the side that has too few.

use std::sync::atomic::{AtomicU32, Ordering, fence};

use linerate_mem::{Batch, LOANED, Totals};
use linerate_port::{Fitting, PortError};

use super::{FRAME_LEN_MAX, ShmPort, lock};
use crate::layout::asleep;

/// Frames beyond its share that a side keeps before it gives any back.
pub(super) const SLACK: usize = 64;
/// Free frames given back in one call, at most.
pub(super) const GIVE_BACK_MAX: usize = 512;

impl ShmPort {
    /// Takes back all frames that the other side had: its process is gone.
    pub(super) fn reclaim(&mut self) {
        lock(&self.ownership).reclaim(&mut self.pool);
    }

    /// Takes the free frames that came back into the pool. A peer cannot keep this call: a frame comes back once for each time that it
    /// went, so that there are never more than went before.
    #[inline]
    pub(super) fn collect_free(&mut self) -> Result<(), PortError> {
        match self.free_in.look() {
            Ok(0) => Ok(()),
            Ok(_) => self.collect_some(),
            Err(corrupt) => Err(self.corrupt(corrupt)),
        }
    }

    #[cold]
    pub(super) fn collect_some(&mut self) -> Result<(), PortError> {
        loop {
            let ShmPort { ownership, pool, free_in, .. } = self;
            // A word of free frames has no run, so taking it cannot fail.
            let read = |words: &mut [u64]| free_in.take(words, |_| false).unwrap_or(0);
            let came = lock(ownership).import_free(pool, read, |_| true);
            match came {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(invalid) => return Err(self.invalid(invalid)),
            }
        }
    }

    /// Gives free frames beyond this side's share to the other one, `most` at most.
    #[inline]
    pub(super) fn give_back(&mut self, most: usize) -> Result<(), PortError> {
        let owned = self.link.shape.frames as usize - lock(&self.ownership).loaned();
        let beyond = owned.saturating_sub(self.share);
        if beyond < SLACK { Ok(()) } else { self.give_back_some(beyond.min(most)) }
    }

    pub(super) fn give_back_some(&mut self, mut beyond: usize) -> Result<(), PortError> {
        while beyond > 0 {
            if let Err(corrupt) = self.free_out.room(beyond.min(SLACK)) {
                return Err(self.corrupt(corrupt));
            }
            let ShmPort { ownership, pool, free_out, .. } = self;
            let went = lock(ownership).export_free(pool, beyond.min(SLACK), LOANED, |words| free_out.put(words));
            match went {
                0 => break,
                went => beyond -= went,
            }
        }
        Ok(())
    }

    #[inline]
    pub(super) fn count_sent(&mut self, before: Totals, after: Totals) -> usize {
        let packets = before.packets - after.packets;
        self.stats.tx_packets += packets;
        self.stats.tx_bytes += before.bytes - after.bytes;
        packets as usize
    }

    /// Exports the first slots of the batch, `count` at most, which the ring has room for.
    #[inline]
    pub(super) fn send(&mut self, batch: &mut Batch, count: usize) {
        let ShmPort { ownership, packets_out, .. } = self;
        lock(ownership).export(batch, count, |_| LOANED, |words| packets_out.put(words));
        self.ring_bell();
    }

    /// The batch holds packets of several slots: sends those that fit as a whole, up to one that is too long.
    #[cold]
    pub(super) fn transmit_long(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let room = match self.packets_out.room(self.packets_out.capacity()) {
            Ok(room) => room,
            Err(corrupt) => return Err(self.corrupt(corrupt)),
        };
        let room = if self.is_over() { usize::MAX } else { room };
        let fitting = Fitting::new(batch, room, FRAME_LEN_MAX, self.caps.frags_max);
        self.room_wanted = fitting.room_wanted;
        let before = batch.totals();
        if self.is_over() {
            self.pool.free_front(batch, fitting.slots);
            self.lost += fitting.packets as u64;
        } else if fitting.slots > 0 {
            self.send(batch, fitting.slots);
            self.count_sent(before, batch.totals());
        } else {
            self.idle()?;
        }
        match fitting.too_long {
            Some(len) => Err(PortError::FrameTooLong { port: self.caps.name.clone(), len, max: FRAME_LEN_MAX }),
            None => Ok(fitting.packets),
        }
    }

    #[cold]
    pub(super) fn lose(&mut self, batch: &mut Batch, totals: Totals) -> usize {
        self.pool.free(batch);
        self.lost += totals.packets;
        totals.packets as usize
    }

    /// Wakes the other side if it sleeps. The fence orders what was written before with the look at its wish; it puts one
    /// between its wish and its last look at the rings.
    #[inline]
    pub(super) fn ring_bell(&self) {
        fence(Ordering::SeqCst);
        let wish = self.link.words.index(asleep(1 - self.side));
        if wish.load(Ordering::Relaxed) != 0 {
            self.wake(wish);
        }
    }

    #[cold]
    pub(super) fn wake(&self, wish: &AtomicU32) {
        wish.store(0, Ordering::Relaxed);
        self.link.wake();
    }
}
