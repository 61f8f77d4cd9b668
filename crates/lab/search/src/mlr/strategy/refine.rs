//! The bounds of the target before this one, lower first: shorter trials found them, longer ones are to confirm them.

use super::super::view::{Reason, View};
use crate::{Bounds, Load};

pub(super) fn next_load(view: &View<'_>) -> Option<(Load, Reason)> {
    let preceding = view.target.preceding.filter(|_| view.trusts_preceding())?;
    let Bounds { lower, upper } = view.database.bounds(preceding);
    // A trial that the caller made of its own accord can lie outside the limits.
    let useful = |load: Load| Some(view.within(load)).filter(|load| view.is_useful(*load));
    lower.and_then(useful).or(upper.and_then(useful)).map(|load| (load, Reason::Refine))
}
