//! ICMP for IPv4 (RFC 792; RFC 1122 section 3.2.2): echoes are answered, errors are handed up, errors are sent.

use core::net::{IpAddr, Ipv4Addr};

use linerate_wire::{Protocol, icmpv4, ipv4};

use super::Ip;
use super::checks::{Error4, drop_of, quoted_transport};
use super::send::Icmp;
use crate::config::Redirects;
use crate::counters::DropReason;
use crate::inbound::{ErrorKind, IcmpError, Inbound, Original};
use crate::output::Output;
use crate::path_mtu::plateau_below;
use crate::steering::is_told_by_first;

const REDIRECT: u8 = 5;
const PARAMETER_PROBLEM: u8 = 12;
/// Longest error, from its IP header on (RFC 1812 section 4.3.2.3).
const ERROR_LEN_MAX: usize = 576;

impl Ip {
    pub(super) fn receive_icmp4(
        &mut self,
        src: Ipv4Addr,
        dst: Ipv4Addr,
        tos: u8,
        bytes: &[u8],
        out: &mut Output<'_>,
    ) -> Result<Inbound, DropReason> {
        let message = icmpv4::Packet::new_checked(bytes).map_err(drop_of)?;
        if !message.verify_checksum() {
            return Err(DropReason::TransportChecksum);
        }
        let word = u32::from(message.identifier()) << 16 | u32::from(message.sequence());
        match message.kind() {
            icmpv4::ECHO_REQUEST if self.addresses.is_ours4(dst.to_bits()) => {
                let class = tos & !3;
                let to = Icmp { src: dst, dst: src, class, kind: icmpv4::ECHO_REPLY, code: 0, word };
                self.send_icmp4(to, message.payload(), out);
                Ok(Inbound::Handled)
            }
            icmpv4::UNREACHABLE | icmpv4::TIME_EXCEEDED | PARAMETER_PROBLEM => {
                let (original, quoted_len) = self.quoted4(message.payload())?;
                let code = message.code();
                let kind = match (message.kind(), code) {
                    (icmpv4::TIME_EXCEEDED, _) => ErrorKind::TimeExceeded,
                    (PARAMETER_PROBLEM, _) => ErrorKind::ParameterProblem,
                    (_, 2 | 3) => ErrorKind::PortUnreachable,
                    (_, 4) => {
                        // Routers older than RFC 1191 do not tell the MTU.
                        let told = message.sequence();
                        let mtu = if told < 68 { plateau_below(quoted_len) } else { told };
                        ErrorKind::PacketTooBig { mtu }
                    }
                    (_, 9 | 10 | 13) => ErrorKind::Prohibited,
                    _ => ErrorKind::Unreachable { code },
                };
                Ok(Inbound::Error(IcmpError { kind, from: src.into(), original }))
            }
            REDIRECT => self.redirected4(src, Ipv4Addr::from_bits(word), message.payload()),
            _ => Err(DropReason::Icmp),
        }
    }

    /// The packet of ours that an error quotes, and its length.
    fn quoted4(&self, bytes: &[u8]) -> Result<(Original, u16), DropReason> {
        let quote = || DropReason::IcmpQuote;
        let packet = ipv4::Packet::new_truncated(bytes).map_err(|_| quote())?;
        let (local, remote, protocol) = (packet.src(), packet.dst(), packet.protocol());
        let is_first = packet.fragment_offset() == 0;
        if !is_first || !self.addresses.is_ours4(local.to_bits()) || remote.is_multicast() {
            return Err(quote());
        }
        let original = quoted_transport(protocol, local.into(), remote.into(), packet.payload()).ok_or_else(quote)?;
        Ok((original, packet.total_len()))
    }

    /// Follows a redirect if the configuration says so, and if it comes from the gateway in use (RFC 1122 section 3.2.2.2).
    fn redirected4(&mut self, from: Ipv4Addr, to: Ipv4Addr, quoted: &[u8]) -> Result<Inbound, DropReason> {
        let (original, _) = self.quoted4(quoted)?;
        let dst = original.remote.ip();
        let is_gateway = self.routes.next(dst, |_| false) == Some(from.into()) && IpAddr::from(from) != dst;
        let may_go = self.routes.is_on_link(to.into()) && self.is_host4(to);
        if self.config.redirects == Redirects::Refuse || !is_gateway || !may_go {
            return Err(DropReason::Redirect);
        }
        self.routes.redirect(dst, to.into());
        Ok(Inbound::Handled)
    }

    /// Sends an error about `packet`, unless RFC 1122 section 3.2.2 forbids it or a limit holds it back.
    pub(super) fn error4(&mut self, error: Error4, packet: &[u8], out: &mut Output<'_>) {
        let Ok(about) = ipv4::Packet::new_truncated(packet) else { return };
        let (src, dst) = (about.src(), about.dst());
        let is_echo = matches!(about.payload().first(), Some(&icmpv4::ECHO_REQUEST | &icmpv4::ECHO_REPLY));
        let is_error = about.protocol() == Protocol::ICMPV4 && !is_echo;
        let is_later = about.fragment_offset() != 0;
        if is_error
            || is_later
            || is_told_by_first(self.config.shard, packet)
            || !self.is_host4(src)
            || !self.addresses.is_ours4(dst.to_bits())
        {
            return;
        }
        if !self.error_limit.allows(src.into(), out.now_ns) {
            self.counters.errors_limited += 1;
            return;
        }
        let whole = packet.len().min(usize::from(about.total_len()));
        let quoted = &packet[..whole.min(ERROR_LEN_MAX - ipv4::HEADER_LEN - icmpv4::HEADER_LEN)];
        // Internetwork control (RFC 1812 section 4.3.2.5).
        let to = Icmp { src: dst, dst: src, class: 0xc0, kind: error.kind, code: error.code, word: error.word };
        self.send_icmp4(to, quoted, out);
    }
}
