//! The contract of ports: a server and a client of one process, in both directions.

mod common;

use common::{Socket, connected, open, pool};
use linerate_mem::{Pool, PoolConfig};
use linerate_port::Port;
use linerate_port_memif::MemifPort;
use linerate_testkit::child::{self, Child, Signal};
use linerate_testkit::{Facts, Harness, Link, check_all};

struct Memif {
    server_sends: bool,
    server: &'static str,
    client: &'static str,
    /// Slots that a packet of the suite needs at most.
    slots_per_packet: usize,
    /// Frames of 512 bytes: packets go over several.
    small_frames: bool,
    /// The client lends the frames of the pool, which then is made for it.
    lends: bool,
    /// The queue pair that is checked.
    queue: usize,
    /// Held while its link is in use.
    socket: Option<Socket>,
}

const PLAIN: Memif = Memif {
    server_sends: true,
    server: "",
    client: "",
    slots_per_packet: 1,
    small_frames: false,
    lends: false,
    queue: 0,
    socket: None,
};

impl Harness for Memif {
    fn name(&self) -> String {
        let (from, to) = if self.server_sends { ("server", "client") } else { ("client", "server") };
        let lends = if self.lends { ",zerocopy" } else { "" };
        format!("memif {from} to {to} {}{}{lends}", self.server, self.client)
    }

    fn facts(&self) -> Facts {
        // More than 65,536 indices twice.
        Facts {
            wrap_packets: 140_000,
            window: 128 / self.slots_per_packet,
            lossless: true,
            len_min: 14,
            ..Facts::default()
        }
    }

    fn pool(&self) -> PoolConfig {
        let frame_size = if self.small_frames { 1024 } else { 2048 };
        PoolConfig { frames: 4096, frame_size }
    }

    fn make_pool(&mut self) -> Result<Pool, String> {
        let config = self.pool();
        if self.lends {
            return self.socket.insert(Socket::new()).pool(config);
        }
        Pool::new(config).map_err(|error| error.to_string())
    }

    fn open(&mut self, pool: &Pool, _start: u32) -> Result<Link, String> {
        let socket = if self.lends { self.socket.take().ok_or("no pool was made")? } else { Socket::new() };
        let client = format!("{}{}", self.client, if self.lends { ",zerocopy" } else { "" });
        let mut servers = socket.open_all(self.server, pool)?;
        let mut clients = socket.open_all(&format!("{client},role=client"), pool)?;
        connected(&mut servers.iter_mut().chain(&mut clients).collect::<Vec<_>>())?;
        self.socket = Some(socket);
        let boxed = |ports: Vec<MemifPort>| ports.into_iter().map(|port| Box::new(port) as Box<dyn Port>).collect();
        let (servers, clients) = (boxed(servers), boxed(clients));
        let (senders, receivers) = if self.server_sends { (servers, clients) } else { (clients, servers) };
        Ok(Link::Queues { senders, receivers, queue: self.queue })
    }

    fn left_behind(&mut self) -> Option<Result<Vec<String>, String>> {
        Some(self.kill_a_server())
    }
}

impl Memif {
    /// The socket's file of a dead process stays, and is in nobody's way.
    fn kill_a_server(&mut self) -> Result<Vec<String>, String> {
        let socket = Socket::new();
        let child = Child::start("child_port", socket.path()).map_err(|error| error.to_string())?;
        let refusal = socket.open("", &pool()).map(|_| "two processes listen at one socket".to_string());
        match refusal {
            Ok(wrong) => return Err(wrong),
            Err(refusal) if refusal.contains("another process listens") => {}
            Err(other) => return Err(other),
        }
        child.end(Signal::Kill).map_err(|error| error.to_string())?;
        drop(socket.open("", &pool())?);
        Ok(if std::fs::exists(socket.path()).unwrap_or(true) { vec!["the socket's file".into()] } else { vec![] })
    }
}

#[test]
fn child_port() {
    let Some(path) = child::task() else { return };
    let _port = open(&format!("memif:{path}"), &pool()).unwrap();
    child::ready_and_wait();
}

#[test]
fn server_to_client() {
    check_all(&mut Memif { ..PLAIN });
}

#[test]
fn client_to_server() {
    check_all(&mut Memif { server_sends: false, ..PLAIN });
}

#[test]
fn each_of_two_queues() {
    check_all(&mut Memif { server: ",rings=2", client: ",rings=2", ..PLAIN });
    check_all(&mut Memif { server: ",rings=2", client: ",rings=2", queue: 1, server_sends: false, ..PLAIN });
}

#[test]
fn server_to_client_by_polling_through_a_small_ring() {
    check_all(&mut Memif { server: ",mode=poll", client: ",mode=poll,slots=128", ..PLAIN });
}

#[test]
fn client_to_server_over_small_buffers_into_small_frames() {
    check_all(&mut Memif {
        server_sends: false,
        client: ",buffer=600",
        small_frames: true,
        slots_per_packet: 4,
        ..PLAIN
    });
}

#[test]
fn server_to_client_over_small_buffers_into_small_frames() {
    check_all(&mut Memif { client: ",buffer=600", small_frames: true, slots_per_packet: 4, ..PLAIN });
}

#[test]
fn server_to_client_without_a_copy_there() {
    check_all(&mut Memif { lends: true, ..PLAIN });
}

#[test]
fn client_to_server_without_a_copy_here() {
    check_all(&mut Memif { server_sends: false, lends: true, ..PLAIN });
}

#[test]
fn server_to_client_without_a_copy_there_by_polling_through_a_small_ring() {
    check_all(&mut Memif { server: ",mode=poll", client: ",mode=poll,slots=128", lends: true, ..PLAIN });
}

#[test]
fn small_frames_that_are_lent() {
    for server_sends in [true, false] {
        check_all(&mut Memif { server_sends, small_frames: true, slots_per_packet: 4, lends: true, ..PLAIN });
    }
}
