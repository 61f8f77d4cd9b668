//! Neighbour discovery of a host (RFC 4861), duplicate detection of IPv6 (RFC 4862), reports of groups (RFC 3810).

use core::net::{IpAddr, Ipv6Addr};

use linerate_mem::Checksum;
use linerate_wire::{EtherType, MacAddress, Protocol, Sum, icmpv6, ipv6};

use super::Ip;
use super::send::Icmp;
use crate::address::{ALL_NODES, AddressState, solicited_node};
use crate::config::Redirects;
use crate::counters::DropReason;
use crate::inbound::Inbound;
use crate::neighbour::{Learned, State};
use crate::output::Output;

/// Options (RFC 4861 section 4.6).
pub(super) const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
/// Flags of advertisements.
const ROUTER: u32 = 1 << 31;
const SOLICITED: u32 = 1 << 30;
const OVERRIDE: u32 = 1 << 29;
/// Reports of groups go to all routers that speak MLD 2.
const ALL_MLD_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// Type of a report of MLD 2, and the record "any source from now on".
const LISTENER_REPORT: u8 = 143;
const CHANGE_TO_EXCLUDE: u8 = 4;

/// An option: its type, and the bytes behind its length.
pub(super) type Options<'a> = Vec<(u8, &'a [u8])>;

/// The options of a message: type and bytes behind the length. `None` if one is malformed (RFC 4861 section 6.1: the whole message is
/// dropped).
pub(super) fn options(mut bytes: &[u8]) -> Option<Options<'_>> {
    let mut options = Vec::new();
    while let [kind, units, ..] = bytes {
        let len = usize::from(*units) * 8;
        let option = bytes.get(..len).filter(|option| !option.is_empty())?;
        options.push((*kind, &option[2..]));
        bytes = &bytes[len..];
    }
    bytes.is_empty().then_some(options)
}

/// The link address in an option of type `kind`.
pub(super) fn link_address(options: &[(u8, &[u8])], kind: u8) -> Option<MacAddress> {
    let (_, bytes) = options.iter().find(|(found, _)| *found == kind)?;
    let mac = MacAddress(*bytes.first_chunk::<6>()?);
    (!mac.is_multicast() && mac != MacAddress::ZERO).then_some(mac)
}

/// The address at bytes 8 to 24 of a message, and the options behind it.
fn target(bytes: &[u8]) -> Option<(Ipv6Addr, Options<'_>)> {
    let target = Ipv6Addr::from_octets(*bytes.get(8..)?.first_chunk()?);
    if target.is_multicast() {
        return None;
    }
    Some((target, options(&bytes[24..])?))
}

impl Ip {
    /// A neighbour asks for a link address (RFC 4861 section 7.2.3).
    pub(super) fn solicited(
        &mut self,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        bytes: &[u8],
        out: &mut Output<'_>,
    ) -> Result<Inbound, DropReason> {
        let (target, options) = target(bytes).ok_or(DropReason::NeighbourDiscovery)?;
        let mac = link_address(&options, SOURCE_LINK_ADDRESS);
        let is_probe = src.is_unspecified();
        let is_wrong = is_probe && (dst != solicited_node(target) || mac.is_some());
        let Some(index) = self.addresses.position(target.into()).filter(|_| !is_wrong) else {
            return Err(DropReason::NeighbourDiscovery);
        };
        match self.addresses.list()[index].state {
            // Somebody else probes for the same address; the question of a host that looks for a neighbour is not answered yet.
            AddressState::Tentative if is_probe => self.conflict(index, MacAddress::ZERO, out),
            AddressState::Tentative => {}
            AddressState::Duplicate => return Err(DropReason::NeighbourDiscovery),
            AddressState::Ready | AddressState::Deprecated => {
                if let Some(mac) = mac {
                    self.learned(src.into(), mac, Learned::Heard, out);
                }
                self.advertise(target, (!is_probe).then_some(src), out);
            }
        }
        Ok(Inbound::Handled)
    }

    /// Tells a neighbour the link address of an address of ours; everybody, if it is unspecified who asks.
    fn advertise(&mut self, target: Ipv6Addr, to: Option<Ipv6Addr>, out: &mut Output<'_>) {
        let mut body = [0; 24];
        body[..16].copy_from_slice(&target.octets());
        body[16..].copy_from_slice(&self.link_option(TARGET_LINK_ADDRESS));
        let word = OVERRIDE | if to.is_some() { SOLICITED } else { 0 };
        let dst = to.unwrap_or(ALL_NODES);
        let message = Icmp { src: target, dst, class: 0, kind: icmpv6::NEIGHBOR_ADVERTISEMENT, code: 0, word };
        if to.is_none() {
            let link = self.group_link(dst);
            return self.send_nd(message, link, &body, out);
        }
        let Ok((hop, _)) = self.resolve(Some(target.into()), dst.into(), out) else { return };
        match self.neighbours.header(hop).copied() {
            Some(link) => self.send_nd(message, link, &body, out),
            None => {
                let mut packet = Vec::new();
                super::send::fill_icmp6(&mut packet, &message, 255, &body);
                self.park(hop, &packet, Checksum::Unknown);
            }
        }
    }

    /// A neighbour tells its link address (RFC 4861 section 7.2.5).
    pub(super) fn advertised(
        &mut self,
        dst: Ipv6Addr,
        bytes: &[u8],
        out: &mut Output<'_>,
    ) -> Result<Inbound, DropReason> {
        let (target, options) = target(bytes).ok_or(DropReason::NeighbourDiscovery)?;
        let flags = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        if dst.is_multicast() && flags & SOLICITED != 0 {
            return Err(DropReason::NeighbourDiscovery);
        }
        let mac = link_address(&options, TARGET_LINK_ADDRESS);
        if let Some(index) = self.addresses.position(target.into()) {
            self.conflict(index, mac.unwrap_or(MacAddress::ZERO), out);
            return Ok(Inbound::Handled);
        }
        let address = IpAddr::V6(target);
        let Some((hop, state)) = self.neighbours.find(address) else { return Err(DropReason::NeighbourDiscovery) };
        let (solicited, overrides) = (flags & SOLICITED != 0, flags & OVERRIDE != 0);
        match mac {
            Some(mac) => {
                let learned = match (overrides, solicited) {
                    (true, true) => Learned::Answered,
                    (true, false) => Learned::Announced,
                    (false, solicited) => Learned::Offered { solicited },
                };
                self.learned(address, mac, learned, out);
            }
            // Without a link address it confirms the one that is known.
            None if solicited && state != State::Incomplete => self.neighbours.confirm(hop),
            None => {}
        }
        if self.neighbours.set_router(address, flags & ROUTER != 0) {
            self.routes.set_router(address, 0);
        }
        Ok(Inbound::Handled)
    }

    /// Follows a redirect if the configuration says so (RFC 4861 section 8).
    pub(super) fn redirected6(
        &mut self,
        src: Ipv6Addr,
        bytes: &[u8],
        out: &mut Output<'_>,
    ) -> Result<Inbound, DropReason> {
        let (target, _) = target(bytes).ok_or(DropReason::NeighbourDiscovery)?;
        let dst = bytes.get(24..).and_then(|rest| rest.first_chunk()).map(|dst| Ipv6Addr::from_octets(*dst));
        let dst = dst.filter(|dst| !dst.is_multicast()).ok_or(DropReason::NeighbourDiscovery)?;
        let options = options(&bytes[40..]).ok_or(DropReason::NeighbourDiscovery)?;
        let is_first_hop = src.is_unicast_link_local() && self.routes.next(dst.into(), |_| false) == Some(src.into());
        let may_go = target.is_unicast_link_local() || target == dst;
        if self.config.redirects == Redirects::Refuse
            || !is_first_hop
            || !may_go
            || self.addresses.is_ours6(dst.to_bits())
        {
            return Err(DropReason::Redirect);
        }
        self.routes.redirect(dst.into(), target.into());
        if let Some(mac) = link_address(&options, TARGET_LINK_ADDRESS) {
            self.learned(target.into(), mac, Learned::Heard, out);
        }
        Ok(Inbound::Handled)
    }

    /// Asks for the link address of a neighbour: its group, or the neighbour alone (RFC 4861 section 7.2.2).
    pub(super) fn solicit_neighbour(&mut self, target: Ipv6Addr, to: Option<MacAddress>, out: &mut Output<'_>) {
        let Some(IpAddr::V6(src)) = self.addresses.source_for(target.into()) else { return };
        let mut body = [0; 24];
        body[..16].copy_from_slice(&target.octets());
        body[16..].copy_from_slice(&self.link_option(SOURCE_LINK_ADDRESS));
        let dst = if to.is_some() { target } else { solicited_node(target) };
        let link = to.map_or_else(|| self.group_link(dst), |mac| self.link.header(mac, EtherType::IPV6));
        let message = Icmp { src, dst, class: 0, kind: icmpv6::NEIGHBOR_SOLICITATION, code: 0, word: 0 };
        self.send_nd(message, link, &body, out);
    }

    /// Asks whether anybody has an address that is to be ours.
    pub(super) fn send_duplicate_solicitation(&mut self, target: Ipv6Addr, out: &mut Output<'_>) {
        let dst = solicited_node(target);
        let src = Ipv6Addr::UNSPECIFIED;
        let message = Icmp { src, dst, class: 0, kind: icmpv6::NEIGHBOR_SOLICITATION, code: 0, word: 0 };
        let link = self.group_link(dst);
        self.send_nd(message, link, &target.octets(), out);
    }

    /// An option with our own link address.
    pub(super) fn link_option(&self, kind: u8) -> [u8; 8] {
        let [a, b, c, d, e, f] = self.link.mac.0;
        [kind, 1, a, b, c, d, e, f]
    }

    /// Reports the solicited-node group of an address, so that switches that listen pass its packets on (RFC 3810, RFC 3590 for the source).
    pub(super) fn send_group_report(&mut self, address: Ipv6Addr, is_tentative: bool, out: &mut Output<'_>) {
        let own = self.addresses.source_for(ALL_MLD_ROUTERS.into());
        let src = match own {
            Some(IpAddr::V6(own)) if !is_tentative && own.is_unicast_link_local() => own,
            _ => Ipv6Addr::UNSPECIFIED,
        };
        // Hop-by-hop options: the router alert of MLD (RFC 2711), padding.
        let mut packet = vec![0; ipv6::HEADER_LEN];
        packet.extend([Protocol::ICMPV6.0, 0, 5, 2, 0, 0, 1, 0]);
        let start = packet.len();
        packet.extend([LISTENER_REPORT, 0, 0, 0, 0, 0, 0, 1, CHANGE_TO_EXCLUDE, 0, 0, 0]);
        packet.extend(solicited_node(address).octets());
        let len = packet.len() - start;
        let pseudo = Sum::pseudo_ipv6(src, ALL_MLD_ROUTERS, Protocol::ICMPV6.0, len as u32);
        let checksum = pseudo.add_slice(&packet[start..]).finish();
        packet[start + 2..start + 4].copy_from_slice(&checksum.to_be_bytes());
        let header = ipv6::Header {
            payload_len: (packet.len() - ipv6::HEADER_LEN) as u16,
            next_header: Protocol::HOP_BY_HOP,
            hop_limit: 1,
            src,
            dst: ALL_MLD_ROUTERS,
            ..Default::default()
        };
        header.emit(&mut packet);
        let link = self.group_link(ALL_MLD_ROUTERS);
        self.emit(&[link.as_slice(), &packet], Checksum::Unknown, out);
    }

    /// A router asks which groups somebody listens to: all are reported again, within the time that it gives in milliseconds.
    pub(super) fn listeners_asked(
        &mut self,
        src: Ipv6Addr,
        hop_limit: u8,
        within_ms: u32,
        now_ns: u64,
    ) -> Result<Inbound, DropReason> {
        if !src.is_unicast_link_local() || hop_limit != 1 {
            return Err(DropReason::Icmp);
        }
        for index in 0..self.addresses.list().len() {
            let own = self.addresses.list()[index];
            let is_in_use = matches!(own.state, AddressState::Ready | AddressState::Deprecated);
            if own.address.is_ipv6() && is_in_use {
                let delay_ns = self.random.below(u64::from(within_ms.max(1)) * 1_000_000);
                if let Some(own) = self.addresses.at_mut(index) {
                    (own.probes, own.step_ns) = (1, now_ns + delay_ns);
                }
            }
        }
        self.addresses_ns = now_ns;
        Ok(Inbound::Handled)
    }
}
