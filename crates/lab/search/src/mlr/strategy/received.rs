//! The rate received at the lowest load that fails.
//!
//! A device that carries all it can at any load above that receives its limit; so a load half a width below it passes and a width
//! above that fails. A goal that allows loss is met up to `received / (1 - loss ratio)`.

use super::super::choice::{Reason, View};
use crate::Load;

pub(super) fn next_load(view: &View<'_>) -> Option<(Load, Reason)> {
    if view.target.preceding.is_some() {
        return None;
    }
    let upper = view.bounds.upper?;
    let received_pps = view.book.entry(upper)?.forwarding_rate_pps() / (1.0 - view.target.loss_ratio);
    let promised = view.within(Load::from_pps((received_pps * (-view.target.step_log() / 2.0).exp()) as u64));
    match view.bounds.lower {
        None => Some((promised.min(view.below(upper)), Reason::Received)),
        Some(_) => (!view.pursuit.received && view.is_useful(promised)).then_some((promised, Reason::Received)),
    }
}
