//! The lines of `show flow` as Lagopus 0.1.1 printed them (its `src/dataplane/mgr/flowdb_show.c`, 2014).

use crate::names::{ARP, IPV4, IPV6, MPLS, MPLS_MULTICAST, PBB};
use crate::show_actions::{actions_text, instructions_text};
use crate::value::{Form, form, port_text, value_text};
use linerate_openflow::{Action, Field, FieldMatch, FlowStats, Instruction, PortNumber};

/// An entry as a line of Lagopus's `show flow`, without the spaces before it. Numbers are decimal, fields have the specification's names,
/// and the actions of write-actions and apply-actions look the same, as they did there.
pub fn lagopus_flow_line(flow: &FlowStats) -> String {
    let mut line = format!(
        "priority={},idle_timeout={},hard_timeout={},flags={},cookie={},packet_count={},byte_count={}",
        flow.priority, flow.idle_timeout_s, flow.hard_timeout_s, flow.flags.0, flow.cookie, flow.packets, flow.bytes
    );
    for wanted in &flow.matching.fields {
        line += &format!(",{}", field_text(wanted));
    }
    let instructions: Vec<String> = flow.instructions.iter().map(instruction_text).collect();
    let actions = if instructions.is_empty() { "drop".into() } else { instructions.join(",") };
    format!("{line} actions={actions}")
}

fn field_text(wanted: &FieldMatch) -> String {
    let (field, value) = (wanted.field, wanted.value);
    let protocol = match value {
        ARP => Some("arp"),
        IPV4 => Some("ip"),
        IPV6 => Some("ipv6"),
        MPLS => Some("mpls"),
        MPLS_MULTICAST => Some("mplsmc"),
        PBB => Some("pbb"),
        _ => None,
    };
    match protocol {
        Some(protocol) if field == Field::EthType => protocol.into(),
        _ => {
            let mask = wanted.mask.map(|mask| format!("/{mask:#x}")).unwrap_or_default();
            format!("{}={}{mask}", field.name(), plain(field, value))
        }
    }
}

/// A value with numbers in decimal and ports in small letters.
fn plain(field: Field, value: u128) -> String {
    match form(field) {
        Form::Port => port_text(PortNumber(value as u32)).to_lowercase(),
        Form::Hexadecimal if field != Field::EthType => value.to_string(),
        _ => value_text(field, value),
    }
}

fn instruction_text(instruction: &Instruction) -> String {
    match instruction {
        Instruction::GotoTable(table) => format!("goto_table:{table}"),
        Instruction::WriteMetadata { metadata, .. } => format!("write_metadata:{metadata:#x}"),
        Instruction::WriteActions(actions) | Instruction::ApplyActions(actions) => {
            actions.iter().map(action_text).collect::<Vec<_>>().join(",")
        }
        Instruction::ClearActions => "clear_actions".into(),
        Instruction::Meter(meter) => format!("meter:{meter}"),
        Instruction::Experimenter(_) => instructions_text(std::slice::from_ref(instruction)),
    }
}

fn action_text(action: &Action) -> String {
    match action {
        Action::Output { port, .. } => format!("output:{}", port_text(*port).to_lowercase()),
        Action::SetField(field, value) => format!("set_field:{}->{}", plain(*field, *value), field.name()),
        Action::SetMplsTtl(ttl) => format!("set_mpls_ttl:{ttl}"),
        Action::SetNwTtl(ttl) => format!("set_nw_ttl:{ttl}"),
        Action::DecNwTtl => "dec_nw_ttl".into(),
        other => actions_text(std::slice::from_ref(other)),
    }
}
