//! The small services of RFC 862 (echo), RFC 863 (discard) and RFC 864 (chargen), over TCP.

use core::net::SocketAddr;

use linerate_tcp::{CloseReason, Conn};

use super::{Served, Server, listen};
use crate::network::{Network, Program};

/// Sends back what arrives.
pub struct Echo {
    addresses: Vec<SocketAddr>,
    served: Served,
}

/// Takes what arrives, and answers nothing.
pub struct Discard {
    addresses: Vec<SocketAddr>,
    served: Served,
}

/// Sends lines of 72 characters until the peer closes, and discards what arrives. The word of a connection is the next place in the pattern.
pub struct Chargen {
    addresses: Vec<SocketAddr>,
    served: Served,
    pattern: Vec<u8>,
}

/// Lines of chargen, of which each begins one character later in the alphabet of 95.
const LINES: usize = 95;
const LINE_LEN: usize = 74;
/// Bytes of one call of `send`, at least.
const PIECE: usize = 16 * 1024;

impl Echo {
    /// A server at these addresses.
    pub fn new(addresses: Vec<SocketAddr>) -> Echo {
        Echo { addresses, served: Served::default() }
    }
}

impl Discard {
    /// A server at these addresses.
    pub fn new(addresses: Vec<SocketAddr>) -> Discard {
        Discard { addresses, served: Served::default() }
    }
}

impl Chargen {
    /// A server at these addresses.
    pub fn new(addresses: Vec<SocketAddr>) -> Chargen {
        let letter = |at: usize| b' ' + (at % LINES) as u8;
        let mut pattern = Vec::new();
        while pattern.len() < LINES * LINE_LEN + PIECE {
            let first = pattern.len() / LINE_LEN;
            pattern.extend((0..LINE_LEN - 2).map(|at| letter(first + at)));
            pattern.extend(b"\r\n");
        }
        Chargen { addresses, served: Served::default(), pattern }
    }

    fn fill<N: Network>(&mut self, conn: Conn, network: &mut N) {
        let mut at = network.token(conn) as usize % (LINES * LINE_LEN);
        loop {
            let sent = network.send(conn, &self.pattern[at..at + PIECE]);
            self.served.tx_bytes += sent as u64;
            at = (at + sent) % (LINES * LINE_LEN);
            if sent < PIECE {
                break;
            }
        }
        network.set_token(conn, at as u64);
    }
}

impl Program for Echo {
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
        listen(&self.addresses, network)
    }

    fn connected<N: Network>(&mut self, _: Conn, _: &mut N) {
        self.served.connections += 1;
    }

    fn received<N: Network>(&mut self, conn: Conn, data: &[u8], network: &mut N) -> usize {
        let taken = network.send(conn, data);
        self.served.rx_bytes += taken as u64;
        self.served.tx_bytes += taken as u64;
        self.served.requests += 1;
        taken
    }

    fn sendable<N: Network>(&mut self, conn: Conn, network: &mut N) {
        network.resume(conn);
    }

    fn peer_closed<N: Network>(&mut self, conn: Conn, network: &mut N) {
        network.close(conn);
    }

    fn closed<N: Network>(&mut self, _: Conn, why: CloseReason, _: &mut N) {
        self.served.end(why);
    }
}

impl Program for Discard {
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
        listen(&self.addresses, network)
    }

    fn connected<N: Network>(&mut self, _: Conn, _: &mut N) {
        self.served.connections += 1;
    }

    fn received<N: Network>(&mut self, _: Conn, data: &[u8], _: &mut N) -> usize {
        self.served.rx_bytes += data.len() as u64;
        data.len()
    }

    fn sendable<N: Network>(&mut self, _: Conn, _: &mut N) {}

    fn peer_closed<N: Network>(&mut self, conn: Conn, network: &mut N) {
        network.close(conn);
    }

    fn closed<N: Network>(&mut self, _: Conn, why: CloseReason, _: &mut N) {
        self.served.end(why);
    }
}

impl Program for Chargen {
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
        listen(&self.addresses, network)
    }

    fn connected<N: Network>(&mut self, conn: Conn, network: &mut N) {
        self.served.connections += 1;
        self.fill(conn, network);
    }

    fn received<N: Network>(&mut self, _: Conn, data: &[u8], _: &mut N) -> usize {
        self.served.rx_bytes += data.len() as u64;
        data.len()
    }

    fn sendable<N: Network>(&mut self, conn: Conn, network: &mut N) {
        self.fill(conn, network);
    }

    fn peer_closed<N: Network>(&mut self, conn: Conn, network: &mut N) {
        network.close(conn);
    }

    fn closed<N: Network>(&mut self, _: Conn, why: CloseReason, _: &mut N) {
        self.served.end(why);
    }
}

impl Server for Echo {
    fn served(&self) -> Served {
        self.served
    }
}

impl Server for Discard {
    fn served(&self) -> Served {
        self.served
    }
}

impl Server for Chargen {
    fn served(&self) -> Served {
        self.served
    }
}
