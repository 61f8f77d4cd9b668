//! Eight tuples at a time: their hashes of a key, and which of their filters let it pass, in the lanes of vectors (AVX2) and without a branch.
//!
//! A word that all eight compare under the same mask is hashed once a key; the others make columns, with a mask and a secret for each tuple.
//! A tuple that does not compare a column's word has zeroes there, which add nothing to its hash.
#![allow(unsafe_code)]

use super::hash::Hashing;
use super::tuple::{Part, Tuple};
use crate::key::{BATCH, FIRST, Key, WORDS};

/// Tuples of a block.
pub(crate) const BLOCK: usize = 8;

/// Up to eight tuples that follow one another.
#[repr(C, align(64))]
pub(crate) struct Block {
    /// Where the words of the tuples' filters lie, and which bits of a hash choose one of them. The tuples keep the filters.
    filters: [u64; BLOCK],
    chosen: [u64; BLOCK],
    /// A bit for each tuple.
    tuples: u8,
    common: Vec<Part>,
    /// Of words in the first line of keys, and of others.
    columns: Vec<Column>,
    more_columns: Vec<Column>,
}

/// A word under a mask for each tuple.
#[repr(C, align(64))]
struct Column {
    masks: [u64; BLOCK],
    secrets: [u64; BLOCK],
    word: u8,
}

/// What a block says of the keys of a batch, by lane.
pub(crate) struct Answers {
    /// A bit for each tuple of the block that may match.
    pub(crate) passed: [u8; BATCH],
    pub(crate) hashes: Box<[[u64; BLOCK]; BATCH]>,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers { passed: [0; BATCH], hashes: Box::new([[0; BLOCK]; BATCH]) }
    }
}

impl Block {
    /// The blocks of all tuples.
    pub(crate) fn all(tuples: &[Tuple]) -> Vec<Block> {
        tuples.chunks(BLOCK).map(Block::new).collect()
    }

    fn new(tuples: &[Tuple]) -> Block {
        let part_of =
            |tuple: &Tuple, word: usize| tuple.parts().iter().copied().find(|part| part.word as usize == word);
        let mut block = Block {
            filters: [0; BLOCK],
            chosen: [0; BLOCK],
            tuples: ((1u32 << tuples.len().min(BLOCK)) - 1) as u8,
            common: Vec::new(),
            columns: Vec::new(),
            more_columns: Vec::new(),
        };
        for at in 0..BLOCK {
            // Places without a tuple repeat one, so that there is something to read.
            let Some(tuple) = tuples.get(at).or(tuples.first()) else { continue };
            (block.filters[at], block.chosen[at]) = tuple.filter.place();
        }
        for word in 0..WORDS {
            let parts: Vec<Option<Part>> = tuples.iter().map(|tuple| part_of(tuple, word)).collect();
            let Some(first) = parts.iter().flatten().next() else { continue };
            if parts.iter().all(|part| part.is_some_and(|part| part.mask == first.mask)) {
                block.common.push(*first);
                continue;
            }
            let mut column = Column { masks: [0; BLOCK], secrets: [0; BLOCK], word: word as u8 };
            for (at, part) in parts.iter().enumerate() {
                let part = part.unwrap_or_default();
                (column.masks[at], column.secrets[at]) = (part.mask, part.secret);
            }
            if word < FIRST { &mut block.columns } else { &mut block.more_columns }.push(column);
        }
        block
    }

    /// Asks about the keys of these lanes, which are `keys[places[lane]]`. Only if [`Hashing::vectors`].
    #[inline]
    pub(crate) fn ask(
        &self,
        hashing: &Hashing,
        (keys, places): (&[Key], &[u8; BATCH]),
        active: &[u8],
        answers: &mut Answers,
    ) {
        #[cfg(target_arch = "x86_64")]
        if hashing.vectors() {
            // SAFETY: `vectors` says that this processor has AVX2.
            unsafe { self.ask_avx2(hashing, (keys, places), active, answers) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (hashing, keys, places, active, answers);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn ask_avx2(
        &self,
        hashing: &Hashing,
        (keys, places): (&[Key], &[u8; BATCH]),
        active: &[u8],
        answers: &mut Answers,
    ) {
        use core::arch::x86_64::{
            _mm256_add_epi64, _mm256_and_si256, _mm256_castsi256_pd, _mm256_movemask_pd, _mm256_mul_epu32,
            _mm256_set1_epi64x, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_srlv_epi64, _mm256_xor_si256,
        };
        let [kept, factor, bit] = [hashing.kept(), Hashing::FACTOR, 63].map(|word| _mm256_set1_epi64x(word as i64));
        let bases = halves(&self.filters);
        let chosen = halves(&self.chosen);
        for lane in active {
            let lane = *lane as usize % BATCH;
            let Some(key) = keys.get(places[lane] as usize) else { continue };
            let add = |sum: u64, part: &Part| sum.wrapping_add(hashing.atom(part.of(key), part.secret));
            let common = self.common.iter().fold(0, add);
            let mut sums = [_mm256_set1_epi64x(common as i64); 2];
            for column in &self.columns {
                column.add(key.words[column.word as usize % FIRST], &mut sums);
            }
            for column in &self.more_columns {
                column.add(key.word(column.word as usize), &mut sums);
            }
            let mut passed = 0;
            let mut hashes = sums;
            for half in 0..2 {
                let sum = sums[half];
                let folded = _mm256_xor_si256(sum, _mm256_srli_epi64::<32>(sum));
                let hash = _mm256_and_si256(_mm256_xor_si256(_mm256_mul_epu32(folded, factor), sum), kept);
                hashes[half] = hash;
                let place = _mm256_and_si256(_mm256_srli_epi64::<32>(hash), chosen[half]);
                let addresses = _mm256_add_epi64(bases[half], _mm256_slli_epi64::<3>(place));
                let words = gather(addresses);
                let first = _mm256_srlv_epi64(words, _mm256_and_si256(hash, bit));
                let second = _mm256_srlv_epi64(words, _mm256_and_si256(_mm256_srli_epi64::<6>(hash), bit));
                let third = _mm256_srlv_epi64(words, _mm256_and_si256(_mm256_srli_epi64::<12>(hash), bit));
                let all = _mm256_and_si256(_mm256_and_si256(first, second), third);
                let signs = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_slli_epi64::<63>(all)));
                passed |= signs << (4 * half);
            }
            store(&mut answers.hashes[lane], hashes);
            answers.passed[lane] = passed as u8 & self.tuples;
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Column {
    /// Adds what a word of a key, under the mask of each tuple, adds to its hash: [`Hashing::atom`].
    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(&self, word: u64, sums: &mut [core::arch::x86_64::__m256i; 2]) {
        use core::arch::x86_64::{
            _mm256_add_epi64, _mm256_and_si256, _mm256_mul_epu32, _mm256_set1_epi64x, _mm256_srli_epi64,
            _mm256_xor_si256,
        };
        let word = _mm256_set1_epi64x(word as i64);
        let (masks, secrets) = (halves(&self.masks), halves(&self.secrets));
        for half in 0..2 {
            let masked = _mm256_xor_si256(_mm256_and_si256(word, masks[half]), secrets[half]);
            let hash = _mm256_mul_epu32(masked, _mm256_srli_epi64::<32>(masked));
            sums[half] = _mm256_add_epi64(sums[half], hash);
        }
    }
}

/// The vectors of eight words.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn halves(words: &[u64; BLOCK]) -> [core::arch::x86_64::__m256i; 2] {
    let start = words.as_ptr().cast();
    // SAFETY: two vectors of four words are what eight words are; they may begin anywhere.
    unsafe { [core::arch::x86_64::_mm256_loadu_si256(start), core::arch::x86_64::_mm256_loadu_si256(start.add(1))] }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn store(words: &mut [u64; BLOCK], vectors: [core::arch::x86_64::__m256i; 2]) {
    let start = words.as_mut_ptr().cast();
    // SAFETY: eight words have room for two vectors of four; they may begin anywhere.
    unsafe {
        core::arch::x86_64::_mm256_storeu_si256(start, vectors[0]);
        core::arch::x86_64::_mm256_storeu_si256(start.add(1), vectors[1]);
    }
}

/// The words of filters at these addresses.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn gather(addresses: core::arch::x86_64::__m256i) -> core::arch::x86_64::__m256i {
    let mut words = core::arch::x86_64::_mm256_setzero_si256();
    // SAFETY: each address is that of a filter's word, since `chosen` is the number of its words less one, and the tuples beside the block
    // keep the filters. The writer stores whole aligned words meanwhile, which this instruction reads whole; and the compiler does
    // not know that memory is read, so to it this is no access beside the writer's.
    unsafe {
        core::arch::asm!(
            "vpcmpeqd {all}, {all}, {all}",
            "vpgatherqq {words}, [{base} + {addresses}], {all}",
            words = inout(ymm_reg) words,
            all = out(ymm_reg) _,
            base = in(reg) 0u64,
            addresses = in(ymm_reg) addresses,
            options(readonly, nostack, preserves_flags),
        );
    }
    words
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::super::buckets::Buckets;
    use super::super::filter::Filter;
    use super::*;
    use crate::key::{Mask, lanes};

    #[test]
    fn vectors_say_what_registers_do() {
        let hashing = Hashing::known();
        if !hashing.vectors() {
            return;
        }
        let mut state = 1u64;
        let mut number = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        };
        for count in 1..=2 * BLOCK {
            let tuples: Vec<Tuple> = (0..count)
                .map(|at| {
                    let mut mask =
                        Mask { words: std::array::from_fn(|_| if number() % 3 == 0 { number() } else { 0 }) };
                    // Words that all tuples compare alike, and differently.
                    (mask.words[1], mask.words[2]) = (0xff, u64::MAX << at);
                    let (parts, filter) = (Part::all(&mask, &hashing), Filter::new(64, true));
                    (0..200).for_each(|_| _ = filter.add(number()));
                    Tuple::new(&parts, &vec![0; parts.len()], filter, Buckets::new(0))
                })
                .collect();
            let mut keys: Vec<Key> = (0..BATCH).map(|_| Key { words: std::array::from_fn(|_| number()) }).collect();
            keys.iter_mut().step_by(2).for_each(|key| key.words[7] &= !Key::EXTENDED);
            let places = std::array::from_fn(|lane| lane as u8);
            let mut answers = Answers::default();
            for (block, tuples) in Block::all(&tuples).iter().zip(tuples.chunks(BLOCK)) {
                block.ask(&hashing, (&keys, &places), &places, &mut answers);
                for (lane, key) in keys.iter().enumerate() {
                    let add = |sum: u64, part: &Part| sum.wrapping_add(hashing.atom(part.of(key), part.secret));
                    for (at, tuple) in tuples.iter().enumerate() {
                        let hash = hashing.finish(tuple.parts().iter().fold(0, add));
                        assert_eq!(answers.hashes[lane][at], hash, "tuple {at} of {count}, key {lane}");
                        assert_eq!(answers.passed[lane] >> at & 1 == 1, tuple.filter.test(hash));
                    }
                    assert_eq!(u64::from(answers.passed[lane]) & !lanes(tuples.len()), 0, "no tuple is there");
                }
            }
        }
    }
}
