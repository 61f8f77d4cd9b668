//! One step of a search: the trial that it ordered.

use super::view::Reason;
use crate::{Load, Trial};

/// A trial that the search asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// The load to try.
    pub load: Load,
    /// For how long to send, in nanoseconds.
    pub duration_ns: u64,
}

/// An order and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What to try.
    pub order: Order,
    /// Number of the goal in focus. The trial counts for all.
    pub goal: usize,
    /// Whether the goal itself is worked on, not a cheaper stage before it.
    pub is_final: bool,
    /// Why this load.
    pub reason: Reason,
}

/// Whether a trial is what was ordered.
pub(super) fn answers(order: &Order, trial: &Trial) -> bool {
    trial.load == order.load && trial.duration_ns.abs_diff(order.duration_ns) <= order.duration_ns / 100
}
