//! The maximum, where nothing is known: it may pass, and if not, the rate received there is the first guess.

use super::super::view::{Reason, View};
use crate::{Bounds, Load};

pub(super) fn next_load(view: &View<'_>) -> Option<(Load, Reason)> {
    let is_unknown = view.bounds == Bounds { lower: None, upper: None };
    is_unknown.then_some((view.limits.maximum, Reason::Maximum))
}
