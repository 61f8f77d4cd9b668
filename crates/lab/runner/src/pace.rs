//! How long an experiment will go on: as estimated, by how the estimate has held so far.

use std::time::Instant;

use linerate_report::Results;

use super::plan::Plan;

/// Weight of the experiment's own estimate against the time that was measured: a share of the whole.
const ESTIMATE_SHARE: f64 = 0.2;

/// How fast findings come.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    start: Instant,
    /// Findings there at the start.
    found: usize,
}

impl Pace {
    /// Begins now, with findings of an earlier run.
    pub(super) fn start(found: usize) -> Self {
        Self { start: Instant::now(), found }
    }

    /// Time to come until what the experiment asks for is found, in nanoseconds.
    pub(super) fn left_ns(&self, plan: &Plan<'_>, results: &Results) -> u64 {
        let (expected, found) = (plan.expected_ns(), plan.found(results));
        let sum = |from: usize, to: usize| expected.iter().take(to).skip(from).sum::<u64>();
        left_ns(self.start.elapsed().as_nanos() as f64, sum(self.found, found), sum(found, expected.len()))
    }
}

/// Time to come for work that is expected to take `left_ns`, where `done_ns` were expected and `elapsed_ns` were taken.
fn left_ns(elapsed_ns: f64, done_ns: u64, left_ns: u64) -> u64 {
    let (done_ns, left_ns) = (done_ns as f64, left_ns as f64);
    let trust_ns = ESTIMATE_SHARE * (done_ns + left_ns);
    // Before the first finding there is nothing to compare with.
    let elapsed_ns = if done_ns > 0.0 { elapsed_ns } else { 0.0 };
    (left_ns * (elapsed_ns + trust_ns) / (done_ns + trust_ns).max(1.0)) as u64
}

#[cfg(test)]
mod tests {
    use super::left_ns;

    #[test]
    fn the_estimate_holds_first_and_the_measured_pace_later() {
        let second = 1_000_000_000;
        assert_eq!(left_ns(3e9, 0, 40 * second), 40 * second, "nothing is found yet");
        assert_eq!(left_ns(10e9, 10 * second, 30 * second), 30 * second, "all goes as expected");
        // One finding of ten that took three times as long does not treble the rest.
        let after_one = left_ns(12e9, 4 * second, 36 * second) / second;
        assert!((50..70).contains(&after_one), "{after_one}");
        // In the end what was measured counts for most.
        let late = left_ns(72e9, 36 * second, 4 * second) as f64 / 1e9;
        assert!((7.0..8.0).contains(&late), "{late}");
        assert_eq!(left_ns(40e9, 40 * second, 0), 0);
        assert_eq!(left_ns(1e9, 0, 0), 0);
    }
}
