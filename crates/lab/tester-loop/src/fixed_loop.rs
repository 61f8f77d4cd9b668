//! How fast a core works: a fixed loop, timed.
//!
//! A virtual core shares its physical one with others and changes its clock. Figures of a device are compared only as far as the cores under it
//! kept their pace; so the loop is timed beside each trial, on all cores in use at once, as the trial uses them. It has eight chains of additions,
//! rotations and table look-ups that do not wait for each other, so that it fills the core: a neighbour on the other hyper-thread shows, which a loop
//! that waits for its own results would not feel.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread;

use linerate_sys::affinity::pin_to_core;
use linerate_sys::clock::{now_ns, sleep_until_ns};
use linerate_sys::signal;

use linerate_testbed::threads::{Priority, raise_priority};

/// Steps of one sample: some tens of microseconds, much longer than reading the clock takes.
const STEPS: usize = 10_000;
/// Chains that do not wait for each other, and words of the table, which stays in the nearest cache.
const CHAINS: usize = 8;
const WORDS: usize = 1_024;
/// Samples on a core, of which the median counts: an interruption spoils one or two.
const SAMPLES: usize = 7;

/// A loop that takes this many times the fastest one of the same core tells of a neighbour.
const SLOW: f64 = 1.1;
/// How long a moment without neighbours is waited for: so much more with each trial, and at most so much at once.
const PATIENCE_NS: u64 = 100_000_000;
const PATIENCE_MAX_NS: u64 = 1_000_000_000;
/// Between two looks.
const LOOK_NS: u64 = 5_000_000;

/// The fastest time of each core that this process has seen.
static FASTEST: Mutex<BTreeMap<usize, f64>> = Mutex::new(BTreeMap::new());

/// Waits for moments in which the cores keep their pace.
#[derive(Debug, Default)]
pub struct Calm {
    patience_ns: u64,
}

impl Calm {
    /// Waits until the loop is about as fast on these cores as it ever was, as long as patience lasts; a machine that stays slow is measured as
    /// it is. Returns the last times, in nanoseconds.
    pub fn wait<const N: usize>(&mut self, cores: [Option<usize>; N]) -> [Option<f64>; N] {
        self.patience_ns = (self.patience_ns + PATIENCE_NS).min(PATIENCE_MAX_NS);
        let start_ns = now_ns();
        loop {
            let times = times_ns(cores);
            let waited_ns = now_ns().saturating_sub(start_ns);
            if !is_slow(&cores, &times) || waited_ns >= self.patience_ns || signal::stop_requested() {
                self.patience_ns = self.patience_ns.saturating_sub(waited_ns);
                return times;
            }
            sleep_until_ns(now_ns() + LOOK_NS);
        }
    }
}

/// Whether a core is slower than it was before. Notes the times that are faster than all before.
fn is_slow(cores: &[Option<usize>], times: &[Option<f64>]) -> bool {
    let mut fastest = FASTEST.lock().unwrap_or_else(PoisonError::into_inner);
    let known = cores.iter().zip(times).filter_map(|(core, time)| core.zip(*time));
    known.fold(false, |slow, (core, time_ns)| {
        let best = fastest.entry(core).or_insert(time_ns);
        *best = best.min(time_ns);
        slow || time_ns > *best * SLOW
    })
}

/// Time of the loop on each of these cores, in nanoseconds, all at once; `None` where the core is not this process's.
fn times_ns<const N: usize>(cores: [Option<usize>; N]) -> [Option<f64>; N] {
    thread::scope(|scope| {
        let timing = cores.map(|core| core.map(|core| scope.spawn(move || time_ns(core))));
        timing.map(|thread| thread.and_then(|thread| thread.join().unwrap_or_default()))
    })
}

fn time_ns(core: usize) -> Option<f64> {
    pin_to_core(core).ok()?;
    raise_priority(0, Priority::RealTime);
    let table: Vec<u64> = (0..WORDS as u64).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let mut samples: Vec<u64> = (0..SAMPLES)
        .map(|sample| {
            let start_ns = now_ns();
            std::hint::black_box(mix(std::hint::black_box(sample as u64), &table));
            now_ns().saturating_sub(start_ns)
        })
        .collect();
    samples.sort_unstable();
    samples.get(SAMPLES / 2).map(|ns| *ns as f64)
}

fn mix(seed: u64, table: &[u64]) -> u64 {
    let mut chains: [u64; CHAINS] = std::array::from_fn(|chain| seed.wrapping_add(chain as u64));
    for step in 0..STEPS {
        for (number, chain) in chains.iter_mut().enumerate() {
            let word = table.get((step + number * 97) % WORDS).copied().unwrap_or_default();
            *chain = chain.rotate_left(7).wrapping_add(word) ^ step as u64;
        }
    }
    chains.iter().fold(0, |sum, chain| sum.wrapping_add(*chain))
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

    #[test]
    fn a_core_is_slow_beside_its_own_fastest_time() {
        // Numbers that no machine of a test has.
        let slow = |times: [f64; 2]| is_slow(&[Some(70_001), Some(70_002)], &times.map(Some));
        assert!(!slow([100.0, 500.0]), "nothing is known yet");
        assert!(!slow([109.0, 549.0]));
        assert!(slow([111.0, 500.0]) && slow([100.0, 551.0]));
        assert!(!slow([50.0, 500.0]), "faster than all before");
        assert!(slow([100.0, 500.0]), "and from now on that counts");
        assert!(!is_slow(&[Some(70_001), None], &[None, None]));
    }

    #[test]
    fn patience_has_an_end() {
        let core = linerate_sys::affinity::allowed_cores().first().copied().expect("a core");
        assert!(!is_slow(&[Some(core)], &[Some(1.0)]), "faster than any core is");
        let mut calm = Calm::default();
        let times: Vec<_> = (0..3).map(|_| calm.wait([Some(core)])).collect();
        assert!(times.iter().all(|[time]| time.is_some()));
        FASTEST.lock().expect("the times").remove(&core);
    }
}
