//! Where on the path packets were lost, and why: a [`Difference`] of counters turned into rows, each lost packet in one row.
//!
//! The path is cut where the kernel counts all packets that pass: the interfaces' packet counters, IPv4's `InReceives`,
//! `ForwDatagrams` and `OutTransmits`. What one such total has more than the next was lost in between, and the counters of
//! causes only divide that number. So no packet is counted twice, although on a veth one drop moves up to four counters, and
//! a loss that no counter names (a netfilter rule without `counter`, a blackhole route) still has its place.
//! docs/ledger.md has the experiments behind each rule.

mod segment;
mod switched;

use linerate_report::Loss;

use crate::counters::{Difference, DutCounters, HostCounters, InterfaceCounters, SideCounters};
use crate::drops::causes::{At, Piece, Reasons, Sureness};
use crate::drops::hints;
use crate::hooks::Hook;
use crate::proc_net::Counters;
use crate::topology::Carrier;
use segment::{ALL, RING_FULL, Segment};

/// Rows that the ports know themselves: what their own rings and sockets dropped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortRows {
    /// Of the sending port. What its interface counts as well is counted there.
    pub generator: Vec<Loss>,
    /// Of the receiving port.
    pub receiver: Vec<Loss>,
}

/// The losses of a path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Losses {
    /// Losses with a cause, in path order.
    pub rows: Vec<Loss>,
    /// Losses whose place is known and whose cause is not.
    pub unnamed: Vec<Loss>,
    /// Drops that the kernel tells of and that the path's totals do not miss, in words.
    pub contradictions: Vec<String>,
}

/// Packets of one direction: from a port that handed `sent` packets to its interface to one that took `received` from its own, the
/// latter counting everything that came, duplicates and strangers too.
#[derive(Debug, Clone, Copy)]
pub struct Way<'a> {
    /// By the sending port's count.
    pub sent: u64,
    /// By the receiving port's count.
    pub received: u64,
    /// What the two ports know themselves.
    pub ports: &'a PortRows,
}

/// The losses between a port that handed `sent` packets to its interface and one that took `received` from its own, one way.
pub fn losses(difference: &Difference, sent: u64, received: u64, ports: &PortRows) -> Losses {
    losses_of_ways(difference, Way { sent, received, ports }, None)
}

/// The losses from the generator's port to the receiver's and, where there is load that way too, from there `backward`. The
/// kernel's totals of the DUT do not tell directions apart, so a piece of the path inside it is summed over both.
pub fn losses_of_ways(difference: &Difference, forward: Way<'_>, backward: Option<Way<'_>>) -> Losses {
    let mut path = Path {
        losses: Losses::default(),
        backlog: difference.host.backlog_drops(),
        reasons: Reasons::new(difference.drops.as_ref()),
    };
    let generator = &difference.generator.interface;
    let receiver = &difference.receiver.interface;
    let (first, last) = difference.dut.as_ref().map_or((receiver, generator), |dut| (&dut.ingress, &dut.egress));
    let mut senders = vec![(generator, first, forward)];
    senders.extend(backward.map(|way| (receiver, last, way)));
    let on_link: Vec<u64> = senders.iter().map(|(from, to, way)| path.sending(from, to, *way)).collect();
    match &difference.dut {
        Some(dut) if dut.carrier != Carrier::Routing => {
            let entered = [(generator, &dut.ingress), (receiver, &dut.egress)];
            let late = switched::dropped_after_reception(dut, &entered);
            for (((from, to), lost), late) in entered.into_iter().zip(&on_link).zip(late) {
                path.link(from, to, *lost, late);
            }
            path.switching(dut, late.iter().sum());
            path.link(&dut.egress, receiver, dut.egress.tx_dropped, receiver.driver_sum("rx", "drops"));
            if backward.is_some() {
                path.link(&dut.ingress, generator, dut.ingress.tx_dropped, generator.driver_sum("rx", "drops"));
            }
        }
        Some(dut) => {
            let mut missing = before_ip(dut).saturating_sub(xdp_drops(&dut.ingress));
            let late = dropped_after_reception(&dut.ingress, generator, missing);
            missing -= late;
            path.link(generator, &dut.ingress, on_link[0], late);
            let mut late_of = vec![(&dut.ingress, late)];
            if let Some(lost) = on_link.get(1) {
                let late =
                    dropped_after_reception(&dut.egress, receiver, missing.saturating_sub(xdp_drops(&dut.egress)));
                path.link(receiver, &dut.egress, *lost, late);
                late_of.push((&dut.egress, late));
            }
            path.ingress(dut, &late_of);
            path.routing(dut);
            path.forwarding(dut);
            path.output(dut, difference, backward.is_some());
            path.link(&dut.egress, receiver, dut.egress.tx_dropped, receiver.driver_sum("rx", "drops"));
            if backward.is_some() {
                path.link(&dut.ingress, generator, dut.ingress.tx_dropped, generator.driver_sum("rx", "drops"));
            }
        }
        None => {
            path.link(generator, receiver, on_link[0], receiver.driver_sum("rx", "drops"));
            path.between(generator, receiver, difference.outside);
            if let Some(lost) = on_link.get(1) {
                path.link(receiver, generator, *lost, generator.driver_sum("rx", "drops"));
                path.between(receiver, generator, difference.outside);
            }
        }
    }
    path.reception(receiver, forward);
    if let Some(way) = backward {
        path.reception(generator, way);
    }
    let sent = forward.sent + backward.map_or(0, |way| way.sent);
    path.finish(difference, sent)
}

/// The losses so far, and the machine's backlog drops that have no row yet.
struct Path {
    losses: Losses,
    backlog: u64,
    reasons: Reasons,
}

impl Path {
    /// From the port to its interface. Returns how many packets the interface lost then: not those that it saw more often than the
    /// port counts them, which it refused and the port sent again.
    fn sending(&mut self, interface: &InterfaceCounters, next: &InterfaceCounters, way: Way<'_>) -> u64 {
        let handed = interface.tx_packets + interface.tx_dropped;
        let mut segment = Segment::new(way.sent.saturating_sub(handed), Piece::Sending, interface, next, None);
        self.divide(&mut segment, Sureness::OnlyHere);
        segment.take_queue_drops(interface);
        for loss in &way.ports.generator {
            segment.take(loss.clone());
        }
        self.divide(&mut segment, Sureness::Any);
        segment.take_ring_of(next);
        self.close(segment, &format!("between the sending port and {}", interface.name));
        let resent = handed.saturating_sub(way.sent);
        let at = At { piece: Piece::Link, from: &interface.name, to: &next.name, known: None };
        self.reasons.settle(at, &format!("receive ring of {}", next.name), RING_FULL, resent);
        interface.tx_dropped.saturating_sub(resent)
    }

    /// Over a veth: `lost` packets that `from` counts as dropped, divided by what `to` counts. Of `to`'s drops, `late` ones
    /// came after it had counted the packet as received.
    fn link(&mut self, from: &InterfaceCounters, to: &InterfaceCounters, lost: u64, late: u64) {
        let down = format!("no carrier: {} is down", to.name);
        let was_down = !to.running || to.carrier_losses > 0;
        let mut segment = Segment::new(lost, Piece::Link, from, to, was_down.then_some(down.as_str()));
        // Those on their way when an interface went down: both ends count them.
        let late = late + self.reasons.packets(segment.at, "DEV_READY");
        self.divide(&mut segment, Sureness::OnlyHere);
        let in_both = to.rx_dropped.saturating_sub(late);
        let refused = |packets| {
            let loss = match was_down {
                true => Loss::new(&from.name, &down, packets),
                false => Loss::new(&to.name, format!("frame longer than the MTU of {}", to.name), packets),
            };
            loss.counted_by(format!("{} rx_dropped", to.name))
        };
        let tx_dropped = format!("{} tx_dropped", from.name);
        if to.napi {
            // A full ring is counted by the sender alone, or by both for XDP frames.
            segment.take(refused(in_both.saturating_sub(from.driver_sum("tx", "xdp_xmit_errors"))));
            self.divide(&mut segment, Sureness::Any);
            let cause = match was_down {
                false => RING_FULL,
                true => "ring full, or the interface was down for a time",
            };
            let ring = format!("receive ring of {}", to.name);
            segment.take(Loss::new(ring, cause, ALL).counted_by(tx_dropped));
        } else {
            let in_backlog = segment.take(backlog_full(in_both.min(self.backlog)));
            self.backlog -= in_backlog;
            segment.take(refused(in_both - in_backlog));
            segment.take(Loss::new(&from.name, &down, ALL).counted_by(tx_dropped));
        }
        self.close(segment, "");
    }

    /// Between two interfaces that are not two ends of one link. What is missing there a device outside the lab has lost, or its cables.
    fn between(&mut self, from: &InterfaceCounters, to: &InterfaceCounters, outside: bool) {
        let mut segment = Segment::new(from.tx_packets.saturating_sub(to.rx_packets), Piece::Link, from, to, None);
        let place = format!("between {} and {}", from.name, to.name);
        let cause = "lost in the device or on its cables";
        segment.take_rest_by_elimination(outside.then(|| cause.to_owned()), &place);
        self.close(segment, &place);
    }

    /// From the DUT's interfaces that take load to its IPv4 input; so many of each one's drops came here.
    fn ingress(&mut self, dut: &DutCounters, late_of: &[(&InterfaceCounters, u64)]) {
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
    fn routing(&mut self, dut: &DutCounters) {
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
    fn forwarding(&mut self, dut: &DutCounters) {
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
    fn output(&mut self, dut: &DutCounters, difference: &Difference, both_ways: bool) {
        let (ingress, egress) = (&dut.ingress, &dut.egress);
        let handed: u64 = [ingress, egress].iter().map(|i| i.tx_packets + i.tx_dropped).sum();
        let neighbour = neighbour_cause(dut, &difference.host);
        // The interfaces also count ARP requests and what XDP sent; IPv4 does not.
        let arp = match neighbour {
            Some(_) => not_ip(&difference.generator) + not_ip(&difference.receiver),
            None => 0,
        };
        let xdp: u64 = [ingress, egress].iter().map(|i| i.driver_sum("tx", "xdp_xmit")).sum();
        let lost = (out_transmits(&dut.protocols) + arp + xdp).saturating_sub(handed);
        let chain = chain_at(dut, &[Hook::Egress]);
        let known = neighbour.clone().or(chain.clone());
        let receiver = &difference.receiver.interface;
        let mut segment = Segment::new(lost, Piece::Output, egress, receiver, known.as_deref());
        self.divide(&mut segment, Sureness::OnlyHere);
        segment.at = At { from: &ingress.name, to: &egress.name, ..segment.at };
        segment.take_queue_drops(egress);
        if both_ways {
            segment.take_queue_drops(ingress);
        }
        self.divide(&mut segment, Sureness::Any);
        segment.take_rest_if(neighbour, "DUT, neighbour table");
        segment.take_ring_of(receiver);
        segment.take_rest_by_elimination(chain.clone(), &egress.name);
        self.close(segment, &format!("between IPv4 output of the DUT and {}", egress.name));
    }

    /// From the receiver's interface to the receiving port.
    fn reception(&mut self, receiver: &InterfaceCounters, way: Way<'_>) {
        let lost = receiver.rx_packets.saturating_sub(way.received);
        let mut segment = Segment::new(lost, Piece::Reception, receiver, receiver, None);
        for loss in &way.ports.receiver {
            // As the port says, even beyond what is missing: an over-explained ledger must show.
            self.push(loss.clone());
            segment.left = segment.left.saturating_sub(loss.packets);
        }
        segment.take_xdp_drops(receiver);
        let name = &receiver.name;
        let drops = Loss::new(name, "dropped by the driver", receiver.driver_sum("rx", "drops"));
        segment.take(drops.counted_by(format!("{name} rx_queue_*_drops")));
        self.divide(&mut segment, Sureness::Any);
        self.close(segment, &format!("between {name} and the receiving port"));
    }

    fn push(&mut self, loss: Loss) {
        if loss.packets > 0 {
            self.losses.rows.push(loss);
        }
    }

    /// Names a part of what is left by the kernel's reasons.
    fn divide(&mut self, segment: &mut Segment<'_>, sureness: Sureness) {
        self.settle(segment);
        for share in self.reasons.divide(segment.at, segment.left, sureness) {
            segment.take_share(share);
        }
    }

    /// Takes what counters have named off the reasons that say the same.
    fn settle(&mut self, segment: &mut Segment<'_>) {
        for (place, cause, packets) in segment.by_counters.drain(..) {
            self.reasons.settle(segment.at, &place, &cause, packets);
        }
    }

    /// The losses with their hints, and where the kernel's reasons contradict the totals.
    fn finish(mut self, difference: &Difference, sent: u64) -> Losses {
        let interfaces: Vec<&str> = match &difference.dut {
            Some(dut) => vec![&dut.ingress.name, &dut.egress.name],
            None => Vec::new(),
        };
        self.losses.contradictions = self.reasons.contradictions(&interfaces, (sent / 1000).max(10));
        hints::add(&mut self.losses.rows);
        hints::add(&mut self.losses.unnamed);
        self.losses
    }

    fn close(&mut self, mut segment: Segment<'_>, between: &str) {
        self.settle(&mut segment);
        self.losses.rows.extend(segment.rows);
        if segment.left > 0 {
            self.losses.unnamed.push(Loss::new(between, "no counter names the cause", segment.left));
        }
    }
}

fn backlog_full(packets: u64) -> Loss {
    let loss = Loss::new("receive backlog of a core", "backlog full (net.core.netdev_max_backlog)", packets);
    loss.counted_by("/proc/net/softnet_stat dropped")
}

fn counted(place: &str, cause: &str, counter: &str, packets: u64) -> Loss {
    Loss::new(place, cause, packets).counted_by(counter)
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
fn before_ip(dut: &DutCounters) -> u64 {
    let interfaces = [&dut.ingress, &dut.egress];
    let sum = |of: fn(&InterfaceCounters) -> u64| interfaces.iter().map(|interface| of(interface)).sum::<u64>();
    let elsewhere = sum(|i| i.driver_sum("rx", "xdp_redirect") + i.driver_sum("rx", "xdp_tx"));
    let in_ip = count(&dut.protocols, "Ip.InReceives") + count(&dut.protocols, "Ip6InReceives");
    sum(|i| i.rx_packets).saturating_sub(sum(|i| i.rx_otherhost_dropped) + elsewhere + in_ip)
}

/// Drops of one of the DUT's interfaces that its peer does not count too. Drops on the veth come before the packet is counted as
/// received, these after it, so they can be no more than what is `missing` at IPv4 input.
fn dropped_after_reception(interface: &InterfaceCounters, peer: &InterfaceCounters, missing: u64) -> u64 {
    let on_link = peer.driver_sum("tx", "xdp_xmit_errors");
    interface.rx_dropped.saturating_sub(on_link).min(missing)
}

fn xdp_drops(interface: &InterfaceCounters) -> u64 {
    interface.driver_sum("rx", "xdp_drops")
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
