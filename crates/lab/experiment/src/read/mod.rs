//! From the text of a file to an [`Experiment`]: every error is noted, and reading goes on.

mod cell_match;
mod cores;
mod dut;
mod flows;
mod goals;
mod limits;
mod matrix;
mod next_hop;
mod sessions;
mod sizes;
mod surroundings;
mod test;

use std::ops::Range;

use toml::de::DeTable;

use crate::error::{Errors, Log};
use crate::section::{self, Section};
use crate::{CellMatch, DutReader, Experiment, Published};
use cell_match::Known;

/// Most bytes of an experiment file.
pub const TEXT_LEN_MAX: usize = 256 << 10;
/// Most published rows.
const PUBLISHED_MAX: usize = 500;
/// What a published row can be about.
const FIGURES: [&str; 8] = ["throughput", "rate", "cores", "capture-ratio", "idle", "ping", "echoes", "udp-cycles"];
/// How many errors of the TOML grammar are told: one often leads to others.
const GRAMMAR_ERRORS_MAX: usize = 5;

/// Reads an experiment file and checks it: what comes back can be run, as far as that does not depend on the machine.
/// `file_name` is only for messages; `kinds` are the kinds of devices that it may name, in the order in which messages list them.
///
/// # Errors
/// Everything that is wrong, each with its line and column.
pub fn parse(text: &str, file_name: &str, kinds: &[DutReader]) -> Result<Experiment, Errors> {
    let log = Log::default();
    let experiment = read(text, kinds, &log);
    match (log.into_errors(text, file_name), experiment) {
        (None, Some(experiment)) => Ok(experiment),
        (Some(errors), _) => Err(errors),
        (None, None) => Err(Errors::whole(file_name, "the file cannot be read as an experiment")),
    }
}

fn read(text: &str, kinds: &[DutReader], log: &Log) -> Option<Experiment> {
    if text.len() > TEXT_LEN_MAX {
        log.error(0..0, format!("the file has {} bytes; at most {TEXT_LEN_MAX} are read", text.len()));
        return None;
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in errors.iter().take(GRAMMAR_ERRORS_MAX) {
            log.error(error.span().unwrap_or(0..0), format!("this is not TOML: {}", error.message()));
        }
        return None;
    }
    let file = Section::new(table.get_ref(), 0..0, "the file", log);
    let experiment = build(&file, kinds);
    file.finish();
    experiment
}

/// The experiment. Where something is wrong and was noted, a stand-in is put, so that the rest can be checked.
fn build(file: &Section<'_>, kinds: &[DutReader]) -> Option<Experiment> {
    let log = file.log;
    let name = file.needed("name", "\"linux-router\"").and_then(|value| section::name(value, "name", log));
    let title = file.needed("title", "\"Linux as a router\"").and_then(|value| section::text(value, "title", log));
    let about = file.text("about").unwrap_or_default();

    let place = surroundings::topology(file);
    let cores = cores::table(file, &place.kind);
    let noise = surroundings::noise(file);
    let phases = surroundings::phases(file);
    let duts = dut::all(file, &place, kinds);
    let tests = test::all(file, duts.iter().any(|dut| dut.kind.captures()));
    let is_of_tcp = tests.iter().any(|test| test.kind.is_of_tcp());
    let matrix = matrix::read(file, &place, is_of_tcp);

    let mut experiment = Experiment {
        name: name.unwrap_or_default(),
        title: title.unwrap_or_default(),
        about,
        topology: place.kind,
        baseline_ports: place.baseline_ports,
        mtu: place.mtu,
        testers: matrix.testers,
        cores,
        placements: matrix.placements,
        duts,
        sizes: matrix.sizes,
        flows: matrix.flows,
        directions: matrix.directions,
        skip: Vec::new(),
        phases,
        tests,
        repetitions: matrix.repetitions,
        cell_time_ns: matrix.cell_time_ns,
        steal_max: noise.steal_max,
        gap_max_ns: noise.gap_max_ns,
        disturbed_retries: noise.retries,
        published: Vec::new(),
    };
    sessions::check(file, &experiment);
    let known = Known::of(&experiment);
    let skip = matrix::skip(file, &known);
    let published = published(file, &known);
    let test_cells = test::cells(file, &known);
    if !matrix::check_extent(file, &experiment) {
        return None;
    }
    matrix::check_skip(file, &mut experiment, skip);
    let published_cells = published.iter().map(|(row, span)| (&row.cells, span));
    check_rows(file, &experiment, published_cells, "this published row matches no cell of the matrix");
    let of_tests = test_cells.iter().flatten().map(|(row, span)| (row, span));
    check_rows(file, &experiment, of_tests, "this matches no cell of the matrix");
    for (test, cells) in experiment.tests.iter_mut().zip(test_cells) {
        test.cells = cells.into_iter().map(|(row, _)| row).collect();
    }
    experiment.published = published.into_iter().map(|(row, _)| row).collect();
    Some(experiment)
}

/// Every row is about some cell.
fn check_rows<'a>(
    file: &Section<'_>,
    experiment: &Experiment,
    rows: impl Iterator<Item = (&'a CellMatch, &'a Range<usize>)>,
    problem: &str,
) {
    if file.log.count() > 0 {
        return;
    }
    let cells = experiment.cells();
    for (row, span) in rows {
        if !cells.iter().any(|cell| cell.is_matched_by(row)) {
            file.log.error(span.clone(), problem);
        }
    }
}

/// The rows of `[[published]]`, with their places.
fn published(file: &Section<'_>, known: &Known) -> Vec<(Published, Range<usize>)> {
    let log = file.log;
    let read = |row: Section<'_>| {
        let source = row.needed("source", "\"A. Toonk, 2019\"").and_then(|value| section::text(value, "source", log));
        let what = row
            .needed("what", "\"throughput\"")
            .and_then(|_| row.word("what", "figure", &FIGURES.map(|name| (name, name))));
        let text = row.needed("text", "\"1.4 Mpps\"").and_then(|value| section::text(value, "text", log));
        let value = row.number("value", |value| (0.0..=1e15).contains(&value), "a number that is not negative");
        let clock_ghz =
            row.number("clock_ghz", |ghz| (0.001..=100.0).contains(&ghz), "a clock in GHz, from 0.001 to 100");
        let cells = cell_match::read(&row, known);
        let span = row.span.clone();
        row.finish();
        let what = what.unwrap_or_default().to_string();
        let (source, text) = (source.unwrap_or_default(), text.unwrap_or_default());
        let row = Published { source, cells, what, value, clock_ghz, text };
        (row, span)
    };
    file.sections("published", PUBLISHED_MAX).into_iter().map(read).collect()
}
