//! The rate received at the lowest load that fails.
//!
//! A device that carries all it can at any load above that receives its limit; so a load half a width below it passes and a width
//! above that fails. A goal that allows loss is met up to `received / (1 - loss ratio)`. This is the first guess of the first
//! target, and how later ones leave a load that only long trials refute (a deep buffer hides the limit from short ones).

use super::super::view::{Reason, View};
use crate::Load;

pub(super) fn next_load(view: &View<'_>) -> Option<(Load, Reason)> {
    let upper = view.bounds.upper?;
    let promised = view.promised_below(upper)?;
    let stride = view.below(upper);
    let is_first = view.target.preceding.is_none();
    let load = match view.bounds.lower {
        None if is_first => Some(promised.min(stride)),
        // What is promised passed already: the limit is not far above.
        Some(lower) if is_first && !view.pursuit.received && promised <= lower => Some(view.above(lower)),
        Some(_) if is_first && !view.pursuit.received => Some(promised),
        _ => Some(promised).filter(|promised| view.is_leaving() && *promised < stride),
    };
    load.filter(|load| view.is_useful(*load)).map(|load| (load, Reason::Received))
}
