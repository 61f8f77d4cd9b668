//! The phases of a trial beside the load itself, after RFC 2544 section 23: the device learns, all comes to rest, the load runs,
//! the path drains, the device rests. RFC 2544 waits 2 s, 2 s and 5 s; a path inside one kernel needs far less.

use std::time::Duration;

use linerate_sys::{clock, signal};

/// What surrounds the load of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phases {
    /// Packets before the trial, for a device that learns addresses or keeps state. They are in no count.
    pub learning: Learning,
    /// From the end of learning to the load.
    pub wait_ns: u64,
    /// After the load, the path has drained when no counter has moved for this long (and no packet waits in a ring).
    pub drain_ns: u64,
    /// Longest wait for that; it then is noted.
    pub drain_max_ns: u64,
    /// From then to the end of the trial.
    pub rest_ns: u64,
}

/// Packets before a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Learning {
    /// None: nothing on the path learns, or it has learned before.
    None,
    /// A sweep over all flows of the trial (each direction that has load), in odometer order, whatever the trial's order is: a random
    /// order leaves flows out.
    EachFlow {
        /// Packets of each flow.
        packets: u64,
        /// In packets per second, slow enough that none is lost.
        pps: f64,
    },
}

impl Default for Phases {
    fn default() -> Phases {
        Phases { learning: Learning::None, wait_ns: 0, drain_ns: 30_000_000, drain_max_ns: 2_000_000_000, rest_ns: 0 }
    }
}

impl Phases {
    /// As RFC 2544 section 23 has them, with two learning packets for each flow.
    pub fn rfc2544() -> Phases {
        Phases {
            learning: Learning::EachFlow { packets: 2, pps: 10_000.0 },
            wait_ns: 2_000_000_000,
            drain_ns: 2_000_000_000,
            drain_max_ns: 10_000_000_000,
            rest_ns: 5_000_000_000,
        }
    }

    /// How long no counter moves before the path has drained.
    pub fn quiet(&self) -> Duration {
        Duration::from_nanos(self.drain_ns)
    }

    /// Longest wait for that.
    pub fn quiet_max(&self) -> Duration {
        Duration::from_nanos(self.drain_max_ns.max(self.drain_ns))
    }
}

/// Longest sleep, so that a request to stop is seen.
const NAP_NS: u64 = 50_000_000;

/// Waits, unless the process is asked to stop.
pub fn pause_ns(time_ns: u64) {
    let end_ns = clock::now_ns().saturating_add(time_ns);
    loop {
        let now_ns = clock::now_ns();
        if now_ns >= end_ns || signal::stop_requested() {
            return;
        }
        clock::sleep_until_ns(end_ns.min(now_ns + NAP_NS));
    }
}
