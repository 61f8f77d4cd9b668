//! Routers that advertise themselves (RFC 4861 section 6.3), and addresses made of their prefixes (RFC 4862 section 5.5).

use core::net::{IpAddr, Ipv6Addr};

use linerate_wire::icmpv6;

use super::Ip;
use super::addresses::interface_id;
use super::nd::{SOURCE_LINK_ADDRESS, link_address, options};
use super::send::Icmp;
use crate::address::{ALL_ROUTERS, Origin};
use crate::config::MTU_MIN_V6;
use crate::counters::DropReason;
use crate::event::Event;
use crate::inbound::Inbound;
use crate::neighbour::Learned;
use crate::output::Output;

const PREFIX: u8 = 3;
const MTU: u8 = 5;
/// Servers of names (RFC 8106).
const NAME_SERVERS: u8 = 25;
const SECOND_NS: u64 = 1_000_000_000;
/// MAX_RTR_SOLICITATIONS and RTR_SOLICITATION_INTERVAL.
const SOLICITATIONS: u8 = 3;
const INTERVAL_NS: u64 = 4 * SECOND_NS;
/// A lifetime cannot be cut below this by an advertisement that nobody can check (RFC 4862 section 5.5.3 (e)).
const TWO_HOURS_NS: u64 = 7200 * SECOND_NS;
/// Addresses made of advertised prefixes, at most.
const SLAAC_MAX: usize = 16;

/// Asking for routers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Solicit {
    sent: u8,
    pub next_ns: u64,
}

impl Solicit {
    pub fn new(is_on: bool) -> Solicit {
        Solicit { sent: 0, next_ns: if is_on { 0 } else { u64::MAX } }
    }
}

impl Ip {
    /// Asks for routers, as soon as there is an address to ask from.
    pub(super) fn solicit_routers(&mut self, out: &mut Output<'_>) {
        let src = self.addresses.source_for(ALL_ROUTERS.into());
        let Some(IpAddr::V6(src)) = src else {
            self.solicit.next_ns = out.now_ns + SECOND_NS;
            return;
        };
        self.solicit.sent += 1;
        let is_last = self.solicit.sent >= SOLICITATIONS;
        self.solicit.next_ns = if is_last { u64::MAX } else { out.now_ns + INTERVAL_NS };
        let message = Icmp { src, dst: ALL_ROUTERS, class: 0, kind: icmpv6::ROUTER_SOLICITATION, code: 0, word: 0 };
        let link = self.group_link(ALL_ROUTERS);
        let option = self.link_option(SOURCE_LINK_ADDRESS);
        self.send_nd(message, link, &option, out);
    }

    /// A router advertises itself.
    pub(super) fn router_advertised(
        &mut self,
        src: Ipv6Addr,
        bytes: &[u8],
        out: &mut Output<'_>,
    ) -> Result<Inbound, DropReason> {
        let head = bytes.first_chunk::<16>().filter(|_| src.is_unicast_link_local());
        let head = head.ok_or(DropReason::NeighbourDiscovery)?;
        let options = options(&bytes[16..]).ok_or(DropReason::NeighbourDiscovery)?;
        self.solicit.next_ns = u64::MAX;
        // Anybody on the link could cut us off by a small one, so it only grows.
        self.hop_limit = self.hop_limit.max(head[4]);
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        self.neighbours.set_times(word(8), word(12));
        let lifetime_s = u16::from_be_bytes([head[6], head[7]]);
        // A router of the configuration stays for ever.
        if !self.config.gateways.contains(&src.into()) {
            let until_ns = if lifetime_s == 0 { 0 } else { out.now_ns + u64::from(lifetime_s) * SECOND_NS };
            self.routes.set_router(src.into(), until_ns);
        }
        if let Some(mac) = link_address(&options, SOURCE_LINK_ADDRESS) {
            self.learned(src.into(), mac, Learned::Heard, out);
        }
        self.neighbours.set_router(src.into(), true);
        for (kind, option) in options {
            match kind {
                PREFIX => self.prefix_advertised(option, out.now_ns),
                MTU => self.mtu_advertised(option),
                NAME_SERVERS => self.name_servers_advertised(option),
                _ => {}
            }
        }
        self.lifetimes_ns = 0;
        Ok(Inbound::Handled)
    }

    fn mtu_advertised(&mut self, option: &[u8]) {
        let Some(mtu) = option.get(2..).and_then(|rest| rest.first_chunk()) else { return };
        let mtu = u32::from_be_bytes(*mtu);
        if (u32::from(MTU_MIN_V6)..=u32::from(self.config.mtu)).contains(&mtu) {
            self.paths.set_link_mtu6(mtu as u16);
        }
    }

    fn name_servers_advertised(&mut self, option: &[u8]) {
        let lifetime = option.get(2..).and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_be_bytes(*bytes));
        if lifetime.is_none_or(|lifetime| lifetime == 0) {
            return;
        }
        let (servers, _) = option[6..].as_chunks::<16>();
        for server in servers.iter().take(4) {
            self.tell(Event::NameServer(Ipv6Addr::from_octets(*server).into()));
        }
    }

    fn prefix_advertised(&mut self, option: &[u8], now_ns: u64) {
        let Some(option) = option.first_chunk::<30>() else { return };
        let (len, flags) = (option[0], option[1]);
        let seconds = |at: usize| u32::from_be_bytes([option[at], option[at + 1], option[at + 2], option[at + 3]]);
        let until_ns = |seconds: u32| match seconds {
            u32::MAX => u64::MAX,
            seconds => now_ns + u64::from(seconds) * SECOND_NS,
        };
        let (valid_s, preferred_s) = (seconds(2), seconds(6));
        let mut prefix = [0; 16];
        prefix.copy_from_slice(&option[14..30]);
        let prefix = Ipv6Addr::from_octets(prefix);
        if prefix.is_unicast_link_local() || prefix.is_multicast() || len > 128 {
            return;
        }
        let [is_on_link, is_autonomous] = [flags & 0x80 != 0, flags & 0x40 != 0];
        // A prefix of the configuration stays for ever.
        let is_ours = self
            .config
            .addresses
            .iter()
            .any(|range| range.prefix_len == len && crate::config::in_prefix(prefix.into(), range.first, len));
        if is_on_link && !is_ours {
            self.routes.set_on_link(prefix.into(), len, if valid_s == 0 { 0 } else { until_ns(valid_s) });
        }
        if is_autonomous && self.config.slaac && len == 64 && preferred_s <= valid_s {
            self.make_address(prefix, until_ns(preferred_s), valid_s, until_ns(valid_s), now_ns);
        }
    }

    /// Makes an address of a prefix, or lengthens its life.
    fn make_address(&mut self, prefix: Ipv6Addr, preferred_ns: u64, valid_s: u32, valid_ns: u64, now_ns: u64) {
        let address = IpAddr::from(Ipv6Addr::from_bits(prefix.to_bits() >> 64 << 64 | interface_id(self.link.mac)));
        if let Some(index) = self.addresses.position(address) {
            let own = self.addresses.list()[index];
            if own.origin != Origin::Slaac {
                return;
            }
            let left_ns = own.valid_until_ns.saturating_sub(now_ns);
            let valid_ns = if u64::from(valid_s) * SECOND_NS > TWO_HOURS_NS || valid_ns > own.valid_until_ns {
                valid_ns
            } else if left_ns <= TWO_HOURS_NS {
                own.valid_until_ns
            } else {
                now_ns + TWO_HOURS_NS
            };
            return self.set_lifetimes(index, preferred_ns, valid_ns);
        }
        let made = self.addresses.list().iter().filter(|own| own.origin == Origin::Slaac).count();
        if valid_s == 0 || made >= SLAAC_MAX || !self.add_address(address, 64, Origin::Slaac) {
            return;
        }
        if let Some(index) = self.addresses.position(address) {
            self.set_lifetimes(index, preferred_ns, valid_ns);
        }
        self.addresses_changed();
    }
}
