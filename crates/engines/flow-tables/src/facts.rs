//! Facts about a packet that groups, meters and the cache need, in its key. Where they lie, `packet/key.rs` says.

use linerate_classify::{Key, Mask, WORDS};

use crate::packet::{Headers, PipelineFields, shape};

/// The word of the metadata.
const METADATA: usize = 5;
/// Bits of word 7 that no field uses.
const TABLE_AT: u32 = 54;

/// The bits of a key by which a way depends on its packet whatever the entries compare: the metadata, which is part of packet-ins; the table
/// in which the packet begins; whether the key has a second line.
pub(crate) const BEYOND_ENTRIES: Mask = {
    let mut words = [0; WORDS];
    words[METADATA] = u64::MAX;
    words[7] = Key::EXTENDED | 0xff << TABLE_AT;
    Mask { words }
};

/// Puts other metadata into a key.
#[inline]
pub(crate) fn set_metadata(key: &mut Key, metadata: u64) {
    key.words[METADATA] = metadata;
}

/// The metadata in a key.
#[inline]
pub(crate) fn metadata(key: &Key) -> u64 {
    key.words[METADATA]
}

/// The key under which the cache knows the way of a packet that begins in `table`. No rule compares these bits.
#[inline]
pub(crate) fn beginning_in(key: &mut Key, table: u8) {
    key.words[7] |= u64::from(table) << TABLE_AT;
}

/// The DSCP of a packet of IP.
pub(crate) fn dscp(bytes: &[u8], headers: &Headers) -> Option<u8> {
    let key = headers.key(bytes, &PipelineFields::default());
    let is_ip = key.words[7] >> 32 & u64::from(shape::IP) != 0;
    is_ip.then_some((key.words[4] >> 50) as u8 & 0x3f)
}

/// A number that all packets of a flow have in common: of the addresses of layers 2 and 3, the protocol, and the ports.
pub fn flow_hash(bytes: &[u8], headers: &Headers) -> u32 {
    let key = headers.key(bytes, &PipelineFields::default());
    (headers.flow_hash(&key) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use linerate_openflow::{Field, Match};

    use super::*;
    use crate::packet::compile_match;

    #[test]
    fn facts_lie_where_matches_compare_them() {
        let (mut key, mask) = compile_match(&Match::default().with(Field::Metadata, 5));
        assert_eq!(mask.words[METADATA], u64::MAX);
        set_metadata(&mut key, 7);
        assert_eq!(key.words, compile_match(&Match::default().with(Field::Metadata, 7)).0.words);
        let mut packet = vec![0; 34];
        packet[12..16].copy_from_slice(&[8, 0, 0x45, 0xb9]);
        packet[17] = 20;
        assert_eq!(dscp(&packet, &Headers::parse(&packet)), Some(46));
        let all = Field::all().fold(Match::default(), |all, field| all.with(field, field.full_mask()));
        assert_eq!(compile_match(&all).1.words[7] & 0xff << TABLE_AT, 0);
    }
}
