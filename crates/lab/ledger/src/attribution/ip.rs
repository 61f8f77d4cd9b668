//! The totals and causes of a router's IPv4 and IPv6, by the names of the kernel's counters (RFC 4293; net/ipv4/proc.c, net/ipv6/proc.c).

use linerate_experiment::IpVersion;

use crate::counters::DutCounters;
use crate::drops::causes::{HOP_LIMIT, IPV6_OFF, NO_ROUTE, TTL};
use linerate_testbed::proc_net::Counters;

/// A version of IP in a router.
#[derive(Debug)]
pub(super) struct Ip {
    pub(super) version: IpVersion,
    pub(super) name: &'static str,
    /// The place of what its input loses.
    pub(super) input: &'static str,
    /// All packets that came in.
    pub(super) in_receives: &'static str,
    /// Those that were to be forwarded.
    pub(super) forwarded: &'static str,
    /// What joins before the output: forwarded, own, and made by fragmentation.
    pub(super) joined: [&'static str; 3],
    /// All packets that the neighbour layer was given; not on every kernel.
    transmits: &'static str,
    /// Packets that were cut into fragments, and went.
    pub(super) fragmented: &'static str,
    /// What did not get to the output, where the kernel does not count what did.
    gone: [&'static str; 3],
    pub(super) checksum_errors: Option<&'static str>,
    /// Headers that are wrong, and hops that are used up.
    pub(super) header_errors: &'static str,
    /// The cause of the latter.
    pub(super) hops: &'static str,
    /// Packets that were too long for the way out.
    pub(super) too_long: &'static str,
    /// Counters of input that stand for one dropped (or kept) packet each.
    pub(super) causes: &'static [(&'static str, &'static str)],
}

pub(super) const IPV4: Ip = Ip {
    version: IpVersion::V4,
    name: "IPv4",
    input: "DUT, IPv4 input",
    in_receives: "Ip.InReceives",
    forwarded: "Ip.ForwDatagrams",
    joined: ["Ip.ForwDatagrams", "Ip.OutRequests", "Ip.FragCreates"],
    transmits: "Ip.OutTransmits",
    fragmented: "Ip.FragOKs",
    gone: ["Ip.FragOKs", "Ip.FragFails", "conntrack.insert_failed"],
    checksum_errors: Some("IpExt.InCsumErrors"),
    header_errors: "Ip.InHdrErrors",
    hops: TTL,
    too_long: "Ip.FragFails",
    causes: &[
        ("IpExt.InTruncatedPkts", SHORT),
        ("Ip.InDiscards", "out of memory"),
        ("TcpExt.IPReversePathFilter", "reverse path filter"),
        ("IpExt.InNoRoutes", NO_ROUTE),
        ("Ip.InAddrErrors", NOT_FORWARDING),
        ("Ip.InUnknownProtos", UNKNOWN_PROTOCOL),
        ("Ip.InDelivers", OWN_STACK),
    ],
};

/// A packet that is too long counts as forwarded first, then as `Ip6InTooBigErrors` and `Ip6FragFails`. Routers do not fragment (RFC 8200
/// section 5), and there is no checksum over the header.
pub(super) const IPV6: Ip = Ip {
    version: IpVersion::V6,
    name: "IPv6",
    input: "DUT, IPv6 input",
    in_receives: "Ip6InReceives",
    forwarded: "Ip6OutForwDatagrams",
    joined: ["Ip6OutForwDatagrams", "Ip6OutRequests", "Ip6FragCreates"],
    transmits: "Ip6OutTransmits",
    fragmented: "Ip6FragOKs",
    gone: ["Ip6FragOKs", "Ip6FragFails", "Ip6OutDiscards"],
    checksum_errors: None,
    header_errors: "Ip6InHdrErrors",
    hops: HOP_LIMIT,
    too_long: "Ip6InTooBigErrors",
    causes: &[
        ("Ip6InTruncatedPkts", SHORT),
        ("Ip6InDiscards", IPV6_OFF),
        ("Ip6InNoRoutes", NO_ROUTE),
        ("Ip6InAddrErrors", NOT_FORWARDING),
        ("Ip6InUnknownProtos", UNKNOWN_PROTOCOL),
        ("Ip6InDelivers", OWN_STACK),
    ],
};

const SHORT: &str = "shorter than its IP header says";
const NOT_FORWARDING: &str = "not for the DUT, and forwarding is off";
const UNKNOWN_PROTOCOL: &str = "for the DUT itself, protocol unknown";
const OWN_STACK: &str = "taken by the DUT's own stack";

impl Ip {
    /// Packets that it gave to the neighbour layer. Kernels that do not count them show no loss in forwarding but what has a
    /// counter, and the rest at the output.
    pub(super) fn transmitted(&self, counters: &Counters) -> u64 {
        let sum = |names: [&str; 3]| names.iter().filter_map(|name| counters.get(*name)).sum::<u64>();
        counters.get(self.transmits).copied().unwrap_or(sum(self.joined).saturating_sub(sum(self.gone)))
    }

    /// Whether a route of its own refuses what it matches.
    pub(super) fn is_refusing(&self, dut: &DutCounters) -> bool {
        match self.version {
            IpVersion::V4 => dut.refusing_route,
            IpVersion::V6 => dut.refusing_route_6,
        }
    }
}
