//! Values of fields as text: numbers, addresses, port names.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::TextError;
use linerate_openflow::{ExperimenterField, Field, FieldMatch, PortNumber};

/// How values of a field are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Decimal,
    Hexadecimal,
    Mac,
    Ipv4,
    Ipv6,
    Port,
}

/// How values of `field` are written.
pub(super) fn form(field: Field) -> Form {
    match field {
        Field::EthDst | Field::EthSrc | Field::ArpSha | Field::ArpTha | Field::Ipv6NdSll | Field::Ipv6NdTll => {
            Form::Mac
        }
        Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa => Form::Ipv4,
        Field::Ipv6Src | Field::Ipv6Dst | Field::Ipv6NdTarget => Form::Ipv6,
        Field::InPort => Form::Port,
        Field::Metadata | Field::TunnelId | Field::EthType | Field::Ipv6Flabel | Field::Ipv6Exthdr => Form::Hexadecimal,
        _ => Form::Decimal,
    }
}

/// Reads `value` or `value/mask` of `field`; addresses may have a prefix length as mask. `None` stands for a mask of 0, which matches all.
pub(super) fn parse_masked(word: &str, field: Field, text: &str) -> Result<Option<FieldMatch>, TextError> {
    let Some((value, mask)) = text.split_once('/') else {
        return Ok(Some(FieldMatch::exact(field, parse_value(word, field, text)?)));
    };
    let value = parse_value(word, field, value)?;
    let is_prefix = matches!(form(field), Form::Ipv4 | Form::Ipv6) && mask.bytes().all(|byte| byte.is_ascii_digit());
    let mask = if is_prefix {
        let length = number(word, mask, 8)? as u32;
        if length > field.bits() {
            return Err(TextError::new(word, format!("a prefix of {} has 0 to {} bits", field.name(), field.bits())));
        }
        field.full_mask() & !field.full_mask().checked_shr(length).unwrap_or(0)
    } else {
        parse_value(word, field, mask)?
    };
    masked(word, field, value, mask)
}

/// The match of `field` under `mask`, which must be all ones where OpenFlow 1.3 allows no mask.
pub(super) fn masked(word: &str, field: Field, value: u128, mask: u128) -> Result<Option<FieldMatch>, TextError> {
    if mask == field.full_mask() {
        return Ok(Some(FieldMatch::exact(field, value)));
    }
    if mask == 0 {
        return Ok(None);
    }
    if !field.is_maskable() {
        return Err(TextError::new(
            word,
            format!("OpenFlow 1.3 has no masks for {}; write the value alone", field.name()),
        ));
    }
    Ok(Some(FieldMatch { field, value: value & mask, mask: Some(mask) }))
}

/// Reads a value of `field`.
pub(super) fn parse_value(word: &str, field: Field, text: &str) -> Result<u128, TextError> {
    match form(field) {
        Form::Mac => mac(word, text),
        Form::Ipv4 => {
            let wrong = |_| TextError::new(word, format!("not an IPv4 address: {text} (for example 192.0.2.1)"));
            text.parse::<Ipv4Addr>().map(|address| u128::from(u32::from(address))).map_err(wrong)
        }
        Form::Ipv6 => {
            let wrong = |_| TextError::new(word, format!("not an IPv6 address: {text} (for example 2001:db8::1)"));
            text.parse::<Ipv6Addr>().map(u128::from).map_err(wrong)
        }
        Form::Port => {
            parse_port(text).map(|port| u128::from(port.0)).map_err(|error| TextError::new(word, error.problem))
        }
        Form::Decimal | Form::Hexadecimal => number(word, text, field.bits()),
    }
}

/// Reads a number, decimal or with `0x`, of at most `bits` bits.
pub(super) fn number(word: &str, text: &str, bits: u32) -> Result<u128, TextError> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u128::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let highest = u128::MAX >> (128 - bits);
    match parsed {
        Ok(value) if value <= highest && !text.starts_with('+') => Ok(value),
        _ => Err(TextError::new(word, format!("not a number from 0 to {highest}: {text}"))),
    }
}

fn mac(word: &str, text: &str) -> Result<u128, TextError> {
    let wrong = || TextError::new(word, format!("not an Ethernet address: {text} (for example 02:00:00:00:00:01)"));
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() != 6 || parts.iter().any(|part| !matches!(part.len(), 1..=2) || part.starts_with('+')) {
        return Err(wrong());
    }
    parts
        .iter()
        .try_fold(0, |value, part| Ok(value << 8 | u128::from(u8::from_str_radix(part, 16).map_err(|_| wrong())?)))
}

const PORT_NAMES: [(&str, PortNumber); 8] = [
    ("IN_PORT", PortNumber::IN_PORT),
    ("TABLE", PortNumber::TABLE),
    ("NORMAL", PortNumber::NORMAL),
    ("FLOOD", PortNumber::FLOOD),
    ("ALL", PortNumber::ALL),
    ("CONTROLLER", PortNumber::CONTROLLER),
    ("LOCAL", PortNumber::LOCAL),
    ("ANY", PortNumber::ANY),
];

/// Reads a port: a number, or the name of a reserved port in any case.
///
/// # Errors
/// The text is neither.
pub fn parse_port(text: &str) -> Result<PortNumber, TextError> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(PortNumber::ANY);
    }
    if let Some((_, port)) = PORT_NAMES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)) {
        return Ok(*port);
    }
    if text.starts_with(|letter: char| letter.is_ascii_digit()) {
        return Ok(PortNumber(number(text, text, 32)? as u32));
    }
    let known: Vec<&str> = PORT_NAMES.iter().map(|(name, _)| *name).collect();
    Err(TextError::unknown(text, "port: neither a number nor a reserved port", &known))
}

/// A port as ovs-ofctl prints it: its number, or the name of a reserved port.
pub fn port_text(port: PortNumber) -> String {
    let name = PORT_NAMES.iter().find(|(_, reserved)| *reserved == port).map(|(name, _)| *name);
    name.map_or_else(|| port.0.to_string(), str::to_string)
}

/// A value of `field`.
pub(super) fn value_text(field: Field, value: u128) -> String {
    match form(field) {
        Form::Decimal => value.to_string(),
        Form::Hexadecimal if field == Field::EthType => format!("{value:#06x}"),
        Form::Hexadecimal => hexadecimal(value),
        Form::Mac => mac_text(value),
        Form::Ipv4 => Ipv4Addr::from(value as u32).to_string(),
        Form::Ipv6 => Ipv6Addr::from(value).to_string(),
        Form::Port => port_text(PortNumber(value as u32)),
    }
}

/// A match of a field: the value, and the mask if there is one; masks of addresses that are prefixes as their length.
pub(super) fn masked_text(wanted: &FieldMatch) -> String {
    let (field, mask) = (wanted.field, wanted.effective_mask());
    if mask == field.full_mask() {
        return value_text(field, wanted.value);
    }
    match form(field) {
        Form::Ipv4 | Form::Ipv6 => {
            let length = (mask << (128 - field.bits())).leading_ones();
            let prefix = field.full_mask() & !field.full_mask().checked_shr(length).unwrap_or(0);
            let mask = if mask == prefix { length.to_string() } else { value_text(field, mask) };
            format!("{}/{mask}", value_text(field, wanted.value))
        }
        Form::Mac => format!("{}/{}", mac_text(wanted.value), mac_text(mask)),
        Form::Decimal | Form::Hexadecimal | Form::Port => {
            format!("{}/{}", hexadecimal(wanted.value), hexadecimal(mask))
        }
    }
}

/// A number as C's `%#x` prints it, which has no prefix before 0.
fn hexadecimal(value: u128) -> String {
    if value == 0 { "0".into() } else { format!("{value:#x}") }
}

pub(super) fn mac_text(value: u128) -> String {
    let bytes = (value as u64).to_be_bytes();
    bytes[2..].iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// A field that the specification does not define: class, number and data, as in messages.
pub(super) fn experimenter_field_text(field: &ExperimenterField) -> String {
    let ExperimenterField { class, number, masked, data } = field;
    let masked = if *masked { ",masked" } else { "" };
    format!("oxm({class:#06x},{number}{masked},{})", hex_text(data))
}

/// Bytes in hexadecimal digits.
pub(super) fn hex_text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
