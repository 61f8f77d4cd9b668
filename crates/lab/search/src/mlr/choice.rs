//! Which load to try next, and for which target.
//!
//! The first target that is not reached names it. A trial that makes an earlier target unreached again (a load that a short
//! trial condemned passes a long one) sends the search back to that target, where moving on is cheap.

use super::book::Book;
use super::goal::Limits;
use super::strategy;
use super::tally::LoadClass;
use super::target::Target;
use crate::{Bounds, Load};

/// Why a load is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is the maximum, and nothing is known yet.
    Maximum,
    /// The rate received at the lowest failing load promises it.
    Received,
    /// It is a bound of shorter trials.
    Refine,
    /// A stride above the lower bound.
    Up,
    /// A stride below the upper bound.
    Down,
    /// The middle of the bounds.
    Middle,
}

/// A load for a target. It is tried until the target can tell what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) target: usize,
    pub(super) load: Load,
    pub(super) reason: Reason,
}

/// How the search for one target went lately: strides in one direction grow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pursuit {
    /// Loads in a row that turned out to be lower bounds.
    up: u32,
    /// Loads in a row that turned out to be upper bounds.
    down: u32,
    /// Whether the rate received was tried.
    pub(super) received: bool,
}

impl Pursuit {
    /// Notes what a load that was tried for a reason turned out to be.
    pub(super) fn note(&mut self, reason: Reason, class: LoadClass) {
        let (up, down) = match (reason, class) {
            (Reason::Middle | Reason::Maximum, _) | (_, LoadClass::Undecided) => (0, 0),
            (_, LoadClass::Lower) => (self.up.saturating_add(1), 0),
            (_, LoadClass::Upper) => (0, self.down.saturating_add(1)),
        };
        *self = Self { up, down, received: self.received || reason == Reason::Received };
    }
}

/// What a strategy sees: one target that is not reached.
pub(super) struct View<'a> {
    pub(super) book: &'a Book,
    pub(super) limits: &'a Limits,
    pub(super) target: &'a Target,
    pub(super) index: usize,
    pub(super) bounds: Bounds,
    pub(super) pursuit: Pursuit,
}

/// A stride is so many times the one before.
const STRIDE_GROWTH: f64 = 3.0;

impl View<'_> {
    /// Whether trying a load would tell something: it lies strictly within the bounds and is not decided.
    pub(super) fn is_useful(&self, load: Load) -> bool {
        self.bounds.lower.is_none_or(|lower| lower < load)
            && self.bounds.upper.is_none_or(|upper| load < upper)
            && self.book.class(self.index, load) == LoadClass::Undecided
    }

    /// Whether loads passed in a row lately.
    pub(super) fn is_rising(&self) -> bool {
        self.pursuit.up > 0
    }

    /// Whether loads failed in a row lately.
    pub(super) fn is_falling(&self) -> bool {
        self.pursuit.down > 0
    }

    /// A stride above a load; at least 1 pps.
    pub(super) fn above(&self, load: Load) -> Load {
        let next = Load::from_pps((load.pps() as f64 * self.stride_log(self.pursuit.up).exp()) as u64);
        self.within(next.max(Load::from_pps(load.pps().saturating_add(1))))
    }

    /// A stride below a load; at least 1 pps.
    pub(super) fn below(&self, load: Load) -> Load {
        let next = Load::from_pps((load.pps() as f64 * (-self.stride_log(self.pursuit.down)).exp()).ceil() as u64);
        self.within(next.min(Load::from_pps(load.pps().saturating_sub(1))))
    }

    /// The load inside the limits.
    pub(super) fn within(&self, load: Load) -> Load {
        load.clamp(self.limits.minimum, self.limits.maximum)
    }

    fn stride_log(&self, successes: u32) -> f64 {
        self.target.step_log() * STRIDE_GROWTH.powi(successes.saturating_sub(1).min(20) as i32)
    }
}

/// The next load, or `None` once all targets are reached.
pub(super) fn choose(book: &Book, limits: &Limits, pursuits: &[Pursuit]) -> Option<Choice> {
    for (index, (target, pursuit)) in book.targets().iter().zip(pursuits).enumerate() {
        if book.is_reached(index, limits.minimum, limits.maximum) {
            continue;
        }
        let view = View { book, limits, target, index, bounds: book.bounds(index), pursuit: *pursuit };
        if let Some((load, reason)) = strategy::STRATEGIES.iter().find_map(|strategy| strategy(&view)) {
            return Some(Choice { target: index, load, reason });
        }
    }
    None
}
