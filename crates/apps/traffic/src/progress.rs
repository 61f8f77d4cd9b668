//! Live counts of senders and receivers, once a second, on stderr.

use linerate_units::show::{bps, count, pps};
use linerate_worker::MeterReading;

use linerate_console::live::Live;

/// What a packet occupies on the link beyond its bytes in memory: FCS, preamble, start delimiter and gap.
const L1_EXTRA_BYTES: f64 = 24.0;

/// Shows live counts.
pub struct Progress {
    live: Live,
    before: Snapshot,
}

/// Counts of all senders and of all receivers at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// Sent, if anything sends.
    pub sent: Option<MeterReading>,
    /// Received, if anything receives.
    pub received: Option<MeterReading>,
    /// Several threads receive, each a part of a stream's numbers, so what is missing is known at the end only.
    pub queues_divide: bool,
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

impl Progress {
    /// Live counts from `start_ns` on; with `quiet`, none.
    pub fn new(quiet: bool, start_ns: u64) -> Progress {
        Progress { live: Live::new(quiet, start_ns), before: Snapshot::default() }
    }

    /// Shows a line if one is due; `read` is called only then.
    pub fn tick(&mut self, now_ns: u64, read: impl FnOnce() -> Snapshot) {
        let before = &mut self.before;
        self.live.tick(now_ns, |seconds| {
            let snapshot = read();
            let line = line(before, &snapshot, seconds);
            *before = snapshot;
            line
        });
    }
}

/// What happened in the `seconds` between two snapshots.
pub fn line(before: &Snapshot, now: &Snapshot, seconds: f64) -> String {
    let mut line = String::new();
    let mut add = |word: &str, now: Option<MeterReading>, before: Option<MeterReading>| {
        let Some(now) = now else { return };
        let before = before.unwrap_or_default();
        let packets = (now.packets - before.packets) as f64;
        let bytes = (now.bytes - before.bytes) as f64;
        let l1_bps = (bytes + L1_EXTRA_BYTES * packets) * 8.0 / seconds;
        line += &format!("  {word} {} ({}, L1 {})", count(now.packets), pps(packets / seconds), bps(l1_bps));
    };
    add("sent", now.sent, before.sent);
    add("received", now.received, before.received);
    if let Some(received) = now.received.filter(|_| !now.queues_divide) {
        line += &format!("  lost {}", count(received.lost));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rates_of_the_last_second() {
        let reading = |packets: u64, lost: u64| MeterReading { packets, bytes: packets * 60, batches: 1, lost };
        let before = Snapshot { sent: Some(reading(1_000, 0)), received: Some(reading(900, 0)), queues_divide: false };
        let now = Snapshot { sent: Some(reading(3_000, 0)), received: Some(reading(1_900, 7)), queues_divide: false };
        assert_eq!(
            line(&before, &now, 1.0),
            "  sent 3,000 (2.000 kpps, L1 1.344 Mbit/s)  received 1,900 (1.000 kpps, L1 672.0 kbit/s)  lost 7"
        );
    }
}
