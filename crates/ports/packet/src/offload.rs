//! What the kernel notes beside a packet whose checksum or cutting it left to a network card: `struct virtio_net_hdr`
//! (linux/virtio_net.h), in front of each packet of a socket with PACKET_VNET_HDR.

use linerate_mem::Checksum;
use linerate_port::find_partial;
use linerate_wire::{PartialChecksum, Segments};

/// Bytes of the structure: flags, gso_type, hdr_len, gso_size, csum_start, csum_offset, in the order of this machine's bytes.
pub(crate) const NOTE_BYTES: usize = 10;

/// VIRTIO_NET_HDR_F_NEEDS_CSUM: the checksum is partial.
const NEEDS_CHECKSUM: u8 = 1;
/// VIRTIO_NET_HDR_GSO_NONE, and the bit that says that CWR is for the first segment only.
const NOT_MERGED: u8 = 0;
const ECN: u8 = 0x80;
/// Where SCTP has its checksum, which is no sum (RFC 9260 appendix A); no other protocol has a checksum there.
const SCTP_CHECKSUM_AT: usize = 8;

/// The kernel's note.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offload {
    needs_checksum: bool,
    merged: u8,
    segment_bytes: usize,
    checksum_start: usize,
    checksum_offset: usize,
}

impl Offload {
    /// `inserted`: bytes of the VLAN tag that was put back into the packet, in front of what is counted here.
    pub(crate) fn parse(note: [u8; NOTE_BYTES], inserted: usize) -> Offload {
        let word = |at: usize| usize::from(u16::from_ne_bytes([note[at], note[at + 1]]));
        Offload {
            needs_checksum: note[0] & NEEDS_CHECKSUM != 0,
            merged: note[1],
            segment_bytes: word(4),
            checksum_start: word(6) + inserted,
            checksum_offset: word(8),
        }
    }

    /// The packet is several in one.
    pub(crate) fn is_merged(&self) -> bool {
        self.merged & !ECN != NOT_MERGED
    }

    /// What is known about the checksum of a packet that is not merged. It stays partial if parsing the packet finds it; else it is
    /// completed. `None` if that cannot be done.
    pub(crate) fn checksum(&self, packet: &mut [u8]) -> Option<Checksum> {
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
    pub(crate) fn segments(&self, packet: &[u8]) -> Option<Segments> {
        let transport_at = self.needs_checksum.then_some(self.checksum_start);
        let segments = Segments::new(packet, self.segment_bytes, transport_at)?.with_partial_checksums();
        Some(if self.merged & ECN == 0 { segments.with_accurate_ecn() } else { segments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_wire::{Stack, ethernet, ipv6, udp, verify_checksums};

    fn note(flags: u8, merged: u8, words: [u16; 4]) -> [u8; NOTE_BYTES] {
        let mut note = [0; NOTE_BYTES];
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
        let offload = Offload::parse(note(1, 0, [0, 0, 50, 6]), 4);
        let before = partial.clone();
        assert_eq!(offload.checksum(&mut partial), Some(Checksum::Partial));
        assert_eq!(partial, before);
        let mut padded = [&before[..], &[0; 4]].concat();
        assert_eq!(offload.checksum(&mut padded), Some(Checksum::Unknown));
        assert_eq!(padded[..100], whole);
        // Nothing to do; nonsense; SCTP.
        assert_eq!(Offload::parse(note(2, 0, [0, 0, 99, 9]), 0).checksum(&mut partial), Some(Checksum::Unknown));
        assert_eq!(Offload::parse(note(1, 0, [0, 0, 98, 6]), 0).checksum(&mut partial), None);
        assert_eq!(Offload::parse(note(1, 0, [0, 0, u16::MAX, u16::MAX]), 4).checksum(&mut partial), None);
        assert_eq!(Offload::parse(note(1, 0, [0, 0, 54, 8]), 0).checksum(&mut partial), None);
        assert_eq!(partial, before);
    }

    #[test]
    fn merged_packets_are_cut_where_the_kernel_says() {
        let mut merged = packet(62 + 1000);
        let offload = Offload::parse(note(1, 5, [62, 400, 54, 6]), 0);
        assert!(offload.is_merged() && !Offload::parse(note(1, ECN, [0; 4]), 0).is_merged());
        let mut segments = offload.segments(&merged).unwrap();
        let lens: Vec<usize> = std::iter::from_fn(|| segments.next(&mut merged)).map(|range| range.len()).collect();
        assert_eq!(lens, [462, 462, 262]);
        assert!(Offload::parse(note(1, 5, [62, 400, 74, 6]), 0).segments(&merged).is_none());
        assert!(Offload::parse(note(1, 5, [62, 0, 54, 6]), 0).segments(&merged).is_none());
    }
}
