//! Arbitrary parts of messages.

use linerate_openflow::{
    Action, Band, BandKind, Bucket, Experimenter, ExperimenterField, ExperimenterPart, Field, FieldMatch, FlowFilter,
    FlowFlags, GroupKind, Instruction, Match, PortConfig, PortDescription, PortNumber, PortState, TableFeatures,
    TableProperties,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub fn field() -> impl Strategy<Value = Field> {
    prop::sample::select(Field::all().collect::<Vec<_>>())
}

fn field_match() -> impl Strategy<Value = FieldMatch> {
    (field(), any::<u128>(), option::of(any::<u128>())).prop_map(|(field, value, mask)| {
        let mask = mask.filter(|_| field.is_maskable()).map(|mask| mask & field.full_mask());
        let value = value & field.full_mask() & mask.unwrap_or(u128::MAX);
        let value = if field == Field::VlanVid && mask.is_none_or(|mask| mask & 0x1000 != 0) { 0 } else { value };
        FieldMatch { field, value, mask }
    })
}

/// A match whose fields need not have their prerequisites.
pub fn matching() -> impl Strategy<Value = Match> {
    vec(field_match(), 0..12).prop_map(|mut fields| {
        let mut seen = std::collections::BTreeSet::new();
        fields.retain(|wanted| seen.insert(wanted.field));
        Match::new(fields)
    })
}

/// As [`matching`], with fields of experimenters between the others.
pub fn matching_with_experimenters() -> impl Strategy<Value = Match> {
    (matching(), vec((any::<prop::sample::Index>(), experimenter_field()), 0..4)).prop_map(|(mut matching, others)| {
        let places = matching.fields.len() + 1;
        matching.experimenter_fields = others.into_iter().map(|(place, field)| (place.index(places), field)).collect();
        matching.experimenter_fields.sort_by_key(|(place, _)| *place);
        matching
    })
}

fn experimenter_field() -> impl Strategy<Value = ExperimenterField> {
    let class = prop_oneof![0_u16..0x8000, Just(0xffff)];
    (class, 0_u8..128, any::<bool>(), vec(any::<u8>(), 0..256))
        .prop_map(|(class, number, masked, data)| ExperimenterField { class, number, masked, data: data.into() })
}

/// A part whose data make a whole number of eight bytes with the eight in front of them.
fn experimenter_part() -> impl Strategy<Value = ExperimenterPart> {
    (any::<u32>(), vec(any::<[u8; 8]>(), 0..4))
        .prop_map(|(experimenter, data)| ExperimenterPart { experimenter, data: data.as_flattened().into() })
}

/// A part whose data have any length.
pub fn experimenter_property() -> impl Strategy<Value = ExperimenterPart> {
    (any::<u32>(), vec(any::<u8>(), 0..40))
        .prop_map(|(experimenter, data)| ExperimenterPart { experimenter, data: data.into() })
}

pub fn experimenter() -> impl Strategy<Value = Experimenter> {
    (any::<u32>(), any::<u32>(), vec(any::<u8>(), 0..40)).prop_map(|(experimenter, kind, data)| Experimenter {
        experimenter,
        kind,
        data,
    })
}

/// A match in the order of fields, which often has all prerequisites.
pub fn plausible_match() -> impl Strategy<Value = Match> {
    let ether_types = prop::sample::select(vec![0x0800, 0x0806, 0x86dd, 0x8847, 0x88e7]);
    let protocols = prop::sample::select(vec![1, 6, 17, 58, 132]);
    (matching(), ether_types, protocols).prop_map(|(mut matching, ether_type, protocol)| {
        matching.fields.retain(|wanted| !matches!(wanted.field, Field::EthType | Field::IpProto));
        matching.fields.truncate(3);
        let mut matching = matching.with(Field::EthType, ether_type);
        if matches!(ether_type, 0x0800 | 0x86dd) {
            matching = matching.with(Field::IpProto, protocol);
        }
        matching.fields.sort_by_key(|wanted| wanted.field);
        matching
    })
}

pub fn port_number() -> impl Strategy<Value = PortNumber> {
    any::<u32>().prop_map(PortNumber)
}

pub fn actions() -> impl Strategy<Value = Vec<Action>> {
    vec(action(), 0..10)
}

fn action() -> impl Strategy<Value = Action> {
    let set_field = (field(), any::<u128>());
    prop_oneof![
        (port_number(), any::<u16>()).prop_map(|(port, max_len)| Action::Output { port, max_len }),
        any::<u8>().prop_map(Action::SetMplsTtl),
        any::<u8>().prop_map(Action::SetNwTtl),
        any::<u16>().prop_map(Action::PushVlan),
        any::<u16>().prop_map(Action::PushMpls),
        any::<u16>().prop_map(Action::PopMpls),
        any::<u16>().prop_map(Action::PushPbb),
        any::<u32>().prop_map(Action::SetQueue),
        any::<u32>().prop_map(Action::Group),
        set_field.prop_map(|(field, value)| Action::SetField(field, value & field.full_mask())),
        experimenter_field().prop_map(|field| Action::SetExperimenterField(Box::new(field))),
        experimenter_part().prop_map(|part| Action::Experimenter(Box::new(part))),
        prop::sample::select(vec![
            Action::CopyTtlOut,
            Action::CopyTtlIn,
            Action::DecMplsTtl,
            Action::PopVlan,
            Action::DecNwTtl,
            Action::PopPbb,
        ]),
    ]
}

pub fn instructions() -> impl Strategy<Value = Vec<Instruction>> {
    let instruction = prop_oneof![
        any::<u8>().prop_map(Instruction::GotoTable),
        any::<(u64, u64)>().prop_map(|(metadata, mask)| Instruction::WriteMetadata { metadata, mask }),
        actions().prop_map(Instruction::WriteActions),
        actions().prop_map(Instruction::ApplyActions),
        Just(Instruction::ClearActions),
        any::<u32>().prop_map(Instruction::Meter),
        experimenter_part().prop_map(|part| Instruction::Experimenter(Box::new(part))),
    ];
    vec(instruction, 0..7).prop_map(|mut instructions| {
        let mut seen = std::collections::BTreeSet::new();
        instructions.retain(|one| seen.insert(one.number()) || matches!(one, Instruction::Experimenter(_)));
        instructions
    })
}

pub fn flags() -> impl Strategy<Value = FlowFlags> {
    any::<u16>().prop_map(FlowFlags)
}

pub fn filter() -> impl Strategy<Value = FlowFilter> {
    (any::<u8>(), port_number(), any::<u32>(), any::<u64>(), any::<u64>(), matching_with_experimenters()).prop_map(
        |(table, out_port, out_group, cookie, cookie_mask, matching)| FlowFilter {
            table,
            out_port,
            out_group,
            cookie,
            cookie_mask,
            matching,
        },
    )
}

pub fn duration_ns() -> impl Strategy<Value = u64> {
    (any::<u32>(), 0_u64..1_000_000_000).prop_map(|(s, ns)| u64::from(s) * 1_000_000_000 + ns)
}

pub fn group_kind() -> impl Strategy<Value = GroupKind> {
    prop::sample::select(vec![GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover])
}

pub fn buckets() -> impl Strategy<Value = Vec<Bucket>> {
    let bucket = (any::<u16>(), port_number(), any::<u32>(), actions())
        .prop_map(|(weight, watch_port, watch_group, actions)| Bucket { weight, watch_port, watch_group, actions });
    vec(bucket, 0..5)
}

pub fn bands() -> impl Strategy<Value = Vec<Band>> {
    let experimenter = experimenter_part().prop_map(|part| BandKind::Experimenter(Box::new(part)));
    let kind = prop_oneof![Just(BandKind::Drop), any::<u8>().prop_map(BandKind::DscpRemark), experimenter];
    vec((kind, any::<u32>(), any::<u32>()).prop_map(|(kind, rate, burst_size)| Band { kind, rate, burst_size }), 0..5)
}

/// A text that fits a field of `size` bytes.
pub fn text(size: usize) -> impl Strategy<Value = String> {
    vec(32_u8..127, 0..size).prop_map(|bytes| String::from_utf8(bytes).expect("ASCII"))
}

pub fn port() -> impl Strategy<Value = PortDescription> {
    (port_number(), any::<[u8; 6]>(), text(16), any::<[u32; 8]>()).prop_map(|(number, hw_addr, name, numbers)| {
        let [config, state, current, advertised, supported, peer, current_kbps, max_kbps] = numbers;
        PortDescription {
            number,
            hw_addr,
            name,
            config: PortConfig(config),
            state: PortState(state),
            current,
            advertised,
            supported,
            peer,
            current_kbps,
            max_kbps,
        }
    })
}

pub fn table_features() -> impl Strategy<Value = TableFeatures> {
    (any::<u8>(), text(32), any::<(u64, u64, u32, u32)>(), properties()).prop_map(
        |(table, name, numbers, properties)| {
            let (metadata_match, metadata_write, config, max_entries) = numbers;
            TableFeatures { table, name, metadata_match, metadata_write, config, max_entries, properties }
        },
    )
}

fn properties() -> impl Strategy<Value = TableProperties> {
    let types = || [option::of(vec(0_u16..0xffff, 0..9)), option::of(vec(0_u16..0xffff, 0..9))];
    let headers = || option::of(vec(0_u32..0xffff_0000, 0..9));
    let tables = [option::of(vec(any::<u8>(), 0..20)), option::of(vec(any::<u8>(), 0..20))];
    let set_fields = ([headers(), headers()], [headers(), headers()]);
    let experimenters = [vec(experimenter(), 0..3), vec(experimenter(), 0..3)];
    (types(), tables, types(), types(), headers(), headers(), set_fields, experimenters).prop_map(
        |(
            instructions,
            next_tables,
            write_actions,
            apply_actions,
            matches,
            wildcards,
            (write_set_fields, apply_set_fields),
            experimenters,
        )| {
            TableProperties {
                instructions,
                next_tables,
                write_actions,
                apply_actions,
                matches,
                wildcards,
                write_set_fields,
                apply_set_fields,
                experimenters,
            }
        },
    )
}
