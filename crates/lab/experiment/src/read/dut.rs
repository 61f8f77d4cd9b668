//! `[[dut]]`: the devices under test. Each kind reads its own keys.

use crate::read::surroundings::Place;
use crate::section::{self, Section};
use crate::{DutKind, DutReader, DutSettings, DutSpec, TopologyKind, words};

/// Most devices of an experiment.
const DUTS_MAX: usize = 100;

/// Stands for a device whose kind is not known, so that the rest can be checked.
#[derive(Debug, PartialEq)]
struct Unknown;

impl DutSettings for Unknown {}

/// Reads all of them; no two have one name.
pub(crate) fn all(file: &Section<'_>, place: &Place, kinds: &[DutReader]) -> Vec<DutSpec> {
    if file.needs_table("dut", "at least one [[dut]] with name and kind") {
        file.value("dut");
        return Vec::new();
    }
    let mut duts: Vec<DutSpec> = Vec::new();
    for table in file.sections("dut", DUTS_MAX) {
        let name = table.needed("name", "\"plain\"").and_then(|value| section::name(value, "name", table.log));
        let name = name.unwrap_or_default();
        let read = read_kind(&table, place, kinds).unwrap_or_else(|| vec![(String::new(), Unknown.into())]);
        table.finish();
        let count = duts.len() + read.len();
        if count > DUTS_MAX {
            table.error("kind", format!("with this there are {count} DUTs; expected at most {DUTS_MAX}"));
            continue;
        }
        for (more, kind) in read {
            let own = format!("{name}{more}");
            if !name.is_empty() && duts.iter().any(|other| other.name.eq_ignore_ascii_case(&own)) {
                table.error("name", format!("two DUTs are called {own:?}; each needs its own name"));
            }
            duts.push(DutSpec { name: own, kind });
        }
    }
    duts
}

/// The devices that a table stands for, with the end of their names; `None`: its kind is not known.
fn read_kind(table: &Section<'_>, place: &Place, kinds: &[DutReader]) -> Option<Vec<(String, DutKind)>> {
    let word = table.needed("kind", "\"router\"")?.get_ref().as_str().unwrap_or_default();
    let known: Vec<(&str, &DutReader)> = kinds.iter().map(|kind| (kind.word, kind)).collect();
    let Some(kind) = table.word("kind", "kind of DUT", &known) else {
        // Read as the kind that is meant. The keys of all others are known, so that one mistake is told once.
        let meant = words::nearest(word, &kinds.iter().map(|kind| kind.word).collect::<Vec<_>>());
        kinds.iter().filter(|kind| Some(kind.word) == meant).for_each(|kind| drop((kind.read)(table)));
        kinds.iter().for_each(|kind| table.probe(|table| drop((kind.read)(table))));
        return None;
    };
    check_place(table, kind, place, kinds);
    Some((kind.read)(table))
}

/// A device has to fit between the ends of the topology.
fn check_place(table: &Section<'_>, kind: &DutReader, place: &Place, kinds: &[DutReader]) {
    let topology = place.kind.word();
    if kind.topologies.contains(&topology) {
        return;
    }
    let (fitting, others): (Vec<&DutReader>, Vec<_>) =
        kinds.iter().partition(|kind| kind.topologies.contains(&topology));
    let fitting: Vec<&str> = fitting.into_iter().map(|kind| kind.word).collect();
    let needs = |kind: &DutReader| format!("{} needs {}", kind.word, kind.topologies.join(" or "));
    let why = match place.kind {
        TopologyKind::Namespaces => format!(" ({})", others.into_iter().map(needs).collect::<Vec<_>>().join(", ")),
        TopologyKind::Ports { .. } => " (the others are made in namespaces)".into(),
        TopologyKind::InProcess => String::new(),
    };
    let takes = match fitting.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => "no device".to_owned(),
    };
    let word = kind.word;
    table.error("kind", format!("the DUT {word} contradicts the topology {topology}, which takes {takes}{why}"));
}
