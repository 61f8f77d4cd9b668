//! Eight tags of 16 bits, compared at once.
#![allow(unsafe_code)]

/// The tag of a hash; never 0, which marks a free place.
#[inline]
pub(crate) fn tag(hash: u64) -> u16 {
    ((hash >> 48) as u16).max(1)
}

/// A bit for each of eight tags that equals `tag`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub(crate) fn equal_tags(tags: [u64; 2], tag: u16) -> u32 {
    use core::arch::x86_64::{
        _mm_cmpeq_epi16, _mm_movemask_epi8, _mm_packs_epi16, _mm_set_epi64x, _mm_set1_epi16, _mm_setzero_si128,
    };
    // SAFETY: SSE2 is part of x86-64, and these instructions touch registers only.
    unsafe {
        let all = _mm_set_epi64x(tags[1] as i64, tags[0] as i64);
        let equal = _mm_cmpeq_epi16(all, _mm_set1_epi16(tag as i16));
        _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) as u32
    }
}

/// A bit for each of eight tags that equals `tag`.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn equal_tags(tags: [u64; 2], tag: u16) -> u32 {
    (0..8).fold(0, |equal, at| equal | u32::from((tags[at / 4] >> (at % 4 * 16)) as u16 == tag) << at)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_place_that_has_the_tag_has_its_bit() {
        let tags = [0x8001_0002_ffff_0001, 0x0001_7fff_0000_8001];
        assert_eq!([1, 2, 0xffff, 0x8001, 0, 3].map(|tag| equal_tags(tags, tag)), [0x81, 0x04, 0x02, 0x18, 0x20, 0]);
    }
}
