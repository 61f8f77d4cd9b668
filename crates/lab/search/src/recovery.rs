//! System recovery, RFC 2544 section 26.5: the loads with which one measures how long a device still loses after an overload was halved.

use crate::Load;

/// What to send: an overload, then without a break a load that the device carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadDrop {
    /// 110 % of the throughput, or the maximum where that is lower.
    pub overload: Load,
    /// Half of the overload.
    pub after: Load,
}

impl LoadDrop {
    /// Overload and half of it for a device of this throughput, with a tester that reaches `maximum`.
    pub fn of(throughput: Load, maximum: Load) -> Self {
        let overload = Load::from_pps((throughput.pps() as f64 * 1.1) as u64).min(maximum);
        Self { overload, after: Load::from_pps(overload.pps() / 2) }
    }

    /// Whether the overload is above the throughput. Where it is not, there is nothing to recover from.
    pub fn is_overload(&self, throughput: Load) -> bool {
        self.overload > throughput
    }
}
