//! `[topology]`, `[noise]` and `[phases]`: what is around the matrix.

use crate::read::next_hop;
use crate::section::{self, Section};
use crate::{Phases, PortEnd, TopologyKind};

/// Most layer-3 bytes of a frame: 9,018 on the wire.
const MTU_MAX: u64 = 9_000;
const SECOND_NS: u64 = 1_000_000_000;
const HOUR_NS: u64 = 3_600 * SECOND_NS;

/// Where frames go, and how long they may be.
pub(crate) struct Place {
    pub(crate) kind: TopologyKind,
    pub(crate) baseline_ports: Option<[String; 2]>,
    pub(crate) mtu: u32,
}

pub(crate) fn topology(file: &Section<'_>) -> Place {
    let default = Place { kind: TopologyKind::Namespaces, baseline_ports: None, mtu: 1_500 };
    let Some(table) = file.section("topology", "[topology]") else { return default };
    let kinds = [("namespaces", 0), ("ports", 1), ("in-process", 2)];
    let mtu = table.integer("mtu", 46..=MTU_MAX).map_or(default.mtu, |mtu| mtu as u32);
    let mut baseline_ports = None;
    let kind = match table.word("kind", "kind of topology", &kinds) {
        Some(1) => {
            let (a, b) = (port(&table, "a"), port(&table, "b"));
            if !a.is_empty() && a == b {
                table.error("b", format!("both ends are {a:?}; expected two ports"));
            }
            let (to_a, to_b) = (next_hop::read(&table, "a_next_hop"), next_hop::read(&table, "b_next_hop"));
            baseline_ports = cabled(&table, [&a, &b]);
            TopologyKind::Ports { a: PortEnd { port: a, next_hop: to_a }, b: PortEnd { port: b, next_hop: to_b } }
        }
        Some(2) => TopologyKind::InProcess,
        _ => TopologyKind::Namespaces,
    };
    table.finish();
    Place { kind, baseline_ports, mtu }
}

/// The two ports of the baseline. A port with a cable to the device has none to another port.
fn cabled(table: &Section<'_>, device: [&String; 2]) -> Option<[String; 2]> {
    let key = "baseline_ports";
    let ports: [String; 2] = table.texts(key)?.try_into().unwrap_or_default();
    let [one, other] = &ports;
    if one.trim().is_empty() || other.trim().is_empty() || one == other {
        table.error(key, "`baseline_ports` needs two ports, as [\"xdp:eth2\", \"xdp:eth3\"]");
    } else if let Some(port) = ports.iter().find(|port| device.contains(port)) {
        table.error(
            key,
            format!("{port:?} is cabled to the device; expected two ports with a cable from one to the other"),
        );
    }
    Some(ports)
}

fn port(table: &Section<'_>, key: &'static str) -> String {
    let text = table.needed(key, "\"xdp:eth1\"").and_then(|value| section::text(value, key, table.log));
    let text = text.unwrap_or_default();
    if text.trim().is_empty() && table.has(key) {
        table.error(key, format!("`{key}` is empty; expected the name of a port, as xdp:eth1"));
    }
    text
}

/// Limits on what disturbs a trial.
pub(crate) struct Noise {
    pub(crate) steal_max: f64,
    pub(crate) gap_max_ns: u64,
    pub(crate) retries: u32,
}

pub(crate) fn noise(file: &Section<'_>) -> Noise {
    let default = Noise { steal_max: 0.02, gap_max_ns: 10_000_000, retries: 1 };
    let Some(table) = file.section("noise", "[noise]") else { return default };
    let noise = Noise {
        steal_max: table.number("steal_max", section::is_share, section::SHARE).unwrap_or(default.steal_max),
        gap_max_ns: table.span_ns("gap_max", 1_000..=SECOND_NS * 60).unwrap_or(default.gap_max_ns),
        retries: table.integer("retries", 0..=20).map_or(default.retries, |retries| retries as u32),
    };
    table.finish();
    noise
}

pub(crate) fn phases(file: &Section<'_>) -> Phases {
    let ms = SECOND_NS / 1_000;
    let default = Phases { warm_up_ns: 200 * ms, wait_ns: 100 * ms, drain_ns: 200 * ms, rest_ns: 100 * ms };
    let Some(table) = file.section("phases", "[phases]") else { return default };
    let phases = Phases {
        warm_up_ns: table.span_ns("warm_up", 0..=HOUR_NS).unwrap_or(default.warm_up_ns),
        wait_ns: table.span_ns("wait", 0..=HOUR_NS).unwrap_or(default.wait_ns),
        drain_ns: table.span_ns("drain", ms..=HOUR_NS).unwrap_or(default.drain_ns),
        rest_ns: table.span_ns("rest", 0..=HOUR_NS).unwrap_or(default.rest_ns),
    };
    table.finish();
    phases
}
