//! The flow entries that a switch is given: as many by address as are asked for, and below them the two of the published experiment.
//!
//! Entries are for single pairs of addresses, forth and back in turn: those of the test's flows first, in the order in which an odometer
//! sends them, then pairs that no packet has. So with few entries most flows fall through to the two by port, and with many each flow
//! has an entry of its own among others that nothing matches.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::time::Duration;

use linerate_experiment::section::{self, Section, Value, one_or_more};

use super::switch_ports::SwitchPorts;
use crate::topology::TopologySpec;

/// What every packet matches in the end: what comes in at one port goes out at the other.
pub(super) const BY_PORT: [&str; 2] =
    ["priority=0,in_port=1 actions=output:2", "priority=0,in_port=2 actions=output:1"];

/// Most entries whose own counters are read; of more the sums are.
pub(super) const ENTRIES_READ_MAX: u32 = 2_000;
/// Longest time for adding one entry to a switch: a hundred times what is seen.
pub(super) const ENTRY_MAX: Duration = Duration::from_millis(5);
/// Most entries by address that an experiment may ask for.
const ENTRIES_MAX: u64 = 4_000_000;
/// Most entries of a table: those, and the two by port.
pub(super) const TABLE_SIZE_MAX: u64 = ENTRIES_MAX + 2;

/// First source of the pairs that no packet has: of the block that is reserved for future use (RFC 1112).
const UNUSED: u32 = u32::from_be_bytes([240, 0, 0, 0]);

/// A switch that forwards by OpenFlow flow entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowSwitch {
    /// What joins it to the tester.
    pub ports: SwitchPorts,
    /// So many flow entries by address, before the two by port that every packet of the test matches in the end.
    pub entries: u32,
}

impl FlowSwitch {
    /// One for each number of flow entries.
    pub(super) fn read(table: &Section<'_>, ports: SwitchPorts) -> Vec<(String, Self)> {
        let read = |value: &Value<'_>| section::integer(value, "entries", 0..=ENTRIES_MAX, table.log);
        let entries = one_or_more(table, "entries", 0, |entries: u64| entries.to_string(), read);
        entries.into_iter().map(|(entries, word)| (word, Self { ports, entries: entries as u32 })).collect()
    }
}

/// All entries, in the syntax of ovs-ofctl(8), a line each.
pub(super) fn lines(entries: u32, spec: &TopologySpec) -> String {
    let mut lines = String::with_capacity(entries as usize * 96);
    for number in 0..entries {
        let (source, destination) = pair(number / 2, spec);
        let _ = match number % 2 {
            0 => writeln!(lines, "priority=1,in_port=1,ip,nw_src={source},nw_dst={destination} actions=output:2"),
            _ => writeln!(lines, "priority=1,in_port=2,ip,nw_src={destination},nw_dst={source} actions=output:1"),
        };
    }
    BY_PORT.iter().for_each(|line| lines += &format!("{line}\n"));
    lines
}

/// What they are, for people.
pub(super) fn words(entries: u32) -> String {
    let by_port = BY_PORT.join("; ");
    match entries {
        0 => by_port,
        entries => format!(
            "{entries} for pairs of addresses, forth and back in turn, those of the test's flows first \
             (priority=1,in_port=1,ip,nw_src=A,nw_dst=B actions=output:2); {by_port}"
        ),
    }
}

fn pair(number: u32, spec: &TopologySpec) -> (Ipv4Addr, Ipv4Addr) {
    let count = |(first, last): (Ipv4Addr, Ipv4Addr)| u64::from(u32::from(last).saturating_sub(u32::from(first))) + 1;
    let nth = |(first, _): (Ipv4Addr, Ipv4Addr), number: u64| Ipv4Addr::from(u32::from(first) + number as u32);
    let (sources, pairs) = (count(spec.sources), count(spec.sources) * count(spec.destinations));
    let number = u64::from(number);
    match number.checked_sub(pairs) {
        None => (nth(spec.sources, number % sources), nth(spec.destinations, number / sources)),
        Some(more) => (Ipv4Addr::from(UNUSED + more as u32), spec.destinations.0),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn spec(sources: u8, destinations: u8) -> TopologySpec {
        TopologySpec {
            sources: (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, sources)),
            destinations: (Ipv4Addr::new(192, 0, 2, 101), Ipv4Addr::new(192, 0, 2, 100 + destinations)),
            ..TopologySpec::default()
        }
    }

    #[test]
    fn pairs_of_the_flows_come_first_in_both_directions_and_the_two_by_port_last() {
        assert_eq!(lines(0, &spec(1, 1)).lines().collect::<Vec<_>>(), BY_PORT);
        let text = lines(11, &spec(2, 2));
        let all: Vec<&str> = text.lines().collect();
        let start = "priority=1,in_port=1,ip,nw_src=192.0.2.1,nw_dst=192.0.2.101 actions=output:2";
        assert_eq!(all[..2], [start, "priority=1,in_port=2,ip,nw_src=192.0.2.101,nw_dst=192.0.2.1 actions=output:1"]);
        assert!(all[2].contains("nw_src=192.0.2.2,nw_dst=192.0.2.101") && all[4].contains("nw_dst=192.0.2.102"));
        assert!(all[8].contains("nw_src=240.0.0.0,") && all[10].contains("nw_src=240.0.0.1,"), "{all:?}");
        assert_eq!(all[11..], BY_PORT);
    }

    #[test]
    fn no_two_entries_match_the_same() {
        let text = lines(100_000, &spec(100, 100));
        assert_eq!(text.lines().collect::<BTreeSet<_>>().len(), 100_002);
        assert!(words(10).starts_with("10 for pairs") && !words(0).contains("pairs"));
    }
}
