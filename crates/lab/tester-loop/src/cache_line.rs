//! How long a cache line takes to a second core and back.
//!
//! Two pinned threads answer each other through two atomics, each in lines of its own. Virtual cores are moved by their
//! hypervisor, and then this time changes by several times; results that depend on two cores are compared only where it is
//! alike.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use linerate_sys::affinity::pin_to_core;
use linerate_sys::clock::now_ns;

/// Round trips timed together, because reading the clock takes about as long as one.
const TRIPS_PER_SAMPLE: u64 = 64;
/// How long samples are taken.
const DURATION_NS: u64 = 2_000_000;
/// When a core that others keep busy is given up.
const PATIENCE_NS: u64 = 200_000_000;
/// How often the waiting side looks before it looks at the clock too.
const LOOKS_PER_CLOCK: u32 = 4_096;

/// Round-trip times of a cache line between two cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundTrip {
    /// The fastest sample, in nanoseconds.
    pub min_ns: f64,
    /// The median sample, in nanoseconds. Far above the minimum when others use the cores.
    pub median_ns: f64,
    /// Samples of 64 round trips each.
    pub samples: usize,
}

/// A counter that shares no line with anything (128 bytes: neighbouring lines are fetched in pairs on x86).
#[repr(align(128))]
struct Line(AtomicU64);

/// Measures the round trip between two cores, for about 2 ms.
///
/// # Errors
/// `InvalidInput` when it is one core or a core is not this process's; `TimedOut` when no sample was completed in 0.2 s because
/// others use the cores.
pub fn round_trip(core: usize, other: usize) -> io::Result<RoundTrip> {
    if core == other {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a round trip needs two cores"));
    }
    let (ping, pong, stop) = (Line(AtomicU64::new(0)), Line(AtomicU64::new(0)), AtomicBool::new(false));
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            pin_to_core(other)?;
            answer(&ping.0, &pong.0, &stop);
            Ok(())
        });
        let samples = scope.spawn(|| {
            let samples = pin_to_core(core).and_then(|()| ask(&ping.0, &pong.0));
            stop.store(true, Ordering::Relaxed);
            samples
        });
        let finished: [io::Result<Vec<f64>>; 2] = [join(samples), join(echo).map(|()| Vec::new())];
        let [samples, echo] = finished;
        echo?;
        summary(samples?)
    })
}

fn join<T>(handle: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Sends numbers and waits for each to come back; the mean time of each sample's trips.
fn ask(ping: &AtomicU64, pong: &AtomicU64) -> io::Result<Vec<f64>> {
    let mut samples = Vec::with_capacity(1_024);
    let start_ns = now_ns();
    let deadline_ns = start_ns + PATIENCE_NS;
    let mut number = 0;
    // One sample is thrown away: it holds the other thread's start.
    for sample in 0.. {
        let sample_start_ns = now_ns();
        for _ in 0..TRIPS_PER_SAMPLE {
            number += 1;
            ping.store(number, Ordering::Release);
            if !wait_for(pong, number, deadline_ns) {
                return Ok(samples);
            }
        }
        let end_ns = now_ns();
        if sample > 0 {
            samples.push((end_ns - sample_start_ns) as f64 / TRIPS_PER_SAMPLE as f64);
        }
        if end_ns - start_ns > DURATION_NS && !samples.is_empty() {
            break;
        }
    }
    Ok(samples)
}

fn wait_for(line: &AtomicU64, number: u64, deadline_ns: u64) -> bool {
    loop {
        for _ in 0..LOOKS_PER_CLOCK {
            if line.load(Ordering::Acquire) == number {
                return true;
            }
            std::hint::spin_loop();
        }
        if now_ns() > deadline_ns {
            return false;
        }
    }
}

fn answer(ping: &AtomicU64, pong: &AtomicU64, stop: &AtomicBool) {
    let mut last = 0;
    loop {
        for _ in 0..LOOKS_PER_CLOCK {
            let number = ping.load(Ordering::Acquire);
            if number != last {
                pong.store(number, Ordering::Release);
                last = number;
            }
            std::hint::spin_loop();
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn summary(mut samples: Vec<f64>) -> io::Result<RoundTrip> {
    samples.sort_by(f64::total_cmp);
    match samples.as_slice() {
        [] => Err(io::Error::new(io::ErrorKind::TimedOut, "the cores are too busy for one cache line to go round")),
        all => Ok(RoundTrip { min_ns: all[0], median_ns: all[all.len() / 2], samples: all.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_sys::affinity::allowed_cores;

    #[test]
    fn the_summary_is_the_least_and_the_middle() {
        let summary = summary(vec![90.0, 70.0, 400.0]).expect("samples");
        assert_eq!(summary, RoundTrip { min_ns: 70.0, median_ns: 90.0, samples: 3 });
        assert_eq!(super::summary(Vec::new()).expect_err("none").kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn two_cores_answer_each_other() {
        let cores = allowed_cores();
        let [first, .., last] = cores.as_slice() else { return eprintln!("skipped: there is one core") };
        match round_trip(*first, *last) {
            Ok(trip) => {
                assert!(trip.samples > 0 && trip.min_ns > 0.0 && trip.min_ns <= trip.median_ns, "{trip:?}");
                eprintln!("cores {first} and {last}: {trip:?}");
            }
            Err(error) => eprintln!("skipped: {error}"),
        }
    }

    #[test]
    fn one_core_or_none_is_refused_without_waiting() {
        let core = allowed_cores()[0];
        assert_eq!(round_trip(core, core).expect_err("one core").kind(), io::ErrorKind::InvalidInput);
        assert!(round_trip(core, 100_000).is_err());
        assert!(round_trip(100_000, core).is_err());
    }
}
