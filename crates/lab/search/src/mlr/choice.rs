//! Which load to try next, and for which target.
//!
//! The first target that is not reached names it. A trial for one goal that makes a target of another unreached again sends the
//! search back to that, where moving on is cheap; but a target that refuted a bound of the one before it goes on alone.

use super::book::Book;
use super::goal::Limits;
use super::strategy;
use super::tally::LoadClass;
use super::view::{Choice, Pursuit, View};

/// The next load, or `None` once all targets are reached.
pub(super) fn choose(book: &Book, limits: &Limits, pursuits: &[Pursuit]) -> Option<Choice> {
    for (index, (target, pursuit)) in book.targets().iter().zip(pursuits).enumerate() {
        if book.is_reached(index, limits.minimum, limits.maximum) || is_left_behind(book, index, pursuits) {
            continue;
        }
        let view = View { book, limits, target, index, bounds: book.bounds(index), pursuit: *pursuit };
        if let Some((load, reason)) = strategy::STRATEGIES.iter().find_map(|strategy| strategy(&view)) {
            let promised = target.preceding.map_or(LoadClass::Undecided, |preceding| book.class(preceding, load));
            return Some(Choice { target: index, load, reason, promised });
        }
    }
    None
}

/// Whether a later target of the same goal goes on alone.
fn is_left_behind(book: &Book, index: usize, pursuits: &[Pursuit]) -> bool {
    let goal = book.targets().get(index).map(|target| target.goal);
    let later = book.targets().iter().zip(pursuits).skip(index + 1);
    later.into_iter().any(|(target, pursuit)| Some(target.goal) == goal && pursuit.is_alone)
}
