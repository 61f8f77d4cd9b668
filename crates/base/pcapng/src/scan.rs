//! Whole records in bytes that were encoded here.

use crate::FileFormat;
use crate::byte_order::ByteOrder;
use crate::record::{CLASSIC_START, ENHANCED_PACKET};

/// How many of the first `limit` bytes are whole records (or blocks) with at most `packets_max` packets, and how many packets
/// those hold.
///
/// `bytes` are records as [`crate::record`] writes them, without a file's head. For what is to be kept of a write that failed
/// in its middle, and for what still goes into a file that may not grow further.
pub fn whole_records(format: FileFormat, bytes: &[u8], limit: usize, packets_max: u64) -> (usize, u64) {
    let bytes = &bytes[..limit.min(bytes.len())];
    let (mut end, mut packets) = (0, 0);
    while let Some((len, is_packet)) = next(format, &bytes[end..]) {
        if is_packet && packets == packets_max {
            break;
        }
        end += len;
        packets += u64::from(is_packet);
    }
    (end, packets)
}

/// Length of the first record, and whether it is a packet; `None` when it is not whole.
fn next(format: FileFormat, bytes: &[u8]) -> Option<(usize, bool)> {
    let order = ByteOrder::Little;
    let (len, is_packet) = match format {
        FileFormat::Pcap if bytes.len() >= CLASSIC_START => (CLASSIC_START + order.u32(bytes, 8) as usize, true),
        FileFormat::Pcapng if bytes.len() >= 12 => {
            (order.u32(bytes, 4) as usize, order.u32(bytes, 0) == ENHANCED_PACKET)
        }
        _ => return None,
    };
    (len >= 12 && len <= bytes.len()).then_some((len, is_packet))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, PacketHead, Statistics, record, record_len, statistics};

    #[test]
    fn counts_what_is_whole_at_every_length() {
        for format in [FileFormat::Pcap, FileFormat::Pcapng] {
            let (mut bytes, mut ends) = (Vec::new(), vec![(0, 0)]);
            for kept in [60, 0, 61] {
                let at = bytes.len();
                bytes.resize(at + record_len(format, kept, Direction::Inbound), 0);
                let head = PacketHead { direction: Direction::Inbound, ..PacketHead::default() };
                record(format, &mut bytes[at..], &head, kept).unwrap();
                ends.push((bytes.len(), ends.len() as u64));
            }
            if format == FileFormat::Pcapng {
                statistics(&mut bytes, &Statistics::default());
                ends.push((bytes.len(), 3));
            }
            for limit in 0..=bytes.len() {
                let expected = ends.iter().rev().find(|(end, _)| *end <= limit).unwrap();
                assert_eq!(whole_records(format, &bytes, limit, u64::MAX), *expected);
            }
            assert_eq!(whole_records(format, &bytes, usize::MAX, u64::MAX).0, bytes.len());
            for packets in 0..3 {
                assert_eq!(whole_records(format, &bytes, usize::MAX, packets), ends[packets as usize]);
            }
        }
        assert_eq!(whole_records(FileFormat::Pcapng, &[0; 100], 100, 9), (0, 0));
    }
}
