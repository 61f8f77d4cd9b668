//! `[cores]`, and the entries of `cores` in `[matrix]`: what runs on which core.

use toml::de::DeValue;

use crate::error::Log;
use crate::section::{self, Section, Value};
use crate::{Cores, CoresSpec, DutCores, TopologyKind};

const CORE_MAX: u64 = 4_095;
/// Most cores of a device.
const DUT_CORES_MAX: usize = 64;

/// `[cores]`.
pub(crate) fn table(file: &Section<'_>, topology: &TopologyKind) -> Cores {
    let Some(table) = file.section("cores", "[cores]") else { return Cores::default() };
    let cores = of(&table, topology);
    table.finish();
    cores
}

/// `"apart"`, `"shared"`, or a table as `[cores]` with a name.
pub(crate) fn entry(value: &Value<'_>, topology: &TopologyKind, log: &Log) -> Option<CoresSpec> {
    if let DeValue::String(_) = value.get_ref() {
        let words = [("apart", DutCores::Own(1)), ("shared", DutCores::Shared)];
        let dut = section::word(value, "placement", &words, log)?;
        check_topology(&dut, topology, |message| log.error(value.span(), message));
        let name = if dut == DutCores::Shared { "shared" } else { "apart" };
        return Some(CoresSpec { name: name.into(), cores: Cores { dut, ..Cores::default() } });
    }
    let table = Section::of(value, "an entry of `cores`", log)?;
    let name = table.needed("name", "\"two\"").and_then(|value| section::name(value, "name", log));
    let cores = of(&table, topology);
    table.finish();
    Some(CoresSpec { name: name?, cores })
}

fn of(table: &Section<'_>, topology: &TopologyKind) -> Cores {
    let core = |key| table.integer(key, 0..=CORE_MAX).map(|core| core as usize);
    let (generator, receiver) = (core("generator"), core("receiver"));
    let listed = listed(table);
    let count = table.integer("dut_count", 1..=DUT_CORES_MAX as u64).map(|count| count as usize);
    let shared = table.boolean("shared").unwrap_or(false);
    if shared && listed.is_some() {
        table.error("dut", "`dut` names a core, but with shared = true the device works in the sender's context");
    }
    if shared && count.is_some() {
        table.error("dut_count", "with shared = true the device works in the sender's context, on no core of its own");
    }
    if listed.is_some() && count.is_some() {
        table.error("dut_count", "`dut` names the device's cores; expected that or `dut_count`");
    }
    let (key, dut) = match (listed, count) {
        _ if shared => ("shared", DutCores::Shared),
        (Some(listed), _) => ("dut", DutCores::Listed(listed)),
        (None, Some(count)) => ("dut_count", DutCores::Own(count)),
        (None, None) => ("dut", DutCores::Chosen),
    };
    check_topology(&dut, topology, |message| table.error(key, message));
    Cores { generator, dut, receiver }
}

/// `dut = 1`, or `dut = [1, 2]`.
fn listed(table: &Section<'_>) -> Option<Vec<usize>> {
    let value = table.value("dut")?;
    if value.get_ref().as_array().is_none() {
        return Some(vec![table.integer("dut", 0..=CORE_MAX)? as usize]);
    }
    let mut cores = Vec::new();
    for value in table.list("dut", 1..=DUT_CORES_MAX)? {
        let core = section::integer(value, "dut", 0..=CORE_MAX, table.log)? as usize;
        if cores.contains(&core) {
            table.log.error(value.span(), format!("core {core} is in `dut` twice; expected each once"));
        }
        cores.push(core);
    }
    Some(cores)
}

/// Where the device is not the lab's, the lab does not place it; a link inside this process has one thread at most.
fn check_topology(dut: &DutCores, topology: &TopologyKind, error: impl FnOnce(String)) {
    let several = match dut {
        DutCores::Listed(cores) => cores.len() > 1,
        DutCores::Own(count) => *count > 1,
        DutCores::Chosen | DutCores::Shared => false,
    };
    match topology {
        TopologyKind::Ports { .. } if *dut != DutCores::Chosen => error(
            "between two ports of this host the device is not the lab's to place; expected generator and receiver alone"
                .into(),
        ),
        TopologyKind::InProcess if several => {
            error("one thread serves a device inside this process; expected one core".into());
        }
        _ => {}
    }
}
