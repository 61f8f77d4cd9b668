//! The mixing step of hashes.

/// The halves of the product of two words, one over the other (as in wyhash).
#[inline]
pub(crate) fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}
