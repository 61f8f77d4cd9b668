//! Numbers that could not be measured: NaN here, `null` in JSON (which has no NaN, and serde_json writes `null` for it).

use serde::{Deserialize, Deserializer};

/// Reads a number, or `null` as NaN.
pub(crate) fn or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}
