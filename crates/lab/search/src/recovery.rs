//! System recovery, RFC 2544 section 26.5: how long a device still loses after an overload has been halved.

use crate::{Load, PlanError, Statistics};

/// What to send: an overload, then without a break a load that the device carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadDrop {
    /// 110 % of the throughput, or the maximum where that is lower.
    pub overload: Load,
    /// How long to overload, in nanoseconds. RFC 2544 asks for at least 60 s.
    pub overload_ns: u64,
    /// Half of the overload.
    pub after: Load,
    /// How long to watch after the drop, in nanoseconds.
    pub watch_ns: u64,
}

impl LoadDrop {
    /// Overload and half of it for a device of this throughput, with a tester that reaches `maximum`.
    pub fn of(throughput: Load, maximum: Load, overload_ns: u64, watch_ns: u64) -> Self {
        let overload = Load::from_pps((throughput.pps() as f64 * 1.1) as u64).min(maximum);
        Self { overload, overload_ns, after: Load::from_pps(overload.pps() / 2), watch_ns }
    }

    /// Whether the overload is above the throughput. Where it is not, there is nothing to recover from.
    pub fn is_overload(&self, throughput: Load) -> bool {
        self.overload > throughput
    }
}

/// Packets that were due in a stretch of time, on the clock of the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// Start, in nanoseconds.
    pub from_ns: u64,
    /// End, in nanoseconds.
    pub to_ns: u64,
    /// Packets sent.
    pub sent: u64,
    /// Those of them that never arrived.
    pub lost: u64,
}

/// The procedure as a state machine: the same drop several times.
#[derive(Debug, Clone)]
pub struct Recovery {
    drop: LoadDrop,
    repetitions: u32,
    times_ns: Vec<Option<u64>>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct RecoveryTimes {
    /// Of each repetition, in nanoseconds; `None`: it had not recovered when the watch ended. To the length of a slice.
    pub times_ns: Vec<Option<u64>>,
    /// Over the repetitions that recovered.
    pub statistics: Option<Statistics>,
}

impl Recovery {
    /// Starts the procedure.
    pub fn new(drop: LoadDrop, repetitions: u32) -> Result<Self, PlanError> {
        if drop.after.pps() == 0 || drop.overload_ns == 0 || drop.watch_ns == 0 || repetitions == 0 {
            return Err(PlanError("system recovery needs loads, durations and repetitions of at least 1"));
        }
        Ok(Self { drop, repetitions, times_ns: Vec::new() })
    }

    /// What to send next, or `None` at the end.
    pub fn next(&self) -> Option<LoadDrop> {
        (self.times_ns.len() < self.repetitions as usize).then_some(self.drop)
    }

    /// Takes what was lost when, and when the load was dropped, in nanoseconds.
    pub fn record(&mut self, slices: &[Slice], drop_ns: u64) {
        self.times_ns.push(recovery_ns(slices, drop_ns));
    }

    /// What was found so far.
    pub fn outcome(&self) -> RecoveryTimes {
        let recovered: Vec<f64> = self.times_ns.iter().flatten().map(|time_ns| *time_ns as f64).collect();
        RecoveryTimes { times_ns: self.times_ns.clone(), statistics: Statistics::of(&recovered) }
    }

    /// Measures to the end; `measure` sends and returns what was lost when, and when the load was dropped.
    pub fn run<E>(
        &mut self,
        mut measure: impl FnMut(LoadDrop) -> Result<(Vec<Slice>, u64), E>,
    ) -> Result<RecoveryTimes, E> {
        while let Some(drop) = self.next() {
            let (slices, drop_ns) = measure(drop)?;
            self.record(&slices, drop_ns);
        }
        Ok(self.outcome())
    }
}

/// Time from the drop of the load to the end of the last slice with loss; 0 if nothing was lost after the drop. `None` if no
/// slice without loss follows, or none after the drop is known: then it is not known to have recovered.
pub fn recovery_ns(slices: &[Slice], drop_ns: u64) -> Option<u64> {
    let after = || slices.iter().filter(|slice| slice.to_ns > drop_ns && slice.sent > 0);
    let lossy_end_ns = after().filter(|slice| slice.lost > 0).map(|slice| slice.to_ns).max();
    let clean_end_ns = after().filter(|slice| slice.lost == 0).map(|slice| slice.to_ns).max()?;
    match lossy_end_ns {
        None => Some(0),
        Some(lossy_end_ns) if lossy_end_ns < clean_end_ns => Some(lossy_end_ns - drop_ns),
        Some(_) => None,
    }
}
