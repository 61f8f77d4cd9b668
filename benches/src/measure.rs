//! Time: of the wall, of the thread, and of the core in cycles.

use std::hint::black_box;
use std::sync::Barrier;

use linerate_sys::clock;

/// What one run of a loop took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// Packets that the loop moved.
    pub packets: u64,
    /// Time by the wall clock.
    pub wall_ns: u64,
    /// Time on a core of the busiest of its threads: what the loop takes on a core of its own.
    pub core_ns: u64,
}

impl Run {
    /// Nanoseconds on a core per packet.
    pub fn core_ns_per_packet(&self) -> f64 {
        self.core_ns as f64 / self.packets.max(1) as f64
    }

    /// Million packets per second by the wall clock.
    pub fn wall_mpps(&self) -> f64 {
        self.packets as f64 * 1e3 / self.wall_ns.max(1) as f64
    }

    /// Million packets per second of a core that does nothing else.
    pub fn core_mpps(&self) -> f64 {
        1e3 / self.core_ns_per_packet()
    }
}

/// Both clocks at the start of a loop, on the thread that runs it.
pub struct Stopwatch {
    wall_ns: u64,
    core_ns: u64,
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Stopwatch {
        Stopwatch { wall_ns: clock::now_ns(), core_ns: clock::thread_cpu_ns() }
    }

    /// The run up to now.
    pub fn stop(&self, packets: u64) -> Run {
        let core_ns = clock::thread_cpu_ns() - self.core_ns;
        Run { packets, wall_ns: clock::now_ns() - self.wall_ns, core_ns }
    }
}

/// Two threads, which begin together, each with a core and what it works on: the packets of both, in the time of the slower one.
pub fn on_two_cores<T: Send>(cores: [usize; 2], [first, second]: [T; 2], work: impl Fn(usize, T) -> Run + Sync) -> Run {
    let start = Barrier::new(2);
    let runs = std::thread::scope(|scope| {
        let threads = [(cores[0], first), (cores[1], second)].map(|(core, own)| {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(core, own)
            })
        });
        threads.map(|thread| thread.join().expect("a thread of a bench"))
    });
    Run {
        packets: runs[0].packets + runs[1].packets,
        wall_ns: runs[0].wall_ns.max(runs[1].wall_ns),
        core_ns: runs[0].core_ns.max(runs[1].core_ns),
    }
}

/// Cycles of the core in a nanosecond, by a chain of dependent additions (one a cycle on every current x86 and Arm core).
pub fn cycles_per_ns() -> f64 {
    let steps = 20_000_000u64;
    let best_ns = (0..5).map(|_| dependent_additions_ns(steps)).min().unwrap_or(1);
    steps as f64 / best_ns.max(1) as f64
}

fn dependent_additions_ns(steps: u64) -> u64 {
    let start_ns = clock::thread_cpu_ns();
    let mut value = 1u64;
    for _ in 0..steps / 8 {
        // black_box keeps the compiler from adding eight at once; it costs no instruction on a register.
        for _ in 0..8 {
            value = black_box(value.wrapping_add(3));
        }
    }
    black_box(value);
    clock::thread_cpu_ns() - start_ns
}

/// Smallest, middle and largest of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// Median (the mean of the middle two where there is no middle one).
    pub median: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Of no values, all are NaN.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let middle = values.len() / 2;
        let lower = if values.len().is_multiple_of(2) { middle.saturating_sub(1) } else { middle };
        Spread { min: at(0), median: (at(middle) + at(lower)) / 2.0, max: at(values.len().saturating_sub(1)) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:8.2} {:8.2} {:8.2}", self.min, self.median, self.max)
    }
}
