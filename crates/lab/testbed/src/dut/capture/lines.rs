//! What `linerate capture --json` prints: a line (schema `linerate.capture/1`, docs/capture.md) for each port at each interval, and one
//! with `end` true. Fields and lines that are not known here are passed over.

use linerate_report::{CapturePort, RingTrend};
use serde_json::Value;

/// The last line of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PortLine {
    /// Whether it is the port's last one.
    pub(super) end: bool,
    /// Packets that reached its ring, those that found no room among them.
    pub(super) offered: u64,
    pub(super) port: CapturedCounts,
    ring: Option<Ring>,
    ring_bytes: Option<u64>,
    cpu_ns: Option<u64>,
}

/// Where the offered packets went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CapturedCounts {
    pub(super) captured: u64,
    pub(super) dropped_by_ring: u64,
    pub(super) dropped_by_writer: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Ring {
    capacity: u64,
    highest: u64,
    ring_trend: RingTrend,
    time_to_full_ns: Option<u64>,
}

impl PortLine {
    /// The last whole line about an interface.
    pub(super) fn last(printed: &str, interface: &str) -> Option<Self> {
        printed.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|line| {
            let port = line["port"].as_str()?;
            // Not one of several rings, and not the sum of all ports.
            let is_port = line["scope"].as_str().is_none_or(|scope| scope == "port");
            let is_it = port == interface || port.strip_suffix(interface).is_some_and(|kind| kind.ends_with(':'));
            (is_it && is_port).then(|| Self::of(&line))
        })
    }

    fn of(line: &Value) -> Self {
        let account = |key: &str| line["account"][key].as_u64().unwrap_or(0);
        let written = account("counted_only") + account("written");
        let port = CapturedCounts {
            captured: written,
            dropped_by_ring: account("dropped_by_ring"),
            dropped_by_writer: account("dropped_for_buffers") + account("dropped_by_errors"),
        };
        Self {
            end: line["end"].as_bool() == Some(true),
            offered: account("offered"),
            port,
            ring: Ring::of(&line["ring"]),
            ring_bytes: line["ring_bytes"].as_u64(),
            cpu_ns: line["cpu_ns"].as_u64(),
        }
    }

    /// For the results.
    pub(super) fn report(&self, interface: &str) -> CapturePort {
        let CapturedCounts { captured, dropped_by_ring, dropped_by_writer } = self.port;
        CapturePort {
            port: interface.to_owned(),
            captured,
            dropped_by_ring,
            dropped_by_writer,
            ring_capacity: self.ring.as_ref().map(|ring| ring.capacity).or(self.ring_bytes),
            ring_high_water: self.ring.as_ref().map(|ring| ring.highest),
            ring_trend: self.ring.as_ref().map(|ring| ring.ring_trend).unwrap_or_default(),
            time_to_full_ns: self.ring.as_ref().and_then(|ring| ring.time_to_full_ns),
            cpu_ns: self.cpu_ns,
        }
    }
}

impl Ring {
    /// `None` where it is not known.
    fn of(ring: &Value) -> Option<Self> {
        let capacity = ring["capacity"].as_u64().filter(|capacity| *capacity > 0)?;
        let (ring_trend, time_to_full_ns) = match ring["projection"]["says"].as_str() {
            Some("too_short") => (RingTrend::TooShort, None),
            Some("steady") => (RingTrend::Steady, None),
            Some("full_in") => (RingTrend::FullIn, ring["projection"]["ns"].as_u64()),
            Some("overflowed") => (RingTrend::Overflowed, None),
            _ => (RingTrend::Unknown, None),
        };
        Some(Self { capacity, highest: ring["highest"].as_u64().unwrap_or(0), ring_trend, time_to_full_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = concat!(
        r#"ken": 3, "port": "lr-in"}"#,
        "\n",
        r#"{"schema":"linerate.capture/1","end":false,"port":"lr-in","account":{"offered":5,"taken":5,"counted_only":5}}"#,
        "\n",
        r#"{"end":true,"port":"pcap:lr-in","new":[],"account":{"offered":90,"dropped_by_ring":10,"taken":80,"counted_only":0,"#,
        r#""written":77,"dropped_for_buffers":2,"dropped_by_errors":1},"ring":{"capacity":100,"highest":60,"overflows":0,"#,
        r#""projection":{"says":"full_in","ns":7}},"cpu_ns":400}"#,
        "\n",
        r#"{"end":true,"scope":"queue","port":"pcap:lr-in","account":{}}"#,
        "\n",
        r#"{"end":true,"scope":"sum","port":"sum","account":{}}"#,
        "\n",
    );

    #[test]
    fn the_last_line_of_a_port_is_read_and_what_is_unknown_passed_over() {
        let line = PortLine::last(PRINTED, "lr-in").expect("a line");
        assert!(line.end && line.offered == 90);
        let port = line.report("lr-in");
        assert_eq!((port.captured, port.dropped_by_ring, port.dropped_by_writer), (77, 10, 3));
        assert_eq!(
            (port.ring_high_water, port.ring_trend, port.time_to_full_ns),
            (Some(60), RingTrend::FullIn, Some(7))
        );
        assert_eq!(port.cpu_ns, Some(400));
        assert_eq!(PortLine::last(PRINTED, "in"), None, "no other interface whose name ends alike");
        let first = PRINTED.lines().take(2).collect::<Vec<_>>().join("\n");
        let line = PortLine::last(&first, "lr-in").expect("a line");
        assert!(!line.end && line.report("lr-in").ring_trend == RingTrend::Unknown);
    }

    #[test]
    fn what_is_no_line_is_none() {
        for text in ["", "{", "null", "[1]", "{\"port\":3}", "linerate capture: error"] {
            assert_eq!(PortLine::last(text, "lr-in"), None, "{text}");
        }
    }
}
