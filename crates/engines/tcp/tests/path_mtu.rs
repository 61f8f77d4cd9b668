//! Paths that lose long packets without a word: the stack finds out how long they may be (RFC 8899, RFC 4821).

use super::common;

use common::{B, B6, Pair, config};
use linerate_tcp::{Conn, ListenOptions};

/// Two stacks; packets of more than `mtu` bytes are lost between them.
fn narrow(mtu: usize) -> Pair {
    let mut sender = config(1);
    // A transfer takes many round trips, in each of which there may be a probe.
    sender.send.buffer_max = 64 << 10;
    let mut pair = Pair::with(sender, config(2));
    pair.filter = Some(Box::new(move |_, frame| frame.len() <= 14 + mtu));
    pair
}

/// Sends `count` bytes, and waits until all have arrived.
fn transfer(pair: &mut Pair, (a, b): (Conn, Conn), count: usize, most_ms: u64) {
    let before = pair.b.app().data.get(&b).map_or(0, Vec::len);
    let bytes: Vec<u8> = (0..count as u32).map(|at| ((at * 31) >> 3) as u8).collect();
    let (mut sent, mut ms) = (0, 0);
    while pair.b.app().data.get(&b).map_or(0, Vec::len) < before + count {
        sent += pair.send_a(a, &bytes[sent..]);
        pair.run(5);
        ms += 5;
        assert!(ms < most_ms, "{} of {count} bytes arrived", pair.b.app().data.get(&b).map_or(0, Vec::len) - before);
    }
    assert!(pair.b.app().data[&b][before..] == bytes);
}

fn mss(pair: &mut Pair, conn: Conn) -> usize {
    pair.a.with(pair.now_ns, |_, io| io.info(conn)).unwrap().mss.into()
}

#[test]
fn a_black_hole_is_found_and_the_longest_segments_that_pass_are() {
    for (remote, header) in [(B, 40), (B6, 60)] {
        for real in [1280, 1281, 1333, 1400, 1492, 1499] {
            let mut pair = narrow(real);
            let conns = pair.connected_by(remote, ListenOptions::default());
            transfer(&mut pair, conns, 2_000_000, 60_000);
            let counters = pair.counters_a();
            assert_eq!(counters.mtu_black_holes, 1, "{remote} {real}");
            let found = mss(&mut pair, conns.0) + header;
            assert!(found <= real && found + 16 > real, "{found} of {real} over {remote}");
            assert!(counters.mtu_probes_arrived + counters.mtu_probes_lost > 0);
        }
    }
}

#[test]
fn a_probe_that_is_lost_is_no_congestion() {
    let mut pair = narrow(1300);
    let conns = pair.connected_by(B, ListenOptions::default());
    transfer(&mut pair, conns, 2_000_000, 60_000);
    let counters = pair.counters_a();
    let send = pair.a.with(pair.now_ns, |_, io| io.send_counters());
    assert!(counters.mtu_probes_lost >= 6, "{counters:?}");
    // The time-outs by which the black hole was found are all.
    assert_eq!((send.recoveries, counters.mtu_black_holes), (0, 1), "{send:?}");
    assert!(send.timeouts <= 3, "{send:?}");
}

#[test]
fn a_path_that_takes_longer_packets_again_is_found_after_ten_minutes() {
    let mut pair = narrow(1300);
    let conns = pair.connected_by(B, ListenOptions::default());
    transfer(&mut pair, conns, 1_000_000, 60_000);
    assert!(mss(&mut pair, conns.0) < 1300 - 40 + 1);
    pair.filter = None;
    for _ in 0..11 {
        pair.run(60_000);
    }
    transfer(&mut pair, conns, 1_000_000, 60_000);
    assert_eq!(mss(&mut pair, conns.0), 1460);
}

#[test]
fn connections_that_begin_on_a_short_path_find_a_longer_one_as_well() {
    for remote in [B, B6] {
        let mut pair = narrow(1300);
        let first = pair.connected_by(remote, ListenOptions::default());
        transfer(&mut pair, first, 1_000_000, 60_000);
        pair.filter = None;
        let header = if remote == B { 40 } else { 60 };
        let options = linerate_tcp::ConnectOptions::new(common::address(remote, 80));
        let later = pair.a.with(pair.now_ns, |_, io| io.connect(options)).unwrap();
        pair.run(1_000);
        assert!(mss(&mut pair, later) + header <= 1300);
        let accepted = pair.b.app().connections().into_iter().find(|conn| *conn != first.1).unwrap();
        for _ in 0..11 {
            pair.run(60_000);
        }
        transfer(&mut pair, (later, accepted), 1_000_000, 60_000);
        assert_eq!(mss(&mut pair, later) + header, 1500, "{remote}");
    }
}

#[test]
fn a_peer_that_is_gone_for_a_while_costs_no_more_than_short_segments_for_a_while() {
    let mut pair = Pair::new();
    let conns = pair.connected_by(B, ListenOptions::default());
    transfer(&mut pair, conns, 100_000, 10_000);
    pair.filter = Some(Box::new(|_, _| false));
    pair.send_a(conns.0, &[0; 20_000]);
    pair.run(3_000);
    pair.filter = None;
    pair.run(5_000);
    assert_eq!((pair.counters_a().mtu_black_holes, mss(&mut pair, conns.0)), (1, 1160));
    transfer(&mut pair, conns, 1_000_000, 60_000);
    assert!(mss(&mut pair, conns.0) > 1440);
}

#[test]
fn bytes_arrive_whatever_else_is_lost() {
    for seed in 1..6_u64 {
        let mut pair = narrow(1333);
        let mut state = seed << 32 | 1;
        pair.filter = Some(Box::new(move |_, frame| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            frame.len() <= 14 + 1333 && state % 50 != 0
        }));
        let conns = pair.connected_by(B, ListenOptions::default());
        transfer(&mut pair, conns, 3_000_000, 600_000);
        assert!(mss(&mut pair, conns.0) <= 1333 - 40);
    }
}
