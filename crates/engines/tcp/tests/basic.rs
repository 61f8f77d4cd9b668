//! A connection begins, carries bytes both ways, and ends.

use super::common;

use common::{A6, B, B6, PORT, Pair, Told, address, config};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Context, Datapath};
use linerate_tcp::{CloseReason, ConnectOptions, ListenOptions, Origin, State};

#[test]
fn bytes_pass_both_ways_and_both_sides_close() {
    for remote in [B, B6] {
        let mut pair = Pair::new();
        pair.b.app_mut().closes = true;
        let (a, b) = pair.connected_by(remote, ListenOptions::default());
        assert_eq!(pair.send_a(a, b"hello"), 5);
        pair.settle();
        assert_eq!(pair.b.app().data[&b], b"hello");
        assert_eq!(pair.send_b(b, b"world!"), 6);
        pair.settle();
        assert_eq!(pair.a.app().data[&a], b"world!");
        pair.run(300);
        let (info_a, info_b) = (
            pair.a.with(pair.now_ns, |_, io| io.info(a)).unwrap(),
            pair.b.with(pair.now_ns, |_, io| io.info(b)).unwrap(),
        );
        assert_eq!((info_a.origin, info_b.origin), (Origin::Connected, Origin::Accepted));
        assert_eq!((info_a.local, info_a.remote), (info_b.remote, info_b.local));
        assert!(info_a.timestamps && info_a.sack && info_a.mss == if remote == B { 1460 } else { 1440 });
        assert_eq!((info_a.state, info_a.in_flight, info_b.in_flight), (State::Established, 0, 0));
        pair.a.with(pair.now_ns, |_, io| io.close(a));
        pair.settle();
        assert_eq!(pair.b.app().told, [Told::Connected(b), Told::PeerClosed(b), Told::Closed(b, CloseReason::Normal)]);
        assert_eq!(pair.a.app().told, [Told::Connected(a), Told::PeerClosed(a), Told::Closed(a, CloseReason::Normal)]);
        assert_eq!(pair.a.with(pair.now_ns, |_, io| io.time_waits()), 1);
        pair.run(61_000);
        assert_eq!(pair.a.with(pair.now_ns, |_, io| io.time_waits()), 0);
        pair.assert_clean();
    }
}

/// Frames of the stack's pool are used again by the stack; a port with a pool of its own gets its frames back.
#[test]
fn frames_go_back_to_the_pool_that_they_are_of() {
    let mut pair = Pair::new();
    let conn = pair.connect(address(B, 81));
    let mut foreign = Pool::new(PoolConfig { frames: 64, frame_size: 2048 }).unwrap();
    for count in [1, 2, 30] {
        let mut batch = Batch::new(&foreign, 64);
        assert_eq!(foreign.alloc(&mut batch, count, 60), count);
        let (now_ns, ports) = (pair.now_ns, &mut ());
        pair.b.input(PORT, &mut batch, &mut Context { now_ns, pool: &mut foreign, ports });
        assert!(batch.is_empty());
        foreign.flush();
        assert!(foreign.is_whole());
    }
    pair.settle();
    assert_eq!(pair.a.app().told, [Told::Closed(conn, CloseReason::Refused)]);
    pair.assert_clean();
}

#[test]
fn a_connection_that_nobody_listens_for_is_refused() {
    let mut pair = Pair::new();
    let conn = pair.connect(address(B, 81));
    pair.settle();
    assert_eq!(pair.a.app().told, [Told::Closed(conn, CloseReason::Refused)]);
    assert_eq!((pair.counters_a().attempt_fails, pair.counters_b().out_rsts), (1, 1));
    pair.assert_clean();
}

#[test]
fn a_lot_of_bytes_arrive_in_order_in_both_directions_at_once() {
    let mut pair = Pair::new();
    let (a, b) = pair.connected(ListenOptions::default());
    let bytes: Vec<u8> = (0..1_000_000u32).map(|at| ((at * 7) >> 3) as u8).collect();
    let (mut from_a, mut from_b) = (0, 0);
    while from_a < bytes.len() || from_b < bytes.len() {
        from_a += pair.send_a(a, &bytes[from_a..]);
        from_b += pair.send_b(b, &bytes[from_b..]);
        pair.run(1);
    }
    pair.run(1000);
    assert!(pair.a.app().data[&a] == bytes && pair.b.app().data[&b] == bytes);
    assert_eq!((pair.counters_a().retrans_segs, pair.counters_b().retrans_segs), (0, 0));
    pair.a.with(pair.now_ns, |_, io| io.abort(a));
    pair.settle();
    assert_eq!((pair.a.app().closed(), pair.b.app().closed()), (vec![CloseReason::Aborted], vec![CloseReason::Reset]));
    pair.assert_clean();
}

#[test]
fn lost_frames_are_sent_again() {
    let mut pair = Pair::new();
    let (a, b) = pair.connected(ListenOptions::default());
    let mut number = 0u32;
    pair.filter = Some(Box::new(move |_, _| {
        number += 1;
        number.wrapping_mul(2_654_435_761) >> 28 != 0
    }));
    let bytes: Vec<u8> = (0..300_000u32).map(|at| ((at * 11) >> 2) as u8).collect();
    let mut sent = 0;
    for _ in 0..200_000 {
        sent += pair.send_a(a, &bytes[sent..]);
        pair.run(5);
        if pair.b.app().data.get(&b).is_some_and(|data| data.len() == bytes.len()) {
            break;
        }
    }
    assert!(pair.b.app().data[&b] == bytes);
    let (counters_a, counters_b) = (pair.counters_a(), pair.counters_b());
    assert!(counters_a.retrans_segs > 5 && counters_b.ofo_queue > 5, "{counters_a:?} {counters_b:?}");
    pair.filter = None;
    pair.run(10_000);
    pair.b.app_mut().closes = true;
    pair.a.with(pair.now_ns, |_, io| io.close(a));
    pair.run(70_000);
    pair.assert_clean();
}

#[test]
fn both_sides_connect_to_each_other_at_the_same_time() {
    let mut pair = Pair::new();
    let (to_b, to_a) = (address(B, 5000), address(common::A, 5000));
    let options = |remote| ConnectOptions { local_port: 5000, ..ConnectOptions::new(remote) };
    // Both know each other's link address before.
    let warm = pair.connect(address(B, 9));
    pair.run(10);
    let a = pair.a.with(pair.now_ns, |_, io| io.connect(options(to_b))).unwrap();
    let b = pair.b.with(pair.now_ns, |_, io| io.connect(options(to_a))).unwrap();
    pair.run(10);
    assert_eq!(pair.a.app().told, [Told::Closed(warm, CloseReason::Refused), Told::Connected(a)]);
    assert_eq!(pair.b.app().told, [Told::Connected(b)]);
    pair.send_a(a, b"one");
    pair.send_b(b, b"two");
    pair.run(1000);
    assert_eq!((&pair.a.app().data[&a], &pair.b.app().data[&b]), (&b"two".to_vec(), &b"one".to_vec()));
    // And both close at the same time.
    pair.a.with(pair.now_ns, |_, io| io.close(a));
    pair.b.with(pair.now_ns, |_, io| io.close(b));
    pair.run(1000);
    assert_eq!(pair.b.app().closed(), [CloseReason::Normal]);
    assert_eq!(pair.a.with(pair.now_ns, |_, io| io.time_waits()), 1);
    assert_eq!(pair.b.with(pair.now_ns, |_, io| io.time_waits()), 1);
    pair.assert_clean();
}

#[test]
fn a_half_closed_connection_still_carries_bytes_the_other_way() {
    let mut pair = Pair::new();
    let (a, b) = pair.connected(ListenOptions::default());
    pair.a.with(pair.now_ns, |_, io| io.close(a));
    pair.run(100);
    assert_eq!(pair.send_a(a, b"too late"), 0);
    assert_eq!(pair.b.app().told, [Told::Connected(b), Told::PeerClosed(b)]);
    for _ in 0..10 {
        pair.send_b(b, &[7; 5000]);
        pair.run(100);
    }
    assert_eq!(pair.a.app().data[&a].len(), 50_000);
    pair.b.with(pair.now_ns, |_, io| io.close(b));
    pair.run(100);
    assert_eq!((pair.a.app().closed(), pair.b.app().closed()), (vec![CloseReason::Normal], vec![CloseReason::Normal]));
    pair.assert_clean();
}

/// Whoever acknowledges what was sent can be reached (RFC 4861 section 7.3.1): it is not asked for its address again.
#[test]
fn a_neighbour_that_makes_progress_is_not_probed() {
    for (remote, echoes) in [(B, true), (B, false), (B6, true)] {
        let mut pair = Pair::new();
        pair.b.app_mut().echoes = echoes;
        let (a, _) = pair.connected_by(remote, ListenOptions { nodelay: true, ..ListenOptions::default() });
        pair.run(5_000);
        // ARP, or a neighbour solicitation.
        let is_question = |frame: &[u8]| {
            frame[12..14] == [8, 6] || frame[12..14] == [0x86, 0xdd] && (frame[20], frame[54]) == (58, 135)
        };
        pair.frames.clear();
        for _ in 0..300 {
            assert_eq!(pair.send_a(a, b"x"), 1);
            pair.run(1_000);
        }
        let questions = pair.frames.iter().filter(|(_, frame)| is_question(frame)).count();
        assert_eq!(questions, 0, "{remote}, echoes: {echoes}");
    }
}

/// The link header of the hop that was used last is kept between segments, but not longer than it is right.
#[test]
fn segments_go_to_the_link_address_that_a_neighbour_has_now() {
    let mut pair = Pair::new();
    let (a, _) = pair.connected(ListenOptions::default());
    pair.a.with(pair.now_ns, |_, io| io.set_nodelay(a, true));
    let to = |pair: &Pair| pair.frames.iter().rev().find(|(to_b, _)| *to_b).map(|(_, frame)| frame[..6].to_vec());
    for mac in [2, 9, 7] {
        if mac != 2 {
            // An ARP request of the neighbour, from which its address is learned.
            let ends = [2, 0, 0, 0, 0, mac, 198, 18, 0, 2, 0, 0, 0, 0, 0, 0, 198, 18, 0, 1];
            let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, mac, 8, 6], &[0, 1, 8, 0, 6, 4, 0, 1], &ends].concat();
            pair.inject(false, &arp);
            pair.settle();
        }
        for _ in 0..3 {
            pair.frames.clear();
            assert_eq!(pair.send_a(a, b"x"), 1);
            pair.pass(true);
            assert_eq!(to(&pair), Some(vec![2, 0, 0, 0, 0, mac]));
        }
    }
}

/// The connection of the last segment that came alone is looked at first, and segments that come after its end are answered as any others are.
#[test]
fn a_segment_that_comes_alone_after_the_end_of_its_connection_is_reset() {
    let mut pair = Pair::new();
    pair.b.app_mut().echoes = true;
    let (a, b) = pair.connected(ListenOptions { nodelay: true, ..ListenOptions::default() });
    for _ in 0..3 {
        assert_eq!(pair.send_a(a, b"x"), 1);
        pair.settle();
    }
    // The reset is lost.
    pair.filter = Some(Box::new(|to_b, _| !to_b));
    pair.a.with(pair.now_ns, |_, io| io.abort(a));
    pair.settle();
    pair.filter = None;
    assert_eq!((pair.a.app().closed(), pair.b.app().closed()), (vec![CloseReason::Aborted], vec![]));
    assert_eq!(pair.send_b(b, b"y"), 1);
    pair.settle();
    assert_eq!(pair.b.app().closed(), [CloseReason::Reset]);
    assert_eq!(pair.counters_a().out_rsts, 2);
    pair.assert_clean();
}

/// Packets of several frames are longer than what a stack takes: they count as damaged, and no frame of theirs is taken for a segment.
#[test]
fn packets_of_several_frames_are_counted_and_harm_nobody() {
    let mut pair = Pair::new();
    let (a, b) = pair.connected(ListenOptions::default());
    pair.a.with(pair.now_ns, |_, io| io.set_nodelay(a, true));
    assert_eq!(pair.send_a(a, b"x"), 1);
    pair.filter = Some(Box::new(|_, _| false));
    pair.settle();
    pair.filter = None;
    // Segments with one more byte each, which the peer would take.
    assert_eq!(pair.send_a(a, b"y"), 1);
    let mut batch = Batch::new(&pair.pool, 64);
    let (now_ns, pool) = (pair.now_ns, &mut pair.pool);
    let output = pair.a.output(PORT).unwrap();
    assert_eq!(output.move_to(&mut batch, 64), 1);
    let frame = batch.packet(0).to_vec();
    assert_eq!(pool.alloc(&mut batch, 3, frame.len()), 3);
    for at in 1..4 {
        batch.packet_mut(at).copy_from_slice(&frame);
    }
    batch.set_more(1, true);
    assert!(batch.has_frags());
    pair.b.input(PORT, &mut batch, &mut Context { now_ns, pool, ports: &mut () });
    // Two whole segments, and one packet of two frames.
    assert_eq!((pair.counters_b().in_errs, pair.b.app().data.get(&b)), (1, None));
    pair.run(5_000);
    assert_eq!(pair.b.app().data[&b], b"xy");
}

#[test]
fn a_full_stack_refuses_and_harms_nobody() {
    let mut pair = Pair::with(StackConfigOf::connections(4), config(2));
    let remote = address(B, 80);
    pair.b.with(pair.now_ns, |_, io| io.listen(remote, ListenOptions::default())).unwrap();
    let conns: Vec<_> = (0..4).map(|_| pair.connect(remote)).collect();
    let more = pair.a.with(pair.now_ns, |_, io| io.connect(ConnectOptions::new(remote)));
    assert_eq!(more, Err(linerate_tcp::ConnectError::Full));
    pair.run(2500);
    assert_eq!(pair.a.app().connections().len(), 4);
    for conn in conns {
        pair.send_a(conn, b"x");
    }
    pair.run(100);
    assert_eq!(pair.b.app().bytes().len(), 4);
    let _ = A6;
}

struct StackConfigOf;

impl StackConfigOf {
    fn connections(connections_max: usize) -> linerate_tcp::StackConfig {
        linerate_tcp::StackConfig { connections_max, ..config(1) }
    }
}
