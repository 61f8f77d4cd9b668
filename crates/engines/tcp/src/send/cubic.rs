//! CUBIC (RFC 9438): the congestion window as a cubic function of the time since the last reduction. Windows are in segments here, as
//! in the RFC, and times in seconds.

/// The constant C of RFC 9438 section 5, in segments per cubic second.
const C: f64 = 0.4;
/// The factor of a reduction (beta_cubic).
const BETA: f64 = 0.7;
/// alpha_cubic of the Reno-friendly region (section 4.3): what gives Reno's average window with CUBIC's factor.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// CUBIC's state of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cubic {
    /// Window just before the last reduction, less if fast convergence made it so (W_max).
    w_max: f64,
    /// Window that Reno would have (W_est).
    w_est: f64,
    /// Window at the last reduction (cwnd_prior).
    w_prior: f64,
    /// Time from the beginning of the epoch to W_max (K).
    k: f64,
    /// Beginning of the congestion avoidance stage in nanoseconds; 0 if none has begun.
    epoch_ns: u64,
    /// The last acknowledgment of this stage.
    seen_ns: u64,
    /// The last reduction was a time-out: the next stage begins on its own plateau (section 4.8).
    timed_out: bool,
    /// Part of a byte that the window grew, kept for the next acknowledgment.
    remainder: f64,
}

/// What an acknowledgment in congestion avoidance brings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Bytes of a segment.
    pub mss: u32,
    /// Bytes that were acknowledged.
    pub acked: u32,
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: u32,
    /// Nanoseconds of the clock, not 0.
    pub now_ns: u64,
    /// The congestion window, rather than the application or the peer, held the sender back.
    pub is_limited: bool,
}

impl Cubic {
    /// The slow start threshold in bytes after a congestion event with window `cwnd` (sections 4.6 and 4.7).
    pub fn reduce(&mut self, cwnd: u32, mss: u32) -> u32 {
        let window = f64::from(cwnd) / f64::from(mss);
        // Fast convergence: a flow that lost before it was back at its last maximum makes room for others.
        self.w_max = if window < self.w_max { window * (1.0 + BETA) / 2.0 } else { window };
        self.w_prior = window;
        self.epoch_ns = 0;
        self.timed_out = false;
        ((f64::from(cwnd) * BETA) as u32).max(2 * mss)
    }

    /// As [`Cubic::reduce`], after a retransmission time-out (section 4.8).
    pub fn reduce_after_timeout(&mut self, cwnd: u32, mss: u32) -> u32 {
        let ssthresh = self.reduce(cwnd, mss);
        self.timed_out = true;
        ssthresh
    }

    /// Bytes by which the window grows in congestion avoidance (sections 4.2 to 4.5).
    pub fn grow(&mut self, growth: Growth) -> u32 {
        let Growth { cwnd, mss, acked, srtt_us, now_ns, is_limited } = growth;
        let window = f64::from(cwnd) / f64::from(mss);
        if self.epoch_ns == 0 {
            self.begin(window, now_ns);
        }
        // Time in which the window did not hold the sender back does not count (section 5.8).
        let passed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.seen_ns, now_ns));
        if !is_limited {
            self.epoch_ns += passed_ns;
            return 0;
        }
        let acked = f64::from(acked) / f64::from(mss);
        let alpha = if self.w_est >= self.w_prior { 1.0 } else { ALPHA };
        self.w_est += alpha * acked / window;
        let since = seconds(now_ns.saturating_sub(self.epoch_ns));
        let more = if self.window_at(since) < self.w_est {
            // The Reno-friendly region.
            (self.w_est - window).max(0.0)
        } else {
            let target = self.window_at(since + f64::from(srtt_us) / 1e6).clamp(window, 1.5 * window);
            acked * (target - window) / window
        };
        let bytes = more * f64::from(mss) + self.remainder;
        self.remainder = bytes.fract();
        // A window does not grow by more than half of it at a time.
        (bytes as u32).min(cwnd / 2)
    }

    /// Begins a stage of congestion avoidance.
    fn begin(&mut self, window: f64, now_ns: u64) {
        self.epoch_ns = now_ns;
        self.seen_ns = now_ns;
        self.remainder = 0.0;
        self.w_est = window;
        if self.timed_out || window >= self.w_max {
            self.w_max = window;
            self.k = 0.0;
        } else {
            self.k = ((self.w_max - window) / C).cbrt();
        }
        self.timed_out = false;
    }

    /// W_cubic at time `t` of the stage.
    fn window_at(&self, t: f64) -> f64 {
        C * (t - self.k).powi(3) + self.w_max
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1_000;

    /// The window at the end of each tenth of a second, in bytes, if each round trip acknowledges a whole window in ten parts.
    fn run(cubic: &mut Cubic, mut cwnd: u32, rtt_ms: u64, tenths: u64) -> Vec<u32> {
        let mut windows = Vec::new();
        let steps = tenths * 100 / rtt_ms * 10;
        for step in 0..steps {
            let now_ns = 1_000_000_000 + (step + 1) * rtt_ms * 100_000;
            let growth =
                Growth { cwnd, mss: MSS, acked: cwnd / 10, srtt_us: rtt_ms as u32 * 1_000, now_ns, is_limited: true };
            cwnd += cubic.grow(growth);
            if ((step + 1) * rtt_ms).is_multiple_of(1_000) {
                windows.push(cwnd);
            }
        }
        windows
    }

    #[test]
    fn a_reduction_is_to_seven_tenths_and_two_segments_at_least() {
        let mut cubic = Cubic::default();
        assert_eq!((cubic.reduce(100_000, MSS), cubic.w_max), (70_000, 100.0));
        // Fast convergence: 80 < 100, so W_max is 80 * 0.85.
        assert_eq!((cubic.reduce(80_000, MSS), cubic.w_max), (56_000, 68.0));
        assert_eq!(cubic.reduce(1_000, MSS), 2_000);
    }

    #[test]
    fn the_window_is_back_at_its_maximum_after_k_and_follows_the_curve() {
        let mut cubic = Cubic::default();
        let cwnd = cubic.reduce(1_000_000, MSS);
        // K = cbrt(300 / 0.4) = 9.086 s. A round trip of 100 ms leaves the Reno-friendly region out.
        let windows = run(&mut cubic, cwnd, 100, 140);
        assert!((cubic.k - 9.0856).abs() < 0.001, "{}", cubic.k);
        let curve = |t: f64| 0.4 * (t - 9.0856f64).powi(3) + 1_000.0;
        for (tenth, window) in windows.iter().enumerate().skip(5) {
            // The window runs after the curve of one round trip ahead.
            let expected = curve((tenth as f64 + 1.0) / 10.0);
            let difference = (f64::from(*window) / 1_000.0 - expected).abs();
            assert!(difference < 0.02 * expected, "at {} tenths: {window}, curve {expected}", tenth + 1);
        }
    }

    #[test]
    fn short_round_trips_grow_as_reno_does() {
        let mut cubic = Cubic::default();
        let cwnd = cubic.reduce(20_000, MSS);
        // With round trips of 1 ms the cubic curve is slow: W_est rules. It grows by ALPHA segments a round trip up to 20 segments,
        // then by one.
        let windows = run(&mut cubic, cwnd, 1, 1);
        let window = f64::from(*windows.last().unwrap()) / 1_000.0;
        let expected = 20.0 + (100.0 - 6.0 / ALPHA);
        assert!((window - expected).abs() < 3.0, "{window}, expected {expected}");
    }

    #[test]
    fn after_a_timeout_the_stage_begins_on_its_own_plateau() {
        let mut cubic = Cubic::default();
        assert_eq!(cubic.reduce_after_timeout(100_000, MSS), 70_000);
        cubic.grow(Growth { cwnd: 70_000, mss: MSS, acked: MSS, srtt_us: 100_000, now_ns: 5, is_limited: true });
        assert_eq!((cubic.k, cubic.w_max, cubic.timed_out), (0.0, 70.0, false));
    }

    #[test]
    fn time_without_need_does_not_count() {
        let (mut busy, mut idle) = (Cubic::default(), Cubic::default());
        let cwnd = busy.reduce(500_000, MSS);
        idle.reduce(500_000, MSS);
        let at = |now_ms: u64, is_limited| Growth {
            cwnd,
            mss: MSS,
            acked: 10 * MSS,
            srtt_us: 50_000,
            now_ns: now_ms * 1_000_000,
            is_limited,
        };
        assert_eq!(busy.grow(at(1_000, true)), idle.grow(at(1_000, true)));
        assert_eq!(idle.grow(at(9_000, false)), 0);
        assert_eq!(busy.grow(at(1_010, true)), idle.grow(at(9_010, true)));
    }

    #[test]
    fn hostile_numbers_stay_in_bounds() {
        let mut cubic = Cubic::default();
        for cwnd in [1, 1_000, u32::MAX / 2] {
            for acked in [0, 1, u32::MAX] {
                let growth = Growth { cwnd, mss: 1, acked, srtt_us: u32::MAX, now_ns: u64::MAX, is_limited: true };
                assert!(cubic.grow(growth) <= cwnd / 2);
                cubic.reduce(cwnd, 1);
            }
        }
    }
}
