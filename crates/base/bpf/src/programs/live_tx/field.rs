//! Fields that vary from packet to packet, and the rules by which they do.

use std::ops::Range;

/// The most rules that a program takes.
pub const RULES_MAX: usize = 8;

/// A rule: the field at `offset` has the value `min + index * step`, cut to its width, and `kind` says how the
/// index moves from packet to packet. The field is big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRule {
    /// Where in the frame the field starts.
    pub offset: usize,
    /// Its bytes: 1, 2 or 4.
    pub width: usize,
    /// How the index moves.
    pub kind: FieldKind,
    /// The value at index 0.
    pub min: u32,
    /// How many indices there are, 1 to 2^32; the index runs from 0 to `count - 1`.
    pub count: u64,
    /// What each index adds; negative to decrement.
    pub step: i64,
}

/// How the index of a rule moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// One further with each packet if it is the first such rule, else with each wrap of the one
    /// before it: all odometer rules together count through all combinations.
    Odometer,
    /// One further with each packet.
    Independent,
    /// Drawn anew for each packet (xorshift64, Marsaglia 2003, 13-7-17).
    Random,
}

/// A part of the frame that the program writes with a value that varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub offset: usize,
    pub bytes: usize,
}

impl Field {
    pub fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }

    pub fn overlaps(&self, other: &Field) -> bool {
        self.offset < other.offset + other.bytes && other.offset < self.offset + self.bytes
    }
}

impl FieldRule {
    pub(crate) fn field(&self) -> Field {
        Field { offset: self.offset, bytes: self.width }
    }

    /// Says what is wrong with the rule by itself, in a frame of `frame_bytes`.
    pub(crate) fn check(&self, frame_bytes: usize) -> Result<(), String> {
        let FieldRule { offset, width, count, .. } = *self;
        if !matches!(width, 1 | 2 | 4) {
            return Err(format!("field at {offset}: a width of {width} bytes; 1, 2 and 4 are possible"));
        }
        if offset.checked_add(width).is_none_or(|end| end > frame_bytes) {
            return Err(format!("field at {offset}, {width} bytes: outside the frame of {frame_bytes} bytes"));
        }
        if count == 0 || count > 1 << 32 {
            return Err(format!("field at {offset}: a count of {count}; 1 to 4,294,967,296 are possible"));
        }
        if width < 4 && self.min >> (8 * width) != 0 {
            return Err(format!("field at {offset}: {} does not fit in {width} bytes", self.min));
        }
        Ok(())
    }
}
