//! TCP segments of one connection that follow each other, as a stack hands them to a port that leaves checksums and cutting to others.

use linerate_mem::{Batch, Checksum, Pool};
use linerate_wire::{Protocol, Stack, ethernet, ipv4, ipv6, tcp};

/// `count` segments of `len` bytes of data each, but the last, which has one byte less; with complete checksums.
pub fn tcp_segments(is_ipv6: bool, count: u32, len: usize) -> Vec<Vec<u8>> {
    let segment = |number: u32| {
        let link = ethernet::Header { dst: linerate_wire::MacAddress([0xff; 6]), ..Default::default() };
        let stack = Stack::new().with(link);
        let (src, dst) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let identification = number as u16;
        let stack = match is_ipv6 {
            true => stack.with(ipv6::Header::default()),
            false => stack.with(ipv4::Header { src, dst, dont_fragment: true, identification, ..Default::default() }),
        };
        let (sequence, flags) = (number * len as u32, tcp::Flags::ACK);
        let stack = stack.with(tcp::Header { src_port: 1, dst_port: 2, sequence, flags, ..Default::default() });
        let headers_len = stack.headers_len();
        let data_len = if number + 1 == count { len - 1 } else { len };
        let mut bytes = stack.build(headers_len + data_len).expect("room for the headers").bytes;
        for (place, at) in bytes[headers_len..].iter_mut().zip(sequence..) {
            *place = (at ^ at >> 8) as u8;
        }
        let pseudo = pseudo_sum(&bytes);
        tcp::Packet::new_unchecked(&mut bytes[headers_len - tcp::HEADER_LEN..]).fill_checksum(pseudo);
        bytes
    };
    (0..count).map(segment).collect()
}

/// Appends a segment with its checksum partial.
pub fn append_partial(batch: &mut Batch, pool: &mut Pool, segment: &[u8]) {
    assert!(pool.append(batch, segment, 0), "the pool and the batch have room");
    let at = batch.len() - 1;
    let pseudo = pseudo_sum(segment);
    let transport = transport_at(segment);
    tcp::Packet::new_unchecked(&mut batch.packet_mut(at)[transport..]).set_checksum(pseudo.fold());
    batch.set_checksum(at, Checksum::Partial);
}

fn transport_at(segment: &[u8]) -> usize {
    ethernet::HEADER_LEN + if segment[12] == 0x86 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN }
}

fn pseudo_sum(segment: &[u8]) -> linerate_wire::Sum {
    let (network, transport_len) = (&segment[ethernet::HEADER_LEN..], segment.len() - transport_at(segment));
    match segment[12] {
        0x86 => ipv6::Packet::new_unchecked(network).pseudo_sum(Protocol::TCP, transport_len as u32),
        _ => ipv4::Packet::new_unchecked(network).pseudo_sum(transport_len as u16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_right_and_partial_ones_are_found() {
        for is_ipv6 in [false, true] {
            let segments = tcp_segments(is_ipv6, 3, 101);
            assert!(segments.iter().all(|segment| linerate_wire::verify_checksums(segment).is_ok()));
            let mut pool = Pool::new(Default::default()).unwrap();
            let mut batch = Batch::new(&pool, 8);
            segments.iter().for_each(|segment| append_partial(&mut batch, &mut pool, segment));
            assert_eq!(linerate_port::merge_at(&batch, 0, 8).map(|merge| merge.segments()), Some(3));
            linerate_port::complete_checksums(&mut batch);
            assert!(batch.iter().eq(segments.iter().map(Vec::as_slice)));
        }
    }
}
