//! Datagrams through the stack.

use super::common;

use common::{A, B, B6, Pair, address};
use linerate_tcp::ErrorKind;

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
