//! Groups, meters, ports and queues.

use linerate_openflow::*;
use linerate_pipeline::{DropReason, Event, QueueSettings, SwitchOptions, TraceStep};
use linerate_port::{Context, Datapath, LinkState, PortIndex};

use crate::rig::*;

fn bucket(weight: u16, watch: Option<u32>, actions: Vec<Action>) -> Bucket {
    let watch_port = watch.map_or(PortNumber::ANY, PortNumber);
    Bucket { weight, watch_port, watch_group: GROUP_ANY, actions }
}

fn group(command: GroupCommand, kind: GroupKind, group: u32, buckets: Vec<Bucket>) -> GroupMod {
    GroupMod { command, kind, group, buckets }
}

impl Rig {
    fn group(&mut self, request: GroupMod) -> Result<(), OfError> {
        self.switch.group_mod(request, self.now_ns)
    }

    fn add_group(&mut self, kind: GroupKind, id: u32, buckets: Vec<Bucket>) {
        self.group(group(GroupCommand::Add, kind, id, buckets)).unwrap();
    }

    fn link(&mut self, port: u32, link: LinkState) {
        let index = self.ports.iter().position(|known| *known == port).unwrap();
        let mut context = Context { now_ns: self.now_ns, pool: &mut self.pool, ports: &mut () };
        self.forwarder.link_changed(PortIndex(index as u16), link, &mut context);
    }
}

#[test]
fn all_buckets_get_their_own_copy() {
    let mut rig = Rig::new(4);
    let mark = Action::SetField(Field::EthSrc, 9);
    let buckets = vec![
        bucket(0, None, vec![mark, output(2)]),
        bucket(0, None, vec![output(3)]),
        bucket(0, None, vec![output(1)]),
        bucket(0, None, vec![]),
    ];
    rig.add_group(GroupKind::All, 7, buckets);
    rig.add(add(1, in_port(1), apply(vec![Action::Group(7), output(4)])));
    let packet = udp(1, 2, [1, 2]);
    let sent = rig.send(1, &packet);
    let mut marked = packet.clone();
    marked[6..12].copy_from_slice(&[0, 0, 0, 0, 0, 9]);
    assert_eq!(sent, [(2, marked), (3, packet.clone()), (4, packet)]);
    assert_eq!(rig.switch.drops(), [(DropReason::NoOutput, 1), (DropReason::Hairpin, 1)]);
    let stats = rig.switch.multipart(MultipartRequest::Group(7), rig.now_ns).unwrap();
    let MultipartReply::Group(stats) = stats else { panic!() };
    assert_eq!((stats[0].packets, stats[0].references), (1, 1));
    assert!(stats[0].buckets.iter().all(|bucket| bucket.packets == 1 && bucket.bytes == 60));
    rig.check();
}

#[test]
fn select_goes_by_weights_and_keeps_flows_together() {
    let mut rig = Rig::new(4);
    let buckets = vec![bucket(1, None, vec![output(2)]), bucket(3, None, vec![output(3)])];
    rig.add_group(GroupKind::Select, 1, buckets);
    rig.add(add(1, in_port(1), apply(vec![Action::Group(1)])));
    let mut counts = [0; 2];
    for flow in 0..1000 {
        let packet = udp(1, 2, [flow, 80]);
        let first = rig.send(1, &packet);
        assert_eq!(first, rig.send(1, &packet));
        counts[first[0].0 as usize - 2] += 1;
    }
    assert!((200..300).contains(&counts[0]), "{counts:?}");
    rig.check();
}

#[test]
fn fast_failover_leaves_a_dead_port_at_once() {
    let mut rig = Rig::new(3);
    let buckets = vec![bucket(0, Some(2), vec![output(2)]), bucket(0, Some(3), vec![output(3)])];
    rig.add_group(GroupKind::FastFailover, 1, buckets);
    rig.add(add(1, in_port(1), vec![Instruction::WriteActions(vec![Action::Group(1)])]));
    let packet = udp(1, 2, [1, 2]);
    for _ in 0..3 {
        assert_eq!(rig.send(1, &packet), [(2, packet.clone())]);
    }
    rig.link(2, LinkState::Down);
    assert_eq!(rig.send(1, &packet), [(3, packet.clone())]);
    rig.link(3, LinkState::Down);
    assert_eq!(rig.send(1, &packet), []);
    rig.link(2, LinkState::Up);
    assert_eq!(rig.send(1, &packet), [(2, packet.clone())]);
    assert_eq!(rig.switch.drops(), [(DropReason::NoBucket, 1)]);
    rig.check();
}

#[test]
fn groups_chain_but_form_no_loop_and_end_with_their_entries() {
    let mut rig = Rig::new(3);
    rig.add_group(GroupKind::Indirect, 1, vec![bucket(0, None, vec![output(2)])]);
    rig.add_group(GroupKind::Indirect, 2, vec![bucket(0, None, vec![Action::Group(1)])]);
    let back = group(GroupCommand::Modify, GroupKind::Indirect, 1, vec![bucket(0, None, vec![Action::Group(2)])]);
    assert_eq!(rig.group(back), Err(ErrorKind::GroupModFailedLoop.into()));
    let mut request = add(1, in_port(1), apply(vec![Action::Group(2)]));
    request.flags = FlowFlags(FlowFlags::SEND_FLOW_REM);
    rig.add(request);
    let packet = udp(1, 2, [1, 2]);
    assert_eq!(rig.send(1, &packet), [(2, packet.clone())]);
    let delete = |id| group(GroupCommand::Delete, GroupKind::All, id, vec![]);
    assert_eq!(rig.group(delete(1)), Err(ErrorKind::GroupModFailedChainedGroup.into()));
    let saved = rig.switch.saved();
    assert_eq!(saved.groups.iter().map(|group| group.group).collect::<Vec<_>>(), [1, 2]);
    rig.group(delete(GROUP_ALL)).unwrap();
    let events = rig.events();
    assert!(
        matches!(&events[..], [Event::FlowRemoved(one)] if one.reason == FlowRemovedReason::GroupDelete && one.packets == 1)
    );
    assert_eq!(rig.send(1, &packet), []);
    assert_eq!(rig.switch.restore(saved, rig.now_ns), (0, None));
    assert_eq!(rig.send(1, &packet), [(2, packet)]);
    rig.check();
}

#[test]
fn meters_drop_what_exceeds_their_rate() {
    let mut rig = Rig::new(2);
    let meter = MeterMod {
        command: MeterCommand::Add,
        flags: MeterFlags(MeterFlags::PKTPS | MeterFlags::BURST),
        meter: 5,
        bands: vec![Band { kind: BandKind::Drop, rate: 1000, burst_size: 10 }],
    };
    rig.switch.meter_mod(meter, rig.now_ns).unwrap();
    rig.add(add(1, in_port(1), vec![Instruction::Meter(5), Instruction::ApplyActions(vec![output(2)])]));
    let mut passed = 0;
    for _ in 0..1000 {
        rig.now_ns += 100_000;
        passed += rig.send(1, &udp(1, 2, [1, 2])).len();
    }
    assert!((100..=112).contains(&passed), "{passed}");
    assert_eq!(rig.switch.drops(), [(DropReason::Meter, 1000 - passed as u64)]);
    let stats = rig.switch.multipart(MultipartRequest::Meter(5), rig.now_ns).unwrap();
    let MultipartReply::Meter(stats) = stats else { panic!() };
    assert_eq!((stats[0].packets, stats[0].flows, stats[0].bands[0].packets), (1000, 1, 1000 - passed as u64));
    rig.check();
}

/// Where all are deleted, the entries that use them are looked for in one pass. It was a pass for each meter, and for each action a look at
/// all groups.
#[test]
fn all_meters_and_all_groups_end_with_their_entries() {
    const MANY: u32 = 1_000;
    let mut rig = Rig::new(2);
    for number in 1..=MANY {
        let bands = vec![Band { kind: BandKind::Drop, rate: 1, burst_size: 1 }];
        let command = MeterCommand::Add;
        let flags = MeterFlags(MeterFlags::PKTPS);
        rig.switch.meter_mod(MeterMod { command, flags, meter: number, bands }, rig.now_ns).unwrap();
        rig.add_group(GroupKind::Indirect, number, vec![bucket(0, None, vec![output(2)])]);
        let to = |port: u32| Match::default().with(Field::EthType, 0x0800).with(Field::Ipv4Dst, port.into());
        // Every other meter has an entry, and every other group.
        let instructions = match number % 2 {
            0 => vec![Instruction::Meter(number), Instruction::ApplyActions(vec![output(2)])],
            _ => apply(vec![Action::Group(number)]),
        };
        rig.add(FlowMod { flags: FlowFlags(FlowFlags::SEND_FLOW_REM), ..add(1, to(number), instructions) });
    }
    rig.add(add(1, in_port(1), apply(vec![output(2)])));
    let ended = |rig: &mut Rig, reason: FlowRemovedReason| {
        let events = rig.events();
        let all = events.iter().all(|event| matches!(event, Event::FlowRemoved(one) if one.reason == reason));
        assert!(all, "{:?}", events.first());
        events.len()
    };
    let delete = |meter| MeterMod { command: MeterCommand::Delete, flags: MeterFlags(0), meter, bands: Vec::new() };
    rig.switch.meter_mod(delete(2), rig.now_ns).unwrap();
    assert_eq!(ended(&mut rig, FlowRemovedReason::Delete), 1);
    rig.switch.meter_mod(delete(1), rig.now_ns).unwrap();
    assert_eq!(ended(&mut rig, FlowRemovedReason::Delete), 0);
    rig.switch.meter_mod(delete(METER_ALL), rig.now_ns).unwrap();
    assert_eq!(ended(&mut rig, FlowRemovedReason::Delete), MANY as usize / 2 - 1);
    rig.group(group(GroupCommand::Delete, GroupKind::All, GROUP_ALL, vec![])).unwrap();
    assert_eq!(ended(&mut rig, FlowRemovedReason::GroupDelete), MANY as usize / 2);
    let saved = rig.switch.saved();
    assert!(saved.groups.is_empty() && saved.meters.is_empty());
    let packet = udp(1, 2, [1, 2]);
    assert_eq!(rig.send(1, &packet), [(2, packet.clone())]);
    rig.check();
}

#[test]
fn meters_raise_the_drop_precedence() {
    let mut rig = Rig::new(2);
    let meter = MeterMod {
        command: MeterCommand::Add,
        flags: MeterFlags(MeterFlags::PKTPS),
        meter: 5,
        bands: vec![Band { kind: BandKind::DscpRemark(1), rate: 1, burst_size: 0 }],
    };
    rig.switch.meter_mod(meter, rig.now_ns).unwrap();
    rig.add(add(1, in_port(1), vec![Instruction::Meter(5), Instruction::GotoTable(1)]));
    let wanted = Match::default().with(Field::EthType, 0x0800).with(Field::IpDscp, 12);
    rig.add(FlowMod { table: 1, ..add(1, wanted, apply(vec![output(2)])) });
    let mut packet = udp(1, 2, [1, 2]);
    packet[15] = 10 << 2;
    let sent: Vec<usize> = (0..4).map(|_| rig.send(1, &packet).len()).collect();
    assert_eq!(sent.last(), Some(&1), "{sent:?}");
    assert_eq!(sent[0], 0, "the first packet conforms, and AF11 is dropped");
    rig.check();
}

#[test]
fn a_port_does_what_its_configuration_says() {
    let mut rig = Rig::new(2);
    rig.add(add(1, Match::default(), apply(vec![output(1), output(2)])));
    let packet = udp(1, 2, [1, 2]);
    let set = |config, mask| PortMod {
        number: PortNumber(2),
        hw_addr: [2, 0, 0, 0, 0, 2],
        config: PortConfig(config),
        mask,
        advertise: 0,
    };
    rig.switch.port_mod(set(PortConfig::NO_FWD, PortConfig::NO_FWD), rig.now_ns).unwrap();
    assert!(matches!(&rig.events()[..], [Event::PortStatus(_)]));
    assert_eq!(rig.send(1, &packet), []);
    rig.switch.port_mod(set(PortConfig::NO_RECV, PortConfig::NO_RECV | PortConfig::NO_FWD), rig.now_ns).unwrap();
    assert_eq!(rig.send(1, &packet), [(2, packet.clone())]);
    assert_eq!(rig.send(2, &packet), []);
    let drops = rig.switch.drops();
    assert!(drops.contains(&(DropReason::NoReceive, 1)) && drops.contains(&(DropReason::NoForward, 1)), "{drops:?}");
    let wrong = PortMod { hw_addr: [0; 6], ..set(0, 0) };
    assert_eq!(rig.switch.port_mod(wrong, rig.now_ns), Err(ErrorKind::PortModFailedBadHwAddr.into()));
    rig.check();
}

/// The thread that serves controllers hears of a link later than the worker that has the port, and once from each worker that has a queue of it.
#[test]
fn late_word_of_a_link_changes_nothing_that_packets_meet() {
    let mut rig = Rig::new(2);
    rig.add(add(1, in_port(1), apply(vec![output(2)])));
    let packet = udp(1, 2, [1, 2]);
    rig.link(2, LinkState::Down);
    assert_eq!(rig.send(1, &packet), []);
    rig.link(2, LinkState::Up);
    let states = |rig: &mut Rig| -> Vec<u32> {
        let told = rig.events().into_iter().map(|event| match event {
            Event::PortStatus(status) => status.port.state.0,
            event => panic!("{event:?}"),
        });
        told.collect()
    };
    for up in [false, false, true, true] {
        assert!(rig.switch.link_changed(PortNumber(2), up, rig.now_ns));
        assert_eq!(rig.send(1, &packet), [(2, packet.clone())]);
    }
    assert_eq!(states(&mut rig), [PortState::LINK_DOWN, PortState::LIVE], "each of them once");
    assert!(rig.switch.set_link(PortNumber(2), false, rig.now_ns));
    assert_eq!(rig.send(1, &packet), [], "a port without a worker has no link");
    assert_eq!(states(&mut rig), [PortState::LINK_DOWN]);
    assert!(!rig.switch.link_changed(PortNumber(9), true, rig.now_ns));
    rig.check();
}

#[test]
fn normal_learns_and_standalone_does_so_without_entries() {
    let mut rig = Rig::new(3);
    rig.switch.set_standalone(true);
    let (there, back) = (udp(1, 2, [1, 2]), udp(2, 1, [2, 1]));
    assert_eq!(rig.send(1, &there), [(2, there.clone()), (3, there.clone())]);
    assert_eq!(rig.send(2, &back), [(1, back.clone())]);
    assert_eq!(rig.send(1, &there), [(2, there.clone())]);
    rig.switch.set_standalone(false);
    assert_eq!(rig.send(1, &there), []);
    rig.add(add(1, Match::default(), apply(vec![output(PortNumber::NORMAL.0)])));
    assert_eq!(rig.send(1, &there), [(2, there)]);
    rig.check();
}

#[test]
fn queues_keep_their_limits_and_their_guarantees() {
    let mut rig = Rig::new(1);
    let queue = |id, min_rate_bps, max_rate_bps| QueueSettings { id, min_rate_bps, max_rate_bps };
    rig.add_port_with_queues(2, vec![queue(1, None, Some(1_000_000)), queue(2, Some(1_000_000), None)]);
    rig.add(add(1, in_port(1), apply(vec![Action::SetQueue(1), output(2)])));
    let mut sent = 0;
    let packet = udp(1, 2, [1, 2]);
    for _ in 0..1000 {
        rig.now_ns += 100_000;
        sent += rig.send(1, &packet).len();
    }
    // 100 ms at 1 Mbit/s are 208 packets of 60 bytes; the burst is 50 more.
    assert!((200..=262).contains(&sent), "{sent}");
    let stats = rig.switch.multipart(MultipartRequest::Queue(PortNumber(2), 1), rig.now_ns).unwrap();
    let MultipartReply::Queue(stats) = stats else { panic!() };
    assert_eq!((stats[0].tx_packets, stats[0].tx_bytes), (sent as u64, 60 * sent as u64));
}

#[test]
fn a_trace_says_what_packets_meet() {
    let mut rig = Rig::new(3);
    rig.add_group(GroupKind::Indirect, 1, vec![bucket(0, None, vec![output(2)])]);
    rig.add(add(5, in_port(1), vec![Instruction::GotoTable(2)]));
    rig.add(FlowMod { table: 2, ..add(1, Match::default(), apply(vec![Action::Group(1)])) });
    let fields = linerate_pipeline::packet::PipelineFields { in_port: 1, in_phy_port: 1, ..Default::default() };
    let steps = rig.switch.trace(&udp(1, 2, [1, 2]), &fields);
    let tables: Vec<u8> = steps
        .iter()
        .filter_map(|step| if let TraceStep::Table { table, .. } = step { Some(*table) } else { None })
        .collect();
    assert_eq!(tables, [0, 2]);
    assert!(steps.iter().any(|step| matches!(step, TraceStep::Output { port: PortNumber(2), .. })), "{steps:?}");
    assert!(matches!(
        &rig.switch.trace(&udp(1, 2, [1, 2]), &Default::default())[..],
        [.., TraceStep::Dropped(DropReason::TableMiss)]
    ));
}

#[test]
fn tables_are_full_where_features_say_so() {
    let mut rig = Rig::with(2, SwitchOptions { table_entries_max: 2, ..SwitchOptions::default() });
    rig.add(add(1, in_port(1), vec![]));
    rig.add(add(1, in_port(2), vec![]));
    rig.add(add(1, in_port(1), vec![]));
    assert_eq!(rig.flow_mod(add(2, in_port(1), vec![])), Err(ErrorKind::FlowModFailedTableFull.into()));
    let mut overlapping = add(1, Match::default(), vec![]);
    overlapping.flags = FlowFlags(FlowFlags::CHECK_OVERLAP);
    assert_eq!(rig.flow_mod(overlapping), Err(ErrorKind::FlowModFailedOverlap.into()));
}
