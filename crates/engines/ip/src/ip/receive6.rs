//! IPv6 packets that are not plain: checks, extension headers (RFC 8200 section 4), fragments, and what goes to which transport.

use core::net::Ipv6Addr;

use linerate_mem::Checksum;
use linerate_wire::ipv6::ExtensionHeader;
use linerate_wire::{Protocol, Sum, ipv6, udp};

use super::Ip;
use super::checks::{Error6, PARAMETER_PROBLEM6, check_tcp, check_udp, drop_of, is_host6};
use crate::counters::DropReason;
use crate::inbound::{Inbound, Packet};
use crate::link::Arrived;
use crate::output::Output;

/// Extension headers of one packet, at most (RFC 8504 section 5.3 lets a host limit them).
const EXTENSIONS_MAX: usize = 8;
/// Options of one extension header, at most; padding counts.
const OPTIONS_MAX: usize = 16;

/// What lies behind the extension headers.
struct Upper {
    protocol: Protocol,
    /// Where it begins, from the IP header on.
    offset: usize,
    /// Where its number stands, from the IP header on.
    number_at: usize,
    is_fragment: bool,
}

impl Ip {
    pub(super) fn receive6(
        &mut self,
        frame: &[u8],
        arrived: &Arrived,
        checksum: Checksum,
        out: &mut Output<'_>,
    ) -> Result<Inbound, DropReason> {
        let bytes = &frame[arrived.offset..];
        let packet = ipv6::Packet::new_checked(bytes).map_err(drop_of)?;
        let (src, dst) = (packet.src(), packet.dst());
        let is_ours = self.addresses.is_ours6(dst.to_bits());
        if !is_host6(src) && !src.is_unspecified() || self.addresses.is_ours6(src.to_bits()) {
            return Err(DropReason::SourceAddress);
        }
        if !is_ours && !self.addresses.is_our_group6(dst) {
            let is_known = self.addresses.find(dst.into()).is_some();
            return Err(if is_known { DropReason::NotReady } else { DropReason::OtherAddress });
        }
        if is_ours && arrived.dst.is_multicast() {
            return Err(DropReason::LinkBroadcast);
        }
        let packet = &bytes[..packet.total_len()];
        let upper = self.walk(packet, out)?;
        if upper.is_fragment {
            return self.fragment(packet, out);
        }
        self.transport6(frame, arrived.offset, checksum, false, out)
    }

    /// Checks the extension headers in their order.
    fn walk(&mut self, packet: &[u8], out: &mut Output<'_>) -> Result<Upper, DropReason> {
        let view = ipv6::Packet::new_checked(packet).map_err(drop_of)?;
        let mut headers = view.extension_headers();
        let mut number_at = ipv6::field::NEXT_HEADER.start;
        for count in 0.. {
            let Some(header) = headers.next() else { break };
            let header = header.map_err(drop_of)?;
            if count == EXTENSIONS_MAX {
                return Err(DropReason::Option);
            }
            let at = ipv6::HEADER_LEN + header.offset;
            match header.protocol {
                Protocol::HOP_BY_HOP if header.offset != 0 => {
                    self.parameter_problem(1, number_at, packet, out);
                    return Err(DropReason::Option);
                }
                Protocol::HOP_BY_HOP | Protocol::DESTINATION_OPTIONS => {
                    if let Err((code, option_at)) = check_options(&header, view.dst()) {
                        if let Some(code) = code {
                            self.parameter_problem(code, at + option_at, packet, out);
                        }
                        return Err(DropReason::Option);
                    }
                }
                Protocol::ROUTING if header.is_routed() => {
                    // RFC 5095 for type 0; no other type has a hop here either.
                    self.parameter_problem(0, at + 2, packet, out);
                    return Err(DropReason::SourceRoute);
                }
                Protocol::FRAGMENT => {
                    if let Some(upper) = self.check_fragment(packet, &header, number_at, out)? {
                        return Ok(upper);
                    }
                }
                Protocol::AUTHENTICATION => break,
                _ => {}
            }
            number_at = at;
        }
        let protocol = if number_at == 6 { view.next_header() } else { Protocol(packet[number_at]) };
        let offset = ipv6::HEADER_LEN + headers.offset();
        Ok(Upper { protocol, offset, number_at, is_fragment: false })
    }

    /// A fragment header: `None` for one that says that the packet is whole (RFC 6946).
    fn check_fragment(
        &mut self,
        packet: &[u8],
        header: &ExtensionHeader<'_>,
        number_at: usize,
        out: &mut Output<'_>,
    ) -> Result<Option<Upper>, DropReason> {
        let (offset, more) = header.fragment().unwrap_or_default();
        if offset == 0 && !more {
            return Ok(None);
        }
        let start = ipv6::HEADER_LEN + header.offset + header.bytes.len();
        if more && !(packet.len() - start).is_multiple_of(8) {
            self.parameter_problem(0, ipv6::field::PAYLOAD_LEN.start, packet, out);
            return Err(DropReason::Fragment);
        }
        // The first fragment has all headers (RFC 7112).
        let behind = ipv6::ExtensionHeaders::new(Protocol(header.bytes[0]), &packet[start..]);
        if offset == 0 && !has_all_headers(behind, packet.len() - start) {
            self.parameter_problem(3, start - header.bytes.len(), packet, out);
            return Err(DropReason::Fragment);
        }
        Ok(Some(Upper { protocol: Protocol::FRAGMENT, offset: start, number_at, is_fragment: true }))
    }

    fn parameter_problem(&mut self, code: u8, pointer: usize, packet: &[u8], out: &mut Output<'_>) {
        let error = Error6 { kind: PARAMETER_PROBLEM6, code, word: pointer as u32 };
        self.error6(error, packet, out);
    }

    /// Hands a whole packet to its transport. Its IP header begins at `network`.
    pub(super) fn transport6(
        &mut self,
        bytes: &[u8],
        network: usize,
        checksum: Checksum,
        reassembled: bool,
        out: &mut Output<'_>,
    ) -> Result<Inbound, DropReason> {
        let view = ipv6::Packet::new_checked(&bytes[network..]).map_err(drop_of)?;
        let packet = &bytes[network..network + view.total_len()];
        let (src, dst) = (view.src(), view.dst());
        let upper = self.walk(packet, out)?;
        if upper.is_fragment {
            return Err(DropReason::Fragment);
        }
        let payload = packet.get(upper.offset..).ok_or(DropReason::Truncated)?;
        let start = network + upper.offset;
        let mut inbound = Packet {
            src: src.into(),
            dst: dst.into(),
            payload: start..start + payload.len(),
            network,
            ecn: view.traffic_class() & 3,
            ttl: view.hop_limit(),
            reassembled,
        };
        let pseudo = Sum::pseudo_ipv6(src, dst, upper.protocol.0, payload.len() as u32);
        let is_ours = self.addresses.is_ours6(dst.to_bits());
        match upper.protocol {
            Protocol::TCP | Protocol::UDP if src.is_unspecified() => Err(DropReason::SourceAddress),
            Protocol::TCP if !is_ours => Err(DropReason::OtherAddress),
            Protocol::TCP => {
                check_tcp(payload, pseudo, checksum)?;
                Ok(Inbound::Tcp(inbound))
            }
            Protocol::UDP => {
                let len = check_udp(payload, pseudo, checksum, false)?;
                inbound.payload.end = start + len;
                Ok(Inbound::Udp(inbound))
            }
            Protocol::ICMPV6 => self.receive_icmp6(&inbound, src, dst, payload, pseudo, out),
            Protocol::NO_NEXT_HEADER => Err(DropReason::Protocol),
            _ => {
                self.parameter_problem(1, upper.number_at, packet, out);
                Err(DropReason::Protocol)
            }
        }
    }
}

/// Reads the options of an extension header. The error says whether the sender is told, by which code, and where the option is.
fn check_options(header: &ExtensionHeader<'_>, dst: Ipv6Addr) -> Result<(), (Option<u8>, usize)> {
    let mut at = 2;
    for _ in 0..OPTIONS_MAX {
        let Some(kind) = header.bytes.get(at) else { return Ok(()) };
        if *kind == 0 {
            at += 1;
            continue;
        }
        let Some(len) = header.bytes.get(at + 1) else { return Err((Some(0), at)) };
        if at + 2 + usize::from(*len) > header.bytes.len() {
            return Err((Some(0), at));
        }
        // PadN, and options that say: skip me. The others: discard, discard and tell, discard and tell unless it was for a group.
        match kind >> 6 {
            _ if *kind == 1 => {}
            0 => {}
            1 => return Err((None, at)),
            2 => return Err((Some(2), at)),
            _ => return Err(((!dst.is_multicast()).then_some(2), at)),
        }
        at += 2 + usize::from(*len);
    }
    if header.bytes.len() > at { Err((None, at)) } else { Ok(()) }
}

/// True if a first fragment of `len` bytes behind its fragment header has the header of its transport.
fn has_all_headers(mut headers: ipv6::ExtensionHeaders<'_>, len: usize) -> bool {
    if headers.any(|header| header.is_err()) {
        return false;
    }
    let need = match headers.protocol() {
        Protocol::TCP => 20,
        Protocol::UDP => udp::HEADER_LEN,
        Protocol::ICMPV6 => 8,
        _ => 0,
    };
    headers.offset() + need <= len
}
