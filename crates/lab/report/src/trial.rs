//! One trial: a load for a duration, and what came of it.

use crate::units::{l1_bps, l2_bps};
use crate::{Account, number};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of the frame check sequence, which the size on the wire counts and the size in memory does not.
pub(crate) const FCS_BYTES: u32 = 4;

/// A figure this close to the baseline is the tester's own limit.
const TESTER_LIMIT_SHARE: f64 = 0.95;

/// What a trial was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// The same path without the DUT: what the tester itself can do.
    Baseline,
    /// A step of a search.
    Search,
    /// A trial at the rate that a search found.
    Throughput,
    /// The full rate that the tester can offer.
    Overload,
}

/// One trial. What follows from other fields (sizes, rates, the tester's limit) is computed, never stored from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Trial {
    /// Unique in its document.
    pub name: String,
    /// What it was made for.
    pub purpose: Purpose,
    /// The places that packets pass, in order.
    pub path: Vec<String>,
    /// Bytes of a frame on the wire, frame check sequence included.
    pub size_wire: u32,
    /// Number of flows.
    pub flows: u64,
    /// The intended rate in packets per second.
    #[serde(deserialize_with = "number::or_null")]
    pub load_pps: f64,
    /// How long packets were sent, in nanoseconds; in tests of TCP, how long the trial took, in which connections are set up and closed, too.
    pub duration_ns: u64,
    /// Where every packet went.
    #[serde(flatten)]
    pub account: Account,
    /// One-way latency, where it was measured.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// What the cores did during the trial.
    #[serde(default)]
    pub cpu: Vec<CoreUse>,
    /// The rate of the same path without the DUT, in packets per second.
    #[serde(default)]
    pub baseline_pps: Option<f64>,
    /// What a reader should know.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Trial {
    /// Bytes of a frame without its frame check sequence.
    pub fn size(&self) -> u32 {
        self.size_wire.saturating_sub(FCS_BYTES)
    }

    /// The rates reached, or `None` when nothing was sent for any time.
    pub fn rates(&self) -> Option<Rates> {
        if self.duration_ns == 0 {
            return None;
        }
        let seconds = self.duration_ns as f64 / 1e9;
        let delivered_pps = self.account.delivered() as f64 / seconds;
        Some(Rates {
            sent_pps: self.account.sent() as f64 / seconds,
            delivered_pps,
            l1_bps: l1_bps(delivered_pps, self.size_wire),
            l2_bps: l2_bps(delivered_pps, self.size_wire),
        })
    }

    /// Whether the delivered rate is within 5 % of the baseline, so that the figure is the tester's own limit.
    pub fn is_tester_limited(&self) -> bool {
        let delivered_pps = self.rates().map(|rates| rates.delivered_pps);
        self.purpose != Purpose::Baseline && is_tester_limited(delivered_pps, self.baseline_pps)
    }
}

/// Whether a figure is within 5 % of the baseline, or above it.
pub(crate) fn is_tester_limited(figure_pps: Option<f64>, baseline_pps: Option<f64>) -> bool {
    matches!((figure_pps, baseline_pps), (Some(figure), Some(baseline)) if baseline > 0.0 && figure >= TESTER_LIMIT_SHARE * baseline)
}

/// The rates that a trial reached, over the time in which it sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Packets sent per second.
    pub sent_pps: f64,
    /// Packets delivered per second.
    pub delivered_pps: f64,
    /// Bits delivered per second on the link: frames with preamble, start delimiter and gap, 20 bytes more each.
    pub l1_bps: f64,
    /// Bits delivered per second in frames, frame check sequence included.
    pub l2_bps: f64,
}

/// Latency from the scheduled departure to the arrival, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Packets measured.
    pub samples: u64,
    /// The least.
    pub min_ns: u64,
    /// The mean.
    #[serde(deserialize_with = "number::or_null")]
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// 90 % are at most this.
    pub p90_ns: u64,
    /// 99 % are at most this.
    pub p99_ns: u64,
    /// 99.9 % are at most this.
    pub p999_ns: u64,
    /// 99.99 % are at most this.
    pub p9999_ns: u64,
    /// The greatest.
    pub max_ns: u64,
}

/// Whose timestamps a latency is measured by, and how wrong it may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timestamps {
    /// Whose they are.
    pub kind: TimestampKind,
    /// By how much a latency may be wrong because the clocks of both ends are not one, in nanoseconds; 0 where they are. `None` where a
    /// latency has time in it that nobody knows: in the card and the driver (`kernel`), and in the tester's threads, too (`software`).
    pub error_ns: Option<u64>,
    /// The clock of the sending end and that of the receiving end, for instance `/dev/ptp0 of eth0`.
    #[serde(default)]
    pub clocks: Vec<String>,
    /// The probes that carried them; `None` where each packet of the load has one.
    #[serde(default)]
    pub probes: Option<Probes>,
    /// Why it is no better kind.
    #[serde(default)]
    pub fallback_reason: Option<String>,
}

/// Whose timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimestampKind {
    /// The network cards', as the packet passes their port.
    Hardware,
    /// The kernel's: the driver as it hands the packet to the card, the receive path as it takes it over.
    Kernel,
    /// The tester's: from the scheduled time of sending to the time at which the batch with the packet was received.
    Software,
}

impl TimestampKind {
    /// In files and reports: `hardware`, `kernel`, `software`.
    pub fn word(self) -> &'static str {
        match self {
            TimestampKind::Hardware => "hardware",
            TimestampKind::Kernel => "kernel",
            TimestampKind::Software => "software",
        }
    }
}

/// Packets that were sent beside a load to be timestamped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probes {
    /// How many were sent.
    pub sent: u64,
    /// Did not arrive in time.
    pub lost: u64,
    /// Arrived, but one of the two timestamps did not come in time.
    pub without_timestamp: u64,
    /// Had timestamps that cannot be: before it was sent, long after it was received, or outside the time in which the clocks were read.
    pub rejected: u64,
    /// Timestamps and copies that belong to no probe that was waited for.
    pub strays: u64,
}

impl Probes {
    /// These and others together.
    #[must_use]
    pub fn with(self, other: &Probes) -> Probes {
        let sum = u64::saturating_add;
        Probes {
            sent: sum(self.sent, other.sent),
            lost: sum(self.lost, other.lost),
            without_timestamp: sum(self.without_timestamp, other.without_timestamp),
            rejected: sum(self.rejected, other.rejected),
            strays: sum(self.strays, other.strays),
        }
    }

    /// Those that gave a latency.
    pub fn measured(&self) -> u64 {
        self.sent.saturating_sub(self.lost).saturating_sub(self.without_timestamp).saturating_sub(self.rejected)
    }
}

impl Timestamps {
    /// Of packets that carry the scheduled time of sending; `why` they are no others.
    pub fn software(why: Option<String>) -> Timestamps {
        let kind = TimestampKind::Software;
        Timestamps { kind, error_ns: None, clocks: Vec::new(), probes: None, fallback_reason: why }
    }
}

impl std::fmt::Display for Timestamps {
    /// For people: `hardware timestamps (/dev/ptp0 of eth0, /dev/ptp1 of eth2), error at most 1.20 µs, 198 of 200 probes`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} timestamps", self.kind.word())?;
        if !self.clocks.is_empty() {
            write!(out, " ({})", self.clocks.join(", "))?;
        }
        match self.error_ns {
            Some(0) => out.write_str(", one clock at both ends")?,
            Some(error_ns) => write!(out, ", error at most {}", crate::units::nanoseconds(error_ns as f64))?,
            None => out.write_str(", error not known")?,
        }
        if let Some(probes) = &self.probes {
            write!(out, ", {} of {} probes", crate::units::count(probes.measured()), crate::units::count(probes.sent))?;
            let left_out = [
                (probes.lost, "lost"),
                (probes.without_timestamp, "without a timestamp"),
                (probes.rejected, "with a timestamp that cannot be"),
            ];
            for (count, why) in left_out.into_iter().filter(|(count, _)| *count > 0) {
                write!(out, ", {} {why}", crate::units::count(count))?;
            }
        }
        match &self.fallback_reason {
            Some(why) => write!(out, "; {why}"),
            None => Ok(()),
        }
    }
}

/// What one core did, as shares of the trial's time (0 to 1). NaN where it could not be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoreUse {
    /// Number of the core.
    pub core: u32,
    /// What runs there, for instance `generator` or `DUT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// User code.
    #[serde(deserialize_with = "number::or_null")]
    pub user: f64,
    /// Kernel code on behalf of a thread.
    #[serde(deserialize_with = "number::or_null")]
    pub system: f64,
    /// Soft interrupts: most of the network stack's receive side.
    #[serde(deserialize_with = "number::or_null")]
    pub softirq: f64,
    /// Hard interrupts.
    #[serde(deserialize_with = "number::or_null")]
    pub irq: f64,
    /// Time that the hypervisor gave to somebody else.
    #[serde(deserialize_with = "number::or_null")]
    pub steal: f64,
    /// Nothing to do.
    #[serde(deserialize_with = "number::or_null")]
    pub idle: f64,
}

/// The trial as it is written: with `size`, `rates` and `tester_limited` for readers of the document. They are not read back.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten, with = "Trial")]
    trial: &'a Trial,
    size: u32,
    rates: Option<Rates>,
    tester_limited: bool,
}

impl Serialize for Trial {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (size, rates, tester_limited) = (self.size(), self.rates(), self.is_tester_limited());
        Serialize::serialize(&Written { trial: self, size, rates, tester_limited }, serializer)
    }
}

impl<'de> Deserialize<'de> for Trial {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}
