//! Matches: values of fields, with masks.

use crate::{ExperimenterField, Field};

/// What a match wants of one field. Values are numbers in host order; an address is the number that its bytes make, first byte highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldMatch {
    /// The field.
    pub field: Field,
    /// The wanted value; bits outside the mask are 0.
    pub value: u128,
    /// Bits that are compared; `None` if the match gave no mask, which compares all. A mask that was given is kept, so that statistics
    /// answer as they were asked.
    pub mask: Option<u128>,
}

impl FieldMatch {
    /// A match of the whole field.
    pub fn exact(field: Field, value: u128) -> FieldMatch {
        FieldMatch { field, value, mask: None }
    }

    /// The bits that are compared.
    #[inline]
    pub fn effective_mask(&self) -> u128 {
        self.mask.unwrap_or(self.field.full_mask())
    }
}

/// A match: all of its fields must agree. An empty one matches every packet.
///
/// Each field occurs once. The order is that of the controller, which statistics repeat; it changes nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Match {
    /// The fields.
    pub fields: Vec<FieldMatch>,
    /// Fields that the specification does not define, each behind so many of `fields`. Switches refuse a match that has some.
    pub experimenter_fields: Vec<(usize, ExperimenterField)>,
}

impl Match {
    /// A match of these fields.
    pub const fn new(fields: Vec<FieldMatch>) -> Match {
        Match { fields, experimenter_fields: Vec::new() }
    }

    /// What the match wants of `field`.
    pub fn get(&self, field: Field) -> Option<&FieldMatch> {
        self.fields.iter().find(|wanted| wanted.field == field)
    }

    /// This match, and `field` exactly.
    #[must_use]
    pub fn with(mut self, field: Field, value: u128) -> Match {
        self.fields.push(FieldMatch::exact(field, value));
        self
    }

    /// This match, and `field` under a mask.
    #[must_use]
    pub fn with_masked(mut self, field: Field, value: u128, mask: u128) -> Match {
        self.fields.push(FieldMatch { field, value: value & mask, mask: Some(mask) });
        self
    }
}
