//! Header actions on random packets: the right bytes change, checksums stay as right or wrong as they were, and the headers that actions keep
//! up to date are those that a parser finds.

use super::packets;

use linerate_mem::{Batch, Checksum, Pool};
use linerate_openflow::{Action, Field};
use linerate_pipeline::packet::{Headers, PacketBuffer, PipelineFields, SlotPacket, apply};
use packets::{make, slow};

fn set_field(random: &mut make::Random) -> Action {
    let fields: Vec<Field> = Field::all().filter(|field| field.is_settable()).collect();
    let field = random.one_of(&fields);
    let value = u128::from(random.next()) << 64 | u128::from(random.next());
    let value = match field {
        Field::IpProto => random.one_of(&[6, 17, 1, 58, 132, 99]),
        Field::EthType => random.one_of(&[0x800, 0x86dd, 0x806, 0x8847, 0x88e7, 0x1234]),
        Field::Icmpv6Type => random.one_of(&[128, 135, 136]),
        Field::VlanVid => value & 0xfff | 0x1000,
        _ => value & field.full_mask(),
    };
    Action::SetField(field, value)
}

/// Any action that keeps the packet's IP header where a slow decoder finds it.
fn action_in_place(random: &mut make::Random) -> Action {
    match random.below(10) {
        0 => Action::PushVlan(random.one_of(&[0x8100, 0x88a8])),
        1 => Action::PopVlan,
        2 => Action::SetNwTtl(random.next() as u8),
        3 => Action::DecNwTtl,
        _ => match set_field(random) {
            Action::SetField(Field::EthType, _) => Action::CopyTtlOut,
            Action::SetField(Field::VlanVid, value) => Action::SetField(Field::VlanVid, value),
            other => other,
        },
    }
}

fn any_action(random: &mut make::Random) -> Action {
    match random.below(16) {
        0 | 1 => Action::PushMpls(random.one_of(&[0x8847, 0x8848])),
        2 => Action::PopMpls(random.one_of(&[0x800, 0x86dd, 0x8847, 0x8100])),
        3 => Action::PushPbb(0x88e7),
        4 => Action::PopPbb,
        5 => Action::CopyTtlIn,
        6 => Action::CopyTtlOut,
        7 => Action::SetMplsTtl(random.next() as u8),
        8 => Action::DecMplsTtl,
        9 => set_field(random),
        _ => action_in_place(random),
    }
}

fn key(packet: &[u8], headers: &Headers) -> linerate_classify::Key {
    headers.key(packet, &PipelineFields::default())
}

#[test]
fn headers_stay_those_of_the_parser_whatever_the_packet() {
    for seed in 0..30_000 {
        let mut random = make::Random::new(seed);
        let mut packet = make::any(&mut random);
        if seed % 3 == 0 {
            make::damage(&mut random, &mut packet);
        }
        let mut headers = Headers::parse(&packet);
        for _ in 0..6 {
            let action = any_action(&mut random);
            let done = apply(&action, &mut packet, &mut headers, &mut PipelineFields::default());
            let parsed = Headers::parse(&packet);
            assert_eq!(key(&packet, &headers), key(&packet, &parsed), "seed {seed} {action:?} {done:?} {packet:02x?}");
            assert_eq!(headers.is_runt(), parsed.is_runt());
        }
    }
}

#[test]
fn a_set_field_changes_that_field_alone() {
    let mut changed = std::collections::BTreeMap::new();
    for seed in 0..60_000 {
        let mut random = make::Random::new(seed);
        let mut packet = make::any(&mut random);
        if seed % 3 == 0 {
            make::damage(&mut random, &mut packet);
        }
        let action @ Action::SetField(field, value) = set_field(&mut random) else { unreachable!() };
        if matches!(field, Field::EthType | Field::IpProto | Field::Icmpv6Type) {
            continue;
        }
        let mut wanted = slow::decode(&packet);
        let before = packet.clone();
        let mut fields = PipelineFields::default();
        let mut headers = Headers::parse(&packet);
        let result = apply(&action, &mut packet, &mut headers, &mut fields);
        if field == Field::TunnelId && !headers.is_runt() {
            assert_eq!((u128::from(fields.tunnel_id), &packet), (value, &before));
            continue;
        }
        let is_there = wanted.contains_key(&field) && (field != Field::VlanVid || wanted.contains_key(&Field::VlanPcp));
        if is_there && result.is_ok() {
            wanted.insert(field, value);
            *changed.entry(field).or_insert(0) += 1;
        } else {
            assert_eq!(packet, before, "seed {seed} {action:?}");
        }
        assert_eq!(slow::decode(&packet), wanted, "seed {seed} {action:?}");
    }
    assert!(changed.len() == 32 && changed.values().all(|count| *count > 3), "{changed:?}");
}

#[test]
fn an_echo_reply_that_becomes_all_zero_has_the_checksum_of_that() {
    use linerate_wire::{Stack, ethernet, icmpv4, ipv4, verify_checksums};
    let request = icmpv4::Header { kind: 8, ..icmpv4::Header::default() };
    let stack = Stack::new().with(ethernet::Header::default()).with(ipv4::Header::default()).with(request);
    // The second ends before the frame does.
    for padding in [0, 6] {
        let mut packet = stack.build(60 - padding).unwrap().bytes;
        packet.resize(60, 0xaa);
        let mut headers = Headers::parse(&packet);
        for (kind, checksum) in [(0, [0xff, 0xff]), (1, [0xfe, 0xff]), (0, [0xff, 0xff])] {
            let action = Action::SetField(Field::Icmpv4Type, kind);
            apply(&action, &mut packet, &mut headers, &mut PipelineFields::default()).unwrap();
            assert_eq!((verify_checksums(&packet[..60 - padding]), &packet[36..38]), (Ok(()), &checksum[..]), "{kind}");
        }
    }
}

/// What is left of a checksum when its data are added: the same before and after a change, 0 if it is right.
#[derive(Debug, PartialEq)]
struct Residue {
    ipv4: Option<u16>,
    upper: Option<u32>,
}

impl Residue {
    /// `protocol` is that of the header, whatever number the packet says.
    fn of(packet: &[u8], protocol: u8) -> Residue {
        let covered = slow::covered(packet).expect("an IP packet");
        let upper = covered.data.filter(|data| data.len() >= 20).and_then(|data| match protocol {
            // No checksum is told from the others by a number that no sum has.
            17 if data[6..8] == [0, 0] => Some(u32::MAX),
            1 => Some(u32::from(make::sum(&data) % 0xffff)),
            6 | 17 | 58 => {
                let sum = make::pseudo_header_sum(covered.protocol, &covered.addresses, &data);
                Some(u32::from(sum % 0xffff))
            }
            132 => {
                let mut data = data;
                let field: [u8; 4] = data[8..12].try_into().unwrap();
                data[8..12].fill(0);
                Some(make::crc32c(&data) ^ u32::from_le_bytes(field))
            }
            _ => None,
        });
        Residue { ipv4: covered.ipv4_header.map(|header| make::sum(&header) % 0xffff), upper }
    }
}

#[test]
fn checksums_stay_right_and_wrong_ones_stay_as_wrong() {
    let mut right = 0;
    for seed in 0..30_000 {
        let mut random = make::Random::new(seed);
        let mut packet = make::ip(&mut random);
        let protocol = slow::covered(&packet).unwrap().protocol;
        if seed % 4 == 0 {
            // A byte of the last header or behind it.
            let at = packet.len() - 1 - random.below(10) as usize;
            packet[at] ^= 0x11;
        }
        let before = Residue::of(&packet, protocol);
        right += u32::from(before.upper == Some(0));
        let mut headers = Headers::parse(&packet);
        let mut all = Vec::new();
        for _ in 0..1 + random.below(6) {
            let action = action_in_place(&mut random);
            // Another number may name a header that is not the packet's, so nothing is set in it afterwards.
            let ends = matches!(action, Action::SetField(Field::IpProto, _));
            all.push((action.clone(), apply(&action, &mut packet, &mut headers, &mut PipelineFields::default())));
            if ends {
                break;
            }
        }
        assert_eq!(Residue::of(&packet, protocol), before, "seed {seed} {all:?} {packet:02x?}");
    }
    assert!(right > 8000, "{right} packets had a checksum that was right");
}

#[test]
fn what_is_pushed_is_popped_again() {
    for seed in 0..5000 {
        let mut random = make::Random::new(seed);
        let mut packet = make::any(&mut random);
        packet.resize(packet.len().max(60), 0);
        let before = packet.clone();
        let ethertype = u16::from_be_bytes([packet[12], packet[13]]);
        let mut headers = Headers::parse(&packet);
        let pairs = [
            (Action::PushVlan(0x88a8), Action::PopVlan, 4),
            (Action::PushMpls(0x8847), Action::PopMpls(ethertype), 4),
            (Action::PushPbb(0x88e7), Action::PopPbb, 18),
        ];
        for (push, pop, bytes) in pairs {
            apply(&push, &mut packet, &mut headers, &mut PipelineFields::default()).unwrap();
            assert_eq!(packet.len(), before.len() + bytes);
            apply(&pop, &mut packet, &mut headers, &mut PipelineFields::default()).unwrap();
            assert_eq!(packet, before, "seed {seed} {push:?}");
        }
    }
}

/// Fields behind headers that were pushed can still be set, as an action set does, which pushes first.
#[test]
fn a_field_behind_a_pushed_header_is_the_same_as_one_set_before() {
    for seed in 0..5000 {
        let mut random = make::Random::new(seed);
        let packet = make::ip(&mut random);
        let push = random.one_of(&[[0; 2], [0, 1], [1, 1], [1, 0]]).map(|kind| match kind {
            0 => Action::PushMpls(0x8847),
            _ => Action::PushPbb(0x88e7),
        });
        let set = loop {
            match set_field(&mut random) {
                // These are fields of the new outermost header, and the others are copied by a push.
                Action::SetField(
                    Field::EthDst | Field::EthSrc | Field::EthType | Field::VlanVid | Field::VlanPcp,
                    _,
                ) => {}
                Action::SetField(Field::MplsLabel | Field::MplsTc | Field::MplsBos | Field::PbbIsid, _) => {}
                other => break other,
            }
        };
        let run = |actions: [&Action; 3]| {
            let (mut packet, mut headers) = (packet.clone(), Headers::parse(&packet));
            let _ = actions.map(|action| apply(action, &mut packet, &mut headers, &mut PipelineFields::default()));
            packet
        };
        let (first, second) = (run([&push[0], &push[1], &set]), run([&set, &push[0], &push[1]]));
        assert_eq!(first, second, "seed {seed} {push:?} {set:?}");
    }
}

/// A packet whose checksum is partial becomes the same as one whose checksum is complete.
#[test]
fn partial_checksums_are_completed_to_what_complete_ones_become() {
    let mut pool = Pool::new(Default::default()).unwrap();
    let mut batch = Batch::new(&pool, 4);
    let mut partial_count = 0;
    for seed in 0..40_000 {
        let mut random = make::Random::new(seed);
        let mut whole = make::ip(&mut random);
        let Some(place) = leave_partial(&whole) else { continue };
        let (at, pseudo) = place;
        let mut partial = whole.clone();
        partial[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
        assert!(pool.append(&mut batch, &partial, 0));
        batch.set_checksum(0, Checksum::Partial);
        partial_count += 1;
        let actions: Vec<Action> = (0..1 + random.below(5)).map(|_| any_action(&mut random)).collect();
        let (mut headers, mut fields) = (Headers::parse(&whole), PipelineFields::default());
        for action in &actions {
            let _ = apply(action, &mut whole, &mut headers, &mut fields);
        }
        let mut slot = SlotPacket::new(&mut batch, 0);
        let (mut headers, mut fields) = (Headers::parse(slot.bytes()), PipelineFields::default());
        for action in &actions {
            let _ = apply(action, &mut slot, &mut headers, &mut fields);
        }
        linerate_port::complete_checksums(&mut batch);
        let differ: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != batch.packet(0)[*at]).collect();
        assert_eq!(batch.packet(0).len(), whole.len());
        // Both faces of zero are right.
        let faces = |bytes: &[u8]| differ.iter().all(|at| [0, 0xff].contains(&bytes[*at]));
        assert!(differ.len() <= 2 && faces(&whole), "seed {seed} {actions:?}\n{whole:02x?}\n{:02x?}", batch.packet(0));
        pool.free(&mut batch);
    }
    assert!(partial_count > 5000, "{partial_count}");
    assert!(pool.is_whole());
}

/// Where the checksum of a packet is that a host would leave partial, and the sum of its pseudo-header.
fn leave_partial(packet: &[u8]) -> Option<(usize, u16)> {
    let covered = slow::covered(packet)?;
    let data = covered.data?;
    let field = match covered.protocol {
        6 => 16,
        17 if data[6..8] != [0, 0] => 6,
        _ => return None,
    };
    let len = packet.len();
    let start = (0..=len - data.len()).rev().find(|at| packet[*at..*at + data.len()] == data[..])?;
    let mut pseudo = covered.addresses.clone();
    pseudo.extend((data.len() as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, covered.protocol]);
    let sum = make::sum(&pseudo);
    let mut partial = packet.to_vec();
    partial[start + field..start + field + 2].copy_from_slice(&sum.to_be_bytes());
    // The hosts' rule: it is found where it is.
    let found = linerate_port::find_partial(&partial)?;
    (found.field == start + field).then_some((start + field, sum))
}

/// Section 7.2.5: "The Pop PBB header action does not remove the backbone VLAN header (B-TAG) from the packet".
#[test]
fn the_tag_of_a_backbone_stays_when_its_header_is_popped() {
    let mut packet: Vec<u8> = (0..12).collect();
    packet.extend([8, 0]);
    packet.resize(80, 0x5a);
    let (plain, mut headers, mut fields) = (packet.clone(), Headers::parse(&packet), PipelineFields::default());
    let list = [
        Action::PushPbb(0x88e7),
        Action::SetField(Field::EthDst, 0x0200_0000_0001),
        Action::PushVlan(0x88a8),
        Action::SetField(Field::VlanVid, 0x1007),
        Action::PopPbb,
    ];
    for action in &list {
        apply(action, &mut packet, &mut headers, &mut fields).unwrap();
    }
    assert_eq!(packet, [&plain[..12], &[0x88, 0xa8, 0, 7], &plain[12..]].concat());
    apply(&Action::PopVlan, &mut packet, &mut headers, &mut fields).unwrap();
    assert_eq!(packet, plain);
}

/// No field holds the drop-eligible bit of a tag (IEEE 802.1Q clause 9.6): entries do not compare it, set-field keeps it, and a new tag,
/// which gets its fields from the tag behind it (section 5.12.1, table 7), has none.
#[test]
fn the_drop_eligible_bit_of_a_tag_stays_where_it_is() {
    let mut packet: Vec<u8> = (0..12).collect();
    packet.extend([0x81, 0, 0x70, 5, 8, 0]);
    packet.resize(64, 0x5a);
    let mut without = packet.clone();
    without[14] = 0x60;
    let mut headers = Headers::parse(&packet);
    assert_eq!(key(&packet, &headers), key(&without, &Headers::parse(&without)));
    let mut fields = PipelineFields::default();
    let list = [
        Action::SetField(Field::VlanVid, 0x1007),
        Action::SetField(Field::VlanPcp, 1),
        Action::PushVlan(0x88a8),
        Action::SetField(Field::VlanVid, 0x1009),
    ];
    for action in &list {
        apply(action, &mut packet, &mut headers, &mut fields).unwrap();
    }
    assert_eq!(packet[12..22], [0x88, 0xa8, 0x20, 9, 0x81, 0, 0x30, 7, 8, 0]);
    apply(&Action::PopVlan, &mut packet, &mut headers, &mut fields).unwrap();
    assert_eq!(packet[12..18], [0x81, 0, 0x30, 7, 8, 0]);
}
