//! Controllers that break the rules, as fast as they can.
//!
//! None of what they send changes the entries of the switch: messages that happen to be good and would change something are left out.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use linerate_benches::say;
use linerate_openflow::{Action, Message, NO_BUFFER, PacketOut, PortNumber, decode};

use super::{Connection, Result, delete_all, new_flow, put, seconds};

/// Connections of a kind that holds many open.
const CROWD: usize = 64;
/// Bytes of fuzzed messages that are sent before answers are read.
const FUZZ_BYTES: usize = 16 << 10;
/// A write or read that makes no progress ends after this time.
const PATIENCE: Duration = Duration::from_millis(100);

/// What an attack did, and what came back.
#[derive(Default)]
struct Account {
    connections: u64,
    refused: u64,
    /// Connections that the switch closed.
    closed: u64,
    sent_bytes: u64,
    received_bytes: u64,
}

/// Attacks the switch at `address` for some time, and prints what came of it.
pub fn attack(kind: &str, address: &str, time: Duration) -> Result<()> {
    let (mut account, end) = (Account::default(), Instant::now() + time);
    let began = Instant::now();
    match kind {
        "fuzz" => fuzz(address, end, &mut account),
        "half" => crowd(address, end, &mut account, half),
        "connections" => crowd(address, end, &mut account, |_| Vec::new()),
        "packet-outs" => packet_outs(address, end, &mut account)?,
        "tls" => crowd(address, end, &mut account, handshake),
        _ => return Err(format!("there is no attack {kind}")),
    }
    let Account { connections, refused, closed, sent_bytes, received_bytes } = account;
    let elapsed = seconds(began.elapsed());
    say!(
        "attack {kind} {elapsed:.1} connections {connections} refused {refused} closed {closed} sent {sent_bytes} received {received_bytes}"
    );
    Ok(())
}

impl Account {
    fn connect(&mut self, address: &str) -> Option<TcpStream> {
        self.connections += 1;
        let stream = TcpStream::connect(address).and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            Ok(stream)
        });
        self.refused += u64::from(stream.is_err());
        stream.ok()
    }

    /// Writes as much as the switch takes; false if the connection is over.
    fn write(&mut self, stream: &mut TcpStream, bytes: &[u8]) -> bool {
        match stream.write(bytes) {
            Ok(len) => self.sent_bytes += len as u64,
            Err(error) if is_wait(error.kind()) => {}
            Err(_) => {
                self.closed += 1;
                return false;
            }
        }
        true
    }

    /// Reads what is there; false if the connection is over.
    fn read(&mut self, stream: &mut TcpStream) -> bool {
        let mut bytes = [0; 64 << 10];
        match stream.read(&mut bytes) {
            Ok(len @ 1..) => self.received_bytes += len as u64,
            Err(error) if is_wait(error.kind()) => {}
            Ok(0) | Err(_) => {
                self.closed += 1;
                return false;
            }
        }
        true
    }
}

fn is_wait(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Connections that bring messages with bytes changed at random, also in their lengths.
fn fuzz(address: &str, end: Instant, account: &mut Account) {
    let mut random = Random(1);
    while Instant::now() < end {
        let Some(mut stream) = account.connect(address) else { continue };
        let mut alive = account.write(&mut stream, &hello());
        while alive && Instant::now() < end {
            let mut bytes = Vec::with_capacity(FUZZ_BYTES);
            while bytes.len() < FUZZ_BYTES {
                bytes.extend(fuzzed(&mut random));
            }
            alive = account.write(&mut stream, &bytes) && account.read(&mut stream);
        }
    }
}

/// A message that is broken, or that changes nothing.
fn fuzzed(random: &mut Random) -> Vec<u8> {
    loop {
        let mut bytes = Vec::new();
        match random.below(6) {
            0 => put(&mut bytes, 1, &Message::FlowMod(new_flow(random.below(1000)))),
            1 => put(&mut bytes, 2, &Message::FlowMod(delete_all())),
            2 => put(&mut bytes, 3, &Message::BarrierRequest),
            3 => put(&mut bytes, 4, &packet_out(1500)),
            4 => put(&mut bytes, 5, &Message::FeaturesRequest),
            _ => {
                bytes = vec![0; 8 + random.below(200) as usize];
                bytes.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
                let len = bytes.len() as u8;
                bytes[..4].copy_from_slice(&[4, random.below(32) as u8, 0, len.max(8)]);
            }
        }
        for _ in 0..=random.below(4) {
            // Lengths only now and then, because a wrong one ends the connection.
            let from = if random.below(64) == 0 { 2 } else { 8 };
            if bytes.len() > from {
                let place = from + random.below((bytes.len() - from) as u64) as usize;
                bytes[place] = random.below(256) as u8;
            }
        }
        match decode(&bytes) {
            Ok((_, message)) if changes_something(&message) => {}
            _ => return bytes,
        }
    }
}

fn changes_something(message: &Message) -> bool {
    let harmless = matches!(
        message,
        Message::Hello(_)
            | Message::EchoRequest(_)
            | Message::BarrierRequest
            | Message::FeaturesRequest
            | Message::GetConfigRequest
            | Message::PacketOut(_)
    );
    !harmless
}

/// Half of a message, and silence.
fn half(number: usize) -> Vec<u8> {
    let mut bytes = hello();
    put(&mut bytes, 2, &packet_out(1500));
    bytes.truncate(1 + number * 23 % (bytes.len() - 1));
    bytes
}

/// Many connections that say `words` each, and then nothing; the switch closes some, and others take their places.
fn crowd(address: &str, end: Instant, account: &mut Account, words: impl Fn(usize) -> Vec<u8>) {
    let mut crowd: Vec<TcpStream> = Vec::new();
    let mut number = 0;
    while Instant::now() < end {
        if let Some(mut stream) = account.connect(address) {
            number += 1;
            let words = words(number);
            if words.is_empty() || account.write(&mut stream, &words) {
                let _ = stream.set_nonblocking(true);
                crowd.push(stream);
            }
        }
        if crowd.len() >= CROWD {
            // Those that the switch has closed make way, and if it has closed none, the oldest.
            let before = crowd.len();
            crowd.retain_mut(|stream| account.read(stream));
            if crowd.len() == before {
                crowd.remove(0);
            }
        }
    }
}

/// Packet-outs without a pause, to a port that there is not and to one that there is.
fn packet_outs(address: &str, end: Instant, account: &mut Account) -> Result<()> {
    account.connections += 1;
    let mut connection = Connection::connect(address)?;
    let mut bytes = Vec::new();
    for _ in 0..500 {
        put(&mut bytes, 1, &packet_out(1000));
    }
    let wait = |error: std::io::Error| error.to_string();
    connection.stream.set_read_timeout(Some(Duration::from_millis(1))).map_err(wait)?;
    let mut left = &bytes[..];
    while Instant::now() < end {
        match connection.stream.write(left) {
            Ok(len) => {
                account.sent_bytes += len as u64;
                left = if len == left.len() { &bytes } else { &left[len..] };
            }
            Err(error) if is_wait(error.kind()) => {}
            Err(error) => return Err(format!("the switch closed the connection: {error}")),
        }
    }
    Ok(())
}

fn packet_out(len: usize) -> Message {
    let action = Action::Output { port: PortNumber(3), max_len: 0 };
    let in_port = PortNumber::CONTROLLER;
    Message::PacketOut(PacketOut { buffer_id: NO_BUFFER, in_port, actions: vec![action], data: vec![0x5a; len] })
}

fn hello() -> Vec<u8> {
    vec![4, 0, 0, 8, 0, 0, 0, 1]
}

/// The start of a TLS handshake: none of it, a part, or a whole ClientHello of TLS 1.3 (RFC 8446 section 4.1.2), for which the switch
/// computes a key and a signature, and whose answer nobody takes up.
fn handshake(number: usize) -> Vec<u8> {
    let mut extensions = Vec::new();
    let mut extension = |kind: u16, body: &[u8]| {
        extensions.extend(kind.to_be_bytes());
        extensions.extend((body.len() as u16).to_be_bytes());
        extensions.extend(body);
    };
    extension(43, &[2, 3, 4]);
    extension(10, &[0, 2, 0, 29]);
    extension(13, &[0, 8, 4, 3, 8, 4, 4, 1, 8, 7]);
    let mut share = vec![0, 36, 0, 29, 0, 32];
    share.extend([9 + number as u8 % 64; 32]);
    extension(51, &share);
    let mut body = vec![3, 3];
    body.extend([number as u8; 32]);
    body.push(32);
    body.extend([7; 32]);
    body.extend([0, 2, 0x13, 1, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut record = vec![22, 3, 1];
    record.extend((body.len() as u16 + 4).to_be_bytes());
    record.extend([1, 0]);
    record.extend((body.len() as u16).to_be_bytes());
    record.extend(body);
    if number.is_multiple_of(4) {
        record.truncate(number % 64);
    }
    record
}

/// The same numbers on each run (a linear congruential generator with Knuth's constants).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
