//! Flow entries: what they do to packets, how they are changed, counted and removed.

use linerate_openflow::*;
use linerate_pipeline::{BindingKind, DropReason, Event, PortSettings};
use linerate_port::PortIndex;

use crate::rig::*;

#[test]
fn entries_forward_count_and_end() {
    let mut rig = Rig::new(3);
    let packet = udp(1, 2, [1000, 2000]);
    assert_eq!(rig.send(1, &packet), []);
    assert_eq!(rig.switch.drops(), [(DropReason::TableMiss, 1)]);
    let mut request = add(10, in_port(1), apply(vec![output(2), output(3)]));
    request.flags = FlowFlags(FlowFlags::SEND_FLOW_REM);
    rig.add(request.clone());
    assert_eq!(rig.send(1, &packet), [(2, packet.clone()), (3, packet.clone())]);
    let flows = rig.flows();
    assert_eq!((flows.len(), flows[0].packets, flows[0].bytes), (1, 1, 60));
    request.command = FlowCommand::DeleteStrict;
    rig.add(request);
    let version = rig.switch.version();
    assert!(rig.switch.quiesced(version));
    let removed = rig.events();
    assert!(matches!(&removed[..], [Event::FlowRemoved(removed)] if removed.packets == 1 && removed.bytes == 60));
    assert_eq!(rig.send(1, &packet), []);
    rig.check();
}

#[test]
fn tables_pass_metadata_and_action_sets_on() {
    let mut rig = Rig::new(3);
    let packet = udp(1, 2, [1000, 2000]);
    let write = Instruction::WriteActions(vec![output(2), Action::SetField(Field::EthSrc, 0x0200_0000_00ff)]);
    let metadata = Instruction::WriteMetadata { metadata: 7, mask: 0xf };
    rig.add(add(1, in_port(1), vec![write, metadata, Instruction::GotoTable(5)]));
    let replace = vec![Instruction::WriteActions(vec![output(3)])];
    rig.add(FlowMod { table: 5, ..add(1, Match::default().with_masked(Field::Metadata, 7, 0xff), replace) });
    let mut expected = packet.clone();
    expected[11] = 0xff;
    assert_eq!(rig.send(1, &packet), [(3, expected)]);
    rig.check();
}

#[test]
fn fields_that_were_set_are_seen_by_later_tables() {
    let mut rig = Rig::new(3);
    let packet = udp(1, 2, [1000, 2000]);
    let mut first = apply(vec![Action::SetField(Field::EthDst, 0x0200_0000_0077)]);
    first.push(Instruction::GotoTable(1));
    rig.add(add(1, in_port(1), first));
    let wanted = Match::default().with(Field::EthDst, 0x0200_0000_0077);
    rig.add(FlowMod { table: 1, ..add(1, wanted, apply(vec![output(2)])) });
    let sent = rig.send(1, &packet);
    assert_eq!((sent.len(), sent[0].0, sent[0].1[5]), (1, 2, 0x77));
    rig.check();
}

#[test]
fn packets_for_the_controller_wait_in_buffers() {
    let mut rig = Rig::new(2);
    let packet = udp(1, 2, [1000, 2000]);
    let to = Action::Output { port: PortNumber::CONTROLLER, max_len: 20 };
    rig.add(FlowMod { cookie: 99, ..add(0, Match::default(), apply(vec![to])) });
    assert_eq!(rig.send(1, &packet), []);
    let packet_ins = rig.packet_ins();
    let [packet_in] = &packet_ins[..] else { panic!("{packet_ins:?}") };
    assert_eq!((packet_in.reason, packet_in.cookie, packet_in.total_len), (PacketInReason::NoMatch, 99, 60));
    assert_eq!((&packet_in.data[..], &packet_in.matching), (&packet[..20], &in_port(1)));
    let out = PacketOut {
        buffer_id: packet_in.buffer_id,
        in_port: PortNumber(1),
        actions: vec![output(2)],
        data: Vec::new(),
    };
    rig.switch.packet_out(out.clone(), rig.now_ns).unwrap();
    assert_eq!(rig.round(), [(2, packet)]);
    let unknown = OfError(ErrorKind::BadRequestBufferUnknown);
    assert_eq!(rig.switch.packet_out(out, rig.now_ns), Err(unknown));
    rig.check();
}

#[test]
fn entries_time_out() {
    let mut rig = Rig::new(2);
    let mut idle = add(1, in_port(1), apply(vec![output(2)]));
    (idle.idle_timeout_s, idle.flags) = (5, FlowFlags(FlowFlags::SEND_FLOW_REM));
    let hard = FlowMod { idle_timeout_s: 0, hard_timeout_s: 7, matching: in_port(2), ..idle.clone() };
    rig.add(idle);
    rig.add(hard);
    rig.now_ns += 3 * SECOND;
    rig.send(1, &udp(1, 2, [1, 2]));
    let mut reasons = Vec::new();
    for _ in 0..6 {
        rig.now_ns += SECOND;
        rig.switch.tick(rig.now_ns);
        for event in rig.events() {
            let Event::FlowRemoved(removed) = event else { panic!("{event:?}") };
            reasons.push((removed.reason, removed.duration_ns / SECOND, removed.packets));
        }
    }
    assert_eq!(reasons, [(FlowRemovedReason::HardTimeout, 7, 0), (FlowRemovedReason::IdleTimeout, 8, 1)]);
}

#[test]
fn fragments_are_dropped_or_put_together_as_the_configuration_says() {
    let mut rig = Rig::new(2);
    let wanted = Match::default().with(Field::EthType, 0x0800).with(Field::IpProto, 17).with(Field::UdpDst, 80);
    rig.add(add(1, wanted, apply(vec![output(2)])));
    let whole = udp(1, 2, [7, 80]);
    let piece = |data: &[u8], offset: u16, more: bool| {
        let mut packet = whole[..34].to_vec();
        packet[16..18].copy_from_slice(&(20 + data.len() as u16).to_be_bytes());
        packet[20..22].copy_from_slice(&(u16::from(more) * 0x2000 + offset / 8).to_be_bytes());
        packet.extend_from_slice(data);
        packet
    };
    let (first, last) = (piece(&whole[34..50], 0, true), piece(&whole[50..], 16, false));
    let set = |rig: &mut Rig, fragments| {
        rig.switch.set_config(SwitchConfig { fragments, miss_send_len: 128 }).unwrap();
    };
    set(&mut rig, Fragments::Drop);
    assert_eq!(rig.send(1, &first), []);
    assert_eq!(rig.switch.drops(), [(DropReason::Fragment, 1)]);
    set(&mut rig, Fragments::Reassemble);
    assert_eq!(rig.send(1, &last), []);
    let sent = rig.send(1, &first);
    assert_eq!((sent.len(), sent[0].0, &sent[0].1[34..]), (1, 2, &whole[34..]));
    rig.check();
    assert_eq!(rig.send(1, &first), []);
    assert_eq!(rig.switch.totals().held_fragments, 1);
    rig.check();
    rig.now_ns += 60 * SECOND;
    rig.round();
    assert_eq!(rig.switch.drops(), [(DropReason::Fragment, 1), (DropReason::FragmentLost, 1)]);
    rig.check();
}

/// A packet that was put together and is longer than its egress port takes leaves in fragments; each port has its own.
#[test]
fn packets_that_were_put_together_are_cut_for_ports_that_take_less() {
    let mut rig = Rig::new(1);
    for (port, len_max) in [(2, 1514), (3, 9014)] {
        rig.switch.add_port(PortSettings { len_max, ..port_settings(port, Vec::new()) }, true, rig.now_ns).unwrap();
        assert!(rig.forwarder.bind(PortIndex(port as u16 - 1), PortNumber(port), BindingKind::Port));
        rig.ports.push(port);
    }
    let wanted = Match::default().with(Field::EthType, 0x0800).with(Field::IpProto, 17).with(Field::UdpDst, 80);
    rig.add(add(1, wanted, apply(vec![Action::DecNwTtl, output(2), output(3)])));
    rig.switch.set_config(SwitchConfig { fragments: Fragments::Reassemble, miss_send_len: 128 }).unwrap();
    let data: Vec<u8> = [&udp(1, 2, [7, 80])[34..42], &[0x5a; 2992]].concat();
    let piece = |data: &[u8], offset: u16, more: bool| {
        let mut packet = udp(1, 2, [7, 80])[..34].to_vec();
        packet[16..18].copy_from_slice(&(20 + data.len() as u16).to_be_bytes());
        packet[20..22].copy_from_slice(&(u16::from(more) * 0x2000 + offset / 8).to_be_bytes());
        packet.extend_from_slice(data);
        packet
    };
    assert_eq!(rig.send(1, &piece(&data[1480..], 1480, false)), []);
    let sent = rig.send(1, &piece(&data[..1480], 0, true));
    let to = |wanted: u32| sent.iter().filter(move |(port, _)| *port == wanted).map(|(_, bytes)| bytes);
    assert_eq!(to(2).map(Vec::len).collect::<Vec<_>>(), [1514, 1514, 34 + 40]);
    let ip = |bytes: &[u8]| (bytes[22], u16::from_be_bytes([bytes[20], bytes[21]]));
    assert_eq!(to(2).map(|bytes| ip(bytes)).collect::<Vec<_>>(), [(63, 0x2000), (63, 0x2000 + 185), (63, 370)]);
    assert_eq!(to(2).flat_map(|bytes| bytes[34..].to_vec()).collect::<Vec<u8>>(), data);
    assert_eq!(to(3).map(Vec::len).collect::<Vec<_>>(), [34 + 3000]);
    rig.check();
    assert!(rig.pool.is_whole());
}

/// Entries of twenty masks, the shorter ones the more important, and addresses that follow one another: most packets take the way of their
/// neighbours, before whole addresses are compared. Each packet goes where a list of the entries says, while entries come and go.
#[test]
fn packets_that_tables_decide_alike_take_one_way_until_an_entry_tells_them_apart() {
    let mut rig = Rig::new(4);
    let mut entries: Vec<(u16, u32, u32, u32)> = Vec::new();
    let mut state = 5u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let matching = |value: u32, mask: u32| {
        let ip = in_port(1).with(Field::EthType, 0x0800).with(Field::IpProto, 17);
        ip.with_masked(Field::Ipv4Dst, value.into(), mask.into())
    };
    let packet = |address: u32| {
        let mut packet = udp(1, 2, [7, 80]);
        packet[30..34].copy_from_slice(&address.to_be_bytes());
        packet
    };
    let mut next = 0x0afe_0000u32;
    for round in 0..400u32 {
        let bits = below(20) as u32;
        let mask = u32::MAX << bits;
        // Near the addresses of packets.
        let value = (next + below(400) as u32) & mask;
        let (priority, port) = (100 + bits as u16, 2 + below(3) as u32);
        if round >= 60 && round % 3 == 0 {
            let (priority, value, mask, _) = entries.swap_remove(below(entries.len() as u64) as usize);
            let request = add(priority, matching(value, mask), Vec::new());
            rig.add(FlowMod { command: FlowCommand::DeleteStrict, ..request });
        } else if !entries.iter().any(|one| (one.0, one.1) == (priority, value)) {
            rig.add(add(priority, matching(value, mask), apply(vec![output(port)])));
            entries.push((priority, value, mask, port));
        }
        // In between, no entry changes.
        for _ in 0..1 + round % 4 {
            let addresses: Vec<u32> = (0..40).map(|at| next + at).collect();
            next += if round % 8 == 0 { 40 } else { 0 };
            let packets: Vec<Vec<u8>> = addresses.iter().map(|address| packet(*address)).collect();
            let sent = rig.send_all(1, &packets);
            let best = |address: u32| {
                let matches = entries.iter().filter(|(_, value, mask, _)| address & mask == *value);
                matches.max_by_key(|entry| entry.0).map(|entry| entry.3)
            };
            let wanted = addresses.iter().filter_map(|address| Some((best(*address)?, packet(*address))));
            let sorted = |mut all: Vec<(u32, Vec<u8>)>| {
                all.sort();
                all
            };
            assert_eq!(sorted(sent), sorted(wanted.collect()), "round {round}: {entries:x?}");
        }
    }
    let totals = rig.switch.totals();
    assert!(totals.cache_hits > 5 * totals.cache_misses, "{totals:?}");
    rig.check();
}

/// Entries of a second table that come and go, as those of a learning controller do, leave a stale way each.
#[test]
fn ways_that_are_over_are_forgotten() {
    let mut rig = Rig::new(3);
    rig.add(add(1, in_port(1), vec![Instruction::GotoTable(1)]));
    let packet = udp(1, 2, [1000, 2000]);
    let mut most = 0;
    for round in 0..100_000 {
        let port = 2 + round % 2;
        rig.add(FlowMod { table: 1, ..add(1, Match::default(), apply(vec![output(port)])) });
        assert_eq!(rig.send(1, &packet), [(port, packet.clone())]);
        most = most.max(rig.switch.totals().ways);
    }
    assert!((1_000..50_000).contains(&most), "{most} ways were held for two entries");
    rig.check();
}

#[test]
fn flows_that_no_entry_tells_apart_are_known_as_one_until_an_entry_does() {
    let mut rig = Rig::new(3);
    let to_port = |entry: Match| entry.with(Field::EthType, 0x0800).with(Field::IpProto, 17);
    rig.add(add(10, to_port(in_port(1)).with(Field::UdpDst, 80), apply(vec![output(2)])));
    let packets: Vec<Vec<u8>> = (0..40).map(|flow| udp(1, 2, [1000 + flow, 80])).collect();
    let ports = |rig: &mut Rig| rig.send_all(1, &packets).iter().map(|(port, _)| *port).collect::<Vec<u32>>();
    for _ in 0..3 {
        assert_eq!(ports(&mut rig), [2; 40]);
    }
    assert_eq!(rig.switch.totals().cache_misses, 2, "one key, kept when it was seen for the second time");

    // Each of these entries compares a field that none compared before.
    let one =
        FlowMod { priority: 20, ..add(20, to_port(in_port(1)).with(Field::UdpSrc, 1007), apply(vec![output(3)])) };
    rig.add(one.clone());
    for _ in 0..3 {
        let sent = ports(&mut rig);
        assert_eq!((sent.iter().filter(|port| **port == 3).count(), sent.len()), (1, 40));
    }
    rig.add(FlowMod { command: FlowCommand::DeleteStrict, ..one });
    let version = rig.switch.version();
    assert!(rig.switch.quiesced(version));
    for _ in 0..3 {
        assert_eq!(ports(&mut rig), [2; 40]);
    }
    let source = to_port(in_port(1)).with_masked(Field::Ipv4Src, 0, 0xff);
    rig.add(add(30, source, apply(vec![output(3)])));
    assert_eq!(ports(&mut rig), [2; 40]);
    assert_eq!(rig.send(1, &udp(0, 2, [1000, 80]))[0].0, 3);
    rig.check();
}
