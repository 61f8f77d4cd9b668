//! Packets to and from controllers on the wire (sections 7.3.7 and 7.4.1).

use super::action::{put_actions, take_actions};
use super::oxm::{put_match, take_match};
use super::wire::{Reader, Writer};
use crate::{ErrorKind, PacketIn, PacketInReason, PacketOut, PortNumber};

pub(super) fn take_packet_in(reader: &mut Reader) -> Result<PacketIn, ErrorKind> {
    let (buffer_id, total_len) = (reader.u32()?, reader.u16()?);
    let reason = match reader.u8()? {
        0 => PacketInReason::NoMatch,
        1 => PacketInReason::Action,
        2 => PacketInReason::InvalidTtl,
        _ => return Err(ErrorKind::BadRequestBadType),
    };
    let (table, cookie, matching) = (reader.u8()?, reader.u64()?, take_match(reader)?);
    reader.skip(2)?;
    Ok(PacketIn { buffer_id, total_len, reason, table, cookie, matching, data: reader.rest().to_vec() })
}

pub(super) fn put_packet_in(out: &mut Vec<u8>, packet: &PacketIn) {
    out.u32(packet.buffer_id);
    out.u16(packet.total_len);
    out.u8(packet.reason as u8);
    out.u8(packet.table);
    out.u64(packet.cookie);
    put_match(out, &packet.matching);
    out.zeros(2);
    out.extend_from_slice(&packet.data);
}

pub(super) fn take_packet_out(reader: &mut Reader) -> Result<PacketOut, ErrorKind> {
    let (buffer_id, in_port, length) = (reader.u32()?, PortNumber(reader.u32()?), usize::from(reader.u16()?));
    reader.skip(6)?;
    let mut part = reader.part(length, ErrorKind::BadActionBadLen)?;
    Ok(PacketOut { buffer_id, in_port, actions: take_actions(&mut part)?, data: reader.rest().to_vec() })
}

pub(super) fn put_packet_out(out: &mut Vec<u8>, packet: &PacketOut) {
    out.u32(packet.buffer_id);
    out.u32(packet.in_port.0);
    let length_at = out.len();
    out.zeros(8);
    let start = out.len();
    put_actions(out, &packet.actions);
    out.set_length(length_at, start);
    out.extend_from_slice(&packet.data);
}
