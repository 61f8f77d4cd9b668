//! OpenFlow messages between a controller and a switch: bytes to requests, statistics to bytes.

use std::hint::black_box;

use linerate_openflow::{
    Controllers, Field, FlowCommand, FlowMod, FlowStats, Framer, Hello, Match, Message, MultipartReply, Part,
    RequestBody, Session, SessionConfig, encode,
};
use linerate_openflow_text::parse_flow;
use linerate_pipeline::{Switch, SwitchOptions};
use linerate_sys::affinity;

use crate::measure::{Run, Stopwatch};

/// Flow-mods that are sent again and again, of different lengths.
const FLOWS: u32 = 256;
/// Flows of a message of statistics.
const FLOWS_OF_MESSAGE: u32 = 400;

/// Flow-mods of four fields and two actions from bytes to checked requests, by the session.
pub fn flow_mods(core: usize, messages: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let mut controllers = Controllers::new();
    let mut session = Session::new(SessionConfig::default(), controllers.join(), 0);
    let mut hello = Vec::new();
    encode(&mut hello, 0, &Message::Hello(Hello { versions: None })).expect("a short message");
    session.receive(&hello, 0);
    let mut stream = Vec::new();
    for number in 0..FLOWS {
        encode(&mut stream, number, &Message::FlowMod(flow_mod(number))).expect("a short message");
    }
    assert!(stream.len() < Framer::CAPACITY);
    let watch = Stopwatch::start();
    let mut done = 0;
    while done < messages {
        session.receive(&stream, 0);
        while let Some(request) = session.next_request(&mut controllers) {
            done += u64::from(matches!(request.body, RequestBody::FlowMod(_)));
            black_box(request);
        }
    }
    let run = watch.stop(done);
    assert!(session.is_up() && done.is_multiple_of(u64::from(FLOWS)));
    run
}

/// Flow-mods of one TCP connection each, from bytes to entries of a switch.
pub fn flow_entries(core: usize, messages: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let mut controllers = Controllers::new();
    let mut session = Session::new(SessionConfig::default(), controllers.join(), 0);
    let mut bytes = Vec::new();
    encode(&mut bytes, 0, &Message::Hello(Hello { versions: None })).expect("a short message");
    session.receive(&bytes, 0);
    let mut message = Vec::new();
    encode(&mut message, 1, &Message::FlowMod(connection())).expect("a short message");
    let mut stream = message.repeat(FLOWS as usize);
    let mut switch = Switch::new(SwitchOptions::default(), 0);
    let watch = Stopwatch::start();
    let (mut made, mut done) = (0u32, 0);
    while done < messages {
        for bytes in stream.chunks_exact_mut(message.len()) {
            bytes[SOURCE_AT + 1..SOURCE_AT + 3].copy_from_slice(&made.to_be_bytes()[..2]);
            bytes[DESTINATION_AT + 2..DESTINATION_AT + 4].copy_from_slice(&made.to_be_bytes()[2..]);
            made += 1;
        }
        session.receive(&stream, 0);
        while let Some(mut request) = session.next_request(&mut controllers) {
            let body = std::mem::replace(&mut request.body, RequestBody::Features);
            let RequestBody::FlowMod(change) = body else { continue };
            switch.flow_mod(change, 0).expect("room for the entry");
            done += 1;
        }
        switch.version();
    }
    let run = watch.stop(done);
    assert_eq!(switch.totals().entries, done);
    run
}

fn connection() -> FlowMod {
    let matching = Match::default()
        .with(Field::InPort, 1)
        .with(Field::EthType, 0x0800)
        .with(Field::IpProto, 6)
        .with(Field::Ipv4Src, 0x0a00_0001)
        .with(Field::Ipv4Dst, 0x0a80_0000)
        .with(Field::TcpDst, 80);
    FlowMod { matching, ..flow_mod(1) }
}

/// Where the addresses lie in that message: behind headers of 8, 40 and 4 bytes, and fields of 8, 6 and 5 bytes.
const SOURCE_AT: usize = 75;
const DESTINATION_AT: usize = 83;

/// Statistics of flows, as a dump lists them, to bytes.
pub fn flow_stats(core: usize, flows: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let items = (0..FLOWS_OF_MESSAGE).map(flow_of).collect();
    let reply = Message::MultipartReply(Part { more: true, body: Ok(MultipartReply::Flow(items)) });
    let mut out = Vec::new();
    let watch = Stopwatch::start();
    let mut done = 0;
    while done < flows {
        out.clear();
        encode(&mut out, 1, black_box(&reply)).expect("less than 64 KiB");
        done += u64::from(FLOWS_OF_MESSAGE);
    }
    watch.stop(done)
}

fn flow_mod(number: u32) -> FlowMod {
    let text = format!(
        "priority={number},tcp,nw_dst=192.0.2.{}/31,tp_dst={number},actions=dec_ttl,output:{}",
        number & 0xfe,
        number + 1
    );
    parse_flow(&text, FlowCommand::Add).expect("a flow")
}

fn flow_of(number: u32) -> FlowStats {
    let flow = flow_mod(number);
    FlowStats {
        table: 0,
        duration_ns: 5_000_000_007,
        priority: flow.priority,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        flags: flow.flags,
        cookie: flow.cookie,
        packets: 1_000_000,
        bytes: 64_000_000,
        matching: flow.matching,
        instructions: flow.instructions,
    }
}
