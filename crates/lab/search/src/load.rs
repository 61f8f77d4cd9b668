//! A load: the rate at which frames are to be sent, in whole packets per second.

use std::fmt;

/// An intended rate in packets per second. Whole packets: no search asks for a resolution below 1 pps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Load(u64);

impl Load {
    /// A load of `pps` packets per second.
    pub const fn from_pps(pps: u64) -> Self {
        Self(pps)
    }

    /// Packets per second.
    pub const fn pps(self) -> u64 {
        self.0
    }

    /// The load at the geometric middle of two, at least 1 pps inside both when they are 2 pps or more apart.
    ///
    /// The geometric middle halves the *ratio* of the bounds, and the goal's resolution is a ratio: so the number of steps
    /// depends only on `log(maximum / minimum)`. An arithmetic middle spends most of its steps near the maximum: a rate at a
    /// thousandth of the maximum costs it ten more trials.
    pub(crate) fn middle(lower: Self, upper: Self) -> Self {
        let middle = ((lower.0 as f64).sqrt() * (upper.0 as f64).sqrt()).round() as u64;
        Self(middle.clamp(lower.0.saturating_add(1), upper.0.saturating_sub(1).max(lower.0.saturating_add(1))))
    }
}

impl fmt::Display for Load {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} pps", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_is_geometric_and_strictly_inside() {
        assert_eq!(Load::middle(Load(100), Load(10_000)), Load(1_000));
        assert_eq!(Load::middle(Load(7), Load(9)), Load(8));
        let near_the_top = Load::middle(Load(u64::MAX - 2), Load(u64::MAX));
        assert!(near_the_top.0 > u64::MAX - 2);
    }
}
