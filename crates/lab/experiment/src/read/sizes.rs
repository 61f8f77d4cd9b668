//! Frame sizes: numbers, `"imix"`, and mixes of one's own.

use toml::de::DeValue;

use crate::SizeSpec;
use crate::section::{self, Section, Value};
use crate::{error::Log, words};

/// Bytes of the frame check sequence.
const FCS: u64 = 4;
/// Shortest Ethernet frame on the wire. The signature of a packet fits in it behind Ethernet, IPv4 and UDP headers.
const WIRE_MIN: u64 = 64;
/// Longest frame that is sent.
const WIRE_MAX: u64 = 9_018;
/// Ethernet header and frame check sequence, which the MTU does not count.
const BEYOND_MTU: u64 = 18;
/// The mix of FD.io CSIT: mean 353.8 bytes.
const IMIX: [(u32, u32); 3] = [(64, 28), (570, 16), (1518, 4)];
const WEIGHT_MAX: u64 = 10_000;
const EXPECTED: &str = "expected a number of bytes, \"imix\" or { name = \"mine\", mix = [[64, 7], [1518, 1]] }";

/// How sizes of the file are to be read.
#[derive(Clone, Copy)]
pub(crate) struct Counting {
    /// Whether they count the frame check sequence.
    pub(crate) fcs: bool,
    pub(crate) mtu: u32,
}

impl Counting {
    fn added(self) -> u64 {
        if self.fcs { 0 } else { FCS }
    }

    /// Bytes on the wire.
    fn size(self, value: &Value<'_>, key: &str, log: &Log) -> Option<u32> {
        let range = WIRE_MIN - self.added()..=WIRE_MAX - self.added();
        let wire = section::integer(value, key, range, log)? + self.added();
        self.check_mtu(wire, value, log);
        Some(wire as u32)
    }

    fn check_mtu(self, wire: u64, value: &Value<'_>, log: &Log) {
        let needed = wire.saturating_sub(BEYOND_MTU);
        if needed > u64::from(self.mtu) {
            let message = format!(
                "a frame of {wire} B on the wire carries {needed} B, more than the mtu of {}; expected mtu = {needed} \
                 or more in [topology]",
                self.mtu
            );
            log.error(value.span(), message);
        }
    }
}

/// The shortest frame: stands where a matrix has no sizes.
pub(crate) fn least() -> SizeSpec {
    SizeSpec { label: WIRE_MIN.to_string(), parts: vec![(WIRE_MIN as u32, 1)] }
}

/// Reads one entry of `sizes`.
pub(crate) fn read(value: &Value<'_>, counting: Counting, log: &Log) -> Option<SizeSpec> {
    match value.get_ref() {
        DeValue::Integer(_) => {
            let wire = counting.size(value, "sizes", log)?;
            let name = (u64::from(wire) - counting.added()).to_string();
            let label = if counting.fcs { name } else { format!("{name} + FCS") };
            Some(SizeSpec { label, parts: vec![(wire, 1)] })
        }
        DeValue::String(word) if word == "imix" => {
            IMIX.iter().for_each(|(wire, _)| counting.check_mtu(u64::from(*wire), value, log));
            Some(SizeSpec { label: label("IMIX", &IMIX), parts: IMIX.to_vec() })
        }
        DeValue::String(word) => log.refuse(value.span(), words::unknown_but("size", word, EXPECTED, &["imix"])),
        DeValue::Table(_) => mix(&Section::of(value, "the size", log)?, counting),
        _ => log.refuse(value.span(), format!("a size is {}; {EXPECTED}", section::kind(value))),
    }
}

/// `{ name = "mine", mix = [[64, 7], [594, 4]] }`: sizes with their weights.
fn mix(table: &Section<'_>, counting: Counting) -> Option<SizeSpec> {
    let log = table.log;
    let name = table.needed("name", "\"mine\"").and_then(|value| section::name(value, "name", log));
    table.needed("mix", "[[64, 7], [1518, 1]]");
    let entries = table.list("mix", 1..=32).unwrap_or_default();
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for entry in entries {
        let Some(pair) = section::list(entry, "mix", 2..=2, log) else { continue };
        let [size, weight] = pair.as_slice() else { continue };
        let size_wire = counting.size(size, "mix", log);
        let weight = section::integer(weight, "weight", 1..=WEIGHT_MAX, log);
        let (Some(size_wire), Some(weight)) = (size_wire, weight) else { continue };
        if parts.iter().any(|(known, _)| *known == size_wire) {
            log.error(size.span(), "the mix has this size twice; expected one weight for each");
        }
        parts.push((size_wire, weight as u32));
    }
    table.finish();
    let name = name?;
    (!parts.is_empty()).then(|| SizeSpec { label: label(&name, &parts), parts })
}

/// `IMIX (64 x 28, 570 x 16, 1518 x 4)`, on the wire.
fn label(name: &str, parts: &[(u32, u32)]) -> String {
    let parts: Vec<String> = parts.iter().map(|(size, weight)| format!("{size} x {weight}")).collect();
    format!("{name} ({})", parts.join(", "))
}
