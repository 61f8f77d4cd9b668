//! The limits that an experiment sets on its figures, and how far they were kept.

use super::labels::Labels;
use super::{Entry, Grid, Tone, Topic};
use crate::Results;

/// A limit in a cell, over all repetitions.
pub(crate) struct GoalRow<'a> {
    pub(crate) cell: usize,
    pub(crate) test: &'a str,
    pub(crate) name: &'a str,
    pub(crate) wanted: &'a str,
    /// In words, of each repetition.
    pub(crate) measured: Vec<&'a str>,
    /// In so many repetitions it was kept.
    pub(crate) met: usize,
}

/// Every limit of every cell.
pub(crate) fn goal_rows(results: &Results) -> Vec<GoalRow<'_>> {
    let mut rows: Vec<GoalRow<'_>> = Vec::new();
    for (cell, there) in results.cells.iter().enumerate() {
        for finding in &there.findings {
            for goal in &finding.goals {
                let same = |row: &&mut GoalRow<'_>| {
                    (row.cell, row.test, row.name, row.wanted) == (cell, &finding.test, &goal.name, &goal.wanted)
                };
                let measured = goal.measured.as_deref().unwrap_or("not measured");
                match rows.iter_mut().find(same) {
                    Some(row) => {
                        row.measured.push(measured);
                        row.met += usize::from(goal.met);
                    }
                    None => rows.push(GoalRow {
                        cell,
                        test: &finding.test,
                        name: &goal.name,
                        wanted: &goal.wanted,
                        measured: vec![measured],
                        met: usize::from(goal.met),
                    }),
                }
            }
        }
    }
    rows
}

pub(super) fn grid(results: &Results, labels: &Labels) -> Grid {
    let columns =
        [("cell", false), ("test", false), ("figure", false), ("wanted", false), ("measured", false), ("", false)];
    let mut grid = Grid::new(Topic::Goals, "Goals", &columns);
    for row in goal_rows(results) {
        let times = row.measured.len();
        let (words, tone) = match row.met {
            met if met == times => ("met".to_owned(), Tone::Good),
            0 => ("missed".to_owned(), Tone::Bad),
            met => (format!("missed in {} of {times}", times - met), Tone::Bad),
        };
        grid.rows.push(vec![
            Entry::new(labels.of(row.cell)),
            Entry::new(row.test.replace('-', " ")),
            Entry::new(row.name),
            Entry::new(row.wanted),
            Entry::new(row.measured.join(", ")),
            Entry::toned(words, tone),
        ]);
    }
    if !grid.rows.is_empty() {
        grid.notes = vec!["Limits that the experiment sets; each has to be kept in every repetition.".to_owned()];
    }
    grid
}

/// The goals in a sentence, where there are some.
pub(super) fn sentence(results: &Results) -> Option<String> {
    let rows = goal_rows(results);
    let missed = rows.iter().filter(|row| row.met < row.measured.len()).count();
    match (rows.len(), missed) {
        (0, _) => None,
        (_, 0) => Some("Every goal was met.".to_owned()),
        (all, missed) => Some(format!("{missed} of {all} goals were missed.")),
    }
}
