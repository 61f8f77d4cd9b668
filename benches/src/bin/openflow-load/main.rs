//! `openflow-load`: a controller that measures a switch.
//!
//! ```text
//! openflow-load flow-mods ADDRESS COUNT     connects; COUNT new flows and a barrier, a dump of them, one delete and a barrier
//! openflow-load add ADDRESS COUNT same|own  connects; COUNT new flows with two actions, the same ones or each its own, and a barrier
//! openflow-load packet-ins ADDRESS SECONDS  listens; answers each packet-in with a flow-mod and counts them
//! openflow-load echo ADDRESS COUNT          connects; COUNT echo requests, one after the other
//! openflow-load attack KIND ADDRESS SECONDS breaks the rules: fuzz, half, connections, packet-outs, tls (ADDRESS is one for TLS)
//! ```
//! One line of words and numbers comes out of each, for `benches/ofswitch.sh`. A refused message ends it with status 1.

mod attack;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use linerate_benches::say;
use linerate_openflow::{
    Action, Field, FlowCommand, FlowFilter, FlowFlags, FlowMod, Framer, GROUP_ANY, Hello, Instruction, Match, Message,
    MultipartReply, MultipartRequest, NO_BUFFER, Part, PortNumber, TABLE_ALL, VERSION, decode, encode,
};

/// That of the flows made here: others stay.
const COOKIE: u64 = 0x6c6f_6164;

type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["flow-mods", address, count] => number(count).and_then(|count| flow_mods(address, count)),
        ["add", address, count, actions @ ("same" | "own")] => {
            number(count).and_then(|count| add(address, count, actions == "own"))
        }
        ["packet-ins", address, seconds] => number(seconds).and_then(|seconds| packet_ins(address, seconds)),
        ["echo", address, count] => number(count).and_then(|count| echo(address, count)),
        ["attack", kind, address, seconds] => {
            number(seconds).and_then(|seconds| attack::attack(kind, address, Duration::from_secs(seconds)))
        }
        _ => Err(
            "openflow-load flow-mods|echo ADDRESS COUNT | add ADDRESS COUNT same|own | packet-ins ADDRESS SECONDS | \
                  attack fuzz|half|connections|packet-outs|tls ADDRESS SECONDS"
                .into(),
        ),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}

/// Adds flows, dumps them, deletes them; prints the seconds of each and the bytes of the dump's flows.
fn flow_mods(address: &str, count: u64) -> Result<()> {
    let mut switch = Connection::connect(address)?;
    let mut bytes = Vec::new();
    for flow in 0..count {
        put(&mut bytes, 10, &Message::FlowMod(new_flow(flow)));
    }
    put(&mut bytes, 11, &Message::BarrierRequest);
    let added = switch.timed(bytes, |xid, message| xid == 11 && *message == Message::BarrierReply)?;

    let filter = FlowFilter {
        table: TABLE_ALL,
        out_port: PortNumber::ANY,
        out_group: GROUP_ANY,
        cookie: COOKIE,
        cookie_mask: u64::MAX,
        matching: Match::default(),
    };
    let mut request = Vec::new();
    put(&mut request, 12, &Message::MultipartRequest(Part { more: false, body: Ok(MultipartRequest::Flow(filter)) }));
    let mut flows = 0;
    let dumped = switch.timed(request, |_, message| match message {
        Message::MultipartReply(Part { more, body: Ok(MultipartReply::Flow(entries)) }) => {
            flows += entries.len() as u64;
            !more
        }
        _ => false,
    })?;
    let mut bytes = Vec::new();
    put(&mut bytes, 13, &Message::FlowMod(FlowMod { cookie: COOKIE, cookie_mask: u64::MAX, ..delete_all() }));
    put(&mut bytes, 14, &Message::BarrierRequest);
    let deleted = switch.timed(bytes, |xid, message| xid == 14 && *message == Message::BarrierReply)?;
    if flows != count {
        return Err(format!("{count} flows were added, and {flows} are there"));
    }
    say!("flow-mods {count} {:.4} dump {:.4} delete {:.4}", seconds(added), seconds(dumped), seconds(deleted));
    Ok(())
}

/// Adds flows with two actions, and leaves them there.
fn add(address: &str, count: u64, own: bool) -> Result<()> {
    let mut switch = Connection::connect(address)?;
    let mut bytes = Vec::new();
    for flow in 0..count {
        let station = Action::SetField(Field::EthDst, 0x0200_0000_0000 | if own { flow.into() } else { 0 });
        let Instruction::ApplyActions(mut actions) = to_port(2) else { continue };
        actions.insert(0, station);
        put(
            &mut bytes,
            10,
            &Message::FlowMod(FlowMod { instructions: vec![Instruction::ApplyActions(actions)], ..new_flow(flow) }),
        );
    }
    put(&mut bytes, 11, &Message::BarrierRequest);
    let added = switch.timed(bytes, |xid, message| xid == 11 && *message == Message::BarrierReply)?;
    say!("add {count} {:.4}", seconds(added));
    Ok(())
}

/// A flow like those that a controller makes of packets: all headers of one TCP connection.
fn new_flow(number: u64) -> FlowMod {
    let (high, low) = ((number >> 16) as u128, (number & 0xffff) as u128);
    let matching = Match::default()
        .with(Field::InPort, 1)
        .with(Field::EthType, 0x800)
        .with(Field::IpProto, 6)
        .with(Field::Ipv4Src, 0x0a00_0000 | high << 8 | 1)
        .with(Field::Ipv4Dst, 0x0a80_0000 | low)
        .with(Field::TcpDst, 80);
    let add = delete_all_as(FlowCommand::Add);
    FlowMod { cookie: COOKIE, matching, priority: 100, instructions: vec![to_port(2)], ..add }
}

fn to_port(port: u32) -> Instruction {
    Instruction::ApplyActions(vec![Action::Output { port: PortNumber(port), max_len: 0xffff }])
}

fn delete_all() -> FlowMod {
    FlowMod { table: TABLE_ALL, ..delete_all_as(FlowCommand::Delete) }
}

fn delete_all_as(command: FlowCommand) -> FlowMod {
    FlowMod {
        cookie: 0,
        cookie_mask: 0,
        table: 0,
        command,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        priority: 0,
        buffer_id: NO_BUFFER,
        out_port: PortNumber::ANY,
        out_group: GROUP_ANY,
        flags: FlowFlags(0),
        matching: Match::default(),
        instructions: Vec::new(),
    }
}

/// Waits for a switch, has all packets sent to itself, and answers each packet-in with a flow for its destination.
fn packet_ins(address: &str, for_s: u64) -> Result<()> {
    let listener = TcpListener::bind(address).map_err(|error| format!("listening on {address}: {error}"))?;
    let (stream, _) = listener.accept().map_err(|error| error.to_string())?;
    let mut switch = Connection::new(stream)?;
    let miss = Action::Output { port: PortNumber::CONTROLLER, max_len: 128 };
    let mut out = Vec::new();
    put(&mut out, 1, &Message::FlowMod(delete_all()));
    let all = FlowMod { instructions: vec![Instruction::ApplyActions(vec![miss])], ..delete_all_as(FlowCommand::Add) };
    put(&mut out, 2, &Message::FlowMod(all));
    switch.send(std::mem::take(&mut out))?;
    let (mut answered, mut seen, began) = (0_u64, HashMap::new(), Instant::now());
    while began.elapsed() < Duration::from_secs(for_s) {
        switch.receive(|_, message| match message {
            Message::PacketIn(packet) if packet.data.len() >= 34 => {
                let target = packet.data[30..34].iter().fold(0, |value, byte| value << 8 | u128::from(*byte));
                *seen.entry(target).or_insert(0_u64) += 1;
                let matching = Match::default().with(Field::EthType, 0x800).with(Field::Ipv4Dst, target);
                let add = delete_all_as(FlowCommand::Add);
                let flow =
                    FlowMod { matching, priority: 10, idle_timeout_s: 60, instructions: vec![to_port(2)], ..add };
                put(&mut out, 3, &Message::FlowMod(flow));
                answered += 1;
            }
            _ => {}
        })?;
        switch.send(std::mem::take(&mut out))?;
    }
    let elapsed = seconds(began.elapsed());
    say!("packet-ins {answered} {elapsed:.4} destinations {}", seen.len());
    Ok(())
}

/// One echo after the other: the time of a message there and back.
fn echo(address: &str, count: u64) -> Result<()> {
    let mut switch = Connection::connect(address)?;
    let began = Instant::now();
    for number in 0..count {
        let mut request = Vec::new();
        put(&mut request, number as u32, &Message::EchoRequest(Vec::new()));
        switch.timed(request, |xid, message| xid == number as u32 && matches!(message, Message::EchoReply(_)))?;
    }
    say!("echo {count} {:.4}", seconds(began.elapsed()));
    Ok(())
}

fn put(out: &mut Vec<u8>, xid: u32, message: &Message) {
    encode(out, xid, message).expect("messages made here are short");
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// A connection to a switch, behind its hello. Everything that is sent goes through one queue of whole messages, which a thread of its own
/// writes: the switch may ask for an echo, or wait for its answers to be read, before it took all of a long queue.
struct Connection {
    stream: TcpStream,
    queue: Sender<Vec<u8>>,
    framer: Framer,
    buffer: Vec<u8>,
}

impl Connection {
    fn connect(address: &str) -> Result<Connection> {
        let stream = TcpStream::connect(address).map_err(|error| format!("connecting to {address}: {error}"))?;
        Connection::new(stream)
    }

    fn new(stream: TcpStream) -> Result<Connection> {
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).map_err(|error| error.to_string())?;
        let mut writer = stream.try_clone().map_err(|error| error.to_string())?;
        let (queue, messages) = channel::<Vec<u8>>();
        // A switch that is gone shows when it is read from.
        thread::spawn(move || messages.into_iter().all(|bytes| writer.write_all(&bytes).is_ok()));
        let mut connection = Connection { stream, queue, framer: Framer::default(), buffer: vec![0; 256 * 1024] };
        let mut hello = Vec::new();
        put(&mut hello, 0, &Message::Hello(Hello { versions: Some(1 << VERSION) }));
        put(&mut hello, 1, &Message::FeaturesRequest);
        connection.send(hello)?;
        let mut known = false;
        while !known {
            connection.receive(|_, message| known |= matches!(message, Message::FeaturesReply(_)))?;
        }
        Ok(connection)
    }

    /// Sends whole messages, behind those that wait.
    fn send(&mut self, messages: Vec<u8>) -> Result<()> {
        self.queue.send(messages).map_err(|_| "the switch closed the connection".into())
    }

    /// Sends whole messages; returns the time until `is_last`.
    fn timed(&mut self, messages: Vec<u8>, mut is_last: impl FnMut(u32, &Message) -> bool) -> Result<Duration> {
        let began = Instant::now();
        self.send(messages)?;
        let mut done = false;
        while !done {
            self.receive(|xid, message| done |= is_last(xid, message))?;
        }
        Ok(began.elapsed())
    }

    /// Waits for bytes, and hands out the messages that are whole. Echo requests are answered.
    fn receive(&mut self, mut each: impl FnMut(u32, &Message)) -> Result<()> {
        let count = self.stream.read(&mut self.buffer).map_err(|error| format!("waiting for the switch: {error}"))?;
        if count == 0 {
            return Err("the switch closed the connection".into());
        }
        let (mut taken, mut answers) = (0, Vec::new());
        while taken < count {
            taken += self.framer.receive(&self.buffer[taken..count]);
            while let Some((_, bytes)) = self.framer.next_message().map_err(|error| error.to_string())? {
                let (xid, message) = decode(bytes).map_err(|error| error.to_string())?;
                match message {
                    Message::Error(refused) => return Err(format!("refused: {:?} {refused:?}", refused.error())),
                    Message::EchoRequest(data) => put(&mut answers, xid, &Message::EchoReply(data)),
                    message => each(xid, &message),
                }
            }
        }
        if answers.is_empty() { Ok(()) } else { self.send(answers) }
    }
}
