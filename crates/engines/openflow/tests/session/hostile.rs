//! Controllers that are broken, slow or hostile: errors or an end, and bounded memory.

use linerate_openflow::{
    CloseReason, Delivery, ErrorKind, Framer, Match, Message, NO_BUFFER, PacketIn, PacketInReason, PacketOut,
    PortNumber, RequestBody, encode,
};

use super::common::{Pair, SECOND_NS, flow_mod};

fn bytes_of(messages: &[Message]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        encode(&mut bytes, 7, message).expect("a message of less than 64 KiB");
    }
    bytes
}

#[test]
fn a_stream_may_be_cut_anywhere() {
    let mut pair = Pair::up();
    let stream = bytes_of(&[Message::FlowMod(flow_mod()), Message::BarrierRequest]);
    for byte in stream.iter().take(stream.len() - 1) {
        pair.send_bytes(&[*byte]);
        while let Some((_, body)) = pair.request() {
            assert!(matches!(body, RequestBody::FlowMod(_)));
        }
    }
    pair.send_bytes(&stream[stream.len() - 1..]);
    assert_eq!(pair.request(), Some((7, RequestBody::Barrier)));
}

#[test]
fn half_a_message_and_silence_ends() {
    let mut pair = Pair::up();
    pair.send_bytes(&[4, 14, 255, 255, 0, 0]);
    assert_eq!(pair.request(), None);
    for _ in 0..2 {
        let deadline_ns = pair.session.next_deadline_ns().expect("a deadline");
        pair.session.tick(deadline_ns);
    }
    assert_eq!((pair.session.closed(), pair.session.next_deadline_ns()), (Some(CloseReason::Silent), None));
    assert_eq!(pair.request(), None);
}

#[test]
fn a_connection_without_a_hello_ends() {
    let mut silent = Pair::new();
    assert_eq!(silent.session.next_deadline_ns(), Some(10 * SECOND_NS));
    silent.session.tick(10 * SECOND_NS);
    assert_eq!(silent.session.closed(), Some(CloseReason::Silent));
    let mut early = Pair::new();
    early.send(1, &Message::FeaturesRequest);
    assert_eq!((early.request(), early.session.closed()), (None, Some(CloseReason::NoHello)));
    assert!(matches!(early.received()[..], [_, (1, Message::Error(_))]));
    let mut other_protocol = Pair::new();
    other_protocol.send_bytes(b"GET / HTTP/1.1\r\nHost: switch\r\n\r\n");
    // Its length would be that of a long message: nothing comes before the deadline.
    assert_eq!((other_protocol.request(), other_protocol.session.closed()), (None, None));
}

#[test]
fn a_length_below_eight_ends() {
    let mut pair = Pair::up();
    pair.send_bytes(&[4, 2, 0, 7, 0, 0, 0, 3]);
    assert_eq!((pair.request(), pair.session.closed()), (None, Some(CloseReason::BadLength)));
    assert_eq!(pair.received_error().1, ErrorKind::BadRequestBadLen);
}

#[test]
fn unknown_and_misdirected_messages_are_refused_and_the_session_goes_on() {
    let mut pair = Pair::up();
    for (bytes, error) in [
        ([4, 99, 0, 8, 0, 0, 0, 1], ErrorKind::BadRequestBadType),
        ([5, 14, 0, 8, 0, 0, 0, 1], ErrorKind::BadRequestBadVersion),
        ([4, 21, 0, 8, 0, 0, 0, 1], ErrorKind::BadRequestBadType),
        ([4, 4, 0, 8, 0, 0, 0, 1], ErrorKind::BadRequestBadLen),
        ([4, 14, 0, 8, 0, 0, 0, 1], ErrorKind::BadRequestBadLen),
    ] {
        pair.send_bytes(&bytes);
        assert_eq!(pair.request(), None);
        assert_eq!(pair.received_error(), (1, error, bytes.to_vec()));
    }
    // An error is never answered by an error.
    pair.send_bytes(&[4, 1, 0, 8, 0, 0, 0, 1]);
    assert_eq!((pair.request(), pair.received()), (None, Vec::new()));
    pair.send(2, &Message::BarrierRequest);
    assert_eq!(pair.request(), Some((2, RequestBody::Barrier)));
}

#[test]
fn who_does_not_read_is_not_read_from() {
    let mut pair = Pair::up();
    let echo = bytes_of(&[Message::EchoRequest(vec![0xaa; 1000])]);
    let (mut sent, mut answered) = (0, 0);
    loop {
        let taken = pair.session.receive(&echo[sent % echo.len()..], 0);
        assert_eq!(pair.request(), None);
        if taken == 0 {
            break;
        }
        sent += taken;
        assert!(sent < 1_000_000, "the session takes without end");
    }
    assert!(pair.session.output().len() < 256 * 1024);
    assert!(pair.session.room() == 0 && sent <= Framer::CAPACITY + 256 * 1024);
    assert!(!pair.session.has_work());
    // Once it reads, all of it is answered.
    while !pair.session.output().is_empty() {
        answered += pair.session.output().len();
        let all = pair.session.output().len();
        pair.session.consume(all);
        assert!(pair.session.has_work() || answered == sent / echo.len() * echo.len());
        assert_eq!(pair.request(), None);
    }
    assert_eq!(answered, sent / echo.len() * echo.len());
}

#[test]
fn a_flood_of_bad_messages_waits_for_its_errors_to_be_read() {
    let mut pair = Pair::up();
    let bad = [4, 99, 0, 8, 0, 0, 0, 1].repeat(4096);
    let mut taken = 0;
    for _ in 0..100 {
        taken += pair.session.receive(&bad, 0);
        assert_eq!(pair.request(), None);
    }
    assert!(pair.session.output().len() < 132 * 1024 && taken <= 256 * 1024);
}

#[test]
fn packets_for_a_slow_controller_are_dropped() {
    let mut pair = Pair::up();
    let packet = PacketIn {
        buffer_id: NO_BUFFER,
        total_len: 1000,
        reason: PacketInReason::Action,
        table: 0,
        cookie: 0,
        matching: Match::default(),
        data: vec![0; 1000],
    };
    let queued = (0..5000).filter(|_| pair.session.packet_in(&pair.controllers, &packet) == Delivery::Queued).count();
    assert!((900..1100).contains(&queued), "{queued}");
    assert_eq!(pair.received().len(), queued);
    assert_eq!(pair.session.packet_in(&pair.controllers, &packet), Delivery::Queued);
    let too_long = PacketIn { data: vec![0; 65_530], ..packet };
    assert_eq!(pair.session.packet_in(&pair.controllers, &too_long), Delivery::Dropped);
}

#[test]
fn the_longest_messages_pass() {
    let mut pair = Pair::up();
    let packet = PacketOut {
        buffer_id: NO_BUFFER,
        in_port: PortNumber::CONTROLLER,
        actions: Vec::new(),
        data: vec![5; 65_535 - 24],
    };
    pair.send(1, &Message::PacketOut(packet.clone()));
    assert_eq!(pair.request(), Some((1, RequestBody::PacketOut(packet.clone()))));
    let longer = PacketOut { data: vec![5; 65_535 - 23], ..packet };
    assert!(encode(&mut Vec::new(), 1, &Message::PacketOut(longer)).is_err());
}

#[test]
fn a_controller_that_reads_a_long_reply_lives() {
    let mut pair = Pair::up();
    let echo = bytes_of(&[Message::EchoRequest(vec![0; 60_000])]);
    for _ in 0..4 {
        pair.session.receive(&echo, 0);
        assert_eq!(pair.request(), None);
    }
    pair.session.consume(1000);
    pair.session.tick(5 * SECOND_NS);
    assert_eq!(pair.session.next_deadline_ns(), Some(10 * SECOND_NS));
    pair.session.tick(10 * SECOND_NS);
    pair.session.tick(15 * SECOND_NS);
    assert_eq!(pair.session.closed(), Some(CloseReason::Silent));
}
