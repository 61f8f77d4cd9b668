//! The program over the stack: a socket for each descriptor, with what arrived for it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

use linerate_tcp::{App, CloseReason, Conn, Io, Keepalive, Listener, Origin};

/// What a descriptor is.
#[derive(Debug)]
pub enum Kind {
    /// A socket that neither listens nor has a connection.
    Fresh,
    /// A listener, and its connections that nobody accepted yet.
    Listening { listener: Listener, address: SocketAddr, queue: VecDeque<Conn> },
    /// A connection, that stands, is begun, or has ended.
    Stream(Conn),
    /// `epoll_create`: what is looked for, by descriptor.
    Epoll(BTreeMap<i32, Interest>),
}

/// What an epoll instance looks for on a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Interest {
    /// Bits of `EPOLLIN` and the like.
    pub events: u32,
    /// The caller's word.
    pub data: u64,
    /// [`Stream::edges`] of the last report, for `EPOLLET`.
    pub reported: Option<u64>,
}

/// A descriptor.
#[derive(Debug)]
pub struct Socket {
    pub kind: Kind,
    /// Flags of `fcntl(F_SETFL)`.
    pub flags: i32,
    /// Where it is bound.
    pub local: Option<SocketAddr>,
    /// Options that were set before there was a connection, and are given to it.
    pub options: Options,
}

/// Options of a socket.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub nodelay: bool,
    pub keeps_alive: bool,
    pub keepalive: Keepalive,
    pub user_timeout_ms: u32,
    pub dscp: u8,
    /// Closing resets the connection (`SO_LINGER` of 0 s).
    pub resets: bool,
    /// What the program asked for and nothing looks at: `SO_SNDBUF` and the like, as `getsockopt` returns it.
    pub send_buffer: i32,
}

impl Default for Options {
    /// Those of Linux: probes of keep-alive, if they are switched on, after 2 hours, every 75 s, nine of them.
    fn default() -> Options {
        Options {
            nodelay: false,
            keeps_alive: false,
            keepalive: Keepalive { idle_ms: 7_200_000, interval_ms: 75_000, probes: 9 },
            user_timeout_ms: 0,
            dscp: 0,
            resets: false,
            send_buffer: 16_384,
        }
    }
}

/// What the program knows of a connection.
#[derive(Debug, Default)]
pub struct Stream {
    pub connected: bool,
    /// Bytes that were taken from the stack and not read yet.
    pub received: VecDeque<u8>,
    /// Bytes that the stack has offered, and keeps.
    pub offered: usize,
    /// Bytes that a read waits for.
    pub wants: usize,
    /// Bytes that were read.
    pub read_total: u64,
    pub peer_closed: bool,
    /// The connection is over.
    pub ended: bool,
    /// The error that the next call returns.
    pub error: Option<i32>,
    pub shut_write: bool,
    /// Things that happened so far, for edge-triggered waits.
    pub edges: u64,
    /// Nobody holds a descriptor of it any more.
    pub closed: bool,
}

/// All descriptors, and the connections behind them.
#[derive(Debug, Default)]
pub struct Sockets {
    pub of: BTreeMap<i32, Socket>,
    pub streams: HashMap<Conn, Stream>,
}

impl Sockets {
    /// The connection of a descriptor.
    pub fn stream_of(&mut self, descriptor: i32) -> Option<(Conn, &mut Stream)> {
        let Kind::Stream(conn) = self.of.get(&descriptor)?.kind else { return None };
        Some((conn, self.streams.get_mut(&conn)?))
    }

    fn happened(&mut self, conn: Conn) -> &mut Stream {
        let stream = self.streams.entry(conn).or_default();
        stream.edges += 1;
        stream
    }
}

/// Gives a connection the options of its socket.
pub fn apply(options: &Options, conn: Conn, io: &mut Io<'_>) {
    io.set_nodelay(conn, options.nodelay);
    io.set_keepalive(conn, options.keeps_alive.then_some(options.keepalive));
    io.set_dscp(conn, options.dscp);
    io.set_user_timeout(conn, Some(options.user_timeout_ms).filter(|ms| *ms > 0));
}

impl App for Sockets {
    fn connected(&mut self, conn: Conn, io: &mut Io<'_>) {
        self.happened(conn).connected = true;
        let Some(info) = io.info(conn).filter(|info| info.origin == Origin::Accepted) else { return };
        let listening = self.of.values_mut().find_map(|socket| match &mut socket.kind {
            Kind::Listening { address, queue, .. } if address.port() == info.local.port() => {
                Some((queue, socket.options))
            }
            _ => None,
        });
        match listening {
            Some((queue, options)) => {
                queue.push_back(conn);
                apply(&options, conn, io);
            }
            None => io.abort(conn),
        }
    }

    fn received(&mut self, conn: Conn, data: &[u8], _: &mut Io<'_>) -> usize {
        let stream = self.streams.entry(conn).or_default();
        let count = stream.wants.min(data.len());
        stream.received.extend(&data[..count]);
        stream.wants -= count;
        stream.offered = data.len() - count;
        count
    }

    fn sendable(&mut self, conn: Conn, _: &mut Io<'_>) {
        self.happened(conn);
    }

    fn peer_closed(&mut self, conn: Conn, _: &mut Io<'_>) {
        self.happened(conn).peer_closed = true;
    }

    fn closed(&mut self, conn: Conn, why: CloseReason, _: &mut Io<'_>) {
        let stream = self.happened(conn);
        stream.ended = true;
        stream.error = match why {
            CloseReason::Normal | CloseReason::Aborted => None,
            CloseReason::Reset => Some(if stream.peer_closed { libc::EPIPE } else { libc::ECONNRESET }),
            CloseReason::Refused => Some(libc::ECONNREFUSED),
            CloseReason::TimedOut => Some(libc::ETIMEDOUT),
            CloseReason::Unreachable => Some(libc::EHOSTUNREACH),
        };
        if stream.closed {
            self.streams.remove(&conn);
        }
    }
}
