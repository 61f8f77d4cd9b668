//! `-n` for several receivers: exactly so many packets in all, whichever queue they come in on.
//!
//! A receiver claims packets before it takes them from its port and hands back what did not come, so that the others can have
//! them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Packets that may still be received.
#[derive(Debug)]
pub struct Quota {
    limited: bool,
    unclaimed: AtomicU64,
    missing: AtomicU64,
}

impl Quota {
    /// A quota of `count` packets; 0 = no limit.
    pub fn new(count: u64) -> Quota {
        Quota { limited: count > 0, unclaimed: AtomicU64::new(count), missing: AtomicU64::new(count) }
    }

    /// Claims up to `wanted` packets and returns how many may be taken.
    #[inline]
    pub fn claim(&self, wanted: usize) -> usize {
        if !self.limited {
            return wanted;
        }
        let mut claimed = 0;
        let claim = |left: u64| {
            claimed = left.min(wanted as u64);
            Some(left - claimed)
        };
        // The closure never refuses.
        let _ = self.unclaimed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim);
        claimed as usize
    }

    /// Settles a claim: of `claimed` packets `taken` came.
    #[inline]
    pub fn settle(&self, claimed: usize, taken: usize) {
        if self.limited {
            self.missing.fetch_sub(taken as u64, Ordering::Relaxed);
            self.unclaimed.fetch_add((claimed - taken) as u64, Ordering::Relaxed);
        }
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
        assert_eq!(quota.claim(64), 64);
        assert_eq!(quota.claim(64), 36);
        assert_eq!(quota.claim(64), 0);
        quota.settle(64, 10);
        quota.settle(36, 36);
        assert!(!quota.is_done());
        assert_eq!(quota.claim(64), 54);
        quota.settle(54, 54);
        assert!(quota.is_done());
    }

    #[test]
    fn no_limit_is_never_done() {
        let quota = Quota::new(0);
        assert_eq!(quota.claim(64), 64);
        quota.settle(64, 64);
        assert!(!quota.is_done());
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
                        let claimed = quota.claim(32);
                        let came = claimed.min(7 * thread);
                        taken.fetch_add(came as u64, Ordering::Relaxed);
                        quota.settle(claimed, came);
                    }
                });
            }
        });
        assert_eq!(taken.into_inner(), 100_000);
    }
}
