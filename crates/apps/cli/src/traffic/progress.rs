//! Live counts, once a second, on stderr: one line that is written over on a terminal, a line each where there is none.

use std::io::{IsTerminal, Write};

use linerate_lab::run::MeterReading;
use linerate_report::units::{bps, count, pps};

/// What a packet occupies on the link beyond its bytes in memory: FCS, preamble, start delimiter and gap.
const L1_EXTRA_BYTES: f64 = 24.0;

/// Shows live counts.
pub struct Progress {
    shown: bool,
    terminal: bool,
    start_ns: u64,
    next_ns: u64,
    before: Snapshot,
    before_ns: u64,
    /// A line without its end is on the terminal.
    open_line: bool,
}

/// Counts of all senders and of all receivers at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// Sent, if anything sends.
    pub sent: Option<MeterReading>,
    /// Received, if anything receives.
    pub received: Option<MeterReading>,
}

impl Snapshot {
    /// The sum of several readings.
    pub fn sum(readings: impl Iterator<Item = MeterReading>) -> MeterReading {
        readings.fold(MeterReading::default(), |sum, one| MeterReading {
            packets: sum.packets + one.packets,
            bytes: sum.bytes + one.bytes,
            batches: sum.batches + one.batches,
            lost: sum.lost + one.lost,
        })
    }
}

/// Time between two lines.
const EVERY_NS: u64 = 1_000_000_000;

impl Progress {
    /// Live counts from `start_ns` on; with `quiet`, none.
    pub fn new(quiet: bool, start_ns: u64) -> Progress {
        Progress {
            shown: !quiet,
            terminal: std::io::stderr().is_terminal(),
            start_ns,
            next_ns: start_ns + EVERY_NS,
            before: Snapshot::default(),
            before_ns: start_ns,
            open_line: false,
        }
    }

    /// Shows a line if one is due; `read` is called only then.
    pub fn tick(&mut self, now_ns: u64, read: impl FnOnce() -> Snapshot) {
        if !self.shown || now_ns < self.next_ns {
            return;
        }
        let snapshot = read();
        let line = self.line(now_ns, &snapshot);
        let text = if self.terminal { format!("\r{line}\x1b[K") } else { format!("{line}\n") };
        let mut stderr = std::io::stderr().lock();
        // A closed stderr is no reason to stop.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
        self.open_line = self.terminal;
        (self.before, self.before_ns) = (snapshot, now_ns);
        while self.next_ns <= now_ns {
            self.next_ns += EVERY_NS;
        }
    }

    fn line(&self, now_ns: u64, snapshot: &Snapshot) -> String {
        let seconds = (now_ns - self.start_ns) as f64 / 1e9;
        let mut line = format!("{seconds:5.1} s");
        let span = (now_ns - self.before_ns).max(1) as f64 / 1e9;
        let mut add = |word: &str, now: Option<MeterReading>, before: Option<MeterReading>| {
            let Some(now) = now else { return };
            let before = before.unwrap_or_default();
            let packets = (now.packets - before.packets) as f64;
            let bytes = (now.bytes - before.bytes) as f64;
            let l1_bps = (bytes + L1_EXTRA_BYTES * packets) * 8.0 / span;
            line += &format!("  {word} {} ({}, L1 {})", count(now.packets), pps(packets / span), bps(l1_bps));
        };
        add("sent", snapshot.sent, self.before.sent);
        add("received", snapshot.received, self.before.received);
        if let Some(received) = snapshot.received {
            line += &format!("  lost {}", count(received.lost));
        }
        line
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.open_line {
            super::note("");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rates_of_the_last_second() {
        let reading = |packets: u64, lost: u64| MeterReading { packets, bytes: packets * 60, batches: 1, lost };
        let mut progress = Progress::new(true, 0);
        progress.before = Snapshot { sent: Some(reading(1_000, 0)), received: Some(reading(900, 0)) };
        progress.before_ns = 1_000_000_000;
        let now = Snapshot { sent: Some(reading(3_000, 0)), received: Some(reading(1_900, 7)) };
        assert_eq!(
            progress.line(2_000_000_000, &now),
            "  2.0 s  sent 3,000 (2.000 kpps, L1 1.344 Mbit/s)  received 1,900 (1.000 kpps, L1 672.0 kbit/s)  lost 7"
        );
    }
}
