//! The geometric middle of the bounds.

use super::super::view::{Reason, View};
use crate::Load;

pub(super) fn next_load(view: &View<'_>) -> Option<(Load, Reason)> {
    let (lower, upper) = (view.bounds.lower?, view.bounds.upper?);
    Some((view.within(Load::middle(lower, upper)), Reason::Middle))
}
