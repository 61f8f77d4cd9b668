//! Matches: values of fields, with masks.

use crate::Field;

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
/// Each field occurs once. The order is that of the controller, which statistics repeat; it changes nothing else:
/// compare with [`Match::same_packets`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Match {
    /// The fields.
    pub fields: Vec<FieldMatch>,
}

impl Match {
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

    /// True if both match the same packets field by field: the order, and full or empty masks, make no difference.
    pub fn same_packets(&self, other: &Match) -> bool {
        let set = |of: &Match| {
            let mut fields: Vec<_> = of
                .fields
                .iter()
                .map(|wanted| (wanted.field, wanted.value & wanted.effective_mask(), wanted.effective_mask()))
                .filter(|(.., mask)| *mask != 0)
                .collect();
            fields.sort_unstable();
            fields
        };
        set(self) == set(other)
    }
}
