//! Instructions on the wire (section 7.2.4).

use super::action::{put_actions, take_actions};
use super::experimenter::{put_experimenter_part, take_experimenter_part};
use super::wire::{Reader, Writer};
use crate::{ErrorKind, Instruction};

/// Reads instructions until the part ends.
pub(super) fn take_instructions(reader: &mut Reader) -> Result<Vec<Instruction>, ErrorKind> {
    let mut instructions = Vec::new();
    let mut part = Reader::new(reader.rest(), ErrorKind::BadInstructionBadLen);
    while !part.is_empty() {
        let instruction = take_instruction(&mut part)?;
        if instructions.is_empty() {
            instructions.reserve_exact(1 + usize::from(!part.is_empty()));
        }
        instructions.push(instruction);
    }
    Ok(instructions)
}

pub(super) fn put_instructions(out: &mut Vec<u8>, instructions: &[Instruction]) {
    for instruction in instructions {
        put_instruction(out, instruction);
    }
}

pub(super) fn take_instruction(reader: &mut Reader) -> Result<Instruction, ErrorKind> {
    let (kind, length) = (reader.u16()?, usize::from(reader.u16()?));
    let mut body = match length.checked_sub(4) {
        Some(rest) if length.is_multiple_of(8) => reader.part(rest, ErrorKind::BadInstructionBadLen)?,
        _ => return Err(ErrorKind::BadInstructionBadLen),
    };
    let wanted_length = match kind {
        1 | 5 | 6 => 8,
        2 => 24,
        3 | 4 if length >= 8 => length,
        3 | 4 => return Err(ErrorKind::BadInstructionBadLen),
        0xffff => return Ok(Instruction::Experimenter(Box::new(take_experimenter_part(&mut body)?))),
        _ => return Err(ErrorKind::BadInstructionUnknownInst),
    };
    if length != wanted_length {
        return Err(ErrorKind::BadInstructionBadLen);
    }
    Ok(match kind {
        1 => Instruction::GotoTable(body.u8()?),
        2 => {
            body.skip(4)?;
            Instruction::WriteMetadata { metadata: body.u64()?, mask: body.u64()? }
        }
        3 | 4 => {
            body.skip(4)?;
            let actions = take_actions(&mut Reader::new(body.rest(), ErrorKind::BadActionBadLen))?;
            if kind == 3 { Instruction::WriteActions(actions) } else { Instruction::ApplyActions(actions) }
        }
        5 => Instruction::ClearActions,
        _ => Instruction::Meter(body.u32()?),
    })
}

fn put_instruction(out: &mut Vec<u8>, instruction: &Instruction) {
    let start = out.len();
    out.u16(instruction.number());
    out.u16(8);
    match instruction {
        Instruction::GotoTable(table) => {
            out.u8(*table);
            out.zeros(3);
        }
        Instruction::WriteMetadata { metadata, mask } => {
            out.zeros(4);
            out.u64(*metadata);
            out.u64(*mask);
        }
        Instruction::WriteActions(actions) | Instruction::ApplyActions(actions) => {
            out.zeros(4);
            put_actions(out, actions);
        }
        Instruction::ClearActions => out.zeros(4),
        Instruction::Meter(meter) => out.u32(*meter),
        Instruction::Experimenter(part) => put_experimenter_part(out, start, part),
    }
    out.set_length(start + 2, start);
}
