//! Routes, next hops, questions to neighbours, and packets that were parked for them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linerate_wire::MacAddress;

use super::{Ip, NoRoute};
use crate::event::Event;
use crate::neighbour::{Action, HopId, Learned, State};
use crate::output::Output;

impl Ip {
    /// See [`Ip::hop`].
    pub(crate) fn resolve(
        &mut self,
        src: Option<IpAddr>,
        dst: IpAddr,
        out: &mut Output<'_>,
    ) -> Result<(HopId, IpAddr), NoRoute> {
        let no_host = dst.is_unspecified() || dst.is_loopback() || self.addresses.is_ours(dst);
        if no_host || src.is_some_and(|src| src.is_ipv4() != dst.is_ipv4()) {
            return Err(NoRoute::Destination);
        }
        if src.is_some_and(|src| !self.addresses.is_ours(src)) {
            return Err(NoRoute::NotOurs);
        }
        if let Some(mac) = self.group_mac(dst) {
            let src = src.or_else(|| self.addresses.source_for(dst)).ok_or(NoRoute::NoAddress)?;
            let hop = self.neighbours.group(dst, mac, out.now_ns).ok_or(NoRoute::NeighboursFull)?;
            return Ok((hop, src));
        }
        let neighbours = &self.neighbours;
        let has_failed = |router| matches!(neighbours.find(router), Some((_, State::Failed)));
        let next = self.routes.next(dst, has_failed).ok_or(NoRoute::NoGateway)?;
        // IPv4 sends from the network that the next hop is in; IPv6 chooses by scope and prefix.
        let like = if dst.is_ipv4() { next } else { dst };
        let src = src.or_else(|| self.addresses.source_for(like)).ok_or(NoRoute::NoAddress)?;
        let (hop, action) = self.neighbours.resolve(next, out.now_ns).ok_or(NoRoute::NeighboursFull)?;
        if let Some(action) = action {
            self.act(action, out);
        }
        Ok((hop, src))
    }

    /// The MAC address of a group or broadcast address; `None` for others.
    fn group_mac(&self, dst: IpAddr) -> Option<MacAddress> {
        match dst {
            IpAddr::V4(four) if self.addresses.is_broadcast4(four.to_bits()) => Some(MacAddress::BROADCAST),
            IpAddr::V4(four) if four.is_multicast() => Some(group_mac4(four)),
            IpAddr::V6(six) if six.is_multicast() => Some(group_mac6(six)),
            _ => None,
        }
    }

    /// Takes a link address in; the packets that were parked for it leave.
    pub(super) fn learned(&mut self, address: IpAddr, mac: MacAddress, learned: Learned, out: &mut Output<'_>) {
        let Some(hop) = self.neighbours.learn(address, mac, learned, out.now_ns) else { return };
        // To ask for the header is to use the neighbour, so it is asked for only if a packet leaves.
        while let Some(parked) = self.neighbours.take_parked(hop) {
            let Some(link) = self.neighbours.header(hop).copied() else { return self.neighbours.free_parked(parked) };
            let (packet, checksum) = self.neighbours.parked(&parked);
            let is_sent = out.frame(&[link.as_slice(), packet], checksum);
            self.counters.sent += u64::from(is_sent);
            self.counters.send_failed += u64::from(!is_sent);
            self.counters.parked_sent += u64::from(is_sent);
            self.neighbours.parked_dropped += u64::from(!is_sent);
            self.neighbours.free_parked(parked);
        }
    }

    /// Asks, probes and gives up neighbours, as is due.
    pub(super) fn sweep_neighbours(&mut self, out: &mut Output<'_>) {
        let mut actions = core::mem::take(&mut self.actions);
        self.neighbours.sweep(out.now_ns, &mut actions);
        for action in actions.drain(..) {
            self.act(action, out);
        }
        self.actions = actions;
    }

    fn act(&mut self, action: Action, out: &mut Output<'_>) {
        match action {
            Action::Ask { address: IpAddr::V4(target), to } => self.ask_arp(target, to, out),
            Action::Ask { address: IpAddr::V6(target), to } => self.solicit_neighbour(target, to, out),
            Action::Failed { hop, address } => {
                self.routes.forget_redirects(address);
                self.tell(Event::NeighbourUnreachable(hop, address));
            }
        }
    }
}

/// RFC 1112 section 6.4.
fn group_mac4(group: Ipv4Addr) -> MacAddress {
    let [_, b, c, d] = group.octets();
    MacAddress([1, 0, 0x5e, b & 0x7f, c, d])
}

/// RFC 2464 section 7.
pub(super) fn group_mac6(group: Ipv6Addr) -> MacAddress {
    let [.., a, b, c, d] = group.octets();
    MacAddress([0x33, 0x33, a, b, c, d])
}
