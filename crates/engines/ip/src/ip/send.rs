//! Packets of this layer's own, and packets that are longer than their path takes: fragments (RFC 791 section 3.2, RFC 8200 section 4.5).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linerate_mem::Checksum;
use linerate_wire::{EtherType, Protocol, Sum, ipv4, ipv6};

use super::Ip;
use crate::link::LinkHeader;
use crate::neighbour::HopId;
use crate::output::Output;

/// Bytes of IPv6's fragment header.
const FRAGMENT_HEADER_LEN: usize = 8;

impl Ip {
    /// Appends a frame that consists of `parts`, and counts it.
    pub(super) fn emit(&mut self, parts: &[&[u8]], checksum: Checksum, out: &mut Output<'_>) -> bool {
        let is_sent = out.frame(parts, checksum);
        self.counters.sent += u64::from(is_sent);
        self.counters.send_failed += u64::from(!is_sent);
        is_sent
    }

    /// Sends an IP packet to a neighbour: at once, in fragments if it is longer than its path takes, or when the neighbour's link address
    /// is known. The transport checksum of a packet in fragments must be complete. False if it is lost.
    pub(crate) fn send_packet(
        &mut self,
        hop: HopId,
        dst: IpAddr,
        packet: &[u8],
        checksum: Checksum,
        out: &mut Output<'_>,
    ) -> bool {
        let Some(link) = self.neighbours.header(hop).copied() else { return self.park(hop, packet, checksum) };
        let mtu = usize::from(self.paths.get(dst));
        if packet.len() <= mtu {
            return self.emit(&[link.as_slice(), packet], checksum, out);
        }
        match dst {
            IpAddr::V4(_) => self.send_fragments4(&link, packet, mtu, out),
            IpAddr::V6(_) => self.send_fragments6(&link, packet, mtu, out),
        }
    }

    fn send_fragments4(&mut self, link: &LinkHeader, packet: &[u8], mtu: usize, out: &mut Output<'_>) -> bool {
        let Ok(whole) = ipv4::Packet::new_checked(packet) else { return false };
        let (header_len, data) = (whole.header_len(), whole.payload());
        let step = mtu.saturating_sub(header_len) / 8 * 8;
        if step == 0 || out.batch.room() < data.len().div_ceil(step) {
            self.counters.send_failed += 1;
            return false;
        }
        let mut header = [0; 60];
        header[..header_len].copy_from_slice(&packet[..header_len]);
        let header = &mut header[..header_len];
        let mut is_sent = true;
        for (index, piece) in data.chunks(step).enumerate() {
            let at = index * step;
            let mut fragment = ipv4::Packet::new_unchecked(&mut *header);
            fragment.set_total_len((header_len + piece.len()) as u16);
            fragment.set_fragment(false, at + piece.len() < data.len(), (at / 8) as u16);
            fragment.fill_checksum();
            is_sent &= self.emit(&[link.as_slice(), header, piece], Checksum::Unknown, out);
        }
        is_sent
    }

    fn send_fragments6(&mut self, link: &LinkHeader, packet: &[u8], mtu: usize, out: &mut Output<'_>) -> bool {
        let Some((header, data)) = packet.split_first_chunk::<{ ipv6::HEADER_LEN }>() else { return false };
        let mut header = *header;
        let step = mtu.saturating_sub(ipv6::HEADER_LEN + FRAGMENT_HEADER_LEN) / 8 * 8;
        if step == 0 || out.batch.room() < data.len().div_ceil(step) {
            self.counters.send_failed += 1;
            return false;
        }
        // Nobody can guess it (RFC 7739).
        let identification = self.random.next() as u32;
        let next_header = ipv6::Packet::new_unchecked(&header).next_header();
        let mut is_sent = true;
        for (index, piece) in data.chunks(step).enumerate() {
            let at = index * step;
            let mut fixed = ipv6::Packet::new_unchecked(&mut header);
            fixed.set_next_header(Protocol::FRAGMENT);
            fixed.set_payload_len((FRAGMENT_HEADER_LEN + piece.len()) as u16);
            let mut fragment = [next_header.0, 0, 0, 0, 0, 0, 0, 0];
            let field = at as u16 | u16::from(at + piece.len() < data.len());
            fragment[2..4].copy_from_slice(&field.to_be_bytes());
            fragment[4..].copy_from_slice(&identification.to_be_bytes());
            is_sent &= self.emit(&[link.as_slice(), &header, &fragment, piece], Checksum::Unknown, out);
        }
        is_sent
    }

    /// The next identification of IPv4 packets that may be fragmented.
    pub(crate) fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }

    /// Sends an ICMP message. `word` is the second word of its header, `body` what follows.
    pub(super) fn send_icmp4(&mut self, to: Icmp<Ipv4Addr>, body: &[u8], out: &mut Output<'_>) {
        let Ok((hop, _)) = self.resolve(Some(to.src.into()), to.dst.into(), out) else { return };
        let mut packet = core::mem::take(&mut self.scratch);
        packet.clear();
        packet.resize(ipv4::HEADER_LEN, 0);
        packet.extend(to.start(0));
        packet.extend_from_slice(body);
        let checksum = Sum::new().add_slice(&packet[ipv4::HEADER_LEN..]).finish();
        packet[ipv4::HEADER_LEN + 2..ipv4::HEADER_LEN + 4].copy_from_slice(&checksum.to_be_bytes());
        let header = ipv4::Header {
            tos: to.class,
            total_len: packet.len() as u16,
            identification: self.next_identification(),
            protocol: Protocol::ICMPV4,
            src: to.src,
            dst: to.dst,
            ..Default::default()
        };
        header.emit(&mut packet);
        self.send_packet(hop, to.dst.into(), &packet, Checksum::Unknown, out);
        self.scratch = packet;
    }

    /// As [`Ip::send_icmp4`].
    pub(super) fn send_icmp6(&mut self, to: Icmp<Ipv6Addr>, body: &[u8], out: &mut Output<'_>) {
        let Ok((hop, _)) = self.resolve(Some(to.src.into()), to.dst.into(), out) else { return };
        let mut packet = core::mem::take(&mut self.scratch);
        fill_icmp6(&mut packet, &to, self.hop_limit, body);
        self.send_packet(hop, to.dst.into(), &packet, Checksum::Unknown, out);
        self.scratch = packet;
    }

    /// Sends a message of neighbour discovery, whose hop limit is 255, to a link address that is known without asking.
    pub(super) fn send_nd(&mut self, to: Icmp<Ipv6Addr>, link: LinkHeader, body: &[u8], out: &mut Output<'_>) {
        let mut packet = core::mem::take(&mut self.scratch);
        fill_icmp6(&mut packet, &to, 255, body);
        self.emit(&[link.as_slice(), &packet], Checksum::Unknown, out);
        self.scratch = packet;
    }

    /// The link header of frames to an IPv6 group.
    pub(super) fn group_link(&self, group: Ipv6Addr) -> LinkHeader {
        self.link.header(super::resolve::group_mac6(group), EtherType::IPV6)
    }
}

/// Addresses and header of an ICMP message.
pub(super) struct Icmp<T> {
    pub src: T,
    pub dst: T,
    /// DSCP and ECN.
    pub class: u8,
    pub kind: u8,
    pub code: u8,
    /// Second word of the header.
    pub word: u32,
}

impl<T> Icmp<T> {
    fn start(&self, checksum: u16) -> [u8; 8] {
        let ([a, b], [c, d, e, f]) = (checksum.to_be_bytes(), self.word.to_be_bytes());
        [self.kind, self.code, a, b, c, d, e, f]
    }
}

/// Makes a packet of an ICMPv6 message.
pub(super) fn fill_icmp6(packet: &mut Vec<u8>, to: &Icmp<Ipv6Addr>, hop_limit: u8, body: &[u8]) {
    let len = 8 + body.len();
    let pseudo = Sum::pseudo_ipv6(to.src, to.dst, Protocol::ICMPV6.0, len as u32);
    let checksum = pseudo.add_slice(&to.start(0)).add_slice(body).finish();
    let header = ipv6::Header {
        traffic_class: to.class,
        payload_len: len as u16,
        next_header: Protocol::ICMPV6,
        hop_limit,
        src: to.src,
        dst: to.dst,
        ..Default::default()
    };
    packet.clear();
    packet.resize(ipv6::HEADER_LEN, 0);
    header.emit(packet);
    packet.extend(to.start(checksum));
    packet.extend_from_slice(body);
}
