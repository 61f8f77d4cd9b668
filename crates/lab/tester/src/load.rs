//! How packets follow each other in one direction of a trial.

use linerate_gen::{Arrival, CatchUp, Schedule};

/// A load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// A constant rate.
    Rate {
        /// Packets per second.
        pps: f64,
        /// How long.
        duration_ns: u64,
    },
    /// As fast as the port takes them.
    Full {
        /// How long.
        duration_ns: u64,
    },
    /// Exactly this many packets back to back, as fast as the port takes them (RFC 9004 section 5.1).
    Burst {
        /// Packets.
        packets: u64,
    },
    /// One rate, then another one without a gap (RFC 2544 section 26.5).
    Step {
        /// First rate in packets per second; `None` = as fast as the port takes them.
        before_pps: Option<f64>,
        /// How long.
        before_ns: u64,
        /// Second rate in packets per second.
        after_pps: f64,
        /// How long.
        after_ns: u64,
    },
}

impl Load {
    /// A rate, or as fast as the port takes them.
    pub fn new(pps: Option<f64>, duration_ns: u64) -> Load {
        match pps {
            Some(pps) => Load::Rate { pps, duration_ns },
            None => Load::Full { duration_ns },
        }
    }

    /// How long it is to last; 0 for a burst, which lasts as long as it takes.
    pub fn duration_ns(&self) -> u64 {
        match self {
            Load::Rate { duration_ns, .. } | Load::Full { duration_ns } => *duration_ns,
            Load::Burst { .. } => 0,
            Load::Step { before_ns, after_ns, .. } => before_ns.saturating_add(*after_ns),
        }
    }

    /// From the start to the change of rate, where there is one.
    pub fn step_ns(&self) -> Option<u64> {
        match self {
            Load::Step { before_ns, .. } => Some(*before_ns),
            _ => None,
        }
    }

    /// The highest rate that it asks for, in packets per second; none where the port decides.
    pub(super) fn highest_pps(&self) -> Option<f64> {
        match *self {
            Load::Rate { pps, .. } => Some(pps),
            Load::Step { before_pps, after_pps, .. } => before_pps.map(|before_pps| before_pps.max(after_pps)),
            Load::Full { .. } | Load::Burst { .. } => None,
        }
    }

    /// Its schedules, one after another.
    pub(super) fn schedules(&self) -> (Schedule, Vec<Schedule>) {
        let constant = |rate_pps, duration_ns| Schedule {
            rate_pps,
            arrival: Arrival::Constant,
            packets: None,
            duration_ns: Some(duration_ns),
            catch_up: CatchUp::Smooth,
        };
        match *self {
            Load::Rate { pps, duration_ns } => (constant(Some(pps), duration_ns), Vec::new()),
            Load::Full { duration_ns } => (constant(None, duration_ns), Vec::new()),
            Load::Burst { packets } => {
                (Schedule { packets: Some(packets), duration_ns: None, ..constant(None, 0) }, Vec::new())
            }
            Load::Step { before_pps, before_ns, after_pps, after_ns } => {
                (constant(before_pps, before_ns), vec![constant(Some(after_pps), after_ns)])
            }
        }
    }

    /// Whether its duration is given by a schedule, and not by how fast the port is.
    pub(super) fn is_paced(&self) -> bool {
        matches!(self, Load::Rate { .. } | Load::Step { .. })
    }
}
