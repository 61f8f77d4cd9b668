//! A switch in a folder of its own, stations at its ports, and a controller to command it.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use linerate_control::{Connection, ControlError};
use linerate_mem::{Batch, Pool};
use linerate_ofswitch::document::Snapshot;
use linerate_ofswitch::request::{Request, What};
use linerate_ofswitch::{Config, Options, Running, start};
use linerate_openflow::{
    FlowCommand, Framer, Hello, Match, Message, NO_BUFFER, PacketIn, PacketOut, PortNumber, decode, encode,
};
use linerate_openflow_text::{parse_actions, parse_flow};
use linerate_port::Port;
use serde::Serialize;
use serde_json::Value;

/// How long something may take that is to come for sure.
pub const LONG: Duration = Duration::from_secs(60);

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "it does not come: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A configuration with pipes as ports 1, 2, ..., and an address to listen at.
pub fn config(test: &str, ports: usize) -> Config {
    let mut config = Config { dpid: Some(linerate_control::SettingValue("abc".into())), ..Config::default() };
    for number in 1..=ports {
        config.add_port(&format!("{number}=pipe:{test}-{number}")).unwrap();
    }
    config.listen.push("ptcp:0:127.0.0.1".into());
    config
}

pub fn start_in(folder: &Path, config: &Config) -> Running {
    start(config, Options { folder: Some(folder.into()), ..Options::default() })
        .unwrap_or_else(|error| panic!("{error}"))
}

/// As [`start_in`], with all that the switch says.
pub fn start_heard(folder: &Path, config: &Config) -> (Running, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&heard);
    let on_event = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
    let running = start(config, Options { folder: Some(folder.into()), on_event });
    (running.unwrap_or_else(|error| panic!("{error}")), heard)
}

pub fn ask(running: &Running, request: &impl Serialize) -> Result<Value, ControlError> {
    Connection::to(running.dir())?.ask(request)
}

pub fn show(running: &Running, what: What) -> Value {
    ask(running, &Request::Show { what, after: None }).unwrap()
}

pub fn snapshot(running: &Running) -> Snapshot {
    running.snapshot().unwrap()
}

/// Where the switch listens.
pub fn address(running: &Running) -> SocketAddr {
    running.listening()[0].address
}

/// Ends a switch whose account must balance.
pub fn stop(running: Running) -> Snapshot {
    let ended = running.stop().unwrap();
    assert_eq!((ended.frames_missing, &ended.snapshot.totals.unbalanced), (0, &None), "{:?}", ended.snapshot.totals);
    ended.snapshot
}

/// The far side of a pipe port of the switch.
pub struct Station {
    pub port: Box<dyn Port>,
    pub pool: Pool,
    pub batch: Batch,
}

impl Station {
    pub fn join(running: &Running, test: &str, number: usize) -> Station {
        Station::at(running, &format!("pipe:{test}-{number}"))
    }

    pub fn at(running: &Running, spec: &str) -> Station {
        let pool = running.pool().clone();
        let port = linerate_ports::open(spec, &pool).unwrap();
        let batch = Batch::new(&pool, 256);
        Station { port, pool, batch }
    }

    /// Sends `count` packets of 60 bytes that carry a mark; returns how many the pipe took.
    pub fn send(&mut self, mark: u8, count: usize) -> usize {
        self.pool.alloc(&mut self.batch, count, 60);
        for packet in self.batch.iter_mut() {
            packet.copy_from_slice(&marked(mark));
        }
        let sent = self.port.transmit(&mut self.batch).unwrap();
        self.pool.free(&mut self.batch);
        sent
    }

    /// Sends all of `count` packets.
    pub fn send_all(&mut self, mark: u8, count: usize) {
        let mut left = count;
        wait_until("the pipe takes all packets", || {
            left -= self.send(mark, left.min(64));
            left == 0
        });
    }

    /// Takes what is there: the marks of the packets.
    pub fn receive(&mut self) -> Vec<u8> {
        self.port.receive(&mut self.batch).unwrap();
        let marks = self.batch.iter_mut().map(|packet| packet[59]).collect();
        self.pool.free(&mut self.batch);
        marks
    }

    /// Waits for so many packets, and takes them.
    pub fn expect(&mut self, count: usize) -> Vec<u8> {
        let mut marks = Vec::new();
        wait_until("packets arrive", || {
            marks.extend(self.receive());
            marks.len() >= count
        });
        assert_eq!(marks.len(), count);
        marks
    }
}

/// A UDP-less IPv4 packet of 60 bytes that ends with a mark.
pub fn marked(mark: u8) -> [u8; 60] {
    let mut packet = [0; 60];
    packet[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    packet[12..14].copy_from_slice(&[0x88, 0xb5]);
    packet[59] = mark;
    packet
}

/// Bytes in both directions.
pub trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// A controller's side of a connection.
pub struct Controller {
    pub wire: Box<dyn Wire>,
    frames: Framer,
    xid: u32,
    /// Messages that came and nobody has asked for.
    pub waiting: Vec<(u32, Message)>,
}

impl Controller {
    /// Connects to a switch that listens, and says hello.
    pub fn connect(running: &Running) -> Controller {
        Controller::over(TcpStream::connect(address(running)).unwrap())
    }

    /// Waits for a switch that connects, and says hello.
    pub fn accept(listener: &TcpListener) -> Controller {
        Controller::over(listener.accept().unwrap().0)
    }

    pub fn over(stream: TcpStream) -> Controller {
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        Controller::of(Box::new(stream))
    }

    pub fn of(wire: Box<dyn Wire>) -> Controller {
        let mut controller = Controller { wire, frames: Framer::default(), xid: 100, waiting: Vec::new() };
        controller.send(&Message::Hello(Hello { versions: Some(1 << 4) }));
        controller.expect(|_, message| matches!(message, Message::Hello(_)));
        controller
    }

    /// Sends a message; returns its transaction.
    pub fn send(&mut self, message: &Message) -> u32 {
        self.xid += 1;
        let mut bytes = Vec::new();
        encode(&mut bytes, self.xid, message).unwrap();
        self.wire.write_all(&bytes).unwrap();
        self.wire.flush().unwrap();
        self.xid
    }

    /// The next message; `None` when the switch has closed the connection. Echo requests are answered.
    pub fn next(&mut self) -> Option<(u32, Message)> {
        let deadline = Instant::now() + LONG;
        loop {
            assert!(Instant::now() < deadline, "no message comes but echo requests");
            if let Some((_, bytes)) = self.frames.next_message().unwrap() {
                let (xid, message) = decode(bytes).unwrap();
                if let Message::EchoRequest(data) = message {
                    let mut bytes = Vec::new();
                    encode(&mut bytes, xid, &Message::EchoReply(data)).unwrap();
                    self.wire.write_all(&bytes).unwrap();
                    continue;
                }
                return Some((xid, message));
            }
            let mut bytes = [0; 4096];
            let len = self.wire.read(&mut bytes).ok().filter(|len| *len > 0)?;
            assert_eq!(self.frames.receive(&bytes[..len]), len);
        }
    }

    /// Waits for a message that is wanted; others wait.
    pub fn expect(&mut self, wanted: impl Fn(u32, &Message) -> bool) -> Message {
        if let Some(place) = self.waiting.iter().position(|(xid, message)| wanted(*xid, message)) {
            return self.waiting.remove(place).1;
        }
        let deadline = Instant::now() + LONG;
        loop {
            let (xid, message) = self.next().expect("the connection lives");
            if wanted(xid, &message) {
                return message;
            }
            self.waiting.push((xid, message));
            assert!(Instant::now() < deadline, "the message does not come");
        }
    }

    /// Sends a request, and waits for the answer.
    pub fn ask(&mut self, message: &Message) -> Message {
        let xid = self.send(message);
        self.expect(|answered, _| answered == xid)
    }

    /// Waits until everything before is in force.
    pub fn barrier(&mut self) {
        assert_eq!(self.ask(&Message::BarrierRequest), Message::BarrierReply);
    }

    /// Adds an entry in ovs-ofctl's words, and waits until it is in force.
    pub fn add_flow(&mut self, text: &str) {
        self.send(&Message::FlowMod(parse_flow(text, FlowCommand::Add).unwrap()));
        self.barrier();
    }

    /// Sends a packet with a mark, with actions in ovs-ofctl's words.
    pub fn packet_out(&mut self, mark: u8, actions: &str) {
        self.send(&packet_out(mark, actions));
    }

    pub fn packet_in(&mut self) -> PacketIn {
        match self.expect(|_, message| matches!(message, Message::PacketIn(_))) {
            Message::PacketIn(packet) => packet,
            other => panic!("{other:?}"),
        }
    }
}

pub fn packet_out(mark: u8, actions: &str) -> Message {
    Message::PacketOut(PacketOut {
        buffer_id: NO_BUFFER,
        in_port: PortNumber::CONTROLLER,
        actions: parse_actions(actions, &Match::default()).unwrap(),
        data: marked(mark).to_vec(),
    })
}
