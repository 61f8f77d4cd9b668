//! [`LongPacket`]: a packet on its way into batches that does not go as it arrived: longer than a frame, or merged of several.

use std::ops::Range;

use linerate_mem::{Batch, Checksum, Pool, Scattered};
use linerate_wire::Segments;

use crate::{Stats, VnetHeader};

/// A packet that a port hands out in parts: segments, or frags.
pub struct LongPacket {
    /// A note, and the packet behind it.
    area: Box<[u8]>,
    time_ns: u64,
    /// Where the part is that is handed out next; empty when there is none.
    next: Range<usize>,
    /// How it is cut, if it is merged.
    segments: Option<Segments>,
    /// Of each part.
    checksum: Checksum,
}

/// Why a packet cannot be handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// It is merged of several, in a way that is not known here.
    NotCut,
    /// It has a partial checksum of a kind that is not known here.
    NotCompleted,
}

impl LongPacket {
    /// Longest packet that a kernel makes of several, in bytes: an IPv6 payload of 65,535, its header, Ethernet and two tags.
    pub const LEN_MAX: usize = 65_535 + 40 + 14 + 2 * 4;

    /// None yet, with room for any.
    pub fn new() -> LongPacket {
        let area = vec![0; VnetHeader::BYTES + LongPacket::LEN_MAX].into();
        LongPacket { area, time_ns: 0, next: 0..0, segments: None, checksum: Checksum::Unknown }
    }

    /// True if nothing is left to be handed out.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// Where a packet is read to before [`LongPacket::begin`]; [`LongPacket::LEN_MAX`] bytes.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.area[VnetHeader::BYTES..]
    }

    /// The same place with [`VnetHeader::BYTES`] bytes in front of it, for ports that read a packet and its note in one piece.
    #[inline]
    pub fn note_and_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.area
    }

    /// Begins to hand out the packet in the first `len` bytes, which arrived at `time_ns` with this note.
    ///
    /// # Errors
    /// It cannot be cut, or its checksum cannot be completed; it is lost then.
    pub fn begin(&mut self, len: usize, note: &VnetHeader, time_ns: u64) -> Result<(), Unfinished> {
        let bytes = &mut self.area[VnetHeader::BYTES..];
        let len = len.min(bytes.len());
        self.time_ns = time_ns;
        if note.is_merged() {
            let mut segments = note.segments(&bytes[..len]).ok_or(Unfinished::NotCut)?;
            self.next = segments.next(bytes).unwrap_or(0..0);
            self.checksum = if segments.checksums_are_partial() { Checksum::Partial } else { Checksum::Unknown };
            self.segments = Some(segments);
        } else {
            self.checksum = note.checksum(&mut bytes[..len]).ok_or(Unfinished::NotCompleted)?;
            (self.next, self.segments) = (0..len, None);
        }
        Ok(())
    }

    /// Appends what is left, as far as there are room and frames, and counts it; true when that was all. A part that no batch has room for
    /// is counted in `too_long`.
    pub fn hand_out(&mut self, pool: &mut Pool, batch: &mut Batch, stats: &mut Stats, too_long: &mut u64) -> bool {
        let bytes = &mut self.area[VnetHeader::BYTES..];
        while !self.next.is_empty() {
            let (packet, first) = (&bytes[self.next.clone()], batch.len());
            match pool.scatter_bytes(batch, packet, self.time_ns) {
                Scattered::NotNow => return false,
                Scattered::TooLong => *too_long += 1,
                Scattered::Done => {
                    batch.set_checksum(first, self.checksum);
                    stats.rx_packets += 1;
                    stats.rx_bytes += packet.len() as u64;
                }
            }
            self.next = self.segments.as_mut().and_then(|left| left.next(bytes)).unwrap_or(0..0);
        }
        true
    }
}

impl Default for LongPacket {
    fn default() -> LongPacket {
        LongPacket::new()
    }
}
