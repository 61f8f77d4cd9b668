//! What to change about a loss, by its cause in words.

use linerate_report::Loss;

/// The beginning of a cause, and the advice. The first that fits is taken.
const HINTS: &[(&str, &str)] = &[
    (
        "due, but the sending thread",
        "the load is more than this tester sends: use a faster port, a core of its own, or a lower load",
    ),
    (
        "due, but the ring to the device was full",
        "the device takes no more than it was sent: a lower load, or a core of its own for it",
    ),
    ("queueing discipline full", "the DUT shapes or polices here: raise its rate, burst or limit (tc -s qdisc show)"),
    (
        "still queued when the counters were read",
        "the queue holds packets for longer than a trial waits for it: a shorter queue (tc -s qdisc show), or a lower load",
    ),
    ("under way when the counters were read", "the path had not come to rest: see what is still queued"),
    ("dropped by active queue management", "raise the target or limit of the queueing discipline (tc -s qdisc show)"),
    ("dropped by a tc filter", "change the filter or the policer's rate and burst (tc -s filter show)"),
    ("frame longer than the MTU", "raise the MTU of that interface, or send shorter frames"),
    (
        "packet longer than the MTU",
        "raise the MTU of that interface or route (ip route get ADDRESS shows a route's), send shorter packets, or allow fragments (no DF bit)",
    ),
    (
        "ring full: its core",
        "its core is the limit at this load: give it a core of its own, or more queues on more cores",
    ),
    (
        "ring full, or the interface was down",
        "find out what takes the interface down; else its core is the limit at this load",
    ),
    (
        "not taken out before the trial ended",
        "give the threads of the trial cores that others leave alone, or the right to go ahead of others (CAP_SYS_NICE)",
    ),
    ("still in the ring", "give the path's threads that core alone, or the right to go ahead of others (CAP_SYS_NICE)"),
    ("in the ring of", "find out what takes the interface down"),
    ("no carrier", "set the interface up and find out what takes it down"),
    ("backlog full", "raise net.core.netdev_max_backlog, spread the load over more cores (RPS), or turn on NAPI (GRO)"),
    ("the bridge has no port", "set the bridge's ports up, and see whether they forward (bridge link show)"),
    ("the bridge's port does not forward", "wait until the port forwards, or turn off STP (bridge link show)"),
    ("no protocol handler", "send IPv4 or ARP, or load what handles this EtherType"),
    (
        "destination MAC address",
        "send to the MAC address of the DUT's interface, without a VLAN tag that it does not have",
    ),
    ("IPv6 is off", "turn on IPv6 (net.ipv6.conf.all.disable_ipv6=0), or send IPv4"),
    (
        "wrong IP header checksum",
        "something between the sender and here changed the header: check offloads of checksums",
    ),
    ("malformed IP header", "send a valid IP header: version 4, a length that fits, a TTL above 1"),
    ("hop limit expired", "send with a higher hop limit; look for a routing loop"),
    ("TTL expired", "send with a higher TTL; look for a routing loop"),
    ("shorter than its IP header says", "send whole packets: frame length and IP length disagree"),
    ("out of memory", "the kernel had no memory for packets: more memory, shorter queues"),
    ("reverse path filter", "add a route back to the sources, or turn the filter off (net.ipv4.conf.*.rp_filter=0)"),
    ("no route", "add a route for these destinations (ip route get ADDRESS in the DUT)"),
    (
        "not for the DUT, and forwarding is off",
        "turn on forwarding (net.ipv4.ip_forward=1, net.ipv6.conf.all.forwarding=1)",
    ),
    ("for the DUT itself, protocol unknown", "send to addresses behind the DUT, not to its own"),
    ("taken by the DUT's own stack", "send to addresses behind the DUT, not to its own"),
    ("source address is the DUT's own", "send from addresses that are not the DUT's"),
    ("source address that no host", "send from a unicast address"),
    ("source or destination is a loopback", "send between addresses outside 127.0.0.0/8"),
    ("destination address that no host", "send to a unicast address"),
    ("IP unicast in an Ethernet multicast", "send to the MAC address of the DUT's interface"),
    (
        "connection tracking table full",
        "raise net.netfilter.nf_conntrack_max, shorten its timeouts, or exempt the flows (notrack)",
    ),
    (
        "connection tracking could not insert",
        "two packets of one new flow met, or NAT found no free port: widen the port range, or more addresses",
    ),
    ("blackhole, unreachable or prohibit", "remove that route from the DUT (ip route show; ip -6 route show)"),
    ("nftables chain", "a rule or the policy of that chain drops them (nft list ruleset; nft monitor trace)"),
    (
        "netfilter verdict",
        "a hook outside nftables drops them: connection tracking (conntrack -S), or a module of the kernel",
    ),
    (
        "next hop",
        "make the next hop answer ARP, or with IPv6 neighbour solicitations: is it up, and is its address right? (ip neigh show)",
    ),
    (
        "a next hop does not answer",
        "make the next hop answer ARP, or with IPv6 neighbour solicitations: is it up, and is its address right? (ip neigh show)",
    ),
    ("table full (net.ipv4.neigh", "raise net.ipv4.neigh.default.gc_thresh3, or use fewer next hops"),
    ("dropped by the XDP program", "look at the XDP program on that interface (ip link show)"),
    (
        "redirect by the XDP program failed",
        "look at where the program redirects to: is that interface up, and does it take XDP frames? (the peer of a veth needs NAPI: GRO on, or an XDP program)",
    ),
    (
        "sent back by the XDP program",
        "the interface takes no XDP frames: the peer of a veth needs NAPI (GRO on, or an XDP program)",
    ),
    ("the XDP program aborted", "mend the XDP program (bpftool prog tracelog shows what it prints)"),
    ("the XDP program ended", "mend the XDP program: its action failed, or is none"),
    ("sent back out of the interface", "a route leads back to the sender (ip route get ADDRESS in the DUT)"),
    ("sent back out of", "the XDP program sends them back (XDP_TX): look at it (ip link show)"),
    ("sent out of an interface", "look at the routes of these destinations (ip route get ADDRESS in the DUT)"),
    ("redirected by the XDP program", "look at where the XDP program redirects to (bpftool map dump)"),
    (
        "queued to user space",
        "start the program that takes packets from that queue, or let the rule pass them without it (`bypass`)",
    ),
    ("an IPsec policy", "look at the policies and states of IPsec (ip xfrm policy; ip xfrm state)"),
    ("an iptables (legacy) rule", "look at the rules (iptables-legacy-save -c; ip6tables-legacy-save -c)"),
    ("an ip6tables (legacy) rule", "look at the rules (iptables-legacy-save -c; ip6tables-legacy-save -c)"),
    ("an nftables chain that is gone", "find out who changed the ruleset meanwhile (nft monitor)"),
    ("cut into fragments", "raise the MTU behind the DUT, or send shorter packets"),
    ("arrived changed", "the device rewrites or cuts the end of packets: set captures of both sides beside each other"),
    ("dropped by the tester's own interface", "the tester's own loss: a lower rate, or a faster port of the tester"),
    ("not transmitted by the tester's own", "the tester's own loss: look at its cable and its driver (ethtool -S)"),
    (
        "lost while a link of the tester was away",
        "look at the cable, the transceivers and the logs of both sides (ip -s -s link show)",
    ),
    (
        "discarded by the tester's own network card",
        "the tester's own loss: a lower rate, or a faster port of the tester",
    ),
    (
        "no room in the receive queue of the tester's",
        "the tester's own loss: longer receive queues (ethtool -G), or a core of its own",
    ),
    (
        "receive FIFO of the tester's",
        "the tester's own loss: longer receive queues (ethtool -G), or pause frames (ethtool -A)",
    ),
    ("arrived damaged at the tester's", "look at the cable and the transceivers between the device and the tester"),
    (
        "no free descriptor in a receive queue of the tester's",
        "the tester's own loss: longer receive queues (ethtool -G), more of them (ethtool -L), or a core of its own",
    ),
    (
        "packet buffer of the tester's",
        "the tester's own loss: the card gets packets to memory too slowly (PCIe lanes, NUMA node), or its queues are full (ethtool -G)",
    ),
    (
        "arrived with a length that the tester's",
        "raise the MTU of the tester's interface, or look at what the device changes",
    ),
    ("arrived shorter than the tester's", "look at what the device cuts, and at cable and transceivers"),
    ("arrived longer than the tester's", "raise the MTU of the tester's interface"),
    (
        "over the allowance of the tester's own instance",
        "the tester's own loss: a lower rate, or an instance with a higher allowance of packets, bytes or connections",
    ),
    ("no rule of the tester's own network card", "turn on promiscuous mode, or send to the card's own address"),
    ("dropped by the driver", "the receiving port did not take frames in time: a larger ring, a core of its own"),
    (
        "ring full: the capture",
        "the capture's core is the limit at this load: another way of receiving, or more cores; a larger ring only delays the loss",
    ),
    (
        "no buffer, or the disk failed",
        "the disk is slower than the packets: shorter packets (--snaplen), or a faster disk",
    ),
    ("receive ring full", "the receiver did not keep up: a larger ring, a core of its own, or `sink`"),
    (
        "receive ring of the packet socket full",
        "the receiver did not keep up: a larger ring, a core of its own, or `sink`",
    ),
    ("receive buffer of the socket full", "the receiver did not keep up: a larger buffer, a core of its own"),
    ("buffer full", "the receiver did not keep up: a larger buffer, a core of its own"),
    (
        "ring full while core",
        "other work or the hypervisor had that core: keep it free (taskset, isolcpus), or use a host of its own",
    ),
    ("ring full", "the receiver did not keep up: a larger ring, a core of its own, or `sink`"),
    (
        "no free frame in the fill ring",
        "the receiver did not keep up: a larger ring (ring=N), a core of its own, or `sink`",
    ),
    ("longer than a frame", "the frames of the port's memory are too short for this MTU: a lower MTU, or `frags`"),
    ("longer than the batch", "send shorter frames, or a lower MTU"),
    ("queue full", "the reader of that device did not keep up: a core of its own, or a longer queue (txqueuelen)"),
    (
        "egress-full",
        "what is behind that port does not take packets in time: a core of its own, larger rings, or a lower load",
    ),
    ("too-long", "raise the MTU of that port, or send shorter frames"),
    ("hairpin", "it was to leave by the port where it came in: look at `switch ctl show macs`, or output to IN_PORT"),
    ("flood-set-empty", "no other port has its VLAN: look at `switch ctl show vlans`"),
    ("untagged-not-admitted", "give the port a native VLAN, or send tagged packets"),
    ("vlan-not-allowed", "let the port have that VLAN (trunk, access)"),
    ("isolated", "both ports are isolated: take that from one of them"),
    ("rate-limit", "raise the port's rate or rate-packets"),
    ("storm-limit", "raise the port's storm limits, or send to stations that the switch has learned"),
    ("no-buffer", "the switch has no memory for a copy: more of it (--ports-max)"),
    ("runt", "send whole Ethernet frames"),
    ("multicast-source", "send from a unicast Ethernet address"),
    ("link-local", "send to another address than 01-80-C2-00-00-00 to -0F, which bridges do not forward"),
    ("port-removed", "find out who removed the port, or why it broke (the switch's messages)"),
    (
        "table-miss",
        "add a flow entry that matches these packets (`ofswitch ctl trace` walks one), or a table-miss entry",
    ),
    ("no-output", "give the flow entries that match an output (`ofswitch ctl trace` walks a packet)"),
    ("sent to the controllers", "a flow entry, or the table-miss entry, sends them there (`ofswitch ctl show flow`)"),
    ("controller-full", "the controllers read too slowly: add flow entries, so that fewer packets go there"),
    ("no-such-port", "the port of the output action does not exist: look at `ofswitch ctl show port`"),
    ("no-forward", "the port's OpenFlow configuration forbids it: look at `ofswitch ctl show port`"),
    ("link-down", "set the interface of that port up and find out what takes it down"),
    ("no-receive", "the port's OpenFlow configuration forbids it: look at `ofswitch ctl show port`"),
    ("ingress-down", "the port's OpenFlow configuration says that it is down: look at `ofswitch ctl show port`"),
    ("meter", "a meter's band dropped them: raise its rate (`ofswitch ctl show meter`)"),
    ("no-live-bucket", "no bucket of the group can be used (`ofswitch ctl show group`)"),
    ("invalid-ttl", "send with a higher TTL, or take the action that decrements it away"),
    ("action-failed", "an action does not fit these packets (`ofswitch ctl trace` walks one)"),
    ("stuck", "what is behind that port has taken nothing for a second: find out what stopped it"),
    ("egress ring full", "what is behind that port does not take packets in time: a core of its own, or a lower load"),
    ("in its rings and queues when it was stopped", "find out what stopped it"),
    ("lost in the device or on its cables", "its own counters may say why: give `counters` to the DUT"),
    ("the device took it in", "its own counters may say why, or its log"),
    ("refused by the driver", "the next hop's ring is full: its core is the limit at this load"),
];

/// Adds the advice to each row that has none.
pub fn add(losses: &mut [Loss]) {
    for loss in losses.iter_mut().filter(|loss| loss.hint.is_none()) {
        loss.hint = of(&loss.cause).map(str::to_owned);
    }
}

fn of(cause: &str) -> Option<&'static str> {
    HINTS.iter().find(|(beginning, _)| cause.starts_with(beginning)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drops::causes;

    #[test]
    fn every_cause_that_a_reason_has_says_what_to_change() {
        for cause in causes::all_words() {
            assert!(of(&cause).is_some(), "no hint for {cause:?}");
        }
        // The reasons of docs/switch.md.
        for cause in
            "runt multicast-source vlan-not-allowed untagged-not-admitted hairpin isolated storm-limit rate-limit egress-full \
            no-buffer too-long flood-set-empty link-local port-removed"
                .split_whitespace()
        {
            assert!(of(cause).is_some(), "no hint for {cause:?}");
        }
        // Those of docs/ofswitch.md that depend on flow entries and ports.
        for cause in
            "table-miss no-output no-such-port no-forward link-down no-receive ingress-down meter no-live-bucket \
            invalid-ttl action-failed controller-full"
                .split_whitespace()
        {
            assert!(of(cause).is_some(), "no hint for {cause:?}");
        }
        assert_eq!(of("something new"), None);
    }

    #[test]
    fn a_hint_that_is_there_stays() {
        let mut rows = vec![Loss::new("a", "no route", 1).with_hint("mine"), Loss::new("a", "no route", 1)];
        add(&mut rows);
        assert_eq!(rows[0].hint.as_deref(), Some("mine"));
        assert!(rows[1].hint.as_deref().is_some_and(|hint| hint.contains("ip route")));
    }
}
