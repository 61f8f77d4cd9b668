//! Parts of messages that only their experimenter knows: kept as bytes, so that a message is the same again when it is encoded.
//!
//! The `check` methods of messages refuse them with the specification's error, because a switch that does not know what they ask for must not
//! do half of it.

/// `OFPT_EXPERIMENTER`, and multipart messages and properties of tables of experimenters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experimenter {
    /// Number of the experimenter.
    pub experimenter: u32,
    /// The experimenter's type of the message or property.
    pub kind: u32,
    /// The experimenter's data.
    pub data: Vec<u8>,
}

/// An experimenter's action, instruction, meter band or property of a queue (`ofp_action_experimenter_header` and its like).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExperimenterPart {
    /// Number of the experimenter.
    pub experimenter: u32,
    /// The bytes behind the number. Those of actions, instructions and bands are padded with zeros to a multiple of 8 on the wire.
    pub data: Box<[u8]>,
}

/// A field that the specification does not define: of an experimenter (class `0xffff`), or of a member class of the ONF (below `0x8000`,
/// where Nicira's fields are).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExperimenterField {
    /// Class (`OFPXMC_*`).
    pub class: u16,
    /// Number of the field within the class: 7 bits.
    pub number: u8,
    /// The data hold a mask behind the value.
    pub masked: bool,
    /// Everything behind the header, at most 255 bytes: the experimenter's number where the class is `0xffff`, value and mask.
    pub data: Box<[u8]>,
}

impl ExperimenterField {
    /// True if fields of this class are not the specification's.
    pub(crate) fn has_class(class: u16) -> bool {
        class < 0x8000 || class == 0xffff
    }
}
