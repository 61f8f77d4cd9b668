//! The bounds of the target before this one, lower first: shorter trials found them, longer ones are to confirm them.

use super::super::choice::{Reason, View};
use crate::{Bounds, Load};

pub(super) fn next_load(view: &View<'_>) -> Option<(Load, Reason)> {
    let Bounds { lower, upper } = view.book.bounds(view.target.preceding?);
    let lower = lower.filter(|load| view.is_useful(*load) && !is_near_refuted(view, *load));
    let upper = upper.filter(|load| view.is_useful(*load));
    lower.or(upper).map(|load| (load, Reason::Refine))
}

/// Where long trials lose and short ones do not, the next lower bound of the short ones is no better than the one just refuted:
/// then strides have to lead away from it.
fn is_near_refuted(view: &View<'_>, load: Load) -> bool {
    let Some(upper) = view.bounds.upper else { return false };
    let stride_pps = upper.pps().saturating_sub(view.below(upper).pps());
    view.is_falling() && upper.pps().saturating_sub(load.pps()) as f64 <= 0.9 * stride_pps as f64
}
