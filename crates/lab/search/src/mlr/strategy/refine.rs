//! The bounds of the target before this one, lower first: shorter trials found them, longer ones are to confirm them.

use super::super::choice::{Reason, View};
use crate::{Bounds, Load};

pub(super) fn next_load(view: &View<'_>) -> Option<(Load, Reason)> {
    let preceding = view.target.preceding.filter(|_| view.trusts_preceding())?;
    let Bounds { lower, upper } = view.book.bounds(preceding);
    let useful = |load: &Load| view.is_useful(*load);
    lower.filter(useful).or(upper.filter(useful)).map(|load| (load, Reason::Refine))
}
