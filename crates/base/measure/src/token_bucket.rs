//! A token bucket: limits tokens a second, and tokens at once.

/// A rate with the burst that it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens (packets or bits) a second.
    pub per_second: u64,
    /// Tokens that can be had at once after a pause.
    pub burst: u64,
}

impl Rate {
    /// A rate with a burst of the tokens of 10 ms, at least one.
    pub fn per_second(per_second: u64) -> Rate {
        Rate { per_second, burst: (per_second / 100).max(1) }
    }
}

/// Tokens in parts of 10^-9, so that a nanosecond brings `per_second` parts.
const PARTS: u128 = 1_000_000_000;

/// Tokens that come at a rate, and are taken by packets. Its owner tells it the time.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: Rate,
    parts: u128,
    filled_ns: u64,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate) -> TokenBucket {
        TokenBucket { rate, parts: u128::from(rate.burst) * PARTS, filled_ns: 0 }
    }

    /// Adds the tokens of the time since the last call, in nanoseconds; it is called once a batch. A time before that of an earlier call
    /// adds nothing.
    #[inline]
    pub fn fill(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.filled_ns);
        self.filled_ns = self.filled_ns.max(now_ns);
        let came = u128::from(passed_ns) * u128::from(self.rate.per_second);
        self.parts = (self.parts + came).min(u128::from(self.rate.burst) * PARTS);
    }

    /// Takes `tokens`. Returns false, and takes none, if there are fewer. More tokens than the burst are taken from a full bucket, which
    /// empties it, because a packet that is longer than the burst would never pass otherwise.
    #[inline]
    pub fn take(&mut self, tokens: u64) -> bool {
        let wanted = u128::from(tokens.min(self.rate.burst)) * PARTS;
        let has = self.parts >= wanted;
        self.parts -= if has { wanted } else { 0 };
        has
    }

    /// Gives back tokens that were taken for a packet that did not pass after all.
    #[inline]
    pub fn give(&mut self, tokens: u64) {
        let back = u128::from(tokens.min(self.rate.burst)) * PARTS;
        self.parts = (self.parts + back).min(u128::from(self.rate.burst) * PARTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_the_rate_over_time_and_the_burst_at_once() {
        let mut bucket = TokenBucket::new(Rate { per_second: 1000, burst: 10 });
        let mut passed = 0;
        for step in 0..10_000u64 {
            bucket.fill(step * 1_000_000);
            passed += (0..5).filter(|_| bucket.take(1)).count();
        }
        // 10 s: the burst, then one packet each millisecond after the first.
        assert_eq!(passed, 10 + 9_999);
    }

    #[test]
    fn time_that_goes_back_brings_nothing_then_or_later() {
        let mut bucket = TokenBucket::new(Rate { per_second: 1000, burst: 1000 });
        bucket.fill(10_000_000);
        assert!(bucket.take(1000));
        for now_ns in [12_000_000, 11_000_000, 12_000_000, 11_000_000, 12_000_000] {
            bucket.fill(now_ns);
        }
        assert!(bucket.take(2) && !bucket.take(1));
    }

    #[test]
    fn odd_rates_lose_nothing_to_rounding() {
        let mut bucket = TokenBucket::new(Rate { per_second: 3, burst: 1 });
        let mut passed = 0;
        for step in 0..7_000_000u64 {
            bucket.fill(step * 1_000);
            passed += u64::from(bucket.take(1));
        }
        assert!((20..=21).contains(&passed), "{passed} in 7 s at 3 a second");
    }

    #[test]
    fn what_is_longer_than_the_burst_passes_when_the_bucket_is_full() {
        let mut bucket = TokenBucket::new(Rate { per_second: 100, burst: 10 });
        assert!(bucket.take(1_000));
        assert!(!bucket.take(1));
        bucket.fill(50_000_000);
        assert!(!bucket.take(1_000) && bucket.take(5));
        bucket.give(5);
        assert!(bucket.take(5));
        bucket.fill(0);
        bucket.fill(u64::MAX);
        assert!(bucket.take(10) && !bucket.take(1));
    }
}
