//! Body of the fuzz target `pipeline_packet`: any bytes as a packet, and header actions on it. Also run by the tests of `linerate-pipeline`.
//!
//! The first byte says how many actions follow, of ten bytes each; the rest is the packet.

use linerate_classify::{Key, Rule};
use linerate_openflow::{Action, Field, Match};
use linerate_pipeline::packet::{Fragment, Headers, PipelineFields, apply, build_packet, compile_match, fields_of};
use linerate_reassembly::{Reassembler, Reassembly, ReassemblyLimits};

/// Reads the packet, does the actions, and puts fragments together.
pub fn run(data: &[u8]) {
    let Some((count, rest)) = data.split_first() else { return };
    let (actions, packet) = rest.split_at((usize::from(count % 8) * 10).min(rest.len()));
    let mut fields = PipelineFields { in_port: 1, in_phy_port: 2, metadata: 3, tunnel_id: 4 };
    let mut packet = packet.to_vec();
    let mut headers = read(&packet, &fields);
    fragments(&packet, &headers);
    for action in actions.as_chunks::<10>().0 {
        let done = apply(&action_of(action), &mut packet, &mut headers, &mut fields);
        let (kept, found) = (headers.key(&packet, &fields), Headers::parse(&packet).key(&packet, &fields));
        assert_eq!(kept, found, "{action:02x?} {done:?}");
    }
    read(&packet, &fields);
}

/// Finds headers and fields by all ways that there are.
fn read(packet: &[u8], fields: &PipelineFields) -> Headers {
    let headers = Headers::parse(packet);
    let mut key = Key { words: [0x5555_5555_5555_5555; 16] };
    assert_eq!(Headers::read(packet, fields, &mut key), headers);
    if headers.is_runt() {
        return headers;
    }
    assert_eq!(key, headers.key(packet, fields));
    let found = Match::new(fields_of(&key));
    let (value, mask) = compile_match(&found);
    assert!(Rule { value, mask, priority: 0, id: 0 }.matches(&key));
    if let Ok(built) = build_packet(&found) {
        let key = Headers::parse(&built).key(&built, fields);
        assert!(Rule { value, mask, priority: 0, id: 0 }.matches(&key));
    }
    headers
}

/// The packet as a fragment, whole and cut, one after the other.
fn fragments(packet: &[u8], headers: &Headers) {
    if headers.fragment() == Fragment::Whole {
        return;
    }
    let mut reassembler = Reassembler::new(ReassemblyLimits { packets: 2, timeout_ns: 10 });
    let mut out = 0;
    for (now_ns, change) in (0u8..20).enumerate() {
        let mut piece = packet.to_vec();
        // The byte that has IPv4's fragment offset behind Ethernet, and that of IPv6's fragment header.
        for at in [21, 57] {
            piece.iter_mut().skip(at).take(1).for_each(|byte| *byte = byte.wrapping_add(change));
        }
        let headers = Headers::parse(&piece);
        if headers.fragment() != Fragment::Whole
            && let Reassembly::Whole { packet, fragments } =
                reassembler.add(&piece, headers.network_offset(), 1, now_ns as u64)
        {
            out += fragments;
            // What was in fragments may be a fragment again, but not with the same headers.
            assert!(Headers::parse(packet) != headers);
        }
    }
    let given_up = reassembler.given_up();
    assert!(out + reassembler.held() + given_up.late + given_up.displaced + given_up.repeated <= 20);
}

fn action_of(bytes: &[u8; 10]) -> Action {
    let [kind, field, value @ ..] = *bytes;
    let wide = u128::from(u64::from_be_bytes(value)) * 0x1_0000_0000_0000_0001;
    let narrow = field;
    match kind % 16 {
        0 => Action::CopyTtlOut,
        1 => Action::CopyTtlIn,
        2 => Action::SetMplsTtl(narrow),
        3 => Action::DecMplsTtl,
        4 => Action::PushVlan(if narrow & 1 == 0 { 0x8100 } else { 0x88a8 }),
        5 => Action::PopVlan,
        6 => Action::PushMpls(if narrow & 1 == 0 { 0x8847 } else { 0x8848 }),
        7 => Action::PopMpls(wide as u16),
        8 => Action::SetNwTtl(narrow),
        9 => Action::DecNwTtl,
        10 => Action::PushPbb(0x88e7),
        11 => Action::PopPbb,
        _ => {
            let field = Field::from_number(narrow % Field::COUNT as u8).unwrap_or(Field::EthType);
            Action::SetField(field, wide & field.full_mask())
        }
    }
}
