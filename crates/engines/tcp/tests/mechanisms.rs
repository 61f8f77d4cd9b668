//! One mechanism after the other, between two stacks.

use super::common;

use common::{A, B, Pair, Told, address, config};
use linerate_port::{Context, Datapath, PortIndex};
use linerate_tcp::{CloseReason, Conn, ConnectOptions, Keepalive, ListenOptions, StackConfig};
use linerate_wire::Sum;

/// Listens with the second stack, so that every handshake goes by a cookie.
const NO_BACKLOG: ListenOptions = ListenOptions { backlog: 0, nodelay: true, token: 7 };

/// Where the TCP header begins in a frame over IPv4.
const TCP: usize = 34;

/// A frame over IPv4 with a change and a checksum that is right.
fn changed(frame: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut frame = frame.to_vec();
    change(&mut frame);
    let len = frame.len() - TCP;
    frame[TCP + 16..TCP + 18].fill(0);
    let pseudo = Sum::new().add_slice(&frame[26..34]).add_u16(6).add_u16(len as u16);
    let checksum = pseudo.add_slice(&frame[TCP..]).finish();
    frame[TCP + 16..TCP + 18].copy_from_slice(&checksum.to_be_bytes());
    frame
}

fn word(frame: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(frame[TCP + at..TCP + at + 4].try_into().unwrap())
}

fn put(frame: &mut [u8], at: usize, word: u32) {
    frame[TCP + at..TCP + at + 4].copy_from_slice(&word.to_be_bytes());
}

/// TCP frames that passed in one direction.
fn tcp(pair: &Pair, to_b: bool) -> Vec<Vec<u8>> {
    let is_tcp =
        |(direction, frame): &&(bool, Vec<u8>)| *direction == to_b && frame[12..14] == [8, 0] && frame[23] == 6;
    pair.frames.iter().filter(is_tcp).map(|(_, frame)| frame.clone()).collect()
}

fn info(pair: &mut Pair, conn: Conn) -> linerate_tcp::Info {
    pair.b.with(pair.now_ns, |_, io| io.info(conn)).unwrap()
}

#[test]
fn a_cookie_makes_a_connection_with_all_options() {
    let mut pair = Pair::new();
    let (a, b) = pair.connected(NO_BACKLOG);
    let counters = pair.counters_b();
    assert_eq!((counters.syncookies_sent, counters.syncookies_recv, counters.passive_opens), (1, 1, 1));
    let known = info(&mut pair, b);
    assert!(known.timestamps && known.sack && known.mss == 1460 && known.token == 7);
    assert_eq!(known.scales, (7, 7));
    let bytes = vec![3; 200_000];
    let mut sent = 0;
    while sent < bytes.len() {
        sent += pair.send_a(a, &bytes[sent..]);
        pair.run(20);
    }
    pair.run(500);
    assert_eq!(pair.b.app().data[&b], bytes);
    assert_eq!((pair.counters_a().retrans_segs, pair.counters_b().out_rsts), (0, 0));
}

#[test]
fn an_acknowledgment_that_is_no_cookie_is_reset() {
    let mut pair = Pair::new();
    let (a, _) = pair.connected(NO_BACKLOG);
    pair.send_a(a, b"x");
    pair.settle();
    let data = tcp(&pair, true).pop().unwrap();
    // Another port of the client, whose cookie this is not.
    let forged = changed(&data, |frame| frame[TCP] ^= 1);
    pair.inject(true, &forged);
    assert_eq!((pair.counters_b().syncookies_failed, pair.counters_b().out_rsts), (1, 1));
}

#[test]
fn a_reset_counts_only_with_the_very_number_and_others_are_challenged() {
    let mut pair = Pair::new();
    let (a, b) = pair.connected(ListenOptions::default());
    pair.send_a(a, b"x");
    pair.settle();
    let data = tcp(&pair, true).pop().unwrap();
    let next = word(&data, 4).wrapping_add(1);
    let reset = |seq: u32| {
        changed(&data[..data.len() - 1], |frame| {
            let len = (frame.len() - 14) as u16;
            frame[16..18].copy_from_slice(&len.to_be_bytes());
            frame[24..26].fill(0);
            let checksum = Sum::new().add_slice(&frame[14..34]).finish();
            frame[24..26].copy_from_slice(&checksum.to_be_bytes());
            frame[TCP + 13] = 0x04;
            put(frame, 4, seq);
        })
    };
    pair.inject(true, &reset(next.wrapping_add(100)));
    assert_eq!(pair.counters_b().challenge_acks, 1);
    // A second one within half a second is not answered.
    pair.inject(true, &reset(next.wrapping_add(200)));
    pair.inject(true, &reset(next.wrapping_sub(1)));
    pair.settle();
    assert_eq!((pair.counters_b().challenge_acks, pair.b.app().closed().len()), (1, 0));
    pair.run(600);
    pair.inject(true, &reset(next.wrapping_add(1)));
    assert_eq!(pair.counters_b().challenge_acks, 2);
    pair.inject(true, &reset(next));
    assert_eq!(pair.b.app().told, [Told::Connected(b), Told::Closed(b, CloseReason::Reset)]);
}

#[test]
fn a_syn_in_a_connection_is_challenged() {
    let mut pair = Pair::new();
    let (a, b) = pair.connected(ListenOptions::default());
    let syn = tcp(&pair, true).remove(0);
    assert_eq!(syn[TCP + 13], 2);
    pair.run(10);
    pair.inject(true, &syn);
    assert_eq!(pair.counters_b().challenge_acks, 1);
    pair.send_a(a, b"still here");
    pair.settle();
    assert_eq!(pair.b.app().data[&b], b"still here");
}

#[test]
fn old_timestamps_and_bad_checksums_are_refused() {
    let mut pair = Pair::new();
    let (a, b) = pair.connected(ListenOptions::default());
    pair.run(100);
    pair.send_a(a, b"x");
    pair.settle();
    let data = tcp(&pair, true).pop().unwrap();
    let (next, stamp) = (word(&data, 4).wrapping_add(1), word(&data, 24));
    let with = |stamp: u32| {
        changed(&data, |frame| {
            put(frame, 4, next);
            put(frame, 24, stamp);
        })
    };
    pair.inject(true, &with(stamp.wrapping_sub(1)));
    assert_eq!((pair.counters_b().paws_rejected, &pair.b.app().data[&b][..]), (1, &b"x"[..]));
    let mut damaged = with(stamp);
    *damaged.last_mut().unwrap() ^= 1;
    pair.inject(true, &damaged);
    assert_eq!((pair.counters_b().in_errs, &pair.b.app().data[&b][..]), (1, &b"x"[..]));
    pair.inject(true, &with(stamp));
    assert_eq!(pair.b.app().data[&b], b"xx");
}

#[test]
fn a_program_that_takes_nothing_closes_the_window_and_loses_nothing() {
    let mut small = config(2);
    (small.receive_window_max, small.receive_budget_bytes) = (20_000, 1 << 20);
    let mut pair = Pair::with(config(1), small);
    let (a, b) = pair.connected(ListenOptions::default());
    pair.b.app_mut().takes = Some(0);
    let bytes: Vec<u8> = (0..100_000u32).map(|at| ((at * 13) >> 4) as u8).collect();
    assert_eq!(pair.send_a(a, &bytes), bytes.len());
    pair.run(5_000);
    let known = info(&mut pair, b);
    assert!(pair.b.app().data.get(&b).is_none_or(Vec::is_empty));
    assert!((18_000..=20_000).contains(&known.receive_queued) && known.receive_window < 1460, "{known:?}");
    pair.b.app_mut().takes = Some(700);
    for _ in 0..1_000 {
        pair.b.with(pair.now_ns, |_, io| io.resume(b));
        pair.run(20);
    }
    assert!(pair.b.app().data[&b] == bytes);
    // The end comes behind the bytes.
    pair.b.app_mut().takes = Some(0);
    pair.send_a(a, b"last");
    pair.a.with(pair.now_ns, |_, io| io.close(a));
    pair.run(1_000);
    assert!(!pair.b.app().told.contains(&Told::PeerClosed(b)));
    pair.b.app_mut().takes = None;
    pair.b.with(pair.now_ns, |_, io| io.resume(b));
    pair.run(100);
    assert!(pair.b.app().data[&b].ends_with(b"last") && pair.b.app().told.contains(&Told::PeerClosed(b)));
}

#[test]
fn a_program_is_told_of_the_room_that_sending_makes_before_anything_is_acknowledged() {
    let mut sender = config(1);
    sender.send.unsent_max = 10_000;
    let mut pair = Pair::with(sender, config(2));
    let (a, b) = pair.connected(ListenOptions::default());
    // Six whole segments of 1,448 bytes may wait.
    pair.a.app_mut().told.clear();
    assert_eq!(pair.send_a(a, &[1; 30_000]), 8_688);
    // All of it has left, and no acknowledgment has come.
    let in_flight = pair.a.with(pair.now_ns, |_, io| io.info(a)).unwrap().in_flight;
    assert_eq!((in_flight, &pair.a.app().told[..]), (8_688, &[Told::Sendable(a)][..]));
    assert_eq!(pair.send_a(a, &[1; 30_000]), 8_688);
    pair.run(1_000);
    assert_eq!(pair.b.app().data[&b].len(), 17_376);
}

#[test]
fn every_second_full_segment_is_acknowledged_and_a_single_one_later() {
    let mut pair = Pair::new();
    let (a, _) = pair.connected(ListenOptions::default());
    pair.run(500);
    let before = pair.counters_b().pure_acks_out;
    pair.send_a(a, b"x");
    pair.settle();
    assert_eq!(pair.counters_b().pure_acks_out, before);
    pair.run(39);
    assert_eq!(pair.counters_b().pure_acks_out, before);
    pair.run(2);
    assert_eq!((pair.counters_b().pure_acks_out, pair.counters_b().delayed_acks), (before + 1, 1));
    // Ten full segments in one batch: one acknowledgment at once.
    pair.send_a(a, &[1; 14_480]);
    pair.settle();
    assert_eq!(pair.counters_b().pure_acks_out, before + 2);
}

#[test]
fn what_came_twice_is_reported() {
    let mut pair = Pair::new();
    let (a, b) = pair.connected(ListenOptions::default());
    pair.run(500);
    pair.send_a(a, b"twice");
    pair.settle();
    let data = tcp(&pair, true).pop().unwrap();
    pair.run(100);
    pair.frames.clear();
    pair.inject(true, &data);
    pair.settle();
    let answer = tcp(&pair, false).pop().unwrap();
    // NOP, NOP, SACK with one block behind the timestamps: the duplicate.
    let start = word(&data, 4);
    assert_eq!((word(&answer, 32), word(&answer, 36), word(&answer, 40)), (0x0101_050a, start, start + 5));
    assert_eq!((pair.counters_b().dsack_sent, &pair.b.app().data[&b][..]), (1, &b"twice"[..]));
}

#[test]
fn a_silent_peer_is_probed_and_a_dead_one_given_up() {
    let mut pair = Pair::new();
    let (a, b) = pair.connected(ListenOptions::default());
    let keepalive = Keepalive { idle_ms: 10_000, interval_ms: 1_000, probes: 3 };
    pair.b.with(pair.now_ns, |_, io| io.set_keepalive(b, Some(keepalive)));
    pair.run(60_000);
    let probes = pair.counters_b().keepalive_probes;
    assert!((5..=6).contains(&probes) && pair.b.app().closed().is_empty(), "{probes}");
    pair.filter = Some(Box::new(|to_b, _| !to_b));
    pair.run(30_000);
    assert_eq!(pair.b.app().closed(), [CloseReason::TimedOut]);
    assert_eq!(pair.counters_b().keepalive_fails, 1);
    // The reset passed, so the other side knows.
    assert_eq!(pair.a.app().told, [Told::Connected(a), Told::Closed(a, CloseReason::Reset)]);
    pair.assert_clean();
}

/// As with Linux, who waits for an address that nobody on the link has is told after seconds, by ARP and by neighbour discovery.
#[test]
fn an_attempt_ends_when_its_neighbour_does_not_answer() {
    for nobody in ["198.18.0.77", "2001:db8::77"] {
        let mut pair = Pair::new();
        let first = pair.connect(address(nobody, 80));
        pair.run(2_900);
        assert_eq!(pair.a.app().told, []);
        pair.run(5_000);
        assert_eq!(pair.a.app().told, [Told::Closed(first, CloseReason::Unreachable)]);
        // One that begins later ends as well, also while the neighbour is asked once more.
        let second = pair.connect(address(nobody, 80));
        pair.run(7_500);
        assert_eq!(pair.a.app().told[1..], [Told::Closed(second, CloseReason::Unreachable)]);
        pair.assert_clean();
    }
}

/// A connection that stands waits for a neighbour that is away for a while.
#[test]
fn a_connection_outlives_a_neighbour_that_does_not_answer() {
    let mut pair = Pair::new();
    let (a, b) = pair.connected(ListenOptions::default());
    pair.run(100_000);
    pair.filter = Some(Box::new(|_, _| false));
    pair.send_a(a, b"hello");
    pair.run(30_000);
    pair.filter = None;
    pair.run(60_000);
    assert_eq!((pair.a.app().told.len(), &pair.b.app().data[&b][..]), (1, &b"hello"[..]));
}

#[test]
fn a_peer_that_never_answers_times_out() {
    let mut quick = config(1);
    quick.send.give_up_syn_ms = 20_000;
    let mut pair = Pair::with(quick, config(2));
    pair.filter = Some(Box::new(|_, frame| frame[12..14] == [8, 6]));
    let a = pair.connect(address(B, 80));
    pair.run(60_000);
    assert_eq!(pair.a.app().told, [Told::Closed(a, CloseReason::TimedOut)]);
    assert!(pair.counters_a().retrans_segs >= 3);
    pair.assert_clean();
}

#[test]
fn a_port_in_time_wait_is_used_again_by_a_newer_connection() {
    let mut pair = Pair::new();
    let remote = address(B, 80);
    pair.b.with(pair.now_ns, |_, io| io.listen(remote, ListenOptions::default())).unwrap();
    let options = ConnectOptions { local_port: 4000, ..ConnectOptions::new(remote) };
    let a = pair.a.with(pair.now_ns, |_, io| io.connect(options)).unwrap();
    pair.run(100);
    let b = pair.b.app().connections()[0];
    // The server closes first, so that it has the record; the client closes when it hears of it.
    pair.a.app_mut().closes = true;
    pair.b.with(pair.now_ns, |_, io| io.close(b));
    pair.run(100);
    assert_eq!(pair.b.with(pair.now_ns, |_, io| io.time_waits()), 1);
    let again = pair.a.with(pair.now_ns, |_, io| io.connect(options)).unwrap();
    assert_ne!(a, again);
    pair.run(100);
    assert_eq!((pair.counters_b().time_wait_recycled, pair.b.app().connections().len()), (1, 2));
    let taken = pair.a.with(pair.now_ns, |_, io| io.connect(options));
    assert_eq!(taken, Err(linerate_tcp::ConnectError::InUse));
}

#[test]
fn a_port_in_time_wait_is_connected_from_again_after_a_second() {
    let mut pair = Pair::new();
    let remote = address(B, 80);
    pair.b.with(pair.now_ns, |_, io| io.listen(remote, ListenOptions::default())).unwrap();
    let options = ConnectOptions { local_port: 4000, ..ConnectOptions::new(remote) };
    let a = pair.a.with(pair.now_ns, |_, io| io.connect(options)).unwrap();
    pair.run(100);
    pair.b.app_mut().closes = true;
    pair.a.with(pair.now_ns, |_, io| io.close(a));
    pair.run(100);
    assert_eq!(pair.a.with(pair.now_ns, |_, io| io.time_waits()), 1);
    let early = pair.a.with(pair.now_ns, |_, io| io.connect(options));
    assert_eq!(early, Err(linerate_tcp::ConnectError::InUse));
    pair.run(1_000);
    let last = tcp(&pair, true).iter().map(|frame| word(frame, 4)).max().unwrap();
    let passed = tcp(&pair, true).len();
    let again = pair.a.with(pair.now_ns, |_, io| io.connect(options)).unwrap();
    pair.run(100);
    assert_eq!(pair.a.app().connections(), [a, again]);
    assert_eq!(pair.a.with(pair.now_ns, |_, io| io.time_waits()), 0);
    let first = word(&tcp(&pair, true)[passed], 4);
    assert!((1 << 16..1 << 31).contains(&first.wrapping_sub(last)), "numbers go on behind those of before");
    pair.send_a(again, b"hello");
    pair.run(100);
    assert_eq!(pair.b.app().bytes(), b"hello");
}

#[test]
fn a_burst_of_connections_to_a_new_neighbour_loses_no_syn() {
    let mut pair = Pair::new();
    let remote = address(B, 80);
    pair.b.with(pair.now_ns, |_, io| io.listen(remote, ListenOptions::default())).unwrap();
    for _ in 0..500 {
        pair.connect(remote);
    }
    pair.run(10);
    assert_eq!(pair.a.app().connections().len(), 500);
    assert_eq!(pair.a.with(pair.now_ns, |_, io| io.send_counters()).retransmitted_syn, 0);
}

#[test]
fn the_fin_that_comes_again_in_time_wait_is_acknowledged() {
    let mut pair = Pair::new();
    pair.b.app_mut().closes = true;
    let (a, _) = pair.connected(ListenOptions::default());
    pair.run(100);
    // The last acknowledgment is lost.
    let mut lost = false;
    pair.filter = Some(Box::new(move |to_b, frame| {
        let is_last = to_b && frame.len() == 66 && frame[TCP + 13] == 0x10;
        !is_last || std::mem::replace(&mut lost, true)
    }));
    pair.a.with(pair.now_ns, |_, io| io.close(a));
    pair.settle();
    assert!(pair.b.app().closed().is_empty());
    pair.run(5_000);
    assert_eq!(pair.b.app().closed(), [CloseReason::Normal]);
    pair.assert_clean();
}

#[test]
fn too_many_time_waits_push_the_oldest_out() {
    let few = StackConfig { time_wait_max: 3, ..config(1) };
    let mut pair = Pair::with(few, config(2));
    pair.b.app_mut().closes = true;
    let remote = address(B, 80);
    pair.b.with(pair.now_ns, |_, io| io.listen(remote, ListenOptions::default())).unwrap();
    for _ in 0..10 {
        let conn = pair.connect(remote);
        pair.run(10);
        pair.a.with(pair.now_ns, |_, io| io.close(conn));
        pair.run(10);
    }
    assert_eq!(pair.a.app().closed(), [CloseReason::Normal; 10]);
    assert_eq!((pair.a.with(pair.now_ns, |_, io| io.time_waits()), pair.counters_a().time_wait_overflow), (3, 7));
    pair.assert_clean();
}

#[test]
fn marks_are_echoed_until_the_sender_slows_down() {
    let ecn = StackConfig { ecn: true, ..config(1) };
    let mut pair = Pair::with(ecn, config(2));
    let (a, b) = pair.connected(ListenOptions::default());
    assert!(info(&mut pair, b).ecn);
    pair.send_a(a, &[1; 1000]);
    pair.settle();
    let data = tcp(&pair, true).pop().unwrap();
    assert_eq!(data[15] & 3, 2);
    // The next segment passes a router that marks it.
    let next = word(&data, 4).wrapping_add(1000);
    let marked = changed(&data, |frame| {
        put(frame, 4, next);
        frame[15] |= 3;
        frame[24..26].fill(0);
        let checksum = Sum::new().add_slice(&frame[14..34]).finish();
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    });
    pair.frames.clear();
    pair.inject(true, &marked);
    pair.settle();
    let answer = tcp(&pair, false).pop().unwrap();
    assert_eq!(answer[TCP + 13] & 0x40, 0x40, "ECE");
}

#[test]
fn urgent_bytes_are_announced_and_handed_over_in_line() {
    let mut pair = Pair::new();
    let (a, b) = pair.connected(ListenOptions::default());
    pair.send_a(a, b"x");
    pair.settle();
    let data = tcp(&pair, true).pop().unwrap();
    let next = word(&data, 4).wrapping_add(1);
    let urgent = changed(&data, |frame| {
        put(frame, 4, next);
        frame[TCP + 13] |= 0x20;
        frame[TCP + 18..TCP + 20].copy_from_slice(&9u16.to_be_bytes());
    });
    pair.inject(true, &urgent);
    assert_eq!((&pair.b.app().urgent[..], &pair.b.app().data[&b][..]), (&[9][..], &b"xx"[..]));
}

#[test]
fn numbers_differ_by_connection_and_by_stack() {
    let mut pair = Pair::new();
    let remote = address(B, 80);
    pair.b.with(pair.now_ns, |_, io| io.listen(remote, ListenOptions::default())).unwrap();
    for _ in 0..20 {
        pair.connect(remote);
    }
    pair.run(2000);
    let syns: Vec<_> = tcp(&pair, true).into_iter().filter(|frame| frame[TCP + 13] == 2).collect();
    let distinct = |get: &dyn Fn(&Vec<u8>) -> u32| syns.iter().map(get).collect::<std::collections::HashSet<_>>().len();
    let ports = distinct(&|frame| word(frame, 0));
    assert!(ports == 20 && distinct(&|frame| word(frame, 4)) == 20, "{ports}");
    let _ = A;
}

#[test]
fn the_edge_of_the_window_never_moves_back_and_all_before_it_is_taken() {
    let mut small = config(2);
    (small.receive_window_max, small.receive_budget_bytes) = (200_000, 1 << 20);
    let mut pair = Pair::with(config(1), small);
    let (a, b) = pair.connected(ListenOptions::default());
    assert_eq!(info(&mut pair, b).scales.1, 2);
    pair.b.app_mut().takes = Some(0);
    pair.run(100);
    pair.frames.clear();
    // Lengths that the scale does not divide.
    for length in [1, 3, 700, 1449, 1447, 2, 5].into_iter().cycle().take(500) {
        pair.send_a(a, &vec![1; length]);
        pair.run(3);
    }
    pair.run(2_000);
    let mut edge = None;
    for answer in tcp(&pair, false) {
        let window = u32::from(u16::from_be_bytes([answer[TCP + 14], answer[TCP + 15]])) << 2;
        let right = word(&answer, 8).wrapping_add(window);
        assert!(edge.is_none_or(|edge| right.wrapping_sub(edge) as i32 >= 0), "the edge moved back");
        edge = Some(right);
    }
    let known = info(&mut pair, b);
    let held = known.receive_queued + known.receive_window;
    assert!(known.receive_window < 4 && held >= 190_000, "{known:?}");
    // Nothing that was inside the window had to be sent again, but for probes of the closed one.
    assert_eq!(pair.counters_b().rcvq_drop, 0);
}

#[test]
fn connections_that_come_and_go_leave_room_for_the_next_ones() {
    let few = |number| StackConfig { connections_max: 8, time_wait_max: 4, ..config(number) };
    let mut pair = Pair::with(few(1), few(2));
    pair.b.app_mut().closes = true;
    let remote = address(B, 80);
    pair.b.with(pair.now_ns, |_, io| io.listen(remote, ListenOptions::default())).unwrap();
    // No time passes, so that no timer runs out and no place of a queue becomes free by it.
    for round in 0..20_000 {
        let conn = pair.connect(remote);
        pair.settle();
        if round == 0 {
            // The neighbour is known now.
            pair.run(2_000);
        }
        pair.send_a(conn, b"x");
        pair.a.with(pair.now_ns, |_, io| io.close(conn));
        pair.settle();
        pair.frames.clear();
    }
    assert_eq!((pair.a.app().closed().len(), pair.b.app().closed().len()), (20_000, 20_000));
    assert!(pair.a.app().closed().iter().all(|why| *why == CloseReason::Normal));
}

/// An acknowledgment waits for data to leave with. Where none came in time, the next small segment is acknowledged at once, until the
/// program answers within the delay again.
#[test]
fn acknowledgments_wait_only_where_data_follow() {
    let mut pair = Pair::new();
    let (a, b) = pair.connected(ListenOptions { nodelay: true, ..ListenOptions::default() });
    let alone = |pair: &mut Pair| {
        let counters = pair.counters_b();
        (counters.delayed_acks, counters.pure_acks_out)
    };
    let before = alone(&mut pair).1;
    pair.send_a(a, b"1");
    pair.settle();
    assert_eq!(alone(&mut pair), (0, before));
    pair.run(60);
    assert_eq!(alone(&mut pair), (1, before + 1));
    pair.send_a(a, b"2");
    pair.settle();
    assert_eq!(alone(&mut pair), (1, before + 2));
    // An answer that comes later than the delay shows nothing else.
    pair.run(100);
    pair.send_b(b, b"late");
    pair.settle();
    pair.send_a(a, b"3");
    pair.settle();
    assert_eq!(alone(&mut pair), (1, before + 3));
    pair.run(20);
    pair.send_b(b, b"soon");
    pair.settle();
    pair.send_a(a, b"4");
    pair.settle();
    assert_eq!(alone(&mut pair), (1, before + 3));
    pair.send_b(b, b"with the acknowledgment");
    pair.run(100);
    assert_eq!(alone(&mut pair), (1, before + 3));
}

/// The first stack, which has this configuration and whose program is done, closed 40 connections, and all FINs of the other side came in one
/// batch: more than the output has room for acknowledgments.
fn closed_at_once(config_a: StackConfig) -> Pair {
    let mut pair = Pair::with(StackConfig { output_packets: 8, ..config_a }, config(2));
    pair.b.with(pair.now_ns, |app, io| {
        app.closes = true;
        io.listen(address(B, 80), ListenOptions::default()).unwrap();
    });
    for _ in 0..40 {
        pair.connect(address(B, 80));
        pair.settle();
    }
    let conns = pair.a.app().connections();
    pair.a.with(pair.now_ns, |app, io| {
        conns.iter().for_each(|conn| io.close(*conn));
        app.done = true;
    });
    while pair.pass(true) {}
    pair.pass(false);
    assert_eq!(pair.a.app().closed(), [CloseReason::Normal; 40]);
    assert!(!pair.a.is_done(), "the peer waits for acknowledgments");
    pair
}

/// Also of more connections than there are TIME-WAIT records.
#[test]
fn a_last_acknowledgment_waits_for_room_and_a_program_that_is_done_for_it() {
    let mut pair = closed_at_once(StackConfig { time_wait_max: 4, ..config(1) });
    pair.settle();
    assert!(pair.a.is_done());
    assert_eq!(pair.b.app().closed(), [CloseReason::Normal; 40]);
    assert_eq!((pair.counters_a().retrans_segs, pair.counters_b().retrans_segs), (0, 0));
}

/// Who waits for a port that takes nothing would wait for ever.
#[test]
fn a_last_acknowledgment_does_not_wait_for_a_port_that_is_stuck() {
    let mut pair = closed_at_once(config(1));
    let (now_ns, pool) = (pair.now_ns, &mut pair.pool);
    pair.a.stuck(PortIndex(0), &mut Context { now_ns, pool, ports: &mut () });
    assert!(pair.a.is_done());
}

/// A stack that always has more to send than leaves still asks whether its neighbour is there.
#[test]
fn a_full_output_leaves_room_for_questions_to_neighbours() {
    let mut pair = Pair::with(StackConfig { output_packets: 4, ..config(1) }, config(2));
    let (a, b) = pair.connected(ListenOptions { nodelay: true, ..ListenOptions::default() });
    let bytes = [5; 20_000];
    let mut sent = 0;
    for _ in 0..15_000 {
        // What is written fills the output before the timers of the layer below run.
        sent += pair.send_a(a, &bytes);
        pair.tick();
        pair.pass(true);
        pair.pass(false);
        pair.b.with(pair.now_ns, |app, _| app.data.clear());
        pair.frames.clear();
        pair.now_ns += 10_000_000;
    }
    let retransmitted = pair.counters_a().retrans_segs;
    assert!((retransmitted, pair.a.app().closed().len()) == (0, 0) && sent > 80_000_000, "{retransmitted}, {sent}");
    assert_eq!(info(&mut pair, b).state, linerate_tcp::State::Established);
}
