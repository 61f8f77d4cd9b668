//! Pseudo-random numbers for field values, sizes and gaps: reproducible from a seed, a few cycles each, no secret.

/// Next number of the sequence whose state is `state` (splitmix64, Steele, Lea and Flood 2014).
#[inline]
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// A number below `count`, uniform to 1 part in 2^64 / count.
#[inline]
pub(crate) fn below(state: &mut u64, count: u64) -> u64 {
    ((u128::from(next(state)) * u128::from(count)) >> 64) as u64
}
