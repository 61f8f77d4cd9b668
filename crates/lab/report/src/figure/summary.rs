//! One figure over its repetitions.

use super::median::median;
use super::{Better, Figure, Mark, Unit, figures};
use crate::Results;

/// One figure over its repetitions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Summary {
    pub(crate) cell: usize,
    pub(crate) test: &'static str,
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
    /// In the order of the repetitions; at least one.
    pub(crate) values: Vec<f64>,
    /// Greatest upper bound, where every repetition has one.
    pub(crate) upper: Option<f64>,
    pub(crate) width: Option<f64>,
    /// Of any repetition.
    pub(crate) marks: Vec<Mark>,
    /// Every trial behind every repetition was disturbed.
    pub(crate) spoilt: bool,
}

impl Summary {
    pub(crate) fn median(&self) -> f64 {
        median(&self.values)
    }

    pub(crate) fn min(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn max(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// The marks for a table: `tester's limit, disturbed`.
    pub(crate) fn mark_words(&self) -> String {
        self.marks.iter().map(|mark| mark.short()).collect::<Vec<_>>().join(", ")
    }

    /// The median for people, with what changes its meaning.
    pub(crate) fn words(&self) -> String {
        let or_more = if self.marks.contains(&Mark::AtMaximum) { "≥ " } else { "" };
        format!("{or_more}{}", self.unit.words(self.median()))
    }
}

/// A figure that a repetition does not have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Missing {
    pub(crate) cell: usize,
    pub(crate) test: &'static str,
    pub(crate) name: String,
    pub(crate) repetition: u32,
    pub(crate) why: String,
}

/// All figures over their repetitions, in the order of the document, and those that are missing.
pub(crate) fn summaries(results: &Results) -> (Vec<Summary>, Vec<Missing>) {
    let mut summaries: Vec<Summary> = Vec::new();
    let mut missing = Vec::new();
    let mut places = std::collections::HashMap::new();
    for figure in figures(results) {
        let Figure { cell, test, name, unit, better, repetition, value, upper, width, marks, spoilt } = figure;
        let value = match value {
            Ok(value) => value,
            Err(why) => {
                missing.push(Missing { cell, test, name, repetition, why });
                continue;
            }
        };
        let place = *places.entry((cell, test, name.clone())).or_insert(summaries.len());
        let Some(summary) = summaries.get_mut(place) else {
            summaries.push(Summary {
                cell,
                test,
                name,
                unit,
                better,
                values: vec![value],
                upper,
                width,
                marks,
                spoilt,
            });
            continue;
        };
        summary.values.push(value);
        summary.upper = summary.upper.zip(upper).map(|(one, other)| one.max(other));
        summary.spoilt &= spoilt;
        summary.marks.extend(marks);
        summary.marks.sort_unstable();
        summary.marks.dedup();
    }
    (summaries, missing)
}
