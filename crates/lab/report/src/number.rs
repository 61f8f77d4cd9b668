//! Numbers of documents: those that could not be measured, which are NaN here and `null` in JSON (which has no NaN, and serde_json writes
//! `null` for it), and sums of any that were read.

use serde::{Deserialize, Deserializer};

/// Reads a number, or `null` as NaN.
pub(crate) fn or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// A sum that stops at the largest number, because a document may name any.
pub(crate) fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}
