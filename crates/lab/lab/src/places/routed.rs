//! Losses inside a router: between the totals of its IPv4 counters.

use linerate_report::Loss;

use super::segment::Segment;
use super::{Path, backlog_full, counted};
use crate::counters::{Difference, DutCounters, HostCounters, InterfaceCounters, SideCounters};
use crate::drops::causes::{At, Piece, Sureness};
use crate::hooks::Hook;
use crate::proc_net::Counters;

impl Path {
    /// From the DUT's interfaces that take load to its IPv4 input; so many of each one's drops came here.
    pub(super) fn ingress(&mut self, dut: &DutCounters, late_of: &[(&InterfaceCounters, u64)]) {
        let strangers: u64 = late_of.iter().map(|(interface, _)| interface.rx_otherhost_dropped).sum();
        let chain = chain_at(dut, &[Hook::Ingress]);
        let (first, last) = (&dut.ingress, &dut.egress);
        let mut segment = Segment::new(before_ip(dut) + strangers, Piece::Ingress, first, last, chain.as_deref());
        for (interface, late) in late_of {
            let name = &interface.name;
            segment.take_xdp_drops(interface);
            let in_backlog = segment.take(backlog_full((*late).min(self.backlog)));
            self.backlog -= in_backlog;
            let cause = "no protocol handler for this EtherType";
            segment.take(Loss::new(name, cause, late - in_backlog).counted_by(format!("{name} rx_dropped")));
            let cause = "destination MAC address (or VLAN) is not the DUT's";
            let stranger = Loss::new(name, cause, interface.rx_otherhost_dropped);
            segment.take(stranger.counted_by(format!("{name} rx_otherhost_dropped")));
        }
        let names: Vec<&str> = late_of.iter().map(|(interface, _)| interface.name.as_str()).collect();
        let names = names.join(" or ");
        for (interface, _) in late_of {
            segment.at = At { from: &interface.name, to: &interface.name, ..segment.at };
            self.divide(&mut segment, Sureness::Any);
        }
        segment.take_rest_by_elimination(chain.clone(), &names);
        self.close(segment, &format!("between {names} and IPv4 input of the DUT"));
        let ipv6 = counted("DUT, IPv6 input", "IPv6 is off", "Ip6InDiscards", count(&dut.protocols, "Ip6InDiscards"));
        self.push(ipv6);
    }

    /// From IPv4 input to the decision to forward.
    pub(super) fn routing(&mut self, dut: &DutCounters) {
        let counter = |name| count(&dut.protocols, name);
        let place = "DUT, IPv4 input";
        let lost = counter("Ip.InReceives").saturating_sub(counter("Ip.ForwDatagrams"));
        let chain = chain_at(dut, &[Hook::Prerouting, Hook::Input]);
        let mut segment = Segment::new(lost, Piece::Routing, &dut.ingress, &dut.egress, chain.as_deref());
        self.divide(&mut segment, Sureness::OnlyHere);
        let checksum = counter("IpExt.InCsumErrors");
        segment.take(counted(place, "wrong IP header checksum", "IpExt.InCsumErrors", checksum));
        let header = match counter("Icmp.OutTimeExcds") {
            0 => "malformed IP header",
            _ => "TTL expired",
        };
        segment.take(counted(place, header, "Ip.InHdrErrors", counter("Ip.InHdrErrors").saturating_sub(checksum)));
        for (name, cause) in INPUT_CAUSES {
            segment.take(counted(place, cause, name, counter(name)));
        }
        let table_full = counter("conntrack.drop").saturating_sub(counter("conntrack.insert_failed"));
        segment.take(counted(place, "connection tracking table full", "nf_conntrack drop", table_full));
        self.divide(&mut segment, Sureness::Any);
        let refusing = "blackhole, unreachable or prohibit route";
        let only = match (chain.clone(), dut.refusing_route) {
            (Some(chain), true) => Some(format!("{chain}, or a {refusing}")),
            (None, true) => Some(refusing.to_owned()),
            (chain, false) => chain,
        };
        segment.take_rest_by_elimination(only, place);
        self.close(segment, "between IPv4 input and forwarding of the DUT");
    }

    /// From the decision to forward to IPv4 output. Packets of the DUT's own (its ICMP errors) join here.
    pub(super) fn forwarding(&mut self, dut: &DutCounters) {
        let counter = |name| count(&dut.protocols, name);
        let place = "DUT, forwarding";
        let arrived = counter("Ip.ForwDatagrams") + counter("Ip.OutRequests") + counter("Ip.FragCreates");
        let left = out_transmits(&dut.protocols) + counter("Ip.FragOKs");
        let lost = arrived.saturating_sub(left);
        let chain = chain_at(dut, &[Hook::Forward, Hook::Postrouting, Hook::Output]);
        let mut segment = Segment::new(lost, Piece::Forwarding, &dut.ingress, &dut.egress, chain.as_deref());
        self.divide(&mut segment, Sureness::OnlyHere);
        let cause = format!("packet longer than the MTU of {}, and may not be fragmented", dut.egress.name);
        segment.take(counted(place, &cause, "Ip.FragFails", counter("Ip.FragFails")));
        let cause = "connection tracking could not insert it";
        segment.take(counted(place, cause, "nf_conntrack insert_failed", counter("conntrack.insert_failed")));
        self.divide(&mut segment, Sureness::Any);
        segment.take_rest_by_elimination(chain.clone(), place);
        self.close(segment, "between forwarding and IPv4 output of the DUT");
    }

    /// From IPv4 output to the DUT's interfaces: queueing and neighbours.
    pub(super) fn output(&mut self, dut: &DutCounters, difference: &Difference, both_ways: bool) {
        let (ingress, egress) = (&dut.ingress, &dut.egress);
        let handed: u64 = [ingress, egress].iter().map(|i| i.tx_packets + i.tx_dropped).sum();
        let neighbour = neighbour_cause(dut, &difference.host);
        // The interfaces also count ARP requests and what XDP sent; IPv4 does not.
        let arp = match neighbour {
            Some(_) => not_ip(&difference.generator) + not_ip(&difference.receiver),
            None => 0,
        };
        let xdp: u64 = [ingress, egress].iter().map(|i| i.driver_sum("tx", "xdp_xmit")).sum();
        let earlier = self.carried_over.at(ingress) + self.carried_over.at(egress);
        let lost = (out_transmits(&dut.protocols) + arp + xdp + earlier).saturating_sub(handed);
        let chain = chain_at(dut, &[Hook::Egress]);
        let known = neighbour.clone().or(chain.clone());
        let receiver = &difference.receiver.interface;
        let mut segment = Segment::new(lost, Piece::Output, egress, receiver, known.as_deref());
        self.divide(&mut segment, Sureness::OnlyHere);
        segment.at = At { from: &ingress.name, to: &egress.name, ..segment.at };
        let queues = if both_ways { vec![egress, ingress] } else { vec![egress] };
        queues.iter().for_each(|queue| segment.take_queue_drops(queue));
        queues.iter().for_each(|queue| segment.take_queued(queue));
        self.divide(&mut segment, Sureness::Any);
        segment.take_rest_if(neighbour, "DUT, neighbour table");
        segment.take_ring_of(receiver);
        segment.take_rest_by_elimination(chain.clone(), &egress.name);
        self.close(segment, &format!("between IPv4 output of the DUT and {}", egress.name));
    }
}

/// Counters of IPv4 input that stand for one dropped (or kept) packet each.
const INPUT_CAUSES: [(&str, &str); 7] = [
    ("IpExt.InTruncatedPkts", "shorter than its IP header says"),
    ("Ip.InDiscards", "out of memory"),
    ("TcpExt.IPReversePathFilter", "reverse path filter"),
    ("IpExt.InNoRoutes", "no route"),
    ("Ip.InAddrErrors", "not for the DUT, and forwarding is off"),
    ("Ip.InUnknownProtos", "for the DUT itself, protocol unknown"),
    ("Ip.InDelivers", "taken by the DUT's own stack"),
];

/// Packets that the ingress counted as received and that did not reach IPv4 input or its "other host" drop.
pub(super) fn before_ip(dut: &DutCounters) -> u64 {
    let interfaces = [&dut.ingress, &dut.egress];
    let sum = |of: fn(&InterfaceCounters) -> u64| interfaces.iter().map(|interface| of(interface)).sum::<u64>();
    let elsewhere = sum(|i| i.driver_sum("rx", "xdp_redirect") + i.driver_sum("rx", "xdp_tx"));
    let in_ip = count(&dut.protocols, "Ip.InReceives") + count(&dut.protocols, "Ip6InReceives");
    sum(|i| i.rx_packets).saturating_sub(sum(|i| i.rx_otherhost_dropped) + elsewhere + in_ip)
}

/// Drops of one of the DUT's interfaces that its peer does not count too. Drops on the veth come before the packet is counted as
/// received, these after it, so they can be no more than what is `missing` at IPv4 input.
pub(super) fn dropped_after_reception(interface: &InterfaceCounters, peer: &InterfaceCounters, missing: u64) -> u64 {
    let on_link = peer.driver_sum("tx", "xdp_xmit_errors");
    interface.rx_dropped.saturating_sub(on_link).min(missing)
}

/// Packets that reached a tester's side and are not IP: the DUT's ARP. Where an XDP program takes packets first this cannot
/// be told.
fn not_ip(side: &SideCounters) -> u64 {
    let interface = &side.interface;
    if interface.xdp {
        return 0;
    }
    let in_ip = count(&side.protocols, "Ip.InReceives") + count(&side.protocols, "Ip6InReceives");
    interface.rx_packets.saturating_sub(interface.rx_otherhost_dropped + in_ip)
}

fn neighbour_cause(dut: &DutCounters, host: &HostCounters) -> Option<String> {
    match (dut.unresolved_neighbours.as_slice(), host.neighbour_discards, host.neighbour_table_fulls) {
        ([address, ..], _, _) => Some(format!("next hop {address} does not answer")),
        ([], Some(1..), _) => Some("a next hop does not answer".to_owned()),
        ([], _, Some(1..)) => Some("table full (net.ipv4.neigh.default.gc_thresh3)".to_owned()),
        _ => None,
    }
}

/// The chain that must have dropped what is missing at one of these hooks, in words.
fn chain_at(dut: &DutCounters, hooks: &[Hook]) -> Option<String> {
    let names: Vec<&str> =
        dut.chains.iter().filter(|chain| hooks.contains(&chain.hook)).map(|chain| chain.name.as_str()).collect();
    match names.as_slice() {
        [] => None,
        [name] => Some(format!("nftables chain {name}")),
        names => Some(format!("nftables chains {}", names.join(", "))),
    }
}

/// Packets that IPv4 gave to the neighbour layer. Kernels that do not count them show no loss in forwarding but what has a
/// counter, and the rest at the output.
fn out_transmits(counters: &Counters) -> u64 {
    let joined = ["Ip.ForwDatagrams", "Ip.OutRequests", "Ip.FragCreates"].map(|name| count(counters, name));
    let gone = ["Ip.FragOKs", "Ip.FragFails", "conntrack.insert_failed"].map(|name| count(counters, name));
    let derived = joined.iter().sum::<u64>().saturating_sub(gone.iter().sum());
    counters.get("Ip.OutTransmits").copied().unwrap_or(derived)
}

fn count(counters: &Counters, name: &str) -> u64 {
    counters.get(name).copied().unwrap_or_default()
}
