//! smoltcp over the ports of the cell: an interface at each end, and a socket with two small buffers for each connection. Each of its rounds
//! looks at every socket, so it is made for few connections.

use linerate_mem::{Batch, Pool};
use linerate_port::Port;
use linerate_sys::clock;
use smoltcp::iface::{Config, Interface, PollIngressSingleResult, SocketHandle, SocketSet, SocketStorage};
use smoltcp::phy::{Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};

use super::{Client, End, Segments, Turns};
use crate::tcp::PairError;
use crate::tcp::pair::Rounds;

const SERVER: IpAddress = IpAddress::v4(198, 18, 0, 1);
const CLIENT: IpAddress = IpAddress::v4(198, 18, 0, 2);
const MACS: [EthernetAddress; 2] =
    [EthernetAddress([0x02, 0x4c, 0x52, 0, 3, 0x02]), EthernetAddress([0x02, 0x4c, 0x52, 0, 3, 0x01])];
const PREFIX_LEN: u8 = 24;
const PORT: u16 = 7;
/// The first port of the client; each connection has one.
const PORT_FIRST: u16 = 1024;
/// Bytes of each of a socket's two buffers.
pub const BUFFER_BYTES: usize = 512;
/// Packets that wait for the port, and that are taken from it at a time.
const PACKETS: usize = 256;
/// Ethernet, IPv4 and TCP headers without options are at least so long.
const HEADERS: usize = 14 + 20 + 20;

/// Does `work` with the two ends, of so many connections, over these ports. With `trusted`, checksums are left out.
///
/// # Errors
/// A server cannot listen.
pub fn with_ends(
    pool: &Pool,
    [client_ports, server_ports]: &mut [Vec<Box<dyn Port>>; 2],
    (connections, trusted): (usize, bool),
    work: &mut dyn FnMut(&mut dyn Client, &mut dyn End),
) -> Result<(), PairError> {
    let buffers = || vec![0; 2 * BUFFER_BYTES * connections];
    let (mut client_buffers, mut server_buffers) = (buffers(), buffers());
    let mut places: Vec<SocketStorage<'_>> = (0..2 * connections).map(|_| SocketStorage::EMPTY).collect();
    let (client_places, server_places) = places.split_at_mut(connections);
    let client = Side::new((CLIENT, MACS[0]), client_ports, pool, (client_places, &mut client_buffers), trusted);
    let mut server = Side::new((SERVER, MACS[1]), server_ports, pool, (server_places, &mut server_buffers), trusted);
    server.listen()?;
    work(&mut SmoltcpClient { side: client, turns: Turns::new(connections), next_close: 0 }, &mut Server(server));
    Ok(())
}

/// A port as smoltcp's device.
struct Link<'a> {
    ports: &'a mut [Box<dyn Port>],
    /// A handle for those packets that arrived, and one for those that leave: tokens of both kinds live at a time.
    pools: [Pool; 2],
    arrived: Batch,
    leaving: Batch,
    segments: Segments,
    /// Segments with data that left, and bytes that the program sent in such segments.
    data: u64,
    written: u64,
    trusted: bool,
    error: Option<PairError>,
}

struct Received<'a>(&'a mut Batch, &'a mut Pool, &'a mut u64);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        let packet = self.0.packet(0);
        *self.2 += u64::from(segment_data(packet).is_some());
        let result = read(packet);
        self.1.free_front(self.0, 1);
        result
    }
}

struct Sent<'a>(&'a mut Batch, &'a mut Pool, &'a mut u64, &'a mut u64);

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let at = self.0.len();
        if self.1.alloc(self.0, 1, len) == 0 {
            // The pool is empty: the packet is lost, and TCP sends it again.
            return write(&mut vec![0; len]);
        }
        let packet = self.0.packet_mut(at);
        let result = write(packet);
        let data = segment_data(packet);
        *self.2 += u64::from(data.is_some());
        *self.3 += u64::from(data.is_some_and(|bytes| bytes > 0));
        result
    }
}

/// Bytes of data of an Ethernet frame with an IPv4 packet with a TCP segment; `None` of others.
fn segment_data(frame: &[u8]) -> Option<usize> {
    let ip = frame.get(14..).filter(|_| frame.len() >= HEADERS && frame[12..14] == [0x08, 0x00])?;
    if ip[9] != 6 {
        return None;
    }
    let header = usize::from(ip[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let offset = usize::from(*ip.get(header + 12)? >> 4) * 4;
    Some(total.saturating_sub(header + offset))
}

impl Link<'_> {
    fn keep<T>(&mut self, result: Result<T, linerate_port::PortError>) -> Option<T> {
        result.map_err(|error| self.error.get_or_insert(PairError::Broken(error)).to_string()).ok()
    }

    fn fetch(&mut self) -> bool {
        let mut moved = false;
        for at in 0..self.ports.len() {
            let received = self.ports[at].receive(&mut self.arrived);
            moved |= self.keep(received).unwrap_or(0) > 0;
        }
        moved
    }

    fn push(&mut self) -> bool {
        if self.leaving.is_empty() {
            return false;
        }
        let Some(port) = self.ports.first_mut() else { return false };
        let sent = port.transmit(&mut self.leaving);
        self.keep(sent).unwrap_or(0) > 0
    }
}

impl Device for Link<'_> {
    type RxToken<'a>
        = Received<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Sent<'a>
    where
        Self: 'a;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Sent<'_>)> {
        if self.arrived.is_empty() || self.leaving.room() == 0 {
            return None;
        }
        let [receiving, sending] = &mut self.pools;
        let Segments { sent, received, .. } = &mut self.segments;
        let received = Received(&mut self.arrived, receiving, received);
        Some((received, Sent(&mut self.leaving, sending, sent, &mut self.data)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sent<'_>> {
        let room = self.leaving.room() > 0;
        room.then(|| Sent(&mut self.leaving, &mut self.pools[1], &mut self.segments.sent, &mut self.data))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = DeviceCapabilities::default();
        (caps.medium, caps.max_transmission_unit) = (Medium::Ethernet, 1514);
        if self.trusted {
            let mut none = ChecksumCapabilities::default();
            (none.ipv4, none.tcp) = (Checksum::None, Checksum::None);
            caps.checksum = none;
        }
        caps
    }
}

/// One stack, its end of the link, and its sockets.
struct Side<'a> {
    link: Link<'a>,
    interface: Interface,
    sockets: SocketSet<'a>,
    handles: Vec<SocketHandle>,
    /// Sockets that were begun.
    active: usize,
}

impl<'a> Side<'a> {
    fn new(
        (address, mac): (IpAddress, EthernetAddress),
        ports: &'a mut [Box<dyn Port>],
        pool: &Pool,
        (places, buffers): (&'a mut [SocketStorage<'a>], &'a mut [u8]),
        trusted: bool,
    ) -> Side<'a> {
        let (arrived, leaving) = (Batch::new(pool, PACKETS), Batch::new(pool, PACKETS));
        let pools = [pool.clone(), pool.clone()];
        let (segments, error) = (Segments::default(), None);
        let mut link = Link { ports, pools, arrived, leaving, segments, data: 0, written: 0, trusted, error };
        let mut interface =
            Interface::new(Config::new(HardwareAddress::Ethernet(mac)), &mut link, now(clock::now_ns()));
        interface.update_ip_addrs(|addresses| _ = addresses.push(IpCidr::new(address, PREFIX_LEN)));
        let mut handles = Vec::with_capacity(places.len());
        let mut sockets = SocketSet::new(places);
        let mut buffers = buffers.chunks_exact_mut(BUFFER_BYTES);
        while let (Some(receive), Some(send)) = (buffers.next(), buffers.next()) {
            let mut socket = Socket::new(SocketBuffer::new(receive), SocketBuffer::new(send));
            socket.set_nagle_enabled(false);
            handles.push(sockets.add(socket));
        }
        Side { link, interface, sockets, handles, active: 0 }
    }

    fn listen(&mut self) -> Result<(), PairError> {
        for handle in &self.handles {
            let listening = self.sockets.get_mut::<Socket<'_>>(*handle).listen(PORT);
            listening.map_err(|error| PairError::Program(format!("smoltcp cannot listen: {error}")))?;
        }
        self.active = self.handles.len();
        Ok(())
    }

    fn socket(&mut self, conn: usize) -> &mut Socket<'a> {
        self.sockets.get_mut::<Socket<'a>>(self.handles[conn])
    }

    /// Works on the packets that have arrived, on the sockets, and sends.
    fn round(&mut self, now_ns: u64, mut work: impl FnMut(&mut Side<'a>)) -> bool {
        if self.link.error.is_some() {
            return false;
        }
        let now = now(now_ns);
        let mut moved = self.link.fetch();
        let Side { link, interface, sockets, .. } = self;
        while interface.poll_ingress_single(now, link, sockets) != PollIngressSingleResult::None {}
        work(self);
        let Side { link, interface, sockets, .. } = self;
        interface.poll_egress(now, link, sockets);
        moved |= link.push();
        moved
    }

    fn send(&mut self, conn: usize, bytes: &[u8]) -> usize {
        let sent = self.socket(conn).send_slice(bytes).unwrap_or(0);
        self.link.written += u64::from(sent > 0);
        sent
    }

    fn segments(&self) -> Segments {
        Segments { again: self.link.data.saturating_sub(self.link.written), ..self.link.segments }
    }
}

fn now(now_ns: u64) -> Instant {
    Instant::from_micros((now_ns / 1_000) as i64)
}

struct Server<'a>(Side<'a>);

impl Rounds for Server<'_> {
    fn round(&mut self, now_ns: u64) -> usize {
        let moved = self.0.round(now_ns, |side| {
            for conn in 0..side.active {
                let socket = side.socket(conn);
                let mut bytes = [0; 64];
                if socket.can_recv()
                    && let Ok(count) = socket.recv_slice(&mut bytes)
                {
                    side.send(conn, &bytes[..count]);
                } else if socket.state() == State::CloseWait {
                    socket.close();
                }
            }
        });
        usize::from(moved)
    }
}

impl End for Server<'_> {
    fn segments(&mut self) -> Result<Segments, PairError> {
        Ok(self.0.segments())
    }

    fn failed(&mut self) -> Option<PairError> {
        self.0.link.error.take()
    }
}

struct SmoltcpClient<'a> {
    side: Side<'a>,
    turns: Turns,
    next_close: usize,
}

impl Rounds for SmoltcpClient<'_> {
    fn round(&mut self, now_ns: u64) -> usize {
        let SmoltcpClient { side, turns, .. } = self;
        let moved = side.round(now_ns, |side| {
            for conn in 0..side.active {
                let socket = side.socket(conn);
                let mut bytes = [0; 64];
                if socket.can_recv()
                    && let Ok(count) = socket.recv_slice(&mut bytes)
                {
                    for _ in 0..count {
                        if let Some(next) = turns.answered(conn) {
                            turns.sent += side.send(next, b"x") as u64;
                        }
                    }
                }
            }
        });
        usize::from(moved)
    }
}

impl End for SmoltcpClient<'_> {
    fn segments(&mut self) -> Result<Segments, PairError> {
        Ok(self.side.segments())
    }

    fn failed(&mut self) -> Option<PairError> {
        self.side.link.error.take()
    }
}

impl Client for SmoltcpClient<'_> {
    fn turns(&mut self) -> &mut Turns {
        &mut self.turns
    }

    fn send(&mut self, conn: usize) {
        self.turns.sent += self.side.send(conn, b"x") as u64;
    }

    fn open(&mut self, count: usize) {
        for _ in 0..count {
            let Some(handle) = self.side.handles.get(self.side.active).copied() else { return };
            let port = PORT_FIRST + self.side.active as u16;
            let Side { interface, sockets, link, .. } = &mut self.side;
            let socket = sockets.get_mut::<Socket<'_>>(handle);
            if let Err(error) = socket.connect(interface.context(), (SERVER, PORT), port) {
                link.error.get_or_insert(PairError::Program(format!("smoltcp cannot connect: {error}")));
            }
            self.side.active += 1;
        }
    }

    fn close(&mut self, count: usize) {
        for _ in 0..count {
            self.side.socket(self.next_close).close();
            self.next_close += 1;
        }
    }

    fn counts(&mut self) -> (usize, usize) {
        let (mut connected, mut closed) = (0, 0);
        for handle in self.side.handles.iter().take(self.side.active) {
            match self.side.sockets.get::<Socket<'_>>(*handle).state() {
                State::Listen | State::SynSent | State::SynReceived => {}
                State::Closed | State::TimeWait => {
                    connected += 1;
                    closed += 1;
                }
                _ => connected += 1,
            }
        }
        (connected, closed)
    }

    fn has_failed(&self) -> bool {
        self.side.link.error.is_some()
    }
}
