//! Strides away from a bound towards the one that is missing or far, each longer than the one before, until it is found or the
//! middle is nearer.

use super::super::view::{Reason, View};
use crate::{Bounds, Load};

pub(super) fn next_load(view: &View<'_>) -> Option<(Load, Reason)> {
    match view.bounds {
        Bounds { lower: None, upper: None } => None,
        Bounds { lower: Some(lower), upper: None } => Some((view.above(lower), Reason::Up)),
        Bounds { lower: None, upper: Some(upper) } => Some((view.below(upper), Reason::Down)),
        Bounds { lower: Some(lower), upper: Some(upper) } => {
            let middle = Load::middle(lower, upper);
            let up = Some(view.above(lower)).filter(|load| view.is_rising() && *load < middle);
            let down = Some(view.below(upper)).filter(|load| view.is_falling() && *load > middle);
            up.map(|load| (load, Reason::Up)).or(down.map(|load| (load, Reason::Down)))
        }
    }
}
