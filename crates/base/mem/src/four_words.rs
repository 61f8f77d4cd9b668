//! Four words that are compared with a value at once: the keys of one line of a hash table.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

/// Four 64-bit words. Their halves lie apart, because baseline x86-64 compares four words of 32 bits in one instruction, but
/// not two of 64. Several threads may read while one writes; a word that is being replaced may be read with the halves of two, so that who
/// shares the words reads the one that it found again.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub struct FourWords {
    low: [AtomicU32; 4],
    high: [AtomicU32; 4],
}

impl FourWords {
    /// The word at `at` modulo 4. What was read before is older than this word.
    #[inline]
    pub fn word(&self, at: usize) -> u64 {
        let low = self.low[at % 4].load(Ordering::Acquire);
        u64::from(self.high[at % 4].load(Ordering::Acquire)) << 32 | u64::from(low)
    }

    /// Changes the word at `at` modulo 4.
    #[inline]
    pub fn set(&self, at: usize, word: u64) {
        self.low[at % 4].store(word as u32, Ordering::Release);
        self.high[at % 4].store((word >> 32) as u32, Ordering::Release);
    }

    /// Makes the upper half of the word at `at` modulo 4 zero, so that no word whose upper half is another one is found there.
    #[inline]
    pub fn clear_high(&self, at: usize) {
        self.high[at % 4].store(0, Ordering::Release);
    }

    /// Place of the first word that equals `word`, 0 to 3. Takes no branch that depends on the place, which a core could not foresee.
    #[inline]
    pub fn position(&self, word: u64) -> Option<usize> {
        let equal = self.equal(word);
        (equal != 0).then(|| first_bit(equal))
    }

    /// A bit for each word that equals `word`. The lower halves are read before the upper ones.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    fn equal(&self, word: u64) -> u32 {
        use core::arch::x86_64::{_mm_cvtsi64_si128, _mm_shuffle_epi32};
        let equal: u32;
        // SAFETY: SSE2 is part of x86-64. Each comparison reads the 16 bytes of one array, and both arrays lie at multiples of 16
        // because the structure is aligned to 32 bytes and the first array has 16. The instructions may read words that another thread
        // writes: x86-64 reads each aligned word of 32 bits as a whole, in the order of the instructions, which is what a
        // relaxed atomic load does or more.
        unsafe {
            let word = _mm_cvtsi64_si128(word as i64);
            let (low, high) = (_mm_shuffle_epi32::<0x00>(word), _mm_shuffle_epi32::<0x55>(word));
            core::arch::asm!(
                "pcmpeqd {low}, xmmword ptr [{at}]",
                "pcmpeqd {high}, xmmword ptr [{at} + 16]",
                "pand {low}, {high}",
                "movmskps {equal:e}, {low}",
                low = inout(xmm_reg) low => _,
                high = inout(xmm_reg) high => _,
                at = in(reg) self,
                equal = lateout(reg) equal,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        equal
    }

    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    fn equal(&self, word: u64) -> u32 {
        (0..4).fold(0, |equal, at| equal | u32::from(self.word(at) == word) << at)
    }
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

    #[test]
    fn a_word_is_found_where_both_halves_are_equal() {
        let (low, high) = (0x0000_0000_ffff_fffe, 0x7fff_ffff_0000_0000);
        let all = [0, low, high, low | high, 1, 1 << 32, u64::MAX];
        // All of them take the interpreter a minute. Of the first three, each two have one half in common or none.
        let all = if cfg!(miri) { &all[..3] } else { &all[..] };
        for words in (0..all.len().pow(4)).map(|code| [0, 1, 2, 3].map(|at| all[code / all.len().pow(at) % all.len()]))
        {
            let four = FourWords::default();
            words.iter().enumerate().for_each(|(at, word)| four.set(at, *word));
            assert_eq!([0, 1, 2, 3].map(|at| four.word(at)), words);
            for &word in all {
                assert_eq!(
                    four.position(word),
                    words.iter().position(|other| *other == word),
                    "{word:#x} in {words:x?}"
                );
            }
        }
    }
}
