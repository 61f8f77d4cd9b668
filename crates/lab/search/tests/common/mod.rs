//! Devices made up for the search, with known loss curves.

// Each test file uses some of them.
#![allow(dead_code)]

pub mod drive;

use linerate_search::{Load, Trial};
use std::convert::Infallible;

/// Loses nothing up to `capacity_pps`, and everything above it.
pub fn sharp(capacity_pps: f64) -> impl FnMut(Load, u64) -> Result<Trial, Infallible> {
    curve(move |load_pps| capacity_pps.min(load_pps))
}

/// Loses nothing up to `capacity_pps`; of what exceeds it, the given share.
pub fn soft(capacity_pps: f64, lost_share: f64) -> impl FnMut(Load, u64) -> Result<Trial, Infallible> {
    curve(move |load_pps| load_pps - lost_share * (load_pps - capacity_pps).max(0.0))
}

/// Receive livelock: the further above `capacity_pps`, the less it carries.
pub fn livelock(capacity_pps: f64) -> impl FnMut(Load, u64) -> Result<Trial, Infallible> {
    curve(
        move |load_pps| {
            if load_pps <= capacity_pps { load_pps } else { capacity_pps * (capacity_pps / load_pps).powi(3) }
        },
    )
}

/// A device given by the rate it carries at each load. At least one packet is lost where it carries less than the load.
pub fn curve(carried_pps: impl Fn(f64) -> f64) -> impl FnMut(Load, u64) -> Result<Trial, Infallible> {
    move |load, duration_ns| {
        let seconds = duration_ns as f64 / 1e9;
        let intended = (load.pps() as f64 * seconds) as u64;
        let load_pps = load.pps() as f64;
        let carried_pps = carried_pps(load_pps);
        let lost =
            if carried_pps >= load_pps { 0 } else { (((load_pps - carried_pps) * seconds) as u64).clamp(1, intended) };
        Ok(Trial { load, duration_ns, intended, unsent: 0, lost, lost_in_interruptions: 0 })
    }
}

/// Adds a loss of `packets` to the trials with these numbers.
pub fn disturbed<D>(
    mut device: D,
    trials: std::ops::Range<usize>,
    packets: u64,
) -> impl FnMut(Load, u64) -> Result<Trial, Infallible>
where
    D: FnMut(Load, u64) -> Result<Trial, Infallible>,
{
    let mut number = 0;
    move |load, duration_ns| {
        let mut trial = device(load, duration_ns)?;
        if trials.contains(&number) {
            trial.lost = (trial.lost + packets).min(trial.intended);
        }
        number += 1;
        Ok(trial)
    }
}
