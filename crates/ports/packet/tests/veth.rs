//! What is special about AF_PACKET, over a veth pair: tags, timestamps, a ring that overflows, interfaces that change.

mod common;

use common::{Wire, append, packet, pool, receive, receive_exactly, send, tagged};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, Port, PortError, Readiness};
use linerate_sys::clock;

#[test]
fn tags_of_both_kinds_arrive_where_they_were() {
    ["", ",prompt"].into_iter().for_each(tags_arrive_where_they_were);
}

fn tags_arrive_where_they_were(receiving: &str) {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(512);
    let (mut out, mut back) = (wire.left.open(",tx_only", &pool), wire.right.open(receiving, &pool));
    let packets = [
        packet(0, 60),
        tagged(1, 64, [0x81, 0x00, 0xe0, 0x07]),
        tagged(2, 64, [0x88, 0xa8, 0x0f, 0xff]),
        // Two tags; the kernel takes out only the first.
        {
            let mut double = tagged(3, 64, [0x81, 0x00, 0x00, 0x02]);
            double.splice(12..12, [0x88, 0xa8, 0x00, 0x01]);
            double
        },
        // As long as the MTU and a tag allow.
        tagged(4, 1518, [0x81, 0x00, 0x00, 0x01]),
    ];
    for bytes in &packets {
        assert!(send(&mut out, &mut pool, bytes).unwrap());
    }
    assert_eq!(receive(&mut back, &mut pool, packets.len()), packets);
    // An outer 802.1ad tag gets no room of its own from the kernel, and so not from the port.
    let error = send(&mut out, &mut pool, &tagged(5, 1518, [0x88, 0xa8, 0x00, 0x01])).unwrap_err();
    assert!(matches!(error, PortError::FrameTooLong { len: 1518, max: 1514, .. }), "{error}");
    let error = send(&mut out, &mut pool, &tagged(6, 1519, [0x81, 0x00, 0x00, 0x01])).unwrap_err();
    assert!(matches!(error, PortError::FrameTooLong { len: 1519, max: 1518, .. }), "{error}");
}

#[test]
fn timestamps_are_of_the_monotonic_clock() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(512);
    let (mut out, mut back) = (wire.left.open("", &pool), wire.right.open("", &pool));
    let before = clock::now_ns();
    for number in 0..10 {
        assert!(send(&mut out, &mut pool, &packet(number, 60)).unwrap());
    }
    let mut batch = Batch::with_times(&pool, 64);
    while batch.len() < 10 {
        back.wait(Interest::Receive, 1_000_000_000).unwrap();
        back.receive(&mut batch).unwrap();
    }
    let after = clock::now_ns();
    let timestamps: Vec<u64> = (0..10).map(|index| batch.time_ns(index).unwrap()).collect();
    // The two clocks are read one after the other, so the turned timestamps may be off by that.
    const SLACK_NS: u64 = 5_000_000;
    assert!(timestamps.is_sorted(), "{timestamps:?}");
    assert!(before - SLACK_NS <= timestamps[0] && timestamps[9] <= after + SLACK_NS, "{before} {timestamps:?} {after}");
    pool.free(&mut batch);
}

#[test]
fn a_full_ring_loses_and_says_how_many() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(4096);
    let mut out = wire.left.open(",tx_only", &pool);
    let mut back = wire.right.open(",ring=65536", &pool);
    let mut batch = Batch::new(&pool, 64);
    for round in 0..40 {
        for number in 0..64 {
            append(&mut batch, &mut pool, &packet(round * 64 + number, 60));
        }
        while !batch.is_empty() {
            out.transmit(&mut batch).unwrap();
        }
    }
    let sent = out.stats().unwrap().tx_packets;
    assert_eq!(sent, 40 * 64);
    assert!(back.rx_occupancy().is_some_and(|(level, all)| level > all / 2) && out.rx_occupancy().is_none());
    let first = receive_exactly(&mut back, &mut pool, 100);
    assert!(first == (0..100).map(|number| packet(number, 60)).collect::<Vec<_>>());
    let lost = back.stats().unwrap().rx_dropped();
    assert!(lost > 0 && back.freezes() > 0);
    let rest = receive(&mut back, &mut pool, (sent - lost) as usize - 100);
    let stats = back.stats().unwrap();
    assert_eq!(stats.rx_packets, 100 + rest.len() as u64);
    assert_eq!(stats.rx_packets + stats.rx_dropped(), sent);
    assert_eq!(stats.rx_drops[0].place, "AF_PACKET ring of veth0");
    assert_eq!(stats.rx_drops[0].cause, "ring full");
    // The ring works on.
    assert!(send(&mut out, &mut pool, &packet(7777, 60)).unwrap());
    assert_eq!(receive(&mut back, &mut pool, 1), [packet(7777, 60)]);
}

#[test]
fn an_empty_pool_leaves_packets_in_the_ring() {
    let Some(wire) = Wire::new(1) else { return };
    let (mut sending, mut small) = (pool(512), pool(10));
    let (mut out, mut back) = (wire.left.open("", &sending), wire.right.open("", &small));
    let packets: Vec<Vec<u8>> = (0..25).map(|number| packet(number, 100)).collect();
    for bytes in &packets {
        assert!(send(&mut out, &mut sending, bytes).unwrap());
    }
    let mut batch = Batch::new(&small, 64);
    let mut arrived = vec![];
    while arrived.len() < 25 {
        assert_eq!(back.wait(Interest::Receive, 10_000_000_000).unwrap(), Readiness::Ready);
        back.receive(&mut batch).unwrap();
        assert!(batch.len() <= 10);
        arrived.extend(batch.iter().map(<[u8]>::to_vec));
        small.free(&mut batch);
        // Each handle keeps some free frames at hand, and there are only ten.
        small.flush();
    }
    assert_eq!(arrived, packets);
    assert_eq!(back.stats().unwrap().rx_dropped(), 0);
    drop((out, back, batch));
    assert!(small.is_whole() && sending.is_whole());
}

#[test]
fn jumbo_frames_span_slots_and_what_no_batch_holds_is_counted() {
    let Some(wire) = Wire::new(1) else { return };
    wire.set_mtu(9000);
    let mut pool = pool(512);
    let (mut out, mut back) = (wire.left.open("", &pool), wire.right.open("", &pool));
    assert_eq!(out.caps().frame_len_max, 9014);
    let packets = [packet(1, 9014), packet(2, 60), tagged(3, 9018, [0x81, 0, 0, 5]), packet(4, 1601)];
    for bytes in &packets {
        assert!(send(&mut out, &mut pool, bytes).unwrap());
    }
    assert_eq!(receive(&mut back, &mut pool, 4), packets);
    // A batch of four slots never holds 9,014 bytes; the packets around it come through.
    for bytes in [packet(5, 60), packet(6, 9014), packet(7, 6000)] {
        assert!(send(&mut out, &mut pool, &bytes).unwrap());
    }
    let mut batch = Batch::new(&pool, 4);
    let mut lens = vec![];
    while lens.len() < 2 {
        back.wait(Interest::Receive, 1_000_000_000).unwrap();
        if back.receive(&mut batch).unwrap() > 0 {
            lens.extend((batch.len() == 1).then_some(60).or(Some(batch.totals().bytes)));
            pool.free(&mut batch);
        }
    }
    assert_eq!(lens, [60, 6000]);
    assert_eq!(back.stats().unwrap().rx_drops[0].cause, "longer than the batch");
    drop((out, back, batch));
    assert!(pool.is_whole());
}

#[test]
fn the_mtu_may_change_during_a_run() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(512);
    let mut out = wire.left.open("", &pool);
    let long = packet(1, 1514);
    assert!(send(&mut out, &mut pool, &long).unwrap());
    wire.set_mtu(1000);
    let error = send(&mut out, &mut pool, &long).unwrap_err();
    assert!(matches!(error, PortError::FrameTooLong { len: 1514, max: 1014, .. }), "{error}");
    assert!(send(&mut out, &mut pool, &packet(2, 1014)).unwrap());
    wire.set_mtu(1500);
    assert!(send(&mut out, &mut pool, &long).unwrap());
    assert_eq!(out.stats().unwrap().tx_packets, 3);
}

#[test]
fn an_interface_that_is_down_or_gone_is_named_and_totals_stay() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(512);
    let (mut out, mut back) = (wire.left.open("", &pool), wire.right.open("", &pool));
    assert!(send(&mut out, &mut pool, &packet(1, 60)).unwrap());
    assert_eq!(receive(&mut back, &mut pool, 1).len(), 1);

    wire.left.device.set_up(false).unwrap();
    wire.right.device.set_up(false).unwrap();
    let error = send(&mut out, &mut pool, &packet(2, 60)).unwrap_err();
    assert!(matches!(error, PortError::Down { .. }), "{error}");
    assert!(error.to_string().contains("`ip link set veth0 up`"), "{error}");
    let error = back.wait(Interest::Receive, 10_000_000_000).unwrap_err();
    assert!(matches!(error, PortError::Down { .. }), "{error}");
    let mut batch = Batch::new(&pool, 8);
    assert!(matches!(back.receive(&mut batch), Err(PortError::Down { .. })));

    wire.left.device.set_up(true).unwrap();
    wire.right.device.set_up(true).unwrap();
    assert!(send(&mut out, &mut pool, &packet(3, 60)).unwrap());
    assert_eq!(receive(&mut back, &mut pool, 1), [packet(3, 60)]);

    linerate_sys::veth::delete(&wire.left.namespace, common::INTERFACE).unwrap();
    let error = send(&mut out, &mut pool, &packet(4, 60)).unwrap_err();
    assert!(matches!(error, PortError::Gone { .. }), "{error}");
    // A caller that never waits finds out as well.
    let error = (0..10_000).find_map(|_| back.receive(&mut batch).err()).unwrap();
    assert!(matches!(error, PortError::Gone { .. }), "{error}");
    assert_eq!((out.stats().unwrap().tx_packets, back.stats().unwrap().rx_packets), (2, 2));
}

#[test]
fn what_came_before_the_interface_went_is_still_received() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(512);
    let (mut out, mut back) = (wire.left.open("", &pool), wire.right.open(",retire=100", &pool));
    for number in 0..5 {
        assert!(send(&mut out, &mut pool, &packet(number, 60)).unwrap());
    }
    linerate_sys::veth::delete(&wire.left.namespace, common::INTERFACE).unwrap();
    assert_eq!(receive(&mut back, &mut pool, 5).len(), 5);
    let error = back.wait(Interest::Receive, 1_000_000_000).unwrap_err();
    assert!(matches!(error, PortError::Gone { .. }), "{error}");
}

#[test]
fn one_direction_only() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(512);
    let (mut out, mut back) = (wire.left.open(",tx_only", &pool), wire.right.open(",rx_only", &pool));
    assert!(!out.caps().receives && !back.caps().transmits);
    assert_eq!(out.wait(Interest::Receive, u64::MAX).unwrap(), Readiness::Closed);
    assert_eq!(out.receive(&mut Batch::new(&pool, 8)).unwrap(), 0);
    let error = send(&mut back, &mut pool, &packet(0, 60)).unwrap_err();
    assert!(matches!(error, PortError::Unsupported { .. }), "{error}");
    assert!(send(&mut out, &mut pool, &packet(1, 60)).unwrap());
    assert_eq!(receive(&mut back, &mut pool, 1).len(), 1);
}

#[test]
fn what_is_no_frame_is_taken_and_counted_as_lost() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(512);
    let (mut out, mut back) = (wire.left.open("", &pool), wire.right.open("", &pool));
    let mut batch = Batch::new(&pool, 8);
    for bytes in [packet(0, 60), packet(0, 13), packet(1, 14), packet(2, 0)] {
        append(&mut batch, &mut pool, &bytes);
    }
    // An empty packet has no part, so it was not appended; an empty slot is one all the same.
    pool.alloc(&mut batch, 1, 0);
    assert_eq!(out.transmit(&mut batch).unwrap(), 4);
    let stats = out.stats().unwrap();
    assert_eq!((stats.tx_packets, stats.tx_dropped()), (2, 2));
    assert_eq!(stats.tx_drops[0].cause, "shorter than an Ethernet header");
    assert_eq!(receive(&mut back, &mut pool, 2).len(), 2);
}

#[test]
fn the_qdisc_can_be_kept() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(512);
    let (mut out, mut back) = (wire.left.open(",qdisc", &pool), wire.right.open("", &pool));
    assert!(out.caps().detail.contains("through the qdisc"), "{}", out.caps().detail);
    assert!(send(&mut out, &mut pool, &packet(9, 60)).unwrap());
    assert_eq!(receive(&mut back, &mut pool, 1), [packet(9, 60)]);
}

#[test]
fn frames_of_another_size_do_as_well() {
    let Some(wire) = Wire::new(1) else { return };
    let config = PoolConfig { frames: 256, frame_size: 512 };
    let mut pool = Pool::new(config).unwrap();
    let (mut out, mut back) = (wire.left.open("", &pool), wire.right.open("", &pool));
    let bytes = tagged(1, 1518, [0x81, 0, 0, 1]);
    assert!(send(&mut out, &mut pool, &bytes).unwrap());
    assert_eq!(receive(&mut back, &mut pool, 1), [bytes]);
}

#[test]
fn an_interface_collects_packets_as_long_as_a_port_asks_for_it() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(512);
    let timeout = |wire: &Wire| {
        let path = "/sys/class/net/veth0/gro_flush_timeout";
        let read = wire.right.namespace.run_with_sysfs(|| std::fs::read_to_string(path).unwrap());
        read.unwrap().trim().to_string()
    };
    let (mut out, mut back) = (wire.left.open(",tx_only", &pool), wire.right.open(",prompt,defer=300", &pool));
    assert_eq!(timeout(&wire), "300000");
    assert!(back.caps().detail.contains("packets of 300 us at once"), "{}", back.caps().detail);
    let error = wire.right.try_open(",defer=200", &pool).map(drop).unwrap_err().to_string();
    assert!(error.contains("defer (leave it out"), "{error}");
    let packets: Vec<Vec<u8>> = (0..200).map(|number| packet(number, 60)).collect();
    for bytes in &packets {
        assert!(send(&mut out, &mut pool, bytes).unwrap());
    }
    assert_eq!(receive(&mut back, &mut pool, packets.len()), packets);
    drop(back);
    assert_eq!(timeout(&wire), "0");
}
