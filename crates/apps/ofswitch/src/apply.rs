//! Changes of flow entries, groups and meters in the syntax of ovs-ofctl, from the control socket and from files.

use linerate_control::ControlError;
use linerate_openflow::{ErrorKind, FlowCommand, GroupCommand, GroupMod, MeterCommand, MeterMod, OfError};
use linerate_openflow_text::{TextError, parse_flow, parse_group, parse_meter};
use linerate_pipeline::Switch;
use linerate_sys::clock;
use serde_json::{Value, json};

use crate::request::Change;

/// Changes flow entries, in their order; the first that is refused ends it.
pub(crate) fn flows(switch: &mut Switch, change: Change, flows: &[String]) -> Result<Value, ControlError> {
    for (place, text) in flows.iter().enumerate() {
        flow(switch, change, text).map_err(|error| {
            let before = if place > 0 { format!(" (those before it, {place}, are in force)") } else { String::new() };
            ControlError { cause: format!("{}{before}", error.cause), ..error }
        })?;
    }
    Ok(json!({}))
}

fn flow(switch: &mut Switch, change: Change, text: &str) -> Result<(), ControlError> {
    let command = match change {
        Change::Add => FlowCommand::Add,
        Change::Modify => FlowCommand::Modify,
        Change::ModifyStrict => FlowCommand::ModifyStrict,
        Change::Delete => FlowCommand::Delete,
        Change::DeleteStrict => FlowCommand::DeleteStrict,
    };
    let request = parse_flow(text, command).map_err(unreadable)?;
    request.check().map_err(|error| refused(text, OfError(error)))?;
    switch.flow_mod(request, clock::now_ns()).map_err(|error| refused(text, error))
}

/// Changes a group.
pub(crate) fn group(switch: &mut Switch, change: Change, text: &str) -> Result<Value, ControlError> {
    let command = match change {
        Change::Add => GroupCommand::Add,
        Change::Modify | Change::ModifyStrict => GroupCommand::Modify,
        Change::Delete | Change::DeleteStrict => GroupCommand::Delete,
    };
    let request = group_mod(text, command)?;
    switch.group_mod(request, clock::now_ns()).map_err(|error| refused(text, error))?;
    Ok(json!({}))
}

fn group_mod(text: &str, command: GroupCommand) -> Result<GroupMod, ControlError> {
    let request = parse_group(text, command).map_err(unreadable)?;
    request.check().map_err(|error| refused(text, OfError(error)))?;
    Ok(request)
}

/// Changes a meter.
pub(crate) fn meter(switch: &mut Switch, change: Change, text: &str) -> Result<Value, ControlError> {
    let command = match change {
        Change::Add => MeterCommand::Add,
        Change::Modify | Change::ModifyStrict => MeterCommand::Modify,
        Change::Delete | Change::DeleteStrict => MeterCommand::Delete,
    };
    let request = meter_mod(text, command)?;
    switch.meter_mod(request, clock::now_ns()).map_err(|error| refused(text, error))?;
    Ok(json!({}))
}

fn meter_mod(text: &str, command: MeterCommand) -> Result<MeterMod, ControlError> {
    let request = parse_meter(text, command).map_err(unreadable)?;
    request.check().map_err(|error| refused(text, OfError(error)))?;
    Ok(request)
}

/// Adds a group, or puts it in place of the one with its number.
fn put_group(switch: &mut Switch, text: &str) -> Result<(), ControlError> {
    let request = group_mod(text, GroupCommand::Add)?;
    let done = match switch.group_mod(request, clock::now_ns()) {
        Err(OfError(ErrorKind::GroupModFailedGroupExists)) => {
            switch.group_mod(group_mod(text, GroupCommand::Modify)?, clock::now_ns())
        }
        done => done,
    };
    done.map(drop).map_err(|error| refused(text, error))
}

/// The same with a meter.
fn put_meter(switch: &mut Switch, text: &str) -> Result<(), ControlError> {
    let request = meter_mod(text, MeterCommand::Add)?;
    let done = match switch.meter_mod(request, clock::now_ns()) {
        Err(OfError(ErrorKind::MeterModFailedMeterExists)) => {
            switch.meter_mod(meter_mod(text, MeterCommand::Modify)?, clock::now_ns())
        }
        done => done,
    };
    done.map(drop).map_err(|error| refused(text, error))
}

/// Adds the entries of lines: flow entries, or what follows `flow`, `group` and `meter`, as a saved state has them. What is there already, a flow
/// entry with the same match and priority, a group or meter with the same number, is replaced. Empty lines and comments (`#`) are skipped.
///
/// # Errors
/// A line is wrong, or the switch refuses it; those before it are in force.
pub(crate) fn restore(switch: &mut Switch, lines: &[String]) -> Result<Value, ControlError> {
    let mut counts = [0u64; 3];
    for (number, line) in lines.iter().enumerate() {
        let text = line.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (place, done) = match kind {
            "meter" => (0, put_meter(switch, rest)),
            "group" => (1, put_group(switch, rest)),
            "flow" => (2, flow(switch, Change::Add, rest)),
            _ => (2, flow(switch, Change::Add, text)),
        };
        done.map_err(|error| ControlError { cause: format!("line {}: {}", number + 1, error.cause), ..error })?;
        counts[place] += 1;
    }
    Ok(json!({ "meters": counts[0], "groups": counts[1], "flows": counts[2] }))
}

fn unreadable(error: TextError) -> ControlError {
    ControlError::new(error.to_string(), "docs/ofswitch.md describes the syntax, which is that of ovs-ofctl")
}

fn refused(text: &str, error: OfError) -> ControlError {
    ControlError::new(format!("refused: {error} ({text})"), hint(error))
}

/// What to do about errors whose names do not say it.
fn hint(error: OfError) -> &'static str {
    use ErrorKind::*;
    match error.0 {
        FlowModFailedTableFull => "delete entries, or start the switch with a larger --table-size",
        FlowModFailedOverlap => "an entry of the same priority matches the same packets",
        BadMatchBadPrereq => "the match needs the protocol of its fields, for example tcp for tcp_dst",
        BadActionBadOutPort => "show port lists the ports",
        BadActionBadOutGroup => "add the group first; show group lists them",
        GroupModFailedGroupExists => "delete the group first",
        MeterModFailedMeterExists => "delete the meter first",
        MeterModFailedUnknownMeter => "add the meter first; show meter lists them",
        _ => "",
    }
}
