//! Which cause the kernel's reason for a drop stands for, and where on the path it can be meant.
//!
//! The totals of the path's counters say how many packets each piece of the path lost; reasons only divide that number, so no
//! packet is counted twice. A reason that stands for one piece alone is asked first, then come the counters of causes, then the
//! reasons that more than one piece gives. What a counter has named is taken off the reasons that say the same.
//!
//! Reasons: Linux `include/net/dropreason-core.h`. Functions: found by experiment, docs/ledger.md.

use std::collections::BTreeMap;

use super::{DropCounts, DropKind};

/// A piece of the path, between two totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// From a port to its interface.
    Sending,
    /// Over a veth.
    Link,
    /// From an interface of the DUT to its IP input.
    Ingress,
    /// From IP input to the decision to forward.
    Routing,
    /// From there to IP output.
    Forwarding,
    /// From IP output to the DUT's interfaces.
    Output,
    /// Inside a device that carries frames as they are.
    Inside,
    /// From an interface to the port.
    Reception,
}

/// A piece with the interfaces that a packet lost in it can be on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    pub piece: Piece,
    /// The interface that packets come from.
    pub from: &'a str,
    /// The interface that they go to; on the DUT both are its own.
    pub to: &'a str,
    /// What stands at this piece in words: the nftables chains of its hooks; at the output the next hop that does not answer; on
    /// a link that the far interface was down for a time.
    pub known: Option<&'a str>,
}

/// A cause, in the words that the counters' rows have too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    pub place: String,
    pub cause: String,
}

/// Where a rule's packets are lost.
#[derive(Clone, Copy)]
enum Place {
    From,
    To,
    RingOfTo,
    Backlog,
    Is(&'static str),
}

/// A reason, the function that gave it ("" = any), where both can be meant, and what they mean.
struct Rule {
    reason: &'static str,
    function: &'static str,
    piece: Piece,
    place: Place,
    /// `{from}` and `{to}` are the interfaces' names.
    cause: &'static str,
}

const fn rule(reason: &'static str, function: &'static str, piece: Piece, place: Place, cause: &'static str) -> Rule {
    Rule { reason, function, piece, place, cause }
}

const INPUT: Place = Place::Is("DUT, IPv4 input");
const FORWARDING: Place = Place::Is("DUT, forwarding");
const NEIGHBOUR: Place = Place::Is("DUT, neighbour table");
/// Stands for the chains of the hook.
const CHAIN: &str = "{chain}";
/// Stands for the next hop, if it is known.
const UNRESOLVED: &str = "{neighbour}";
/// The kernel checks both in one place (`is_skb_forwardable` of net/core/dev.c): the frame is too long, or the interface is down.
const REFUSED: &str = "frame longer than the MTU of {to}";

use Piece::{Forwarding, Ingress, Inside, Link, Output, Reception, Routing, Sending};

/// The first rule that fits is taken.
const RULES: &[Rule] = &[
    rule("NOT_SPECIFIED", "veth_xmit", Link, Place::RingOfTo, "ring full: its core did not keep up"),
    rule("NOT_SPECIFIED", "__dev_forward_skb2", Link, Place::To, REFUSED),
    rule("NOT_SPECIFIED", "__dev_direct_xmit", Link, Place::From, "no carrier: {to} is down"),
    rule("DEV_READY", "", Link, Place::From, "no carrier: {to} is down"),
    rule("FULL_RING", "", Link, Place::RingOfTo, "ring full: its core did not keep up"),
    rule("NOT_SPECIFIED", "veth_napi_del_range", Sending, Place::RingOfTo, "in the ring of {to} when it went down"),
    rule("NOT_SPECIFIED", "veth_napi_del_range", Output, Place::RingOfTo, "in the ring of {to} when it went down"),
    rule("QDISC_DROP", "", Sending, Place::From, "queueing discipline full"),
    rule("QDISC_DROP", "", Link, Place::From, "no carrier: {to} is down"),
    rule("QDISC_DROP", "", Output, Place::To, "queueing discipline full"),
    rule("QDISC_OVERLIMIT", "", Sending, Place::From, "queueing discipline full"),
    rule("QDISC_OVERLIMIT", "", Output, Place::To, "queueing discipline full"),
    rule("QDISC_CONGESTED", "", Output, Place::To, "dropped by active queue management"),
    rule("CPU_BACKLOG", "", Link, Place::Backlog, BACKLOG),
    rule("CPU_BACKLOG", "", Ingress, Place::Backlog, BACKLOG),
    rule("CPU_BACKLOG", "", Inside, Place::Backlog, BACKLOG),
    rule("QDISC_DROP", "", Inside, Place::To, "queueing discipline full"),
    rule("NETFILTER_DROP", "", Inside, Place::From, CHAIN),
    rule("BRIDGE_INGRESS_STP_STATE", "", Inside, Place::From, "the bridge's port does not forward (STP state)"),
    rule("BRIDGE_NON_FORWARDING_STATE", "", Inside, Place::To, "the bridge's port does not forward (STP state)"),
    rule("UNHANDLED_PROTO", "", Ingress, Place::From, "no protocol handler for this EtherType"),
    rule("TC_INGRESS", "", Ingress, Place::From, "dropped by a tc filter or policer"),
    rule("TC_EGRESS", "", Output, Place::To, "dropped by a tc filter or policer"),
    rule("XDP", "", Ingress, Place::From, "dropped by the XDP program"),
    rule("NETFILTER_DROP", "", Ingress, Place::From, CHAIN),
    rule("NETFILTER_DROP", "", Routing, INPUT, CHAIN),
    rule("NETFILTER_DROP", "", Forwarding, FORWARDING, CHAIN),
    rule("NETFILTER_DROP", "", Output, Place::To, CHAIN),
    rule("IP_CSUM", "", Routing, INPUT, "wrong IP header checksum"),
    rule("IP_INHDR", "ip_forward", Routing, INPUT, "TTL expired"),
    rule("IP_INHDR", "", Routing, INPUT, "malformed IP header"),
    rule("PKT_TOO_SMALL", "", Routing, INPUT, "shorter than its IP header says"),
    rule("IP_RPFILTER", "", Routing, INPUT, "reverse path filter"),
    rule("IP_INNOROUTES", "", Routing, INPUT, "no route"),
    rule("IP_OUTNOROUTES", "", Routing, INPUT, "no route"),
    rule("IP_INADDRERRORS", "", Routing, INPUT, "not for the DUT, and forwarding is off"),
    rule("IP_NOPROTO", "", Routing, INPUT, "for the DUT itself, protocol unknown"),
    rule("NO_SOCKET", "", Routing, INPUT, "taken by the DUT's own stack"),
    rule("NOT_SPECIFIED", "ip_error", Routing, INPUT, "blackhole, unreachable or prohibit route"),
    rule("NOT_SPECIFIED", "dst_discard", Routing, INPUT, "blackhole, unreachable or prohibit route"),
    rule("IP_LOCAL_SOURCE", "", Routing, INPUT, "source address is the DUT's own"),
    rule("IP_LOCALNET", "", Routing, INPUT, "source or destination is a loopback address"),
    rule("IP_INVALID_SOURCE", "", Routing, INPUT, "source address that no host may have"),
    rule("IP_INVALID_DEST", "", Routing, INPUT, "destination address that no host may have"),
    rule("INVALID_PROTO", "", Routing, INPUT, "malformed IP header"),
    rule("UNICAST_IN_L2_MULTICAST", "", Routing, INPUT, "IP unicast in an Ethernet multicast"),
    rule("PKT_TOO_BIG", "", Forwarding, FORWARDING, "packet longer than the MTU of {to}, and may not be fragmented"),
    rule("NEIGH_QUEUEFULL", "", Output, NEIGHBOUR, UNRESOLVED),
    rule("NEIGH_FAILED", "", Output, NEIGHBOUR, UNRESOLVED),
    rule("NEIGH_DEAD", "", Output, NEIGHBOUR, UNRESOLVED),
    rule("QUEUE_PURGE", "neigh_invalidate", Output, NEIGHBOUR, UNRESOLVED),
    rule("NEIGH_CREATEFAIL", "", Output, NEIGHBOUR, "table full (net.ipv4.neigh.default.gc_thresh3)"),
    rule("PACKET_SOCK_ERROR", "", Reception, Place::To, "receive ring of the packet socket full"),
    rule("SOCKET_RCVBUFF", "", Reception, Place::To, "receive buffer of the socket full"),
];

const BACKLOG: &str = "backlog full (net.core.netdev_max_backlog)";

/// The kernel's drops that no row has named yet.
#[derive(Debug, Default)]
pub(crate) struct Reasons {
    left: BTreeMap<DropKind, u64>,
}

/// How sure a reason must be to name a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sureness {
    /// Only reasons that stand for this piece of the path alone.
    OnlyHere,
    /// Every reason that this piece gives, and those that are in no table, in the kernel's own words.
    Any,
}

/// A share of a piece's loss, named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    pub cause: Cause,
    pub packets: u64,
    /// The kernel's words.
    pub says: String,
}

impl Reasons {
    pub(crate) fn new(drops: Option<&DropCounts>) -> Self {
        Self { left: drops.map(|drops| drops.packets.clone()).unwrap_or_default() }
    }

    /// Packets of a piece that were dropped for one reason and that no row has named yet.
    pub(crate) fn packets(&self, at: At<'_>, reason: &str) -> u64 {
        self.left.iter().filter(|(kind, _)| at.concerns(kind) && kind.reason == reason).map(|(_, left)| left).sum()
    }

    /// Names up to `lost` packets of a piece, and takes them off.
    pub(crate) fn divide(&mut self, at: At<'_>, lost: u64, sureness: Sureness) -> Vec<Share> {
        let mut rest = lost;
        let mut shares = Vec::new();
        for (kind, left) in self.left.iter_mut().filter(|(kind, _)| at.concerns(kind)) {
            let known = rule_of(kind, at.piece);
            let sure = known.is_some_and(|rule| rule.is_sure(kind, at));
            if (sureness == Sureness::OnlyHere && !sure) || *left == 0 || rest == 0 {
                continue;
            }
            let cause = match known {
                Some(rule) => rule.cause(at),
                // It belongs to another piece, whose turn comes.
                None if RULES.iter().any(|rule| rule.fits(kind)) => continue,
                None if kind.function.is_none() => continue,
                None => at.in_the_kernels_words(kind),
            };
            let packets = (*left).min(rest);
            *left -= packets;
            rest -= packets;
            shares.push(Share { cause, packets, says: says(kind) });
        }
        shares
    }

    /// Takes off what a counter has named.
    pub(crate) fn settle(&mut self, at: At<'_>, place: &str, cause: &str, packets: u64) {
        let mut rest = packets;
        for (kind, left) in self.left.iter_mut().filter(|(kind, _)| at.concerns(kind)) {
            let same = |known: Cause| known.place == place && (known.cause == cause || is_netfilters(cause, kind));
            if rule_of(kind, at.piece).is_some_and(|rule| same(rule.cause(at))) {
                let taken = (*left).min(rest);
                *left -= taken;
                rest -= taken;
            }
        }
    }

    /// Drops on these interfaces that no total misses: more than `at_least` of a kind, in words.
    pub(crate) fn contradictions(&self, interfaces: &[&str], at_least: u64) -> Vec<String> {
        let of_these = |kind: &DropKind| kind.interface.is_some_and(|name| interfaces.contains(&name));
        let many = self.left.iter().filter(|(kind, left)| **left > at_least && of_these(kind));
        let words = |(kind, left): (&DropKind, &u64)| {
            let interface = kind.interface.unwrap_or_default();
            format!(
                "the kernel dropped {left} packets on {interface} ({}) that the path's totals do not miss",
                says(kind)
            )
        };
        many.map(words).collect()
    }
}

impl At<'_> {
    /// Whether a drop can be of this piece by its interface.
    fn concerns(&self, kind: &DropKind) -> bool {
        let Some(interface) = kind.interface else { return false };
        match self.piece {
            Reception => interface == self.to,
            _ => interface == self.from || interface == self.to,
        }
    }

    fn in_the_kernels_words(&self, kind: &DropKind) -> Cause {
        let place = match self.piece {
            Routing => "DUT, IPv4 input".to_owned(),
            Forwarding => "DUT, forwarding".to_owned(),
            Sending | Ingress => self.from.to_owned(),
            Link | Output | Inside | Reception => self.to.to_owned(),
        };
        Cause { place, cause: format!("dropped by the kernel: {}", says(kind)) }
    }
}

impl Rule {
    fn fits(&self, kind: &DropKind) -> bool {
        let of_reason = |rule: &&Rule| rule.reason == kind.reason;
        of_reason(&self)
            && match &kind.function {
                Some(function) => self.function.is_empty() || self.function == function,
                // Where the kernel hides names, only a reason that means the same in every function means anything.
                None => RULES.iter().filter(of_reason).all(|rule| rule.function.is_empty()),
            }
    }

    /// Whether no other piece can be meant: no rule says so, or the ring that it was lost in is this piece's.
    fn is_sure(&self, kind: &DropKind, at: At<'_>) -> bool {
        let ring_is_here = matches!(self.place, Place::RingOfTo) && kind.interface == Some(at.to);
        ring_is_here || RULES.iter().filter(|rule| rule.fits(kind)).all(|rule| rule.piece == at.piece)
    }

    fn cause(&self, at: At<'_>) -> Cause {
        let cause = match (self.cause, at.known) {
            (CHAIN | UNRESOLVED | REFUSED, Some(known)) => known.to_owned(),
            (CHAIN, None) => "netfilter verdict".to_owned(),
            (UNRESOLVED, None) => "a next hop does not answer".to_owned(),
            (cause, _) => cause.replace("{from}", at.from).replace("{to}", at.to),
        };
        let place = match self.place {
            Place::To if self.cause == REFUSED && at.known.is_some() => at.from.to_owned(),
            Place::From => at.from.to_owned(),
            Place::To => at.to.to_owned(),
            Place::RingOfTo => format!("receive ring of {}", at.to),
            Place::Backlog => "receive backlog of a core".to_owned(),
            Place::Is(place) => place.to_owned(),
        };
        Cause { place, cause }
    }
}

fn rule_of(kind: &DropKind, piece: Piece) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.piece == piece && rule.fits(kind))
}

/// Connection tracking drops by a netfilter verdict, and counts why.
fn is_netfilters(cause: &str, kind: &DropKind) -> bool {
    cause.starts_with("connection tracking") && kind.reason == "NETFILTER_DROP"
}

/// The kernel's own words.
fn says(kind: &DropKind) -> String {
    match &kind.function {
        Some(function) => format!("{} in {function}", kind.reason),
        None => format!("{} in a function whose name the kernel hides", kind.reason),
    }
}

/// The causes of all rules.
#[cfg(test)]
pub(crate) fn all_words() -> Vec<String> {
    let at = |rule: &Rule| At { piece: rule.piece, from: "a", to: "b", known: None };
    RULES.iter().map(|rule| rule.cause(at(rule)).cause).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(drops: &[(&'static str, &str, Option<&str>, u64)]) -> Reasons {
        let kind = |interface, reason: &str, function: Option<&str>| DropKind {
            interface: Some(interface),
            reason: reason.to_owned(),
            function: function.map(str::to_owned),
        };
        let packets =
            drops.iter().map(|(on, reason, function, count)| (kind(*on, reason, *function), *count)).collect();
        Reasons::new(Some(&DropCounts { packets, uncounted: 0 }))
    }

    fn at(piece: Piece) -> At<'static> {
        At { piece, from: "lr-in", to: "lr-out", known: Some("nftables chain lab c") }
    }

    fn causes(shares: &[Share]) -> Vec<(&str, u64)> {
        shares.iter().map(|share| (share.cause.cause.as_str(), share.packets)).collect()
    }

    #[test]
    fn a_reason_names_no_more_than_is_lost_and_than_it_has() {
        let mut reasons =
            reasons(&[("lr-in", "IP_INHDR", Some("ip_forward"), 10), ("lr-in", "NETFILTER_DROP", Some("f"), 5)]);
        assert_eq!(causes(&reasons.divide(at(Routing), 4, Sureness::OnlyHere)), [("TTL expired", 4)]);
        let rest = reasons.divide(at(Routing), 8, Sureness::Any);
        assert_eq!(causes(&rest), [("TTL expired", 6), ("nftables chain lab c", 2)]);
        assert_eq!(causes(&reasons.divide(at(Forwarding), 9, Sureness::OnlyHere)), []);
        assert_eq!(causes(&reasons.divide(at(Forwarding), 9, Sureness::Any)), [("nftables chain lab c", 3)]);
        assert_eq!(causes(&reasons.divide(at(Output), 9, Sureness::Any)), []);
    }

    #[test]
    fn what_a_counter_named_is_not_named_again_and_what_is_left_contradicts() {
        let mut reasons =
            reasons(&[("lr-in", "NETFILTER_DROP", Some("nf_hook_slow"), 100), ("lr-gen", "X", None, 100)]);
        reasons.settle(at(Routing), "DUT, IPv4 input", "connection tracking table full", 70);
        assert_eq!(reasons.contradictions(&["lr-in", "lr-out"], 30), [] as [String; 0]);
        let [said] = &reasons.contradictions(&["lr-in", "lr-out"], 29)[..] else { panic!("one kind") };
        assert!(said.contains("30 packets on lr-in") && said.contains("nf_hook_slow"), "{said}");
    }

    #[test]
    fn an_unknown_reason_is_told_in_the_kernels_words_and_a_hidden_function_says_nothing() {
        let mut unknown = reasons(&[("lr-out", "BRAND_NEW", Some("somewhere"), 3)]);
        let told = unknown.divide(at(Forwarding), 9, Sureness::Any);
        assert_eq!(causes(&told), [("dropped by the kernel: BRAND_NEW in somewhere", 3)]);
        let mut hidden = reasons(&[("lr-in", "IP_INHDR", None, 3), ("lr-in", "IP_CSUM", None, 2)]);
        assert_eq!(causes(&hidden.divide(at(Routing), 9, Sureness::Any)), [("wrong IP header checksum", 2)]);
    }

    #[test]
    fn a_ring_of_the_next_interface_is_sure_although_two_pieces_have_one() {
        let mut reasons = reasons(&[("lr-out", "NOT_SPECIFIED", Some("veth_napi_del_range"), 7)]);
        let other = At { from: "lr-out", to: "lr-recv", ..at(Output) };
        assert_eq!(causes(&reasons.divide(other, 9, Sureness::OnlyHere)), []);
        let named = reasons.divide(at(Sending), 9, Sureness::OnlyHere);
        assert_eq!(causes(&named), [("in the ring of lr-out when it went down", 7)]);
    }

    #[test]
    fn a_refused_frame_is_too_long_unless_the_interface_was_down() {
        let refused = [("lr-out", "NOT_SPECIFIED", Some("__dev_forward_skb2"), 9)];
        let up = At { known: None, ..at(Link) };
        let [share] = &reasons(&refused).divide(up, 9, Sureness::Any)[..] else { panic!("one cause") };
        assert_eq!(
            (share.cause.place.as_str(), &*share.cause.cause),
            ("lr-out", "frame longer than the MTU of lr-out")
        );
        let down = At { known: Some("no carrier: lr-out is down"), ..at(Link) };
        let [share] = &reasons(&refused).divide(down, 9, Sureness::Any)[..] else { panic!("one cause") };
        assert_eq!((share.cause.place.as_str(), &*share.cause.cause), ("lr-in", "no carrier: lr-out is down"));
    }
}
