//! Matches and instructions in little memory: as bytes, much like those that messages have. A switch keeps a million of them.

use super::instruction::{put_instructions, take_instruction};
use super::oxm::take_number;
use super::wire::Reader;
use crate::{ErrorKind, Field, FieldMatch, Instruction, Match};

/// A match as bytes: a tenth of the memory of a [`Match`]. A field takes a byte for its number and whether it has a mask, then its value and its
/// mask, in as many bytes as in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedMatch(Bytes);

/// The five-tuple of a TCP connection and its ingress port take 26 bytes.
const SHORT: usize = 30;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Bytes {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Box<[u8]>),
}

impl PackedMatch {
    /// Packs a match. Bits of values that their fields do not have are lost, and fields of experimenters, which no entry has.
    pub fn new(matching: &Match) -> PackedMatch {
        let len =
            matching.fields.iter().map(|wanted| 1 + (wanted.field.bytes() << u32::from(wanted.mask.is_some()))).sum();
        if len <= SHORT {
            let mut bytes = [0; SHORT];
            put(matching, &mut bytes);
            return PackedMatch(Bytes::Short { len: len as u8, bytes });
        }
        let mut bytes = vec![0; len].into_boxed_slice();
        put(matching, &mut bytes);
        PackedMatch(Bytes::Long(bytes))
    }

    /// The fields in their order.
    pub fn fields(&self) -> impl Iterator<Item = FieldMatch> + '_ {
        let bytes = match &self.0 {
            Bytes::Short { len, bytes } => &bytes[..usize::from(*len)],
            Bytes::Long(bytes) => bytes,
        };
        let mut reader = Reader::new(bytes, ErrorKind::BadMatchBadLen);
        std::iter::from_fn(move || take(&mut reader))
    }

    /// What the match wants of `field`.
    pub fn get(&self, field: Field) -> Option<FieldMatch> {
        self.fields().find(|wanted| wanted.field == field)
    }

    /// The match.
    pub fn unpack(&self) -> Match {
        Match::new(self.fields().collect())
    }
}

/// Writes the fields of a match into bytes that are as long as they are.
fn put(matching: &Match, mut rest: &mut [u8]) {
    for FieldMatch { field, value, mask } in &matching.fields {
        rest = put_number(rest, 1, u128::from(*field as u8) << 1 | u128::from(mask.is_some()));
        rest = put_number(rest, field.bytes(), *value);
        if let Some(mask) = mask {
            rest = put_number(rest, field.bytes(), *mask);
        }
    }
}

/// Writes a number of so many bytes; returns what is behind. Common widths are written in one step.
#[inline]
fn put_number(rest: &mut [u8], bytes: usize, value: u128) -> &mut [u8] {
    let (place, behind) = rest.split_at_mut(bytes);
    match bytes {
        1 => place[0] = value as u8,
        2 => place.copy_from_slice(&(value as u16).to_be_bytes()),
        4 => place.copy_from_slice(&(value as u32).to_be_bytes()),
        _ => place.copy_from_slice(&value.to_be_bytes()[16 - bytes..]),
    }
    behind
}

/// Reads a field; `None` at the end.
fn take(reader: &mut Reader) -> Option<FieldMatch> {
    let head = reader.u8().ok()?;
    let field = Field::from_number(head >> 1)?;
    let value = take_number(reader, field.bytes()).ok()?;
    let mask = if head & 1 == 1 { Some(take_number(reader, field.bytes()).ok()?) } else { None };
    Some(FieldMatch { field, value, mask })
}

/// Instructions as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedInstructions(Box<[u8]>);

impl PackedInstructions {
    /// Packs instructions. Bits of values that their fields do not have are lost.
    pub fn new(instructions: &[Instruction]) -> PackedInstructions {
        let mut bytes = Vec::new();
        PackedInstructions::put(instructions, &mut bytes);
        PackedInstructions(bytes.into())
    }

    /// Appends the bytes that [`PackedInstructions::new`] makes of instructions.
    pub fn put(instructions: &[Instruction], bytes: &mut Vec<u8>) {
        put_instructions(bytes, instructions);
    }

    /// The bytes. Two lists with the same bytes are the same.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The instructions, which are fewer than 65,536 bytes each.
    pub fn unpack(&self) -> Vec<Instruction> {
        let mut reader = Reader::new(&self.0, ErrorKind::BadInstructionBadLen);
        std::iter::from_fn(|| if reader.is_empty() { None } else { take_instruction(&mut reader).ok() }).collect()
    }
}
