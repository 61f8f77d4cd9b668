//! The ways to find the next load, in the order in which they are asked. Each is asked for one target that is not reached.

mod middle;
mod received;
mod refine;
mod start;
mod stride;

use super::view::{Reason, View};
use crate::Load;

/// A way to find the next load.
pub(super) type Strategy = fn(&View<'_>) -> Option<(Load, Reason)>;

/// All of them. One of them always answers: see [`middle`] and [`stride`].
pub(super) const STRATEGIES: [Strategy; 5] =
    [refine::next_load, start::next_load, received::next_load, stride::next_load, middle::next_load];
