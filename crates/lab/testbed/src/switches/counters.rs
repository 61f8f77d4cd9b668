//! The account of a switch, as Linerate's own ones write it (docs/switch.md, docs/ofswitch.md).

use linerate_port::FarSide;
use linerate_report::Loss;
use serde_json::Value;

/// What the rows of its losses were read from.
const COUNTER: &str = "ctl show drops";
/// The beginning of the schema of an OpenFlow switch's document.
const OPENFLOW_SCHEMA: &str = "linerate.ofswitch/";
/// The place of what an OpenFlow switch drops.
const OPENFLOW_SWITCH: &str = "OpenFlow switch";
const TO_CONTROLLER: &str = "sent to the controllers";
/// Reasons that are about the port where a packet would have left, though they are counted where it came in.
const OF_THE_WAY_OUT: [&str; 2] = ["egress-full", "too-long"];

/// Packets of a switch: totals since it was started, or what was added to them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SwitchCounters {
    /// When it was started, by [`linerate_sys::clock::now_ns`]: at the earliest, at the latest.
    pub started_ns: (u64, u64),
    /// Came from its ports.
    pub received: u64,
    /// Taken by its ports.
    pub sent: u64,
    /// In its queues: now, and at the end of a difference.
    pub waiting: u64,
    /// Of a difference: in its queues when it began.
    pub waiting_before: u64,
    /// Lost by its ports before it had them.
    pub before: Vec<Loss>,
    /// Lost in it, by port and reason.
    pub inside: Vec<Loss>,
    /// Lost by its ports after they had taken them.
    pub after: Vec<Loss>,
    /// Of a difference: it was started anew in between, and what it counted before is not known.
    pub restarted: bool,
}

impl SwitchCounters {
    /// The totals in a document of `show stats`.
    pub fn of(document: &Value) -> Self {
        let ports = document["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names: Vec<&str> = ports.iter().filter_map(|port| port["name"].as_str()).collect();
        let mut counters = Self::default();
        let total = |key: &str| document["totals"][key].as_u64().unwrap_or(0);
        (counters.received, counters.sent, counters.waiting) = (total("received"), total("sent"), total("waiting"));
        if document["schema"].as_str().is_some_and(|schema| schema.starts_with(OPENFLOW_SCHEMA)) {
            counters.inside = of_openflow(&document["totals"]);
        }
        for port in ports {
            let Some(name) = port["name"].as_str() else { continue };
            let far = match names.as_slice() {
                [one, other] if *one == name => *other,
                [one, _] => *one,
                _ => name,
            };
            for key in ["dropped", "refused", "discarded"] {
                for (reason, packets) in port[key].as_object().into_iter().flatten() {
                    let counted_far = key == "dropped" && OF_THE_WAY_OUT.contains(&reason.as_str());
                    let place = format!("switch port {}", if counted_far { far } else { name });
                    add(&mut counters.inside, place, reason, packets.as_u64().unwrap_or(0));
                }
            }
            for (key, rows) in [("port_rx_drops", &mut counters.before), ("port_tx_drops", &mut counters.after)] {
                for lost in port[key].as_array().into_iter().flatten() {
                    let text = |key: &str| lost[key].as_str().unwrap_or_default();
                    let place = place_of_port(text("place"), &format!("switch port {name}"));
                    add(rows, place, text("cause"), lost["packets"].as_u64().unwrap_or(0));
                }
            }
        }
        counters
    }

    /// What was added since `earlier`. Of a switch that was started anew: what it counted since then.
    pub fn since(&self, earlier: &Self) -> Self {
        if self.started_ns.0 > earlier.started_ns.1 {
            return Self { restarted: true, ..self.clone() };
        }
        let rows = |later: &[Loss], earlier: &[Loss]| {
            let before = |row: &Loss| {
                let same = earlier.iter().find(|other| other.place == row.place && other.cause == row.cause);
                same.map_or(0, |other| other.packets)
            };
            later.iter().map(|row| Loss { packets: row.packets.saturating_sub(before(row)), ..row.clone() }).collect()
        };
        Self {
            started_ns: self.started_ns,
            received: self.received.saturating_sub(earlier.received),
            sent: self.sent.saturating_sub(earlier.sent),
            waiting: self.waiting,
            waiting_before: earlier.waiting,
            before: rows(&self.before, &earlier.before),
            inside: rows(&self.inside, &earlier.inside),
            after: rows(&self.after, &earlier.after),
            restarted: false,
        }
    }

    /// All that it lost, in path order.
    pub fn losses(&self) -> impl Iterator<Item = &Loss> {
        [&self.before, &self.inside, &self.after].into_iter().flatten().filter(|loss| loss.packets > 0)
    }

    /// A number that grows with every packet.
    pub fn movement(&self) -> u64 {
        self.received + self.sent + self.losses().map(|loss| loss.packets).sum::<u64>()
    }
}

/// What an OpenFlow switch counts by reason alone: where a packet would have left, its entries decide.
fn of_openflow(totals: &Value) -> Vec<Loss> {
    let mut rows = Vec::new();
    for (reason, packets) in totals["drops"].as_object().into_iter().flatten() {
        add(&mut rows, OPENFLOW_SWITCH.into(), reason, packets.as_u64().unwrap_or(0));
    }
    add(&mut rows, OPENFLOW_SWITCH.into(), TO_CONTROLLER, totals["to_controller"].as_u64().unwrap_or(0));
    rows
}

/// The place of a port's own loss. A port that is named by a file is called by what it is.
pub fn place_of_port(place: &str, otherwise: &str) -> String {
    let is_socket = linerate_ports::parse(place).is_ok_and(|spec| linerate_ports::far_side(&spec) == FarSide::Peer);
    if is_socket { otherwise.to_owned() } else { place.to_owned() }
}

fn add(rows: &mut Vec<Loss>, place: String, cause: &str, packets: u64) {
    match rows.iter_mut().find(|row| row.place == place && row.cause == cause) {
        Some(row) => row.packets = row.packets.saturating_add(packets),
        None => rows.push(Loss::new(place, cause, packets).counted_by(COUNTER)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(full: u64) -> Value {
        json!({
            "seconds": 1.5,
            "ports": [
                { "name": "in", "dropped": { "egress-full": full, "hairpin": 2 },
                  "port_rx_drops": [{ "place": "AF_PACKET ring of lr-in", "cause": "ring full", "packets": 7 }] },
                { "name": "out", "refused": { "egress-full": 3 }, "discarded": { "egress-full": 4 },
                  "port_tx_drops": [{ "place": "memif:/x", "cause": "packet without a byte", "packets": 1 }] },
                { "dropped": 5 }, 5
            ],
            "totals": { "received": 100, "sent": 80, "waiting": 1 }
        })
    }

    #[test]
    fn losses_are_rows_by_port_and_reason_where_they_happened() {
        let counters = SwitchCounters::of(&document(10));
        let rows: Vec<_> = counters.losses().map(|row| (row.place.as_str(), row.cause.as_str(), row.packets)).collect();
        assert_eq!(
            rows,
            [
                ("AF_PACKET ring of lr-in", "ring full", 7),
                ("switch port out", "egress-full", 17),
                ("switch port in", "hairpin", 2),
                ("switch port out", "packet without a byte", 1),
            ]
        );
        assert!(counters.losses().all(|row| row.counter.is_some() && row.inferred_from.is_none()));
        assert_eq!((counters.received, counters.sent, counters.waiting), (100, 80, 1));
        assert_eq!(SwitchCounters::of(&Value::Null), SwitchCounters::default());
    }

    #[test]
    fn an_openflow_switch_has_a_row_for_each_reason_and_one_for_its_controllers() {
        let document = json!({
            "schema": "linerate.ofswitch/1",
            "ports": [{ "name": "lr-in", "rx_dropped": 5,
                        "port_rx_drops": [{ "place": "AF_PACKET ring of lr-in", "cause": "ring full", "packets": 7 }] }],
            "totals": { "received": 100, "sent": 80, "waiting": 0, "to_controller": 4, "drops": { "table-miss": 16, "meter": 0 } }
        });
        let counters = SwitchCounters::of(&document);
        let rows: Vec<_> = counters.losses().map(|row| (row.place.as_str(), row.cause.as_str(), row.packets)).collect();
        assert_eq!(
            rows,
            [
                ("AF_PACKET ring of lr-in", "ring full", 7),
                ("OpenFlow switch", "table-miss", 16),
                ("OpenFlow switch", "sent to the controllers", 4),
            ]
        );
    }

    #[test]
    fn a_difference_is_what_was_added_or_all_of_one_that_was_started_anew() {
        let at = |full, started_ns| SwitchCounters { started_ns, ..SwitchCounters::of(&document(full)) };
        let added = at(15, (90, 110)).since(&at(10, (100, 120)));
        let rows: Vec<_> = added.losses().map(|row| (row.cause.as_str(), row.packets)).collect();
        assert_eq!((rows.as_slice(), added.received, added.restarted), ([("egress-full", 5)].as_slice(), 0, false));
        let anew = at(15, (130, 140)).since(&at(10, (100, 120)));
        assert_eq!((anew.restarted, anew.received), (true, 100));
    }
}
