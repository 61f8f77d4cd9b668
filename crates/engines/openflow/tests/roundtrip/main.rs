//! Arbitrary messages as bytes and back, and bytes cut or changed at random.

mod messages;
mod values;

use linerate_openflow::{
    ErrorKind, Field, Header, MESSAGE_BYTES_MAX, Match, PackedInstructions, PackedMatch, decode, encode,
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn messages_come_back(message in messages::message(), xid: u32) {
        let mut bytes = vec![0xee; 3];
        encode(&mut bytes, xid, &message).expect("a message of less than 64 KiB");
        let header = Header::read(&bytes[3..]).expect("a header");
        prop_assert_eq!((header.version, header.kind, header.xid), (4, message.kind(), xid));
        prop_assert_eq!(usize::from(header.length), bytes.len() - 3);
        prop_assert_eq!(decode(&bytes[3..]), Ok((xid, message)));
    }

    #[test]
    fn packed_values_come_back(matching in values::matching(), instructions in values::instructions()) {
        let packed = PackedMatch::new(&matching);
        prop_assert_eq!(packed.unpack(), matching.clone());
        for field in Field::all() {
            prop_assert_eq!(packed.get(field), matching.get(field).copied());
        }
        prop_assert_eq!(PackedInstructions::new(&instructions).unpack(), instructions);
    }

    #[test]
    fn broken_messages_are_refused_or_are_other_messages(
        message in messages::message(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut: Option<prop::sample::Index>,
    ) {
        let mut bytes = Vec::new();
        encode(&mut bytes, 1, &message).expect("a message of less than 64 KiB");
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(8 + cut.index(bytes.len() - 7));
        }
        let length = u16::try_from(bytes.len()).expect("a length");
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        let Ok((xid, other)) = decode(&bytes) else { return Ok(()) };
        let mut again = Vec::new();
        if encode(&mut again, xid, &other).is_ok() {
            prop_assert!(again.len() <= MESSAGE_BYTES_MAX);
            prop_assert_eq!(decode(&again), Ok((xid, other)));
        }
    }

    #[test]
    fn prerequisites_stand_first_in_messages_and_anywhere_else(matching in values::plausible_match()) {
        let good = matching.check();
        // Numbers of fields are such that prerequisites have smaller ones.
        prop_assert_eq!(matching.check_in_order(), good);
        let reversed = Match::new(matching.fields.iter().rev().copied().collect());
        prop_assert_eq!(reversed.check(), good);
        let needs_none = |field| !matches!(field, Field::InPort | Field::EthType | Field::IpProto | Field::Icmpv6Type);
        let last = matching.fields.last().expect("an EtherType").field;
        if good.is_ok() && matching.fields.len() > 1 && needs_none(last) && needs_prerequisite(last) {
            prop_assert_eq!(reversed.check_in_order(), Err(ErrorKind::BadMatchBadPrereq));
        }
    }
}

fn needs_prerequisite(field: Field) -> bool {
    Match::default().with(field, 0).check() == Err(ErrorKind::BadMatchBadPrereq)
}
