//! `[matrix]`: what is combined with what.

use std::ops::{Range, RangeInclusive};

use toml::de::DeValue;

use crate::error::Log;
use crate::read::cell_match::{self, DIRECTIONS, Known};
use crate::read::surroundings::Place;
use crate::read::{cores, flows, sizes};
use crate::section::{self, Section, Value};
use crate::{CellMatch, CoresSpec, Direction, Experiment, FlowSpec, SizeSpec, TesterPorts, TopologyKind};

/// Most entries of one dimension.
const ENTRIES_MAX: usize = 100;
/// Most cells before `skip`.
const CELLS_MAX: usize = 10_000;
/// Most tests in all cells and repetitions.
const TESTS_MAX: usize = 100_000;
/// Shortest and longest time of a cell.
const CELL_TIME_NS: RangeInclusive<u64> = 1_000_000_000..=86_400_000_000_000;
/// What joins the tester's ends directly stands here too: tests of TCP can do with it.
const SENDERS: [(&str, &str); 5] =
    [("xdp", "xdp"), ("packet", "packet"), ("pcap", "pcap"), ("pipe", "pipe"), ("memif", "memif")];
const RECEIVERS: [(&str, &str); 4] = [("sink", "sink"), ("xdp", "xdp"), ("packet", "packet"), ("pcap", "pcap")];

/// The dimensions.
pub(crate) struct Matrix {
    pub(crate) sizes: Vec<SizeSpec>,
    pub(crate) flows: Vec<FlowSpec>,
    pub(crate) directions: Vec<Direction>,
    pub(crate) testers: Vec<TesterPorts>,
    pub(crate) placements: Vec<CoresSpec>,
    pub(crate) repetitions: u32,
    pub(crate) cell_time_ns: Option<u64>,
}

/// Reads all of `[matrix]` but `skip`, which is for [`skip`]. TCP makes the packets of its tests itself, so that those need no sizes.
pub(crate) fn read(file: &Section<'_>, place: &Place, is_of_tcp: bool) -> Matrix {
    let log = file.log;
    let empty = Matrix {
        sizes: vec![],
        flows: vec![],
        directions: vec![],
        testers: vec![],
        placements: vec![],
        repetitions: 1,
        cell_time_ns: None,
    };
    file.needs_table("matrix", "a table [matrix] with sizes and flows");
    let Some(table) = file.section("matrix", "[matrix]") else { return empty };
    let counting = sizes::Counting { fcs: table.boolean("fcs").unwrap_or(true), mtu: place.mtu };
    if !is_of_tcp {
        table.needed("sizes", "[64, 1518, \"imix\"]");
    }
    let mut sizes = each(&table, "sizes", |value| sizes::read(value, counting, log), SizeSpec::name);
    if is_of_tcp && !table.has("sizes") {
        sizes.push(sizes::least());
    }
    table.needed("flows", "[1, 10000]");
    let mut versions: Vec<flows::Ip> = Vec::new();
    for value in table.list("ip", 1..=3).unwrap_or_default() {
        let Some(ip) = section::word(value, "version of IP", &flows::IPS, log) else { continue };
        if versions.contains(&ip) {
            log.error(value.span(), "this version of IP is there twice");
        } else {
            versions.push(ip);
        }
    }
    if versions.is_empty() {
        versions.push(flows::Ip::V4);
    }
    let read = |value: &Value<'_>| flows::read(value, &versions, &place.kind, log);
    let flows = each_of(&table, "flows", read, FlowSpec::name);
    let mut directions: Vec<Direction> = Vec::new();
    for value in table.list("directions", 1..=2).unwrap_or_default() {
        let Some(direction) = section::word(value, "direction", &DIRECTIONS, log) else { continue };
        if directions.contains(&direction) {
            log.error(value.span(), "this direction is there twice");
        }
        directions.push(direction);
    }
    if !table.has("directions") {
        directions.push(Direction::OneWay);
    }
    if table.has("ports") && place.kind != TopologyKind::Namespaces {
        table.error("ports", "`ports` is for namespaces; with this topology the ports' names say their kinds");
    }
    let testers = each(&table, "ports", |value| tester(value, log), TesterPorts::name);
    let placements = each(&table, "cores", |value| cores::entry(value, &place.kind, log), |entry| entry.name.clone());
    if table.has("cores") && file.has("cores") {
        table.error("cores", "`cores` is a dimension here and a table [cores] too; expected one of them");
    }
    let repetitions = table.integer("repetitions", 1..=1_000).unwrap_or(1) as u32;
    let cell_time_ns = table.span_ns("cell_time", CELL_TIME_NS);
    table.value("skip");
    table.finish();
    Matrix { sizes, flows, directions, testers, placements, repetitions, cell_time_ns }
}

/// The entries of one dimension; no two have one name.
fn each<T>(
    table: &Section<'_>,
    key: &'static str,
    read: impl Fn(&Value<'_>) -> Option<T>,
    name: impl Fn(&T) -> String,
) -> Vec<T> {
    each_of(table, key, |value| read(value).into_iter().collect(), name)
}

/// As [`each`], where a value can stand for several entries.
fn each_of<T>(
    table: &Section<'_>,
    key: &'static str,
    read: impl Fn(&Value<'_>) -> Vec<T>,
    name: impl Fn(&T) -> String,
) -> Vec<T> {
    let mut entries: Vec<T> = Vec::new();
    for value in table.list(key, 1..=ENTRIES_MAX).unwrap_or_default() {
        for entry in read(value) {
            if entries.iter().any(|other| name(other) == name(&entry)) {
                table.log.error(value.span(), format!("{} is in `{key}` twice; expected each once", name(&entry)));
            }
            entries.push(entry);
        }
    }
    entries
}

/// `"xdp"`, or `{ sender = "xdp", receiver = "sink" }`.
fn tester(value: &Value<'_>, log: &Log) -> Option<TesterPorts> {
    if let DeValue::String(_) = value.get_ref() {
        let kind = section::word(value, "kind of ports", &SENDERS, log)?.to_string();
        return Some(TesterPorts { sender: kind.clone(), receiver: kind });
    }
    let table = Section::of(value, "the pair of ports", log)?;
    table.needed("sender", "\"xdp\"");
    table.needed("receiver", "\"sink\"");
    let sender = table.word("sender", "kind of sending port", &SENDERS);
    let receiver = table.word("receiver", "kind of receiving port", &RECEIVERS);
    table.finish();
    Some(TesterPorts { sender: sender?.to_string(), receiver: receiver?.to_string() })
}

/// The rows of `skip`, with their places.
pub(crate) fn skip(file: &Section<'_>, known: &Known) -> Vec<(CellMatch, Range<usize>)> {
    let Some(table) = file.value("matrix").and_then(|value| value.get_ref().as_table()) else { return Vec::new() };
    cell_match::rows(&Section::new(table, 0..0, "[matrix]", file.log), "skip", known)
}

/// Whether the matrix is of a size that can be gone through.
pub(crate) fn check_extent(file: &Section<'_>, experiment: &Experiment) -> bool {
    let dimensions = [
        experiment.duts.len(),
        experiment.sizes.len(),
        experiment.flows.len(),
        experiment.directions.len(),
        experiment.testers.len().max(1),
        experiment.placements.len().max(1),
    ];
    let cells = dimensions.iter().fold(1usize, |product, len| product.saturating_mul(*len));
    let [duts, sizes, flows, directions, ports, cores] = dimensions;
    if cells > CELLS_MAX {
        let message = format!(
            "the matrix has {cells} cells ({duts} DUTs x {sizes} sizes x {flows} flow patterns x {directions} directions \
             x {ports} ports x {cores} placements); expected at most {CELLS_MAX}"
        );
        file.error("matrix", message);
        return false;
    }
    let tests = cells.saturating_mul(experiment.tests.len()).saturating_mul(experiment.repetitions as usize);
    if tests > TESTS_MAX {
        let message = format!(
            "{cells} cells x {} tests x {} repetitions are {tests} tests; expected at most {TESTS_MAX}",
            experiment.tests.len(),
            experiment.repetitions
        );
        file.error("matrix", message);
        return false;
    }
    true
}

/// Every row leaves out a cell, and some cells are left.
pub(crate) fn check_skip(file: &Section<'_>, experiment: &mut Experiment, rows: Vec<(CellMatch, Range<usize>)>) {
    let has_all = !experiment.duts.is_empty() && !experiment.sizes.is_empty() && !experiment.flows.is_empty();
    let errors_before = file.log.count();
    if has_all && errors_before == 0 {
        let cells = experiment.cells();
        for (row, span) in &rows {
            if !cells.iter().any(|cell| cell.is_matched_by(row)) {
                file.log.error(span.clone(), "this matches no cell of the matrix");
            }
        }
    }
    experiment.skip = rows.into_iter().map(|(row, _)| row).collect();
    if has_all && errors_before == 0 && experiment.cells().is_empty() {
        file.error("matrix", "`skip` leaves out every cell; expected one to be left");
    }
}
