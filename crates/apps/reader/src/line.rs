//! A packet as a line.

use linerate_pcapng::{Direction, ETHERNET};
use linerate_units::Timestamp;
use linerate_wire::{Hexdump, Summary};
use serde::Serialize;

use super::layers::{Data, Layers};
use super::packets::Packet;

/// One line of `--json` (`linerate.packet/1`, docs/schema/packet-1.json). Fields are added, never renamed.
#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    number: u64,
    /// In UTC, with nine digits behind the second.
    time: String,
    time_ns: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    interface: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<&'static str>,
    /// Bytes that the packet had, and those that the file has of it.
    length: u32,
    kept: usize,
    summary: String,
    /// The headers; left out of packets that are not Ethernet frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    layers: Option<&'a Layers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Data>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// The packet for people, without an end of line.
pub fn text(number: u64, packet: &Packet<'_>) -> String {
    let interface = name(packet);
    let direction = direction(packet).unwrap_or("");
    let place = [interface, direction]
        .iter()
        .filter(|word| !word.is_empty())
        .map(|word| format!("{word} "))
        .collect::<String>();
    let cut = match packet.head.original_len as usize {
        original if original > packet.head.len => format!(" [{} of {original} B kept]", packet.head.len),
        _ => String::new(),
    };
    format!("{number:>7} {} {place}{}{cut}", time(packet.head.time_ns), summary(packet))
}

/// The packet as a JSON object.
pub fn json(number: u64, packet: &Packet<'_>) -> String {
    let layers = (packet.head.link_type == ETHERNET).then(|| Layers::of(packet.bytes));
    let line = Line {
        schema: "linerate.packet/1",
        number,
        time: time(packet.head.time_ns),
        time_ns: packet.head.time_ns,
        interface: name(packet),
        direction: direction(packet),
        length: packet.head.original_len,
        kept: packet.head.len,
        summary: summary(packet),
        layers: layers.as_ref(),
        data: layers.as_ref().map(|layers| layers.data),
        error: layers.as_ref().and_then(|layers| layers.error.as_deref()),
    };
    // Numbers and texts always can be.
    serde_json::to_string(&line).unwrap_or_default()
}

/// The packet's bytes.
pub fn bytes(packet: &Packet<'_>) -> String {
    Hexdump(packet.bytes).to_string()
}

/// `2026-11-21T10:59:03.123456789Z`.
pub fn time(time_ns: u64) -> String {
    let seconds = Timestamp::from_unix_ms(time_ns / 1_000_000).to_string();
    let seconds = seconds.split_once('.').map_or(seconds.as_str(), |(seconds, _)| seconds);
    format!("{seconds}.{:09}Z", time_ns % 1_000_000_000)
}

fn summary(packet: &Packet<'_>) -> String {
    match packet.head.link_type {
        ETHERNET => Summary(packet.bytes).to_string(),
        other => format!("{} B of link type {other}", packet.bytes.len()),
    }
}

fn name<'a>(packet: &Packet<'a>) -> &'a str {
    packet.interface.map_or("", |interface| interface.name.as_str())
}

fn direction(packet: &Packet<'_>) -> Option<&'static str> {
    match packet.head.direction {
        Direction::Unknown => None,
        Direction::Inbound => Some("in"),
        Direction::Outbound => Some("out"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_nine_digits() {
        assert_eq!(time(1_795_258_743_000_000_001), "2026-11-21T10:59:03.000000001Z");
        assert_eq!(time(0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(time(u64::MAX), "2554-07-21T23:34:33.709551615Z");
    }
}
