//! The clock of a core as it is while it works: what `/proc/cpuinfo` says of a virtual core is often the nominal one. It is here, as all that
//! times itself, because this crate is compiled to run fast in releases, which those of the lab above it and below it are not.

use std::hint::black_box;

use linerate_sys::clock;

/// Steps of a run, which takes a quarter of a millisecond or so.
const STEPS: u32 = 500_000;
/// Cycles of a step: an addition and a rotation, each of which waits for the one before and takes a cycle.
const CYCLES_PER_STEP: f64 = 2.0;
/// Of so many runs the quickest counts: others had the core meanwhile.
const RUNS: u32 = 12;

/// Measures the clock of the core that this thread is on, in GHz. `None` in builds without optimization, in which each step goes through
/// memory.
pub fn measured_ghz() -> Option<f64> {
    if cfg!(debug_assertions) {
        return None;
    }
    let run = |_| {
        let (key, mut value) = (black_box(0x9e37_79b9_7f4a_7c15_u64), black_box(1_u64));
        let start_ns = clock::now_ns();
        for _ in 0..STEPS {
            value = value.wrapping_add(key).rotate_left(7);
        }
        black_box(value);
        clock::now_ns() - start_ns
    };
    let least_ns = (0..RUNS).map(run).min().filter(|ns| *ns > 0)?;
    Some(f64::from(STEPS) * CYCLES_PER_STEP / least_ns as f64)
}
