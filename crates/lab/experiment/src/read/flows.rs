//! Flow patterns: a number of flows, or sources x destinations x ports.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use toml::de::DeValue;

use crate::error::Log;
use crate::names::divided;
use crate::section::{self, Section, Value};
use crate::{Addresses6, FlowIp, FlowOrder, FlowSpec, IpVersion, TopologyKind};

/// Most flows of a pattern.
const FLOWS_MAX: u64 = 16 << 20;
/// UDP source ports 1024 to 65535.
const PORTS_MAX: u64 = 64_512;
/// The flows of the published experiments with OpenFlow switches: 192.0.2.1-100 to 192.0.2.101-200.
const SOURCE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const DESTINATION: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 101);
/// The same of IPv6, of the block for documentation.
const ADDRESSES6: Addresses6 = Addresses6 {
    source: Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1),
    destination: Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 0x101),
};

/// Blocks that no one's real host is in: documentation (RFC 5737), benchmarks (RFC 2544), private (RFC 1918).
const BLOCKS: [(Ipv4Addr, u32); 7] = [
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
];
/// The same of IPv6: documentation (RFC 3849), benchmarks (RFC 5180 section 8 as its erratum 1752 corrects it), unique local (RFC 4193).
const BLOCKS6: [(Ipv6Addr, u32); 3] = [
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
];
/// The first of the lab's own two links of IPv6, each a /64.
const LINKS6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0);
/// The lab's own links.
const LINKS: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(198, 18, 0, 0), Ipv4Addr::new(198, 18, 1, 255));

/// A version of IP as files say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ip {
    V4,
    V6,
    Dual,
}

/// The words for it.
pub(crate) const IPS: [(&str, Ip); 3] = [("4", Ip::V4), ("6", Ip::V6), ("dual", Ip::Dual)];

impl Ip {
    fn with(self, addresses: Addresses6) -> FlowIp {
        match self {
            Self::V4 => FlowIp::V4,
            Self::V6 => FlowIp::V6(addresses),
            Self::Dual => FlowIp::Dual(addresses),
        }
    }
}

/// Reads one entry of `flows`: a pattern for each version of IP, unless it names its own.
pub(crate) fn read(value: &Value<'_>, versions: &[Ip], topology: &TopologyKind, log: &Log) -> Vec<FlowSpec> {
    match value.get_ref() {
        DeValue::Integer(_) => number(value, versions, log),
        DeValue::Table(_) => Section::of(value, "the flow pattern", log)
            .map(|table| pattern(&table, versions, topology))
            .unwrap_or_default(),
        _ => {
            let expected = "expected a number of flows or { sources = 100, destinations = 100 }";
            log.error(value.span(), format!("a flow pattern is {}; {expected}", section::kind(value)));
            Vec::new()
        }
    }
}

fn number(value: &Value<'_>, versions: &[Ip], log: &Log) -> Vec<FlowSpec> {
    let Some(count) = section::integer(value, "flows", 1..=FLOWS_MAX, log) else { return Vec::new() };
    let of_version = |ip: &Ip| {
        let is_dual = *ip == Ip::Dual;
        if is_dual && !count.is_multiple_of(2) {
            let expected = "expected an even number, half of the flows for each version of IP";
            log.error(value.span(), format!("{count} flows cannot be dual; {expected}"));
            return None;
        }
        let (sources, destinations, ports) = divided(if is_dual { count / 2 } else { count });
        if ports > PORTS_MAX {
            let expected = "expected { sources = ..., destinations = ..., ports = ... }";
            log.error(value.span(), format!("{count} flows cannot be divided; {expected}"));
            return None;
        }
        let (source, destination, order) = (SOURCE, DESTINATION, FlowOrder::Odometer);
        Some(FlowSpec { source, sources, destination, destinations, ports, order, ip: ip.with(ADDRESSES6) })
    };
    versions.iter().filter_map(of_version).collect()
}

fn pattern(table: &Section<'_>, versions: &[Ip], topology: &TopologyKind) -> Vec<FlowSpec> {
    let log = table.log;
    let count = |key, most| table.integer(key, 1..=most).unwrap_or(1);
    let versions = match table.word("ip", "version of IP", &IPS) {
        Some(own) => vec![own],
        None => versions.to_vec(),
    };
    let addresses = Addresses6 {
        source: address(table, "source6", "an IPv6 address, as 2001:db8:0:1::1").unwrap_or(ADDRESSES6.source),
        destination: address(table, "destination6", "an IPv6 address, as 2001:db8:0:2::1")
            .unwrap_or(ADDRESSES6.destination),
    };
    let of_ipv4 = FlowSpec {
        source: address(table, "source", "an IPv4 address, as 192.0.2.1").unwrap_or(SOURCE),
        sources: count("sources", FLOWS_MAX),
        destination: address(table, "destination", "an IPv4 address, as 192.0.2.1").unwrap_or(DESTINATION),
        destinations: count("destinations", FLOWS_MAX),
        ports: count("ports", PORTS_MAX),
        order: order(table),
        ip: FlowIp::V4,
    };
    table.finish();
    let all: Vec<FlowSpec> = versions.iter().map(|ip| FlowSpec { ip: ip.with(addresses), ..of_ipv4.clone() }).collect();
    check_keys(table, &all);
    if let Some(flows) = all.iter().find(|flows| flows.count() > FLOWS_MAX) {
        let message = format!("the pattern has {} flows; expected at most {FLOWS_MAX}", flows.count());
        log.error(table.span.clone(), message);
        return Vec::new();
    }
    if all.iter().any(|flows| flows.ip.has(IpVersion::V4)) {
        check_addresses(table, &of_ipv4, topology);
    }
    if all.iter().any(|flows| flows.ip.has(IpVersion::V6)) {
        check_addresses6(table, &of_ipv4, addresses, topology);
    }
    all
}

/// An address of a version of IP that no pattern has means nothing.
fn check_keys(table: &Section<'_>, all: &[FlowSpec]) {
    let keys = [
        ("source", IpVersion::V4, "`source6`"),
        ("destination", IpVersion::V4, "`destination6`"),
        ("source6", IpVersion::V6, "`source`, or ip = \"6\" or \"dual\""),
        ("destination6", IpVersion::V6, "`destination`, or ip = \"6\" or \"dual\""),
    ];
    for (key, version, expected) in keys {
        if table.has(key) && !all.iter().any(|flows| flows.ip.has(version)) {
            let (has, is) = match version {
                IpVersion::V4 => ("IPv6", "IPv4"),
                IpVersion::V6 => ("IPv4", "IPv6"),
            };
            table.error(key, format!("`{key}` is an address of {is}, and the flows are of {has}; expected {expected}"));
        }
    }
}

fn order(table: &Section<'_>) -> FlowOrder {
    let is_random = table.word("order", "order", &[("odometer", false), ("random", true)]).unwrap_or(false);
    let seed = table.integer("seed", 0..=u64::MAX);
    if seed.is_some() && !is_random {
        table.error("seed", "`seed` needs order = \"random\"");
    }
    if is_random { FlowOrder::Random(seed.unwrap_or(1)) } else { FlowOrder::Odometer }
}

fn address<T: FromStr>(table: &Section<'_>, key: &'static str, expected: &str) -> Option<T> {
    let text = table.text(key)?;
    let address = text.parse().ok();
    if address.is_none() {
        let shown: String = text.chars().take(40).collect();
        table.error(key, format!("`{key}` is {shown:?}; expected {expected}"));
    }
    address
}

/// As [`check_addresses`] for IPv6: within a block, one /64 each way, so that only the low 64 bits vary.
fn check_addresses6(table: &Section<'_>, flows: &FlowSpec, first: Addresses6, topology: &TopologyKind) {
    let range = |key: &'static str, first: Ipv6Addr, count: u64| {
        let bits = first.to_bits();
        let at = if table.has(key) { key } else { key.trim_end_matches('6') };
        let last = bits + u128::from(count - 1);
        let is_within = |(block, len): &(Ipv6Addr, u32)| (bits ^ block.to_bits()) >> (128 - len) == 0;
        if !BLOCKS6.iter().any(is_within) {
            let blocks: Vec<String> = BLOCKS6.iter().map(|(block, len)| format!("{block}/{len}")).collect();
            table.error(at, format!("`{key}` {first} is in no test block; expected one of {}", blocks.join(", ")));
            return None;
        }
        if bits >> 64 != last >> 64 {
            table.error(at, format!("{count} addresses from {first} on leave its /64; expected an earlier first one"));
            return None;
        }
        if *topology == TopologyKind::Namespaces && (bits ^ LINKS6.to_bits()) >> 65 == 0 {
            let links = "the lab's own links 2001:2::/64 and 2001:2:0:1::/64; expected others, as 2001:db8:0:1::1";
            table.error(at, format!("`{key}` {first} is on {links}"));
            return None;
        }
        Some((bits, last))
    };
    let sources = range("source6", first.source, flows.sources);
    let destinations = range("destination6", first.destination, flows.destinations);
    let (Some(sources), Some(destinations)) = (sources, destinations) else { return };
    if sources.0 <= destinations.1 && destinations.0 <= sources.1 {
        let at = if table.has("destination6") { "destination6" } else { "destinations" };
        let message =
            format!("the destinations from {} on overlap the sources; expected ranges apart", first.destination);
        table.error(at, message);
    }
}

fn check_addresses(table: &Section<'_>, flows: &FlowSpec, topology: &TopologyKind) {
    let sources = check_range(table, "source", flows.source, flows.sources, topology);
    let destinations = check_range(table, "destination", flows.destination, flows.destinations, topology);
    let (Some(sources), Some(destinations)) = (sources, destinations) else { return };
    if overlap(sources, destinations) {
        let at = if table.has("destination") { "destination" } else { "destinations" };
        let message = format!(
            "the destinations {} overlap the sources {}; expected ranges apart",
            shown(destinations),
            shown(sources)
        );
        table.error(at, message);
    }
}

/// First and last address, when they are of one block and of none of the lab's links.
fn check_range(
    table: &Section<'_>,
    key: &'static str,
    first: Ipv4Addr,
    count: u64,
    topology: &TopologyKind,
) -> Option<(u64, u64)> {
    let first = u64::from(u32::from(first));
    let range = (first, first + count - 1);
    let at = if table.has(key) { key } else { if key == "source" { "sources" } else { "destinations" } };
    let is_within = |(block, len): &(Ipv4Addr, u32)| {
        let start = u64::from(u32::from(*block));
        start <= range.0 && range.1 < start + (1 << (32 - len))
    };
    if !BLOCKS.iter().any(is_within) {
        let blocks: Vec<String> = BLOCKS.iter().map(|(block, len)| format!("{block}/{len}")).collect();
        let message =
            format!("the {key}s {} are in no test block; expected one of {}", shown(range), blocks.join(", "));
        table.error(at, message);
        return None;
    }
    let links = (u64::from(u32::from(LINKS.0)), u64::from(u32::from(LINKS.1)));
    if *topology == TopologyKind::Namespaces && overlap(range, links) {
        let message = format!("the {key}s {} are on the lab's own links 198.18.0.0/24 and 198.18.1.0/24", shown(range));
        table.error(at, message + "; expected others, as 198.19.0.1");
        return None;
    }
    Some(range)
}

fn overlap(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 <= b.1 && b.0 <= a.1
}

fn shown((first, last): (u64, u64)) -> String {
    let address = |number: u64| Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX));
    match first == last {
        true => address(first).to_string(),
        false => format!("{}-{}", address(first), address(last)),
    }
}
