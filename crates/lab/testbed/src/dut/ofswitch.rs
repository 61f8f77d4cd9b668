//! What is its own about Linerate's OpenFlow switch as a device: its command line, its counters, and what it shows.

use std::collections::BTreeMap;
use std::io;

use linerate_port::{PortSpec, SpecError};
use linerate_report::FLOW_MATCHES;
use serde_json::Value;

use super::flow_table::{self, ENTRIES_READ_MAX};
use super::folder::Folder;
use super::own::SWITCH;
use super::tools::Place;
use super::{DutError, Shown};
use crate::switches::SwitchSource;
use crate::topology::{MemoryPath, TopologySpec};

/// Its flow entries, in its folder.
pub(super) const FLOWS_FILE: &str = "entries.flows";

pub(super) fn command(
    program: String,
    ports: [Result<PortSpec, SpecError>; 2],
    folder: &Folder,
    spec: &TopologySpec,
) -> Result<Vec<String>, SpecError> {
    let mut command = vec![program];
    command.extend(["ofswitch", "--name", SWITCH, "--ports-max", "2", "--quiet"].map(str::to_owned));
    for (number, port) in ports.into_iter().enumerate() {
        command.extend(["--port".into(), format!("{}={}", number + 1, port?)]);
    }
    command.extend(["--table-size".into(), (flow_table::TABLE_SIZE_MAX).to_string()]);
    command.extend(["--frame-len-max".into(), MemoryPath::frame_len_max(spec).to_string()]);
    command.extend(["--flows".into(), folder.text(FLOWS_FILE)]);
    Ok(command)
}

/// Totals, drops by reason, lookups of its tables, its cache, and what its flow entries matched: of few entries the sum of their own
/// counters, of many that of the table.
pub(super) fn counters(source: &SwitchSource, entries: u32) -> io::Result<BTreeMap<String, u64>> {
    let stats = source.show("stats")?;
    let mut counters = of_stats(&stats);
    if entries <= ENTRIES_READ_MAX {
        let flows = source.show("flow")?;
        let packets = |flow: &Value| flow["packets"].as_u64();
        let matched: u64 = flows["items"].as_array().into_iter().flatten().filter_map(packets).sum();
        counters.insert(FLOW_MATCHES.to_owned(), matched);
    }
    Ok(counters)
}

fn of_stats(stats: &Value) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    let mut add = |name: String, value: &Value| counters.extend(value.as_u64().map(|value| (name, value)));
    for key in ["received", "sent", "to_controller", "waiting"] {
        add(key.replace('_', " "), &stats["totals"][key]);
    }
    for (reason, packets) in stats["totals"]["drops"].as_object().into_iter().flatten() {
        add(format!("dropped, {reason}"), packets);
    }
    for key in ["hits", "misses"] {
        add(format!("cache {key}"), &stats["flowcache"][key]);
    }
    let tables = stats["tables"].as_array().into_iter().flatten();
    for table in tables.clone() {
        for key in ["lookups", "matches"] {
            add(format!("table {} {key}", table["table"]), &table[key]);
        }
    }
    let matched = tables.filter_map(|table| table["matches"].as_u64()).sum::<u64>();
    add(FLOW_MATCHES.to_owned(), &matched.into());
    counters
}

/// In Lagopus's words: flow entries (their tables, where there are too many), the cache, and the ports.
pub(super) fn show(place: &Place<'_>, program: &str, entries: u32) -> Result<Vec<Shown>, DutError> {
    let mut commands = vec!["show table", "show flowcache", "show interface all"];
    if entries <= ENTRIES_READ_MAX {
        commands.insert(0, "show flow");
    }
    let shown = |words: &str| {
        let mut command = vec![program.to_owned()];
        command.extend(["ofswitch", "ctl", "--name", SWITCH].map(str::to_owned));
        command.extend(words.split(' ').map(str::to_owned));
        let text = place.run(&command, None)?;
        Ok(Shown { command: format!("linerate ofswitch ctl {words}"), text })
    };
    commands.into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_document_becomes_counters() {
        let stats = json!({
            "totals": { "received": 10, "sent": 7, "waiting": 0, "to_controller": 1, "drops": { "table-miss": 2 } },
            "flowcache": { "hits": 8, "misses": 2 },
            "tables": [{ "table": 0, "lookups": 10, "matches": 8 }, { "table": 3, "matches": 1 }]
        });
        let counters = of_stats(&stats);
        assert_eq!((counters["received"], counters["dropped, table-miss"], counters["cache hits"]), (10, 2, 8));
        assert_eq!((counters["table 0 matches"], counters["to controller"], counters[FLOW_MATCHES]), (8, 1, 9));
        assert_eq!(of_stats(&Value::Null)[FLOW_MATCHES], 0);
    }
}
