//! Counting, for a receiver that reads no packet: a packet costs a look at the word of its slot. Its buffer is neither copied nor touched, and
//! goes back to the kernel with the slot, within the next sleep, which syncs.

use linerate_port::{Counted, Interest, PortError, RxCounter};

use crate::abi::{FRAGMENTS_MAX, MORE_FRAGMENTS, SlotWord};
use crate::fault::Corrupt;
use crate::port::{CHECK_NS, NetmapPort};
use crate::receive::Receiver;

/// Sleeps of one call, at most. A call looks at the interface once, which costs as much as a sleep does.
const SLEEPS_PER_CALL: u32 = 64;
/// A sleep that brings fewer packets is the last one of its call: time is no matter then, and the caller wants to see them.
const FEW_PACKETS: u64 = 32;

impl Receiver {
    /// Counts whole packets at the head of the ring, at most `packets` of them, in the totals, and gives their slots back at the next sync.
    ///
    /// # Errors
    /// A packet that is longer than its buffers, or has more slots than a packet may. What came before it was counted.
    #[inline]
    pub(crate) fn count(&mut self, packets: u64) -> Result<(), Corrupt> {
        let end = self.totals.packets.saturating_add(packets);
        while self.totals.packets < end && self.ring.available() > 0 {
            if !self.count_plain(end - self.totals.packets) && !self.count_other()? {
                self.ring.await_more();
                break;
            }
        }
        Ok(())
    }

    /// Counts packets of one slot as far as they go; false if there is none at the head.
    #[inline]
    fn count_plain(&mut self, packets: u64) -> bool {
        let ring = &self.ring;
        let (mut index, mut bytes, mut count) = (ring.head(), 0, 0);
        let len_max = ring.memory.buffer_bytes();
        for _ in 0..packets.min(u64::from(ring.available())) {
            let SlotWord { len, flags, .. } = ring.memory.slot(index);
            if flags & MORE_FRAGMENTS != 0 || len == 0 || usize::from(len) > len_max {
                break;
            }
            index = ring.next(index);
            bytes += u64::from(len);
            count += 1;
        }
        if count > 0 {
            self.totals.packets += count;
            self.totals.bytes += bytes;
            self.give_back(index);
        }
        count > 0
    }

    /// Counts the packet at the head, which has several slots, or no byte; false if its last slot has not arrived.
    #[cold]
    fn count_other(&mut self) -> Result<bool, Corrupt> {
        let mut words = [SlotWord::default(); FRAGMENTS_MAX];
        let Some(slots) = self.extent(&mut words)? else { return Ok(false) };
        let bytes: u64 = words[..slots as usize].iter().map(|word| u64::from(word.len)).sum();
        match bytes {
            0 => self.totals.empty += 1,
            _ => self.totals.packets += 1,
        }
        self.totals.bytes += bytes;
        self.give_back(self.ring.after(self.ring.head(), slots));
        Ok(true)
    }

    /// A sleep follows when all were counted, so slots that a sender waits for need not be kept for later ones.
    #[inline]
    fn give_back(&mut self, head: u32) {
        self.ring.release(head);
        self.gave_back = true;
    }
}

impl RxCounter for NetmapPort {
    fn count(&mut self, packets: u64, timeout_ns: u64) -> Result<Counted, PortError> {
        let mut counted = Counted::default();
        match self.count_into(&mut counted, packets, timeout_ns) {
            Err(error) if counted.packets == 0 => Err(error),
            _ => Ok(counted),
        }
    }
}

impl NetmapPort {
    fn count_into(&mut self, counted: &mut Counted, packets: u64, timeout_ns: u64) -> Result<(), PortError> {
        self.check_sound()?;
        if self.receiver.as_ref().is_some_and(|side| side.sender_waits) {
            self.let_far_end_finish();
        }
        self.count_arrived(counted, packets)?;
        if counted.packets == packets {
            return Ok(());
        }
        self.check_up().map_err(|fault| self.broken(fault))?;
        let sleep_ns = timeout_ns.min(CHECK_NS);
        for _ in 0..SLEEPS_PER_CALL {
            if !self.sleep(Interest::Receive, sleep_ns)? {
                counted.idle_ns = sleep_ns;
                break;
            }
            let before = counted.packets;
            self.count_arrived(counted, packets)?;
            if counted.packets == packets || counted.packets - before < FEW_PACKETS {
                break;
            }
        }
        Ok(())
    }

    /// Counts what the last sync showed.
    #[inline]
    fn count_arrived(&mut self, counted: &mut Counted, packets: u64) -> Result<(), PortError> {
        let Some(side) = &mut self.receiver else { return Ok(()) };
        let before = side.totals;
        let outcome = side.count(packets - counted.packets);
        let found = side.totals.packets - before.packets;
        counted.packets += found;
        counted.bytes += side.totals.bytes - before.bytes;
        counted.batches += u64::from(found > 0);
        outcome.map_err(|corrupt| self.broken(corrupt.into()))
    }
}
