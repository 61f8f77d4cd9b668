//! The time of a call, in the units that connections keep.

/// A tick, one millisecond, that stands for "no deadline". A deadline that would fall on it is one tick later.
pub(crate) const NEVER: u32 = 0;

/// The time of one call into the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds of the caller's monotonic clock.
    pub ns: u64,
    /// Microseconds, which wrap after 71 minutes: timestamps of segments, round-trip times.
    pub us: u32,
    /// Milliseconds (ticks), which wrap after 49 days: deadlines, and the clock of the timestamps option.
    pub tick: u32,
}

impl Now {
    /// The time `ns` of the caller's clock.
    #[inline]
    pub const fn new(ns: u64) -> Now {
        Now { ns, us: (ns / 1_000) as u32, tick: (ns / 1_000_000) as u32 }
    }

    /// The deadline in `ms` milliseconds; never 0, which means that there is none.
    #[inline]
    pub const fn in_ms(self, ms: u32) -> u32 {
        let tick = self.tick.wrapping_add(ms);
        if tick == NEVER { 1 } else { tick }
    }

    /// True if `deadline` is one, and has come.
    #[inline]
    pub const fn is_due(self, deadline: u32) -> bool {
        deadline != NEVER && (deadline.wrapping_sub(self.tick) as i32) <= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_wrap_and_none_is_never_due() {
        let now = Now { ns: 0, us: 0, tick: u32::MAX - 1 };
        assert_eq!((now.in_ms(1), now.in_ms(2), now.in_ms(3)), (u32::MAX, 1, 1));
        assert!(!now.is_due(NEVER) && !now.is_due(now.in_ms(1)) && now.is_due(now.tick) && now.is_due(now.tick - 5));
    }
}
