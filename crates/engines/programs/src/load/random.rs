//! Pseudo-random numbers for gaps, pauses and choices: reproducible from a seed, no secret.

/// A number in (0, 1], of the sequence whose state is `state` (splitmix64, Steele, Lea and Flood 2014).
#[inline]
pub(crate) fn unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ mixed >> 31) >> 11).wrapping_add(1) as f64 / (1u64 << 53) as f64
}
