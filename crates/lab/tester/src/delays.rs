//! One-way delays of a trial's packets, from the scheduled time of sending, whichever end counted them.

use std::collections::BTreeMap;

use linerate_bpf::programs::histogram as in_kernel;
use linerate_report::Latency;

/// A histogram of delays. Buckets are at most 0.8 % wide where a thread received the packets, 1.6 % where the counting program did;
/// least, mean and greatest are exact.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delays {
    samples: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
    /// Highest value of each bucket that holds something, and how many it holds.
    buckets: BTreeMap<u64, u64>,
}

impl Delays {
    /// Of a receiving thread.
    pub fn of_thread(histogram: &linerate_gen::Histogram) -> Delays {
        let samples = histogram.count();
        Delays {
            samples,
            sum_ns: (histogram.mean_ns().unwrap_or(0.0) * samples as f64) as u128,
            min_ns: histogram.min_ns().unwrap_or(0),
            max_ns: histogram.max_ns().unwrap_or(0),
            buckets: histogram.buckets().map(|(_, highest_ns, packets)| (highest_ns, packets)).collect(),
        }
    }

    /// Of the counting program; the extremes and the sum are kept beside the buckets.
    pub fn of_program(histogram: &in_kernel::Histogram, times: &linerate_bpf::programs::count_rx::Timeline) -> Delays {
        let held = histogram.counts().iter().enumerate().filter(|(_, packets)| **packets > 0);
        Delays {
            samples: histogram.count(),
            sum_ns: times.latency_sum_ns.into(),
            min_ns: times.latency_min_ns,
            max_ns: times.latency_max_ns,
            buckets: held.map(|(bucket, packets)| (in_kernel::bounds(bucket).1, *packets)).collect(),
        }
    }

    /// Adds the delays of the other direction.
    pub fn merge(&mut self, other: &Delays) {
        if self.samples == 0 || other.samples > 0 && other.min_ns < self.min_ns {
            self.min_ns = other.min_ns;
        }
        self.max_ns = self.max_ns.max(other.max_ns);
        self.samples += other.samples;
        self.sum_ns += other.sum_ns;
        for (highest_ns, packets) in &other.buckets {
            *self.buckets.entry(*highest_ns).or_default() += packets;
        }
    }

    /// Packets measured.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The least delay that at least `percent` of the packets do not exceed, to its bucket's upper end.
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let rank = ((percent / 100.0 * self.samples as f64).ceil() as u64).clamp(1, self.samples.max(1));
        let mut seen = 0;
        let bucket = self.buckets.iter().find(|(_, packets)| {
            seen += **packets;
            seen >= rank
        })?;
        Some((*bucket.0).min(self.max_ns))
    }

    /// The figures that are reported; none without a packet.
    pub fn latency(&self) -> Option<Latency> {
        let at = |percent| self.percentile_ns(percent);
        Some(Latency {
            samples: self.samples,
            min_ns: self.min_ns,
            mean_ns: self.sum_ns as f64 / self.samples as f64,
            p50_ns: at(50.0)?,
            p90_ns: at(90.0)?,
            p99_ns: at(99.0)?,
            p999_ns: at(99.9)?,
            p9999_ns: at(99.99)?,
            max_ns: self.max_ns,
        })
    }

    /// Packet delay variation (RFC 8219 section 7.3.1): the 99.9th percentile less the least delay.
    pub fn variation_ns(&self) -> Option<u64> {
        Some(self.percentile_ns(99.9)?.saturating_sub(self.min_ns))
    }

    /// Upper edges of the buckets that hold something, in nanoseconds and rising, with packets.
    pub fn curve(&self) -> Vec<(u64, u64)> {
        self.buckets.iter().map(|(highest_ns, packets)| (*highest_ns, *packets)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_values() {
        let mut histogram = linerate_gen::Histogram::default();
        (1..=1000).for_each(|value| histogram.record(value * 100));
        let delays = Delays::of_thread(&histogram);
        let latency = delays.latency().expect("values");
        assert_eq!((latency.samples, latency.min_ns, latency.max_ns), (1000, 100, 100_000));
        assert_eq!(latency.p50_ns, histogram.percentile_ns(50.0).expect("values"));
        assert_eq!(latency.p999_ns, histogram.percentile_ns(99.9).expect("values"));
        assert_eq!(delays.variation_ns(), Some(latency.p999_ns - 100));
        assert_eq!(delays.curve().iter().map(|(_, packets)| packets).sum::<u64>(), 1000);
        assert_eq!(Delays::default().latency(), None);
    }

    #[test]
    fn two_directions_are_one_histogram() {
        let [mut one, mut other, mut both] = std::array::from_fn(|_| linerate_gen::Histogram::default());
        for value in 0..500 {
            one.record(value);
            other.record(10_000 + value * 7);
            both.record(value);
            both.record(10_000 + value * 7);
        }
        let mut merged = Delays::default();
        merged.merge(&Delays::of_thread(&one));
        merged.merge(&Delays::of_thread(&other));
        assert_eq!(merged, Delays::of_thread(&both));
    }
}
