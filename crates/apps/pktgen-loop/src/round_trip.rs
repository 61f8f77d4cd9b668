//! Which pings are under way, which replies came, and how long they took. No ports and no clock: times are arguments.

use std::fmt::Write;

use linerate_gen::Histogram;

/// Pings of which the replies are awaited at a time; of older ones a reply counts as missing.
const WINDOW: usize = 1 << 16;

#[derive(Clone, Copy)]
struct Entry {
    number: u64,
    scheduled_ns: u64,
    answered: bool,
}

/// The account of one `ping`.
pub struct RoundTrips {
    window: Vec<Entry>,
    sent: u64,
    replies: u64,
    duplicates: u64,
    unknown: u64,
    all: Histogram,
    second: Second,
}

/// What has come since the last report.
struct Second {
    count: u64,
    sum_ns: u64,
    least_ns: u64,
    by_power: [u64; 64],
}

impl Default for Second {
    fn default() -> Second {
        Second { count: 0, sum_ns: 0, least_ns: u64::MAX, by_power: [0; 64] }
    }
}

impl Default for RoundTrips {
    fn default() -> RoundTrips {
        let never = Entry { number: u64::MAX, scheduled_ns: 0, answered: true };
        RoundTrips {
            window: vec![never; WINDOW],
            sent: 0,
            replies: 0,
            duplicates: 0,
            unknown: 0,
            all: Histogram::default(),
            second: Second::default(),
        }
    }
}

impl RoundTrips {
    /// Notes that the next ping is sent, and when it was due; returns its number.
    pub fn send(&mut self, scheduled_ns: u64) -> u64 {
        let number = self.sent;
        self.window[number as usize % WINDOW] = Entry { number, scheduled_ns, answered: false };
        self.sent += 1;
        number
    }

    /// Takes back the last `count` pings, which the port did not take.
    pub fn unsend(&mut self, count: u64) {
        for _ in 0..count.min(self.sent) {
            self.sent -= 1;
            self.window[self.sent as usize % WINDOW].answered = true;
        }
    }

    /// Notes a reply to the ping whose number has these low 32 bits, and which was due at a time with these seconds and
    /// nanoseconds.
    pub fn reply(&mut self, low: u32, timestamp: (u32, u32), now_ns: u64) {
        let entry = &mut self.window[low as usize % WINDOW];
        if entry.number as u32 != low || entry.number >= self.sent || timestamp_of(entry.scheduled_ns) != timestamp {
            self.unknown += 1;
            return;
        }
        if std::mem::replace(&mut entry.answered, true) {
            self.duplicates += 1;
            return;
        }
        let took_ns = now_ns.saturating_sub(entry.scheduled_ns);
        self.replies += 1;
        self.all.record(took_ns);
        self.second.count += 1;
        self.second.sum_ns += took_ns;
        self.second.least_ns = self.second.least_ns.min(took_ns);
        self.second.by_power[took_ns.max(1).ilog2() as usize] += 1;
    }

    /// Pings whose reply has not come.
    pub fn missing(&self) -> u64 {
        self.sent - self.replies
    }

    /// The report of the time since the last one, and a fresh start; `None` when no reply came.
    pub fn report(&mut self) -> Option<String> {
        let second = std::mem::take(&mut self.second);
        (second.count > 0)
            .then(|| second_line(second.count, second.least_ns, second.sum_ns / second.count, &second.by_power))
    }

    /// The last lines: least and mean, percentiles, and what did not come back.
    pub fn totals(&self) -> Vec<String> {
        let RoundTrips { sent, replies, duplicates, unknown, .. } = self;
        let mut lines = Vec::new();
        if let (Some(least_ns), Some(mean_ns)) = (self.all.min_ns(), self.all.mean_ns()) {
            lines.push(format!("RTT over {replies} packets: min {least_ns} av {mean_ns:.0} ns"));
            let percentile = |percent| self.all.percentile_ns(percent).unwrap_or(0);
            lines.push(format!(
                "RTT percentiles: p50 {} p90 {} p99 {} p99.9 {} p99.99 {} max {} ns",
                percentile(50.0),
                percentile(90.0),
                percentile(99.0),
                percentile(99.9),
                percentile(99.99),
                self.all.max_ns().unwrap_or(0),
            ));
        }
        let missing = self.missing();
        lines.push(format!("{sent} sent, {replies} replies, {missing} missing, {duplicates} duplicated"));
        if *unknown > 0 {
            lines.push(format!("{unknown} replies came too late to be told from others"));
        }
        lines
    }
}

/// `ping`'s report of one second: count, least and mean round trip, then how many fell into each power of two.
fn second_line(count: u64, min_ns: u64, mean_ns: u64, by_power: &[u64; 64]) -> String {
    let mut text = format!("count {count} RTT: min {min_ns} av {mean_ns} ns");
    let Some(low) = by_power.iter().position(|count| *count > 0) else { return text };
    let high = by_power.iter().rposition(|count| *count > 0).unwrap_or(low);
    // Writing to a string cannot fail.
    let _ = write!(text, "\nk: {} .. {}\n\t", 1u64 << low, 1u64 << high);
    for count in &by_power[low..=high] {
        let _ = write!(text, " {count:>5}");
    }
    text
}

/// Seconds and nanoseconds of a time, as they stand in the packet.
pub fn timestamp_of(time_ns: u64) -> (u32, u32) {
    ((time_ns / 1_000_000_000) as u32, (time_ns % 1_000_000_000) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_show_their_powers_of_two() {
        let mut by_power = [0; 64];
        by_power[10] = 3;
        by_power[12] = 40;
        assert_eq!(
            second_line(43, 1100, 4200, &by_power),
            "count 43 RTT: min 1100 av 4200 ns\nk: 1024 .. 4096\n\t     3     0    40"
        );
        assert_eq!(second_line(0, 0, 0, &[0; 64]), "count 0 RTT: min 0 av 0 ns");
        by_power[63] = 1;
        assert!(second_line(44, 1, 1, &by_power).contains("1024 .. 9223372036854775808"));
    }

    #[test]
    fn means_are_over_replies_and_missing_ones_are_counted() {
        let mut trips = RoundTrips::default();
        for (number, due_ns) in [(0, 1_000), (1, 2_000), (2, 3_000), (3, 4_000)] {
            assert_eq!(trips.send(due_ns), number);
        }
        trips.reply(0, timestamp_of(1_000), 1_100);
        trips.reply(2, timestamp_of(3_000), 3_300);
        trips.reply(2, timestamp_of(3_000), 3_400);
        // A reply with the right number and another timestamp is not ours.
        trips.reply(1, timestamp_of(2_001), 2_500);
        trips.reply(77, timestamp_of(0), 2_500);
        assert_eq!(trips.missing(), 2);
        assert_eq!(
            trips.report().as_deref(),
            Some("count 2 RTT: min 100 av 200 ns\nk: 64 .. 256\n\t     1     0     1")
        );
        assert_eq!(trips.report(), None);
        let totals = trips.totals();
        assert_eq!(totals[0], "RTT over 2 packets: min 100 av 200 ns");
        assert!(totals[1].starts_with("RTT percentiles: p50 100 p90 300"), "{}", totals[1]);
        assert_eq!(totals[2], "4 sent, 2 replies, 2 missing, 1 duplicated");
        assert!(totals[3].starts_with("2 replies"));
    }

    #[test]
    fn what_was_not_sent_is_not_missing() {
        let mut trips = RoundTrips::default();
        (0..5).for_each(|number| {
            trips.send(number);
        });
        trips.unsend(3);
        assert_eq!((trips.sent, trips.missing()), (2, 2));
        trips.reply(4, timestamp_of(4), 9);
        assert_eq!(trips.totals().last().map(|line| line.starts_with('1')), Some(true));
    }

    #[test]
    fn old_pings_leave_the_window() {
        let mut trips = RoundTrips::default();
        (0..WINDOW as u64 + 1).for_each(|number| {
            trips.send(number);
        });
        trips.reply(0, timestamp_of(0), 10);
        assert_eq!(trips.missing(), WINDOW as u64 + 1);
        trips.reply(WINDOW as u32, timestamp_of(WINDOW as u64), WINDOW as u64 + 10);
        assert_eq!(trips.missing(), WINDOW as u64);
    }
}
