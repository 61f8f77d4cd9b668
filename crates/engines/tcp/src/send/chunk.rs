//! A chunk: the bytes of one segment as it is sent, behind a header of 16 bytes, in whole cache lines.
//!
//! ```text
//! next u32 | seq u32 | stamp u32 | len u16 | marks u8 | transmissions u8 | bytes ...
//! ```
//! `stamp` is the time of the last transmission in microseconds. For a chunk that is marked SACKED it is the handle of a later chunk of
//! the same run of SACKED chunks (or of the chunk itself), so that a walk passes over a run in few steps.

use crate::Seq;

/// Bytes of a cache line, in which chunks are measured.
pub(super) const LINE: usize = 64;
/// Bytes of a chunk's header.
pub(super) const HEADER: usize = 16;

/// Most bytes of data in a chunk of the smallest size.
pub(super) const SMALL_MAX: usize = LINE - HEADER;

/// The memory of a chunk is one or more of these.
pub(super) type Line = [u8; LINE];

/// Marks of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u8);

impl Marks {
    /// The chunk begins with a SYN, which takes one sequence number.
    pub const SYN: Marks = Marks(1);
    /// The chunk ends with a FIN, which takes one sequence number.
    pub const FIN: Marks = Marks(1 << 1);
    /// The peer reported by SACK that it holds the chunk.
    pub const SACKED: Marks = Marks(1 << 2);
    /// The last transmission but those of `RESENT` is taken for lost.
    pub const LOST: Marks = Marks(1 << 3);
    /// A retransmission is in flight.
    pub const RESENT: Marks = Marks(1 << 4);

    /// True if all marks of `other` are set.
    #[inline]
    pub const fn has(self, other: Marks) -> bool {
        self.0 & other.0 == other.0
    }

    /// These marks and `other`.
    #[inline]
    pub const fn with(self, other: Marks) -> Marks {
        Marks(self.0 | other.0)
    }

    /// These marks without `other`.
    #[inline]
    pub const fn without(self, other: Marks) -> Marks {
        Marks(self.0 & !other.0)
    }

    /// Sequence numbers that SYN and FIN take.
    #[inline]
    pub const fn numbers(self) -> u32 {
        (self.0 & 1) as u32 + (self.0 >> 1 & 1) as u32
    }
}

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Handle of the chunk behind it.
    pub next: u32,
    /// First sequence number.
    pub seq: Seq,
    /// Microseconds of the last transmission; a handle for a SACKED chunk.
    pub stamp: u32,
    /// Bytes of data.
    pub len: u16,
    /// Marks.
    pub marks: Marks,
    /// Times that the chunk was sent, at most 255; 0 before the first one.
    pub transmissions: u8,
}

impl Header {
    /// The header at the front of `line`.
    #[inline]
    pub fn read(line: &Line) -> Header {
        let word = |at: usize| u32::from_le_bytes([line[at], line[at + 1], line[at + 2], line[at + 3]]);
        Header {
            next: word(0),
            seq: Seq(word(4)),
            stamp: word(8),
            len: u16::from_le_bytes([line[12], line[13]]),
            marks: Marks(line[14]),
            transmissions: line[15],
        }
    }

    /// Writes the header to the front of `line`.
    #[inline]
    pub fn write(&self, line: &mut Line) {
        line[..4].copy_from_slice(&self.next.to_le_bytes());
        line[4..8].copy_from_slice(&self.seq.0.to_le_bytes());
        line[8..12].copy_from_slice(&self.stamp.to_le_bytes());
        // In one piece, as it is read where a short way is taken.
        let lengths = u32::from(self.len) | u32::from(self.marks.0) << 16 | u32::from(self.transmissions) << 24;
        line[12..16].copy_from_slice(&lengths.to_le_bytes());
    }

    /// Changes the link of the chunk that begins with `line`.
    #[inline]
    pub fn write_next(line: &mut Line, next: u32) {
        line[..4].copy_from_slice(&next.to_le_bytes());
    }

    /// Notes the first transmission of the chunk that begins with `line`.
    #[inline]
    pub fn write_sent(line: &mut Line, stamp: u32) {
        line[8..12].copy_from_slice(&stamp.to_le_bytes());
        line[15] = 1;
    }

    /// Length, marks and transmissions of the chunk that begins with `line`, in this order from the lowest bits on.
    #[inline(always)]
    pub fn length_word(line: &Line) -> u32 {
        u32::from_le_bytes([line[12], line[13], line[14], line[15]])
    }

    /// Stamp of the chunk that begins with `line`.
    #[inline(always)]
    pub fn stamp_of(line: &Line) -> u32 {
        u32::from_le_bytes([line[8], line[9], line[10], line[11]])
    }

    /// Sequence numbers that the chunk takes.
    #[inline]
    pub fn span(&self) -> u32 {
        u32::from(self.len) + self.marks.numbers()
    }

    /// Sequence number behind the chunk.
    #[inline]
    pub fn end(&self) -> Seq {
        self.seq + self.span()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = Header {
            next: 0xdead_beef,
            seq: Seq(0x0102_0304),
            stamp: 77,
            len: 1448,
            marks: Marks::FIN.with(Marks::LOST),
            transmissions: 3,
        };
        let mut line = [0xff; LINE];
        header.write(&mut line);
        assert_eq!(Header::read(&line), header);
        assert!(line[HEADER..].iter().all(|byte| *byte == 0xff));
        assert_eq!((header.span(), header.end()), (1449, Seq(0x0102_0304) + 1449));
    }

    #[test]
    fn marks_are_sets() {
        let marks = Marks::SYN.with(Marks::FIN).with(Marks::SACKED);
        assert!(marks.has(Marks::SYN) && !marks.has(Marks::LOST) && marks.without(Marks::SYN).numbers() == 1);
        assert_eq!((marks.numbers(), Marks::RESENT.numbers()), (2, 0));
    }
}
