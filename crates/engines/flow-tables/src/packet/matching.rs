//! Matches as keys and masks, and keys as lists of fields.

use linerate_classify::{Key, Mask};
use linerate_openflow::{Field, FieldMatch, Match};

use super::key::{SHAPE_AT, header_of, parts};
use super::{PipelineFields, shape};

/// The key and the mask of a match: a packet matches if its key has the bits of this key wherever the mask has one.
///
/// Each field wants the bit of its header, because an absent header is not one of zeros. Prerequisites that the match itself states,
/// for example `eth_type=0x0800`, are compared as fields. A VLAN ID of 0 matches packets without a tag, `0x1000/0x1000` all with one,
/// `0x1000 + ID` those of one VLAN.
pub fn compile_match(wanted: &Match) -> (Key, Mask) {
    compile_fields(wanted.fields.iter().copied())
}

/// As [`compile_match`], of the fields of a match, each of which occurs once.
pub(crate) fn compile_fields(fields: impl Iterator<Item = FieldMatch>) -> (Key, Mask) {
    let (mut key, mut mask) = (Key::ZERO, Mask::NONE);
    let (mut ip, mut headers) = (shape::IP, 0);
    for wanted in fields {
        let compared = wanted.effective_mask() & wanted.field.full_mask();
        if wanted.field == Field::EthType {
            ip = match wanted.value {
                0x0800 => shape::IPV4,
                0x86dd => shape::IPV6,
                _ => shape::IP,
            };
        }
        if compared == 0 {
            continue;
        }
        for part in parts(wanted.field) {
            key.words[part.word] |= part.put(wanted.value & compared);
            mask.words[part.word] |= part.put(compared);
        }
        headers |= header_of(wanted.field);
    }
    if headers & shape::IP != 0 {
        headers = headers & !shape::IP | ip;
    }
    key.words[7] |= u64::from(headers) << SHAPE_AT;
    mask.words[7] |= u64::from(headers) << SHAPE_AT;
    if mask.words[1] & PRIORITY != 0 {
        // A priority is one of a tag.
        let contradicts = mask.words[1] & !key.words[1] & TAGGED != 0;
        let never = if contradicts { u64::from(shape::NEVER) << SHAPE_AT } else { 0 };
        (key.words[1], mask.words[1]) = (key.words[1] | TAGGED, mask.words[1] | TAGGED);
        (key.words[7], mask.words[7]) = (key.words[7] | never, mask.words[7] | never);
    }
    (key, mask)
}

/// In word 1: the priority of the tag, and the bit of the VLAN ID that says that there is one.
const PRIORITY: u64 = 0xe000;
const TAGGED: u64 = 0x1000;

/// The fields that a packet has, by its key, in the order of their numbers. A packet without a tag has the VLAN ID 0.
pub fn fields_of(key: &Key) -> Vec<FieldMatch> {
    let shape = (key.word(7) >> SHAPE_AT) as u32;
    let is_present = |field: &Field| {
        let header = header_of(*field);
        header & shape == header && (*field != Field::VlanPcp || key.word(1) & TAGGED != 0)
    };
    let value = |field: Field| parts(field).iter().fold(0, |value, part| value | part.take(key.word(part.word)));
    Field::all().filter(is_present).map(|field| FieldMatch::exact(field, value(field))).collect()
}

impl PipelineFields {
    /// The match of a packet-in: the ports, and metadata and tunnel ID unless they are 0 (section 7.4.1).
    pub fn to_match(&self) -> Match {
        let mut found = Match::default().with(Field::InPort, self.in_port.into());
        let others = [
            (Field::InPhyPort, u64::from(self.in_phy_port), u64::from(self.in_port)),
            (Field::Metadata, self.metadata, 0),
            (Field::TunnelId, self.tunnel_id, 0),
        ];
        for (field, value, unless) in others {
            if value != unless {
                found = found.with(field, value.into());
            }
        }
        found
    }

    /// The pipeline fields that a match gives exactly, as that of a packet-out's test or trace does; the others are 0, and the physical
    /// port is the ingress port.
    pub fn from_match(wanted: &Match) -> PipelineFields {
        let value = |field| wanted.get(field).map_or(0, |found| found.value);
        let in_port = value(Field::InPort) as u32;
        PipelineFields {
            in_port,
            in_phy_port: wanted.get(Field::InPhyPort).map_or(in_port, |found| found.value as u32),
            metadata: value(Field::Metadata) as u64,
            tunnel_id: value(Field::TunnelId) as u64,
        }
    }
}
