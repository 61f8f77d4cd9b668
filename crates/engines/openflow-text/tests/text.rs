//! The text syntax: examples, what is refused and how, and that what is printed reads the same.

use linerate_openflow::{
    Action, Band, BandKind, Field, FieldMatch, FlowCommand, FlowFlags, FlowMod, FlowStats, GroupCommand, GroupKind,
    Instruction, Match, MeterCommand, MeterFlags, PortNumber, TABLE_ALL,
};
use linerate_openflow_text::{
    actions_text, flow_text, group_text, instructions_text, lagopus_flow_line, match_text, meter_text, parse_actions,
    parse_flow, parse_group, parse_instructions, parse_match, parse_meter, parse_packet,
};
use proptest::prelude::*;

fn flow(text: &str) -> FlowMod {
    parse_flow(text, FlowCommand::Add).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn output(port: u32) -> Action {
    Action::Output { port: PortNumber(port), max_len: 0xffff }
}

#[test]
fn a_flow_is_read() {
    let text = "table=3,priority=10,tcp,nw_dst=192.0.2.7/24,cookie=0x5,idle_timeout=60,send_flow_rem,\
                actions=set_field:02:00:00:00:00:01->eth_dst,output:2,goto_table:4";
    let flow = flow(text);
    assert_eq!((flow.table, flow.priority, flow.cookie, flow.idle_timeout_s), (3, 10, 5, 60));
    assert_eq!(flow.flags, FlowFlags(FlowFlags::SEND_FLOW_REM));
    let wanted = Match::default().with(Field::EthType, 0x800).with(Field::IpProto, 6).with_masked(
        Field::Ipv4Dst,
        0xc000_0200,
        0xffff_ff00,
    );
    assert_eq!(flow.matching, wanted);
    let applied = vec![Action::SetField(Field::EthDst, 0x0200_0000_0001), output(2)];
    assert_eq!(flow.instructions, [Instruction::ApplyActions(applied), Instruction::GotoTable(4)]);
}

#[test]
fn words_that_depend_on_others_may_stand_before_them() {
    assert_eq!(parse_match("nw_dst=192.0.2.1,tp_dst=80,tcp"), parse_match("tcp,tp_dst=80,nw_dst=192.0.2.1"));
    assert_eq!(parse_match("nw_dst=192.0.2.1,arp").unwrap().get(Field::ArpTpa).unwrap().value, 0xc000_0201);
    assert_eq!(parse_match("dl_vlan_pcp=3,dl_vlan=5"), parse_match("dl_vlan=5,dl_vlan_pcp=3"));
}

#[test]
fn vlans_are_read_in_each_of_their_forms() {
    let vid = |value, mask| Match::default().with_masked(Field::VlanVid, value, mask);
    for (text, wanted) in [
        ("dl_vlan=5", Match::default().with(Field::VlanVid, 0x1005)),
        ("vlan_vid=0x1005", Match::default().with(Field::VlanVid, 0x1005)),
        ("vlan_tci=0x1005/0x1fff", Match::default().with(Field::VlanVid, 0x1005)),
        ("vlan_tci=0x7005", Match::default().with(Field::VlanVid, 0x1005).with(Field::VlanPcp, 3)),
        ("dl_vlan_pcp=3", vid(0x1000, 0x1000).with(Field::VlanPcp, 3)),
        ("vlan_tci=0x1000/0x1000", vid(0x1000, 0x1000)),
        ("vlan_tci=0", Match::default().with(Field::VlanVid, 0)),
        ("dl_vlan=0xffff", Match::default().with(Field::VlanVid, 0)),
    ] {
        assert_eq!(parse_match(text), Ok(wanted), "{text}");
    }
}

#[test]
fn the_actions_of_openflow_1_0_are_those_of_1_3() {
    let untagged = parse_match("ip").unwrap();
    let tagged = parse_match("dl_vlan=7").unwrap();
    let set = Action::SetField(Field::VlanVid, 0x1005);
    assert_eq!(parse_actions("mod_vlan_vid:5", &untagged), Ok(vec![Action::PushVlan(0x8100), set.clone()]));
    assert_eq!(parse_actions("mod_vlan_vid:5", &tagged), Ok(vec![set]));
    assert_eq!(parse_actions("mod_nw_tos:32", &untagged), Ok(vec![Action::SetField(Field::IpDscp, 8)]));
    assert_eq!(parse_actions("enqueue(1,7)", &untagged), Ok(vec![Action::SetQueue(7), output(1)]));
    assert_eq!(parse_actions("3,LOCAL", &untagged), Ok(vec![output(3), output(PortNumber::LOCAL.0)]));
    let limited = Action::Output { port: PortNumber::CONTROLLER, max_len: 128 };
    assert_eq!(parse_actions("controller(max_len=128)", &untagged), Ok(vec![limited]));
    assert_eq!(parse_instructions("drop", &untagged), Ok(vec![]));
}

#[test]
fn instructions_come_in_the_order_in_which_they_are_carried_out() {
    let text = "goto_table:9,write_metadata:5/0xff,write_actions(output:3,group:4),clear_actions,output:2,meter:1";
    let instructions = parse_instructions(text, &Match::default()).unwrap();
    let wanted = "meter:1,output:2,clear_actions,write_actions(output:3,group:4),write_metadata:0x5/0xff,goto_table:9";
    assert_eq!(instructions_text(&instructions), wanted);
}

#[test]
fn errors_name_the_word_and_what_would_be_right() {
    let refused = |text: &str| parse_flow(text, FlowCommand::Add).unwrap_err().to_string();
    for (text, said) in [
        ("tpc,actions=2", "`tpc`: unknown word of a flow; did you mean `tcp`?"),
        ("priorty=3,actions=2", "`priorty`: unknown word of a flow; did you mean `priority`?"),
        ("nw_dst=192.0.2.1,actions=2", "`nw_dst=192.0.2.1`: matches nothing by itself; add ip or arp"),
        ("tp_dst=80,ip,actions=2", "`tp_dst=80`: depends on the protocol; add tcp"),
        ("tcp_dst=80,ip,actions=2", "`tcp_dst=80`: matches nothing by itself; add tcp or tcp6"),
        ("ip,nw_dst=192.0.2.300,actions=2", "not an IPv4 address: 192.0.2.300"),
        ("ip,nw_dst=192.0.2.0/33,actions=2", "a prefix of ipv4_dst has 0 to 32 bits"),
        ("tcp,tp_dst=80/0xff,actions=2", "OpenFlow 1.3 has no masks for tcp_dst"),
        ("vlan_vid=5,actions=2", "`vlan_vid=5`: a VLAN ID needs bit 0x1000"),
        ("vlan_tci=0x2000,actions=2", "a priority needs bit 0x1000"),
        ("tcp,udp,actions=2", "`udp`: contradicts `tcp`"),
        ("ip,actions=outptu:2", "`outptu`: unknown action; did you mean `output`?"),
        ("ip,actions=resubmit(,3)", "resubmit is an extension of Open vSwitch, not in OpenFlow 1.3"),
        ("ip,actions=set_field:5->metadata", "metadata is set by write_metadata"),
        ("ip,actions=drop,output:2", "`drop`: stands alone"),
        ("ip,actions=output:ANY", "no packet can be sent to this port"),
        ("ip,actions=goto_table:1,goto_table:2", "a flow has one goto_table at most"),
        ("ip", "`ip`: lacks actions="),
        ("ip,actions=", "write drop to drop the packets"),
        ("table=256,actions=2", "not a number from 0 to 255: 256"),
        ("cookie=1/3,actions=2", "a new flow has a whole cookie"),
        ("ip,actions=write_actions(output:2", "a parenthesis is not closed"),
    ] {
        assert!(refused(text).contains(said), "{text}: {}", refused(text));
    }
    let group = parse_group("group_id=1,type=selct", GroupCommand::Add).unwrap_err().to_string();
    assert!(group.contains("did you mean `select`?"), "{group}");
    let meter = parse_meter("meter=1,kbps,bands=type=drop,rat=5", MeterCommand::Add).unwrap_err().to_string();
    assert!(meter.contains("did you mean `rate`?"), "{meter}");
}

#[test]
fn a_filter_for_deleting_is_for_all_tables() {
    let filter = parse_flow("ip,out_port=2,cookie=0x10/0xf0", FlowCommand::Delete).unwrap();
    assert_eq!((filter.table, filter.out_port), (TABLE_ALL, PortNumber(2)));
    assert_eq!((filter.cookie, filter.cookie_mask), (0x10, 0xf0));
    assert_eq!(parse_flow("", FlowCommand::Delete).unwrap().matching, Match::default());
    assert!(parse_flow("actions=2", FlowCommand::Delete).is_err());
}

#[test]
fn groups_and_meters_are_read_and_printed() {
    let text =
        "group_id=1,type=select,bucket=weight:5,watch_port:2,actions=output:2,bucket=watch_group:7,actions=output:3";
    let group = parse_group(text, GroupCommand::Add).unwrap();
    assert_eq!(
        (group.kind, group.buckets.len(), group.buckets[0].weight, group.buckets[1].weight),
        (GroupKind::Select, 2, 5, 1)
    );
    assert_eq!(group_text(group.kind, group.group, &group.buckets), text);
    let short = parse_group("group_id=4 type=ff bucket=watch_port:1,output:1", GroupCommand::Add).unwrap();
    assert_eq!((short.buckets[0].watch_port, short.buckets[0].actions.clone()), (PortNumber(1), vec![output(1)]));

    let meter =
        parse_meter("meter=1,kbps,burst,stats,bands=type=drop,rate=100,burst_size=10", MeterCommand::Add).unwrap();
    assert_eq!(meter.flags, MeterFlags(MeterFlags::KBPS | MeterFlags::BURST | MeterFlags::STATS));
    assert_eq!(meter.bands, [Band { kind: BandKind::Drop, rate: 100, burst_size: 10 }]);
    assert_eq!(
        meter_text(1, meter.flags, &meter.bands),
        "meter=1 kbps burst stats bands=type=drop rate=100 burst_size=10"
    );
    let two =
        parse_meter("meter=2 pktps bands=type=drop rate=9 type=dscp_remark rate=5 prec_level=1", MeterCommand::Add);
    assert_eq!(two.unwrap().bands[1].kind, BandKind::DscpRemark(1));
}

#[test]
fn entries_are_printed_as_lagopus_does_and_read_as_dump_flows_prints_them() {
    let mut stats = FlowStats {
        table: 0,
        duration_ns: 1_234_567_890,
        priority: 0,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        flags: FlowFlags(0),
        cookie: 0,
        packets: 124_875_085,
        bytes: 7_492_505_100,
        matching: parse_match("in_port=1").unwrap(),
        instructions: vec![Instruction::ApplyActions(vec![output(2)])],
    };
    // As published of an experiment with Lagopus 0.1.1 in 2014.
    let lagopus = "priority=0,idle_timeout=0,hard_timeout=0,flags=0,cookie=0,packet_count=124875085,byte_count=7492505100,\
                   in_port=1 actions=output:2";
    assert_eq!(lagopus_flow_line(&stats), lagopus);
    let dumped = "cookie=0x0, duration=1.234s, table=0, n_packets=124875085, n_bytes=7492505100, priority=0,in_port=1 \
                  actions=output:2";
    assert_eq!(flow(dumped).matching, stats.matching, "a line of `ovs-ofctl dump-flows` can be read");
    stats.matching = parse_match("tcp,nw_dst=192.0.2.0/24").unwrap();
    assert!(lagopus_flow_line(&stats).contains(",ip,ip_proto=6,ipv4_dst=192.0.2.0/0xffffff00 actions="));
}

#[test]
fn packets_are_made_of_fields() {
    let packet = parse_packet("in_port=3,dl_vlan=5,udp,nw_src=192.0.2.1,nw_dst=192.0.2.2,tp_dst=53").unwrap();
    assert_eq!((packet.in_port, packet.bytes.len()), (PortNumber(3), 60));
    assert_eq!(packet.bytes[12..18], [0x81, 0, 0, 5, 8, 0]);
    for text in [
        "tcp,tp_dst=80",
        "udp6,ipv6_dst=::1",
        "icmp,icmp_type=8",
        "icmp6,icmp_type=135,nd_target=fe80::1,nd_sll=02:00:00:00:00:01",
        "sctp,tp_src=9",
    ] {
        let packet = parse_packet(text).unwrap();
        assert!(linerate_wire::verify_checksums(&packet.bytes).is_ok(), "{text}");
    }
    assert_eq!(parse_packet("arp,arp_op=2").unwrap().bytes[20..22], [0, 2]);
    assert_eq!(parse_packet("mplsm,mpls_label=5").unwrap().bytes[12..18], [0x88, 0x48, 0, 0, 0x51, 64]);
    assert_eq!(parse_packet("dl_type=0x88e7,pbb_isid=5").unwrap().bytes[12..18], [0x88, 0xe7, 0, 0, 0, 5]);
    assert!(parse_packet("ip,nw_dst=192.0.2.0/24").is_err());
}

/// Matches with their prerequisites, as a controller may send them.
fn any_match() -> impl Strategy<Value = Match> {
    let protocols = prop::sample::select(vec![
        vec![],
        vec![(Field::EthType, 0x800)],
        vec![(Field::EthType, 0x800), (Field::IpProto, 6)],
        vec![(Field::EthType, 0x800), (Field::IpProto, 17)],
        vec![(Field::EthType, 0x800), (Field::IpProto, 1)],
        vec![(Field::EthType, 0x86dd), (Field::IpProto, 132)],
        vec![(Field::EthType, 0x86dd), (Field::IpProto, 58), (Field::Icmpv6Type, 135)],
        vec![(Field::EthType, 0x86dd), (Field::IpProto, 58), (Field::Icmpv6Type, 136)],
        vec![(Field::EthType, 0x806)],
        vec![(Field::EthType, 0x8847)],
        vec![(Field::EthType, 0x88e7)],
        vec![(Field::EthType, 0x9000)],
        vec![(Field::InPort, 1)],
        vec![(Field::VlanVid, 0x1007)],
    ]);
    let others = prop::collection::vec((0_u8..40, any::<u128>(), any::<u128>(), any::<bool>()), 0..8);
    (protocols, others).prop_map(|(protocols, others)| {
        let mut matching = Match::default();
        for (field, value) in protocols {
            matching = matching.with(field, value);
        }
        for (number, value, mask, is_masked) in others {
            let field = Field::from_number(number).unwrap();
            // Those that others depend on are as chosen above.
            if matches!(field, Field::EthType | Field::IpProto | Field::Icmpv6Type) || matching.get(field).is_some() {
                continue;
            }
            let (value, mask) = (value & field.full_mask(), mask & field.full_mask());
            let more = match is_masked && field.is_maskable() {
                true => matching.clone().with_masked(field, value, mask),
                false => matching.clone().with(field, value),
            };
            // Text has no way to say a tag that is there and is not there.
            let sound = match field {
                Field::VlanVid => value & 0x1000 != 0 && (!is_masked || mask & 0x1000 != 0),
                Field::VlanPcp => matching.get(Field::VlanVid).is_some(),
                _ => true,
            };
            if sound && parse_match(&match_text(&more)).is_ok() {
                matching = more;
            }
        }
        matching
    })
}

fn any_action() -> impl Strategy<Value = Action> {
    let set = (0_u8..40, any::<u128>()).prop_filter_map("a field that can be set", |(number, value)| {
        let field = Field::from_number(number)?;
        field.is_settable().then(|| Action::SetField(field, value & field.full_mask()))
    });
    prop_oneof![
        4 => set,
        1 => (1..=0xffff_ff00_u32).prop_map(output),
        1 => (0xffff_fff8..=0xffff_fffe_u32).prop_map(output),
        1 => any::<u16>().prop_map(|max_len| Action::Output { port: PortNumber::CONTROLLER, max_len }),
        1 => any::<u8>().prop_map(Action::SetMplsTtl),
        1 => any::<u8>().prop_map(Action::SetNwTtl),
        1 => any::<u32>().prop_map(Action::SetQueue),
        1 => (0..0xffff_ff00_u32).prop_map(Action::Group),
        1 => any::<u16>().prop_map(Action::PopMpls),
        2 => prop::sample::select(vec![
            Action::CopyTtlOut, Action::CopyTtlIn, Action::DecMplsTtl, Action::PushVlan(0x8100), Action::PushVlan(0x88a8),
            Action::PopVlan, Action::PushMpls(0x8847), Action::PushMpls(0x8848), Action::DecNwTtl, Action::PushPbb(0x88e7),
            Action::PopPbb,
        ]),
    ]
}

fn any_instructions() -> impl Strategy<Value = Vec<Instruction>> {
    let actions = || prop::collection::vec(any_action(), 1..5);
    let parts = (
        prop::option::of(any::<u32>().prop_map(Instruction::Meter)),
        prop::option::of(actions().prop_map(Instruction::ApplyActions)),
        prop::option::of(Just(Instruction::ClearActions)),
        prop::option::of(actions().prop_map(Instruction::WriteActions)),
        prop::option::of(
            (any::<u64>(), any::<u64>())
                .prop_map(|(metadata, mask)| Instruction::WriteMetadata { metadata: metadata & mask, mask }),
        ),
        prop::option::of(any::<u8>().prop_map(Instruction::GotoTable)),
    );
    parts.prop_map(|(a, b, c, d, e, f)| [a, b, c, d, e, f].into_iter().flatten().collect())
}

/// True if both match the same packets field by field: the order, and full or empty masks, make no difference.
fn same_packets(one: &Match, other: &Match) -> bool {
    let set = |of: &Match| {
        let masked =
            |wanted: &FieldMatch| (wanted.field, wanted.value & wanted.effective_mask(), wanted.effective_mask());
        let mut fields: Vec<_> = of.fields.iter().map(masked).filter(|(.., mask)| *mask != 0).collect();
        fields.sort_unstable();
        fields
    };
    set(one) == set(other)
}

proptest! {
    #[test]
    fn printed_matches_read_the_same(matching in any_match()) {
        let text = match_text(&matching);
        let read = parse_match(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        prop_assert!(same_packets(&read, &matching), "{} of {:?}", text, matching);
        prop_assert_eq!(match_text(&read), text);
    }

    #[test]
    fn printed_flows_read_the_same(
        matching in any_match(),
        instructions in any_instructions(),
        (table, priority, cookie, idle, hard) in any::<(u8, u16, u64, u16, u16)>(),
        flags in 0..=FlowFlags::ALL,
    ) {
        let mut flow = flow("actions=drop");
        (flow.table, flow.priority, flow.cookie, flow.flags) = (table, priority, cookie, FlowFlags(flags));
        (flow.idle_timeout_s, flow.hard_timeout_s) = (idle, hard);
        (flow.matching, flow.instructions) = (parse_match(&match_text(&matching)).unwrap(), instructions);
        let text = flow_text(&flow);
        prop_assert_eq!(parse_flow(&text, FlowCommand::Add), Ok(flow), "{}", text);
    }

    #[test]
    fn printed_actions_read_the_same(actions in prop::collection::vec(any_action(), 1..6)) {
        let text = actions_text(&actions);
        prop_assert_eq!(parse_actions(&text, &Match::default()), Ok(actions), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z_0-9=:,()/>. -]{0,60}") {
        let _ = parse_flow(&text, FlowCommand::Add);
        let _ = parse_flow(&format!("ip,{text},actions={text}"), FlowCommand::Add);
        let _ = parse_group(&format!("group_id=1,type=all,bucket={text}"), GroupCommand::Add);
        let _ = parse_meter(&format!("meter=1,bands=type=drop,{text}"), MeterCommand::Add);
        let _ = parse_packet(&text);
    }
}
