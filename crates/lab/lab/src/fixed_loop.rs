//! How fast a core works: a fixed loop of dependent multiplications, timed.
//!
//! A virtual core shares its physical one with others and changes its clock. Figures of a device are compared only as far as the cores under it
//! kept their pace; so the loop is timed beside each trial, on all cores in use at once, as the trial uses them.

use std::thread;

use linerate_sys::affinity::pin_to_core;
use linerate_sys::clock::now_ns;

use crate::tester::{Priority, raise_priority};

/// Steps of one sample: some tens of microseconds, much longer than reading the clock takes.
const STEPS: u64 = 20_000;
/// Samples on a core, of which the median counts: an interruption spoils one or two.
const SAMPLES: usize = 7;

/// Time of the loop on each of these cores, in nanoseconds, all at once; `None` where the core is not this process's.
pub fn times_ns<const N: usize>(cores: [Option<usize>; N]) -> [Option<f64>; N] {
    thread::scope(|scope| {
        let timing = cores.map(|core| core.map(|core| scope.spawn(move || time_ns(core))));
        timing.map(|thread| thread.and_then(|thread| thread.join().unwrap_or_default()))
    })
}

fn time_ns(core: usize) -> Option<f64> {
    pin_to_core(core).ok()?;
    raise_priority(0, Priority::RealTime);
    let mut samples: Vec<u64> = (0..SAMPLES)
        .map(|sample| {
            let start_ns = now_ns();
            std::hint::black_box(multiply(std::hint::black_box(sample as u64)));
            now_ns().saturating_sub(start_ns)
        })
        .collect();
    samples.sort_unstable();
    samples.get(SAMPLES / 2).map(|ns| *ns as f64)
}

/// Each step waits for the one before (multiplier and increment of Knuth's MMIX generator).
fn multiply(seed: u64) -> u64 {
    (0..STEPS)
        .fold(seed, |value, _| value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_of_ours_has_a_time_and_no_core_has_none() {
        let allowed = linerate_sys::affinity::allowed_cores();
        let [here, none, beyond] = times_ns([allowed.first().copied(), None, Some(100_000)]);
        assert!(here.is_some_and(|ns| ns > 1_000.0), "{here:?}");
        assert_eq!((none, beyond), (None, None));
    }
}
