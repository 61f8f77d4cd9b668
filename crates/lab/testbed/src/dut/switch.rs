//! Linerate's software switch as a device: its command line and its counters. All else it shares with the OpenFlow switch
//! (`own_switch.rs`).

use std::collections::BTreeMap;
use std::io;

use linerate_experiment::DutSettings;
use linerate_experiment::section::Section;
use serde_json::Value;

use super::folder::Folder;
use super::kind::{Settings, one};
use super::own_switch::{self, Program};
use super::switch_ports::SwitchPorts;
use super::{Built, DutError};
use crate::switches::{SwitchSource, place_of_port};
use crate::topology::{MemoryPath, TopologySpec};

/// Linerate's own software switch, as a program.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Switch(pub SwitchPorts);

impl DutSettings for Switch {
    fn shares_memory(&self) -> bool {
        self.0 == SwitchPorts::Memif
    }
}

impl Settings for Switch {
    const WORD: &str = "switch";
    const ABOUT: &str = "Linerate's own software switch, as a program";

    fn read(table: &Section<'_>) -> Vec<(String, Self)> {
        one(Self(SwitchPorts::read(table)))
    }

    fn build(&self, path: &TopologySpec) -> Result<Built, DutError> {
        own_switch::build(*self, path)
    }
}

impl Program for Switch {
    const NAME: &str = "Linerate switch";
    const PORTS: [&str; 2] = ["in", "out"];

    fn ports(&self) -> SwitchPorts {
        self.0
    }

    fn arguments(&self, _: &Folder, spec: &TopologySpec) -> Result<Vec<String>, DutError> {
        let mut arguments = Vec::new();
        if self.shares_memory() {
            // Learning frames would have to come from the tester's threads, which send nothing before a trial.
            let stations = [MemoryPath::forward().source, MemoryPath::backward().source];
            for (name, station) in Self::PORTS.into_iter().zip(stations) {
                let station = station.map(|byte| format!("{byte:02x}")).join(":");
                arguments.extend(["--mac".into(), format!("{station}={name}")]);
            }
            arguments.extend(["--frame-len-max".into(), MemoryPath::frame_len_max(spec).to_string()]);
        }
        Ok(arguments)
    }

    fn forwards(&self) -> &'static str {
        if self.shares_memory() { "the two stations given" } else { "addresses learned" }
    }

    /// `in received`, `in sent`, `in dropped, egress-full` and so on, and what its ports lost.
    fn counters(&self, source: &SwitchSource) -> io::Result<BTreeMap<String, u64>> {
        source.show("ports").map(|ports| of_ports(&ports))
    }

    fn learns(&self) -> bool {
        true
    }
}

/// Counters of the document `show ports`.
fn of_ports(ports: &Value) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    for port in ports.as_array().into_iter().flatten() {
        let Some(name) = port["name"].as_str() else { continue };
        for key in ["received", "unicast", "flooded", "queued", "sent", "waiting"] {
            if let Some(packets) = port[key].as_u64() {
                counters.insert(format!("{name} {key}"), packets);
            }
        }
        for (key, word) in [("dropped", "dropped"), ("refused", "copies refused"), ("discarded", "thrown away")] {
            for (reason, packets) in port[key].as_object().into_iter().flatten() {
                counters.insert(format!("{name} {word}, {reason}"), packets.as_u64().unwrap_or(0));
            }
        }
        for key in ["port_rx_drops", "port_tx_drops"] {
            for lost in port[key].as_array().into_iter().flatten() {
                let text = |key: &str| lost[key].as_str().unwrap_or_default().to_owned();
                let packets = lost["packets"].as_u64().unwrap_or(0);
                let place = place_of_port(&text("place"), name);
                *counters.entry(format!("{place}: {}", text("cause"))).or_default() += packets;
            }
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_document_of_ports_becomes_counters() {
        let ports = json!([
            { "name": "in", "received": 10, "sent": 3, "dropped": { "egress-full": 2 },
              "port_rx_drops": [{ "place": "AF_PACKET ring of lr-in", "cause": "ring full", "packets": 7 }] },
            { "received": 1 }, 5
        ]);
        let counters = of_ports(&ports);
        assert_eq!((counters["in received"], counters["in sent"], counters["in dropped, egress-full"]), (10, 3, 2));
        assert_eq!((counters["AF_PACKET ring of lr-in: ring full"], counters.len()), (7, 4));
        assert!(of_ports(&Value::Null).is_empty());
    }
}
