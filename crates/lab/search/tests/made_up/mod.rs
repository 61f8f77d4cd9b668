//! Random devices with known answers, and the plain bisection that a search is compared with.

use linerate_search::mlr::{Goal, Limits};
use linerate_search::{Load, Trial};
use std::convert::Infallible;

/// Pseudo-random numbers (splitmix64): the same devices in every run.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.share()
    }

    /// Evenly in the logarithm.
    pub fn log_between(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }
}

/// How a device loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Carries its capacity at any load above that.
    Step,
    /// Loses a share of what exceeds its capacity.
    Onset,
    /// Carries less the more it is overloaded.
    Livelock,
    /// Carries nothing above its capacity.
    Cliff,
    /// A step behind a buffer, which hides an excess as long as it lasts.
    Buffer,
    /// A step; and some trials lose a few packets for no reason.
    Noisy,
    /// A step; and some trials lose up to a twentieth for no reason.
    Bursty,
    /// Below its capacity trials lose a few packets, the more often the nearer.
    Soft,
    /// It never loses; the tester cannot send more than its capacity.
    Tester,
    /// It never loses.
    Never,
    /// It loses the same share at any load.
    Always,
}

pub const KINDS: [Kind; 11] = [
    Kind::Step,
    Kind::Onset,
    Kind::Livelock,
    Kind::Cliff,
    Kind::Buffer,
    Kind::Noisy,
    Kind::Bursty,
    Kind::Soft,
    Kind::Tester,
    Kind::Never,
    Kind::Always,
];

impl Kind {
    /// Whether two trials at one load may differ.
    pub fn is_random(self) -> bool {
        matches!(self, Self::Noisy | Self::Bursty | Self::Soft)
    }
}

/// A device, its tester's limits, and its random numbers.
#[derive(Clone)]
pub struct Device {
    pub kind: Kind,
    pub limits: Limits,
    capacity_pps: f64,
    /// Meaning by kind: the share that is lost, the share of disturbed trials, the width of the soft range,
    /// the buffer in seconds at the capacity.
    share: f64,
    random: Random,
}

/// Share of the trials of a noisy device that are disturbed, at most.
const DISTURBED_MAX: f64 = 0.08;

impl Device {
    pub fn new(kind: Kind, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let minimum = random.log_between(1e3, 2e4);
        let maximum = minimum * random.log_between(10.0, 1e4);
        let share = match kind {
            Kind::Onset | Kind::Buffer => random.log_between(0.001, 1.0),
            Kind::Noisy | Kind::Bursty => random.between(0.005, DISTURBED_MAX),
            Kind::Soft => random.between(0.001, 0.2),
            Kind::Always => random.log_between(1e-6, 1.0),
            _ => 0.0,
        };
        Self {
            kind,
            limits: Limits::new(Load::from_pps(minimum as u64), Load::from_pps(maximum as u64)),
            // One in twenty or so is outside the limits.
            capacity_pps: random.log_between(minimum * 0.8, maximum * 1.2),
            share,
            random,
        }
    }

    /// Packets per second that are lost at a load on average, without disturbances.
    fn lost_pps(&self, load_pps: f64) -> f64 {
        let over_pps = (load_pps - self.capacity_pps).max(0.0);
        match self.kind {
            Kind::Step | Kind::Buffer | Kind::Noisy | Kind::Bursty | Kind::Soft | Kind::Tester => over_pps,
            Kind::Onset => over_pps * self.share,
            Kind::Livelock if over_pps > 0.0 => load_pps - self.capacity_pps * (self.capacity_pps / load_pps).powi(2),
            Kind::Cliff if over_pps > 0.0 => load_pps,
            Kind::Always => load_pps * self.share,
            Kind::Livelock | Kind::Cliff | Kind::Never => 0.0,
        }
    }

    /// The trial as it is without disturbance. What is lost on average is lost at least once.
    fn undisturbed(&self, load: Load, duration_ns: u64) -> Trial {
        let seconds = duration_ns as f64 / 1e9;
        let intended = ((load.pps() as f64 * seconds) as u64).max(1);
        let buffer = if self.kind == Kind::Buffer { self.share * self.capacity_pps } else { 0.0 };
        let missing = ((self.lost_pps(load.pps() as f64) * seconds - buffer).max(0.0).ceil() as u64).min(intended);
        let (unsent, lost) = if self.kind == Kind::Tester { (missing, 0) } else { (0, missing) };
        Trial { load, duration_ns, intended, unsent, lost, lost_in_interruptions: 0 }
    }

    /// How probable a disturbance of a trial at a load is.
    fn disturbance(&self, load: Load) -> f64 {
        match self.kind {
            Kind::Noisy | Kind::Bursty => self.share,
            // From 0 to 1 over a range below the capacity.
            Kind::Soft => {
                (1.0 - (self.capacity_pps - load.pps() as f64) / (self.capacity_pps * self.share)).clamp(0.0, 1.0)
            }
            _ => 0.0,
        }
    }

    pub fn measure(&mut self, load: Load, duration_ns: u64) -> Result<Trial, Infallible> {
        let mut trial = self.undisturbed(load, duration_ns);
        if self.random.share() < self.disturbance(load) {
            let most = if self.kind == Kind::Bursty { 0.05 * trial.intended as f64 } else { 3.0 };
            trial.lost = (trial.lost + 1 + self.random.between(0.0, most) as u64).min(trial.intended);
        }
        Ok(trial)
    }

    /// How probable it is that a trial for the goal misses more than it allows: at least, and at most.
    ///
    /// A short trial of a load at the edge can exceed by the fraction of a packet that a long one does not.
    pub fn exceeds(&self, goal: &Goal, load: Load) -> (f64, f64) {
        let is_over = self.undisturbed(load, goal.final_trial_ns).loss_ratio() > goal.loss_ratio;
        let (lost_pps, shortest_seconds) = (self.lost_pps(load.pps() as f64), goal.initial_trial_ns as f64 / 1e9);
        let is_at_edge = lost_pps > 0.0 && lost_pps + 1.0 / shortest_seconds > goal.loss_ratio * load.pps() as f64;
        let disturbance = self.disturbance(load);
        // A few packets more are certain to exceed where none are allowed; where some are, it depends on the load.
        let least = if goal.loss_ratio == 0.0 { disturbance } else { 0.0 };
        match (is_over, is_at_edge) {
            (true, _) => (1.0, 1.0),
            (false, true) if self.kind != Kind::Buffer => (least, 1.0),
            _ => (least, disturbance),
        }
    }

    /// Whether full-length trials meet the goal, by their most probable outcome.
    pub fn carries(&self, goal: &Goal, load: Load) -> bool {
        let is_over = self.undisturbed(load, goal.final_trial_ns).loss_ratio() > goal.loss_ratio;
        !is_over && self.disturbance(load) <= 0.5
    }
}

/// Trial times of bisection for one goal, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct BisectionTimes {
    /// Plain: each load is tried for the goal's duration sum.
    pub plain_ns: u64,
    /// Full-length trials at a load end once RFC 9971 decides it, whatever the remaining ones would show.
    pub deciding_ns: u64,
}

impl std::ops::AddAssign for BisectionTimes {
    fn add_assign(&mut self, other: Self) {
        self.plain_ns += other.plain_ns;
        self.deciding_ns += other.deciding_ns;
    }
}

/// Bisection for one goal: the maximum first, then the geometric middle of what is left between the minimum (which is tried
/// only if the search ends there) and the maximum. Disturbances never mislead it.
pub fn bisection_times(device: &Device, goal: &Goal) -> BisectionTimes {
    let Limits { minimum, maximum, .. } = device.limits;
    let mut trials = 1;
    if !device.carries(goal, maximum) {
        let (mut lower, mut upper) = (minimum, maximum);
        while !goal.is_resolved(lower, upper) {
            let middle = ((lower.pps() as f64).sqrt() * (upper.pps() as f64).sqrt()).round() as u64;
            let middle = Load::from_pps(middle.clamp(lower.pps() + 1, upper.pps() - 1));
            *(if device.carries(goal, middle) { &mut lower } else { &mut upper }) = middle;
            trials += 1;
        }
        trials += u64::from(lower == minimum);
    }
    BisectionTimes { plain_ns: trials * goal.duration_sum_ns, deciding_ns: trials * deciding_ns(goal) }
}

/// Time of full-length trials that all pass after which a load is a lower bound.
fn deciding_ns(goal: &Goal) -> u64 {
    let trials = (goal.duration_sum_ns as f64 * (1.0 - goal.exceed_ratio) / goal.final_trial_ns as f64).ceil();
    trials as u64 * goal.final_trial_ns
}
