//! Multipart requests put together, replies split.

use linerate_openflow::{
    Action, ErrorKind, Field, FlowFlags, FlowStats, Instruction, Match, Message, MultipartReply, MultipartRequest,
    Part, PortNumber, Reply, RequestBody, TableFeatures, TableProperties,
};

use super::common::{Pair, flow_mod};

fn flow(number: u32) -> FlowStats {
    let output = Action::Output { port: PortNumber(2), max_len: 0 };
    FlowStats {
        table: 0,
        duration_ns: 1,
        priority: 7,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        flags: FlowFlags::default(),
        cookie: number.into(),
        packets: 5,
        bytes: 6,
        matching: Match::default().with(Field::InPort, number.into()),
        instructions: vec![Instruction::ApplyActions(vec![output])],
    }
}

fn filter() -> linerate_openflow::FlowFilter {
    linerate_openflow::FlowFilter {
        table: 0xff,
        out_port: PortNumber::ANY,
        out_group: linerate_openflow::GROUP_ANY,
        cookie: 0,
        cookie_mask: 0,
        matching: Match::default(),
    }
}

fn ask(body: MultipartRequest) -> Message {
    Message::MultipartRequest(Part { more: false, body: Ok(body) })
}

/// Reads the output as it comes, a few bytes at a time, and returns all flows and the most bytes that waited.
fn read_flows(pair: &mut Pair, xid: u32) -> (Vec<FlowStats>, usize) {
    let mut stream = Vec::new();
    let mut most = 0;
    loop {
        let output = pair.session.output();
        most = most.max(output.len());
        let count = output.len().min(10_007);
        if count == 0 {
            break;
        }
        stream.extend_from_slice(&output[..count]);
        pair.session.consume(count);
    }
    (flows_of(&stream, xid), most)
}

fn flows_of(mut stream: &[u8], xid: u32) -> Vec<FlowStats> {
    let mut flows = Vec::new();
    while let Some(header) = linerate_openflow::Header::read(stream) {
        let (message, rest) = stream.split_at(header.length.into());
        stream = rest;
        match linerate_openflow::decode(message) {
            Ok((number, Message::MultipartReply(Part { more, body: Ok(MultipartReply::Flow(part)) }))) => {
                assert_eq!((number, more), (xid, !stream.is_empty()), "the last message, and no other, ends the reply");
                flows.extend(part);
            }
            other => panic!("no flows: {other:?}"),
        }
    }
    flows
}

#[test]
fn a_long_reply_is_made_as_it_is_read() {
    let mut pair = Pair::up();
    pair.send(5, &ask(MultipartRequest::Flow(filter())));
    pair.send(6, &Message::GetConfigRequest);
    let request = pair.take();
    let flows: Vec<FlowStats> = (0..20_000).map(flow).collect();
    pair.session.reply(&request, Reply::Multipart(MultipartReply::Flow(flows.clone())));
    assert_eq!(pair.request(), None, "requests wait while a reply is being read");
    assert!(!pair.session.has_work());
    let (received, most) = read_flows(&mut pair, 5);
    assert_eq!(received, flows);
    assert!(most <= 192 * 1024, "{most} bytes waited");
    assert!(pair.session.has_work());
    assert_eq!(pair.request(), Some((6, RequestBody::GetConfig)));
}

#[test]
fn a_reply_may_be_given_in_parts() {
    let mut pair = Pair::up();
    pair.send(5, &ask(MultipartRequest::Flow(filter())));
    pair.send(6, &Message::BarrierRequest);
    let request = pair.take();
    pair.session.reply_part(&request, MultipartReply::Flow(vec![flow(1), flow(2)]));
    pair.session.reply_part(&request, MultipartReply::Flow(vec![flow(3)]));
    assert!(pair.session.wants_part());
    assert_eq!(pair.request(), None, "the reply is not complete");
    pair.session.reply(&request, Reply::Multipart(MultipartReply::Flow(Vec::new())));
    assert_eq!(read_flows(&mut pair, 5).0, [flow(1), flow(2), flow(3)]);
    assert_eq!(pair.request(), Some((6, RequestBody::Barrier)));
}

#[test]
fn empty_replies_are_one_message() {
    let mut pair = Pair::up();
    pair.send(5, &ask(MultipartRequest::GroupDescription));
    let request = pair.take();
    pair.session.reply(&request, Reply::Multipart(MultipartReply::GroupDescription(Vec::new())));
    let empty = Message::MultipartReply(Part { more: false, body: Ok(MultipartReply::GroupDescription(Vec::new())) });
    assert_eq!(pair.received(), [(5, empty)]);
}

fn features(table: u8) -> TableFeatures {
    let properties = TableProperties { next_tables: [Some((table + 1..=254).collect()), None], ..Default::default() };
    TableFeatures {
        table,
        name: format!("table{table}"),
        metadata_match: u64::MAX,
        metadata_write: u64::MAX,
        config: 0,
        max_entries: 1,
        properties,
    }
}

#[test]
fn table_features_in_several_messages_are_one_request() {
    let mut pair = Pair::up();
    let tables: Vec<TableFeatures> = (0..200).map(features).collect();
    for (number, part) in tables.chunks(70).enumerate() {
        let body = Ok(MultipartRequest::TableFeatures(part.to_vec()));
        pair.send(9, &Message::MultipartRequest(Part { more: number < 2, body }));
        // Other requests may stand between.
        pair.send(10, &Message::FlowMod(flow_mod()));
    }
    assert!(matches!(pair.request(), Some((10, RequestBody::FlowMod(_)))));
    assert!(matches!(pair.request(), Some((10, RequestBody::FlowMod(_)))));
    assert_eq!(pair.request(), Some((9, RequestBody::Multipart(MultipartRequest::TableFeatures(tables)))));
    assert!(matches!(pair.request(), Some((10, RequestBody::FlowMod(_)))));
}

#[test]
fn a_request_that_never_ends_is_refused() {
    let mut pair = Pair::up();
    let tables: Vec<TableFeatures> = (0..200).map(features).collect();
    let part = Message::MultipartRequest(Part { more: true, body: Ok(MultipartRequest::TableFeatures(tables)) });
    for _ in 0..200 {
        pair.send(9, &part);
        assert_eq!(pair.request(), None);
    }
    assert_eq!(pair.received_error().1, ErrorKind::BadRequestMultipartBufferOverflow);
}

#[test]
fn unknown_types_and_bad_filters_are_refused() {
    let mut pair = Pair::up();
    pair.send_bytes(&[4, 18, 0, 16, 0, 0, 0, 1, 0, 99, 0, 0, 0, 0, 0, 0]);
    assert_eq!((pair.request(), pair.received_error().1), (None, ErrorKind::BadRequestBadMultipart));
    pair.send_bytes(&[4, 18, 0, 24, 0, 0, 0, 1, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
    assert_eq!((pair.request(), pair.received_error().1), (None, ErrorKind::BadRequestBadExperimenter));
    let matching = Match::default().with(Field::TcpDst, 80);
    pair.send(1, &ask(MultipartRequest::Aggregate(linerate_openflow::FlowFilter { matching, ..filter() })));
    assert_eq!((pair.request(), pair.received_error().1), (None, ErrorKind::BadMatchBadPrereq));
}
