//! The fast sums and the incremental updates against the slow and obvious ones.

use super::common;

use common::{bytes, naive_finish, naive_sum, word};
use linerate_wire::Sum;
use linerate_wire::checksum::checksum;
use proptest::prelude::*;

fn changed16(old: u16, new: u16) -> Sum {
    Sum::new().replace_u16(old, new)
}

/// The difference that `width` bytes make, which are a number each.
fn changed(width: usize, old: u64, new: u64) -> Sum {
    match width {
        2 => changed16(old as u16, new as u16),
        _ => Sum::new().replace_u64(old, new),
    }
}

#[test]
fn vector_of_rfc_1624() {
    // Section 4: the header checksum 0xdd2f, a field from 0x5555 to 0x3285. Equation 2 of RFC 1141
    // would give 0xffff.
    assert_eq!(changed16(0x5555, 0x3285).update(0xdd2f), 0x0000);
    assert_eq!(changed16(0x5555, 0x3285).update_udp(0xdd2f), 0xffff);
}

#[test]
fn a_known_ipv4_header() {
    let header = *b"\x45\x00\x00\x73\x00\x00\x40\x00\x40\x11\x00\x00\xc0\xa8\x00\x01\xc0\xa8\x00\xc7";
    assert_eq!(checksum(&header), 0xb861);
}

#[test]
fn carries_survive_at_every_length() {
    for byte in [0x00, 0x01, 0x80, 0xfe, 0xff] {
        let data = vec![byte; 400];
        for start in 0..9 {
            for end in start..data.len() {
                let slice = &data[start..end];
                assert_eq!(checksum(slice), naive_finish(naive_sum(slice)), "{byte} {start}..{end}");
            }
        }
    }
}

#[test]
fn zero_has_two_faces() {
    // No data or only zeros: 0xffff. Data that adds up to 0xffff: 0x0000.
    assert_eq!(checksum(&[]), 0xffff);
    assert_eq!(checksum(&[0; 8]), 0xffff);
    assert_eq!(checksum(&[0xff; 8]), 0x0000);
    assert_eq!(Sum::new().add_slice(&[0xff; 8]).finish_udp(), 0xffff);
    assert_eq!(Sum::new().finish_udp(), 0xffff);
    // The one case where an update differs from recomputing: all data becomes zero.
    assert_eq!(changed16(1, 0).update(checksum(&[0, 1, 0, 0])), 0x0000);
    assert_eq!(checksum(&[0, 0, 0, 0]), 0xffff);
}

#[test]
fn an_absent_udp_checksum_stays_absent() {
    for width in [2, 4, 8] {
        assert_eq!(changed(width, 1, 2).update_udp(0), 0);
    }
    assert_eq!(Sum::new().replace_slice_at(0, &[1], &[2]).update_udp(0), 0);
}

#[test]
fn a_change_to_the_same_value_keeps_every_checksum() {
    for checksum in 0..0xffff {
        for value in [0, 1, 0x7fff, 0xfffe, 0xffff] {
            assert_eq!(changed16(value, value).update(checksum), checksum);
            let udp = if checksum == 0 { 0xffff } else { checksum };
            assert_eq!(changed16(value, value).update_udp(udp), udp);
        }
    }
}

proptest! {
    #[test]
    fn slices_add_up(data in prop::collection::vec(any::<u8>(), 0..300), start in word()) {
        let sum = Sum::new().add_u16(start).add_slice(&data);
        prop_assert_eq!(sum.finish(), naive_finish(u128::from(start) + naive_sum(&data)));
    }

    #[test]
    fn words_add_up_as_slices(data in bytes(16..17)) {
        let pieces = Sum::new()
            .add_u16(u16::from_be_bytes(data[0..2].try_into().unwrap()))
            .add_u16(u16::from_be_bytes(data[2..4].try_into().unwrap()))
            .add_u32(u32::from_be_bytes(data[4..8].try_into().unwrap()))
            .add_u64(u64::from_be_bytes(data[8..16].try_into().unwrap()))
            .add_u128(u128::from_be_bytes(data[16..32].try_into().unwrap()));
        prop_assert_eq!(pieces.finish(), naive_finish(naive_sum(&data)));
    }

    #[test]
    fn a_split_at_any_offset_adds_up(data in bytes(0..40), at in any::<prop::sample::Index>()) {
        let at = at.index(data.len() + 1);
        let sum = Sum::new().add_slice(&data[..at]).add_slice_at(at, &data[at..]);
        prop_assert_eq!(sum.finish(), naive_finish(naive_sum(&data)));
    }

    #[test]
    fn what_is_added_and_taken_out_is_gone(
        keep in bytes(1..10), a in any::<u16>(), b in any::<u32>(), c in any::<u64>(),
    ) {
        prop_assume!(keep.iter().any(|byte| *byte != 0));
        let sum = Sum::new().add_slice(&keep).add_u16(a).add_u32(b).add_u64(c);
        let back = sum.sub_u64(c).sub_u16(a).sub_sum(Sum::new().add_u32(b));
        prop_assert_eq!(back.finish(), checksum(&keep));
        let difference = Sum::new().replace_u64(b.into(), c);
        prop_assert_eq!(difference.negate().update(difference.update(checksum(&keep))), checksum(&keep));
    }

    #[test]
    fn incremental_is_recomputed(data in bytes(8..40), new in bytes(4..5), at in 2usize..8) {
        // The first word is not zero, as in every header with a version or a protocol number.
        let mut data = data;
        data[0] = 0x45;
        let at = at & !1;
        let old_checksum = checksum(&data);
        for width in [2, 4, 8] {
            let mut changed = data.clone();
            changed[at..at + width].copy_from_slice(&new[..width]);
            let number = |from: &[u8]| from.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
            let (old, new) = (number(&data[at..at + width]), number(&new[..width]));
            let delta = self::changed(width, old, new);
            prop_assert_eq!(delta.update(old_checksum), checksum(&changed));
            let as_udp = |checksum: u16| if checksum == 0 { 0xffff } else { checksum };
            prop_assert_eq!(delta.update_udp(as_udp(old_checksum)), as_udp(checksum(&changed)));
        }
    }

    #[test]
    fn incremental_slices_are_recomputed(
        data in bytes(40..41), new in bytes(0..20), at in 1usize..40, odd_len in any::<bool>(),
    ) {
        let mut data = data;
        data[0] = 0x45;
        let new = &new[..new.len() - usize::from(odd_len && !new.is_empty())];
        let mut changed = data.clone();
        changed[at..at + new.len()].copy_from_slice(new);
        let old = &data[at..at + new.len()];
        let delta = Sum::new().replace_slice_at(at, old, new);
        prop_assert_eq!(delta.update(checksum(&data)), checksum(&changed));
    }

    #[test]
    fn several_changes_in_one_sum(data in bytes(8..20), a in word(), b in any::<u32>()) {
        let mut changed = data.clone();
        (changed[0], changed[1]) = (data[0] | 1, data[1]);
        let base = changed.clone();
        changed[2..4].copy_from_slice(&a.to_be_bytes());
        changed[8..12].copy_from_slice(&b.to_be_bytes());
        let old_a = u16::from_be_bytes(base[2..4].try_into().unwrap());
        let old_b = u32::from_be_bytes(base[8..12].try_into().unwrap());
        let delta = Sum::new().replace_u16(old_a, a).replace_u64(old_b.into(), b.into());
        prop_assert_eq!(delta.update(checksum(&base)), checksum(&changed));
    }
}
