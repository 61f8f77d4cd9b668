//! The kernel's TCP: sockets with epoll in a namespace each, single bytes without Nagle.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use linerate_sys::epoll::Epoll;
use linerate_sys::netns::NetNs;

use super::{Client, End, Segments, Turns};
use crate::tcp::PairError;
use crate::tcp::pair::Rounds;
use linerate_testbed::proc_net::ProcNet;

/// Address and port of the server.
pub const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 18, 0, 1), 7);
/// Connections that are begun, and descriptors that are read, in one round.
const A_ROUND: usize = 64;
/// The number of the listener, which no connection has.
const LISTENER: u64 = u64::MAX;

/// Connections of one end.
struct Sockets {
    namespace: NetNs,
    counters: ProcNet,
    epoll: Epoll,
    ready: Vec<u64>,
    streams: Vec<Option<TcpStream>>,
    error: Option<io::Error>,
}

impl Sockets {
    fn new(namespace: NetNs, connections: usize) -> Result<Sockets, PairError> {
        let counters = namespace.run(ProcNet::of_this_thread)??;
        let (ready, streams) = (Vec::with_capacity(A_ROUND), Vec::with_capacity(connections));
        Ok(Sockets { namespace, counters, epoll: Epoll::new(A_ROUND)?, ready, streams, error: None })
    }

    fn add(&mut self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        self.epoll.add(stream.as_fd(), self.streams.len() as u64)?;
        self.streams.push(Some(stream));
        Ok(())
    }

    fn keep<T>(&mut self, result: io::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
            Err(error) => {
                self.error.get_or_insert(error);
                None
            }
        }
    }

    /// The numbers of what can be read.
    fn ready(&mut self) -> Vec<u64> {
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        if self.error.is_none() {
            let polled = self.epoll.ready(&mut ready);
            self.keep(polled);
        }
        ready
    }

    /// Bytes that a connection has; `None` if there are none now, 0 at its end.
    fn read(&mut self, conn: usize) -> Option<usize> {
        let mut bytes = [0; 64];
        let read = self.streams.get(conn)?.as_ref()?.read(&mut bytes);
        self.keep(read)
    }

    fn write(&mut self, conn: usize, count: usize) -> usize {
        let Some(Some(stream)) = self.streams.get(conn) else { return 0 };
        let mut stream: &TcpStream = stream;
        let written = stream.write(&[b'x'; 64][..count.min(64)]);
        self.keep(written).unwrap_or(0)
    }

    fn segments(&mut self) -> Result<Segments, PairError> {
        let counters = self.counters.read()?;
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        // The kernel does not count what it sends again among the segments that it sends.
        let again = count("Tcp.RetransSegs");
        Ok(Segments { sent: count("Tcp.OutSegs") + again, received: count("Tcp.InSegs"), again })
    }

    fn failed(&mut self) -> Option<PairError> {
        self.error.take().map(PairError::System)
    }
}

/// The server.
pub struct Server {
    sockets: Sockets,
    listener: TcpListener,
}

impl Server {
    /// A server in this namespace, for so many connections.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn new(namespace: NetNs, connections: usize) -> Result<Server, PairError> {
        let listener = namespace.run(|| TcpListener::bind(SocketAddr::from(SERVER)))??;
        listener.set_nonblocking(true)?;
        let sockets = Sockets::new(namespace, connections)?;
        sockets.epoll.add(listener.as_fd(), LISTENER)?;
        Ok(Server { sockets, listener })
    }
}

impl Rounds for Server {
    fn round(&mut self, _: u64) -> usize {
        let ready = self.sockets.ready();
        for number in &ready {
            if *number == LISTENER {
                for _ in 0..A_ROUND {
                    let accepted = self.listener.accept();
                    let Some((stream, _)) = self.sockets.keep(accepted) else { break };
                    let added = self.sockets.add(stream);
                    self.sockets.keep(added);
                }
                continue;
            }
            let conn = *number as usize;
            match self.sockets.read(conn) {
                // The client closed: so does this end.
                Some(0) => self.sockets.streams[conn] = None,
                Some(bytes) => _ = self.sockets.write(conn, bytes),
                None => {}
            }
        }
        let moved = ready.len();
        self.sockets.ready = ready;
        moved
    }
}

impl End for Server {
    fn segments(&mut self) -> Result<Segments, PairError> {
        self.sockets.segments()
    }

    fn failed(&mut self) -> Option<PairError> {
        self.sockets.failed()
    }
}

/// The client.
pub struct LinuxClient {
    sockets: Sockets,
    turns: Turns,
    /// Connections to begin.
    to_open: usize,
    next_close: usize,
    closed: usize,
}

impl LinuxClient {
    /// A client in this namespace, for so many connections.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn new(namespace: NetNs, connections: usize) -> Result<LinuxClient, PairError> {
        let sockets = Sockets::new(namespace, connections)?;
        Ok(LinuxClient { sockets, turns: Turns::new(connections), to_open: 0, next_close: 0, closed: 0 })
    }

    /// Opens a few connections. The kernel makes the handshake while `connect` waits, before the server accepts.
    fn open_some(&mut self) {
        let count = self.to_open.min(A_ROUND);
        self.to_open -= count;
        let entered = self.sockets.namespace.enter();
        self.sockets.keep(entered);
        for _ in 0..count {
            if self.sockets.error.is_some() {
                return;
            }
            let added = TcpStream::connect(SocketAddr::from(SERVER)).and_then(|stream| self.sockets.add(stream));
            self.sockets.keep(added);
        }
    }
}

impl Rounds for LinuxClient {
    fn round(&mut self, _: u64) -> usize {
        if self.to_open > 0 {
            self.open_some();
        }
        let ready = self.sockets.ready();
        for number in &ready {
            let conn = *number as usize;
            match self.sockets.read(conn) {
                Some(0) => {
                    self.sockets.streams[conn] = None;
                    self.closed += 1;
                }
                Some(bytes) => {
                    for _ in 0..bytes {
                        if let Some(next) = self.turns.answered(conn) {
                            self.send(next);
                        }
                    }
                }
                None => {}
            }
        }
        let moved = ready.len();
        self.sockets.ready = ready;
        moved
    }
}

impl End for LinuxClient {
    fn segments(&mut self) -> Result<Segments, PairError> {
        self.sockets.segments()
    }

    fn failed(&mut self) -> Option<PairError> {
        self.sockets.failed()
    }
}

impl Client for LinuxClient {
    fn turns(&mut self) -> &mut Turns {
        &mut self.turns
    }

    fn send(&mut self, conn: usize) {
        self.turns.sent += self.sockets.write(conn, 1) as u64;
    }

    fn open(&mut self, count: usize) {
        self.to_open += count;
    }

    fn close(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(Some(stream)) = self.sockets.streams.get(self.next_close) {
                let ended = stream.shutdown(Shutdown::Write);
                self.sockets.keep(ended);
            }
            self.next_close += 1;
        }
    }

    fn counts(&mut self) -> (usize, usize) {
        (self.sockets.streams.len(), self.closed)
    }

    fn has_failed(&self) -> bool {
        self.sockets.error.is_some()
    }
}
