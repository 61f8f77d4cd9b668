//! A process that was killed leaves nothing behind.

use super::{not_applicable, passed};
use crate::{Harness, Outcome};

pub(super) fn killed(harness: &mut dyn Harness) -> Result<Outcome, String> {
    match harness.left_behind() {
        None => not_applicable("what this port holds ends with its process"),
        Some(Err(error)) => Err(error),
        Some(Ok(left)) if left.is_empty() => passed("nothing was left behind"),
        Some(Ok(left)) => Err(format!("left behind by a killed process: {}", left.join(", "))),
    }
}
