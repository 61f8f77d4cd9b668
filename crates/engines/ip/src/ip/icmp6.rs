//! ICMP for IPv6 (RFC 4443): echoes are answered, errors are handed up, errors are sent, neighbour discovery is passed on.

use core::net::Ipv6Addr;

use linerate_wire::{Protocol, Sum, icmpv6, ipv6};

use super::Ip;
use super::checks::{Error6, PARAMETER_PROBLEM6, drop_of, is_host6, quoted_transport};
use super::send::Icmp;
use crate::config::MTU_MIN_V6;
use crate::counters::DropReason;
use crate::inbound::{ErrorKind, IcmpError, Inbound, Original, Packet};
use crate::output::Output;
use crate::steering::is_told_by_first;

const PACKET_TOO_BIG: u8 = 2;
/// Queries of multicast listener discovery (RFC 3810).
const LISTENER_QUERY: u8 = 130;
pub(super) const REDIRECT: u8 = 137;
/// Types from here on are no errors.
const INFORMATIONAL: u8 = 128;

impl Ip {
    pub(super) fn receive_icmp6(
        &mut self,
        packet: &Packet,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        bytes: &[u8],
        pseudo: Sum,
        out: &mut Output<'_>,
    ) -> Result<Inbound, DropReason> {
        let message = icmpv6::Packet::new_checked(bytes).map_err(drop_of)?;
        if !message.verify_checksum(pseudo) {
            return Err(DropReason::TransportChecksum);
        }
        let word = u32::from(message.identifier()) << 16 | u32::from(message.sequence());
        match message.kind() {
            icmpv6::ECHO_REQUEST if !src.is_unspecified() => {
                let own = if dst.is_multicast() { self.addresses.source_for(src.into()) } else { Some(dst.into()) };
                if let Some(core::net::IpAddr::V6(own)) = own {
                    let to = Icmp { src: own, dst: src, class: 0, kind: icmpv6::ECHO_REPLY, code: 0, word };
                    self.send_icmp6(to, message.payload(), out);
                }
                Ok(Inbound::Handled)
            }
            icmpv6::UNREACHABLE | PACKET_TOO_BIG | icmpv6::TIME_EXCEEDED | PARAMETER_PROBLEM6 => {
                let original = self.quoted6(message.payload())?;
                let kind = match (message.kind(), message.code()) {
                    (PACKET_TOO_BIG, _) if word < MTU_MIN_V6.into() => return Err(DropReason::Icmp),
                    (PACKET_TOO_BIG, _) => ErrorKind::PacketTooBig { mtu: u16::try_from(word).unwrap_or(u16::MAX) },
                    (icmpv6::TIME_EXCEEDED, _) => ErrorKind::TimeExceeded,
                    (PARAMETER_PROBLEM6, 1) | (icmpv6::UNREACHABLE, 4) => ErrorKind::PortUnreachable,
                    (PARAMETER_PROBLEM6, _) => ErrorKind::ParameterProblem,
                    (_, 1 | 5 | 6) => ErrorKind::Prohibited,
                    (_, code) => ErrorKind::Unreachable { code },
                };
                Ok(Inbound::Error(IcmpError { kind, from: src.into(), original }))
            }
            LISTENER_QUERY => self.listeners_asked(src, packet.ttl, word >> 16, out.now_ns),
            kind @ icmpv6::ROUTER_SOLICITATION..=REDIRECT => {
                // A router would have lowered it: the sender is on the link (RFC 4861 section 3.1).
                if packet.ttl != 255 || message.code() != 0 || packet.reassembled {
                    return Err(DropReason::NeighbourDiscovery);
                }
                match kind {
                    icmpv6::NEIGHBOR_SOLICITATION => self.solicited(src, dst, bytes, out),
                    icmpv6::NEIGHBOR_ADVERTISEMENT => self.advertised(dst, bytes, out),
                    icmpv6::ROUTER_ADVERTISEMENT => self.router_advertised(src, bytes, out),
                    REDIRECT => self.redirected6(src, bytes, out),
                    // Hosts drop what is for routers (RFC 4861 section 6.2.6).
                    _ => Err(DropReason::NeighbourDiscovery),
                }
            }
            _ => Err(DropReason::Icmp),
        }
    }

    /// The packet of ours that an error quotes.
    pub(super) fn quoted6(&self, bytes: &[u8]) -> Result<Original, DropReason> {
        let packet = ipv6::Packet::new_truncated(bytes).map_err(|_| DropReason::IcmpQuote)?;
        let (local, remote) = (packet.src(), packet.dst());
        let upper = packet.upper_layer().map_err(|_| DropReason::IcmpQuote)?;
        if upper.is_later_fragment || !self.addresses.is_ours6(local.to_bits()) || !is_host6(remote) {
            return Err(DropReason::IcmpQuote);
        }
        let transport = packet.payload().get(upper.offset..).unwrap_or_default();
        quoted_transport(upper.protocol, local.into(), remote.into(), transport).ok_or(DropReason::IcmpQuote)
    }

    /// Sends an error about `packet`, unless RFC 4443 section 2.4 (e) forbids it or a limit holds it back.
    pub(super) fn error6(&mut self, error: Error6, packet: &[u8], out: &mut Output<'_>) {
        let Ok(about) = ipv6::Packet::new_truncated(packet) else { return };
        let (src, dst) = (about.src(), about.dst());
        let Ok(upper) = about.upper_layer() else { return };
        let kind = about.payload().get(upper.offset).copied();
        let is_icmp = upper.protocol == Protocol::ICMPV6 && !upper.is_later_fragment;
        let is_error = is_icmp && kind.is_none_or(|kind| kind < INFORMATIONAL || kind == REDIRECT);
        // An unknown option may be told of although the packet was for a group.
        let may_be_group = error.kind == PARAMETER_PROBLEM6 && error.code == 2;
        let is_told = is_told_by_first(self.config.shard, packet);
        if is_error || is_told || !is_host6(src) || dst.is_multicast() && !may_be_group {
            return;
        }
        let own = if dst.is_multicast() { self.addresses.source_for(src.into()) } else { Some(dst.into()) };
        let Some(core::net::IpAddr::V6(own)) = own else { return };
        if !self.addresses.is_ours6(own.to_bits()) {
            return;
        }
        if !self.error_limit.allows(src.into(), out.now_ns) {
            self.counters.errors_limited += 1;
            return;
        }
        let whole = packet.len().min(about.total_len());
        let quoted = &packet[..whole.min(usize::from(MTU_MIN_V6) - ipv6::HEADER_LEN - icmpv6::HEADER_LEN)];
        let to = Icmp { src: own, dst: src, class: 0, kind: error.kind, code: error.code, word: error.word };
        self.send_icmp6(to, quoted, out);
    }
}
