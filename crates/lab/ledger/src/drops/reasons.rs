//! The kernel's drops of a trial, and how they divide its losses.
//!
//! The totals of the path's counters say how many packets each piece of the path lost; reasons only divide that number, so no
//! packet is counted twice. A reason that stands for one piece alone is asked first, then come the counters of causes, then the
//! reasons that more than one piece gives. What a counter has named is taken off the reasons that say the same.

use std::collections::BTreeMap;

use super::causes::{self, At, Cause};
use super::{DropCounts, DropKind};

/// The kernel's drops that no row has named yet.
#[derive(Debug, Default)]
pub(crate) struct Reasons {
    left: BTreeMap<DropKind, u64>,
    /// Whether the kernel was asked.
    pub(crate) are_read: bool,
}

/// How sure a reason must be to name a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confidence {
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
    /// Where the kernel says so.
    pub witness: String,
}

impl Reasons {
    pub(crate) fn new(drops: Option<&DropCounts>) -> Self {
        let left = drops.map(|drops| drops.packets.clone()).unwrap_or_default();
        Self { left, are_read: drops.is_some() }
    }

    /// Packets of a piece that were dropped for one reason and that no row has named yet.
    pub(crate) fn packets(&self, at: At<'_>, reason: &str) -> u64 {
        self.left.iter().filter(|(kind, _)| at.concerns(kind) && kind.reason == reason).map(|(_, left)| left).sum()
    }

    /// Packets dropped for reasons with this beginning, wherever.
    pub(crate) fn any(&self, beginning: &str) -> u64 {
        self.left.iter().filter(|(kind, _)| kind.reason.starts_with(beginning)).map(|(_, left)| left).sum()
    }

    /// Names up to `lost` packets of a piece, and takes them off.
    pub(crate) fn divide(&mut self, at: At<'_>, lost: u64, sureness: Confidence) -> Vec<Share> {
        let mut rest = lost;
        let mut shares = Vec::new();
        for (kind, left) in self.left.iter_mut().filter(|(kind, _)| at.concerns(kind)) {
            let known = causes::rule_of(kind, at);
            let sure = known.is_some_and(|rule| rule.is_sure(kind, at));
            if (sureness == Confidence::OnlyHere && !sure) || *left == 0 || rest == 0 {
                continue;
            }
            let cause = match known {
                Some(rule) => rule.cause(kind, at),
                // It belongs to another piece, whose turn comes.
                None if causes::is_known(kind) => continue,
                None if kind.function.is_none() => continue,
                None => at.in_the_kernels_words(kind),
            };
            let packets = (*left).min(rest);
            *left -= packets;
            rest -= packets;
            shares.push(Share { cause, packets, witness: causes::witness(kind) });
        }
        shares
    }

    /// Takes off what a counter has named.
    pub(crate) fn settle(&mut self, at: At<'_>, place: &str, cause: &str, packets: u64) {
        let mut rest = packets;
        for (kind, left) in self.left.iter_mut().filter(|(kind, _)| at.concerns(kind)) {
            let same = |known: Cause| known.place == place && (known.cause == cause || is_netfilters(cause, kind));
            if causes::rule_of(kind, at).is_some_and(|rule| same(rule.cause(kind, at))) {
                let taken = (*left).min(rest);
                *left -= taken;
                rest -= taken;
            }
        }
    }

    /// Drops in the DUT's namespace that no total misses: more than `at_least` of a kind, in words.
    pub(crate) fn contradictions(&self, at_least: u64) -> Vec<String> {
        let many = self.left.iter().filter(|(kind, left)| **left > at_least && kind.in_dut);
        let words = |(kind, left): (&DropKind, &u64)| {
            let interface = kind.interface.as_deref().unwrap_or("an interface that is gone");
            format!(
                "the kernel dropped {left} packets on {interface} ({}) that the path's totals do not miss",
                causes::says(kind)
            )
        };
        many.map(words).collect()
    }
}

/// Connection tracking drops by a netfilter verdict, and counts why.
fn is_netfilters(cause: &str, kind: &DropKind) -> bool {
    cause.starts_with("connection tracking") && kind.reason == "NETFILTER_DROP"
}

#[cfg(test)]
mod tests {
    use super::super::causes::{Known, Piece};
    use super::*;
    use Piece::{Forwarding, Link, Output, Routing, Sending};

    fn reasons(drops: &[(&str, &str, Option<&str>, u64)]) -> Reasons {
        let kind = |interface: &str, reason: &str, function: Option<&str>| DropKind {
            interface: Some(interface.to_owned()),
            in_dut: ["lr-in", "lr-out", "dummy0"].contains(&interface),
            reason: reason.to_owned(),
            function: function.map(str::to_owned),
        };
        let packets = drops.iter().map(|(on, reason, function, count)| (kind(on, reason, *function), *count)).collect();
        Reasons::new(Some(&DropCounts { packets, ..DropCounts::default() }))
    }

    const CHAIN: Known<'static> = Known {
        chains: Some("nftables chain lab c"),
        legacy: None,
        neighbours: None,
        down: None,
        ip: None,
        no_route: None,
    };

    fn at(piece: Piece) -> At<'static> {
        At { piece, from: "lr-in", to: "lr-out", known: CHAIN }
    }

    fn causes(shares: &[Share]) -> Vec<(&str, u64)> {
        shares.iter().map(|share| (share.cause.cause.as_str(), share.packets)).collect()
    }

    #[test]
    fn a_reason_names_no_more_than_is_lost_and_than_it_has() {
        let mut reasons = reasons(&[
            ("lr-in", "IP_INHDR", Some("ip_forward"), 10),
            ("lr-in", "NETFILTER_DROP", Some("nft_do_chain"), 5),
        ]);
        assert_eq!(causes(&reasons.divide(at(Routing), 4, Confidence::OnlyHere)), [("TTL expired", 4)]);
        let rest = reasons.divide(at(Routing), 8, Confidence::Any);
        assert_eq!(causes(&rest), [("TTL expired", 6), ("nftables chain lab c", 2)]);
        assert_eq!(causes(&reasons.divide(at(Forwarding), 9, Confidence::OnlyHere)), []);
        assert_eq!(causes(&reasons.divide(at(Forwarding), 9, Confidence::Any)), [("nftables chain lab c", 3)]);
        assert_eq!(causes(&reasons.divide(at(Output), 9, Confidence::Any)), []);
    }

    #[test]
    fn what_a_counter_named_is_not_named_again_and_what_is_left_contradicts() {
        let mut reasons =
            reasons(&[("lr-in", "NETFILTER_DROP", Some("nf_hook_slow"), 100), ("lr-gen", "X", None, 100)]);
        reasons.settle(at(Routing), "DUT, IPv4 input", "connection tracking table full", 70);
        assert_eq!(reasons.contradictions(30), [] as [String; 0]);
        let [said] = &reasons.contradictions(29)[..] else { panic!("one kind") };
        assert!(said.contains("30 packets on lr-in") && said.contains("nf_hook_slow"), "{said}");
    }

    #[test]
    fn an_unknown_reason_is_told_in_the_kernels_words_and_a_hidden_function_says_nothing() {
        let mut unknown = reasons(&[("lr-out", "BRAND_NEW", Some("somewhere"), 3)]);
        let told = unknown.divide(at(Forwarding), 9, Confidence::Any);
        assert_eq!(causes(&told), [("dropped by the kernel: BRAND_NEW in somewhere", 3)]);
        let mut hidden = reasons(&[("lr-in", "IP_INHDR", None, 3), ("lr-in", "IP_CSUM", None, 2)]);
        assert_eq!(causes(&hidden.divide(at(Routing), 9, Confidence::Any)), [("wrong IP header checksum", 2)]);
    }

    #[test]
    fn a_ring_of_the_next_interface_is_sure_although_two_pieces_have_one() {
        let mut reasons = reasons(&[("lr-out", "NOT_SPECIFIED", Some("veth_napi_del_range"), 7)]);
        let other = At { from: "lr-out", to: "lr-recv", ..at(Output) };
        assert_eq!(causes(&reasons.divide(other, 9, Confidence::OnlyHere)), []);
        let named = reasons.divide(at(Sending), 9, Confidence::OnlyHere);
        assert_eq!(causes(&named), [("in the ring of lr-out when it went down", 7)]);
    }

    #[test]
    fn a_refused_frame_is_too_long_unless_the_interface_was_down() {
        let refused = [("lr-out", "NOT_SPECIFIED", Some("__dev_forward_skb2"), 9)];
        let up = At { known: Known::default(), ..at(Link) };
        let [share] = &reasons(&refused).divide(up, 9, Confidence::Any)[..] else { panic!("one cause") };
        assert_eq!(
            (share.cause.place.as_str(), &*share.cause.cause),
            ("lr-out", "frame longer than the MTU of lr-out")
        );
        let down = At { known: Known { down: Some("no carrier: lr-out is down"), ..Known::default() }, ..at(Link) };
        let [share] = &reasons(&refused).divide(down, 9, Confidence::Any)[..] else { panic!("one cause") };
        assert_eq!((share.cause.place.as_str(), &*share.cause.cause), ("lr-in", "no carrier: lr-out is down"));
    }
}
