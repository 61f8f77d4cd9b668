//! A run until it is stopped: one thread moves packets, the main one shows progress and knows when it is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linerate_sys::{clock, signal};
use linerate_worker::Control;

use super::cores;
use super::live::Live;
use super::notify::NotifyOnDrop;

/// When a run is over, besides at Ctrl-C and when nothing can come any more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// So many packets have arrived.
    pub expected: Option<u64>,
    /// This much time has passed.
    pub duration_ns: Option<u64>,
    /// Packets have arrived, and then none for this long.
    pub idle_ns: Option<u64>,
}

/// Why it was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndedBy {
    /// The expected number arrived.
    Count,
    /// The time was over.
    Time,
    /// Nothing arrived any more.
    Idle,
    /// A signal, or a reader that went away.
    Signal,
    /// All ports are at their end.
    Ports,
    /// A port broke.
    Error,
}

/// How often the main thread looks. Each look costs some 20 us of a core, as much as a thousand packets; a signal ends the other
/// thread, and that wakes this one.
const LOOK_NS: u64 = 200_000_000;
/// The same where the number of packets, or a pause in them, ends the run.
const LOOK_CLOSELY_NS: u64 = 5_000_000;

/// How a run is watched.
#[derive(Clone, Copy, Debug, Default)]
pub struct WatchOptions {
    /// Core of the thread that moves packets.
    pub core: Option<usize>,
    /// When it is over.
    pub ends: Ends,
    /// No progress.
    pub quiet: bool,
}

/// Does `work` on a thread of its own until it returns; asks it to stop, by its controls, at a signal and when the run is over. `line`
/// makes the progress of the seconds that it is given. Returns what `work` does, why it ended (`Ports` if it ended by itself), and how
/// long it took in nanoseconds.
///
/// # Errors
/// The thread did not come to its end.
pub fn watch<T: Send>(
    options: WatchOptions,
    controls: &[Control],
    line: &mut dyn FnMut(f64) -> String,
    work: impl FnOnce() -> T + Send,
) -> Result<(T, EndedBy, u64), String> {
    let start_ns = clock::now_ns();
    let (watcher, done) = (std::thread::current(), AtomicBool::new(false));
    let (end, ended_by) = std::thread::scope(|scope| {
        let moving = scope.spawn(|| {
            cores::pin(options.core);
            let _notify = NotifyOnDrop { watcher: &watcher, done: &done };
            work()
        });
        let mut live = Live::new(options.quiet, start_ns);
        let mut watch = Watch { ends: options.ends, start_ns, seen: 0, since_ns: start_ns };
        let ended_by = loop {
            // Asked first: what ended the other thread is then seen by the look.
            let is_done = done.load(Ordering::Acquire);
            let now_ns = clock::now_ns();
            live.tick(now_ns, &mut *line);
            let ended_by = watch.look(now_ns, controls.iter().map(|control| control.meter.read().packets).sum());
            if is_done || ended_by.is_some() {
                break ended_by;
            }
            std::thread::park_timeout(Duration::from_nanos(watch.until_next_look_ns(now_ns)));
        };
        controls.iter().for_each(Control::stop);
        let end = moving.join().map_err(|_| "the thread that moves packets failed".to_string())?;
        Ok::<_, String>((end, ended_by.unwrap_or(EndedBy::Ports)))
    })?;
    Ok((end, ended_by, clock::now_ns() - start_ns))
}

struct Watch {
    ends: Ends,
    start_ns: u64,
    seen: u64,
    /// When `seen` last changed.
    since_ns: u64,
}

impl Watch {
    fn look(&mut self, now_ns: u64, packets: u64) -> Option<EndedBy> {
        if packets != self.seen {
            (self.seen, self.since_ns) = (packets, now_ns);
        }
        let Ends { expected, duration_ns, idle_ns } = self.ends;
        if signal::stop_requested() {
            return Some(EndedBy::Signal);
        }
        if expected.is_some_and(|expected| packets >= expected) {
            return Some(EndedBy::Count);
        }
        if duration_ns.is_some_and(|duration_ns| now_ns - self.start_ns >= duration_ns) {
            return Some(EndedBy::Time);
        }
        let idle = idle_ns.is_some_and(|idle_ns| packets > 0 && now_ns - self.since_ns >= idle_ns);
        idle.then_some(EndedBy::Idle)
    }

    /// Time to sleep before the next look.
    fn until_next_look_ns(&self, now_ns: u64) -> u64 {
        let closely = self.ends.expected.is_some() || self.ends.idle_ns.is_some();
        let left_ns =
            self.ends.duration_ns.map_or(u64::MAX, |duration_ns| (self.start_ns + duration_ns).saturating_sub(now_ns));
        left_ns.min(if closely { LOOK_CLOSELY_NS } else { LOOK_NS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_it_was_asked_to() {
        let ends = Ends { expected: Some(10), duration_ns: Some(1_000), idle_ns: Some(100) };
        let mut watch = Watch { ends, start_ns: 0, seen: 0, since_ns: 0 };
        assert_eq!(watch.look(500, 0), None, "before the first packet nothing is idle");
        assert_eq!(watch.look(510, 3), None);
        assert_eq!(watch.look(609, 3), None);
        assert_eq!(watch.look(610, 3), Some(EndedBy::Idle));
        assert_eq!(watch.look(620, 10), Some(EndedBy::Count));
        assert_eq!(watch.look(1_000, 9), Some(EndedBy::Time));
    }

    #[test]
    fn it_looks_as_often_as_its_end_needs() {
        let sleep = |ends, now_ns| Watch { ends, start_ns: 100, seen: 0, since_ns: 100 }.until_next_look_ns(now_ns);
        assert_eq!(sleep(Ends::default(), 7), LOOK_NS);
        assert_eq!(sleep(Ends { expected: Some(1), ..Ends::default() }, 7), LOOK_CLOSELY_NS);
        let timed = Ends { duration_ns: Some(1_000_000), ..Ends::default() };
        assert_eq!((sleep(timed, 600_100), sleep(timed, 2_000_000)), (400_000, 0));
    }
}
