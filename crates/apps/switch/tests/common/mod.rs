//! A switch in a folder of its own, and packets to send through it.
#![allow(dead_code)]

use std::path::Path;
use std::time::{Duration, Instant};

use linerate_control::{Connection, ControlError};
use linerate_mem::{Batch, Pool};
use linerate_port::Port;
use linerate_switch::config::Config;
use linerate_switch::document::Snapshot;
use linerate_switch::request::{Request, What};
use linerate_switch::{Options, Running, start};
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

/// A switch with these ports, in words of `--port`.
pub fn switch(folder: &Path, ports: &[&str]) -> Running {
    let mut config = Config { ports_max: Some(ports.len() + 4), ..Config::default() };
    ports.iter().for_each(|port| config.add_port(port).unwrap());
    start_in(folder, &config)
}

pub fn start_in(folder: &Path, config: &Config) -> Running {
    start(config, Options { folder: Some(folder.into()), ..Options::default() })
        .unwrap_or_else(|error| panic!("{error}"))
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

/// The far side of a pipe port of the switch.
pub struct Station {
    pub port: Box<dyn Port>,
    pub pool: Pool,
    pub batch: Batch,
    /// Station number: its address is 02:00:00:00:00:NUMBER.
    pub number: u8,
    pub sent: u64,
    pub received: u64,
}

impl Station {
    pub fn join(running: &Running, pipe: &str, number: u8) -> Station {
        let pool = running.pool().clone();
        let port = linerate_ports::open(&format!("pipe:{pipe}"), &pool).unwrap();
        let batch = Batch::new(&pool, 256);
        Station { port, pool, batch, number, sent: 0, received: 0 }
    }

    /// Sends up to `count` packets to another station; returns how many the pipe took.
    pub fn send(&mut self, to: u8, count: usize) -> usize {
        let taken = self.pool.alloc(&mut self.batch, count, 60);
        for packet in self.batch.iter_mut() {
            packet.fill(0);
            packet[..6].copy_from_slice(&[2, 0, 0, 0, 0, to]);
            packet[6..12].copy_from_slice(&[2, 0, 0, 0, 0, self.number]);
            packet[12..14].copy_from_slice(&[0x08, 0x00]);
        }
        let sent = self.port.transmit(&mut self.batch).unwrap();
        self.pool.free(&mut self.batch);
        self.sent += sent as u64;
        assert!(taken <= count);
        sent
    }

    /// Takes what is there, and gives the frames back.
    pub fn receive(&mut self) -> usize {
        let received = self.port.receive(&mut self.batch).unwrap();
        self.pool.free(&mut self.batch);
        self.received += received as u64;
        received
    }

    /// Frames that this side keeps in hand, for others.
    pub fn flush(&mut self) {
        self.pool.flush();
    }
}
