//! Threads of a tool that runs until it is stopped: one moves packets, the main one shows progress and knows when it is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linerate_report::units::{count, pps};
use linerate_sys::{clock, signal};
use linerate_worker::{Control, MeterReading};

use crate::traffic::cores;
use crate::traffic::live::Live;
use crate::traffic::receiving::EndedBy;
use crate::traffic::telling::Telling;

/// How often the main thread looks; a signal ends the other thread, and that wakes this one.
const LOOK_NS: u64 = 200_000_000;

/// How it is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Core of the thread that moves packets.
    pub core: Option<usize>,
    /// It ends after this time.
    pub duration_ns: Option<u64>,
    /// No progress.
    pub quiet: bool,
}

/// Does `work` on a thread of its own until it returns; asks it to stop, by its controls, at a signal and when the time is over.
/// Progress shows the packets of each control beside its name. Returns what `work` does, why it ended (`Ports` where neither
/// signal nor time did it), and how long it took in nanoseconds.
///
/// # Errors
/// The thread did not come to its end.
pub fn watch<T: Send>(
    manner: Manner,
    names: &[String],
    controls: &[Control],
    work: impl FnOnce() -> T + Send,
) -> Result<(T, EndedBy, u64), String> {
    let start_ns = clock::now_ns();
    let (watcher, done) = (std::thread::current(), AtomicBool::new(false));
    let mut ended_by = None;
    let end = std::thread::scope(|scope| {
        let moving = scope.spawn(|| {
            cores::pin(manner.core);
            let _telling = Telling { watcher: &watcher, done: &done };
            work()
        });
        let mut live = Live::new(manner.quiet, start_ns);
        let mut before: Vec<MeterReading> = vec![MeterReading::default(); controls.len()];
        while !done.load(Ordering::Acquire) {
            let now_ns = clock::now_ns();
            live.tick(now_ns, |seconds| line(names, controls, &mut before, seconds));
            let left_ns = manner.duration_ns.map_or(u64::MAX, |whole_ns| (start_ns + whole_ns).saturating_sub(now_ns));
            if signal::stop_requested() {
                ended_by = Some(EndedBy::Signal);
                break;
            }
            if left_ns == 0 {
                ended_by = Some(EndedBy::Time);
                break;
            }
            std::thread::park_timeout(Duration::from_nanos(left_ns.min(LOOK_NS)));
        }
        controls.iter().for_each(Control::stop);
        moving.join().map_err(|_| "the thread that moves packets failed".to_string())
    })?;
    let otherwise = if signal::stop_requested() { EndedBy::Signal } else { EndedBy::Ports };
    Ok((end, ended_by.unwrap_or(otherwise), clock::now_ns() - start_ns))
}

fn line(names: &[String], controls: &[Control], before: &mut [MeterReading], seconds: f64) -> String {
    let lanes = names.iter().zip(controls).zip(before).map(|((name, control), before)| {
        let now = control.meter.read();
        let rate_pps = (now.packets - before.packets) as f64 / seconds;
        *before = now;
        format!("  {name} {} ({})", count(now.packets), pps(rate_pps))
    });
    lanes.collect()
}
