//! What a capture took in of a load, what it cost, and how full its rings were.

use crate::number;
use serde::{Deserialize, Serialize};

/// A capture under one load. Rates are of all its ports together; shares are 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapturePoint {
    /// Load in packets per second.
    #[serde(deserialize_with = "number::or_null")]
    pub load_pps: f64,
    /// Sent, in packets per second.
    #[serde(deserialize_with = "number::or_null")]
    pub sent_pps: f64,
    /// Captured, in packets per second.
    #[serde(deserialize_with = "number::or_null")]
    pub captured_pps: f64,
    /// Captured / (captured + dropped), by the capture's own counts, mean of the ports; `None`: it saw no packet. What the kernel
    /// lost before the capture's ring is in none of these counts.
    pub capture_ratio: Option<f64>,
    /// Captured / sent.
    #[serde(deserialize_with = "number::or_null")]
    pub captured_of_sent: f64,
    /// Share of the time of all cores of the machine, the tester's among them, in which nothing ran; `None`: not known.
    pub idle_share: Option<f64>,
    /// CPU time of the capturing threads for each packet captured, in nanoseconds; `None`: not known, or nothing captured.
    pub cpu_ns_per_packet: Option<f64>,
    /// What each port says of itself.
    pub ports: Vec<CapturePort>,
}

/// One port of a capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturePort {
    /// Its name.
    pub port: String,
    /// Packets taken out of its ring, and written where there is a file.
    pub captured: u64,
    /// Packets that found its ring full.
    pub dropped_by_ring: u64,
    /// Packets that a file's writer dropped.
    pub dropped_by_writer: u64,
    /// Bytes (or slots) of its ring; `None`: it does not say.
    pub ring_capacity: Option<u64>,
    /// Its highest level, in the same unit.
    pub ring_high_water: Option<u64>,
    /// What its level says about a longer run.
    pub ring_trend: RingTrend,
    /// Until it is full, in nanoseconds, where `ring_trend` is `full-in`.
    pub time_to_full_ns: Option<u64>,
    /// CPU time of its thread, in nanoseconds.
    pub cpu_ns: Option<u64>,
}

/// What the level of a ring says about a longer run at the same load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RingTrend {
    /// The level fell back each time: the reader keeps up.
    Steady,
    /// The run was too short to tell.
    TooShort,
    /// It is not known how full the ring was.
    #[default]
    Unknown,
    /// The level rises: a longer run loses packets.
    FullIn,
    /// It was full, and packets were lost.
    Overflowed,
}

impl CapturePoint {
    /// The highest level of any port's ring, as a share of its room.
    pub fn fill_share(&self) -> Option<f64> {
        let share = |port: &CapturePort| Some(port.ring_high_water? as f64 / port.ring_capacity?.max(1) as f64);
        self.ports.iter().filter_map(share).reduce(f64::max)
    }

    /// The worst of the ports' outlooks.
    pub fn ring_trend(&self) -> RingTrend {
        self.ports.iter().map(|port| port.ring_trend).max().unwrap_or_default()
    }

    /// Until the first ring is full, in nanoseconds.
    pub fn time_to_full_ns(&self) -> Option<u64> {
        self.ports.iter().filter_map(|port| port.time_to_full_ns).min()
    }

    /// Bytes of the rings of all ports.
    pub(crate) fn buffers(&self) -> u64 {
        number::sum(self.ports.iter().filter_map(|port| port.ring_capacity))
    }
}

impl CapturePort {
    /// Captured / (captured + dropped), by its own counts; `None`: it saw no packet.
    pub fn capture_ratio(&self) -> Option<f64> {
        let seen = self.captured + self.dropped_by_ring + self.dropped_by_writer;
        (seen > 0).then(|| self.captured as f64 / seen as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_ratio_is_by_the_captures_own_counts() {
        let port = |captured, dropped_by_ring| CapturePort {
            port: "a".into(),
            captured,
            dropped_by_ring,
            dropped_by_writer: 0,
            ring_capacity: Some(1000),
            ring_high_water: Some(dropped_by_ring),
            ring_trend: RingTrend::Steady,
            time_to_full_ns: None,
            cpu_ns: None,
        };
        assert_eq!((port(75, 25).capture_ratio(), port(0, 0).capture_ratio()), (Some(0.75), None));
        let point = CapturePoint {
            load_pps: 1.0,
            sent_pps: 1.0,
            captured_pps: 1.0,
            capture_ratio: None,
            captured_of_sent: 1.0,
            idle_share: None,
            cpu_ns_per_packet: None,
            ports: vec![
                port(1, 250),
                CapturePort { ring_trend: RingTrend::FullIn, time_to_full_ns: Some(7), ..port(1, 100) },
            ],
        };
        assert_eq!(
            (point.fill_share(), point.ring_trend(), point.time_to_full_ns()),
            (Some(0.25), RingTrend::FullIn, Some(7))
        );
    }
}
