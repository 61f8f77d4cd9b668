//! `kind = "capture"` of `[[dut]]`: a capture, or one for each combination of settings that are lists.

use toml::de::DeValue;

use crate::read::section::{self, Section, Value};
use crate::{Capture, CaptureCores, CaptureTool, DutKind, DutSpec, Reception, scalar};

const TOOLS: [(&str, CaptureTool); 6] = [
    ("packet", CaptureTool::Packet),
    ("pcap", CaptureTool::Pcap),
    ("xdp", CaptureTool::Xdp),
    ("af-packet", CaptureTool::Packet),
    ("libpcap", CaptureTool::Pcap),
    ("af-xdp", CaptureTool::Xdp),
];
const RECEPTIONS: [(&str, Reception); 3] = [
    ("interrupt", Reception::Interrupt),
    ("busy-poll", Reception::BusyPoll),
    ("threaded-napi", Reception::ThreadedNapi),
];
const CORES: [(&str, CaptureCores); 2] = [("one", CaptureCores::One), ("all", CaptureCores::All)];
/// Most entries of a list: more than there are words, since buffers have none.
const ENTRIES_MAX: usize = 16;
const BUFFER_BYTES: u64 = 64 << 20;
/// As `linerate capture --ring` takes them.
const BUFFER_BYTES_MIN: u64 = 64 << 10;

/// The devices that a table stands for, in the order tool, cores, reception, buffer. The settings that are lists are parts of
/// their names: `NAME-packet-one-interrupt-512KiB`.
pub(crate) fn read(table: &Section<'_>, name: &str) -> Vec<DutSpec> {
    let word = |tool: CaptureTool| tool.word().to_owned();
    let tools =
        setting(table, "tool", CaptureTool::Packet, word, |value| section::word(value, "tool", &TOOLS, table.log));
    let cores = setting(
        table,
        "cores",
        CaptureCores::One,
        |cores| cores.word().to_owned(),
        |value| section::word(value, "cores of a capture", &CORES, table.log),
    );
    let receptions = setting(
        table,
        "receive",
        Reception::Interrupt,
        |receive| receive.word().to_owned(),
        |value| section::word(value, "way of receiving", &RECEPTIONS, table.log),
    );
    let buffers = setting(table, "buffer", BUFFER_BYTES, shown_bytes, |value| buffer_bytes(table, value));
    let file = table.boolean("file").unwrap_or(false);
    let mut duts = Vec::new();
    for (tool, tool_word) in &tools {
        for (cores, cores_word) in &cores {
            for (receive, receive_word) in &receptions {
                for (buffer_bytes, buffer_word) in &buffers {
                    let name = [name, tool_word, cores_word, receive_word, buffer_word].concat();
                    let (tool, receive, cores, buffer_bytes) = (*tool, *receive, *cores, *buffer_bytes);
                    let kind = DutKind::Capture(Capture { tool, receive, cores, buffer_bytes, file });
                    duts.push(DutSpec { name, kind });
                }
            }
        }
    }
    duts
}

/// The values of a key, each with what it adds to the names: nothing where it is no list.
pub(crate) fn setting<T: Copy + PartialEq>(
    table: &Section<'_>,
    key: &'static str,
    default: T,
    shown: impl Fn(T) -> String,
    read: impl Fn(&Value<'_>) -> Option<T>,
) -> Vec<(T, String)> {
    let Some(value) = table.value(key) else { return vec![(default, String::new())] };
    if !matches!(value.get_ref(), DeValue::Array(_)) {
        return vec![(read(value).unwrap_or(default), String::new())];
    }
    let mut values: Vec<(T, String)> = Vec::new();
    for entry in section::list(value, key, 1..=ENTRIES_MAX, table.log).unwrap_or_default() {
        let Some(known) = read(entry) else { continue };
        if values.iter().any(|(other, _)| *other == known) {
            table.log.error(entry.span(), format!("{} is in `{key}` twice; expected each once", shown(known)));
            continue;
        }
        values.push((known, format!("-{}", shown(known))));
    }
    if values.is_empty() { vec![(default, String::new())] } else { values }
}

fn buffer_bytes(table: &Section<'_>, value: &Value<'_>) -> Option<u64> {
    let text = section::text(value, "buffer", table.log)?;
    let bytes = match scalar::bytes(&text) {
        Ok(bytes) if bytes < BUFFER_BYTES_MIN => Err(format!("{bytes} bytes are too few; expected 64KiB to 1GiB")),
        read => read,
    };
    bytes.map_err(|problem| table.log.error(value.span(), format!("`buffer`: {problem}"))).ok()
}

/// As it is written: `512KiB`, `10MiB`.
fn shown_bytes(bytes: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.into_iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    unit.map_or(format!("{bytes}B"), |(name, unit)| format!("{}{name}", bytes / unit))
}
