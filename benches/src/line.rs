//! The yardstick of two-core figures: one cache line written on one core and read on the other.
//!
//! [`stream`] moves one freshly written line per packet through a ring of lines, without descriptors, frames or checks: what
//! the two cores can do at best. [`round_trip_ns`] is the time for one line to go to the other core and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use linerate_sys::affinity;

use crate::measure::{Run, Stopwatch};

#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; 8]);

#[repr(align(128))]
#[derive(Default)]
struct Index(AtomicU64);

struct Lines {
    lines: Vec<Line>,
    stride: usize,
    head: Index,
    tail: Index,
}

impl Lines {
    fn line(&self, index: u64) -> &Line {
        // As frames lie in a region: one every 2 KiB, begun at one of 32 places, so that all sets of a cache are used.
        let frame = index as usize % DEPTH;
        let colour = if self.stride > 1 { frame / 2 % 32 } else { 0 };
        &self.lines[frame * self.stride + colour]
    }
}

/// Lines of the ring, as slots of a pipe.
pub const DEPTH: usize = 1024;
/// Lines published at a time, as packets of a batch.
pub const BATCH: u64 = 64;

/// Where the lines lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// One beside the other: the hardware fetches ahead.
    Contiguous,
    /// As packets in frames of 2 KiB.
    Frames,
}

/// Moves `packets` lines from `cores[0]` to `cores[1]`: all 64 bytes are written, 16 are read.
pub fn stream(cores: [usize; 2], place: Place, packets: u64) -> Run {
    let stride = if place == Place::Contiguous { 1 } else { 32 };
    let lines = (0..DEPTH * stride + 32).map(|_| Line::default()).collect();
    let shared = Arc::new(Lines { lines, stride, head: Index::default(), tail: Index::default() });
    let reader = {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || {
            let _ = affinity::pin_to_core(cores[1]);
            let watch = Stopwatch::start();
            read_lines(&shared, packets);
            watch.stop(packets)
        })
    };
    let _ = affinity::pin_to_core(cores[0]);
    let watch = Stopwatch::start();
    write_lines(&shared, packets);
    let read = reader.join().expect("the reader ends by itself");
    let mut run = watch.stop(packets);
    run.core_ns = run.core_ns.max(read.core_ns);
    run
}

fn write_lines(shared: &Lines, packets: u64) {
    let mut tail = 0;
    let mut head_seen = 0;
    while tail < packets {
        let count = BATCH.min(packets - tail);
        while tail + count - head_seen > DEPTH as u64 {
            head_seen = shared.head.0.load(Ordering::Acquire);
            std::hint::spin_loop();
        }
        for index in tail..tail + count {
            for word in &shared.line(index).0 {
                word.store(index, Ordering::Relaxed);
            }
        }
        tail += count;
        shared.tail.0.store(tail, Ordering::Release);
    }
}

fn read_lines(shared: &Lines, packets: u64) {
    let mut head = 0;
    let mut wrong = 0u64;
    while head < packets {
        let tail = shared.tail.0.load(Ordering::Acquire);
        if tail == head {
            std::hint::spin_loop();
            continue;
        }
        let until = tail.min(head + BATCH);
        for index in head..until {
            let line = &shared.line(index).0;
            wrong |= (line[5].load(Ordering::Relaxed) ^ index) | (line[6].load(Ordering::Relaxed) ^ index);
        }
        head = until;
        shared.head.0.store(head, Ordering::Release);
    }
    assert_eq!(wrong, 0, "each line was read as it was written");
}

/// Nanoseconds for one line to go to the other core and back: the median of 101 rounds of 200.
pub fn round_trip_ns(cores: [usize; 2]) -> f64 {
    const ROUNDS: u64 = 101;
    const TRIPS: u64 = 200;
    let line = Arc::new(Index::default());
    let echo = {
        let line = Arc::clone(&line);
        std::thread::spawn(move || {
            let _ = affinity::pin_to_core(cores[1]);
            for trip in 0..ROUNDS * TRIPS {
                while line.0.load(Ordering::Acquire) != 2 * trip + 1 {
                    std::hint::spin_loop();
                }
                line.0.store(2 * trip + 2, Ordering::Release);
            }
        })
    };
    let _ = affinity::pin_to_core(cores[0]);
    let mut rounds: Vec<f64> = Vec::new();
    for round in 0..ROUNDS {
        let start_ns = linerate_sys::clock::now_ns();
        for trip in round * TRIPS..(round + 1) * TRIPS {
            line.0.store(2 * trip + 1, Ordering::Release);
            while line.0.load(Ordering::Acquire) != 2 * trip + 2 {
                std::hint::spin_loop();
            }
        }
        rounds.push((linerate_sys::clock::now_ns() - start_ns) as f64 / TRIPS as f64);
    }
    echo.join().expect("the echo ends by itself");
    crate::measure::Spread::of(rounds).median
}
