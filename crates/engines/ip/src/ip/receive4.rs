//! IPv4 packets that are not plain: all checks of RFC 1122 section 3.2.1, options, fragments, and what goes to which transport.

use core::net::Ipv4Addr;

use linerate_mem::Checksum;
use linerate_reassembly::Reassembly;
use linerate_wire::{Protocol, Sum, ipv4};

use super::Ip;
use super::checks::{Error4, REASSEMBLY_TIME_EXCEEDED, check_tcp, check_udp, drop_of};
use crate::counters::DropReason;
use crate::inbound::{Inbound, Packet};
use crate::link::Arrived;
use crate::output::Output;
use crate::steering;

/// Every host is in this group (RFC 1112).
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// Options of RFC 791: loose and strict source route.
const SOURCE_ROUTES: [u8; 2] = [131, 137];

impl Ip {
    pub(super) fn receive4(
        &mut self,
        frame: &[u8],
        arrived: &Arrived,
        checksum: Checksum,
        out: &mut Output<'_>,
    ) -> Result<Inbound, DropReason> {
        let bytes = &frame[arrived.offset..];
        let packet = ipv4::Packet::new_checked(bytes).map_err(drop_of)?;
        if !packet.verify_checksum() {
            return Err(DropReason::HeaderChecksum);
        }
        let (src, dst) = (packet.src(), packet.dst());
        if !self.is_host4(src) {
            return Err(DropReason::SourceAddress);
        }
        let is_group = dst == ALL_HOSTS || self.addresses.is_broadcast4(dst.to_bits());
        if !is_group && !self.addresses.is_ours4(dst.to_bits()) {
            let is_known = self.addresses.find(dst.into()).is_some();
            return Err(if is_known { DropReason::NotReady } else { DropReason::OtherAddress });
        }
        if !is_group && arrived.dst.is_multicast() {
            return Err(DropReason::LinkBroadcast);
        }
        check_options(packet.options())?;
        if packet.is_fragment() {
            let packet = &bytes[..usize::from(packet.total_len())];
            return self.fragment(packet, out);
        }
        self.transport4(frame, arrived.offset, checksum, false, out)
    }

    /// True for addresses that another host can have (RFC 1122 section 3.2.1.3).
    pub(super) fn is_host4(&self, address: Ipv4Addr) -> bool {
        let first = address.octets()[0];
        let bits = address.to_bits();
        (1..224).contains(&first)
            && first != 127
            && !self.addresses.is_ours4(bits)
            && !self.addresses.is_broadcast4(bits)
    }

    /// Takes a fragment, which begins with its IP header.
    pub(super) fn fragment(&mut self, packet: &[u8], out: &mut Output<'_>) -> Result<Inbound, DropReason> {
        let mut assembled = core::mem::take(&mut self.assembled);
        let result = match self.reassembler.add(packet, 0, 0, out.now_ns) {
            Reassembly::Held => Ok(Inbound::Handled),
            Reassembly::Refused(_) => Err(DropReason::Fragment),
            // Every shard has put it together; it is for one of them.
            Reassembly::Whole { packet, .. } if !steering::of_packet(packet).is_for(self.config.shard) => {
                Ok(Inbound::Handled)
            }
            Reassembly::Whole { packet, .. } => {
                assembled.clear();
                assembled.extend_from_slice(packet);
                match packet[0] >> 4 {
                    4 => self.transport4(&assembled, 0, Checksum::Unknown, true, out),
                    _ => self.transport6(&assembled, 0, Checksum::Unknown, true, out),
                }
            }
        };
        self.assembled = assembled;
        result
    }

    /// Gives fragments up whose time is over; their senders are told if the first one came (RFC 792, RFC 4443 section 3.3).
    pub(super) fn expire_fragments(&mut self, out: &mut Output<'_>) {
        let mut starts: Vec<Vec<u8>> = Vec::new();
        let tell = |start: &[u8]| starts.push(start[..start.len().min(1232)].to_vec());
        self.reassembler.expire_each(out.now_ns, tell);
        if !self.config.shard.is_first() {
            // Every shard has them, and one tells.
            starts.clear();
        }
        for start in starts {
            match start[0] >> 4 {
                4 => self.error4(Error4 { kind: 11, code: 1, word: 0 }, &start, out),
                _ => self.error6(REASSEMBLY_TIME_EXCEEDED, &start, out),
            }
        }
    }

    /// Hands a whole packet to its transport. Its IP header begins at `network`, and was checked.
    fn transport4(
        &mut self,
        bytes: &[u8],
        network: usize,
        checksum: Checksum,
        reassembled: bool,
        out: &mut Output<'_>,
    ) -> Result<Inbound, DropReason> {
        let packet = ipv4::Packet::new_checked(&bytes[network..]).map_err(drop_of)?;
        let (src, dst, protocol, payload) = (packet.src(), packet.dst(), packet.protocol(), packet.payload());
        let start = network + packet.header_len();
        let mut inbound = Packet {
            src: src.into(),
            dst: dst.into(),
            payload: start..start + payload.len(),
            network,
            ecn: packet.tos() & 3,
            ttl: packet.ttl(),
            reassembled,
        };
        let is_ours = self.addresses.is_ours4(dst.to_bits());
        // The length of an IPv4 packet fits.
        let pseudo = Sum::pseudo_ipv4(src, dst, protocol.0, payload.len() as u16);
        match protocol {
            Protocol::TCP if !is_ours => Err(DropReason::OtherAddress),
            Protocol::TCP => {
                check_tcp(payload, pseudo, checksum)?;
                Ok(Inbound::Tcp(inbound))
            }
            Protocol::UDP => {
                let len = check_udp(payload, pseudo, checksum, true)?;
                if self.is_for_dhcp(payload) {
                    return self.receive_dhcp(&payload[..len], out);
                }
                inbound.payload.end = start + len;
                Ok(Inbound::Udp(inbound))
            }
            Protocol::ICMPV4 => {
                let tos = packet.tos();
                self.receive_icmp4(src, dst, tos, payload, out)
            }
            _ => {
                self.error4(Error4 { kind: 3, code: 2, word: 0 }, &bytes[network..], out);
                Err(DropReason::Protocol)
            }
        }
    }
}

/// Refuses source routes, and options that do not fit (RFC 1122 section 3.2.1.8). Other options are left unread.
fn check_options(options: &[u8]) -> Result<(), DropReason> {
    let mut rest = options;
    while let [kind, behind @ ..] = rest {
        match (kind, behind) {
            (0, _) => return Ok(()),
            (1, _) => rest = behind,
            (kind, _) if SOURCE_ROUTES.contains(kind) => return Err(DropReason::SourceRoute),
            (_, [len, ..]) if *len >= 2 => rest = rest.get(usize::from(*len)..).ok_or(DropReason::Option)?,
            _ => return Err(DropReason::Option),
        }
    }
    Ok(())
}
