//! One step of a search: the trial that it ordered, and why.

use crate::Load;

/// A trial that the search asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The load to try.
    pub load: Load,
    /// Why this load.
    pub reason: Reason,
}

/// Why a load is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It is the maximum, and nothing is known yet.
    Maximum,
    /// The caller's hint.
    Hint,
    /// The rate received in a failing trial.
    Received,
    /// A stride below the lowest failing load.
    Down,
    /// A stride above the highest passing load.
    Up,
    /// The middle of the bounds.
    Middle,
    /// Repetition of a failing trial.
    Confirmation,
    /// A last look at the upper bound, which failed long ago.
    LastLook,
}
