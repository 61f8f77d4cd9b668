//! The echo of `tcp-echo` over smoltcp: two of its interfaces on one thread, joined by memory, without checksums and link headers, one byte
//! there and back on each of 256 connections. Prints echoes for a second of thread CPU time.
//!
//!     cargo run --release -p linerate-benches --example smoltcp-echo -- [CONNECTIONS [SECONDS]]

use std::collections::VecDeque;
use std::process::ExitCode;

use smoltcp::iface::{Config, Interface, PollIngressSingleResult, SocketHandle, SocketSet, SocketStorage};
use smoltcp::phy::{Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

/// Bytes of each of a socket's two buffers.
const BUFFER_BYTES: usize = 512;
const PORT: u16 = 7;
const SERVER: IpAddress = IpAddress::v4(198, 18, 0, 1);
const CLIENT: IpAddress = IpAddress::v4(198, 18, 0, 2);
/// Rounds between two looks at the clocks.
const ROUNDS_PER_LOOK: u64 = 256;

/// One end of a link: packets that arrived, packets that leave, and empty buffers.
#[derive(Default)]
struct End {
    arrived: VecDeque<Vec<u8>>,
    leaving: VecDeque<Vec<u8>>,
    free: Vec<Vec<u8>>,
}

struct Received<'a>(Vec<u8>, &'a mut Vec<Vec<u8>>);
struct Sent<'a>(&'a mut VecDeque<Vec<u8>>, Vec<u8>);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        let result = read(&self.0);
        self.1.push(self.0);
        result
    }
}

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(mut self, len: usize, write: F) -> R {
        self.1.resize(len, 0);
        let result = write(&mut self.1);
        self.0.push_back(self.1);
        result
    }
}

impl Device for End {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Sent<'_>)> {
        let packet = self.arrived.pop_front()?;
        let reply = self.free.pop().unwrap_or_default();
        Some((Received(packet, &mut self.free), Sent(&mut self.leaving, reply)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sent<'_>> {
        let packet = self.free.pop().unwrap_or_default();
        Some(Sent(&mut self.leaving, packet))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = DeviceCapabilities::default();
        (caps.medium, caps.max_transmission_unit) = (Medium::Ip, 1500);
        let mut none = ChecksumCapabilities::default();
        (none.ipv4, none.tcp) = (Checksum::None, Checksum::None);
        caps.checksum = none;
        caps
    }
}

/// One stack, its end of the link, and its sockets.
struct Side {
    end: End,
    interface: Interface,
    sockets: SocketSet<'static>,
    handles: Vec<SocketHandle>,
}

impl Side {
    fn new(address: IpAddress, connections: usize) -> Side {
        let mut end = End::default();
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut end, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            let _ = addresses.push(IpCidr::new(address, 24));
        });
        let places: Vec<SocketStorage<'_>> = (0..connections).map(|_| SocketStorage::EMPTY).collect();
        let mut sockets = SocketSet::new(places.leak());
        // Memory that lives as long as the program: what smoltcp takes without its feature `alloc`.
        let buffer = || SocketBuffer::new(vec![0; BUFFER_BYTES].leak());
        let mut socket = || {
            let mut socket = Socket::new(buffer(), buffer());
            socket.set_nagle_enabled(false);
            sockets.add(socket)
        };
        let handles = (0..connections).map(|_| socket()).collect();
        Side { end, interface, sockets, handles }
    }

    /// Works on all packets that arrived.
    fn receive(&mut self, now: Instant) {
        let Side { end, interface, sockets, .. } = self;
        while interface.poll_ingress_single(now, end, sockets) != PollIngressSingleResult::None {}
    }

    /// Sends what the sockets have.
    fn send(&mut self, now: Instant) {
        self.interface.poll_egress(now, &mut self.end, &mut self.sockets);
    }

    /// Answers each byte that arrived with one; returns how many there were.
    fn answer(&mut self) -> u64 {
        let mut bytes = 0;
        for handle in &self.handles {
            let socket = self.sockets.get_mut::<Socket<'_>>(*handle);
            let mut byte = [0];
            if socket.can_recv() && socket.recv_slice(&mut byte) == Ok(1) {
                bytes += u64::from(socket.send_slice(&byte) == Ok(1));
            }
        }
        bytes
    }
}

fn run(connections: usize, seconds: f64) -> Result<String, String> {
    let text = |error: &dyn std::fmt::Debug| format!("{error:?}");
    let (mut server, mut client) = (Side::new(SERVER, connections), Side::new(CLIENT, connections));
    let began = std::time::Instant::now();
    let time = || Instant::from_micros(began.elapsed().as_micros() as i64);
    for (number, (listening, begun)) in server.handles.iter().zip(&client.handles).enumerate() {
        server.sockets.get_mut::<Socket<'_>>(*listening).listen(PORT).map_err(|error| text(&error))?;
        let socket = client.sockets.get_mut::<Socket<'_>>(*begun);
        let connected = socket.connect(client.interface.context(), (SERVER, PORT), 1024 + number as u16);
        connected.map_err(|error| text(&error))?;
    }
    let (mut echoes, mut round, mut now) = (0, 0_u64, time());
    let (mut measured_from, mut counted_from) = (None, 0);
    loop {
        if round.is_multiple_of(ROUNDS_PER_LOOK) {
            now = time();
            let cpu_ns = linerate_sys::clock::thread_cpu_ns();
            let ready = client.handles.iter().all(|handle| client.sockets.get::<Socket<'_>>(*handle).may_send());
            match measured_from {
                None if ready => {
                    for handle in &client.handles {
                        let sent = client.sockets.get_mut::<Socket<'_>>(*handle).send_slice(&[7]);
                        sent.map_err(|error| text(&error))?;
                    }
                    (measured_from, counted_from) = (Some(cpu_ns), echoes);
                }
                Some(from_ns) if (cpu_ns - from_ns) as f64 >= seconds * 1e9 => {
                    let rate = (echoes - counted_from) as f64 * 1e3 / (cpu_ns - from_ns) as f64;
                    return Ok(format!("{connections} connections: {rate:.3} M echoes/s"));
                }
                _ => {}
            }
        }
        client.send(now);
        std::mem::swap(&mut client.end.leaving, &mut server.end.arrived);
        server.receive(now);
        server.answer();
        server.send(now);
        std::mem::swap(&mut server.end.leaving, &mut client.end.arrived);
        client.receive(now);
        echoes += client.answer();
        round += 1;
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let connections = words.next().map_or(Ok(256), |word| word.parse());
    let seconds = words.next().map_or(Ok(2.0), |word| word.parse());
    let (Ok(connections @ 1..=60_000), Ok(seconds)) = (connections, seconds) else {
        eprintln!("smoltcp-echo [CONNECTIONS (1 to 60000) [SECONDS]]");
        return ExitCode::FAILURE;
    };
    match run(connections, seconds) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("smoltcp-echo: {problem}");
            ExitCode::FAILURE
        }
    }
}
