//! The table of causes: what a reason of the kernel for a drop stands for, and on which pieces of the path it can be meant.
//!
//! Reasons: Linux `include/net/dropreason-core.h`. Functions: found by experiment, docs/ledger.md. What a user can change about a
//! cause is in `hints`.

use linerate_experiment::IpVersion;

use super::{DropKind, REDIRECT_ERROR, XDP_EXCEPTION};

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
    /// Inside a device that carries frames as they are, or in its own way: all four pieces of a router in one.
    Inside,
    /// Inside a switch in user space, or another program that reads packet sockets. The kernel's own stack gets a copy of each frame, and what it drops of those is nobody's loss.
    InSwitch,
    /// From an interface to the port.
    Reception,
}

/// A piece with the interfaces that a packet lost in it can be on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    pub piece: Piece,
    /// The interface that packets come from.
    pub from: &'a str,
    /// The interface that they go to; at the DUT's output the one behind it.
    pub to: &'a str,
    pub known: Known<'a>,
}

/// What stands at a piece, in words.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known<'a> {
    /// The nftables chains of its hooks.
    pub chains: Option<&'a str>,
    /// The hooks at which rules of iptables (legacy) can be.
    pub legacy: Option<&'a str>,
    /// The next hops that do not answer.
    pub neighbours: Option<&'a str>,
    /// That the far interface of a link was down for a time.
    pub down: Option<&'a str>,
    /// The version of IP whose packets alone the piece has.
    pub ip: Option<IpVersion>,
    /// That a route which refuses packets stands beside those that are missing, where one counter is for both.
    pub no_route: Option<&'a str>,
}

/// A cause, in the words that the counters' rows have too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    pub place: String,
    pub cause: String,
}

/// Where a rule's packets are lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The interface that they came from.
    From,
    /// The interface that they were to go to.
    To,
    /// The interface that they were on.
    On,
    /// The stage of the router.
    Stage,
    RingOfTo,
    Backlog,
    Neighbours,
}

/// A reason, the function that gave it ("" = any), where both can be meant, and what they mean.
pub(crate) struct Rule {
    reason: &'static str,
    function: &'static str,
    pieces: &'static [Piece],
    place: Place,
    /// `{from}`, `{to}` and `{on}` are the interfaces' names, `{what}` is the function; `{chain}`, `{legacy}`, `{neighbour}` and `{no_route}` are what
    /// [`Known`] has, or what is said without it.
    cause: &'static str,
}

const fn rule(
    reason: &'static str,
    function: &'static str,
    pieces: &'static [Piece],
    place: Place,
    cause: &'static str,
) -> Rule {
    Rule { reason, function, pieces, place, cause }
}

/// The kernel checks both in one place (`is_skb_forwardable` of net/core/dev.c): the frame is too long, or the interface is down.
const REFUSED: &str = "frame longer than the MTU of {to}";
const DOWN: &str = "no carrier: {to} is down";
pub(crate) const BACKLOG: &str = "backlog full (net.core.netdev_max_backlog)";
pub(crate) const QUEUE_FULL: &str = "queueing discipline full";
pub(crate) const NO_HANDLER: &str = "no protocol handler for this EtherType";
pub(crate) const MALFORMED: &str = "malformed IP header";
pub(crate) const TTL: &str = "TTL expired";
pub(crate) const HOP_LIMIT: &str = "hop limit expired";
pub(crate) const NO_ROUTE: &str = "no route";
/// IPv6 counts and names both alike.
pub(crate) const NO_ROUTE_OR_REFUSED: &str = "no route, or an unreachable or prohibit route";
pub(crate) const REFUSING_ROUTE: &str = "blackhole, unreachable or prohibit route";
pub(crate) const TOO_LONG: &str =
    "packet longer than the MTU of its route or of the interface, and may not be fragmented";
pub(crate) const REDIRECT_FAILED: &str = "redirect by the XDP program failed";
pub(crate) const XDP_TX_FAILED: &str = "sent back by the XDP program (XDP_TX), which the interface refused";
pub(crate) const XDP_DROPPED: &str = "dropped by the XDP program";
pub(crate) const IPSEC: &str = "an IPsec policy (XFRM) does not let it pass";
pub(crate) const IPV6_OFF: &str = "IPv6 is off";
const RING_WENT_DOWN: &str = "in the ring of {to} when it went down";
const TABLE_FULL: &str = "table full (net.ipv4.neigh.default.gc_thresh3)";
const NETFILTER: [Piece; 4] = [Ingress, Routing, Forwarding, Output];

use Piece::{Forwarding, InSwitch, Ingress, Inside, Link, Output, Reception, Routing, Sending};
use Place::{Backlog, From, Neighbours, On, RingOfTo, Stage, To};

/// The first rule that fits is taken.
const RULES: &[Rule] = &[
    // Links, and what is before and behind the DUT.
    rule("NOT_SPECIFIED", "veth_xmit", &[Link], RingOfTo, "ring full: its core did not keep up"),
    rule("FULL_RING", "", &[Link], RingOfTo, "ring full: its core did not keep up"),
    rule("NOT_SPECIFIED", "veth_napi_del_range", &[Sending, Output], RingOfTo, RING_WENT_DOWN),
    rule("NOT_SPECIFIED", "__dev_forward_skb2", &[Link], To, REFUSED),
    rule("NOT_SPECIFIED", "__dev_direct_xmit", &[Link], From, DOWN),
    rule("DEV_READY", "", &[Link], From, DOWN),
    rule("CPU_BACKLOG", "", &[Link, Ingress], Backlog, BACKLOG),
    rule("PACKET_SOCK_ERROR", "", &[Reception], To, "receive ring of the packet socket full"),
    rule("SOCKET_RCVBUFF", "", &[Reception], To, "receive buffer of the socket full"),
    // Queueing disciplines and filters.
    rule("QDISC_DROP", "", &[Sending, Output], On, QUEUE_FULL),
    rule("QDISC_DROP", "", &[Link], From, DOWN),
    rule("QDISC_OVERLIMIT", "", &[Sending, Output], On, QUEUE_FULL),
    rule("QDISC_CONGESTED", "", &[Sending, Output], On, "dropped by active queue management"),
    rule("TC_INGRESS", "", &[Ingress], On, "dropped by a tc filter or policer"),
    rule("TC_EGRESS", "", &[Output], On, "dropped by a tc filter or policer"),
    // XDP.
    rule("XDP", "", &[Ingress], On, XDP_DROPPED),
    rule("NOT_SPECIFIED", "bpf_prog_run_generic_xdp", &[Ingress], On, XDP_DROPPED),
    rule("NOT_SPECIFIED", "netif_receive_generic_xdp", &[Ingress], On, XDP_DROPPED),
    rule("NOT_SPECIFIED", "do_xdp_generic", &[Ingress], On, XDP_DROPPED),
    rule(REDIRECT_ERROR, "", &[Ingress], On, "redirect by the XDP program failed: {what}"),
    rule(XDP_EXCEPTION, "XDP_TX", &[Ingress], On, XDP_TX_FAILED),
    rule(XDP_EXCEPTION, "XDP_ABORTED", &[Ingress], On, "the XDP program aborted (XDP_ABORTED): an error in it"),
    rule(XDP_EXCEPTION, "", &[Ingress], On, "the XDP program ended with {what}, which failed"),
    // Netfilter.
    rule("NETFILTER_DROP", "nft_do_chain", &NETFILTER, Stage, "{chain}"),
    rule("NETFILTER_DROP", "", &NETFILTER, Stage, "{legacy}"),
    rule("NOT_SPECIFIED", "nf_queue", &NETFILTER, Stage, "queued to user space (NFQUEUE), where no program takes it"),
    rule(
        "NOT_SPECIFIED",
        "nf_hook_slow",
        &NETFILTER,
        Stage,
        "queued to user space (NFQUEUE), where no program takes it",
    ),
    // The bridge.
    rule("BRIDGE_INGRESS_STP_STATE", "", &[Inside], On, "the bridge's port does not forward (STP state)"),
    rule("NO_TX_TARGET", "", &[Inside], To, "the bridge has no port to send it to: {to} is down, or does not forward"),
    rule("BRIDGE_NON_FORWARDING_STATE", "", &[Inside], To, "the bridge's port does not forward (STP state)"),
    // IP.
    rule("UNHANDLED_PROTO", "", &[Ingress], On, NO_HANDLER),
    rule("IP_CSUM", "", &[Routing], Stage, "wrong IP header checksum"),
    rule("IP_INHDR", "ip_forward", &[Routing], Stage, TTL),
    rule("IP_INHDR", "ip6_forward", &[Routing], Stage, HOP_LIMIT),
    rule("IP_INHDR", "", &[Routing], Stage, MALFORMED),
    rule("INVALID_PROTO", "", &[Routing], Stage, MALFORMED),
    rule("PKT_TOO_SMALL", "", &[Routing], Stage, "shorter than its IP header says"),
    rule("IP_RPFILTER", "", &[Routing], Stage, "reverse path filter"),
    rule("IP_INNOROUTES", "ip6_pkt_prohibit", &[Routing], Stage, REFUSING_ROUTE),
    rule("IP_INNOROUTES", "ip6_pkt_discard", &[Routing], Stage, "{no_route}"),
    rule("IP_INNOROUTES", "", &[Routing], Stage, NO_ROUTE),
    rule("IP_OUTNOROUTES", "", &[Routing], Stage, NO_ROUTE),
    rule("IP_INADDRERRORS", "", &[Routing], Stage, "not for the DUT, and forwarding is off"),
    rule("IP_NOPROTO", "", &[Routing], Stage, "for the DUT itself, protocol unknown"),
    rule("NO_SOCKET", "", &[Routing], Stage, "taken by the DUT's own stack"),
    rule("NOT_SPECIFIED", "ip_error", &[Routing], Stage, REFUSING_ROUTE),
    rule("NOT_SPECIFIED", "dst_discard", &[Routing], Stage, REFUSING_ROUTE),
    rule("NOT_SPECIFIED", "dst_discard_out", &[Routing], Stage, REFUSING_ROUTE),
    rule("NOT_SPECIFIED", "ip6_forward", &[Routing], Stage, IPSEC),
    rule("IPV6DISABLED", "", &[Routing], Stage, IPV6_OFF),
    rule("IP_LOCAL_SOURCE", "", &[Routing], Stage, "source address is the DUT's own"),
    rule("IP_LOCALNET", "", &[Routing], Stage, "source or destination is a loopback address"),
    rule("IP_INVALID_SOURCE", "", &[Routing], Stage, "source address that no host may have"),
    rule("IP_INVALID_DEST", "", &[Routing], Stage, "destination address that no host may have"),
    rule("UNICAST_IN_L2_MULTICAST", "", &[Routing], Stage, "IP unicast in an Ethernet multicast"),
    rule("XFRM_POLICY", "", &[Routing, Forwarding], Stage, IPSEC),
    rule("PKT_TOO_BIG", "", &[Forwarding], Stage, TOO_LONG),
    // Neighbours.
    rule("NEIGH_QUEUEFULL", "", &[Output], Neighbours, "{neighbour}"),
    rule("NEIGH_FAILED", "", &[Output], Neighbours, "{neighbour}"),
    rule("NEIGH_DEAD", "", &[Output], Neighbours, "{neighbour}"),
    rule("QUEUE_PURGE", "neigh_invalidate", &[Output], Neighbours, "{neighbour}"),
    // Of IPv6, whose function for it is part of that one.
    rule("NOT_SPECIFIED", "neigh_invalidate", &[Output], Neighbours, "{neighbour}"),
    rule("NOT_SPECIFIED", "ndisc_error_report", &[Output], Neighbours, "{neighbour}"),
    rule("NEIGH_CREATEFAIL", "", &[Output], Neighbours, TABLE_FULL),
];

/// The rule of a drop on a piece, if there is one.
pub(crate) fn rule_of(kind: &DropKind, at: At<'_>) -> Option<&'static Rule> {
    let fits = |rule: &&Rule| {
        let is_there = rule.place != RingOfTo || kind.interface.as_deref() == Some(at.to);
        rule.is_of(at.piece) && is_there && rule.fits(kind)
    };
    RULES.iter().find(fits)
}

/// Whether some piece has a rule for a drop.
pub(crate) fn is_known(kind: &DropKind) -> bool {
    RULES.iter().any(|rule| rule.fits(kind))
}

/// Of which version of IP the packets of a drop are, as far as the function's name says so. `__udp4_lib_rcv` has the one of IPv4 in its
/// name, and all of IPv6 have a 6.
fn version_of(kind: &DropKind) -> Option<IpVersion> {
    let function = kind.function.as_deref()?;
    let is_v6 = ["ip6", "ipv6", "udp6", "icmpv6", "ndisc", "IPV6"].iter().any(|part| function.contains(part));
    let is_v4 = ["ip_", "__udp4", "icmp_", "arp_"].iter().any(|part| function.starts_with(part));
    match (is_v6 || kind.reason.starts_with("IPV6"), is_v4) {
        (true, _) => Some(IpVersion::V6),
        (false, true) => Some(IpVersion::V4),
        (false, false) => None,
    }
}

impl Piece {
    /// Whether what is lost here is lost in the DUT's namespace, on whatever interface.
    fn is_in_dut(self) -> bool {
        matches!(self, Ingress | Routing | Forwarding | Output | Inside | InSwitch)
    }
}

impl At<'_> {
    /// Whether a drop can be of this piece by its interface.
    pub(crate) fn concerns(&self, kind: &DropKind) -> bool {
        let is_on = |name: &str| kind.interface.as_deref() == Some(name);
        match self.piece {
            Reception => is_on(self.to),
            Output => kind.in_dut || is_on(self.to),
            piece if piece.is_in_dut() => {
                kind.in_dut && self.known.ip.is_none_or(|ip| version_of(kind).is_none_or(|of_drop| of_drop == ip))
            }
            _ => is_on(self.from) || is_on(self.to),
        }
    }

    /// What is in no table.
    pub(crate) fn in_the_kernels_words(&self, kind: &DropKind) -> Cause {
        Cause { place: self.stage(kind), cause: format!("dropped by the kernel: {}", says(kind)) }
    }

    fn stage(&self, kind: &DropKind) -> String {
        let on = kind.interface.as_deref();
        match self.piece {
            Routing => match self.known.ip.or(version_of(kind)) {
                Some(IpVersion::V6) => "DUT, IPv6 input".to_owned(),
                Some(IpVersion::V4) | None => "DUT, IPv4 input".to_owned(),
            },
            Forwarding => "DUT, forwarding".to_owned(),
            Sending => self.from.to_owned(),
            Ingress => on.unwrap_or(self.from).to_owned(),
            Link | Reception => self.to.to_owned(),
            Output => on.unwrap_or(self.from).to_owned(),
            Inside | InSwitch => on.unwrap_or(self.to).to_owned(),
        }
    }
}

impl Rule {
    fn is_of(&self, piece: Piece) -> bool {
        match piece {
            Inside => self.pieces.iter().any(|piece| piece.is_in_dut()),
            InSwitch => self.pieces.iter().all(|piece| matches!(piece, Ingress | Output | Inside)),
            piece => self.pieces.contains(&piece),
        }
    }

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
    pub(crate) fn is_sure(&self, kind: &DropKind, at: At<'_>) -> bool {
        let is_whole_dut = matches!(at.piece, Inside | InSwitch);
        let is_here =
            |rule: &Rule| rule.pieces.iter().all(|piece| *piece == at.piece || is_whole_dut && piece.is_in_dut());
        self.place == RingOfTo || RULES.iter().filter(|rule| rule.fits(kind)).all(is_here)
    }

    pub(crate) fn cause(&self, kind: &DropKind, at: At<'_>) -> Cause {
        let on = kind.interface.as_deref().unwrap_or(at.from);
        let what = kind.function.as_deref().unwrap_or_default();
        let or = |known: Option<&str>, otherwise: &str| known.unwrap_or(otherwise).to_owned();
        let cause = match (self.cause, at.known.down) {
            ("{chain}", _) => or(at.known.chains, "an nftables chain that is gone"),
            ("{legacy}", _) => or(at.known.legacy, "netfilter verdict of a hook outside nftables"),
            ("{no_route}", _) => or(at.known.no_route, NO_ROUTE),
            ("{neighbour}", _) => or(at.known.neighbours, "a next hop does not answer"),
            (REFUSED, Some(down)) => down.to_owned(),
            (cause, _) => {
                let cause = cause.replace("{from}", at.from).replace("{to}", at.to);
                cause.replace("{on}", on).replace("{what}", what)
            }
        };
        let place = match self.place {
            To if self.cause == REFUSED && at.known.down.is_some() => at.from.to_owned(),
            From => at.from.to_owned(),
            To => at.to.to_owned(),
            On => on.to_owned(),
            Stage => match (at.piece, self.pieces) {
                (Inside, [Routing, ..]) => At { piece: Routing, ..at }.stage(kind),
                (Inside, [Forwarding, ..]) => At { piece: Forwarding, ..at }.stage(kind),
                (Inside, _) => "DUT, netfilter".to_owned(),
                _ => at.stage(kind),
            },
            RingOfTo => format!("receive ring of {}", at.to),
            Backlog => "receive backlog of a core".to_owned(),
            Neighbours => "DUT, neighbour table".to_owned(),
        };
        Cause { place, cause }
    }
}

/// The kernel's own words.
pub(crate) fn says(kind: &DropKind) -> String {
    match &kind.function {
        Some(function) if [REDIRECT_ERROR, XDP_EXCEPTION].contains(&kind.reason.as_str()) => {
            format!("{}: {function}", kind.reason)
        }
        Some(function) => format!("{} in {function}", kind.reason),
        None => format!("{} in a function whose name the kernel hides", kind.reason),
    }
}

/// Where the kernel says so.
pub(crate) fn witness(kind: &DropKind) -> String {
    match [REDIRECT_ERROR, XDP_EXCEPTION].contains(&kind.reason.as_str()) {
        true => format!("tracepoint {}", says(kind)),
        false => format!("skb:kfree_skb {}", says(kind)),
    }
}

/// The causes of all rules.
#[cfg(test)]
pub(crate) fn all_words() -> Vec<String> {
    let words = |rule: &Rule| {
        let kind = DropKind {
            interface: Some("b".into()),
            in_dut: true,
            reason: rule.reason.into(),
            function: Some(rule.function.into()),
        };
        rule.cause(&kind, At { piece: rule.pieces[0], from: "a", to: "b", known: Known::default() }).cause
    };
    RULES.iter().map(words).collect()
}
