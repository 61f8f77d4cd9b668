//! Packets to write: the bytes around them.

/// Format of a file that is written, with nanoseconds in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// pcap.
    Pcap,
    /// pcapng.
    Pcapng,
}

impl FileFormat {
    /// pcap for names that end in `.pcap` (or `.pcap.zst`), else pcapng.
    pub fn of(path: &str) -> FileFormat {
        let path = path.strip_suffix(".zst").unwrap_or(path);
        if path.ends_with(".pcap") { FileFormat::Pcap } else { FileFormat::Pcapng }
    }
}

/// Which way a packet went, as seen from the host that captured it (bits 0 and 1 of `epb_flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The file does not say; costs nothing to write.
    #[default]
    Unknown,
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

impl Direction {
    /// The bits of `epb_flags`.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Direction::Unknown => 0,
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        }
    }

    /// From `epb_flags`.
    pub(crate) fn of_flags(flags: u32) -> Direction {
        match flags & 3 {
            1 => Direction::Inbound,
            2 => Direction::Outbound,
            _ => Direction::Unknown,
        }
    }
}

/// What is written of a packet, beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketHead {
    /// Number of its interface in the file, from 0; pcap has no place for it.
    pub interface: u32,
    /// Nanoseconds since 1970. pcap has 32 bits of seconds, which last until 2106.
    pub time_ns: u64,
    /// Bytes that the packet had.
    pub original_len: u32,
    /// Which way it went; pcap has no place for it.
    pub direction: Direction,
}

/// Bytes of a record header of pcap.
pub(crate) const CLASSIC_START: usize = 16;
/// Bytes before the packet in an enhanced packet block, and behind it without options.
const BLOCK_START: usize = 28;
const BLOCK_END: usize = 4;
/// `epb_flags` and the end of the options.
const FLAGS: usize = 12;

pub(crate) const ENHANCED_PACKET: u32 = 6;
pub(crate) const OPTION_FLAGS: u16 = 2;

/// Bytes of the record of a packet of which `kept` bytes are written.
#[inline]
pub fn record_len(format: FileFormat, kept: usize, direction: Direction) -> usize {
    match format {
        FileFormat::Pcap => CLASSIC_START + kept,
        FileFormat::Pcapng => BLOCK_START + kept.next_multiple_of(4) + options_len(direction) + BLOCK_END,
    }
}

#[inline]
fn options_len(direction: Direction) -> usize {
    if direction == Direction::Unknown { 0 } else { FLAGS }
}

/// Writes a record into `to`, all but the bytes of the packet, and gives the place for those: `kept` bytes, which have no value
/// worth reading yet.
///
/// `None`, and `to` is as it was, when `to` does not have [`record_len`] bytes.
#[inline]
pub fn record<'a>(format: FileFormat, to: &'a mut [u8], head: &PacketHead, kept: usize) -> Option<&'a mut [u8]> {
    if to.len() != record_len(format, kept, head.direction) {
        return None;
    }
    match format {
        FileFormat::Pcap => classic(to, head, kept),
        FileFormat::Pcapng => enhanced(to, head, kept),
    }
}

#[inline]
fn classic<'a>(to: &'a mut [u8], head: &PacketHead, kept: usize) -> Option<&'a mut [u8]> {
    let seconds = (head.time_ns / 1_000_000_000).min(u64::from(u32::MAX)) as u32;
    let (start, packet) = to.split_first_chunk_mut::<CLASSIC_START>()?;
    words(start, [seconds, (head.time_ns % 1_000_000_000) as u32, kept as u32, head.original_len]);
    Some(packet)
}

#[inline]
fn enhanced<'a>(to: &'a mut [u8], head: &PacketHead, kept: usize) -> Option<&'a mut [u8]> {
    let len = to.len() as u32;
    let (start, rest) = to.split_first_chunk_mut::<BLOCK_START>()?;
    let (high, low) = ((head.time_ns >> 32) as u32, head.time_ns as u32);
    words(start, [ENHANCED_PACKET, len, head.interface, high, low, kept as u32, head.original_len]);
    let (padded, rest) = rest.split_at_mut_checked(kept.next_multiple_of(4))?;
    // The last word is cleared whole, the packet's bytes in it included: those are written after this, and a store of a fixed
    // length costs less than a call to clear one to three bytes.
    if padded.len() > kept
        && let Some(last) = padded.last_chunk_mut::<4>()
    {
        *last = [0; 4];
    }
    let packet = padded.get_mut(..kept)?;
    if head.direction == Direction::Unknown {
        words(rest.first_chunk_mut::<BLOCK_END>()?, [len]);
    } else {
        let option = u32::from(OPTION_FLAGS) | 4 << 16;
        words(rest.first_chunk_mut::<{ FLAGS + BLOCK_END }>()?, [option, head.direction.bits(), 0, len]);
    }
    Some(packet)
}

/// Little-endian words into as many bytes as they have.
#[inline]
fn words<const BYTES: usize, const WORDS: usize>(to: &mut [u8; BYTES], words: [u32; WORDS]) {
    const { assert!(BYTES == 4 * WORDS) };
    for (place, word) in to.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_as_long_as_it_says_and_keeps_to_its_place() {
        for format in [FileFormat::Pcap, FileFormat::Pcapng] {
            for direction in [Direction::Unknown, Direction::Inbound, Direction::Outbound] {
                for kept in 0..9 {
                    let len = record_len(format, kept, direction);
                    let head = PacketHead { direction, original_len: 99, ..PacketHead::default() };
                    let mut bytes = vec![0xee; len];
                    assert_eq!(record(format, &mut bytes, &head, kept).unwrap().len(), kept);
                    // All around the packet's place is written.
                    record(format, &mut bytes, &head, kept).unwrap().fill(0xee);
                    assert_eq!(bytes.iter().filter(|byte| **byte == 0xee).count(), kept);
                    for wrong in [len - 1, len + 1] {
                        let mut bytes = vec![0xee; wrong];
                        assert!(record(format, &mut bytes, &head, kept).is_none());
                        assert!(bytes.iter().all(|byte| *byte == 0xee));
                    }
                }
            }
        }
    }

    #[test]
    fn names_tell_formats() {
        assert_eq!(FileFormat::of("a.pcap"), FileFormat::Pcap);
        assert_eq!(FileFormat::of("a.pcap.zst"), FileFormat::Pcap);
        for name in ["a.pcapng", "a.pcapng.zst", "a", "pcap"] {
            assert_eq!(FileFormat::of(name), FileFormat::Pcapng);
        }
    }
}
