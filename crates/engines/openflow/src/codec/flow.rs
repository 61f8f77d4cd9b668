//! Flow entries on the wire: changes, filters, statistics, removals (sections 7.3.4.2, 7.3.5.2, 7.4.2).

use super::instruction::{put_instructions, take_instructions};
use super::oxm::{put_match, take_match};
use super::wire::{Reader, Writer};
use crate::{
    ErrorKind, FlowCommand, FlowFilter, FlowFlags, FlowMod, FlowRemoved, FlowRemovedReason, FlowStats, PortNumber,
};

pub(super) fn take_flow_mod(reader: &mut Reader) -> Result<FlowMod, ErrorKind> {
    let (cookie, cookie_mask, table) = (reader.u64()?, reader.u64()?, reader.u8()?);
    let command = match reader.u8()? {
        0 => FlowCommand::Add,
        1 => FlowCommand::Modify,
        2 => FlowCommand::ModifyStrict,
        3 => FlowCommand::Delete,
        4 => FlowCommand::DeleteStrict,
        _ => return Err(ErrorKind::FlowModFailedBadCommand),
    };
    let (idle_timeout_s, hard_timeout_s, priority) = (reader.u16()?, reader.u16()?, reader.u16()?);
    let (buffer_id, out_port, out_group) = (reader.u32()?, PortNumber(reader.u32()?), reader.u32()?);
    let flags = FlowFlags(reader.u16()?);
    reader.skip(2)?;
    let matching = take_match(reader)?;
    let instructions = take_instructions(reader)?;
    Ok(FlowMod {
        cookie,
        cookie_mask,
        table,
        command,
        idle_timeout_s,
        hard_timeout_s,
        priority,
        buffer_id,
        out_port,
        out_group,
        flags,
        matching,
        instructions,
    })
}

pub(super) fn put_flow_mod(out: &mut Vec<u8>, change: &FlowMod) {
    out.u64(change.cookie);
    out.u64(change.cookie_mask);
    out.u8(change.table);
    out.u8(change.command as u8);
    out.u16(change.idle_timeout_s);
    out.u16(change.hard_timeout_s);
    out.u16(change.priority);
    out.u32(change.buffer_id);
    out.u32(change.out_port.0);
    out.u32(change.out_group);
    out.u16(change.flags.0);
    out.zeros(2);
    put_match(out, &change.matching);
    put_instructions(out, &change.instructions);
}

pub(super) fn take_flow_removed(reader: &mut Reader) -> Result<FlowRemoved, ErrorKind> {
    Ok(FlowRemoved {
        cookie: reader.u64()?,
        priority: reader.u16()?,
        reason: match reader.u8()? {
            0 => FlowRemovedReason::IdleTimeout,
            1 => FlowRemovedReason::HardTimeout,
            2 => FlowRemovedReason::Delete,
            3 => FlowRemovedReason::GroupDelete,
            _ => return Err(ErrorKind::BadRequestBadType),
        },
        table: reader.u8()?,
        duration_ns: reader.duration_ns()?,
        idle_timeout_s: reader.u16()?,
        hard_timeout_s: reader.u16()?,
        packets: reader.u64()?,
        bytes: reader.u64()?,
        matching: take_match(reader)?,
    })
}

pub(super) fn put_flow_removed(out: &mut Vec<u8>, removed: &FlowRemoved) {
    out.u64(removed.cookie);
    out.u16(removed.priority);
    out.u8(removed.reason as u8);
    out.u8(removed.table);
    out.duration_ns(removed.duration_ns);
    out.u16(removed.idle_timeout_s);
    out.u16(removed.hard_timeout_s);
    out.u64(removed.packets);
    out.u64(removed.bytes);
    put_match(out, &removed.matching);
}

pub(super) fn take_filter(reader: &mut Reader) -> Result<FlowFilter, ErrorKind> {
    let table = reader.u8()?;
    reader.skip(3)?;
    let (out_port, out_group) = (PortNumber(reader.u32()?), reader.u32()?);
    reader.skip(4)?;
    let (cookie, cookie_mask) = (reader.u64()?, reader.u64()?);
    Ok(FlowFilter { table, out_port, out_group, cookie, cookie_mask, matching: take_match(reader)? })
}

pub(super) fn put_filter(out: &mut Vec<u8>, filter: &FlowFilter) {
    out.u8(filter.table);
    out.zeros(3);
    out.u32(filter.out_port.0);
    out.u32(filter.out_group);
    out.zeros(4);
    out.u64(filter.cookie);
    out.u64(filter.cookie_mask);
    put_match(out, &filter.matching);
}

pub(super) fn take_flow_stats(reader: &mut Reader) -> Result<FlowStats, ErrorKind> {
    let length = usize::from(reader.u16()?).checked_sub(2).ok_or(ErrorKind::BadRequestBadLen)?;
    let mut part = reader.part(length, ErrorKind::BadRequestBadLen)?;
    let table = part.u8()?;
    part.skip(1)?;
    let duration_ns = part.duration_ns()?;
    let (priority, idle_timeout_s, hard_timeout_s) = (part.u16()?, part.u16()?, part.u16()?);
    let flags = FlowFlags(part.u16()?);
    part.skip(4)?;
    let (cookie, packets, bytes) = (part.u64()?, part.u64()?, part.u64()?);
    let matching = take_match(&mut part)?;
    let instructions = take_instructions(&mut part)?;
    Ok(FlowStats {
        table,
        duration_ns,
        priority,
        idle_timeout_s,
        hard_timeout_s,
        flags,
        cookie,
        packets,
        bytes,
        matching,
        instructions,
    })
}

pub(super) fn put_flow_stats(out: &mut Vec<u8>, flow: &FlowStats) {
    let start = out.len();
    out.zeros(2);
    out.u8(flow.table);
    out.zeros(1);
    out.duration_ns(flow.duration_ns);
    out.u16(flow.priority);
    out.u16(flow.idle_timeout_s);
    out.u16(flow.hard_timeout_s);
    out.u16(flow.flags.0);
    out.zeros(4);
    out.u64(flow.cookie);
    out.u64(flow.packets);
    out.u64(flow.bytes);
    put_match(out, &flow.matching);
    put_instructions(out, &flow.instructions);
    out.set_length(start, start);
}
