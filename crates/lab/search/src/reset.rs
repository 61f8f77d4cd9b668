//! Reset, RFC 2544 section 26.6 and RFC 6201: how long a device does not forward when it is reset under load.

use crate::{PlanError, Statistics};

/// What was seen of one reset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Rate at which packets were sent all the time, in packets per second.
    pub sent_pps: f64,
    /// Packets that never arrived.
    pub lost: u64,
    /// When the last packet before the outage arrived and the first after it, in nanoseconds; `None`: it did not come back.
    pub arrivals_ns: Option<(u64, u64)>,
}

/// The reset time by both methods of RFC 6201.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResetTime {
    /// Timestamp method: from the last packet before to the first after, in nanoseconds. `None`: it did not come back.
    pub by_arrivals_ns: Option<u64>,
    /// Frame-loss method: packets lost over the rate of sending, in nanoseconds.
    pub by_loss_ns: u64,
}

/// The procedure as a state machine: the same reset several times.
#[derive(Debug, Clone)]
pub struct Reset {
    repetitions: u32,
    times: Vec<ResetTime>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct ResetTimes {
    /// Of each repetition.
    pub times: Vec<ResetTime>,
    /// By the timestamp method, over the repetitions that came back, in nanoseconds.
    pub by_arrivals: Option<Statistics>,
    /// By the frame-loss method, in nanoseconds.
    pub by_loss: Option<Statistics>,
}

impl Reset {
    /// Starts the procedure.
    pub fn new(repetitions: u32) -> Result<Self, PlanError> {
        if repetitions == 0 {
            return Err(PlanError("a reset needs at least 1 repetition"));
        }
        Ok(Self { repetitions, times: Vec::new() })
    }

    /// Number of the next repetition, from 1, or `None` at the end.
    pub fn next(&self) -> Option<u32> {
        let next = self.times.len() as u32 + 1;
        (next <= self.repetitions).then_some(next)
    }

    /// Takes what was seen.
    ///
    /// # Errors
    /// An observation whose rate is not above 0, or whose arrivals are out of order, is refused and nothing changes.
    pub fn record(&mut self, observation: Observation) -> Result<(), PlanError> {
        let Observation { sent_pps, lost, arrivals_ns } = observation;
        let is_ordered = arrivals_ns.is_none_or(|(last_ns, first_ns)| last_ns <= first_ns);
        if !(sent_pps > 0.0 && sent_pps.is_finite() && is_ordered) {
            return Err(PlanError("a reset needs a rate above 0 and arrivals in order"));
        }
        self.times.push(ResetTime {
            by_arrivals_ns: arrivals_ns.map(|(last_ns, first_ns)| first_ns - last_ns),
            by_loss_ns: (lost as f64 / sent_pps * 1e9).round() as u64,
        });
        Ok(())
    }

    /// What was found so far.
    pub fn outcome(&self) -> ResetTimes {
        let values =
            |times: &mut dyn Iterator<Item = u64>| Statistics::of(&times.map(|ns| ns as f64).collect::<Vec<_>>());
        ResetTimes {
            times: self.times.clone(),
            by_arrivals: values(&mut self.times.iter().filter_map(|time| time.by_arrivals_ns)),
            by_loss: values(&mut self.times.iter().map(|time| time.by_loss_ns)),
        }
    }

    /// Measures to the end; `measure` resets the device under load, given the number of the repetition.
    pub fn run<E>(
        &mut self,
        mut measure: impl FnMut(u32) -> Result<Observation, E>,
    ) -> Result<ResetTimes, ResetError<E>> {
        while let Some(number) = self.next() {
            let observation = measure(number).map_err(ResetError::Measure)?;
            self.record(observation).map_err(ResetError::Observation)?;
        }
        Ok(self.outcome())
    }
}

/// Why the resets could not be measured to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResetError<E> {
    /// A reset could not be measured.
    Measure(E),
    /// What came back cannot be of one reset.
    Observation(PlanError),
}

impl<E: std::fmt::Display> std::fmt::Display for ResetError<E> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Measure(error) => write!(formatter, "a reset could not be measured: {error}"),
            Self::Observation(error) => write!(formatter, "{error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for ResetError<E> {}

/// The arrivals on both sides of the longest gap that ends after the reset began: what [`Observation::arrivals_ns`] wants.
/// Arrivals ascend. `None` if none follows the reset or none precedes it.
pub fn around_outage(arrivals_ns: impl IntoIterator<Item = u64>, reset_ns: u64) -> Option<(u64, u64)> {
    let mut previous_ns = None;
    let mut longest: Option<(u64, u64)> = None;
    for arrival_ns in arrivals_ns {
        if let Some(previous_ns) = previous_ns.filter(|_| arrival_ns >= reset_ns) {
            let gap_ns = arrival_ns.saturating_sub(previous_ns);
            if longest.is_none_or(|(from_ns, to_ns)| gap_ns > to_ns - from_ns) {
                longest = Some((previous_ns, arrival_ns.max(previous_ns)));
            }
        }
        previous_ns = Some(arrival_ns);
    }
    longest
}
