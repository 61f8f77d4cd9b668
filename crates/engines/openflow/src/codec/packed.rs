//! Matches and instructions in little memory: as the bytes that messages have. A switch keeps a million of them.

use super::instruction::{put_instructions, take_instruction};
use super::oxm::{put_field, take_any_field};
use super::wire::Reader;
use crate::{ErrorKind, Field, FieldMatch, Instruction, Match};

/// A match as bytes: a tenth of the memory of a [`Match`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedMatch(Box<[u8]>);

impl PackedMatch {
    /// Packs a match. Bits of values that their fields do not have are lost.
    pub fn new(matching: &Match) -> PackedMatch {
        let mut bytes = Vec::new();
        for wanted in &matching.fields {
            put_field(&mut bytes, wanted.field, wanted.value, wanted.mask);
        }
        PackedMatch(bytes.into())
    }

    /// The fields in their order.
    pub fn fields(&self) -> impl Iterator<Item = FieldMatch> + '_ {
        let mut reader = Reader::new(&self.0, ErrorKind::BadMatchBadLen);
        std::iter::from_fn(move || if reader.is_empty() { None } else { take_any_field(&mut reader).ok() })
    }

    /// What the match wants of `field`.
    pub fn get(&self, field: Field) -> Option<FieldMatch> {
        self.fields().find(|wanted| wanted.field == field)
    }

    /// The match.
    pub fn unpack(&self) -> Match {
        Match { fields: self.fields().collect() }
    }
}

/// Instructions as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedInstructions(Box<[u8]>);

impl PackedInstructions {
    /// Packs instructions. Bits of values that their fields do not have are lost.
    pub fn new(instructions: &[Instruction]) -> PackedInstructions {
        let mut bytes = Vec::new();
        put_instructions(&mut bytes, instructions);
        PackedInstructions(bytes.into())
    }

    /// The instructions, which are fewer than 65,536 bytes each.
    pub fn unpack(&self) -> Vec<Instruction> {
        let mut reader = Reader::new(&self.0, ErrorKind::BadInstructionBadLen);
        std::iter::from_fn(|| if reader.is_empty() { None } else { take_instruction(&mut reader).ok() }).collect()
    }
}
