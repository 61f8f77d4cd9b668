//! Receiving: packets of the ring are copied into frames of the pool, or their buffers become frames of it.

use linerate_mem::{Batch, Checksum, Pool, Scattered, Written};

use crate::abi::{FRAGMENTS_MAX, MORE_FRAGMENTS, SlotWord};
use crate::exchange::Exchange;
use crate::fault::Corrupt;
use crate::ring::Ring;

/// Slots from one whose packet is copied to the one whose packet is asked for: buffers are too far apart for the processor to foresee them.
const AHEAD: u32 = 12;

/// Totals of what arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub packets: u64,
    pub bytes: u64,
    /// Packets that no batch of this size, or no pool, takes.
    pub too_long: u64,
    /// Packets without a byte.
    pub empty: u64,
}

/// A receive ring.
pub(crate) struct Receiver {
    pub ring: Ring,
    pub totals: Received,
    /// The sender waits for these slots (a pipe, a veth pair): they are given back many at a time, so that it is woken for many.
    pub sender_waits: bool,
    /// Some of them were given back since the last sync.
    pub gave_back: bool,
    /// Buffers change places with frames of the pool.
    exchange: Option<Exchange>,
}

impl Receiver {
    pub(crate) fn new(ring: Ring, sender_waits: bool, exchange: Option<Exchange>) -> Receiver {
        Receiver { ring, totals: Received::default(), sender_waits, gave_back: false, exchange }
    }

    /// Gives the slots before `head` back, at the next sync; few of them only together with later ones, or by [`Receiver::release_all`].
    #[inline]
    fn release(&mut self, head: u32) {
        self.ring.pass(head);
        if !self.sender_waits || self.ring.kept() >= self.ring.memory.slots() / 4 {
            self.ring.release(head);
            self.gave_back = true;
        }
    }

    /// Whether a sync is due for the sender's sake. Where all packets were read, a caller that sleeps on the descriptor next syncs by that.
    #[inline]
    pub(crate) fn must_sync(&self, sleeps: bool) -> bool {
        let drained = self.ring.available() == 0;
        self.sender_waits && if drained { !sleeps && (self.gave_back || self.ring.kept() > 0) } else { self.gave_back }
    }

    /// Gives back all slots that were read, at the next sync.
    #[inline]
    pub(crate) fn release_all(&mut self) {
        if self.ring.kept() > 0 {
            self.ring.release(self.ring.head());
        }
    }

    /// Moves packets that the last sync showed to the end of the batch; returns how many.
    ///
    /// # Errors
    /// A slot names a buffer that there is not, or a packet that is not inside its buffer. What came before it is in the batch.
    #[inline]
    pub(crate) fn receive(&mut self, batch: &mut Batch, pool: &mut Pool) -> Result<usize, Corrupt> {
        if self.exchange.is_some() {
            return self.exchange(batch, pool);
        }
        let mut packets = 0;
        loop {
            let (copied, stop) = self.copy_plain(batch, pool);
            packets += copied;
            match stop? {
                Stop::Other => {
                    let Some(copied) = self.copy_other(batch, pool)? else { return Ok(packets) };
                    packets += copied;
                }
                Stop::Done => return Ok(packets),
            }
        }
    }

    /// As [`Receiver::receive`], where buffers change places with frames of the pool.
    #[inline]
    fn exchange(&mut self, batch: &mut Batch, pool: &mut Pool) -> Result<usize, Corrupt> {
        let mut packets = 0;
        while self.ring.available() > 0 && batch.room() > 0 {
            let Some(exchange) = &self.exchange else { break };
            let moved = exchange.receive(&self.ring, batch, pool)?;
            if moved.slots > 0 {
                packets += moved.packets as usize;
                self.totals.packets += moved.packets;
                self.totals.bytes += moved.bytes;
                self.release(self.ring.after(self.ring.head(), moved.slots));
                continue;
            }
            // An odd one: an empty slot, more slots than fit, or no frame is free.
            let Some(copied) = self.copy_other(batch, pool)? else { break };
            packets += copied;
        }
        Ok(packets)
    }

    /// Copies packets of one slot as far as they go.
    #[inline]
    fn copy_plain(&mut self, batch: &mut Batch, pool: &mut Pool) -> (usize, Result<Stop, Corrupt>) {
        let ring = &self.ring;
        let (mut index, mut left, mut bytes) = (ring.head(), ring.available(), 0);
        let mut stop = Ok(Stop::Done);
        let (len_max, ahead) = (pool.packet_len_max(), AHEAD.min(ring.memory.slots()));
        let copied = pool.fill(batch, left as usize, |frame| {
            if left == 0 {
                return None;
            }
            let slot = ring.memory.slot(index);
            ring.memory.prefetch(ring.memory.slot(ring.after(index, ahead)).buffer);
            let len = usize::from(slot.len);
            if slot.flags & MORE_FRAGMENTS != 0 || len > len_max || len == 0 {
                stop = Ok(Stop::Other);
                return None;
            }
            if !ring.memory.read(slot.buffer, ring.memory.offset(index), frame.get_mut(..len)?) {
                stop = Err(wrong_slot(ring, index, slot));
                return None;
            }
            index = ring.next(index);
            left -= 1;
            bytes += len as u64;
            Some(Written { len, time_ns: 0, checksum: Checksum::Unknown })
        });
        if copied > 0 {
            self.release(index);
            self.totals.packets += copied as u64;
            self.totals.bytes += bytes;
        }
        (copied, stop)
    }

    /// Takes the packet at the head, which has several slots, more bytes than a frame, or none. Returns the number of packets appended;
    /// `None` if the packet must wait.
    #[cold]
    fn copy_other(&mut self, batch: &mut Batch, pool: &mut Pool) -> Result<Option<usize>, Corrupt> {
        let mut words = [SlotWord::default(); FRAGMENTS_MAX];
        let Some(slots) = self.extent(&mut words)? else { return Ok(None) };
        let words = &words[..slots as usize];
        let len: usize = words.iter().map(|slot| usize::from(slot.len)).sum();
        if len == 0 {
            self.totals.empty += 1;
            self.release(self.ring.after(self.ring.head(), slots));
            return Ok(Some(0));
        }
        let ring = &self.ring;
        if let Some(exchange) = &self.exchange {
            // A frame of the pool could be what is copied.
            let table = exchange.table();
            if let Some((place, word)) = (0..).zip(words).find(|(_, word)| !table.is_loaned(word.buffer)) {
                return Err(wrong_slot(ring, ring.after(ring.head(), place), *word));
            }
        }
        let (mut slot, mut done, mut wrong) = (0, 0, None);
        let scattered = pool.scatter(batch, len, 0, |mut to| {
            // Frames and slots have borders of their own.
            while !to.is_empty() && wrong.is_none() {
                let Some(word) = words.get(slot) else { return };
                let (now, later) = to.split_at_mut(to.len().min(usize::from(word.len) - done));
                let index = ring.after(ring.head(), slot as u32);
                if !ring.memory.read(word.buffer, ring.memory.offset(index) + done as u64, now) {
                    wrong = Some(wrong_slot(ring, index, *word));
                }
                done += now.len();
                if done >= usize::from(word.len) {
                    (slot, done) = (slot + 1, 0);
                }
                to = later;
            }
        });
        if let Some(wrong) = wrong {
            let appended = len.div_ceil(pool.packet_len_max());
            pool.free_back(batch, appended);
            return Err(wrong);
        }
        let appended = match scattered {
            Scattered::NotNow => return Ok(None),
            Scattered::TooLong => {
                self.totals.too_long += 1;
                0
            }
            Scattered::Done => {
                self.totals.packets += 1;
                self.totals.bytes += len as u64;
                1
            }
        };
        self.release(self.ring.after(self.ring.head(), slots));
        Ok(Some(appended))
    }

    /// Reads the slots of the packet at the head, each once, and returns their number; `None` if the last one has not arrived.
    pub(crate) fn extent(&self, words: &mut [SlotWord; FRAGMENTS_MAX]) -> Result<Option<u32>, Corrupt> {
        let mut index = self.ring.head();
        let most = (FRAGMENTS_MAX as u32).min(self.ring.memory.slots() - 1);
        for (slots, word) in (1..=self.ring.available()).zip(words) {
            *word = self.ring.memory.slot(index);
            if usize::from(word.len) > self.ring.memory.buffer_bytes() {
                return Err(wrong_slot(&self.ring, index, *word));
            }
            if word.flags & MORE_FRAGMENTS == 0 {
                return Ok(Some(slots));
            }
            if slots >= most {
                return Err(Corrupt(format!("a packet of more than {most} slots")));
            }
            index = self.ring.next(index);
        }
        Ok(None)
    }
}

/// Why [`Receiver::copy_plain`] ended.
enum Stop {
    /// There is no packet, no room or no frame.
    Done,
    /// The next packet is one that it does not take.
    Other,
}

#[cold]
fn wrong_slot(ring: &Ring, index: u32, slot: SlotWord) -> Corrupt {
    let SlotWord { buffer, len, .. } = slot;
    let offset = ring.memory.offset(index);
    Corrupt(format!(
        "slot {index} with {len} bytes from byte {offset} of buffer {buffer} on, which are not in the area"
    ))
}
