//! Walks one packet through the switch, in words.

use linerate_control::ControlError;
use linerate_openflow::{GroupKind, Match, PortNumber};
use linerate_openflow_text::{TextPacket, actions_text, instructions_text, match_text, parse_packet, port_text};
use linerate_pipeline::packet::PipelineFields;
use linerate_pipeline::{Switch, TraceStep, TracedEntry};

use crate::config::port_number;
use crate::document::TraceDocument;

/// Bytes of a packet that a step shows.
const SHOWN: usize = 64;

/// Says what would happen to a packet: fields in the syntax of ovs-ofctl, or `hex:` and its bytes.
///
/// # Errors
/// The packet cannot be read, or there is no such port.
pub(crate) fn trace(switch: &mut Switch, packet: &str, in_port: Option<&str>) -> Result<TraceDocument, ControlError> {
    let mut traced = match packet.strip_prefix("hex:") {
        Some(digits) => TextPacket { in_port: PortNumber(1), tunnel_id: 0, bytes: bytes(digits)? },
        None => {
            let hint = "write fields as ovs-ofctl does, for example in_port=1,tcp,nw_dst=10.0.0.1,tcp_dst=80, or the bytes in hex";
            parse_packet(packet).map_err(|error| ControlError::new(error.to_string(), hint))?
        }
    };
    if let Some(name) = in_port {
        traced.in_port = port_number(name).map_err(|error| ControlError::new(error, "show port lists the ports"))?;
    }
    if !switch.ports().iter().any(|port| port.number == traced.in_port) {
        let cause = format!("there is no port {}", port_text(traced.in_port));
        return Err(ControlError::new(
            cause,
            "in_port= names the port by which the packet arrives; show port lists them",
        ));
    }
    let fields = PipelineFields {
        in_port: traced.in_port.0,
        in_phy_port: traced.in_port.0,
        tunnel_id: traced.tunnel_id,
        metadata: 0,
    };
    let found = switch.trace(&traced.bytes, &fields);
    let mut steps = vec![format!("{} bytes arrive by port {}", traced.bytes.len(), port_text(traced.in_port))];
    let mut before = Match::default();
    steps.extend(found.iter().map(|step| words(step, &mut before)));
    Ok(TraceDocument { steps, verdict: verdict(&found) })
}

fn bytes(digits: &str) -> Result<Vec<u8>, ControlError> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| !matches!(byte, b' ' | b':' | b'\n')).collect();
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok()?;
        (pair.len() == 2 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then(|| u8::from_str_radix(text, 16).ok())?
    };
    let all = digits.chunks(2).map(pair).collect::<Option<Vec<u8>>>();
    all.ok_or_else(|| ControlError::new("not the bytes of a packet", "two hexadecimal digits make a byte"))
}

fn words(step: &TraceStep, before: &mut Match) -> String {
    match step {
        TraceStep::Fields(fields) => {
            let changed = fields.fields.iter().filter(|field| !before.fields.contains(field));
            let shown = Match::new(changed.cloned().collect());
            *before = fields.clone();
            format!("fields: {}", match_text(&shown))
        }
        TraceStep::Table { table, entry: Some(entry) } => format!("table {table}: {}", entry_text(entry)),
        TraceStep::Table { table, entry: None } => {
            format!("table {table}: no entry matches, and there is no table-miss entry")
        }
        TraceStep::Meter(meter) => format!("meter {meter}: passes, if its rate is not exceeded"),
        TraceStep::Metadata(metadata) => format!("metadata is now {metadata:#x}"),
        TraceStep::Applied(action) => format!("applied: {}", actions_text(std::slice::from_ref(action))),
        TraceStep::ActionSet(actions) => format!("action set: {}", actions_text(actions)),
        TraceStep::Group { group, kind, bucket } => {
            let kind = match kind {
                GroupKind::All => "all",
                GroupKind::Select => "select",
                GroupKind::Indirect => "indirect",
                GroupKind::FastFailover => "fast failover",
            };
            match bucket {
                Ok(bucket) => format!("group {group} ({kind}): bucket {bucket}"),
                Err(reason) => format!("group {group} ({kind}): {}", reason.name()),
            }
        }
        TraceStep::Output { port, packet } => format!("output to {}: {}", port_text(*port), shown(packet)),
        TraceStep::Dropped(reason) => format!("dropped: {}", reason.name()),
    }
}

fn entry_text(entry: &TracedEntry) -> String {
    let TracedEntry { priority, cookie, matching, instructions } = entry;
    let matching = match_text(matching);
    let comma = if matching.is_empty() { "" } else { "," };
    let actions = instructions_text(instructions);
    format!("priority={priority}{comma}{matching} cookie={cookie:#x} actions={actions}")
}

fn shown(packet: &[u8]) -> String {
    let digits: String = packet.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    let rest = if packet.len() > SHOWN { "..." } else { "" };
    format!("{} bytes {digits}{rest}", packet.len())
}

fn verdict(steps: &[TraceStep]) -> String {
    let mut ports = Vec::new();
    let mut reasons = Vec::new();
    for step in steps {
        match step {
            TraceStep::Output { port, .. } => ports.push(port_text(*port)),
            TraceStep::Dropped(reason) => reasons.push(reason.name()),
            _ => {}
        }
    }
    let dropped = format!("dropped ({})", reasons.join(", "));
    match (ports.is_empty(), reasons.is_empty()) {
        (true, true) => "nothing leaves".into(),
        (true, false) => dropped,
        (false, true) => format!("leaves by {}", ports.join(", ")),
        (false, false) => format!("leaves by {}; {dropped}", ports.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_pairs_of_digits() {
        assert_eq!(bytes("00 1f:Ff"), Ok(vec![0, 0x1f, 0xff]));
        for text in ["0", "0g", "+1", "é1"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
