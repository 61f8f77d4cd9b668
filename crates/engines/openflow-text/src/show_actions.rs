//! Prints actions and instructions as ovs-ofctl does.

use crate::actions::rank;
use crate::names::ovs_name;
use crate::value::{experimenter_field_text, hex_text, port_text, value_text};
use linerate_openflow::{Action, ExperimenterPart, Instruction, PortNumber};

/// Actions as ovs-ofctl prints them; `drop` if there are none.
pub fn actions_text(actions: &[Action]) -> String {
    match actions {
        [] => "drop".into(),
        _ => list(actions),
    }
}

/// Instructions as ovs-ofctl prints them behind `actions=`: in the order in which they are carried out, applied actions without a word
/// of their own; `drop` if there are none.
pub fn instructions_text(instructions: &[Instruction]) -> String {
    let mut sorted: Vec<&Instruction> = instructions.iter().collect();
    sorted.sort_by_key(|instruction| rank(instruction));
    let words: Vec<String> = sorted.into_iter().map(instruction_text).filter(|word| !word.is_empty()).collect();
    if words.is_empty() { "drop".into() } else { words.join(",") }
}

fn instruction_text(instruction: &Instruction) -> String {
    match instruction {
        Instruction::Meter(meter) => format!("meter:{meter}"),
        Instruction::ApplyActions(actions) => list(actions),
        Instruction::ClearActions => "clear_actions".into(),
        Instruction::WriteActions(actions) => format!("write_actions({})", actions_text(actions)),
        Instruction::WriteMetadata { metadata, mask: u64::MAX } => format!("write_metadata:{metadata:#x}"),
        Instruction::WriteMetadata { metadata, mask } => format!("write_metadata:{metadata:#x}/{mask:#x}"),
        Instruction::GotoTable(table) => format!("goto_table:{table}"),
        Instruction::Experimenter(part) => part_text(part),
    }
}

fn list(actions: &[Action]) -> String {
    actions.iter().map(action_text).collect::<Vec<_>>().join(",")
}

fn action_text(action: &Action) -> String {
    match action {
        Action::Output { port: PortNumber::CONTROLLER, max_len } => format!("CONTROLLER:{max_len}"),
        Action::Output { port, .. } if *port > PortNumber::MAX => port_text(*port),
        Action::Output { port, .. } => format!("output:{}", port.0),
        Action::CopyTtlOut => "copy_ttl_out".into(),
        Action::CopyTtlIn => "copy_ttl_in".into(),
        Action::SetMplsTtl(ttl) => format!("set_mpls_ttl({ttl})"),
        Action::DecMplsTtl => "dec_mpls_ttl".into(),
        Action::PushVlan(ether_type) => format!("push_vlan:{ether_type:#06x}"),
        Action::PopVlan => "pop_vlan".into(),
        Action::PushMpls(ether_type) => format!("push_mpls:{ether_type:#06x}"),
        Action::PopMpls(ether_type) => format!("pop_mpls:{ether_type:#06x}"),
        Action::SetQueue(queue) => format!("set_queue:{queue}"),
        Action::Group(group) => format!("group:{group}"),
        Action::SetNwTtl(ttl) => format!("mod_nw_ttl:{ttl}"),
        Action::DecNwTtl => "dec_ttl".into(),
        Action::SetField(field, value) => format!("set_field:{}->{}", value_text(*field, *value), ovs_name(*field)),
        Action::PushPbb(ether_type) => format!("push_pbb:{ether_type:#06x}"),
        Action::PopPbb => "pop_pbb".into(),
        Action::SetExperimenterField(field) => format!("set_field:{}", experimenter_field_text(field)),
        Action::Experimenter(part) => part_text(part),
    }
}

/// What an experimenter knows, as its number and bytes.
fn part_text(part: &ExperimenterPart) -> String {
    format!("experimenter({:#x},{})", part.experimenter, hex_text(&part.data))
}
