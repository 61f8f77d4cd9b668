//! `-n` for several receivers: exactly so many packets in all, whichever queue they come in on.

use std::sync::atomic::{AtomicU64, Ordering};

/// Packets that may still be received.
#[derive(Debug)]
pub struct Quota {
    limited: bool,
    missing: AtomicU64,
}

impl Quota {
    /// A quota of `count` packets; 0 = no limit.
    pub fn new(count: u64) -> Quota {
        Quota { limited: count > 0, missing: AtomicU64::new(count) }
    }

    /// Takes up to `wanted` packets from the quota and returns how many it had left.
    #[inline]
    pub fn take(&self, wanted: usize) -> usize {
        if !self.limited {
            return wanted;
        }
        let less = |missing: u64| Some(missing.saturating_sub(wanted as u64));
        // The closure never refuses.
        let before = self.missing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or(0);
        before.min(wanted as u64) as usize
    }

    /// True if there is a limit.
    pub fn is_limited(&self) -> bool {
        self.limited
    }

    /// Packets that it has left; `u64::MAX` without a limit.
    pub fn left(&self) -> u64 {
        if self.limited { self.missing.load(Ordering::Relaxed) } else { u64::MAX }
    }

    /// True when all packets have been taken.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.limited && self.missing.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_as_many_as_there_are() {
        let quota = Quota::new(100);
        assert_eq!((quota.take(64), quota.is_done(), quota.left()), (64, false, 36));
        assert_eq!((quota.take(64), quota.is_done(), quota.left()), (36, true, 0));
        assert_eq!(quota.take(64), 0);
    }

    #[test]
    fn no_limit_is_never_done() {
        let quota = Quota::new(0);
        assert_eq!((quota.take(64), quota.is_done(), quota.left()), (64, false, u64::MAX));
    }

    #[test]
    fn threads_do_not_take_more_than_there_is() {
        let quota = Quota::new(100_000);
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 1..4 {
                let (quota, taken) = (&quota, &taken);
                scope.spawn(move || {
                    while !quota.is_done() {
                        taken.fetch_add(quota.take(7 * thread) as u64, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(taken.into_inner(), 100_000);
    }
}
