//! What packets pass of the test of echoes: a server that sends back what it receives, and a client that sends single bytes over connections
//! that stand.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

use linerate_experiment::EchoOrder;
use linerate_tcp::{App, CloseReason, Conn, ConnectOptions, Io};

/// Connections from one address of the client, below the number of ports that it chooses from.
pub const PER_ADDRESS: usize = 45_000;

/// Sends back what it receives.
pub struct EchoServer;

impl App for EchoServer {
    fn connected(&mut self, _: Conn, _: &mut Io<'_>) {}

    #[inline]
    fn received(&mut self, conn: Conn, data: &[u8], io: &mut Io<'_>) -> usize {
        io.send(conn, data)
    }

    fn peer_closed(&mut self, conn: Conn, io: &mut Io<'_>) {
        io.close(conn);
    }

    fn closed(&mut self, _: Conn, _: CloseReason, _: &mut Io<'_>) {}
}

/// What an echo client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoPhase {
    /// Connections that come to stand are kept, and nothing is sent.
    Standing,
    /// A byte that comes back sends the next one.
    Echoing(EchoOrder),
    /// Each new connection sends a byte, and is closed when that comes back.
    Opening,
}

/// Sends single bytes over its connections.
pub struct EchoClient {
    /// What it does.
    pub phase: EchoPhase,
    /// The connections that stand, in the order in which they came to.
    pub conns: Vec<Conn>,
    next: usize,
    /// Connections that came to stand.
    pub connected: usize,
    /// Bytes that came back.
    pub echoes: u64,
    /// Connections that were closed in order.
    pub closed: u64,
    /// Connections that ended otherwise.
    pub lost: u64,
    /// Bytes that were sent and are not back.
    pub in_flight: usize,
    /// Bytes that were sent.
    pub sent: u64,
}

impl EchoClient {
    /// For so many connections.
    pub fn new(connections: usize) -> EchoClient {
        EchoClient {
            phase: EchoPhase::Standing,
            conns: Vec::with_capacity(connections),
            next: 0,
            connected: 0,
            echoes: 0,
            closed: 0,
            lost: 0,
            in_flight: 0,
            sent: 0,
        }
    }

    /// Begins the connections of these numbers, [`PER_ADDRESS`] of them from each address from `first` on; returns how many could be begun.
    pub fn connect(io: &mut Io<'_>, numbers: Range<usize>, first: Ipv4Addr, remote: SocketAddr) -> usize {
        let mut begun = 0;
        for number in numbers {
            let address = Ipv4Addr::from_bits(first.to_bits() + (number / PER_ADDRESS) as u32);
            let options =
                ConnectOptions { local: Some(IpAddr::V4(address)), nodelay: true, ..ConnectOptions::new(remote) };
            if io.connect(options).is_err() {
                break;
            }
            begun += 1;
        }
        begun
    }

    /// Closes these of the connections that stand.
    pub fn close(&self, io: &mut Io<'_>, places: Range<usize>) {
        for conn in &self.conns[places] {
            io.close(*conn);
        }
    }

    /// The next connection in turn sends a byte.
    #[inline]
    pub fn send_next(&mut self, io: &mut Io<'_>) {
        let conn = self.conns[self.next];
        self.next = if self.next + 1 == self.conns.len() { 0 } else { self.next + 1 };
        if let Some(soon) = self.conns.get(self.next + 15) {
            io.prefetch(*soon);
        }
        self.send(conn, io);
    }

    #[inline]
    fn send(&mut self, conn: Conn, io: &mut Io<'_>) {
        let sent = io.send(conn, b"x");
        self.in_flight += sent;
        self.sent += sent as u64;
    }
}

impl App for EchoClient {
    fn connected(&mut self, conn: Conn, io: &mut Io<'_>) {
        self.connected += 1;
        if self.phase == EchoPhase::Opening {
            io.send(conn, b"x");
        } else {
            self.conns.push(conn);
        }
    }

    #[inline]
    fn received(&mut self, conn: Conn, data: &[u8], io: &mut Io<'_>) -> usize {
        self.echoes += data.len() as u64;
        match self.phase {
            EchoPhase::Opening => io.close(conn),
            EchoPhase::Standing => self.in_flight -= data.len(),
            EchoPhase::Echoing(order) => {
                self.in_flight -= data.len();
                match order {
                    EchoOrder::Reply => self.send(conn, io),
                    EchoOrder::RoundRobin => self.send_next(io),
                }
            }
        }
        data.len()
    }

    fn peer_closed(&mut self, _: Conn, _: &mut Io<'_>) {}

    fn closed(&mut self, _: Conn, why: CloseReason, _: &mut Io<'_>) {
        if why == CloseReason::Normal { self.closed += 1 } else { self.lost += 1 }
    }
}
