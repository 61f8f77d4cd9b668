//! Linerate's OpenFlow switch as a device. What is its own: its command line, its counters, and what it shows; all else it shares with the
//! learning switch (`own_switch.rs`).

use std::collections::BTreeMap;
use std::io;

use linerate_experiment::DutSettings;
use linerate_experiment::section::Section;
use linerate_report::FLOW_MATCHES;
use serde_json::Value;

use super::flow_table::{self, ENTRIES_READ_MAX, FlowSwitch};
use super::folder::Folder;
use super::kind::Settings;
use super::own::SWITCH;
use super::own_switch::{self, Program};
use super::switch_ports::SwitchPorts;
use super::tools::Place;
use super::{Built, DutError, Shown};
use crate::switches::SwitchSource;
use crate::topology::{MemoryPath, TopologySpec};

/// Linerate's own OpenFlow switch, as a program.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OfSwitch(pub FlowSwitch);

impl DutSettings for OfSwitch {
    fn shares_memory(&self) -> bool {
        self.0.ports == SwitchPorts::Memif
    }

    fn flow_entries(&self) -> Option<u32> {
        Some(self.0.entries)
    }
}

impl Settings for OfSwitch {
    const WORD: &str = "ofswitch";
    const ABOUT: &str = "Linerate's own OpenFlow switch, as a program";

    fn read(table: &Section<'_>) -> Vec<(String, Self)> {
        let ports = SwitchPorts::read(table);
        FlowSwitch::read(table, ports).into_iter().map(|(word, switch)| (word, Self(switch))).collect()
    }

    fn build(&self, path: &TopologySpec) -> Result<Built, DutError> {
        own_switch::build(*self, path)
    }
}

impl Program for OfSwitch {
    const NAME: &str = "Linerate OpenFlow switch";
    const PORTS: [&str; 2] = ["1", "2"];

    fn ports(&self) -> SwitchPorts {
        self.0.ports
    }

    fn arguments(&self, folder: &Folder, spec: &TopologySpec) -> Result<Vec<String>, DutError> {
        let file = folder.text("entries.flows");
        let written = std::fs::write(&file, flow_table::lines(self.0.entries, spec));
        written.map_err(DutError::system(format!("write {file}")))?;
        let frame_len_max = MemoryPath::frame_len_max(spec).to_string();
        let table_size = flow_table::TABLE_SIZE_MAX.to_string();
        Ok(["--table-size", &table_size, "--frame-len-max", &frame_len_max, "--flows", &file].map(str::to_owned).into())
    }

    fn forwards(&self) -> &'static str {
        "no controller, flow entries of a file"
    }

    /// Totals, drops by reason, lookups of its tables, its cache, and what its flow entries matched: of few entries the sum of their own
    /// counters, of many that of the table.
    fn counters(&self, source: &SwitchSource) -> io::Result<BTreeMap<String, u64>> {
        let stats = source.show("stats")?;
        let mut counters = of_stats(&stats);
        if self.0.entries <= ENTRIES_READ_MAX {
            let flows = source.show("flow")?;
            let packets = |flow: &Value| flow["packets"].as_u64();
            let matched: u64 = flows["items"].as_array().into_iter().flatten().filter_map(packets).sum();
            counters.insert(FLOW_MATCHES.to_owned(), matched);
        }
        Ok(counters)
    }

    /// In Lagopus's words: flow entries (their tables, where there are too many), the cache, and the ports.
    fn show(&self, place: &Place<'_>, program: &str) -> Result<Vec<Shown>, DutError> {
        let mut commands = vec!["show table", "show flowcache", "show interface all"];
        if self.0.entries <= ENTRIES_READ_MAX {
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
