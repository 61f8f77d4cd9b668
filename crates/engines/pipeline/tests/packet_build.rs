//! Packets made of fields, and the hash of flows.

use super::packets;

use linerate_openflow::{Field, FieldMatch, Match};
use linerate_pipeline::packet::{Headers, PipelineFields, build_packet};
use linerate_wire::verify_checksums;
use packets::{make, slow};

#[test]
fn a_packet_that_is_made_of_fields_has_them() {
    let (mut made, mut refused) = (0, 0);
    for seed in 0..20_000 {
        let mut random = make::Random::new(seed);
        let fields = slow::decode(&make::any(&mut random));
        let mut wanted = Match::new(fields.iter().map(|(field, value)| FieldMatch::exact(*field, *value)).collect());
        if random.below(2) == 0 {
            // A part of them: the headers are made all the same.
            wanted.fields.retain(|_| random.below(3) != 0);
        }
        match build_packet(&wanted) {
            Ok(packet) => {
                made += 1;
                let found = slow::decode(&packet);
                for of in &wanted.fields {
                    assert_eq!(found.get(&of.field), Some(&of.value), "seed {seed}: {wanted:?} {packet:02x?}");
                }
                assert!(packet.len() >= 60);
                if !found.contains_key(&Field::MplsLabel) && !found.contains_key(&Field::Ipv6Exthdr) {
                    verify_checksums(&packet).unwrap_or_else(|error| panic!("seed {seed}: {error:?} {wanted:?}"));
                }
            }
            Err(field) => {
                refused += 1;
                let value = wanted.get(field).unwrap().value;
                // An extension header that a parser did not pass, or one in a later fragment.
                let is_extension = |of: &FieldMatch| [0, 43, 44, 50, 51, 59, 60].contains(&of.value);
                let ends_in_one = wanted.get(Field::IpProto).is_some_and(is_extension);
                let is_strange = match field {
                    // Headers in another order, or more often, than they are made.
                    Field::Ipv6Exthdr => value & 0x180 != 0 || ends_in_one,
                    Field::IpProto => ends_in_one,
                    // One tag more than a parser passes.
                    Field::EthType => [0x8100, 0x88a8].contains(&value),
                    _ => false,
                };
                assert!(is_strange, "seed {seed}: {field:?} of {wanted:?}");
            }
        }
    }
    assert!(made > 15_000 && refused < 4000, "{made} made, {refused} refused");
}

#[test]
fn headers_are_made_for_fields_that_need_them() {
    let built = |wanted: Match| build_packet(&wanted).unwrap();
    let found = slow::decode(&built(Match::default().with(Field::TcpDst, 80)));
    assert_eq!((found[&Field::EthType], found[&Field::IpProto], found[&Field::TcpDst]), (0x800, 6, 80));
    let found = slow::decode(&built(Match::default().with(Field::EthType, 0x86dd).with(Field::UdpSrc, 53)));
    assert_eq!((found[&Field::EthType], found[&Field::IpProto], found[&Field::UdpSrc]), (0x86dd, 17, 53));
    let found = slow::decode(&built(Match::default().with(Field::Ipv6NdTll, 5)));
    assert_eq!((found[&Field::Icmpv6Type], found[&Field::Ipv6NdTll]), (136, 5));
    let found = slow::decode(&built(Match::default().with(Field::Ipv6Exthdr, 0x7c).with(Field::SctpSrc, 1)));
    assert_eq!((found[&Field::Ipv6Exthdr], found[&Field::SctpSrc]), (0x7c, 1));
    let found = slow::decode(&built(Match::default().with_masked(Field::VlanVid, 0x1000, 0x1000)));
    assert_eq!(found[&Field::VlanVid], 0x1000);
    let both = Match::default().with(Field::TcpDst, 80).with(Field::UdpDst, 53);
    assert_eq!(build_packet(&both), Err(Field::UdpDst));
    let untagged = Match::default().with(Field::VlanVid, 0).with(Field::VlanPcp, 3);
    assert_eq!(build_packet(&untagged), Err(Field::VlanVid));
}

fn hash(packet: &[u8]) -> u64 {
    let headers = Headers::parse(packet);
    headers.flow_hash(&headers.key(packet, &PipelineFields { in_port: 5, in_phy_port: 6, metadata: 7, tunnel_id: 8 }))
}

/// Flows that differ in one field only, by neighbouring values, spread evenly over 64 buckets by low and by high bits.
#[test]
fn flows_that_differ_in_one_field_spread_over_buckets() {
    let over = |ethertype| Match::default().with(Field::EthType, ethertype);
    let cases = [
        (over(0x800).with(Field::IpProto, 17), Field::UdpSrc),
        (over(0x800).with(Field::IpProto, 6), Field::TcpDst),
        (over(0x800), Field::Ipv4Src),
        (over(0x800), Field::Ipv4Dst),
        (over(0x86dd), Field::Ipv6Src),
        (over(0x86dd), Field::Ipv6Dst),
        (over(0x86dd).with(Field::IpProto, 6), Field::TcpSrc),
        (over(0x1234), Field::EthSrc),
        (over(0x1234), Field::EthDst),
        (over(0x8847), Field::MplsLabel),
        (over(0x88e7), Field::PbbIsid),
    ];
    for (wanted, field) in cases {
        for shift in [0, 29, 58] {
            let mut buckets = [0u32; 64];
            for value in 0..3200 {
                let packet = build_packet(&wanted.clone().with(field, value)).unwrap();
                buckets[(hash(&packet) >> shift) as usize % 64] += 1;
            }
            assert!(buckets.iter().all(|count| (15..=100).contains(count)), "{field:?} {buckets:?}");
        }
    }
}

#[test]
fn what_changes_within_a_flow_does_not_change_its_hash() {
    let tcp = Match::default().with(Field::Ipv4Src, 1).with(Field::TcpSrc, 2);
    let packet = build_packet(&tcp).unwrap();
    let marked = build_packet(&tcp.clone().with(Field::IpEcn, 3).with(Field::IpDscp, 9)).unwrap();
    assert_eq!(hash(&packet), hash(&marked));
    assert_ne!(hash(&packet), hash(&build_packet(&tcp.with(Field::TcpDst, 9)).unwrap()));
    // The first fragment, which has the ports, and a later one.
    let (mut first, mut later) = (packet.clone(), packet);
    first[20] |= 0x20;
    later[21] = 9;
    assert_eq!(hash(&first), hash(&later));
}
