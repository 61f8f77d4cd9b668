//! Datagrams through the stack.

use super::common;

use common::{A, B, B6, Pair, address};
use linerate_tcp::{ConnectOptions, ErrorKind};

#[test]
fn datagrams_reach_sockets_and_come_back() {
    for remote in [B, B6] {
        let mut pair = Pair::new();
        pair.b.app_mut().echoes = true;
        let to = address(remote, 7);
        let server = pair.b.with(pair.now_ns, |_, io| io.udp_open(Some(to), None)).unwrap();
        let client = pair.a.with(pair.now_ns, |_, io| io.udp_open(None, Some(to))).unwrap();
        for length in [1, 100, 1400, 4000] {
            pair.a.with(pair.now_ns, |_, io| io.udp_send(client, None, None, &vec![7; length])).unwrap();
            pair.settle();
        }
        let lengths = |datagrams: &[(linerate_tcp::UdpId, usize)], socket| {
            datagrams.iter().filter(|(id, _)| *id == socket).map(|(_, len)| *len).collect::<Vec<_>>()
        };
        assert_eq!(lengths(&pair.b.app().datagrams, server), [1, 100, 1400, 4000], "{remote}");
        assert_eq!(lengths(&pair.a.app().datagrams, client), [1, 100, 1400, 4000], "{remote}");
        pair.assert_clean();
    }
}

/// Usual datagrams stand in one batch between others: fragments, a datagram for nobody, a segment.
#[test]
fn datagrams_of_one_batch_keep_their_order_and_all_are_counted() {
    let mut pair = Pair::new();
    let to = address(B, 7);
    let server = pair.b.with(pair.now_ns, |_, io| io.udp_open(Some(to), None)).unwrap();
    let client = pair.a.with(pair.now_ns, |_, io| io.udp_open(None, Some(to))).unwrap();
    let nobody = pair.a.with(pair.now_ns, |_, io| io.udp_open(None, Some(address(B, 9)))).unwrap();
    // The neighbours get to know each other.
    pair.a.with(pair.now_ns, |_, io| io.udp_send(client, None, None, &[7; 9])).unwrap();
    pair.settle();
    let before = pair.b.with(pair.now_ns, |_, io| (io.udp_counters(), io.ip().counters()));
    let lengths = [1, 2, 4000, 3, 1400, 0, 4001, 4];
    pair.a.with(pair.now_ns, |_, io| {
        for (at, length) in lengths.into_iter().enumerate() {
            io.udp_send(client, None, None, &vec![7; length]).unwrap();
            match at {
                3 => io.udp_send(nobody, None, None, b"anybody?").unwrap(),
                4 => _ = io.connect(ConnectOptions::new(address(B, 80))).unwrap(),
                _ => {}
            }
        }
    });
    pair.settle();
    let arrived: Vec<usize> = pair.b.app().datagrams.iter().skip(1).map(|(_, len)| *len).collect();
    assert_eq!(arrived, lengths);
    assert!(pair.b.app().datagrams.iter().all(|(socket, _)| *socket == server));
    let after = pair.b.with(pair.now_ns, |_, io| (io.udp_counters(), io.ip().counters()));
    assert_eq!(after.0.delivered - before.0.delivered, lengths.len() as u64);
    assert_eq!((after.0.no_port - before.0.no_port, after.0.malformed), (1, 0));
    // Datagrams, with the one for nobody; frames, with those of fragments.
    assert_eq!(after.1.delivered_udp - before.1.delivered_udp, lengths.len() as u64 + 1);
    assert!(after.1.received > before.1.received + lengths.len() as u64 + 4);
    pair.assert_clean();
}

#[test]
fn a_datagram_for_nobody_is_refused_by_icmp() {
    let mut pair = Pair::new();
    let client = pair.a.with(pair.now_ns, |_, io| io.udp_open(Some(address(A, 5000)), None)).unwrap();
    let to = Some(address(B, 9));
    pair.a.with(pair.now_ns, |_, io| io.udp_send(client, None, to, b"anybody?")).unwrap();
    pair.settle();
    // ICMP, destination unreachable, port.
    let answers = pair.frames.iter().filter(|(to_b, frame)| !to_b && frame[12..14] == [8, 0] && frame[23] == 1);
    assert_eq!(answers.map(|(_, frame)| (frame[34], frame[35])).collect::<Vec<_>>(), [(3, 3)]);
    assert_eq!(pair.a.app().undelivered, [(client, ErrorKind::PortUnreachable)]);
    pair.assert_clean();
}
