//! [`VnetHeader`]: what a kernel notes in front of a packet whose checksum or cutting is left to others (`struct virtio_net_hdr`,
//! linux/virtio_net.h), for sockets with PACKET_VNET_HDR and TAP devices with IFF_VNET_HDR, in both directions.

use linerate_mem::{Batch, Checksum};
use linerate_wire::{Merge, PartialChecksum, Segments};

use crate::{complete_checksum, find_partial};

/// VIRTIO_NET_HDR_F_NEEDS_CSUM: the checksum is partial.
const NEEDS_CHECKSUM: u8 = 1;
/// VIRTIO_NET_HDR_GSO_NONE, and the bit that says that CWR is for the first segment only.
const NOT_MERGED: u8 = 0;
const ECN: u8 = 0x80;
/// VIRTIO_NET_HDR_GSO_TCPV4 and VIRTIO_NET_HDR_GSO_TCPV6.
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
/// Where TCP has its checksum.
const TCP_CHECKSUM_AT: usize = 16;
/// Where SCTP has its checksum, which is no sum (RFC 9260 appendix A); no other protocol has a checksum there.
const SCTP_CHECKSUM_AT: usize = 8;

/// The note. The default says nothing: the packet is whole, and its checksum is complete or not to be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    needs_checksum: bool,
    merged: u8,
    headers_bytes: usize,
    segment_bytes: usize,
    checksum_start: usize,
    checksum_offset: usize,
}

impl VnetHeader {
    /// Bytes of the structure: flags, gso_type, hdr_len, gso_size, csum_start, csum_offset, in the order of this machine's bytes.
    pub const BYTES: usize = 10;

    /// Reads the structure. `inserted`: bytes of the VLAN tag that was put back into the packet, in front of what is counted here.
    pub fn parse(note: [u8; VnetHeader::BYTES], inserted: usize) -> VnetHeader {
        let word = |at: usize| usize::from(u16::from_ne_bytes([note[at], note[at + 1]]));
        VnetHeader {
            needs_checksum: note[0] & NEEDS_CHECKSUM != 0,
            merged: note[1],
            headers_bytes: word(2),
            segment_bytes: word(4),
            checksum_start: word(6) + inserted,
            checksum_offset: word(8),
        }
    }

    /// Of the packet at slot `at` of a batch, which leaves as it is. A partial checksum that the note cannot say, because its headers lie in
    /// several frames or bytes follow behind what it covers, is completed here.
    #[inline]
    pub fn of_packet(batch: &mut Batch, at: usize) -> VnetHeader {
        if batch.checksum(at) == Checksum::Partial { VnetHeader::of_partial(batch, at) } else { VnetHeader::default() }
    }

    fn of_partial(batch: &mut Batch, at: usize) -> VnetHeader {
        let len = batch.span(at).map_or(0, |span| span.len);
        match find_partial(batch.packet(at)).filter(|partial| partial.end == len) {
            Some(partial) => VnetHeader {
                needs_checksum: true,
                checksum_start: partial.start,
                checksum_offset: partial.field - partial.start,
                ..VnetHeader::default()
            },
            None => {
                complete_checksum(batch, at);
                VnetHeader::default()
            }
        }
    }

    /// Of segments that leave in one packet.
    pub fn of_merged(merge: &Merge) -> VnetHeader {
        VnetHeader {
            needs_checksum: true,
            merged: if merge.is_ipv6() { TCP_V6 } else { TCP_V4 },
            headers_bytes: merge.headers_len(),
            segment_bytes: merge.size(),
            checksum_start: merge.transport_at(),
            checksum_offset: TCP_CHECKSUM_AT,
        }
    }

    /// The structure.
    pub fn to_bytes(&self) -> [u8; VnetHeader::BYTES] {
        let word = |value: usize| (value as u16).to_ne_bytes();
        let [[a, b], [c, d], [e, f], [g, h]] =
            [self.headers_bytes, self.segment_bytes, self.checksum_start, self.checksum_offset].map(word);
        [if self.needs_checksum { NEEDS_CHECKSUM } else { 0 }, self.merged, a, b, c, d, e, f, g, h]
    }

    /// The packet is several in one.
    pub fn is_merged(&self) -> bool {
        self.merged & !ECN != NOT_MERGED
    }

    /// What is known about the checksum of a packet that is not merged. It stays partial if parsing the packet finds it; else it is
    /// completed. `None` if that cannot be done.
    pub fn checksum(&self, packet: &mut [u8]) -> Option<Checksum> {
        if !self.needs_checksum {
            return Some(Checksum::Unknown);
        }
        let (start, field) = (self.checksum_start, self.checksum_start + self.checksum_offset);
        let partial = PartialChecksum { start, field, end: packet.len() };
        if find_partial(packet) == Some(partial) {
            return Some(Checksum::Partial);
        }
        (self.checksum_offset != SCTP_CHECKSUM_AT && partial.complete(packet)).then_some(Checksum::Unknown)
    }

    /// How a merged packet is to be cut; `None` for kinds that are not known here.
    pub fn segments(&self, packet: &[u8]) -> Option<Segments> {
        let transport_at = self.needs_checksum.then_some(self.checksum_start);
        let segments = Segments::new(packet, self.segment_bytes, transport_at)?.with_partial_checksums();
        Some(if self.merged & ECN == 0 { segments.with_accurate_ecn() } else { segments })
    }
}

/// The segments of one connection at slot `at` of a batch and behind it that can leave as one packet, at most `segments_max`: each lies in
/// one slot, and its checksum is partial. `None` if there are not two of them.
pub fn merge_at(batch: &Batch, at: usize, segments_max: usize) -> Option<Merge> {
    let is_free = |at: usize| at < batch.len() && batch.checksum(at) == Checksum::Partial && !batch.more(at);
    if !is_free(at) || !is_free(at + 1) {
        return None;
    }
    let mut merge = Merge::begin(batch.packet(at))?;
    while merge.segments() < segments_max
        && is_free(at + merge.segments())
        && merge.append(batch.packet(at + merge.segments()))
    {}
    (merge.segments() > 1).then_some(merge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_wire::{Stack, ethernet, ipv6, tcp, udp, verify_checksums};

    fn note(flags: u8, merged: u8, words: [u16; 4]) -> [u8; VnetHeader::BYTES] {
        let mut note = [0; VnetHeader::BYTES];
        (note[0], note[1]) = (flags, merged);
        for (to, word) in note[2..].chunks_mut(2).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        note
    }

    fn packet(len: usize) -> Vec<u8> {
        let stack = Stack::new().with(ethernet::Header::default()).with(ipv6::Header::default());
        stack.with(udp::Header::default()).build(len).unwrap().bytes
    }

    #[test]
    fn checksums_are_completed_where_the_kernel_says() {
        let whole = packet(100);
        let mut partial = whole.clone();
        let pseudo = ipv6::Packet::new_checked(&whole[14..]).unwrap().pseudo_sum(linerate_wire::Protocol::UDP, 46);
        partial[60..62].copy_from_slice(&pseudo.fold().to_be_bytes());
        assert!(verify_checksums(&partial).is_err());
        // Where parsing finds it, it stays; but not if something is behind what IP carries.
        let offload = VnetHeader::parse(note(1, 0, [0, 0, 50, 6]), 4);
        let before = partial.clone();
        assert_eq!(offload.checksum(&mut partial), Some(Checksum::Partial));
        assert_eq!(partial, before);
        let mut padded = [&before[..], &[0; 4]].concat();
        assert_eq!(offload.checksum(&mut padded), Some(Checksum::Unknown));
        assert_eq!(padded[..100], whole);
        // Nothing to do; nonsense; SCTP.
        assert_eq!(VnetHeader::parse(note(2, 0, [0, 0, 99, 9]), 0).checksum(&mut partial), Some(Checksum::Unknown));
        assert_eq!(VnetHeader::parse(note(1, 0, [0, 0, 98, 6]), 0).checksum(&mut partial), None);
        assert_eq!(VnetHeader::parse(note(1, 0, [0, 0, u16::MAX, u16::MAX]), 4).checksum(&mut partial), None);
        assert_eq!(VnetHeader::parse(note(1, 0, [0, 0, 54, 8]), 0).checksum(&mut partial), None);
        assert_eq!(partial, before);
    }

    #[test]
    fn merged_packets_are_cut_where_the_kernel_says() {
        let mut merged = packet(62 + 1000);
        let offload = VnetHeader::parse(note(1, 5, [62, 400, 54, 6]), 0);
        assert!(offload.is_merged() && !VnetHeader::parse(note(1, ECN, [0; 4]), 0).is_merged());
        let mut segments = offload.segments(&merged).unwrap();
        let lens: Vec<usize> = std::iter::from_fn(|| segments.next(&mut merged)).map(|range| range.len()).collect();
        assert_eq!(lens, [462, 462, 262]);
        assert!(VnetHeader::parse(note(1, 5, [62, 400, 74, 6]), 0).segments(&merged).is_none());
        assert!(VnetHeader::parse(note(1, 5, [62, 0, 54, 6]), 0).segments(&merged).is_none());
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let whole = packet(100);
        let mut partial = whole.clone();
        let pseudo = ipv6::Packet::new_checked(&whole[14..]).unwrap().pseudo_sum(linerate_wire::Protocol::UDP, 46);
        partial[60..62].copy_from_slice(&pseudo.fold().to_be_bytes());
        let mut pool = linerate_mem::Pool::new(Default::default()).unwrap();
        let mut batch = Batch::new(&pool, 16);
        let padded = [&partial[..], &[1, 2]].concat();
        for bytes in [&partial, &partial, &padded, &partial[..40].to_vec(), &partial[40..].to_vec()] {
            assert!(pool.append(&mut batch, bytes, 0));
        }
        batch.set_more(3, true);
        for at in [1, 2, 3] {
            batch.set_checksum(at, Checksum::Partial);
        }
        let headers = [0, 1, 2, 3].map(|at| VnetHeader::of_packet(&mut batch, at));
        assert_eq!(headers[0].to_bytes(), [0; VnetHeader::BYTES], "nothing is known of it");
        assert_eq!(headers[1].to_bytes(), note(1, 0, [0, 0, 54, 6]));
        assert_eq!(VnetHeader::parse(headers[1].to_bytes(), 0), headers[1]);
        assert_eq!(headers[2..], [VnetHeader::default(); 2], "these were completed");
        assert_eq!((&batch.packet(2)[..100], &[batch.packet(3), batch.packet(4)].concat()), (&whole[..], &whole));
        assert_eq!((batch.packet(0), batch.packet(1)), (&partial[..], &partial[..]));
    }

    #[test]
    fn partial_segments_of_a_batch_are_merged() {
        let mut pool = linerate_mem::Pool::new(Default::default()).unwrap();
        let mut batch = Batch::new(&pool, 16);
        for number in 0..6_u32 {
            let header = tcp::Header { sequence: number * 100, flags: tcp::Flags::ACK, ..Default::default() };
            let stack = Stack::new().with(ethernet::Header::default()).with(ipv6::Header::default()).with(header);
            assert!(pool.append(&mut batch, &stack.build(74 + 100).unwrap().bytes, 0));
            let at = batch.len() - 1;
            batch.set_checksum(at, if number == 3 { Checksum::Unknown } else { Checksum::Partial });
        }
        let segments = |batch: &Batch, at, most| merge_at(batch, at, most).map(|merge| merge.segments());
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 6].map(|at| segments(&batch, at, 9)),
            [Some(3), Some(2), None, None, Some(2), None, None]
        );
        assert_eq!(segments(&batch, 0, 2), Some(2));
        let merge = merge_at(&batch, 0, 9).unwrap();
        assert_eq!(VnetHeader::of_merged(&merge).to_bytes(), note(1, 4, [74, 100, 54, 16]));
        batch.set_more(1, true);
        assert_eq!(segments(&batch, 0, 9), None);
    }
}
