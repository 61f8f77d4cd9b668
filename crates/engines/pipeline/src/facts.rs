//! Facts about a packet that groups and meters need, out of its key.

use linerate_classify::Key;
use linerate_openflow::{Field, FieldMatch, Match};

use crate::packet::{Headers, PipelineFields, compile_match, fields_of};

/// Puts other metadata into a key.
#[inline]
pub(crate) fn set_metadata(key: &mut Key, metadata: u64) {
    let (value, mask) = compile_match(&Match { fields: vec![FieldMatch::exact(Field::Metadata, metadata.into())] });
    for (word, (value, mask)) in key.words.iter_mut().zip(value.words.iter().zip(&mask.words)) {
        *word = *word & !mask | value;
    }
}

/// The DSCP of a packet of IP.
pub(crate) fn dscp(bytes: &[u8], headers: &Headers) -> Option<u8> {
    let key = headers.key(bytes, &PipelineFields::default());
    fields_of(&key).into_iter().find(|known| known.field == Field::IpDscp).map(|known| known.value as u8)
}

/// A number that all packets of a flow have in common: of the addresses of layers 2 and 3, the protocol, and the ports.
pub(crate) fn flow_hash(bytes: &[u8], headers: &Headers) -> u32 {
    let key = headers.key(bytes, &PipelineFields::default());
    let mut hash = 0x9e37_79b9_7f4a_7c15u64;
    for at in 0..key.words.len() {
        let folded = u128::from(hash ^ key.word(at)) * 0xa076_1d64_78bd_642f;
        hash = (folded as u64 ^ (folded >> 64) as u64).wrapping_add(0xe703_7ed1_a0b4_28db);
    }
    (hash >> 32) as u32
}
