//! Which load to try next, and for which target.
//!
//! The first target that is not reached names it. A trial for one goal that makes a target of another unreached again sends the
//! search back to that, where moving on is cheap; but a target that refuted a bound of the one before it goes on alone.

use super::database::TrialDatabase;
use super::goal::Limits;
use super::strategy;
use super::tally::LoadClass;
use super::view::{Choice, Pursuit, View};

/// The next load, or `None` once all targets are reached.
pub(super) fn choose(database: &TrialDatabase, limits: &Limits, pursuits: &[Pursuit]) -> Option<Choice> {
    for (index, (target, pursuit)) in database.targets().iter().zip(pursuits).enumerate() {
        if database.is_reached(index, limits.minimum, limits.maximum) || is_left_behind(database, index, pursuits) {
            continue;
        }
        let view = View { database, limits, target, index, bounds: database.bounds(index), pursuit: *pursuit };
        if let Some((load, reason)) = strategy::STRATEGIES.iter().find_map(|strategy| strategy(&view)) {
            let promised = target.preceding.map_or(LoadClass::Undecided, |preceding| database.class(preceding, load));
            return Some(Choice { target: index, load, reason, promised });
        }
    }
    None
}

/// Whether a later target of the same goal goes on alone.
fn is_left_behind(database: &TrialDatabase, index: usize, pursuits: &[Pursuit]) -> bool {
    let goal = database.targets().get(index).map(|target| target.goal);
    let later = database.targets().iter().zip(pursuits).skip(index + 1);
    later.into_iter().any(|(target, pursuit)| Some(target.goal) == goal && pursuit.is_alone)
}
