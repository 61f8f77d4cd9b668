//! A log-linear histogram that programs fill and this process reads.
//!
//! Values below 128 have a bucket each; every octave above has 64 buckets, so a bucket is at most
//! 1/64 (1.6 %) wide. Values are ns here; those of 2^36 (69 s) and more count in the last bucket.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::asm::Assembler;
use crate::insn::{Alu, Atomic, Cond, Reg, Width};

/// Buckets of an octave, as a power of two.
const SUB_BITS: u32 = 6;
/// Values have at most this many bits.
const VALUE_BITS: u32 = 36;

/// The number of buckets, each a 64-bit word.
pub const BUCKETS: usize = ((VALUE_BITS - SUB_BITS) as usize + 1) << SUB_BITS;

/// The bucket that counts `value`.
pub fn bucket(value: u64) -> usize {
    let value = value.min((1 << VALUE_BITS) - 1);
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(SUB_BITS + 1);
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// The smallest and the largest value that `bucket` counts.
pub fn bounds(bucket: usize) -> (u64, u64) {
    let bucket = bucket.min(BUCKETS - 1) as u64;
    let shift = (bucket >> SUB_BITS).saturating_sub(1);
    let low = (bucket - (shift << SUB_BITS)) << shift;
    (low, low + (1 << shift) - 1)
}

/// A copy of a histogram's counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    /// Copies the counts, which a program may go on changing.
    pub fn read(words: &[AtomicU64]) -> Histogram {
        let counts = words.iter().take(BUCKETS).map(|word| word.load(Ordering::Relaxed));
        Histogram { counts: counts.collect() }
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The counts of the buckets; see [`bounds`].
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The upper bound of the bucket in which the value of rank `fraction` (0 to 1) lies; none if
    /// nothing was counted.
    pub fn quantile(&self, fraction: f64) -> Option<u64> {
        let total = self.count();
        let rank = ((total as f64 * fraction).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.filter(|_| total > 0).map(|bucket| bounds(bucket).1)
    }
}

/// Counts the unsigned value in `value` in the histogram that starts `base` bytes after the map value
/// in `address`, atomically if `shared`. `value`, `shift` and `address` are lost.
pub(crate) fn emit_count(asm: &mut Assembler, value: Reg, shift: Reg, address: Reg, base: i16, shared: bool) {
    let in_range = asm.label();
    asm.load_imm64(shift, (1 << VALUE_BITS) - 1);
    asm.jump_if(Cond::Le, value, shift, in_range);
    asm.mov64(value, shift);
    asm.bind(in_range);
    asm.mov64(shift, 0);
    for step in [16, 8, 4, 2, 1] {
        let small = asm.label();
        asm.jump_if(Cond::Lt, value, 1 << (SUB_BITS as i32 + step), small);
        asm.alu64(Alu::Rsh, value, step);
        asm.alu64(Alu::Add, shift, step << SUB_BITS);
        asm.bind(small);
    }
    asm.alu64(Alu::Add, value, shift);
    asm.alu64(Alu::Lsh, value, 3);
    asm.alu64(Alu::Add, address, value);
    emit_increment(asm, value, address, base, shared);
}

/// Adds 1 to the word `offset` bytes after `address`, atomically if `shared`; `scratch` is lost.
pub(crate) fn emit_increment(asm: &mut Assembler, scratch: Reg, address: Reg, offset: i16, shared: bool) {
    if shared {
        asm.mov64(scratch, 1);
        asm.atomic(Atomic::Add, Width::Dw, address, offset, scratch);
    } else {
        asm.load(Width::Dw, scratch, address, offset);
        asm.alu64(Alu::Add, scratch, 1);
        asm.store(Width::Dw, address, offset, scratch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_range() {
        let mut next = 0;
        for index in 0..BUCKETS {
            let (low, high) = bounds(index);
            assert_eq!(low, next);
            assert_eq!((bucket(low), bucket(high)), (index, index));
            assert!(high - low <= low / 64);
            next = high + 1;
        }
        assert_eq!(next, 1 << VALUE_BITS);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_ranks() {
        let words: Vec<AtomicU64> = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        assert_eq!(Histogram::read(&words).quantile(0.5), None);
        for value in 1..=100 {
            words[bucket(value)].fetch_add(1, Ordering::Relaxed);
        }
        let histogram = Histogram::read(&words);
        assert_eq!(histogram.count(), 100);
        assert_eq!(histogram.quantile(0.0), Some(1));
        assert_eq!(histogram.quantile(0.5), Some(50));
        assert_eq!(histogram.quantile(0.99), Some(99));
        assert_eq!(histogram.quantile(1.0), Some(100));
    }
}
