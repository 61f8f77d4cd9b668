//! Actions on the wire (section 7.2.5).

use super::experimenter::{put_experimenter_part, take_experimenter_part};
use super::oxm::{SetField, put_experimenter_field, put_field, take_set_field};
use super::wire::{Reader, Writer};
use crate::{Action, ErrorKind, PortNumber};

/// Reads actions until the part ends.
pub(super) fn take_actions(reader: &mut Reader) -> Result<Vec<Action>, ErrorKind> {
    // No action takes fewer bytes, and few take more than twice as many.
    let mut actions = Vec::with_capacity((reader.len() / 8).min(ACTIONS_FIRST));
    while !reader.is_empty() {
        actions.push(take_action(reader)?);
    }
    Ok(actions)
}

/// Actions for which a list has room from the start.
const ACTIONS_FIRST: usize = 8;

pub(super) fn put_actions(out: &mut Vec<u8>, actions: &[Action]) {
    for action in actions {
        put_action(out, action);
    }
}

fn take_action(reader: &mut Reader) -> Result<Action, ErrorKind> {
    let (kind, length) = (reader.u16()?, usize::from(reader.u16()?));
    if length < 8 || !length.is_multiple_of(8) || length - 4 > reader.len() {
        return Err(ErrorKind::BadActionBadLen);
    }
    let mut body = reader.part(length - 4, ErrorKind::BadActionBadLen)?;
    let wanted_length = match kind {
        0 => 16,
        11 | 12 | 15..=24 | 26 | 27 => 8,
        25 => return take_set_field_action(&mut body),
        EXPERIMENTER => return Ok(Action::Experimenter(Box::new(take_experimenter_part(&mut body)?))),
        _ => return Err(ErrorKind::BadActionBadType),
    };
    if length != wanted_length {
        return Err(ErrorKind::BadActionBadLen);
    }
    Ok(match kind {
        0 => Action::Output { port: PortNumber(body.u32()?), max_len: body.u16()? },
        11 => Action::CopyTtlOut,
        12 => Action::CopyTtlIn,
        15 => Action::SetMplsTtl(body.u8()?),
        16 => Action::DecMplsTtl,
        17 => Action::PushVlan(body.u16()?),
        18 => Action::PopVlan,
        19 => Action::PushMpls(body.u16()?),
        20 => Action::PopMpls(body.u16()?),
        21 => Action::SetQueue(body.u32()?),
        22 => Action::Group(body.u32()?),
        23 => Action::SetNwTtl(body.u8()?),
        24 => Action::DecNwTtl,
        26 => Action::PushPbb(body.u16()?),
        _ => Action::PopPbb,
    })
}

const EXPERIMENTER: u16 = 0xffff;

fn take_set_field_action(body: &mut Reader) -> Result<Action, ErrorKind> {
    let set = take_set_field(body)?;
    if body.len() >= 8 {
        return Err(ErrorKind::BadActionBadSetLen);
    }
    Ok(match set {
        SetField::Basic(field, value) => Action::SetField(field, value),
        SetField::Experimenter(field) => Action::SetExperimenterField(Box::new(field)),
    })
}

fn put_action(out: &mut Vec<u8>, action: &Action) {
    let start = out.len();
    out.u16(action.number());
    out.u16(8);
    match action {
        &Action::Output { port, max_len } => {
            out.u32(port.0);
            out.u16(max_len);
            out.zeros(6);
            out.set_length(start + 2, start);
        }
        &Action::SetField(field, value) => {
            put_field(out, field, value & field.full_mask(), None);
            out.pad_to_8(start);
            out.set_length(start + 2, start);
        }
        Action::SetMplsTtl(ttl) | Action::SetNwTtl(ttl) => {
            out.u8(*ttl);
            out.zeros(3);
        }
        Action::PushVlan(kind) | Action::PushMpls(kind) | Action::PopMpls(kind) | Action::PushPbb(kind) => {
            out.u16(*kind);
            out.zeros(2);
        }
        Action::SetQueue(number) | Action::Group(number) => out.u32(*number),
        Action::CopyTtlOut
        | Action::CopyTtlIn
        | Action::DecMplsTtl
        | Action::PopVlan
        | Action::DecNwTtl
        | Action::PopPbb => out.zeros(4),
        Action::SetExperimenterField(field) => {
            put_experimenter_field(out, field);
            out.pad_to_8(start);
            out.set_length(start + 2, start);
        }
        Action::Experimenter(part) => {
            put_experimenter_part(out, start, part);
            out.set_length(start + 2, start);
        }
    }
}
