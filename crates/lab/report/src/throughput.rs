//! What a search found, and what it is compared with.

use crate::number;
use crate::trial::{FCS_BYTES, is_tester_limited};
use crate::units::{l1_bps, l2_bps};
use serde::{Deserialize, Serialize};

/// The throughput of the DUT for one size and number of flows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "ThroughputFields", into = "ThroughputFields")]
pub struct Throughput {
    /// Bytes of a frame on the wire, frame check sequence included.
    pub size_wire: u32,
    /// Number of flows.
    pub flows: u64,
    /// What the search closed in on. The throughput is the lower bound.
    pub bounds: Bounds,
    /// Largest share of lost packets in a passing trial; 0 is the throughput of RFC 2544.
    pub loss_ratio: f64,
    /// The relative width of the bounds that was asked for.
    pub resolution: f64,
    /// How long each trial sent, in nanoseconds.
    pub duration_ns: u64,
    /// How often a failing trial was repeated before it counted; 0 is strict RFC 2544.
    pub confirmations: u32,
    /// Failing trials that a repetition overturned.
    pub overturned: u32,
    /// Whether a load failed below another that passed later.
    pub irregular: bool,
    /// What keeps it from being higher.
    pub limited_by: LimitedBy,
    /// The rate of the same path without the DUT, in packets per second.
    pub baseline_pps: Option<f64>,
    /// Names of the trials of the search, in order.
    pub trials: Vec<String>,
}

impl Throughput {
    /// Packets per second, or `None` when no load passed.
    pub fn pps(&self) -> Option<u64> {
        self.bounds.lower_pps
    }

    /// Whether the throughput is within 5 % of the baseline, so that it is the tester's own limit.
    pub fn is_tester_limited(&self) -> bool {
        is_tester_limited(self.pps().map(|pps| pps as f64), self.baseline_pps)
    }
}

/// The throughput lies between the two: the lower load passed, the upper one failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// The highest load that passed below all that failed, in packets per second.
    pub lower_pps: Option<u64>,
    /// The lowest load that failed, in packets per second.
    pub upper_pps: Option<u64>,
}

/// What keeps a throughput from being higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// Packets are lost above it.
    Loss,
    /// The tester cannot send more: its own limit, or a path that pushes back on its sender.
    Tester,
    /// The highest load that was to be tried passed.
    Maximum,
    /// Not known.
    Unknown,
}

/// What the same path carries without the DUT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "BaselineFields", into = "BaselineFields")]
pub struct Baseline {
    /// Packets delivered per second.
    pub pps: f64,
    /// Bytes of a frame on the wire, frame check sequence included.
    pub size_wire: u32,
    /// Number of flows.
    pub flows: u64,
    /// Name of the trial that measured it.
    pub trial: String,
}

/// The throughput as it is written. `size`, `pps`, `l1_bps`, `l2_bps` and `tester_limited` are not read back.
#[derive(Serialize, Deserialize)]
struct ThroughputFields {
    size_wire: u32,
    #[serde(skip_deserializing)]
    size: u32,
    flows: u64,
    #[serde(skip_deserializing)]
    pps: Option<u64>,
    #[serde(skip_deserializing)]
    l1_bps: Option<f64>,
    #[serde(skip_deserializing)]
    l2_bps: Option<f64>,
    bounds: Bounds,
    #[serde(deserialize_with = "number::or_null")]
    loss_ratio: f64,
    #[serde(deserialize_with = "number::or_null")]
    resolution: f64,
    duration_ns: u64,
    #[serde(default)]
    confirmations: u32,
    #[serde(default)]
    overturned: u32,
    #[serde(default)]
    irregular: bool,
    limited_by: LimitedBy,
    #[serde(default)]
    baseline_pps: Option<f64>,
    #[serde(skip_deserializing)]
    tester_limited: bool,
    trials: Vec<String>,
}

impl From<Throughput> for ThroughputFields {
    fn from(throughput: Throughput) -> Self {
        let (pps, tester_limited) = (throughput.pps(), throughput.is_tester_limited());
        let Throughput { size_wire, flows, bounds, loss_ratio, resolution, duration_ns, .. } = throughput;
        let Throughput { confirmations, overturned, irregular, limited_by, baseline_pps, trials, .. } = throughput;
        Self {
            size_wire,
            size: size_wire.saturating_sub(FCS_BYTES),
            flows,
            pps,
            l1_bps: pps.map(|pps| l1_bps(pps as f64, size_wire)),
            l2_bps: pps.map(|pps| l2_bps(pps as f64, size_wire)),
            bounds,
            loss_ratio,
            resolution,
            duration_ns,
            confirmations,
            overturned,
            irregular,
            limited_by,
            baseline_pps,
            tester_limited,
            trials,
        }
    }
}

impl From<ThroughputFields> for Throughput {
    fn from(fields: ThroughputFields) -> Self {
        let ThroughputFields { size_wire, flows, bounds, loss_ratio, resolution, duration_ns, .. } = fields;
        let ThroughputFields { confirmations, overturned, irregular, limited_by, baseline_pps, trials, .. } = fields;
        Self {
            size_wire,
            flows,
            bounds,
            loss_ratio,
            resolution,
            duration_ns,
            confirmations,
            overturned,
            irregular,
            limited_by,
            baseline_pps,
            trials,
        }
    }
}

/// The baseline as it is written. `size`, `l1_bps` and `l2_bps` are not read back.
#[derive(Serialize, Deserialize)]
struct BaselineFields {
    #[serde(deserialize_with = "number::or_null")]
    pps: f64,
    #[serde(skip_deserializing)]
    l1_bps: f64,
    #[serde(skip_deserializing)]
    l2_bps: f64,
    size_wire: u32,
    #[serde(skip_deserializing)]
    size: u32,
    flows: u64,
    trial: String,
}

impl From<Baseline> for BaselineFields {
    fn from(baseline: Baseline) -> Self {
        let Baseline { pps, size_wire, flows, trial } = baseline;
        let (l1_bps, l2_bps) = (l1_bps(pps, size_wire), l2_bps(pps, size_wire));
        Self { pps, l1_bps, l2_bps, size_wire, size: size_wire.saturating_sub(FCS_BYTES), flows, trial }
    }
}

impl From<BaselineFields> for Baseline {
    fn from(fields: BaselineFields) -> Self {
        let BaselineFields { pps, size_wire, flows, trial, .. } = fields;
        Self { pps, size_wire, flows, trial }
    }
}
