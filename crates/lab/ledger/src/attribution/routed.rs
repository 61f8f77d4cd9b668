//! Losses inside a router: between the totals of the counters of IPv4 and of IPv6.

use linerate_experiment::IpVersion;
use linerate_report::Loss;

use super::ip::{IPV4, IPV6, Ip};
use super::neighbours::{NEIGHBOUR_TABLE, silent_neighbours};
use super::segment::Segment;
use super::{Direction, Path, counted, xdp_drops};
use crate::counters::{Difference, DutCounters, InterfaceCounters, SideCounters};
use crate::drops::causes::{
    self, IPSEC, Known, MALFORMED, NO_HANDLER, NO_ROUTE, NO_ROUTE_OR_REFUSED, Piece, REFUSING_ROUTE, TOO_LONG,
};
use crate::drops::reasons::Confidence;
use crate::hooks::{Chain, Hook};
use linerate_testbed::proc_net::Counters;

const FORWARDING: &str = "DUT, forwarding";
const CHAINS: &str = "the nftables chains at that hook";

impl Path {
    /// From the DUT's interfaces that take load to its IPv4 input, where so many are missing; so many of each one's drops came here.
    pub(super) fn ingress(&mut self, dut: &DutCounters, late_of: &[(&InterfaceCounters, u64)], missing: u64) {
        let other_traffic: u64 = late_of.iter().map(|(interface, _)| interface.rx_otherhost_dropped).sum();
        let chains = chains_at(dut, &[Hook::Ingress], None);
        let known = Known { chains: chains.as_deref(), ..Known::default() };
        let mut segment = Segment::new(missing + other_traffic, Piece::Ingress, &dut.ingress, &dut.egress, known);
        self.divide(&mut segment, Confidence::OnlyHere);
        for (interface, late) in late_of {
            let name = &interface.name;
            let by_program = segment.take_xdp(interface);
            let in_backlog = self.take_backlog(&mut segment, late.saturating_sub(by_program));
            let dropped = late.saturating_sub(by_program + in_backlog);
            segment.take(Loss::new(name, NO_HANDLER, dropped).inferred_from(format!("{name} rx_dropped")));
            let cause = "destination MAC address (or VLAN) is not the DUT's";
            let stranger = Loss::new(name, cause, interface.rx_otherhost_dropped);
            segment.take(stranger.counted_by(format!("{name} rx_otherhost_dropped")));
        }
        let names: Vec<&str> = late_of.iter().map(|(interface, _)| interface.name.as_str()).collect();
        let names = names.join(" or ");
        self.divide(&mut segment, Confidence::Any);
        segment.take_rest(&names, chains.clone(), CHAINS);
        self.close(segment, &format!("between {names} and IP input of the DUT"));
    }

    /// From the input of a version of IP to the decision to forward.
    pub(super) fn routing(&mut self, dut: &DutCounters, ip: &Ip) {
        let counter = |name| count(&dut.protocols, name);
        let lost = counter(ip.in_receives).saturating_sub(counter(ip.forwarded));
        let chains = chains_at(dut, &[Hook::Prerouting, Hook::Input], Some(ip.version));
        let legacy = legacy_in(dut, "PREROUTING or INPUT", Some(ip.version));
        let is_refusing = ip.is_refusing(dut);
        let known = Known {
            chains: chains.as_deref(),
            legacy: legacy.as_deref(),
            ip: Some(ip.version),
            no_route: is_refusing.then_some(NO_ROUTE_OR_REFUSED),
            ..Known::default()
        };
        let mut segment = Segment::new(lost, Piece::Routing, &dut.ingress, &dut.egress, known);
        self.divide(&mut segment, Confidence::OnlyHere);
        let checksum = ip.checksum_errors.map_or(0, &counter);
        segment.take(counted(ip.input, "wrong IP header checksum", ip.checksum_errors.unwrap_or_default(), checksum));
        let headers = counter(ip.header_errors).saturating_sub(checksum);
        let either = Loss::new(ip.input, format!("{MALFORMED}, or {}", ip.hops), headers);
        let both = format!("{}, which counts both", ip.header_errors);
        segment.take_covering(either.inferred_from(both), &[MALFORMED, ip.hops]);
        let ipsec = dut.protocols.iter().filter(|(name, _)| name.starts_with("Xfrm")).map(|(_, packets)| packets).sum();
        let by_policy = segment.take(counted(ip.input, IPSEC, "/proc/net/xfrm_stat", ipsec));
        for (name, cause) in ip.causes {
            let packets = counter(name);
            match *name {
                // What a policy forbids is counted here, too.
                "Ip6InDiscards" => segment.take(counted(ip.input, cause, name, packets.saturating_sub(by_policy))),
                "Ip6InNoRoutes" if is_refusing => {
                    let loss = Loss::new(ip.input, NO_ROUTE_OR_REFUSED, packets).counted_by(*name);
                    segment.take_covering(loss, &[NO_ROUTE, REFUSING_ROUTE])
                }
                _ => segment.take(counted(ip.input, cause, name, packets)),
            };
        }
        let table_full = counter("conntrack.drop").saturating_sub(counter("conntrack.insert_failed"));
        segment.take(counted(ip.input, "connection tracking table full", "nf_conntrack drop", table_full));
        self.divide(&mut segment, Confidence::Any);
        let refusing = is_refusing.then(|| REFUSING_ROUTE.to_owned());
        let standing: Vec<String> = [chains.clone(), legacy.clone(), refusing].into_iter().flatten().collect();
        let only = (!standing.is_empty()).then(|| standing.join(", or "));
        segment.take_rest(ip.input, only, "what stands there");
        self.close(segment, &format!("between {} input and forwarding of the DUT", ip.name));
    }

    /// From the decision to forward to the output of a version of IP. Packets of the DUT's own (its ICMP errors) join here.
    pub(super) fn forwarding(&mut self, dut: &DutCounters, ip: &Ip) {
        let counter = |name| count(&dut.protocols, name);
        let arrived = ip.joined.iter().map(|name| counter(name)).sum::<u64>();
        let left = ip.transmitted(&dut.protocols) + counter(ip.fragmented);
        let lost = arrived.saturating_sub(left);
        let chains = chains_at(dut, &[Hook::Forward, Hook::Postrouting, Hook::Output], Some(ip.version));
        let legacy = legacy_in(dut, "FORWARD or POSTROUTING", Some(ip.version));
        let known =
            Known { chains: chains.as_deref(), legacy: legacy.as_deref(), ip: Some(ip.version), ..Known::default() };
        let mut segment = Segment::new(lost, Piece::Forwarding, &dut.ingress, &dut.egress, known);
        self.divide(&mut segment, Confidence::OnlyHere);
        segment.take(counted(FORWARDING, TOO_LONG, ip.too_long, counter(ip.too_long)));
        let cause = "connection tracking could not insert it";
        segment.take(counted(FORWARDING, cause, "nf_conntrack insert_failed", counter("conntrack.insert_failed")));
        self.divide(&mut segment, Confidence::Any);
        let standing: Vec<String> = [chains.clone(), legacy.clone()].into_iter().flatten().collect();
        let only = (!standing.is_empty()).then(|| standing.join(", or "));
        segment.take_rest(FORWARDING, only, "what stands at its hooks");
        self.close(segment, &format!("between forwarding and {} output of the DUT", ip.name));
    }

    /// From IP output to the DUT's interfaces: queueing and neighbours; and out of interfaces that lead elsewhere.
    pub(super) fn output(
        &mut self,
        dut: &DutCounters,
        difference: &Difference,
        (forward, backward): (Direction<'_>, Option<Direction<'_>>),
    ) {
        let (ingress, egress, both_ways) = (&dut.ingress, &dut.egress, backward.is_some());
        let at_receiver = not_ip(&difference.receiver, Some(forward));
        let at_generator = not_ip(&difference.generator, backward);
        let sum = |of: fn(&InterfaceCounters) -> u64| of(ingress) + of(egress);
        let neighbours = silent_neighbours(dut);
        // The interfaces also count ARP requests and what XDP sent; IP does not. It does count neighbour solicitations.
        let arp = match neighbours.is_some() || self.reasons.any("NEIGH_") > 0 {
            true => at_generator + at_receiver,
            false => 0,
        };
        let redirected = sum(|i| i.driver_sum("rx", "xdp_redirect"));
        let earlier = self.carried_over.at(ingress) + self.carried_over.at(egress);
        let entered = transmitted(&dut.protocols) + arp + redirected + earlier;
        let lost = entered.saturating_sub(sum(handed));
        let chains = chains_at(dut, &[Hook::Egress], None);
        let known = Known { chains: chains.as_deref(), neighbours: neighbours.as_deref(), ..Known::default() };
        let receiver = &difference.receiver.interface;
        let mut segment = Segment::new(lost, Piece::Output, egress, receiver, known);
        self.divide(&mut segment, Confidence::OnlyHere);
        let queues = if both_ways { vec![egress, ingress] } else { vec![egress] };
        queues.iter().for_each(|queue| segment.take_queue_drops(queue));
        queues.iter().for_each(|queue| segment.take_queued(queue));
        self.divide(&mut segment, Confidence::Any);
        let arrived = sum(|i| i.driver_sum("tx", "xdp_xmit") + i.driver_sum("tx", "xdp_xmit_errors"));
        let cause = "redirected by the XDP program to another interface than the path's";
        let counters = "rx_queue_*_xdp_redirect less tx_queue_*_xdp_xmit";
        segment.take(counted(&ingress.name, cause, counters, redirected.saturating_sub(arrived)));
        for (name, packets) in &dut.elsewhere {
            let cause = "sent out of an interface that does not lead to the receiver";
            segment.take(counted(name, cause, &format!("{name} tx_packets"), *packets));
        }
        segment.take_rest(NEIGHBOUR_TABLE, neighbours.clone(), "the neighbour table");
        segment.take_ring_of(receiver);
        segment.take_rest(&egress.name, chains.clone(), CHAINS);
        self.close(segment, &format!("between IP output of the DUT and {}", egress.name));
        self.apart_by_next_hop(dut, difference.drops.as_ref());
        self.turned_back(dut, ingress, egress, at_generator);
        if both_ways {
            self.turned_back(dut, egress, ingress, at_receiver);
        }
    }

    /// What left by the interface that it came in by: more than came in by the other one, and than the DUT sent of its own.
    fn turned_back(
        &mut self,
        dut: &DutCounters,
        interface: &InterfaceCounters,
        other: &InterfaceCounters,
        not_ip: u64,
    ) {
        let made = ["Ip.OutRequests", "Ip.FragCreates", "Ip6OutRequests", "Ip6FragCreates"];
        let own = made.iter().map(|name| count(&dut.protocols, name)).sum::<u64>() + not_ip;
        let expected = other.rx_packets + own + self.carried_over.at(interface);
        let cause = "sent back out of the interface that it came in by";
        let packets = handed(interface).saturating_sub(expected);
        self.push(counted(&interface.name, cause, &format!("{} tx_packets", interface.name), packets));
    }
}

impl Segment<'_> {
    /// What the XDP program of an interface dropped, sent back, and could not send on; how many of these the interface counts as dropped.
    pub(super) fn take_xdp(&mut self, interface: &InterfaceCounters) -> u64 {
        let name = &interface.name;
        self.take_xdp_drops(interface);
        let sent_back = format!("sent back out of {name} by the XDP program (XDP_TX)");
        let counter = |counter: &str| (format!("{name} rx_queue_*_{counter}"), interface.driver_sum("rx", counter));
        let (source, packets) = counter("xdp_tx");
        self.take(counted(name, &sent_back, &source, packets));
        let (source, packets) = counter("xdp_tx_errors");
        self.take(counted(name, causes::XDP_TX_FAILED, &source, packets));
        if !interface.xdp {
            return 0;
        }
        let (source, packets) = counter("drops");
        let failed =
            Loss::new(name, "redirect by the XDP program failed, or it sent back what the interface refused", packets);
        self.take_covering(failed.inferred_from(source), &[causes::REDIRECT_FAILED, causes::XDP_TX_FAILED]);
        packets
    }
}

/// Packets that the DUT's interfaces counted as received and that did not reach the input of IP or its "other host" drop.
pub(super) fn before_ip(
    dut: &DutCounters,
    difference: &Difference,
    ways: (Direction<'_>, Option<Direction<'_>>),
) -> u64 {
    let interfaces = [&dut.ingress, &dut.egress];
    let sum = |of: fn(&InterfaceCounters) -> u64| interfaces.iter().map(|interface| of(interface)).sum::<u64>();
    let redirected = sum(|i| i.driver_sum("rx", "xdp_redirect"));
    let in_ip = count(&dut.protocols, "Ip.InReceives") + count(&dut.protocols, "Ip6InReceives");
    let own = testers_own(&difference.generator, ways.0.sent)
        + testers_own(&difference.receiver, ways.1.map_or(0, |way| way.sent));
    sum(|i| i.rx_packets).saturating_sub(sum(|i| i.rx_otherhost_dropped) + redirected + in_ip + own)
}

/// Packets that a tester's side sent beside its load and that are not IP: its answers to ARP.
fn testers_own(side: &SideCounters, load: u64) -> u64 {
    side.interface.tx_packets.saturating_sub(load + transmitted(&side.protocols))
}

/// Drops of one of the DUT's interfaces that its peer does not count too. Drops on the veth come before the packet is counted as
/// received, these after it, so they can be no more than what is `missing` at IPv4 input.
pub(super) fn dropped_after_reception(interface: &InterfaceCounters, peer: &InterfaceCounters, missing: u64) -> u64 {
    let on_link = peer.driver_sum("tx", "xdp_xmit_errors");
    interface.rx_dropped.saturating_sub(on_link).min(missing)
}

/// Packets that were handed to one of the DUT's interfaces; not those that its XDP program sent back, which never left it.
fn handed(interface: &InterfaceCounters) -> u64 {
    let sent_back = interface.driver_sum("rx", "xdp_tx") + interface.driver_sum("rx", "xdp_tx_errors");
    (interface.tx_packets + interface.tx_dropped).saturating_sub(sent_back)
}

/// Packets that reached a tester's side, to which this way led, and are not IP: the DUT's ARP. An XDP program that counts packets drops
/// those of a load and leaves others to the stack; they are no more than came without a load's signature. Where one hands all of them to a
/// port, that has seen which they are.
fn not_ip(side: &SideCounters, way: Option<Direction<'_>>) -> u64 {
    let interface = &side.interface;
    let in_ip = count(&side.protocols, "Ip.InReceives") + count(&side.protocols, "Ip6InReceives");
    let by_program = xdp_drops(interface) + interface.driver_sum("rx", "xdp_redirect");
    let others = interface.rx_packets.saturating_sub(interface.rx_otherhost_dropped + in_ip + by_program);
    match (interface.xdp, way) {
        (true, Some(way)) => others.min(way.unknown).max(way.ports.not_ip),
        (true, None) => 0,
        (false, _) => others,
    }
}

/// The chains of which one must have dropped what is missing at these hooks, of that version of IP where that is known, in words.
pub(super) fn chains_at(dut: &DutCounters, hooks: &[Hook], version: Option<IpVersion>) -> Option<String> {
    let is_met = |chain: &&Chain| version.is_none_or(|version| chain.meets(version)) && hooks.contains(&chain.hook);
    let names: Vec<&str> = dut.chains.iter().filter(is_met).map(|chain| chain.name.as_str()).collect();
    match names.as_slice() {
        [] => None,
        [name] => Some(format!("nftables chain {name}")),
        names => Some(format!("nftables chains {}", names.join(", "))),
    }
}

/// The rules of iptables (legacy) at these hooks, in words, where there can be some.
pub(super) fn legacy_in(dut: &DutCounters, hooks: &str, version: Option<IpVersion>) -> Option<String> {
    let has = |of, tables: &[String]| version.is_none_or(|version| version == of) && !tables.is_empty();
    let has_v4 = has(IpVersion::V4, &dut.legacy_tables);
    let has_v6 = has(IpVersion::V6, &dut.legacy_tables_6);
    let tool = match (has_v4, has_v6) {
        (true, _) => "iptables",
        (false, true) => "ip6tables",
        (false, false) => return None,
    };
    Some(format!("an {tool} (legacy) rule in {hooks}"))
}

/// Packets that both versions of IP gave to the neighbour layer.
fn transmitted(counters: &Counters) -> u64 {
    [IPV4, IPV6].iter().map(|ip| ip.transmitted(counters)).sum()
}

fn count(counters: &Counters, name: &str) -> u64 {
    counters.get(name).copied().unwrap_or_default()
}
