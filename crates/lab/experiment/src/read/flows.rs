//! Flow patterns: a number of flows, or sources x destinations x ports.

use std::net::Ipv4Addr;

use toml::de::DeValue;

use crate::error::Log;
use crate::names::divided;
use crate::read::section::{self, Section, Value};
use crate::{FlowOrder, FlowSpec, TopologyKind};

/// Most flows of a pattern.
const FLOWS_MAX: u64 = 16 << 20;
/// UDP source ports 1024 to 65535.
const PORTS_MAX: u64 = 64_512;
/// The flows of the published experiments with OpenFlow switches: 192.0.2.1-100 to 192.0.2.101-200.
const SOURCE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const DESTINATION: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 101);

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
/// The lab's own links.
const LINKS: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(198, 18, 0, 0), Ipv4Addr::new(198, 18, 1, 255));

/// Reads one entry of `flows`.
pub(crate) fn read(value: &Value<'_>, topology: &TopologyKind, log: &Log) -> Option<FlowSpec> {
    match value.get_ref() {
        DeValue::Integer(_) => number(value, log),
        DeValue::Table(_) => pattern(&Section::of(value, "the flow pattern", log)?, topology),
        _ => {
            let expected = "expected a number of flows or { sources = 100, destinations = 100 }";
            log.error(value.span(), format!("a flow pattern is {}; {expected}", section::kind(value)));
            None
        }
    }
}

fn number(value: &Value<'_>, log: &Log) -> Option<FlowSpec> {
    let count = section::integer(value, "flows", 1..=FLOWS_MAX, log)?;
    let (sources, destinations, ports) = divided(count);
    if ports > PORTS_MAX {
        let expected = "expected { sources = ..., destinations = ..., ports = ... }";
        log.error(value.span(), format!("{count} flows cannot be divided; {expected}"));
        return None;
    }
    let (source, destination, order) = (SOURCE, DESTINATION, FlowOrder::Odometer);
    Some(FlowSpec { source, sources, destination, destinations, ports, order })
}

fn pattern(table: &Section<'_>, topology: &TopologyKind) -> Option<FlowSpec> {
    let log = table.log;
    let count = |key, most| table.integer(key, 1..=most).unwrap_or(1);
    let flows = FlowSpec {
        source: address(table, "source").unwrap_or(SOURCE),
        sources: count("sources", FLOWS_MAX),
        destination: address(table, "destination").unwrap_or(DESTINATION),
        destinations: count("destinations", FLOWS_MAX),
        ports: count("ports", PORTS_MAX),
        order: order(table),
    };
    table.finish();
    if flows.count() > FLOWS_MAX {
        let message = format!("the pattern has {} flows; expected at most {FLOWS_MAX}", flows.count());
        log.error(table.span.clone(), message);
        return None;
    }
    check_addresses(table, &flows, topology);
    Some(flows)
}

fn order(table: &Section<'_>) -> FlowOrder {
    let is_random = table.word("order", "order", &[("odometer", false), ("random", true)]).unwrap_or(false);
    let seed = table.integer("seed", 0..=u64::MAX);
    if seed.is_some() && !is_random {
        table.error("seed", "`seed` needs order = \"random\"");
    }
    if is_random { FlowOrder::Random(seed.unwrap_or(1)) } else { FlowOrder::Odometer }
}

fn address(table: &Section<'_>, key: &'static str) -> Option<Ipv4Addr> {
    let text = table.text(key)?;
    let address = text.parse().ok();
    if address.is_none() {
        let shown: String = text.chars().take(40).collect();
        table.error(key, format!("`{key}` is {shown:?}; expected an IPv4 address, as 192.0.2.1"));
    }
    address
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
