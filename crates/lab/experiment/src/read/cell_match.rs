//! Which cells a row of `skip` or `[[published]]` is about.

use std::ops::Range;

use crate::section::Section;
use crate::{CellMatch, Direction, Experiment, matches_glob, words};

/// Most rows of a list that selects cells.
const ROWS_MAX: usize = 100;

/// The names that a row can use.
pub(crate) struct Known {
    duts: Vec<String>,
    sizes: Vec<String>,
    testers: Vec<String>,
    placements: Vec<String>,
    /// Numbers of flows, and names of the patterns.
    flows: Vec<(u64, String)>,
}

impl Known {
    pub(crate) fn of(experiment: &Experiment) -> Self {
        Self {
            duts: experiment.duts.iter().map(|dut| dut.name.clone()).collect(),
            sizes: experiment.sizes.iter().map(|size| size.name()).collect(),
            testers: experiment.testers.iter().map(|tester| tester.name()).collect(),
            placements: experiment.placements.iter().map(|placement| placement.name.clone()).collect(),
            flows: experiment.flows.iter().map(|flows| (flows.count(), flows.name())).collect(),
        }
    }
}

/// The words of directions, as in cell ids; the later two are those of captures.
pub(crate) const DIRECTIONS: [(&str, Direction); 4] = [
    ("one-way", Direction::OneWay),
    ("both-ways", Direction::BothWays),
    ("one-port", Direction::OneWay),
    ("two-ports", Direction::BothWays),
];

/// The tables of a list under `key`, each of which selects cells, with their places.
pub(crate) fn rows(table: &Section<'_>, key: &'static str, known: &Known) -> Vec<(CellMatch, Range<usize>)> {
    let mut rows = Vec::new();
    for value in table.list(key, 0..=ROWS_MAX).unwrap_or_default() {
        let Some(row) = Section::of(value, &format!("an entry of `{key}`"), table.log) else { continue };
        rows.push((read(&row, known), value.span()));
        row.finish();
    }
    rows
}

/// Reads the keys that select cells.
pub(crate) fn read(row: &Section<'_>, known: &Known) -> CellMatch {
    let (flows, flow_pattern) = flows(row, known);
    CellMatch {
        dut: dut(row, known),
        size: size(row, known),
        flows,
        flow_pattern,
        direction: row.word("direction", "direction", &DIRECTIONS),
        tester: one_of(row, "ports", "kind of ports", &known.testers),
        cores: one_of(row, "cores", "placement", &known.placements),
    }
}

/// A device by its name, or several by a name with `*` in it.
fn dut(row: &Section<'_>, known: &Known) -> Option<String> {
    let pattern = row.value("dut").and_then(|value| value.get_ref().as_str()).filter(|name| name.contains('*'));
    let Some(pattern) = pattern else { return one_of(row, "dut", "DUT", &known.duts) };
    if !known.duts.is_empty() && !known.duts.iter().any(|name| matches_glob(name, pattern)) {
        row.error("dut", format!("no DUT is called as {}", words::shown(pattern)));
    }
    Some(pattern.to_owned())
}

fn one_of(row: &Section<'_>, key: &'static str, what: &str, known: &[String]) -> Option<String> {
    if known.is_empty() && !["ports", "cores"].contains(&key) {
        // What is missing was told; whether this is right cannot be said.
        return row.text(key);
    }
    let names: Vec<(&str, String)> = known.iter().map(|name| (name.as_str(), name.clone())).collect();
    row.word(key, what, &names)
}

/// A size by its name; a fixed size may be written as a number.
fn size(row: &Section<'_>, known: &Known) -> Option<String> {
    let value = row.value("size")?;
    if !value.get_ref().is_integer() {
        return one_of(row, "size", "size", &known.sizes);
    }
    let number = row.integer("size", 0..=u64::from(u32::MAX))?.to_string();
    if !known.sizes.is_empty() && !known.sizes.contains(&number) {
        let names: Vec<&str> = known.sizes.iter().map(String::as_str).collect();
        row.error("size", words::unknown("size", &number, &names));
    }
    Some(number)
}

/// Patterns of so many flows, or the one of this name.
fn flows(row: &Section<'_>, known: &Known) -> (Option<u64>, Option<String>) {
    let Some(value) = row.value("flows") else { return (None, None) };
    if value.get_ref().as_str().is_some() {
        let names: Vec<String> = known.flows.iter().map(|(_, name)| name.clone()).collect();
        return (None, one_of(row, "flows", "flow pattern", &names));
    }
    let number = row.integer("flows", 1..=u64::MAX);
    if let Some(number) = number
        && !known.flows.is_empty()
        && !known.flows.iter().any(|(count, _)| *count == number)
    {
        let counts: Vec<String> = known.flows.iter().map(|(count, _)| count.to_string()).collect();
        row.error("flows", format!("no flow pattern has {number} flows; expected one of {}", counts.join(", ")));
    }
    (number, None)
}
