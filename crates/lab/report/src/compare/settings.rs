//! What differs in where and of what two results were measured. Not figures: what a reader must know before comparing figures.

use crate::{CacheLine, Environment, Results};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Cache lines that take so much longer are of another regime: virtual cores moved.
const REGIME: f64 = 1.5;
const SETTINGS_MAX: usize = 60;

/// Something that is not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// What: `kernel`, `plain/64/1/one-way: mode`.
    pub what: String,
    /// In the reference.
    pub before: String,
    /// In the other.
    pub after: String,
}

/// What differs between the first runs of the sides, and among the runs of one side.
pub(super) fn of_sides(before: &[Results], after: &[Results]) -> Vec<Setting> {
    let mut found = Vec::new();
    if let ([one, ..], [other, ..]) = (before, after) {
        found.extend(differences(one, other));
    }
    for (side, runs) in [("among the runs before", before), ("among the runs after", after)] {
        let [first, others @ ..] = runs else { continue };
        for setting in others.iter().flat_map(|other| differences(first, other)) {
            found.push(Setting { what: format!("{side}: {}", setting.what), ..setting });
        }
    }
    found.dedup();
    found.truncate(SETTINGS_MAX);
    found
}

fn differences(before: &Results, after: &Results) -> Vec<Setting> {
    let mut found = Found(Vec::new());
    found.texts("experiment", &before.name, &after.name);
    if before.file != after.file {
        found.texts("experiment file", "its own", "another text");
    }
    let tool = |results: &Results| format!("{} {}", results.tool.name, results.tool.version);
    found.texts("tool", &tool(before), &tool(after));
    let complete = |results: &Results| if results.complete { "complete" } else { "not complete" };
    found.texts("run", complete(before), complete(after));
    environment(&mut found, &before.environment, &after.environment);
    for cell in &before.cells {
        let Some(other) = after.cells.iter().find(|other| other.id == cell.id) else { continue };
        found.texts(&format!("{}: mode", cell.id), &cell.mode, &other.mode);
        found.texts(&format!("{}: flows", cell.id), &cell.flow_pattern, &other.flow_pattern);
        found.texts(&format!("{}: DUT", cell.id), &cell.dut.name, &other.dut.name);
        let versions = [&cell.dut.version, &other.dut.version].map(|version| version.as_deref().unwrap_or("unknown"));
        found.texts(&format!("{}: DUT version", cell.id), versions[0], versions[1]);
        found.maps(&format!("{}: DUT", cell.id), &cell.dut.configuration, &other.dut.configuration);
    }
    found.0
}

fn environment(found: &mut Found, one: &Environment, other: &Environment) {
    let cores = |of: &Environment| of.cores_online.map(|cores| cores.to_string());
    let pairs = [
        ("kernel", one.kernel.clone(), other.kernel.clone()),
        ("CPU", one.cpu_model.clone(), other.cpu_model.clone()),
        ("cores online", cores(one), cores(other)),
        ("governor", one.governor.clone(), other.governor.clone()),
        ("hypervisor", one.hypervisor.clone(), other.hypervisor.clone()),
    ];
    for (what, one, other) in pairs {
        found.texts(what, one.as_deref().unwrap_or("unknown"), other.as_deref().unwrap_or("unknown"));
    }
    found.maps("version", &one.versions, &other.versions);
    found.maps("sysctl", &one.sysctls, &other.sysctls);
    found.maps("offload", &one.offloads, &other.offloads);
    found.maps("mitigation", &one.mitigations, &other.mitigations);
    if let (Some(one), Some(other)) = (round_trip(&one.cache_line), round_trip(&other.cache_line))
        && one.max(other) > REGIME * one.min(other)
    {
        let words = |span_ns: f64| crate::units::nanoseconds(span_ns);
        found.texts("cache-line regime (figures of two cores are not comparable)", &words(one), &words(other));
    }
}

/// The mean of before and after the run, in nanoseconds.
fn round_trip(line: &Option<CacheLine>) -> Option<f64> {
    let known: Vec<f64> = line.iter().flat_map(|line| [line.before_ns, line.after_ns]).flatten().collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

struct Found(Vec<Setting>);

impl Found {
    fn texts(&mut self, what: &str, before: &str, after: &str) {
        if before != after {
            self.0.push(Setting { what: what.to_owned(), before: before.to_owned(), after: after.to_owned() });
        }
    }

    fn maps(&mut self, what: &str, before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) {
        let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for key in keys {
            let value = |map: &BTreeMap<String, String>| map.get(key).cloned().unwrap_or_else(|| "not set".to_owned());
            self.texts(&format!("{what} {key}"), &value(before), &value(after));
        }
    }
}
