//! What arrived when: the counts of a receiver, the time that they took, and what follows if nothing arrives.

use super::counts::Counts;
use super::worker::Outcome;
use crate::diag;

/// Time for which packets that wait in the port are still taken after a stop was asked for.
pub const DRAIN_NS: u64 = 50_000_000;
/// Silence after which `-W` ends the run.
const SILENCE_NS: u64 = 1_000_000_000;
/// Time between two lines that say that nothing has come yet.
const WAITING_NS: u64 = 1_000_000_000;

/// The account of one receiving thread. Times are those of `linerate_sys::clock`.
pub struct Arrivals {
    /// What arrived.
    pub counts: Counts,
    ends_in_silence: bool,
    first_ns: Option<u64>,
    last_ns: u64,
    said_waiting_ns: u64,
    silent: bool,
}

impl Arrivals {
    /// An account that begins at `now_ns`. Silence after packets ends the run if `ends_in_silence` says so.
    pub fn new(ends_in_silence: bool, now_ns: u64) -> Arrivals {
        let counts = Counts::default();
        Arrivals { counts, ends_in_silence, first_ns: None, last_ns: now_ns, said_waiting_ns: now_ns, silent: false }
    }

    /// Adds packets that arrived at `now_ns`.
    #[inline]
    pub fn add(&mut self, counts: &Counts, now_ns: u64) {
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = now_ns;
        self.counts = self.counts.plus(counts);
    }

    /// True once a packet has arrived.
    pub fn have_begun(&self) -> bool {
        self.first_ns.is_some()
    }

    /// True if silence followed, which ends the run.
    pub fn are_over(&self) -> bool {
        self.silent
    }

    /// When [`Arrivals::tick`] is to be called; `u64::MAX` if there is no need.
    #[inline]
    pub fn next_deadline_ns(&self) -> u64 {
        match self.first_ns {
            None => self.said_waiting_ns + WAITING_NS,
            Some(_) if self.ends_in_silence => self.last_ns + SILENCE_NS,
            Some(_) => u64::MAX,
        }
    }

    /// The deadline is over: there is silence, or still no packet, which a line says.
    pub fn tick(&mut self, now_ns: u64) {
        if self.first_ns.is_some() {
            self.silent = true;
        } else {
            self.said_waiting_ns = now_ns;
            diag!("receiver_body", "waiting for initial packets, poll returns 0 0");
        }
    }

    /// Puts the account into the outcome. The time runs from the first packet to the last one, or to the end when packets kept coming.
    pub fn into_outcome(self, outcome: Outcome) -> Outcome {
        let start_ns = self.first_ns.unwrap_or(outcome.start_ns);
        let end_ns =
            if outcome.end_ns.saturating_sub(self.last_ns) >= SILENCE_NS { self.last_ns } else { outcome.end_ns };
        Outcome { counts: self.counts, start_ns, end_ns, ..outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn some() -> Counts {
        Counts { packets: 3, bytes: 180, events: 1 }
    }

    #[test]
    fn silence_ends_a_run_that_asks_for_it_once_packets_came() {
        for (ends_in_silence, deadline_ns) in [(true, 7 * SECOND_NS), (false, u64::MAX)] {
            let mut arrivals = Arrivals::new(ends_in_silence, 5);
            assert_eq!(arrivals.next_deadline_ns(), 5 + SECOND_NS);
            arrivals.tick(5 + SECOND_NS);
            assert!(!arrivals.are_over() && !arrivals.have_begun());
            assert_eq!(arrivals.next_deadline_ns(), 5 + 2 * SECOND_NS);
            arrivals.add(&some(), 4 * SECOND_NS);
            arrivals.add(&some(), 6 * SECOND_NS);
            assert!(arrivals.have_begun() && arrivals.next_deadline_ns() == deadline_ns);
            arrivals.tick(7 * SECOND_NS);
            assert!(arrivals.are_over());
            let outcome = arrivals.into_outcome(Outcome { end_ns: 7 * SECOND_NS, ..Outcome::default() });
            assert_eq!((outcome.start_ns, outcome.end_ns), (4 * SECOND_NS, 6 * SECOND_NS));
            assert_eq!((outcome.counts.packets, outcome.counts.events), (6, 2));
        }
    }

    #[test]
    fn packets_that_kept_coming_took_the_time_to_the_end() {
        let mut arrivals = Arrivals::new(true, 5);
        arrivals.add(&some(), 4 * SECOND_NS);
        let outcome = arrivals.into_outcome(Outcome { end_ns: 4 * SECOND_NS + 7, ..Outcome::default() });
        assert_eq!((outcome.start_ns, outcome.end_ns), (4 * SECOND_NS, 4 * SECOND_NS + 7));
        let outcome = Arrivals::new(true, 5).into_outcome(Outcome { start_ns: 5, end_ns: 9, ..Outcome::default() });
        assert_eq!((outcome.start_ns, outcome.end_ns), (5, 9));
    }
}
