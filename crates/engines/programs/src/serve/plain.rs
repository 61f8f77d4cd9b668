//! The small services of RFC 862 (echo), RFC 863 (discard) and RFC 864 (chargen), over TCP and UDP.
//!
//! Datagrams from ports below 1024, and from the port that a service has itself, get no answer: one datagram with a forged sender
//! would make two servers answer each other for ever.

use core::net::SocketAddr;

use linerate_tcp::{CloseReason, Conn, UdpId};

use super::{Addresses, Served, Server};
use crate::network::{Network, Program};

/// Sends back what arrives.
pub struct Echo {
    addresses: Addresses,
    served: Served,
}

/// Takes what arrives, and answers nothing.
pub struct Discard {
    addresses: Addresses,
    served: Served,
}

/// Sends lines of 72 characters until the peer closes, and discards what arrives. The word of a connection is the next place in the pattern.
pub struct Chargen {
    addresses: Addresses,
    served: Served,
    pattern: Vec<u8>,
}

/// Lines of chargen, of which each begins one character later in the alphabet of 95.
const LINES: usize = 95;
const LINE_LEN: usize = 74;
/// Bytes of one call of `send`, at least.
const PIECE: usize = 16 * 1024;
/// Bytes of a datagram of chargen; RFC 864 allows 512.
const DATAGRAM_LEN: usize = 6 * LINE_LEN;
/// Senders with lower ports are servers.
const CLIENT_PORTS: u16 = 1024;

/// Answers a datagram, unless its sender seems to be a server.
fn answer<N: Network>(
    served: &mut Served,
    socket: UdpId,
    from: SocketAddr,
    to: SocketAddr,
    answer: &[u8],
    network: &mut N,
) {
    let is_client = from.port() >= CLIENT_PORTS && from.port() != to.port();
    if is_client && network.udp_send(socket, Some(to.ip()), Some(from), answer).is_ok() {
        served.requests += 1;
        served.tx_bytes += answer.len() as u64;
    } else {
        served.datagrams_unanswered += 1;
    }
}

impl Echo {
    /// A server at these addresses.
    pub fn new(addresses: Addresses) -> Echo {
        Echo { addresses, served: Served::default() }
    }
}

impl Discard {
    /// A server at these addresses.
    pub fn new(addresses: Addresses) -> Discard {
        Discard { addresses, served: Served::default() }
    }
}

impl Chargen {
    /// A server at these addresses.
    pub fn new(addresses: Addresses) -> Chargen {
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
        self.addresses.open(network)
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

    fn datagram<N: Network>(&mut self, socket: UdpId, from: SocketAddr, to: SocketAddr, data: &[u8], network: &mut N) {
        self.served.datagrams += 1;
        self.served.rx_bytes += data.len() as u64;
        answer(&mut self.served, socket, from, to, data, network);
    }

    fn closed<N: Network>(&mut self, _: Conn, why: CloseReason, _: &mut N) {
        self.served.end(why);
    }
}

impl Program for Discard {
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
        self.addresses.open(network)
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

    fn datagram<N: Network>(&mut self, _: UdpId, _: SocketAddr, _: SocketAddr, data: &[u8], _: &mut N) {
        self.served.datagrams += 1;
        self.served.rx_bytes += data.len() as u64;
    }

    fn closed<N: Network>(&mut self, _: Conn, why: CloseReason, _: &mut N) {
        self.served.end(why);
    }
}

impl Program for Chargen {
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
        self.addresses.open(network)
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

    fn datagram<N: Network>(&mut self, socket: UdpId, from: SocketAddr, to: SocketAddr, data: &[u8], network: &mut N) {
        self.served.datagrams += 1;
        self.served.rx_bytes += data.len() as u64;
        let at = self.served.datagrams as usize % LINES * LINE_LEN;
        answer(&mut self.served, socket, from, to, &self.pattern[at..at + DATAGRAM_LEN], network);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loopback::Loopback;

    /// Sends a datagram from a port, and counts what comes back.
    struct Sender {
        from: SocketAddr,
        answers: usize,
    }

    impl Program for Sender {
        fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
            let to = "198.18.5.1:2007".parse().unwrap();
            let socket = network.udp_open(Some(self.from), Some(to)).unwrap();
            network.udp_send(socket, None, None, b"hello").unwrap();
            Ok(())
        }

        fn connected<N: Network>(&mut self, _: Conn, _: &mut N) {}

        fn received<N: Network>(&mut self, _: Conn, data: &[u8], _: &mut N) -> usize {
            data.len()
        }

        fn sendable<N: Network>(&mut self, _: Conn, _: &mut N) {}

        fn peer_closed<N: Network>(&mut self, _: Conn, _: &mut N) {}

        fn closed<N: Network>(&mut self, _: Conn, _: CloseReason, _: &mut N) {}

        fn datagram<N: Network>(&mut self, _: UdpId, _: SocketAddr, _: SocketAddr, data: &[u8], _: &mut N) {
            assert_eq!(data, b"hello");
            self.answers += 1;
        }
    }

    #[test]
    fn datagrams_of_servers_get_no_answer() {
        for (port, answers) in [(2007, 0), (7, 0), (1023, 0), (1024, 1), (40_000, 1)] {
            let sender = Sender { from: SocketAddr::from(([198, 18, 5, 2], port)), answers: 0 };
            let udp = vec!["0.0.0.0:2007".parse().unwrap()];
            let mut net = Loopback::new(sender, Echo::new(Addresses { tcp: Vec::new(), udp }));
            net.start();
            net.run(1_000_000, 10_000_000);
            let served = net.server.served();
            assert_eq!((net.client.answers, served.datagrams), (answers, 1), "{port}");
            assert_eq!(served.datagrams_unanswered, 1 - answers as u64, "{port}");
        }
    }
}
