//! Random packets, whole and damaged, against the slow decoder.

use super::packets;

use linerate_classify::Rule;
use linerate_openflow::{Field, FieldMatch, Match};
use linerate_pipeline::packet::{Headers, PipelineFields, compile_match, fields_of};
use packets::{make, slow};

const FIELDS: PipelineFields = PipelineFields { in_port: 7, in_phy_port: 8, metadata: 1 << 63, tunnel_id: 42 };

/// The packets of a seed: as they were made, and damaged.
fn some_packets(seed: u64) -> [Vec<u8>; 2] {
    let mut random = make::Random::new(seed);
    let whole = make::any(&mut random);
    let mut damaged = whole.clone();
    make::damage(&mut random, &mut damaged);
    [whole, damaged]
}

fn fields(packet: &[u8]) -> slow::Fields {
    let key = Headers::parse(packet).key(packet, &FIELDS);
    let found = fields_of(&key).into_iter().map(|found| {
        assert_eq!(found.mask, None);
        (found.field, found.value)
    });
    found.collect()
}

#[test]
fn fields_are_those_of_the_slow_decoder() {
    let mut seen = slow::Fields::new();
    for seed in 0..40_000 {
        for packet in some_packets(seed) {
            let mut wanted = slow::decode(&packet);
            if wanted.is_empty() {
                assert!(Headers::parse(&packet).is_runt() && packet.len() < 14);
                continue;
            }
            wanted.insert(Field::InPort, 7);
            wanted.insert(Field::InPhyPort, 8);
            wanted.insert(Field::Metadata, 1 << 63);
            wanted.insert(Field::TunnelId, 42);
            assert_eq!(fields(&packet), wanted, "seed {seed}: {packet:02x?}");
            wanted.keys().for_each(|field| *seen.entry(*field).or_insert(0) += 1);
        }
    }
    assert_eq!(seen.len(), Field::COUNT, "each field occurs");
    assert!(seen.values().all(|count| *count > 100), "{seen:?}");
}

/// Words of a second line that is not in use may hold anything.
#[test]
fn keys_are_the_same_by_either_way_whatever_was_there_before() {
    let mut key = linerate_classify::Key { words: [u64::MAX; 16] };
    for seed in 0..30_000 {
        let mut random = make::Random::new(seed);
        for packet in some_packets(seed) {
            let headers = Headers::parse(&packet);
            if !headers.is_runt() {
                headers.fill_key(&packet, &FIELDS, &mut key);
                assert_eq!(key, headers.key(&packet, &FIELDS));
                key.words.fill(random.next());
                assert_eq!(Headers::read(&packet, &FIELDS, &mut key), headers, "seed {seed}: {packet:02x?}");
                assert_eq!(key, headers.key(&packet, &FIELDS), "seed {seed}: {packet:02x?}");
                assert_eq!(fields_of(&key), fields_of(&headers.key(&packet, &FIELDS)));
            }
        }
    }
}

#[test]
fn a_match_of_a_packets_fields_matches_until_one_bit_differs() {
    for seed in 0..10_000 {
        let mut random = make::Random::new(seed ^ 0xabcd_0000);
        for packet in some_packets(seed) {
            let headers = Headers::parse(&packet);
            if headers.is_runt() {
                continue;
            }
            let key = headers.key(&packet, &FIELDS);
            let mut wanted = Match::default();
            for found in fields_of(&key) {
                let mask = u128::from(random.next()) << 64 | u128::from(random.next());
                match random.below(3) {
                    0 => wanted.fields.push(found),
                    1 => wanted = wanted.with_masked(found.field, found.value, mask & found.field.full_mask()),
                    _ => {}
                }
            }
            let matches = |wanted: &Match| {
                let (value, mask) = compile_match(wanted);
                Rule { value, mask, priority: 0, id: 0 }.matches(&key)
            };
            assert!(matches(&wanted), "seed {seed}: {wanted:?} {packet:02x?}");
            for index in 0..wanted.fields.len() {
                let mask = wanted.fields[index].effective_mask();
                if mask != 0 {
                    let mut other = wanted.clone();
                    let bits: Vec<u32> = (0..128).filter(|bit| mask >> bit & 1 != 0).collect();
                    other.fields[index].value ^= 1 << random.one_of(&bits);
                    assert!(!matches(&other), "seed {seed}: {other:?} {packet:02x?}");
                }
            }
        }
    }
}

/// Whatever value and mask a match wants of a field that a packet does not have, it does not match.
#[test]
fn an_absent_field_matches_nothing() {
    for seed in 0..3000 {
        for packet in some_packets(seed) {
            let headers = Headers::parse(&packet);
            let found = fields(&packet);
            if headers.is_runt() {
                continue;
            }
            let key = headers.key(&packet, &FIELDS);
            for field in Field::all().filter(|field| !found.contains_key(field)) {
                for mask in [1, field.full_mask()] {
                    let wanted = Match::new(vec![FieldMatch { field, value: 0, mask: Some(mask) }]);
                    let (value, mask) = compile_match(&wanted);
                    assert!(!Rule { value, mask, priority: 0, id: 0 }.matches(&key), "seed {seed}: {field:?}");
                }
            }
        }
    }
}
