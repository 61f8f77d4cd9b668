//! What users are promised, one promise a test. The model beside which any sequence is checked is in `oracle.rs`.

use super::support;

use linerate_l2::{
    CUSTOMER_TAG, DropReason, FlowMatch, Mirror, MirrorSelect, PortIndex, PortSettings, Rate, SERVICE_TAG,
    SettingsError, StormLimits, VlanMode, VlanSet,
};
use linerate_mem::Batch;
use linerate_port::{Context, Datapath, TransmitRef};
use linerate_wire::{Stack, ethernet, ipv4, udp};
use support::{Rig, frame, mac};

const S: u64 = 1_000_000_000;

fn rig(ports: impl IntoIterator<Item = PortSettings>) -> Rig {
    let mut rig = Rig::new(2048, 512);
    for settings in ports {
        rig.switch.add_port(settings).unwrap();
    }
    rig
}

fn plain(count: usize) -> Rig {
    rig((0..count).map(|_| PortSettings::default()))
}

fn access(vlan: u16) -> PortSettings {
    PortSettings { vlan: VlanMode::Access { vlan }, ..PortSettings::default() }
}

fn trunk(native: Option<u16>, allowed: &[u16], ethertype: u16) -> PortSettings {
    let allowed: VlanSet = allowed.iter().copied().collect();
    PortSettings { vlan: VlanMode::Trunk { native, allowed, ethertype }, ..PortSettings::default() }
}

/// What waits at each port, in packets.
fn waiting(rig: &mut Rig) -> Vec<usize> {
    let ports: Vec<PortIndex> = rig.switch.ports().collect();
    ports.into_iter().map(|port| rig.take(port, usize::MAX).len()).collect()
}

fn dropped(rig: &Rig, reason: DropReason) -> u64 {
    rig.switch.drops().find(|(lost, _)| *lost == reason).map_or(0, |(_, packets)| packets)
}

const A: PortIndex = PortIndex(0);
const B: PortIndex = PortIndex(1);
const C: PortIndex = PortIndex(2);

#[test]
fn a_known_station_is_reached_alone_and_an_unknown_one_by_a_flood() {
    let mut rig = plain(3);
    rig.send(A, &frame(5, 2, &[], 60));
    assert_eq!(waiting(&mut rig), [0, 1, 1]);
    rig.send(B, &frame(4, 3, &[], 60));
    assert_eq!(waiting(&mut rig), [1, 0, 0]);
    rig.send(A, &frame(5, 2, &[], 60));
    assert_eq!(waiting(&mut rig), [0, 1, 0]);
    rig.send(B, &frame(5, 3, &[], 60));
    assert_eq!((waiting(&mut rig), dropped(&rig, DropReason::Hairpin)), (vec![0, 0, 0], 1));
    let counters = rig.switch.mac_counters();
    assert_eq!((counters.used, counters.learned, counters.moved), (2, 2, 0));
    rig.check();
    rig.close();
}

#[test]
fn a_station_that_moves_is_found_where_it_is() {
    let mut rig = plain(3);
    rig.send(A, &frame(0, 2, &[], 60));
    // One batch: the station moves, and is asked for, by packets behind each other.
    let batch = [frame(0, 2, &[], 60), frame(4, 3, &[], 60)];
    batch.iter().for_each(|bytes| assert!(rig.append(bytes, 1)));
    waiting(&mut rig);
    rig.forward(B);
    assert_eq!(dropped(&rig, DropReason::Hairpin), 1);
    waiting(&mut rig);
    rig.send(C, &frame(4, 5, &[], 60));
    assert_eq!(waiting(&mut rig), [0, 1, 0]);
    assert_eq!(rig.switch.mac_counters().moved, 1);
    assert_eq!(
        rig.switch.macs().find(|entry| entry.mac == mac(4)).map(|entry| (entry.port, entry.moves)),
        Some((B, 1))
    );
    rig.check();
}

/// A worker that sends nothing by itself.
struct Nobody;

impl TransmitRef for Nobody {
    fn transmit_ref(&mut self, _: PortIndex, _: &Batch, _: usize) -> usize {
        0
    }
}

#[test]
fn a_switch_at_rest_wants_a_tick_a_second_and_forgets_as_soon() {
    let mut rig = plain(2);
    rig.send(PortIndex(0), &frame(9, 4, &[], 60));
    let tick = |rig: &mut Rig| {
        let before_ns = rig.now_ns;
        rig.switch.tick(&mut Context { now_ns: before_ns, pool: &mut rig.pool, ports: &mut Nobody });
        rig.now_ns = rig.switch.next_deadline_ns();
        rig.now_ns - before_ns
    };
    assert_eq!([tick(&mut rig), tick(&mut rig)], [S / 20, S], "packets came, none came");
    // Silent for the 300 s of the default, and found within the time that the search of all parts takes.
    while rig.switch.mac_counters().aged == 0 {
        assert_eq!(tick(&mut rig), S);
        assert!(rig.now_ns < 355 * S, "it is still there");
    }
    assert!(rig.now_ns >= 300 * S);
    rig.send(PortIndex(0), &frame(9, 4, &[], 60));
    assert_eq!(tick(&mut rig), S / 20, "packets come again");
}

#[test]
fn addresses_age_and_static_ones_stay() {
    let mut rig = plain(3);
    rig.switch.add_static(0, mac(9), C).unwrap();
    rig.send(B, &frame(0, 3, &[], 60));
    waiting(&mut rig);
    rig.now_ns = 299 * S;
    rig.send(A, &frame(5, 2, &[], 60));
    assert_eq!(waiting(&mut rig), [0, 1, 0]);
    rig.now_ns = 303 * S;
    rig.send(A, &frame(5, 2, &[], 60));
    assert_eq!(waiting(&mut rig), [0, 1, 1]);
    rig.send(A, &frame(9, 2, &[], 60));
    assert_eq!(waiting(&mut rig), [0, 0, 1]);
    (0..2_000).for_each(|step| rig.switch.age(303 * S + step * 1_000_000));
    assert_eq!((rig.switch.mac_counters().aged, rig.switch.mac_counters().used), (1, 2));
    assert_eq!(rig.switch.add_static(0, mac(9), PortIndex(7)), Err(SettingsError::NoPort { port: PortIndex(7) }));
    assert_eq!(rig.switch.add_static(4095, mac(9), C), Err(SettingsError::Vlan { vlan: 4095 }));
    rig.switch.flush_macs(None);
    assert_eq!(rig.switch.macs().map(|entry| (entry.mac, entry.is_static)).collect::<Vec<_>>(), [(mac(9), true)]);
}

#[test]
fn vlans_are_apart_and_tags_come_and_go() {
    let mut rig = rig([access(10), access(20), trunk(Some(10), &[20], CUSTOMER_TAG)]);
    rig.send(A, &frame(0, 2, &[], 60));
    assert!(rig.take(B, 9).is_empty());
    assert_eq!(rig.take(C, 9), [frame(0, 2, &[], 60)]);
    rig.send(B, &frame(0, 2, &[], 60));
    let tagged = rig.take(C, 9);
    assert_eq!((tagged[0].len(), &tagged[0][12..16]), (64, &[0x81, 0, 0, 20][..]));
    // The same address in two VLANs is two stations.
    rig.send(C, &frame(4, 7, &[], 60));
    assert_eq!(waiting(&mut rig), [1, 0, 0]);
    rig.send(C, &frame(4, 7, &[(CUSTOMER_TAG, 0x6014)], 64));
    assert_eq!(
        rig.take(B, 9),
        [frame(4, 7, &[], 60)].map(|bytes| {
            let mut expected = frame(4, 7, &[(CUSTOMER_TAG, 0x6014)], 64);
            expected.drain(12..16);
            assert_eq!(bytes.len(), expected.len());
            expected
        })
    );
    rig.send(A, &frame(4, 7, &[(CUSTOMER_TAG, 10)], 64));
    rig.send(C, &frame(4, 7, &[(CUSTOMER_TAG, 30)], 64));
    assert_eq!(dropped(&rig, DropReason::VlanNotAllowed), 2);
    assert_eq!(rig.switch.vlans().collect::<Vec<_>>(), [10, 20]);
    assert_eq!(rig.switch.unclassified().received_packets, 2);
    rig.check();
}

#[test]
fn a_tunnel_carries_customers_tags_under_its_own() {
    let tunnel = PortSettings { vlan: VlanMode::Tunnel { vlan: 100 }, ..PortSettings::default() };
    let mut rig = rig([tunnel.clone(), trunk(None, &[100], SERVICE_TAG), tunnel]);
    let bytes = frame(0, 2, &[(CUSTOMER_TAG, 7)], 64);
    rig.send(A, &bytes);
    assert_eq!(rig.take(C, 9), std::slice::from_ref(&bytes));
    let carried = rig.take(B, 9).remove(0);
    assert_eq!(carried[12..20], [0x88, 0xa8, 0, 100, 0x81, 0, 0, 7]);
    rig.send(B, &carried);
    assert_eq!((rig.take(A, 9), rig.take(C, 9)), (vec![bytes.clone()], vec![bytes]));
    rig.check();
}

#[test]
fn isolated_ports_reach_others_and_not_each_other() {
    let isolated = PortSettings { isolated: true, ..PortSettings::default() };
    let mut rig = rig([isolated.clone(), isolated, PortSettings::default()]);
    rig.send(A, &frame(0, 2, &[], 60));
    assert_eq!(waiting(&mut rig), [0, 0, 1]);
    rig.send(C, &frame(0, 3, &[], 60));
    assert_eq!(waiting(&mut rig), [1, 1, 0]);
    rig.send(B, &frame(4, 5, &[], 60));
    assert_eq!((waiting(&mut rig), dropped(&rig, DropReason::Isolated)), (vec![0, 0, 0], 1));
    rig.check();
}

#[test]
fn floods_and_rates_are_limited() {
    let ten = Some(Rate { per_second: 10, burst: 2 });
    let storm = StormLimits { unknown: ten, broadcast: ten, multicast: None };
    let mut rig = rig([
        PortSettings { storm, ..PortSettings::default() },
        PortSettings { rate_bits: Some(Rate { per_second: 480, burst: 960 }), ..PortSettings::default() },
        PortSettings { rate_packets: Some(Rate::per_second(1000)), ..PortSettings::default() },
    ]);
    rig.now_ns = S;
    for kind in [0, 1, 50] {
        (0..5).for_each(|_| assert!(rig.append(&frame(kind, 2, &[], 60), 1)));
    }
    rig.forward(A);
    // Two unknown, two broadcast, five multicast.
    assert_eq!((rig.take(B, 99).len(), dropped(&rig, DropReason::StormLimit)), (9, 6));
    rig.take(C, 99);
    rig.now_ns += S;
    (0..5).for_each(|_| assert!(rig.append(&frame(4, 3, &[], 60), 1)));
    rig.forward(B);
    assert_eq!((rig.take(A, 99).len(), dropped(&rig, DropReason::RateLimit)), (2, 3));
    rig.now_ns += S;
    (0..3).for_each(|_| assert!(rig.append(&frame(4, 3, &[], 60), 1)));
    rig.forward(B);
    assert_eq!(rig.take(A, 99).len(), 1);
    (0..30).for_each(|_| assert!(rig.append(&frame(4, 9, &[], 60), 1)));
    rig.forward(C);
    assert_eq!(rig.take(A, 99).len(), 10);
    // Known stations are no storm.
    (0..5).for_each(|_| assert!(rig.append(&frame(5, 2, &[], 60), 1)));
    rig.forward(A);
    assert_eq!(rig.take(B, 99).len(), 5);
    rig.check();
}

#[test]
fn mirrors_copy_by_port_vlan_and_flow() {
    let mut rig = rig([PortSettings::default(), PortSettings::default(), PortSettings::monitor()]);
    let headers = |port| {
        Stack::new()
            .with(ethernet::Header { src: mac(4), dst: mac(5), ..Default::default() })
            .with(ipv4::Header { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into(), ..Default::default() })
            .with(udp::Header { src_port: port, dst_port: 53, ..Default::default() })
            .build(60)
            .unwrap()
            .bytes
    };
    let flow = FlowMatch { src_port: Some(53), both_directions: true, ..FlowMatch::default() };
    let by_flow = rig.switch.add_mirror(Mirror { select: MirrorSelect::Flow(flow), to: C }).unwrap();
    rig.send(A, &headers(1));
    assert_eq!((rig.take(B, 9), rig.take(C, 9)), (vec![headers(1)], vec![headers(1)]));
    rig.send(A, &frame(5, 2, &[], 60));
    assert_eq!(waiting(&mut rig), [0, 1, 0]);
    assert_eq!(rig.switch.mirrors().map(|(id, _, counts)| (id, counts.copied)).collect::<Vec<_>>(), [(by_flow, 1)]);
    assert!(rig.switch.remove_mirror(by_flow) && !rig.switch.remove_mirror(by_flow));
    rig.switch.add_mirror(Mirror { select: MirrorSelect::Egress(B), to: C }).unwrap();
    rig.switch.add_mirror(Mirror { select: MirrorSelect::Vlan(7), to: C }).unwrap();
    rig.send(A, &headers(1));
    rig.send(A, &frame(5, 2, &[(CUSTOMER_TAG, 7)], 60));
    // One because it leaves through B, two because it is in VLAN 7 as well.
    assert_eq!(waiting(&mut rig), [0, 2, 3]);
    let itself = Mirror { select: MirrorSelect::Both(C), to: C };
    assert_eq!(rig.switch.add_mirror(itself), Err(SettingsError::MirrorToItself { port: C }));
    // A mirror sees what is dropped, too, and a monitor's own packets go nowhere.
    rig.switch.add_mirror(Mirror { select: MirrorSelect::Ingress(A), to: C }).unwrap();
    rig.send(A, &[1, 2, 3]);
    assert_eq!(rig.take(C, 9), [vec![1, 2, 3]]);
    rig.send(C, &frame(0, 2, &[], 60));
    assert_eq!(dropped(&rig, DropReason::VlanNotAllowed), 1);
    rig.switch.remove_port(C, &mut rig.pool);
    assert_eq!(rig.switch.mirrors().count(), 0);
    rig.check();
    rig.close();
}

#[test]
fn long_packets_are_taken_as_a_whole_or_not_at_all() {
    let mut rig = Rig::new(64, 8);
    let short = PortSettings { frame_len_max: 1514, ..PortSettings::default() };
    for settings in [PortSettings::default(), PortSettings::default(), short] {
        rig.switch.add_port(settings).unwrap();
    }
    let jumbo = frame(0, 2, &[], 9000);
    assert!(rig.append(&jumbo, 6));
    rig.forward(A);
    assert_eq!(rig.take(B, 9), std::slice::from_ref(&jumbo));
    assert_eq!((rig.take(C, 9).len(), dropped(&rig, DropReason::TooLong)), (0, 1));
    // Six slots fit into a queue of eight once.
    for _ in 0..2 {
        assert!(rig.append(&jumbo, 6));
        rig.forward(A);
    }
    assert_eq!((rig.take(B, 9).len(), dropped(&rig, DropReason::EgressFull)), (1, 1));
    // A packet whose end is missing is one packet that is dropped.
    assert!(rig.append(&jumbo, 6));
    rig.arrived.set_more(5, true);
    rig.forward(A);
    assert_eq!((dropped(&rig, DropReason::Runt), rig.held()), (1, 0));
    rig.check();
    rig.close();
}

#[test]
fn no_frame_for_a_copy_is_counted_where_the_copy_is_missing() {
    let mut rig = Rig::new(3, 8);
    for _ in 0..4 {
        rig.switch.add_port(PortSettings::default()).unwrap();
    }
    rig.send(A, &frame(0, 2, &[], 60));
    // All frames wait now; the next packet's frame is one that a port gave back, so there is none for its copies.
    assert_eq!((rig.held(), dropped(&rig, DropReason::NoBuffer)), (3, 0));
    rig.take(B, 1);
    rig.send(A, &frame(0, 2, &[], 60));
    assert_eq!((rig.held(), dropped(&rig, DropReason::NoBuffer)), (3, 2));
    rig.check();
    rig.close();
}

#[test]
fn what_a_removed_port_had_is_counted_and_its_number_is_used_again() {
    let mut rig = plain(3);
    rig.send(A, &frame(0, 2, &[], 60));
    let last = rig.switch.remove_port(B, &mut rig.pool).unwrap();
    assert_eq!((last.queued_packets, last.discarded.of(DropReason::PortRemoved), last.waiting()), (1, 1, 0));
    assert!(rig.switch.remove_port(B, &mut rig.pool).is_none());
    rig.send(B, &frame(0, 2, &[], 60));
    assert_eq!(dropped(&rig, DropReason::PortRemoved), 2);
    rig.switch.remove_port(A, &mut rig.pool);
    assert_eq!(rig.switch.macs().count(), 0);
    assert_eq!(rig.switch.add_port(PortSettings::default()), Ok(A));
    assert_eq!(rig.switch.add_port(access(4095)), Err(SettingsError::Vlan { vlan: 4095 }));
    // What waits since before A was removed does not count as the new A's latency.
    rig.take(C, 9);
    assert_eq!(rig.switch.latency(A, C).map(|histogram| histogram.count()), Some(0));
    rig.check();
    rig.close();
}

#[test]
fn a_hop_takes_from_arrival_to_departure() {
    let mut rig = plain(3);
    rig.send(B, &frame(0, 3, &[], 60));
    waiting(&mut rig);
    for (packets, pause_ns) in [(3, 500), (1, 9_000)] {
        (0..packets).for_each(|_| assert!(rig.append(&frame(5, 2, &[], 60), 1)));
        rig.forward(A);
        rig.now_ns = rig.now_ns - 1_000 + pause_ns;
        rig.take(B, 99);
    }
    let latency = rig.switch.latency(A, B).unwrap();
    assert_eq!((latency.count(), latency.min_ns(), latency.max_ns()), (4, Some(500), Some(9_000)));
    assert_eq!(rig.switch.latency(B, A).unwrap().count(), 1);
    assert!(rig.switch.latency(A, PortIndex(9)).is_none());
}

#[test]
fn what_the_port_leaves_waits_and_the_bytes_add_up() {
    let mut rig = plain(2);
    for len in [60, 100, 200] {
        rig.send(A, &frame(0, 2, &[], len));
    }
    assert_eq!(rig.take(B, 2).len(), 2);
    let counters = *rig.switch.port_counters(B).unwrap();
    assert_eq!((counters.queued_bytes, counters.sent_packets, counters.sent_bytes), (360, 2, 160));
    assert_eq!((counters.waiting(), rig.switch.next_waiting(0), rig.switch.next_waiting(2)), (1, Some(B), None));
    assert_eq!(rig.switch.discard(B, DropReason::EgressFull, &mut rig.pool), 1);
    assert_eq!(rig.switch.port_counters(B).unwrap().discarded_bytes, 200);
    rig.check();
    rig.close();
}
