//! A log-linear histogram of nanoseconds: the HDR layout, with as many buckets for each power of two as its type says.
//!
//! [`Histogram`] has 128 for each power of two: a value is off by at most 1/128 of itself (0.8 %), and below 256 ns each
//! nanosecond has its own bucket. [`CoarseHistogram`] has 32 (3 %), in 8 KiB, for where there are many histograms. Values from
//! 2^36 ns (69 s) on are counted in the last bucket. `record` is a shift, an add and one memory increment, which is what lets
//! the receiver keep it for each packet.

/// Values have at most this many bits; larger ones are counted as the largest.
const VALUE_BITS: u32 = 36;

/// A histogram that is off by at most 0.8 %, in 30 KiB.
pub type Histogram = LogLinear<{ buckets(7) }>;

/// A histogram that is off by at most 3 %, in 8 KiB.
pub type CoarseHistogram = LogLinear<{ buckets(5) }>;

/// Buckets of a histogram with `1 << sub_bits` of them for each power of two.
const fn buckets(sub_bits: u32) -> usize {
    ((VALUE_BITS - sub_bits + 1) as usize) << sub_bits
}

/// Counts of values in nanoseconds; see [`Histogram`] and [`CoarseHistogram`].
#[derive(Clone, Debug)]
pub struct LogLinear<const BUCKETS: usize> {
    counts: Box<[u64; BUCKETS]>,
    total: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl<const BUCKETS: usize> Default for LogLinear<BUCKETS> {
    fn default() -> Self {
        // A zeroed boxed array without a pass over the stack; the length is right by construction.
        let counts: Box<[u64]> = vec![0; BUCKETS].into();
        let counts = counts.try_into().unwrap_or_else(|_| Box::new([0; BUCKETS]));
        LogLinear { counts, total: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl<const BUCKETS: usize> LogLinear<BUCKETS> {
    /// Buckets for each power of two, as a power of two.
    const SUB_BITS: u32 = {
        let mut bits = 0;
        while buckets(bits) != BUCKETS {
            bits += 1;
        }
        bits
    };

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.counts[Self::bucket(value_ns)] += 1;
        self.total += 1;
        self.sum_ns += u128::from(value_ns);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Counts `times` equal values.
    #[inline]
    pub fn record_many(&mut self, value_ns: u64, times: u64) {
        self.counts[Self::bucket(value_ns)] += times;
        self.total += times;
        self.sum_ns += u128::from(value_ns) * u128::from(times);
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Smallest value, exactly; `None` when there is no value.
    pub fn min_ns(&self) -> Option<u64> {
        (self.total > 0).then_some(self.min_ns)
    }

    /// Largest value, exactly.
    pub fn max_ns(&self) -> Option<u64> {
        (self.total > 0).then_some(self.max_ns)
    }

    /// Mean of the values, exactly.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum_ns as f64 / self.total as f64)
    }

    /// The smallest value that at least `percent` of the values do not exceed, to the bucket's upper end.
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let wanted = ((percent / 100.0 * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= wanted {
                return Some(Self::bucket_end_ns(index).min(self.max_ns));
            }
        }
        None
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine += theirs;
        }
        self.total += other.total;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The buckets that hold something: (lowest value, highest value, count).
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let held = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        held.map(|(index, count)| (Self::bucket_start_ns(index), Self::bucket_end_ns(index), *count))
    }

    /// Forgets all values.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    #[inline]
    fn bucket(value_ns: u64) -> usize {
        let value = value_ns.min((1 << VALUE_BITS) - 1);
        // Position of the highest bit above the sub-bucket bits: 0 for values below two times the buckets of a power of two.
        let shift = (63 - (value | (1 << Self::SUB_BITS)).leading_zeros()) - Self::SUB_BITS;
        ((shift as usize) << Self::SUB_BITS) + (value >> shift) as usize
    }

    fn bucket_start_ns(index: usize) -> u64 {
        let shift = (index >> Self::SUB_BITS).saturating_sub(1);
        ((index - (shift << Self::SUB_BITS)) as u64) << shift
    }

    fn bucket_end_ns(index: usize) -> u64 {
        Self::bucket_start_ns(index + 1) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(value in 0u64..1 << VALUE_BITS) {
            lies_in_its_bucket::<{ buckets(7) }>(value, 128);
            lies_in_its_bucket::<{ buckets(5) }>(value, 32);
        }

        #[test]
        fn percentiles_agree_with_sorting(mut values in proptest::collection::vec(0u64..1 << 37, 1..300), percent in 0.0f64..100.0) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.record(*value));
            values.sort_unstable();
            let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let exact = values[rank - 1];
            let found = histogram.percentile_ns(percent).unwrap();
            if exact < 1 << VALUE_BITS {
                prop_assert!(found >= exact && found - exact <= exact / 128, "{found} for {exact}");
            }
            prop_assert_eq!(histogram.max_ns(), values.last().copied());
            prop_assert_eq!(histogram.buckets().map(|(_, _, count)| count).sum::<u64>(), values.len() as u64);
        }
    }

    fn lies_in_its_bucket<const BUCKETS: usize>(value: u64, of_a_power: u64) {
        let index = LogLinear::<BUCKETS>::bucket(value);
        let (start, end) = (LogLinear::<BUCKETS>::bucket_start_ns(index), LogLinear::<BUCKETS>::bucket_end_ns(index));
        assert!(index < BUCKETS && (start..=end).contains(&value) && end - start <= value / of_a_power, "{value}");
    }

    #[test]
    fn is_honest_when_empty() {
        let histogram = Histogram::default();
        assert_eq!((histogram.min_ns(), histogram.percentile_ns(50.0), histogram.mean_ns()), (None, None, None));
    }
}
