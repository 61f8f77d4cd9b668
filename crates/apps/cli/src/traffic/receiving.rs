//! The threads of `linerate receive`: one that counts, and the main one that knows when it is over.

use linerate_gen::Receiver;
use linerate_lab::run::{self, Control, ReceiveEnd};
use linerate_mem::Pool;
use linerate_port::Port;
use linerate_sys::{clock, signal};

use super::cores;
use super::progress::{Progress, Snapshot};

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

/// How often the main thread looks.
const LOOK_NS: u64 = 5_000_000;

/// Counts what arrives on the ports until it is over; returns the time that it took.
///
/// # Errors
/// The counting thread did not come to its end.
pub fn run(
    ports: &mut [Box<dyn Port>],
    receiver: &mut Receiver,
    pool: &Pool,
    core: Option<usize>,
    ends: Ends,
    quiet: bool,
) -> Result<(ReceiveEnd, EndedBy, u64), String> {
    let control = Control::default();
    let start_ns = clock::now_ns();
    let (end, ended_by) = std::thread::scope(|scope| {
        let counting = scope.spawn(|| {
            cores::pin(core);
            run::receive(ports, receiver, pool, &control, &mut |_| {})
        });
        let mut progress = Progress::new(quiet, start_ns);
        let mut watch = Watch { ends, start_ns, seen: 0, since_ns: start_ns };
        let mut ended_by = None;
        while ended_by.is_none() && !counting.is_finished() {
            let now_ns = clock::now_ns();
            progress.tick(now_ns, || Snapshot { sent: None, received: Some(control.meter.read()) });
            ended_by = watch.look(now_ns, control.meter.read().packets);
            clock::sleep_until_ns(now_ns + LOOK_NS);
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
}
