//! Sockets of a test, and ports on both ends of them.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::time::{Duration, Instant};

use linerate_mem::{Pool, PoolConfig};
use linerate_port::Device;
use linerate_port_memif::MemifPort;

/// What must happen, happens within this time, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with the path of a socket.
pub struct Socket {
    _folder: tempfile::TempDir,
    path: String,
}

impl Socket {
    pub fn new() -> Socket {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memif.sock").display().to_string();
        Socket { _folder: folder, path }
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// The pool of a client at it that lends its frames.
    pub fn pool(&self, config: PoolConfig) -> Result<Pool, String> {
        pool_of(&format!("memif:{},role=client,zerocopy", self.path), config)
    }

    /// Opens a port on it; `options` begin with a comma or an `@`, or are empty.
    pub fn open(&self, options: &str, pool: &Pool) -> Result<MemifPort, String> {
        open(&format!("memif:{}{options}", self.path), pool)
    }

    /// Opens the ports of all its queue pairs.
    pub fn open_all(&self, options: &str, pool: &Pool) -> Result<Vec<MemifPort>, String> {
        open_device(&format!("memif:{}{options}", self.path), pool).map(Device::into_ports)
    }

    /// Both ends, connected.
    pub fn pair(&self, server: &str, client: &str, pool: &Pool) -> Result<(MemifPort, MemifPort), String> {
        let mut server = self.open(server, pool)?;
        let mut client = self.open(&format!("{client},role=client"), pool)?;
        connected(&mut [&mut server, &mut client])?;
        Ok((server, client))
    }
}

/// A pool that suits: made for the port, or any.
pub fn pool_of(spec: &str, config: PoolConfig) -> Result<Pool, String> {
    let spec = spec.parse().map_err(|error| format!("{error}"))?;
    if linerate_port_memif::has_own_memory(&spec) {
        return linerate_port_memif::pool(&spec, config).map_err(|error| error.to_string());
    }
    Pool::new(config).map_err(|error| error.to_string())
}

pub fn open(spec: &str, pool: &Pool) -> Result<MemifPort, String> {
    open_device(spec, pool).map(Device::into_port)
}

pub fn open_device(spec: &str, pool: &Pool) -> Result<Device<MemifPort>, String> {
    let spec = spec.parse().map_err(|error| format!("{error}"))?;
    linerate_port_memif::open(spec, pool).map_err(|error| error.to_string())
}

pub const CONFIG: PoolConfig = PoolConfig { frames: 4096, frame_size: 2048 };

pub fn pool() -> Pool {
    Pool::new(CONFIG).unwrap()
}

/// Waits until all of them have a peer.
pub fn connected(ports: &mut [&mut MemifPort]) -> Result<(), String> {
    until("a connection", || ports.iter_mut().all(|port| port.is_connected().unwrap_or(false)))
}

/// Waits for a condition.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        if Instant::now() > deadline {
            return Err(format!("no {what} within {PATIENCE:?}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
