//! OpenFlow messages between a controller and a switch: bytes to requests, statistics to bytes.

use std::hint::black_box;

use linerate_openflow::text::parse_flow;
use linerate_openflow::{
    Controllers, FlowCommand, FlowMod, FlowStats, Framer, Hello, Message, MultipartReply, Part, RequestBody, Session,
    SessionConfig, encode,
};
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
