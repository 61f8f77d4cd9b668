//! From the times of probes on the cards' clocks to latencies, and how wrong these may be.

use linerate_gen::Histogram;
use linerate_report::Probes;
use linerate_sys::ptp::{ClockMap, MapError};

use super::exchange::{Exchanged, TIMEOUT_NS};

/// Latencies of the probes of one direction.
#[derive(Debug)]
pub(super) struct Evaluated {
    pub(super) latencies: Histogram,
    pub(super) probes: Probes,
    /// By how much each may be wrong because of the clocks.
    pub(super) error_ns: u64,
}

/// Turns times into latencies. `same_clock`: both ends have one clock, whose readings then only show that nobody set it.
///
/// # Errors
/// A clock was set meanwhile, or was read too seldom.
pub(super) fn evaluate(exchanged: Exchanged, same_clock: bool) -> Result<Evaluated, MapError> {
    let Exchanged { times, readings, mut probes, .. } = exchanged;
    let [sender, receiver] = readings.map(ClockMap::new);
    let (sender, receiver) = (sender?, receiver?);
    let error_ns = if same_clock { 0 } else { sender.error_ns().saturating_add(receiver.error_ns()) };
    let mut latencies = Histogram::default();
    for (sent_ns, received_ns) in times {
        let latency_ns = match same_clock {
            true => received_ns.checked_sub(sent_ns),
            false => sender
                .system_ns(sent_ns)
                .zip(receiver.system_ns(received_ns))
                .and_then(|(sent, received)| received.checked_sub(sent)),
        };
        match latency_ns.and_then(|latency_ns| possible(latency_ns, error_ns)) {
            Some(latency_ns) => latencies.record(latency_ns),
            None => probes.rejected += 1,
        }
    }
    Ok(Evaluated { latencies, probes, error_ns })
}

/// Nothing arrives before it was sent, or later than it was waited for.
fn possible(latency_ns: i64, error_ns: u64) -> Option<u64> {
    let error_ns = i64::try_from(error_ns).unwrap_or(i64::MAX);
    let last_ns = (TIMEOUT_NS as i64).saturating_add(error_ns);
    (latency_ns >= -error_ns && latency_ns <= last_ns).then_some(latency_ns.max(0) as u64)
}

#[cfg(test)]
mod tests {
    use linerate_sys::ptp::Reading;

    use super::*;

    const MS: i64 = 1_000_000;

    /// Readings each 100 ms of a clock that is ahead and fast.
    fn readings(ahead_ns: i64, ppm: i64, error_ns: u64) -> Vec<Reading> {
        let reading = |number: i64| {
            let system_ns = number * 100 * MS;
            Reading { clock_ns: on(ahead_ns, ppm, system_ns), system_ns, error_ns }
        };
        (0..20).map(reading).collect()
    }

    fn on(ahead_ns: i64, ppm: i64, system_ns: i64) -> i64 {
        system_ns + ahead_ns + system_ns / 1_000_000 * ppm
    }

    /// Probes each 10 ms that take 30 us.
    fn exchanged(receiver: (i64, i64)) -> Exchanged {
        let sent = |number: i64| (200 + number * 10) * MS;
        let time = |number| (on(5 * MS, 40, sent(number)), on(receiver.0, receiver.1, sent(number) + 30_000));
        Exchanged {
            times: (0..100).map(time).collect(),
            readings: [readings(5 * MS, 40, 150), readings(receiver.0, receiver.1, 250)],
            probes: Probes { sent: 100, ..Probes::default() },
            error: None,
        }
    }

    #[test]
    fn two_clocks_that_drift_apart_give_the_latency_to_the_error_that_is_stated() {
        for receiver in [(-7_000 * MS, -60), (37_000 * MS, 90), (5 * MS, 40)] {
            let found = evaluate(exchanged(receiver), false).unwrap();
            assert_eq!(found.probes, Probes { sent: 100, ..Probes::default() });
            assert!((400..=410).contains(&found.error_ns), "{}", found.error_ns);
            let extremes = [found.latencies.min_ns().unwrap(), found.latencies.max_ns().unwrap()];
            assert!(extremes.iter().all(|ns| ns.abs_diff(30_000) <= 5), "{extremes:?}");
        }
    }

    #[test]
    fn one_clock_has_no_error_and_a_clock_that_was_set_gives_no_latency() {
        let found = evaluate(exchanged((5 * MS, 40)), true).unwrap();
        assert_eq!((found.error_ns, found.latencies.count()), (0, 100));
        for end in [0, 1] {
            let mut jumped = exchanged((5 * MS, 40));
            jumped.readings[end][12..].iter_mut().for_each(|reading| reading.clock_ns += 3 * MS);
            assert_eq!(evaluate(jumped, end == 0).unwrap_err(), MapError::Jumped);
        }
        let few = Exchanged { readings: [Vec::new(), Vec::new()], ..exchanged((0, 0)) };
        assert_eq!(evaluate(few, true).unwrap_err(), MapError::TooFew);
    }

    #[test]
    fn times_that_cannot_be_are_left_out_and_counted() {
        let mut wrong = exchanged((5 * MS, 40));
        // Before it was sent, by more than the clocks may be wrong and by less; far too late; outside the readings; beyond all numbers.
        wrong.times[0].1 = wrong.times[0].0 - 1_000;
        wrong.times[1].1 = wrong.times[1].0 - 200;
        wrong.times[2].1 += 200 * MS;
        wrong.times[3] = (0, 30_000);
        wrong.times[4] = (i64::MIN, i64::MAX);
        let found = evaluate(wrong, false).unwrap();
        assert_eq!(found.probes, Probes { sent: 100, rejected: 4, ..Probes::default() });
        assert_eq!((found.latencies.count(), found.latencies.min_ns()), (96, Some(0)));
    }
}
