//! Two hosts of this process, which a memif joins.
#![allow(dead_code, reason = "each test crate uses a part")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use linerate_endpoints::sockets::Host;
use linerate_endpoints::{NetworkConfig, Options, Running, StackOptions, start};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, OpenOptions, Readiness};
use linerate_programs::Reports;

/// How long something may take that is to come for sure.
pub const LONG: Duration = Duration::from_secs(120);

/// A link for two stacks.
pub struct Link(pub tempfile::TempDir);

impl Link {
    pub fn new() -> Link {
        Link(tempfile::tempdir().unwrap())
    }

    /// Where end 1 or end 2 is.
    pub fn network(&self, end: u8) -> NetworkConfig {
        let role = if end == 1 { "" } else { ",role=client" };
        NetworkConfig {
            port: format!("memif:{}{role}", self.0.path().join("link.sock").display()),
            addresses: vec![
                format!("198.18.5.{end}/24").parse().unwrap(),
                format!("fd00:5::{end}/64").parse().unwrap(),
            ],
            no_duplicate_detection: true,
            ..NetworkConfig::default()
        }
    }

    pub fn options(&self, name: &str) -> Options {
        Options {
            name: name.into(),
            folder: Some(self.0.path().to_owned()),
            cores: Vec::new(),
            stack: StackOptions { connections_max: 10_000, preallocated_connections: 0 },
            capture: (name == "end2").then(|| self.0.path().join("frames.pcapng")),
            on_event: Box::new(|_| {}),
        }
    }

    pub fn start<P: Reports>(&self, end: u8, program: P) -> Running<P> {
        start(program, &self.network(end), self.options(&format!("end{end}"))).unwrap()
    }

    pub fn host(&self, end: u8) -> Host {
        Host::start(&self.network(end), self.options(&format!("end{end}"))).unwrap()
    }
}

/// That port of all addresses.
pub fn any(port: u16) -> Vec<SocketAddr> {
    vec![format!("0.0.0.0:{port}").parse().unwrap(), format!("[::]:{port}").parse().unwrap()]
}

/// Frames in a capture file.
pub fn frames_of(path: &Path) -> u64 {
    let pool = Pool::new(PoolConfig { frames: 1024, frame_size: 2048 }).unwrap();
    let file = linerate_ports::file(&path.display().to_string());
    let mut port = linerate_ports::open_device(&file, &OpenOptions::default(), &pool).unwrap().into_port();
    let mut batch = Batch::new(&pool, 64);
    let mut frames = 0;
    loop {
        let received = port.receive(&mut batch).unwrap();
        frames += received as u64;
        pool.clone().free(&mut batch);
        if received == 0 && port.wait(Interest::Receive, 1_000_000).unwrap() == Readiness::Closed {
            return frames;
        }
    }
}
