//! The threads of `linerate receive`: one that counts, and the main one that knows when it is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linerate_gen::Receiver;
use linerate_mem::Pool;
use linerate_port::Port;
use linerate_sys::{clock, signal};
use linerate_worker::{self as worker, Control, ReceiveEnd};

use super::cores;
use super::progress::{Progress, Snapshot};
use super::telling::Telling;

/// When receiving is over, besides at Ctrl-C and when all ports have ended.
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

/// How often the main thread looks. Each look costs some 20 us of a core, as much as a thousand packets; a signal ends the
/// counting thread, and that wakes this one.
const LOOK_NS: u64 = 200_000_000;
/// The same where the number of packets, or a pause in them, ends it.
const LOOK_CLOSELY_NS: u64 = 5_000_000;

/// Counts what arrives on the ports until it is over; returns the time that it took.
///
/// # Errors
/// The counting thread did not come to its end.
pub fn run(
    ports: &mut Vec<Box<dyn Port>>,
    receiver: &mut Receiver,
    pool: &Pool,
    core: Option<usize>,
    ends: Ends,
    quiet: bool,
) -> Result<(ReceiveEnd, EndedBy, u64), String> {
    let control = Control::default();
    let start_ns = clock::now_ns();
    let (watcher, done) = (std::thread::current(), AtomicBool::new(false));
    let (end, ended_by) = std::thread::scope(|scope| {
        let counting = scope.spawn(|| {
            cores::pin(core);
            let _telling = Telling { watcher: &watcher, done: &done };
            worker::receive(ports, receiver, pool, &control, &mut |_| {})
        });
        let mut progress = Progress::new(quiet, start_ns);
        let mut watch = Watch { ends, start_ns, seen: 0, since_ns: start_ns };
        let mut ended_by;
        loop {
            // Asked first: what ended the counting is then seen by the look.
            let counted = done.load(Ordering::Acquire);
            let now_ns = clock::now_ns();
            progress.tick(now_ns, || Snapshot { sent: None, received: Some(control.meter.read()) });
            ended_by = watch.look(now_ns, control.meter.read().packets);
            if counted || ended_by.is_some() {
                break;
            }
            std::thread::park_timeout(Duration::from_nanos(watch.until_next_look_ns(now_ns)));
        }
        control.stop();
        let end = counting.join().map_err(|_| "the receiving thread failed".to_string())?;
        let last_word = if end.error.is_some() { EndedBy::Error } else { EndedBy::Ports };
        let ended_by = if end.error.is_some() { last_word } else { ended_by.unwrap_or(last_word) };
        Ok::<_, String>((end, ended_by))
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
