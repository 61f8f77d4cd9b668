//! The document of an experiment: every cell of its matrix, what each test found there, and the trials behind it.

use crate::{CoreUse, Dut, Environment, Goal, Latency, Timestamp, Timestamps, Tool, Trial, number};
use serde::{Deserialize, Serialize};

/// Name and version of the format. Fields may be added within a version; none is removed or changes its meaning.
pub const EXPERIMENT_SCHEMA: &str = "linerate.experiment-result/1";

/// The name in [`ExperimentTrial::dut_counters`] of the packets that a switch's flow entries counted.
pub const FLOW_MATCHES: &str = "matched by flow entries";

/// What an experiment found. Written anew after every trial, so it may be incomplete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`EXPERIMENT_SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub name: String,
    /// The experiment's title.
    pub title: String,
    /// What it is about.
    #[serde(default)]
    pub about: String,
    /// The experiment file, whole: a run is resumed only with the same one.
    pub file: String,
    /// What measured.
    pub tool: Tool,
    /// When the run began.
    pub started: Timestamp,
    /// When the last trial ended.
    pub ended: Timestamp,
    /// Whether every test of every cell was made.
    pub complete: bool,
    /// In the order of the matrix.
    pub cells: Vec<Cell>,
    /// Where it was measured.
    pub environment: Environment,
    /// What makes the result doubtful.
    pub warnings: Vec<String>,
    /// The rates with the bounds that are stated of them, and what these are made of; `None` where no rate was measured, or not all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<StatedBounds>,
    /// Of captures: the best setting for the host, by which rule, and how sure that is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recommendation: Vec<String>,
}

/// One combination of the matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Unique and stable: `snat/64/10000/both-ways`.
    pub id: String,
    /// Name of the DUT in the experiment.
    pub dut_name: String,
    /// What the DUT was.
    pub dut: Dut,
    /// Label of the frame size on the wire; empty in tests of TCP, which makes the packets itself.
    pub size: String,
    /// Mean bytes of a frame on the wire; 0 in tests of TCP.
    #[serde(deserialize_with = "number::or_null")]
    pub size_wire: f64,
    /// Number of flows in each direction.
    pub flows: u64,
    /// The versions of IP of the flows: `IPv6`, `IPv4 and IPv6`; none where they are of IPv4 alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// In words: `100 sources x 100 destinations, odometer`.
    pub flow_pattern: String,
    /// `one way` or `both ways`; of a capture `one port` or `two ports`; empty in tests of TCP.
    pub direction: String,
    /// The tester's ports, where they are a dimension of the matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<String>,
    /// Name of the placement on cores, where that is a dimension of the matrix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<String>,
    /// Where the DUT worked, in words, and which threads share a core.
    pub mode: String,
    /// Rate of the same path without the DUT, in packets per second, both directions together.
    pub baseline_pps: Option<f64>,
    /// One for each test and repetition.
    pub findings: Vec<Finding>,
    /// Published figures for this cell.
    #[serde(default)]
    pub published: Vec<PublishedRow>,
}

/// What one test found in one repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Which test of the experiment: `throughput`, `latency`, as [`TestResult`] names them.
    #[serde(default)]
    pub test: String,
    /// From 1.
    pub repetition: u32,
    /// The result; `None`: it could not be measured, and `error` says why; with neither the run was stopped within it.
    pub result: Option<TestResult>,
    /// Why nothing could be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The limits that the experiment sets on its figures, met or missed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<Goal>,
    /// The trials behind it, in order, with those that were made again.
    pub trials: Vec<ExperimentTrial>,
}

impl Finding {
    /// The trials that count: what it found stands on these.
    pub fn used_trials(&self) -> impl DoubleEndedIterator<Item = &ExperimentTrial> + Clone {
        self.trials.iter().filter(|made| made.not_used.is_none())
    }
}

/// A trial with what surrounds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentTrial {
    /// Load, account, latency and cores. With both ways, the sum of the two directions.
    pub trial: Trial,
    /// What the machine did meanwhile. In the document its fields stand beside `trial`.
    #[serde(flatten)]
    pub machine: Machine,
    /// Counters of the DUT's own that moved, by name.
    #[serde(default)]
    pub dut_counters: std::collections::BTreeMap<String, u64>,
    /// Why no search and no figure uses it: it was made again. `None`: it counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_used: Option<String>,
}

/// What the machine did during a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// How undisturbed the trial was.
    pub noise: Noise,
    /// When cores were away, by whom, and what was lost meanwhile.
    #[serde(default)]
    pub stalls: crate::Stalls,
    /// Cycles and instructions of the tester's sending threads and of the DUT, where the machine counts them.
    #[serde(default)]
    pub work: Vec<Work>,
}

/// What a part of the path cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// `generator`, `DUT`, `core 1`.
    pub of: String,
    /// Cycles for each packet delivered.
    pub cycles_per_packet: Option<f64>,
    /// Instructions for each packet delivered.
    pub instructions_per_packet: Option<f64>,
}

/// What disturbed a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Share of the cores' time that the hypervisor took, 0 to 1.
    #[serde(deserialize_with = "number::or_null")]
    pub steal_share: f64,
    /// Longest time for which others than the tester and the DUT kept one of their cores, in nanoseconds.
    pub gap_max_ns: u64,
    /// How often the sending thread lost its core to another thread.
    #[serde(default)]
    pub preempted: u64,
    /// How long the sending thread was ready and had no core, in nanoseconds; `None` where the kernel does not say.
    #[serde(default)]
    pub waited_ns: Option<u64>,
    /// Round trip of a cache line between the cores of generator and DUT just before the trial, in nanoseconds.
    #[serde(default)]
    pub cache_line_ns: Option<f64>,
    /// Time of a fixed loop on the generator's core just before the trial, in nanoseconds: how fast the core worked then.
    #[serde(default)]
    pub generator_pace_ns: Option<f64>,
    /// The same of the DUT's core, at the same time; `None` where they share a core.
    #[serde(default)]
    pub dut_pace_ns: Option<f64>,
    /// Whether a limit of the experiment was exceeded.
    pub disturbed: bool,
    /// How many disturbed trials at this load were made again before this one. They are kept, and not used.
    pub repeated: u32,
}

/// What a test found. Rates are packets per second of both directions together; ratios are 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "test", rename_all = "kebab-case")]
pub enum TestResult {
    /// One for each goal.
    Throughput {
        /// In the order of the goals.
        goals: Vec<GoalFound>,
    },
    /// The rate delivered under overload, in several short trials.
    Capacity {
        /// Packets per second delivered, by trial.
        delivered_pps: Vec<f64>,
        /// Packets per second sent, by trial.
        sent_pps: Vec<f64>,
    },
    /// The highest of a few loads that one trial carried without losing a single packet.
    NoLoss {
        /// Packets per second; `None`: every load that was tried lost packets.
        pps: Option<f64>,
        /// How long each trial sent, in nanoseconds.
        duration_ns: u64,
        /// The loads in the order of trying, with what they lost.
        points: Vec<LossPoint>,
        /// Where no load passed: why not, and what it would take.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// Latency at several loads.
    Latency {
        /// In the order of the loads.
        points: Vec<LatencyPoint>,
    },
    /// Loss at several loads.
    FrameLoss {
        /// In the order of measuring.
        points: Vec<LossPoint>,
    },
    /// Longest bursts without loss.
    BackToBack {
        /// Packets of each repetition's burst.
        bursts: Vec<u64>,
        /// Rate of sending, in packets per second.
        #[serde(deserialize_with = "number::or_null")]
        sent_pps: f64,
        /// Rate at which the DUT empties its buffer: its throughput, where it was found before.
        throughput_pps: Option<f64>,
        /// Buffer, as time at full rate, by RFC 9004's correction; needs the throughput.
        buffer_seconds: Option<f64>,
        /// Whether the longest burst tried passed.
        at_maximum: bool,
    },
    /// Time from the drop of the load until nothing more was lost.
    SystemRecovery {
        /// Nanoseconds; `None`: it did not recover while watched.
        recovery_ns: Option<u64>,
        /// The overload, in packets per second.
        #[serde(deserialize_with = "number::or_null")]
        overload_pps: f64,
        /// The load after it.
        #[serde(deserialize_with = "number::or_null")]
        after_pps: f64,
    },
    /// Time without packets across a reset.
    Reset {
        /// What was done to the device.
        how: String,
        /// Nanoseconds between the last packet before and the first after; `None`: it did not come back.
        outage_ns: Option<u64>,
        /// Nanoseconds by RFC 6201's count: lost packets over their rate.
        outage_by_loss_ns: u64,
    },
    /// One long trial.
    Soak {
        /// Load in packets per second.
        #[serde(deserialize_with = "number::or_null")]
        load_pps: f64,
        /// Share of packets lost.
        #[serde(deserialize_with = "number::or_null")]
        loss_ratio: f64,
    },
    /// Highest rate delivered.
    MaxForwardingRate {
        /// Packets per second delivered.
        #[serde(deserialize_with = "number::or_null")]
        pps: f64,
        /// The load under which it was delivered.
        #[serde(deserialize_with = "number::or_null")]
        load_pps: f64,
    },
    /// A capture under several loads.
    Capture {
        /// In the order of the loads, rising.
        points: Vec<crate::CapturePoint>,
    },
    /// Round trips of echo requests, one after the other.
    Ping {
        /// Requests that were sent.
        sent: u64,
        /// From one request to the next, in nanoseconds.
        interval_ns: u64,
        /// Round trips of those that were answered; `None`: none was.
        rtt: Option<Latency>,
    },
    /// The most connections a second that all succeed.
    ConnectionRate(SessionsFound),
    /// The most connections at a time that all succeed.
    ConcurrentConnections(SessionsFound),
    /// The most requests a second that all succeed.
    RequestRate(SessionsFound),
    /// Echoes of single bytes between two stacks, over connections that stand.
    TcpEcho(crate::EchoesFound),
    /// UDP datagrams sent back and forth between two stacks.
    UdpLoop(crate::UdpFound),
    /// One trial at a given load.
    Load {
        /// Packets per second sent.
        #[serde(deserialize_with = "number::or_null")]
        sent_pps: f64,
        /// Packets per second delivered.
        #[serde(deserialize_with = "number::or_null")]
        delivered_pps: f64,
    },
}

/// The highest load at which all connections, or all requests, succeed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionsFound {
    /// That load; `None`: something failed at every load that was tried.
    pub highest: Option<f64>,
    /// The lowest load above it at which something failed.
    pub fails_at: Option<f64>,
    /// Whether the tester could not begin more.
    pub tester_limited: bool,
    /// The loads in the order of trying.
    pub points: Vec<crate::SessionPoint>,
}

/// What a search found for one goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoalFound {
    /// `NDR`, `PDR`.
    pub name: String,
    /// Largest share of lost packets that passes.
    #[serde(deserialize_with = "number::or_null")]
    pub loss_ratio: f64,
    /// Exceed ratio of RFC 9971; 0 for a strict search.
    #[serde(deserialize_with = "number::or_null")]
    pub exceed_ratio: f64,
    /// Relevant lower bound in packets per second: the figure to report.
    pub lower_pps: Option<f64>,
    /// Relevant upper bound.
    pub upper_pps: Option<f64>,
    /// Conditional throughput of RFC 9971 at the lower bound.
    pub conditional_pps: Option<f64>,
    /// Relative width that was asked for.
    #[serde(deserialize_with = "number::or_null")]
    pub width: f64,
    /// Whether a higher load passed above a failing one.
    pub irregular: bool,
    /// `loss`, `tester`, `maximum`, `unknown`.
    pub limited_by: LimitedBy,
    /// Within 5 % of the baseline, so the tester's own limit.
    pub tester_limited: bool,
    /// Why the search for this goal ended.
    pub stop: SearchStop,
    /// How often a failing trial is repeated before it counts; one pass then outweighs the failures before it. 0 in an MLRsearch, whose
    /// exceed ratio says what a single trial counts.
    pub confirmations: u32,
    /// Failing trials that a repetition overturned.
    pub overturned: u32,
    /// Whether packets that were lost in interruptions are left out.
    pub outside_interruptions: bool,
    /// What the same trials say with those losses counted, where that makes a difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_interruptions: Option<GoalBounds>,
}

/// Bounds of a rate, in packets per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GoalBounds {
    /// The highest load that passed below all that failed; `None`: no load passed.
    pub lower_pps: Option<f64>,
    /// The lowest load that failed.
    pub upper_pps: Option<f64>,
}

/// What the bounds of a run's rates are made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatedBounds {
    /// By which share the fixed loop moved: between the slowest and the fastest finding, each by its median trial, on the core where it moved most;
    /// `None` where it was not timed, or there is one finding only.
    pub loop_moved: Option<f64>,
    /// Shortest and longest round trip of a cache line between the cores, in nanoseconds; `None` where they share one.
    pub cache_line_ns: Option<[f64; 2]>,
    /// Whether the machine kept its pace: by both.
    pub kept_pace: bool,
    /// In the order of the cells.
    pub rates: Vec<RateBounds>,
}

/// A rate with its bounds, in packets per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RateBounds {
    /// Id of the cell.
    pub cell: String,
    /// `capacity`, or the name of a goal: `NDR`.
    pub figure: String,
    /// Median of the repetitions; each counts with the median of its trials where it is a capacity.
    #[serde(deserialize_with = "number::or_null")]
    pub pps: f64,
    /// The bounds that are stated.
    #[serde(deserialize_with = "number::or_null")]
    pub lower_pps: f64,
    /// See `lower_pps`.
    #[serde(deserialize_with = "number::or_null")]
    pub upper_pps: f64,
    /// First part: those of all repetitions.
    pub spread: GoalBounds,
    /// Second part: the repetitions restated for the slowest and the fastest moment; `None` where the machine kept its pace, or nothing was
    /// measured under overload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<GoalBounds>,
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchStop {
    /// The bounds are as close as was asked for: a Regular Goal Result of RFC 9971.
    Resolved,
    /// The highest load that was to be tried passed.
    MaximumPassed,
    /// The lowest load that was to be tried failed.
    MinimumFailed,
    /// The trials or the time that the search had were used up before.
    UsedUp,
}

/// What keeps a rate from being higher.
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

/// Latency at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyPoint {
    /// Share of the throughput.
    #[serde(deserialize_with = "number::or_null")]
    pub share: f64,
    /// Load in packets per second.
    #[serde(deserialize_with = "number::or_null")]
    pub load_pps: f64,
    /// Percentiles: from the scheduled time of sending, or of probes beside the load, as `timestamps` says. Those of the trial are always
    /// from the scheduled time.
    pub latency: Option<Latency>,
    /// Whose timestamps, and their error; `None` in results of older versions, which are `software`.
    #[serde(default)]
    pub timestamps: Option<Timestamps>,
    /// Upper edges of the histogram's buckets in nanoseconds, with packets: for the curve.
    #[serde(default)]
    pub histogram: Vec<(u64, u64)>,
    /// Packet delay variation of RFC 8219 section 7.3: the 99.9th percentile less the least delay, in nanoseconds.
    pub pdv_ns: Option<u64>,
}

/// Loss at one load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossPoint {
    /// Load in packets per second.
    #[serde(deserialize_with = "number::or_null")]
    pub load_pps: f64,
    /// Sent, in packets per second.
    #[serde(deserialize_with = "number::or_null")]
    pub sent_pps: f64,
    /// Delivered, in packets per second.
    #[serde(deserialize_with = "number::or_null")]
    pub delivered_pps: f64,
    /// Share of sent packets lost.
    #[serde(deserialize_with = "number::or_null")]
    pub loss_ratio: f64,
}

/// A published figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedRow {
    /// Where: name and year.
    pub source: String,
    /// Which figure: `throughput`, `rate`, `cores`, `capture-ratio`, `idle`, `ping`, `echoes`, `udp-cycles`.
    pub what: String,
    /// Its value; packets per second for rates, nanoseconds for round trips.
    pub value: Option<f64>,
    /// Its value for each GHz of the clock of the cores that it was measured on, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_ghz: Option<f64>,
    /// As it was printed.
    pub text: String,
}

impl ExperimentTrial {
    /// Cores that were busy for 95 % of the time or more, as reports of routers count them.
    pub fn cores_full(&self) -> usize {
        self.trial.cpu.iter().filter(|core| is_full(core)).count()
    }
}

fn is_full(core: &CoreUse) -> bool {
    core.idle <= 0.05
}
