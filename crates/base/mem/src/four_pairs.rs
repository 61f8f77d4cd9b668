//! Four keys that are compared with another one at once, each with a value: one line of a hash table.
//!
//! ```text
//! line   | key key key key | value value value value |   64 bytes
//! ```
//! Baseline x86-64 compares words of 32 bits, AVX2 four of 64 at a time in one instruction, so a loop over many lines ([`Pass`]) is compiled twice, and
//! [`compare_widely`] runs the one that the core has, a choice for each loop instead of each key.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use crate::Lines;

/// Four pairs of a key and a value, 64 bits each, in one cache line. Several threads may read while one writes; a key that is being replaced may be read with
/// parts of two, so that who shares the line reads the key that it found again.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct FourPairs {
    keys: [AtomicU64; 4],
    values: [AtomicU64; 4],
}

impl FourPairs {
    /// The key at `at` modulo 4. What was read before is older than this key.
    #[inline]
    pub fn key(&self, at: usize) -> u64 {
        self.keys[at % 4].load(Ordering::Acquire)
    }

    /// The value at `at` modulo 4. What is read afterwards is younger than this value.
    #[inline]
    pub fn value(&self, at: usize) -> u64 {
        self.values[at % 4].load(Ordering::Acquire)
    }

    /// Changes the key at `at` modulo 4.
    #[inline]
    pub fn set_key(&self, at: usize, key: u64) {
        self.keys[at % 4].store(key, Ordering::Release);
    }

    /// Changes the value at `at` modulo 4.
    #[inline]
    pub fn set_value(&self, at: usize, value: u64) {
        self.values[at % 4].store(value, Ordering::Release);
    }

    /// Changes the value at `at` modulo 4 if it is `before`; false if it is another one.
    #[inline]
    pub fn replace_value(&self, at: usize, before: u64, value: u64) -> bool {
        self.values[at % 4].compare_exchange(before, value, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Place of the first key that equals `key`, 0 to 3. Takes no branch that depends on the place, which a core could not foresee.
    #[inline]
    pub fn position(&self, key: u64) -> Option<usize> {
        place_of(self.equal(key))
    }

    /// A bit for each key that equals `key`.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    fn equal(&self, key: u64) -> u32 {
        use core::arch::x86_64::{_mm_cvtsi64_si128, _mm_unpacklo_epi64};
        let equal: u32;
        // SAFETY: SSE2 is part of x86-64. Each comparison reads 16 of the 32 bytes of the keys, which lie at a multiple of 64. The instructions may read keys
        // that another thread writes: x86-64 reads each aligned word of 32 bits as a whole, in the order of the instructions, which is what a relaxed
        // atomic load does or more.
        unsafe {
            let key = _mm_cvtsi64_si128(key as i64);
            let key = _mm_unpacklo_epi64(key, key);
            core::arch::asm!(
                "movdqa {halves}, {first}",
                "pcmpeqd {first}, xmmword ptr [{at}]",
                "pcmpeqd {halves}, xmmword ptr [{at} + 16]",
                "movaps {high}, {first}",
                "shufps {first}, {halves}, 0x88",
                "shufps {high}, {halves}, 0xdd",
                "andps {first}, {high}",
                "movmskps {equal:e}, {first}",
                first = inout(xmm_reg) key => _,
                halves = out(xmm_reg) _,
                high = out(xmm_reg) _,
                at = in(reg) self,
                equal = lateout(reg) equal,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        equal
    }

    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    fn equal(&self, key: u64) -> u32 {
        (0..4).fold(0, |equal, at| equal | u32::from(self.key(at) == key) << at)
    }
}

/// Instructions of some width that compare the keys of a line.
pub trait Compare: Copy {
    /// A value for [`Compare::has`], as often as keys are compared at once.
    type Wide: Copy;

    /// Prepares a value.
    fn wide(self, value: u64) -> Self::Wide;

    /// As [`FourPairs::position`], in the line at a place of a table.
    fn position(self, lines: &Lines<'_, FourPairs>, place: u32, key: u64) -> Option<usize>;

    /// True if the line at a place of a table has a pair of this key and this value, of which only the bits in `mask` count; the others of `value` are zero. Key and value may be
    /// of two times if another thread writes.
    fn has(self, lines: &Lines<'_, FourPairs>, place: u32, key: u64, mask: Self::Wide, value: Self::Wide) -> bool;
}

/// What every core can do.
#[derive(Clone, Copy, Debug)]
pub struct Baseline;

impl Compare for Baseline {
    type Wide = u64;

    #[inline(always)]
    fn wide(self, value: u64) -> u64 {
        value
    }

    #[inline(always)]
    fn position(self, lines: &Lines<'_, FourPairs>, place: u32, key: u64) -> Option<usize> {
        lines.get(place).position(key)
    }

    #[inline(always)]
    fn has(self, lines: &Lines<'_, FourPairs>, place: u32, key: u64, mask: u64, value: u64) -> bool {
        let line = lines.get(place);
        line.position(key).is_some_and(|at| line.value(at) & mask == value)
    }
}

/// A loop that compares keys. Its method, and all functions in it that compare, are to be `#[inline(always)]`, so that they are compiled for the core that
/// they run on.
pub trait Pass {
    /// What the loop tells.
    type Outcome;

    /// Runs the loop.
    fn run<C: Compare>(self, compare: C) -> Self::Outcome;
}

/// Runs a loop with the widest comparisons that this core has.
#[inline]
pub fn compare_widely<P: Pass>(pass: P) -> P::Outcome {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the core has AVX2.
        return unsafe { avx2::run(pass) };
    }
    pass.run(Baseline)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2 {
    use core::arch::asm;
    use core::arch::x86_64::{__m256i, _mm256_cmpeq_epi64, _mm256_set1_epi64x, _mm256_testz_si256};

    use super::{Compare, FourPairs, Pass, place_of};
    use crate::Lines;

    /// Four keys in one instruction. There is one only where [`run`] made it, on a core that has AVX2.
    #[derive(Clone, Copy)]
    struct Avx2(());

    #[target_feature(enable = "avx2")]
    pub(super) fn run<P: Pass>(pass: P) -> P::Outcome {
        pass.run(Avx2(()))
    }

    impl Compare for Avx2 {
        type Wide = __m256i;

        #[inline(always)]
        fn wide(self, value: u64) -> __m256i {
            // SAFETY: the core has AVX2.
            unsafe { wide(value) }
        }

        #[inline(always)]
        fn position(self, lines: &Lines<'_, FourPairs>, place: u32, key: u64) -> Option<usize> {
            // SAFETY: the core has AVX2.
            place_of(unsafe { equal(lines, place, key) })
        }

        #[inline(always)]
        fn has(self, lines: &Lines<'_, FourPairs>, place: u32, key: u64, mask: __m256i, value: __m256i) -> bool {
            // SAFETY: the core has AVX2.
            unsafe { has(lines, place, key, mask, value) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn wide(value: u64) -> __m256i {
        _mm256_set1_epi64x(value as i64)
    }

    /// A bit for each key that equals `key`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn equal(lines: &Lines<'_, FourPairs>, place: u32, key: u64) -> u32 {
        let (first, place) = lines.address(place);
        let equal: u32;
        // SAFETY: the first instruction reads the 32 bytes of the keys. It may read keys that another thread writes: x86-64 reads each aligned word as a
        // whole, and the compiler does not know whose memory is read, so to it this is no access beside the writer's.
        unsafe {
            asm!(
                "vpcmpeqq {keys}, {key}, ymmword ptr [{first} + {place}]",
                "vmovmskpd {equal:e}, {keys}",
                // A register of its own, so that the place is still there for who reads a value.
                equal = out(reg) equal,
                keys = out(ymm_reg) _,
                key = in(ymm_reg) wide(key),
                first = in(reg) first,
                place = in(reg) place,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        equal
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn has(lines: &Lines<'_, FourPairs>, place: u32, key: u64, mask: __m256i, value: __m256i) -> bool {
        let (first, place) = lines.address(place);
        let (equal, masked): (__m256i, __m256i);
        // SAFETY: as in `equal`, of the 32 bytes of the keys and the 32 of the values behind them.
        unsafe {
            asm!(
                "vpcmpeqq {equal}, {key}, ymmword ptr [{first} + {place}]",
                "vpand {masked}, {mask}, ymmword ptr [{first} + {place} + 32]",
                equal = out(ymm_reg) equal,
                masked = lateout(ymm_reg) masked,
                key = in(ymm_reg) wide(key),
                mask = in(ymm_reg) mask,
                first = in(reg) first,
                place = in(reg) place,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        _mm256_testz_si256(equal, _mm256_cmpeq_epi64(masked, value)) == 0
    }
}

/// Place of the lowest of four bits.
#[inline(always)]
fn place_of(bits: u32) -> Option<usize> {
    (bits != 0).then(|| first_bit(bits))
}

/// Place of the lowest of four bits, of which one is set.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn first_bit(bits: u32) -> usize {
    let place: usize;
    // SAFETY: the instruction reads one register and writes one, as a whole (by this name cores without TZCNT take it for BSF, which says the same of what is
    // not zero). Of four bits, the lowest is at a place below 4.
    unsafe {
        core::arch::asm!(
            "rep bsf {place:e}, {bits:e}",
            bits = in(reg) bits,
            place = lateout(reg) place,
            options(pure, nomem, nostack),
        );
        core::hint::assert_unchecked(place < 4);
    }
    place
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn first_bit(bits: u32) -> usize {
    bits.trailing_zeros() as usize % 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a key is, and whether it has a value.
    struct Asked<'a>(&'a FourPairs, u64, u64, u64);

    impl Pass for Asked<'_> {
        type Outcome = (Option<usize>, bool);

        #[inline(always)]
        fn run<C: Compare>(self, compare: C) -> (Option<usize>, bool) {
            let Asked(line, key, mask, value) = self;
            let lines = Lines::new(std::slice::from_ref(line));
            let has = compare.has(&lines, 0, key, compare.wide(mask), compare.wide(value));
            (compare.position(&lines, 0, key), has)
        }
    }

    #[test]
    fn a_key_is_found_where_both_halves_are_equal_by_every_width() {
        let (low, high) = (0x0000_0000_ffff_fffe, 0x7fff_ffff_0000_0000);
        let all = [0, low, high, low | high, 1, 1 << 32, u64::MAX];
        // All of them take the interpreter a minute. Of the first three, each two have one half in common or none.
        let all = if cfg!(miri) { &all[..3] } else { &all[..] };
        for keys in (0..all.len().pow(4)).map(|code| [0, 1, 2, 3].map(|at| all[code / all.len().pow(at) % all.len()])) {
            let four = FourPairs::default();
            keys.iter().enumerate().for_each(|(at, key)| four.set_key(at, *key));
            assert_eq!([0, 1, 2, 3].map(|at| four.key(at)), keys);
            for &key in all {
                let expected = keys.iter().position(|other| *other == key);
                let asked = || Asked(&four, key, u64::MAX, 0);
                assert_eq!(asked().run(Baseline), (expected, expected.is_some()), "{key:#x} in {keys:x?}");
                assert_eq!(compare_widely(asked()), (expected, expected.is_some()), "{key:#x} in {keys:x?}");
            }
        }
    }

    #[test]
    fn a_pair_is_there_only_if_the_value_is_beside_the_key() {
        let four = FourPairs::default();
        // Keys that differ, as in a hash table.
        let (keys, values) = ([7u64, 1 << 63 | 7, 8, 7 << 32], [0x10u64, 0x11, 1 << 63 | 0x10, u64::MAX]);
        for at in 0..4 {
            four.set_key(at, keys[at]);
            four.set_value(at, values[at]);
        }
        for (key, expected) in keys.into_iter().chain([0, 9]).flat_map(|key| values.map(|value| (key, value))) {
            for mask in [u64::MAX, !0xf, 0xf, 1 << 63, 0] {
                let at = keys.iter().position(|other| *other == key);
                let is_there = at.is_some_and(|at| values[at] & mask == expected & mask);
                let asked = || Asked(&four, key, mask, expected & mask);
                assert_eq!(asked().run(Baseline), (at, is_there), "{key:#x} {expected:#x} {mask:#x}");
                assert_eq!(compare_widely(asked()), (at, is_there), "{key:#x} {expected:#x} {mask:#x}");
            }
        }
        assert!(four.replace_value(2, 1 << 63 | 0x10, 5) && !four.replace_value(2, 6, 7));
        assert_eq!(four.value(2), 5);
    }
}
