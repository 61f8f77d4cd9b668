//! Random flow-mods, groups, ports, links, times and packets, on the switch with caches of several sizes and on the slow reference: packets,
//! packet-ins, errors, counters and removed entries are the same.

use super::packets;
#[path = "machine/reference.rs"]
mod reference;
#[path = "switch/rig.rs"]
#[allow(dead_code, reason = "other tests use all of it")]
mod rig;

use linerate_openflow::*;
use linerate_pipeline::{Event, FlowTablesOptions, SwitchOptions};
use linerate_port::{Context, Datapath, LinkState, PortIndex};
use packets::make::Random;
use reference::{Reference, Seen};
use rig::{Rig, SECOND, udp};

const PORTS: u32 = 4;
const TABLES: u64 = 4;
const METERS: u64 = 3;

fn some_match(random: &mut Random, table: u8) -> Match {
    let mut wanted = Match::default();
    let with = |chance: u64, random: &mut Random| random.below(chance) == 0;
    if with(3, random) {
        wanted = wanted.with(Field::InPort, 1 + u128::from(random.below(PORTS.into())));
    }
    if table > 0 && with(3, random) {
        wanted = wanted.with_masked(Field::Metadata, random.below(4).into(), 1 + u128::from(random.below(3)));
    }
    if with(4, random) {
        wanted = wanted.with_masked(Field::EthDst, random.below(4).into(), random.one_of(&[1, 3, 0xffff_ffff_ffff]));
    }
    match random.below(6) {
        0 => wanted = wanted.with(Field::VlanVid, 0),
        1 => wanted = wanted.with_masked(Field::VlanVid, 0x1000, 0x1000),
        2 => wanted = wanted.with(Field::VlanVid, 0x1005),
        _ => {}
    }
    if with(2, random) {
        wanted = wanted.with(Field::EthType, 0x0800);
        if with(2, random) {
            let mask = random.one_of(&[0xff00_0000, 0xffff_ff00, 0xffff_ffff, 0x0000_0001]);
            wanted = wanted.with_masked(Field::Ipv4Src, 0x0a00_0000 + u128::from(random.below(4)), mask);
        }
        if with(2, random) {
            wanted = wanted.with(Field::IpProto, 17);
            if with(2, random) {
                wanted = wanted.with(Field::UdpDst, random.below(3).into());
            }
        }
    }
    wanted
}

fn some_action(random: &mut Random) -> Action {
    let to = |port: PortNumber| Action::Output { port, max_len: 0xffff };
    match random.below(16) {
        0 => to(PortNumber::CONTROLLER),
        1 => to(PortNumber::IN_PORT),
        2 => to(PortNumber::ALL),
        3 => to(PortNumber::FLOOD),
        4 | 5 => Action::Group(random.below(4) as u32),
        6 => Action::SetField(Field::EthDst, random.below(4).into()),
        7 => Action::PushVlan(0x8100),
        8 => Action::PopVlan,
        9 => Action::SetNwTtl(random.below(3) as u8),
        10 => Action::DecNwTtl,
        11 => Action::SetField(Field::Ipv4Src, 0x0a00_0000 + u128::from(random.below(4))),
        _ => to(PortNumber(1 + random.below(u64::from(PORTS) + 1) as u32)),
    }
}

fn some_actions(random: &mut Random) -> Vec<Action> {
    (0..random.below(4)).map(|_| some_action(random)).collect()
}

fn some_instructions(random: &mut Random, table: u8) -> Vec<Instruction> {
    let mut instructions = Vec::new();
    if random.below(5) == 0 {
        instructions.push(Instruction::Meter(1 + random.below(METERS) as u32));
    }
    if random.below(2) == 0 {
        instructions.push(Instruction::ApplyActions(some_actions(random)));
    }
    if random.below(2) == 0 {
        instructions.push(Instruction::WriteActions(some_actions(random)));
    }
    if random.below(6) == 0 {
        instructions.push(Instruction::ClearActions);
    }
    if random.below(4) == 0 {
        let mask = 1 + random.below(3);
        instructions.push(Instruction::WriteMetadata { metadata: random.below(4) & mask, mask });
    }
    if u64::from(table) + 1 < TABLES && random.below(2) == 0 {
        let later = u64::from(table) + 1 + random.below(TABLES - u64::from(table) - 1);
        instructions.push(Instruction::GotoTable(later as u8));
    }
    instructions
}

fn some_flow_mod(random: &mut Random) -> FlowMod {
    let table = random.below(TABLES) as u8;
    let commands = [
        FlowCommand::Add,
        FlowCommand::Add,
        FlowCommand::Add,
        FlowCommand::Add,
        FlowCommand::Modify,
        FlowCommand::ModifyStrict,
        FlowCommand::Delete,
        FlowCommand::DeleteStrict,
    ];
    let command = random.one_of(&commands);
    let deletes = matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict);
    let matching = if random.below(8) == 0 { Match::default() } else { some_match(random, table) };
    let mut flags = FlowFlags::SEND_FLOW_REM;
    if command == FlowCommand::Add {
        // Without ties, it is certain which entry a packet matches.
        flags |= FlowFlags::CHECK_OVERLAP;
    }
    for flag in [FlowFlags::RESET_COUNTS, FlowFlags::NO_PKT_COUNTS, FlowFlags::NO_BYT_COUNTS] {
        flags |= if random.below(6) == 0 { flag } else { 0 };
    }
    FlowMod {
        cookie: random.below(4),
        cookie_mask: if command == FlowCommand::Add { 0 } else { random.below(3) },
        table: if deletes && random.below(3) == 0 { TABLE_ALL } else { table },
        command,
        idle_timeout_s: if random.below(4) == 0 { 3 } else { 0 },
        hard_timeout_s: if random.below(6) == 0 { 5 } else { 0 },
        priority: random.below(4) as u16,
        buffer_id: NO_BUFFER,
        out_port: if deletes && random.below(3) == 0 {
            PortNumber(1 + random.below(4) as u32)
        } else {
            PortNumber::ANY
        },
        out_group: if deletes && random.below(4) == 0 { random.below(4) as u32 } else { GROUP_ANY },
        flags: FlowFlags(flags),
        matching,
        instructions: some_instructions(random, table),
    }
}

fn some_group_mod(random: &mut Random) -> GroupMod {
    let kind = random.one_of(&[GroupKind::All, GroupKind::Indirect, GroupKind::FastFailover, GroupKind::Select]);
    let count = if kind == GroupKind::Indirect { 1 } else { 1 + random.below(3) };
    let bucket = |random: &mut Random| Bucket {
        weight: if kind == GroupKind::Select { random.below(3) as u16 } else { 0 },
        watch_port: match kind {
            GroupKind::FastFailover => PortNumber(1 + random.below(PORTS.into()) as u32),
            GroupKind::Select => random.one_of(&[PortNumber::ANY, PortNumber(1), PortNumber(2)]),
            _ => PortNumber::ANY,
        },
        watch_group: GROUP_ANY,
        actions: some_actions(random),
    };
    let commands =
        [GroupCommand::Add, GroupCommand::Add, GroupCommand::Modify, GroupCommand::Modify, GroupCommand::Delete];
    GroupMod {
        command: random.one_of(&commands),
        kind,
        group: random.below(4) as u32,
        buckets: (0..count).map(|_| bucket(random)).collect(),
    }
}

/// A meter of one packet a second, so that it is certain what it does to a packet.
fn some_meter_mod(random: &mut Random) -> MeterMod {
    let kind = random.one_of(&[BandKind::Drop, BandKind::Drop, BandKind::DscpRemark(1), BandKind::DscpRemark(2)]);
    MeterMod {
        command: random.one_of(&[MeterCommand::Add, MeterCommand::Add, MeterCommand::Modify, MeterCommand::Delete]),
        flags: MeterFlags(MeterFlags::PKTPS | MeterFlags::BURST | MeterFlags::STATS),
        meter: 1 + random.below(METERS) as u32,
        bands: vec![Band { kind, rate: 1, burst_size: 1 + random.below(3) as u32 }],
    }
}

fn some_packet(random: &mut Random) -> Vec<u8> {
    let mut packet = udp(random.below(4) as u8, random.below(4) as u8, [1, random.below(3) as u16]);
    packet[..6].copy_from_slice(&[0, 0, 0, 0, 0, random.below(4) as u8]);
    // AF11 and AF22, which meters may remark. The sum of the header gets smaller by as much.
    let class = random.one_of(&[0, 0, 0x28, 0x50]);
    packet[15] = class;
    let sum = u32::from(u16::from_be_bytes([packet[24], packet[25]])) + 0xffff - u32::from(class);
    packet[24..26].copy_from_slice(&((sum & 0xffff) as u16 + (sum >> 16) as u16).to_be_bytes());
    if random.below(3) == 0 {
        let tag = [0x81, 0, 0, random.one_of(&[5, 6])];
        packet.splice(12..12, tag);
    }
    if random.below(8) == 0 {
        packet[12] = 0x88;
    }
    packet
}

/// Flow entries, groups and meters, and tables with their lookups and matches.
type Statistics = (Vec<String>, Vec<String>, Vec<(u8, u64, u64)>);

/// The switch under test in one of its shapes.
struct Shape {
    rig: Rig,
    removed: Vec<(u64, FlowRemovedReason, u64)>,
    packet_ins: Vec<Seen>,
}

impl Shape {
    fn new(cache_entries_max: usize) -> Shape {
        let tables = FlowTablesOptions { cache_entries_max, ..FlowTablesOptions::default() };
        let rig = Rig::with(PORTS, SwitchOptions { tables, ..SwitchOptions::default() });
        Shape { rig, removed: Vec::new(), packet_ins: Vec::new() }
    }

    fn take_events(&mut self) {
        let version = self.rig.switch.version();
        assert!(self.rig.switch.quiesced(version), "the worker is between two batches");
        for event in self.rig.events() {
            match event {
                Event::FlowRemoved(one) => self.removed.push((one.cookie, one.reason, one.packets)),
                Event::PacketIn(one) => {
                    self.packet_ins.push(Seen::PacketIn(one.reason as u8, one.table, one.cookie, one.data));
                }
                Event::PortStatus(_) => {}
            }
        }
    }

    fn send(&mut self, port: u32, packets: &[Vec<u8>]) -> Vec<Seen> {
        let sent = self.rig.send_all(port, packets).into_iter().map(|(port, bytes)| Seen::Sent(port, bytes));
        self.with_packet_ins(sent.collect())
    }

    fn with_packet_ins(&mut self, mut seen: Vec<Seen>) -> Vec<Seen> {
        self.take_events();
        seen.append(&mut self.packet_ins);
        seen.sort();
        seen
    }

    fn packet_out(&mut self, request: PacketOut) -> Result<Vec<Seen>, OfError> {
        self.rig.switch.packet_out(request, self.rig.now_ns)?;
        let sent = self.rig.round().into_iter().map(|(port, bytes)| Seen::Sent(port, bytes)).collect();
        Ok(self.with_packet_ins(sent))
    }
}

/// Everything that statistics say, in a form that can be compared.
fn statistics(rig: &mut Rig) -> Statistics {
    let mut flows: Vec<String> = rig
        .flows()
        .into_iter()
        .map(|one| {
            format!(
                "{} {} {} {:?} {:?} {} {}",
                one.table, one.priority, one.cookie, one.matching, one.instructions, one.packets, one.bytes
            )
        })
        .collect();
    flows.sort();
    let Ok(MultipartReply::Group(groups)) = rig.switch.multipart(MultipartRequest::Group(GROUP_ALL), rig.now_ns) else {
        panic!()
    };
    let groups = groups.into_iter().map(|one| {
        format!(
            "{} {} {:?}",
            one.group,
            one.packets,
            one.buckets.iter().map(|bucket| bucket.packets).collect::<Vec<_>>()
        )
    });
    let Ok(MultipartReply::Meter(meters)) = rig.switch.multipart(MultipartRequest::Meter(METER_ALL), rig.now_ns) else {
        panic!()
    };
    let meters = meters
        .into_iter()
        .map(|one| format!("meter {} {} {} {}", one.meter, one.flows, one.packets, one.bands[0].packets));
    let groups: Vec<String> = groups.chain(meters).collect();
    let Ok(MultipartReply::Table(tables)) = rig.switch.multipart(MultipartRequest::Table, rig.now_ns) else { panic!() };
    let tables = tables.into_iter().take(TABLES as usize).map(|one| (one.table, one.lookups, one.matches));
    (flows, groups, tables.collect())
}

fn expected(reference: &Reference) -> Statistics {
    let mut flows: Vec<String> = reference
        .entries
        .iter()
        .map(|one| {
            let request = &one.request;
            format!(
                "{} {} {} {:?} {:?} {} {}",
                request.table,
                request.priority,
                request.cookie,
                request.matching,
                request.instructions,
                one.packets,
                one.bytes
            )
        })
        .collect();
    flows.sort();
    let groups = reference.groups.iter().map(|(id, one)| format!("{id} {} {:?}", one.packets, one.bucket_packets));
    let meters = reference
        .meters
        .iter()
        .map(|(id, one)| format!("meter {id} {} {} {}", reference.users(*id), one.packets, one.band_packets));
    let groups = groups.chain(meters);
    let tables = (0..TABLES as u8).map(|table| {
        let (lookups, matches) = reference.lookups.get(&table).copied().unwrap_or_default();
        (table, lookups, matches)
    });
    (flows, groups.collect(), tables.collect())
}

fn run(seed: u64, steps: usize) {
    let mut random = Random::new(seed);
    let mut shapes = [Shape::new(0), Shape::new(1), Shape::new(1 << 16)];
    let mut reference = Reference { now_s: 1, ..Reference::default() };
    reference.ports.extend((1..=PORTS).map(|port| (port, (0, true))));
    let mut known: Vec<(u32, Vec<u8>)> = Vec::new();
    for step in 0..steps {
        let context = format!("seed {seed}, step {step}");
        match random.below(24) {
            // They begin one version together.
            0..=5 => (0..1 + random.below(3)).for_each(|_| {
                let request = some_flow_mod(&mut random);
                let wanted = reference.flow_mod(&request);
                for shape in &mut shapes {
                    let now_ns = shape.rig.now_ns;
                    assert_eq!(shape.rig.switch.flow_mod(request.clone(), now_ns), wanted, "{context}: {request:?}");
                }
            }),
            6 => {
                let request = some_group_mod(&mut random);
                let wanted = reference.group_mod(&request);
                for shape in &mut shapes {
                    let now_ns = shape.rig.now_ns;
                    assert_eq!(shape.rig.switch.group_mod(request.clone(), now_ns), wanted, "{context}: {request:?}");
                }
            }
            7 => {
                let port = 1 + random.below(PORTS.into()) as u32;
                let up = random.below(3) != 0;
                if let Some(state) = reference.ports.get_mut(&port) {
                    state.1 = up;
                }
                for shape in &mut shapes {
                    let rig = &mut shape.rig;
                    let mut context = Context { now_ns: rig.now_ns, pool: &mut rig.pool, ports: &mut () };
                    let link = if up { LinkState::Up } else { LinkState::Down };
                    rig.forwarder.link_changed(PortIndex(port as u16 - 1), link, &mut context);
                    if random.below(2) == 0 {
                        rig.switch.link_changed(PortNumber(port), up, rig.now_ns);
                    }
                }
            }
            8 => {
                let port = 1 + random.below(PORTS.into()) as u32;
                let bits =
                    [0, PortConfig::NO_FWD, PortConfig::NO_RECV, PortConfig::NO_PACKET_IN, PortConfig::PORT_DOWN, 0];
                let config = random.one_of(&bits);
                if let Some(state) = reference.ports.get_mut(&port) {
                    state.0 = config;
                }
                for shape in &mut shapes {
                    let request = PortMod {
                        number: PortNumber(port),
                        hw_addr: [2, 0, 0, 0, 0, port as u8],
                        config: PortConfig(config),
                        mask: PortConfig::ALL,
                        advertise: 0,
                    };
                    shape.rig.switch.port_mod(request, shape.rig.now_ns).unwrap();
                }
            }
            20 | 21 => {
                let request = some_meter_mod(&mut random);
                let wanted = reference.meter_mod(&request);
                for shape in &mut shapes {
                    let now_ns = shape.rig.now_ns;
                    assert_eq!(shape.rig.switch.meter_mod(request.clone(), now_ns), wanted, "{context}: {request:?}");
                }
            }
            22 | 23 => {
                let mut actions = some_actions(&mut random);
                if random.below(2) == 0 {
                    actions.push(Action::Output { port: PortNumber::TABLE, max_len: 0 });
                    actions.extend(some_actions(&mut random));
                }
                let in_port = random.one_of(&[PortNumber::CONTROLLER, PortNumber(1), PortNumber(3)]);
                let data = some_packet(&mut random);
                let mut wanted = reference.packet_out(in_port.0, &actions, &data);
                wanted.iter_mut().for_each(|seen| seen.sort());
                let request = PacketOut { buffer_id: NO_BUFFER, in_port, actions, data };
                for shape in &mut shapes {
                    assert_eq!(shape.packet_out(request.clone()), wanted, "{context}: {request:?}");
                }
            }
            9 => {
                let seconds = 1 + random.below(3);
                reference.advance(seconds);
                for shape in &mut shapes {
                    for _ in 0..seconds {
                        shape.rig.now_ns += SECOND;
                        shape.rig.switch.tick(shape.rig.now_ns);
                    }
                }
            }
            _ => {
                if known.len() < 6 || random.below(4) == 0 {
                    known.push((1 + random.below(PORTS.into()) as u32, some_packet(&mut random)));
                }
                let (port, _) = known[random.below(known.len() as u64) as usize];
                let of_port: Vec<Vec<u8>> = known.iter().filter(|one| one.0 == port).map(|one| one.1.clone()).collect();
                // Few, or so many that the worker looks for what they have in common.
                let most = random.one_of(&[6, 6, 30]);
                let packets: Vec<Vec<u8>> = (0..1 + random.below(most))
                    .map(|_| of_port[random.below(of_port.len() as u64) as usize].clone())
                    .collect();
                let mut wanted: Vec<Seen> = packets.iter().flat_map(|packet| reference.packet(port, packet)).collect();
                wanted.sort();
                for (number, shape) in shapes.iter_mut().enumerate() {
                    let seen = shape.send(port, &packets);
                    assert_eq!(
                        seen, wanted,
                        "{context}, shape {number}, port {port}: {packets:02x?}\n{:#?}",
                        reference.entries
                    );
                }
            }
        }
        let wanted = expected(&reference);
        let mut ended = reference.removed.clone();
        ended.sort_by_key(|one| (one.0, one.1 as u8, one.2));
        for shape in &mut shapes {
            shape.take_events();
            assert_eq!(statistics(&mut shape.rig), wanted, "{context}");
            shape.removed.sort_by_key(|one| (one.0, one.1 as u8, one.2));
            assert_eq!(shape.removed, ended, "{context}");
        }
    }
    shapes.iter_mut().for_each(|shape| shape.rig.check());
}

#[test]
fn the_switch_does_what_the_reference_does() {
    for seed in 0..40 {
        run(seed, 300);
    }
}
