//! What a table takes: the features of the table, as sets, so that each flow-mod is checked in a few steps.

use linerate_openflow::{Action, ErrorKind, Field, Instruction, Match, OfError};

/// What a table's features permit. A set has a bit for each number; where there are two, the second is of the table-miss entry.
#[derive(Clone, Copy, Debug)]
pub struct Permits {
    /// Entries, at most.
    pub entries_max: u32,
    /// Fields of matches.
    pub fields: u64,
    /// Fields whose matches may have a mask.
    pub maskable: u64,
    /// Fields that an entry must name, unless it is the table-miss entry.
    pub required: u64,
    /// Bits of the metadata that matches compare.
    pub metadata_match: u64,
    /// Bits of the metadata that entries write.
    pub metadata_write: u64,
    /// Tables that come next, 64 of them in a word.
    pub next_tables: [[u64; 4]; 2],
    /// Instructions.
    pub instructions: [u32; 2],
    /// Actions, and fields that they set, of lists that are applied.
    pub apply: [(u32, u64); 2],
    /// Actions, and fields that they set, of lists that are written into the action set.
    pub write: [(u32, u64); 2],
}

impl Permits {
    /// The place of a field in a set.
    pub fn bit(field: Field) -> u64 {
        1 << field as u8
    }

    /// Whether they permit an entry's match.
    pub(super) fn check_match(&self, priority: u16, matching: &Match) -> Result<(), OfError> {
        let mut named = 0;
        for wanted in &matching.fields {
            let bit = Permits::bit(wanted.field);
            named |= bit;
            if self.fields & bit == 0 {
                return Err(ErrorKind::BadMatchBadField.into());
            }
            let mask = wanted.effective_mask();
            let masked = mask != wanted.field.full_mask();
            let beyond = wanted.field == Field::Metadata && mask & !u128::from(self.metadata_match) != 0;
            if masked && self.maskable & bit == 0 || beyond {
                return Err(ErrorKind::BadMatchBadMask.into());
            }
        }
        // A table-miss entry leaves out all fields.
        let is_miss = priority == 0 && matching.fields.is_empty();
        if !is_miss && self.required & !named != 0 {
            return Err(ErrorKind::BadMatchBadWildcards.into());
        }
        Ok(())
    }

    /// Whether they permit an entry's instructions.
    pub(super) fn check_instructions(&self, is_miss: bool, instructions: &[Instruction]) -> Result<(), OfError> {
        let of = usize::from(is_miss);
        for instruction in instructions {
            match instruction {
                Instruction::GotoTable(next)
                    if self.next_tables[of][usize::from(next >> 6)] >> (next & 63) & 1 == 0 =>
                {
                    return Err(ErrorKind::BadInstructionBadTableId.into());
                }
                Instruction::WriteMetadata { mask, .. } if mask & !self.metadata_write != 0 => {
                    return Err(ErrorKind::BadInstructionUnsupMetadataMask.into());
                }
                Instruction::WriteActions(actions) => check_actions(actions, self.write[of])?,
                Instruction::ApplyActions(actions) => check_actions(actions, self.apply[of])?,
                _ => {}
            }
            if !permits_number(self.instructions[of], instruction.number()) {
                return Err(ErrorKind::BadInstructionUnsupInst.into());
            }
        }
        Ok(())
    }
}

/// True if a set of types has this one; it never has an experimenter's.
fn permits_number(kinds: u32, number: u16) -> bool {
    kinds.checked_shr(number.into()).is_some_and(|kinds| kinds & 1 == 1)
}

fn check_actions(actions: &[Action], (kinds, fields): (u32, u64)) -> Result<(), OfError> {
    for action in actions {
        if !permits_number(kinds, action.number()) {
            return Err(ErrorKind::BadActionBadType.into());
        }
        if let Action::SetField(field, _) = action
            && fields & Permits::bit(*field) == 0
        {
            return Err(ErrorKind::BadActionBadSetType.into());
        }
    }
    Ok(())
}
