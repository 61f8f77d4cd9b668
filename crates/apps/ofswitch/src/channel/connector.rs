//! Connecting to a controller: one attempt at a time, with longer and longer pauses.
//!
//! An attempt looks the name up and waits for the connection on a thread of its own, which ends with it.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use linerate_worker::Notifier;

use super::socket::Socket;
use crate::target::Target;

/// How long an attempt takes at most for each address of the name.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Pause after the first failure; it doubles with each.
const FIRST_NS: u64 = 250_000_000;
/// Longest pause, that of Open vSwitch.
const LONGEST_NS: u64 = 8_000_000_000;

/// The reason before the first attempt.
pub(crate) const NOT_YET: &str = "not connected yet";

type Attempt = io::Result<(Socket, SocketAddr)>;

/// Connects to one controller again and again.
pub(crate) struct Connector {
    target: Target,
    /// Connects by UDP.
    by_udp: bool,
    attempt: Option<Receiver<Attempt>>,
    failures: u32,
    next_ns: u64,
    /// Why there is no connection, for people.
    pub(crate) why: String,
}

impl Connector {
    pub(crate) fn new(target: Target, by_udp: bool) -> Connector {
        Connector { target, by_udp, attempt: None, failures: 0, next_ns: 0, why: NOT_YET.into() }
    }

    /// When [`Connector::turn`] has something to do; `u64::MAX` while an attempt is under way, which notifies.
    pub(crate) fn next_deadline_ns(&self) -> u64 {
        if self.attempt.is_some() { u64::MAX } else { self.next_ns }
    }

    /// Starts an attempt when its time has come, or returns the connection of one that succeeded.
    pub(crate) fn turn(&mut self, notifier: &Notifier, now_ns: u64) -> Option<(Socket, SocketAddr)> {
        match self.attempt.as_ref().map(Receiver::try_recv) {
            None if now_ns >= self.next_ns => self.start(notifier, now_ns),
            None | Some(Err(TryRecvError::Empty)) => {}
            Some(Ok(Ok(connected))) => {
                self.attempt = None;
                return Some(connected);
            }
            Some(Ok(Err(error))) => self.failed(error.to_string(), now_ns),
            Some(Err(TryRecvError::Disconnected)) => self.failed("the attempt failed".into(), now_ns),
        }
        None
    }

    fn start(&mut self, notifier: &Notifier, now_ns: u64) {
        let (sender, receiver) = channel();
        let (host, port, notifier) = (self.target.host.clone(), self.target.port, notifier.clone());
        let connect_to = if self.by_udp { udp } else { tcp };
        let work = move || {
            let _ = sender.send(connect(&host, port, connect_to));
            notifier.notify();
        };
        match std::thread::Builder::new().name("connect".into()).spawn(work) {
            Ok(_) => self.attempt = Some(receiver),
            Err(error) => self.failed(error.to_string(), now_ns),
        }
    }

    /// Notes that there is no connection, or none any more, and why; the next attempt follows after a pause.
    pub(crate) fn failed(&mut self, why: String, now_ns: u64) {
        self.attempt = None;
        self.why = why;
        self.next_ns = now_ns + (FIRST_NS << self.failures.min(16)).min(LONGEST_NS);
        self.failures = self.failures.saturating_add(1);
    }

    /// Notes that the controller is one: the next pause is short again.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }
}

fn connect(host: &str, port: u16, connect_to: fn(SocketAddr) -> io::Result<Socket>) -> Attempt {
    let mut outcome = Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    for address in (host, port).to_socket_addrs()? {
        outcome = connect_to(address).map(|socket| (socket, address));
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

fn tcp(address: SocketAddr) -> io::Result<Socket> {
    TcpStream::connect_timeout(&address, ATTEMPT).map(Socket::Tcp)
}

fn udp(address: SocketAddr) -> io::Result<Socket> {
    let any = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(address)?;
    Ok(Socket::Udp(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_eight_seconds_and_shrink_after_a_success() {
        let mut connector = Connector::new("tcp:127.0.0.1:1".parse().unwrap(), false);
        let pauses: Vec<u64> = (0..8)
            .map(|_| {
                connector.failed("refused".into(), 0);
                connector.next_deadline_ns() / 1_000_000
            })
            .collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
        connector.succeeded();
        connector.failed("refused".into(), 0);
        assert_eq!(connector.next_deadline_ns(), FIRST_NS);
    }
}
