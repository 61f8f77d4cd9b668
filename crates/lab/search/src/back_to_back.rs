//! The longest burst at full rate that loses nothing: RFC 2544 section 26.4 as RFC 9004 updates it.
//!
//! Each repetition searches the burst length of its own, in packets; those after the first begin where the one before ended. Only
//! sizes whose throughput is below the full rate mean anything: elsewhere any burst passes, see [`buffer_time`].

use crate::{PlanError, Statistics};

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The longest burst tried, in packets. RFC 2544 asks for bursts of at least 2 s.
    pub burst_max: u64,
    /// A repetition ends when the longest burst that passed and the shortest that failed are so close, in packets. At least 1.
    pub step: u64,
    /// How often it is measured. RFC 2544 asks for 50.
    pub repetitions: u32,
}

/// The procedure as a state machine.
#[derive(Debug, Clone)]
pub struct BackToBack {
    settings: Settings,
    found: Vec<u64>,
    /// The repetition at work.
    passed: Option<u64>,
    failed: Option<u64>,
    stride: u64,
    bursts: Vec<Burst>,
}

/// One burst and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Packets sent.
    pub packets: u64,
    /// Packets not delivered.
    pub lost: u64,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Bursts {
    /// Longest burst without loss of each repetition, in packets; 0 where one packet alone was lost.
    pub longest: Vec<u64>,
    /// Over the repetitions. `None` before the first ended.
    pub statistics: Option<Statistics>,
    /// Whether a repetition passed the longest burst tried: the buffer may hold more.
    pub at_maximum: bool,
    /// Every burst, in order.
    pub bursts: Vec<Burst>,
}

impl BackToBack {
    /// Starts the procedure.
    pub fn new(settings: Settings) -> Result<Self, PlanError> {
        if settings.burst_max == 0 || settings.step == 0 || settings.repetitions == 0 {
            return Err(PlanError("back-to-back needs a longest burst, a step and repetitions of at least 1"));
        }
        let stride = settings.step;
        Ok(Self { settings, found: Vec::new(), passed: None, failed: None, stride, bursts: Vec::new() })
    }

    /// Packets of the burst to send next, or `None` at the end.
    pub fn next(&self) -> Option<u64> {
        if self.found.len() >= self.settings.repetitions as usize {
            return None;
        }
        let Settings { burst_max, .. } = self.settings;
        let next = match (self.passed, self.failed) {
            (None, None) => self.found.last().copied().unwrap_or(burst_max).max(1),
            (Some(passed), None) => passed.saturating_add(self.stride).min(burst_max),
            // The first repetition knows no neighbourhood and halves from the start.
            (None, Some(failed)) if self.found.is_empty() => failed / 2,
            (None, Some(failed)) => failed.saturating_sub(self.stride).max(1),
            (Some(passed), Some(failed)) => passed + (failed - passed) / 2,
        };
        Some(next)
    }

    /// Takes what became of the burst that was asked for.
    ///
    /// # Errors
    /// A burst of another length, or with more lost than sent, is refused and nothing changes.
    pub fn record(&mut self, burst: Burst) -> Result<(), PlanError> {
        if Some(burst.packets) != self.next() || burst.lost > burst.packets {
            return Err(PlanError("this is not the burst that was asked for"));
        }
        self.bursts.push(burst);
        if self.passed.is_some() != self.failed.is_some() {
            self.stride = self.stride.saturating_mul(2);
        }
        *(if burst.lost == 0 { &mut self.passed } else { &mut self.failed }) = Some(burst.packets);
        self.end_repetition();
        Ok(())
    }

    /// What was found so far.
    pub fn outcome(&self) -> Bursts {
        let values: Vec<f64> = self.found.iter().map(|packets| *packets as f64).collect();
        Bursts {
            longest: self.found.clone(),
            statistics: Statistics::of(&values),
            at_maximum: self.found.contains(&self.settings.burst_max),
            bursts: self.bursts.clone(),
        }
    }

    fn end_repetition(&mut self) {
        let Settings { burst_max, step, .. } = self.settings;
        let longest = match (self.passed, self.failed) {
            (Some(passed), Some(failed)) if failed - passed <= step => passed,
            (Some(passed), None) if passed >= burst_max => passed,
            (None, Some(1)) => 0,
            _ => return,
        };
        self.found.push(longest);
        (self.passed, self.failed, self.stride) = (None, None, step);
    }
}

/// How long a device's buffer lasts at full rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BufferTime {
    /// Burst over full rate, in seconds.
    pub implied_seconds: f64,
    /// Without what the device forwarded while the burst came in: `implied x (1 - throughput / full rate)`, in seconds.
    pub corrected_seconds: f64,
}

/// The buffer of RFC 9004: `burst` in packets (the mean of the repetitions), rates in packets per second. `None` where the
/// throughput is the full rate (or more): then a burst says nothing of a buffer.
pub fn buffer_time(burst: f64, full_rate_pps: f64, throughput_pps: f64) -> Option<BufferTime> {
    let is_meaningful = burst >= 0.0 && throughput_pps >= 0.0 && throughput_pps < full_rate_pps;
    is_meaningful.then(|| {
        let implied_seconds = burst / full_rate_pps;
        BufferTime { implied_seconds, corrected_seconds: implied_seconds * (1.0 - throughput_pps / full_rate_pps) }
    })
}
