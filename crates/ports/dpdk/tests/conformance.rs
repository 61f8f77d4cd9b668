//! The contract of ports: virtual devices of DPDK that are joined inside this process.
#![cfg(feature = "libdpdk")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use linerate_mem::{Batch, Pool};
use linerate_port::{Caps, Interest, LinkState, Port, PortError, Readiness, Stats};
use linerate_port_dpdk::DpdkPort;
use linerate_testkit::{Facts, Harness, Link, check_all};

/// DPDK has 32 ports a process, and lists of devices that are for one thread at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that no other device of this process has.
fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn open(text: &str, pool: &Pool) -> Result<Vec<DpdkPort>, String> {
    let spec = text.parse().map_err(|error: linerate_port::SpecError| error.to_string())?;
    linerate_port_dpdk::open(spec, pool).map(linerate_port::Device::into_ports).map_err(|error| error.to_string())
}

fn one(text: &str, pool: &Pool) -> Result<Box<dyn Port>, String> {
    Ok(Box::new(open(text, pool)?.remove(0)))
}

/// net_null: nobody sees what is sent.
struct Null;

impl Harness for Null {
    fn name(&self) -> String {
        "dpdk net_null".into()
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        Ok(Link::Sender(one(&format!("dpdk:net_null{}", number()), pool)?))
    }
}

#[test]
fn null() {
    let _alone = alone();
    check_all(&mut Null);
}

/// One end of a device whose own packets come back to it.
struct Half {
    port: Arc<Mutex<DpdkPort>>,
    caps: Caps,
}

impl Half {
    fn port(&self) -> MutexGuard<'_, DpdkPort> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port for Half {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.port().receive(batch)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.port().transmit(batch)
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        self.port().wait(interest, timeout_ns)
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        self.port().stats()
    }
}

/// net_ring, whose packets come back to it.
struct Ring;

impl Harness for Ring {
    fn name(&self) -> String {
        "dpdk net_ring to itself".into()
    }

    fn facts(&self) -> Facts {
        Facts { wrap_packets: 140_000, lossless: true, ..Facts::default() }
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let port = open(&format!("dpdk:net_ring{}", number()), pool)?.remove(0);
        let caps = port.caps().clone();
        let port = Arc::new(Mutex::new(port));
        let sends = Caps { receives: false, ..caps.clone() };
        let sender = Box::new(Half { port: Arc::clone(&port), caps: sends });
        Ok(Link::Pair { sender, receiver: Box::new(Half { port, caps: Caps { transmits: false, ..caps } }) })
    }
}

#[test]
fn ring() {
    let _alone = alone();
    check_all(&mut Ring);
}

/// net_memif, connected to Linerate's own memif port. (The other way round DPDK drops what waits in its rings when the sender goes, so that
/// tests/virtual_devices.rs looks at that way.)
struct Memif {
    folder: tempfile::TempDir,
}

impl Harness for Memif {
    fn name(&self) -> String {
        "dpdk net_memif to memif".into()
    }

    fn facts(&self) -> Facts {
        Facts { wrap_packets: 140_000, lossless: true, ..Facts::default() }
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let socket = self.folder.path().join(format!("{}.sock", number()));
        let spec = format!("memif:{}", socket.display()).parse().map_err(|_| "a spec is wrong")?;
        let server = linerate_port_memif::open(spec, pool).map_err(|error| error.to_string())?.into_port();
        let device = format!("dpdk:net_memif{},role=client,socket={},socket-abstract=no", number(), socket.display());
        let (mut sender, mut receiver): (Box<dyn Port>, Box<dyn Port>) = (one(&device, pool)?, Box::new(server));
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_up(&mut sender)? || !is_up(&mut receiver)? {
            if Instant::now() > deadline {
                return Err("the client did not connect".into());
            }
            // The server works when it is asked for packets.
            receiver.wait(Interest::Receive, 1_000_000).map_err(|error| error.to_string())?;
        }
        Ok(Link::Pair { sender, receiver })
    }
}

fn is_up(port: &mut Box<dyn Port>) -> Result<bool, String> {
    port.link().map(|link| link == LinkState::Up).map_err(|error| error.to_string())
}

#[test]
fn memif() {
    let _alone = alone();
    check_all(&mut Memif { folder: tempfile::tempdir().unwrap() });
}
