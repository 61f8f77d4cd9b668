//! What is said about ports: a peer that comes and goes all the time cannot flood whatever keeps the lines.

use std::collections::BTreeMap;

use linerate_measure::{Rate, TokenBucket};
use linerate_sys::clock;

/// Lines about one port: so many at once, and one a second.
const LINES: Rate = Rate { per_second: 1, burst: 10 };
/// A port that nothing was said about for this long has all its lines again.
const FORGET_NS: u64 = 60_000_000_000;

/// Says what happens to ports.
pub(crate) struct EventLog {
    say: Box<dyn Fn(&str) + Send>,
    /// By name. Names may be those of connections, of which there is no end: they are forgotten.
    ports: BTreeMap<String, Lines>,
    forget_at_ns: u64,
}

struct Lines {
    left: TokenBucket,
    /// Lines that were not said since the last that was.
    left_out: u64,
    last_ns: u64,
}

impl EventLog {
    pub(crate) fn new(say: Box<dyn Fn(&str) + Send>) -> EventLog {
        EventLog { say, ports: BTreeMap::new(), forget_at_ns: 0 }
    }

    /// Says a line about a port, or counts it if there were too many.
    pub(crate) fn note(&mut self, port: &str, what: &str) {
        self.note_at(port, what, clock::now_ns());
    }

    fn note_at(&mut self, port: &str, what: &str, now_ns: u64) {
        if now_ns >= self.forget_at_ns {
            self.ports.retain(|_, lines| now_ns.saturating_sub(lines.last_ns) < FORGET_NS);
            self.forget_at_ns = now_ns + FORGET_NS;
        }
        let fresh = || Lines { left: TokenBucket::new(LINES), left_out: 0, last_ns: now_ns };
        let lines = self.ports.entry(port.to_owned()).or_insert_with(fresh);
        lines.last_ns = now_ns;
        lines.left.fill(now_ns);
        if !lines.left.take(1) {
            lines.left_out += 1;
            return;
        }
        match std::mem::take(&mut lines.left_out) {
            0 => (self.say)(&format!("port {port}: {what}")),
            left_out => {
                (self.say)(&format!("port {port}: {what} ({left_out} lines about it before this one left out)"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_port_that_flaps_is_cut_short_and_others_are_not() {
        let (sender, said) = mpsc::channel();
        let mut log = EventLog::new(Box::new(move |line| sender.send(line.to_owned()).unwrap()));
        const S: u64 = 1_000_000_000;
        for step in 0..1000 {
            log.note_at("a", "its link is up", 5 * S + step);
        }
        log.note_at("b", "broke", 5 * S + 2000);
        log.note_at("a", "its link is up", 6 * S + 2000);
        let lines: Vec<String> = said.try_iter().collect();
        assert_eq!(lines.len(), 12);
        assert!(lines[..10].iter().all(|line| line == "port a: its link is up"));
        assert_eq!(lines[10], "port b: broke");
        assert_eq!(lines[11], "port a: its link is up (990 lines about it before this one left out)");
        log.note_at("c", "broke", 200 * S);
        assert_eq!(log.ports.len(), 1, "those of long ago are forgotten");
    }
}
