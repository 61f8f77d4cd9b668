//! The main thread while the others work: a line for each interval, then the totals.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use linerate_console::shares;
use linerate_pktgen_loop::counts::Counts;
use linerate_pktgen_loop::diag;
use linerate_pktgen_loop::log::out;
use linerate_pktgen_loop::worker::Outcome;
use linerate_sys::clock;
use linerate_worker::Control;

use super::cpus::Cpus;
use super::format::{Window, rate_pps};
use super::options::Options;

/// An interval shorter than this tells nothing.
const INTERVAL_US_MIN: u64 = 10_000;

/// Prints a line at each interval until all threads are done. `done` gets a message from each thread at its end.
pub fn watch(options: &Options, controls: &[Control], done: &Receiver<()>) {
    let mut window = options.averages.then(Window::default);
    let mut before = (Counts::default(), clock::now_ns());
    let mut left = controls.len();
    while left > 0 {
        let next_ns = before.1 + options.report_ms * 1_000_000;
        let pause = Duration::from_nanos(next_ns.saturating_sub(clock::now_ns()));
        match done.recv_timeout(pause) {
            Ok(()) => left -= 1,
            Err(RecvTimeoutError::Timeout) => before = report(options, controls, before, &mut window),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    report(options, controls, before, &mut window);
}

/// Prints one line about what came since `before`, and returns the counts and the time that it stands for.
fn report(
    options: &Options,
    controls: &[Control],
    before: (Counts, u64),
    window: &mut Option<Window>,
) -> (Counts, u64) {
    let now_ns = clock::now_ns();
    let interval_us = (now_ns - before.1) / 1000;
    if interval_us < INTERVAL_US_MIN {
        return before;
    }
    let now = controls.iter().fold(Counts::default(), |sum, control| {
        let read = control.meter.read();
        sum.plus(&Counts { packets: read.packets, bytes: read.bytes, events: read.batches })
    });
    let moved = now.since(&before.0);
    if let Some(window) = window {
        window.add(rate_pps(moved.packets, interval_us));
    }
    diag!("main_thread", "{}", options.style.report(&moved, interval_us, window.as_ref()));
    (now, now_ns)
}

/// Prints the totals of a run, what belongs behind them, and what went wrong. True when nothing did.
pub fn totals(options: &Options, did: Option<&str>, outcomes: &[Outcome]) -> bool {
    let counts = outcomes.iter().fold(Counts::default(), |sum, outcome| sum.plus(&outcome.counts));
    if let Some(did) = did {
        out(&options.style.totals(did, &counts, seconds(outcomes)));
    }
    for outcome in outcomes {
        outcome.results.iter().for_each(|line| out(line));
        for drops in &outcome.drops {
            diag!("main_thread", "{} packets lost at {}: {}", drops.packets, drops.place, drops.cause);
        }
        if outcome.tx_pending > 0 {
            diag!(
                "main_thread",
                "{} packets were accepted by the port and not sent within a second",
                outcome.tx_pending
            );
        }
    }
    outcomes.iter().all(|outcome| outcome.error.is_none())
}

/// What each thread did, where there are several.
pub fn threads(options: &Options, cpus: &Cpus, outcomes: &[Outcome]) {
    if outcomes.len() < 2 {
        return;
    }
    let packets: Vec<u64> = outcomes.iter().map(|outcome| outcome.counts.packets).collect();
    let total = packets.iter().sum::<u64>().max(1);
    for (thread, packets) in packets.iter().enumerate() {
        let cpu = cpus.of_thread(thread).map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
        let share = *packets as f64 / total as f64 * 100.0;
        diag!("main_thread", "thread {thread}{cpu}: {packets} packets, {share:.1} %");
    }
    if options.function.receives()
        && let Some(warning) = shares::uneven("thread", &packets)
    {
        diag!("main_thread", "{warning}");
    }
}

/// From the first thread's start to the last one's end.
fn seconds(outcomes: &[Outcome]) -> f64 {
    let worked = outcomes.iter().filter(|outcome| outcome.counts.packets > 0);
    let start_ns = worked.clone().map(|outcome| outcome.start_ns).min().unwrap_or(0);
    let end_ns = worked.map(|outcome| outcome.end_ns).max().unwrap_or(0);
    end_ns.saturating_sub(start_ns) as f64 / 1e9
}
