//! From the guest: packets that its driver transmits, copied once into frames of the pool.

use linerate_mem::{Batch, Pool, Scattered, Written};

use crate::memory::GuestMemory;
use crate::ring::{Budget, Corrupt, Ring, SgList};
use crate::sys::Span;
use crate::transmit::ETHERNET_BYTES;

/// Entries that are looked at before the first of them is copied, so that their lines come at the same time.
const CHUNK: usize = 32;
/// Flag of the header: the checksum is for the device to complete.
const NEEDS_CHECKSUM: u8 = 1;

/// Packets of the guest that were not received, by cause.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refused {
    /// Shorter than an Ethernet header.
    pub too_short: u64,
    /// Longer than the port's MTU allows.
    pub too_long: u64,
    /// With work left to the device that it did not offer to do.
    pub incomplete: u64,
}

/// What is received, and how.
pub(crate) struct Receiver<'a> {
    pub pool: &'a mut Pool,
    pub batch: &'a mut Batch,
    /// Bytes of the longest packet.
    pub frame_len_max: usize,
    /// Bytes of the header in front of each.
    pub header_bytes: usize,
    pub packets: u64,
    pub bytes: u64,
    pub refused: Refused,
    /// What the call may still spend on anything but packets of one buffer.
    pub budget: Budget,
}

/// What became of one packet.
enum Step {
    /// It was received or refused; its entry is used.
    Done,
    /// There is no room or no frame for it.
    Wait,
}

impl Receiver<'_> {
    /// Receives what waits in the ring, as far as there is room and the call's budget goes.
    #[inline]
    pub(crate) fn receive(&mut self, ring: &mut Ring, memory: &GuestMemory) -> Result<(), Corrupt> {
        let mut left = usize::from(ring.waiting()?);
        let plain_len_max = self.header_bytes + self.frame_len_max.min(self.pool.packet_len_max());
        while left > 0 && self.batch.room() > 0 && !self.budget.is_spent() {
            let wanted = left.min(CHUNK).min(self.batch.room());
            let mut plain = [(Span::EMPTY, 0); CHUNK];
            let mut count = 0;
            ring.prefetch(wanted);
            while count < wanted {
                let head = ring.head(count as u16);
                let found = ring.descriptor(head)?;
                let len = found.len as usize;
                if found.flags != 0 || len < self.header_bytes + ETHERNET_BYTES || len > plain_len_max {
                    break;
                }
                let Some(span) = memory.find(found.address, len) else { break };
                span.prefetch(len);
                plain[count] = (span, head);
                count += 1;
            }
            let taken = self.copy(ring, &plain[..count]);
            self.budget.spend(count - taken);
            left -= taken;
            if taken < wanted {
                match self.receive_odd(ring, memory)? {
                    Step::Done => left -= 1,
                    Step::Wait => break,
                }
            }
        }
        Ok(())
    }

    /// Copies packets of one buffer and one frame; stops at one that is incomplete, or without a free frame.
    #[inline]
    fn copy(&mut self, ring: &mut Ring, plain: &[(Span<'_>, u16)]) -> usize {
        let (mut entries, mut bytes) = (plain.iter(), 0);
        let header_bytes = self.header_bytes;
        let taken = self.pool.fill(self.batch, plain.len(), |frame| {
            let (span, head) = entries.next()?;
            if span.read_u16() != Some(0) {
                return None;
            }
            let len = span.split(header_bytes).1.read(frame);
            ring.use_next(*head, 0);
            bytes += len as u64;
            Some(Written { len, ..Written::default() })
        });
        self.packets += taken as u64;
        self.bytes += bytes;
        taken
    }

    /// The next packet, whatever it looks like.
    #[cold]
    fn receive_odd(&mut self, ring: &mut Ring, memory: &GuestMemory) -> Result<Step, Corrupt> {
        let head = ring.head(0);
        let mut sg = SgList::new();
        ring.gather(memory, head, false, &mut sg)?;
        self.budget.spend(sg.looks());
        let mut cursor = sg.cursor();
        let mut kind = [0; 2];
        let seen = cursor.read(&mut kind);
        let _ = cursor.skip(self.header_bytes - seen);
        let len = sg.bytes().saturating_sub(self.header_bytes);
        if len < ETHERNET_BYTES {
            self.refused.too_short += 1;
        } else if kind[0] & NEEDS_CHECKSUM != 0 || kind[1] != 0 {
            self.refused.incomplete += 1;
        } else if len > self.frame_len_max {
            self.refused.too_long += 1;
        } else {
            match self.pool.scatter(self.batch, len, 0, |frame| _ = cursor.read(frame)) {
                Scattered::NotNow => return Ok(Step::Wait),
                Scattered::TooLong => self.refused.too_long += 1,
                Scattered::Done => {
                    self.packets += 1;
                    self.bytes += len as u64;
                }
            }
        }
        ring.use_next(head, 0);
        Ok(Step::Done)
    }
}
