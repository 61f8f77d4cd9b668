//! Names of connections and listeners, options to make them, and what is known of them.

use core::net::{IpAddr, SocketAddr};

use crate::State;

/// A connection. It can be copied and kept; every call refuses one that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conn {
    /// Index of the control block.
    pub index: u32,
    /// Generation of the block.
    pub generation: u32,
}

/// A listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listener(pub u32);

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// Both sides closed, and both know it.
    Normal,
    /// The peer reset the connection.
    Reset,
    /// The peer reset the attempt to connect.
    Refused,
    /// The peer did not answer for too long (R2 of RFC 9293, or keep-alive).
    TimedOut,
    /// No route, no neighbour, or ICMP says so.
    Unreachable,
    /// This side aborted.
    Aborted,
}

/// What does not end a connection by itself (RFC 9293 sections 3.8.3, 3.9.2.2): it may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SoftError {
    /// A segment was sent again three times, and nothing came back (R1).
    NoAnswer,
    /// A router says that the peer's network or host cannot be reached.
    Unreachable,
    /// A router says that a segment lived too long, or the peer that its fragments did not become whole.
    TimeExceeded,
    /// Somebody says that a field of the IP header is wrong.
    ParameterProblem,
}

/// Who began a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// `connect` of this side.
    Connected,
    /// A listener accepted it.
    Accepted,
}

/// How to connect.
#[derive(Clone, Copy, Debug)]
pub struct ConnectOptions {
    /// Where to.
    pub remote: SocketAddr,
    /// Local address; chosen by the route if there is none.
    pub local: Option<IpAddr>,
    /// Local port; 0 to have one chosen (RFC 6056).
    pub local_port: u16,
    /// Small segments leave at once (Nagle's algorithm is off).
    pub nodelay: bool,
    /// First value of the application's word.
    pub token: u64,
}

impl ConnectOptions {
    /// Options to connect to `remote` from any address and port.
    pub fn new(remote: SocketAddr) -> ConnectOptions {
        ConnectOptions { remote, local: None, local_port: 0, nodelay: false, token: 0 }
    }
}

/// How to listen.
#[derive(Clone, Copy, Debug)]
pub struct ListenOptions {
    /// Most handshakes at a time that take memory; more go by SYN cookies.
    pub backlog: u32,
    /// Accepted connections send small segments at once.
    pub nodelay: bool,
    /// First value of the application's word of accepted connections.
    pub token: u64,
}

impl Default for ListenOptions {
    fn default() -> ListenOptions {
        ListenOptions { backlog: 4096, nodelay: false, token: 0 }
    }
}

/// Why a connection could not be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// There are as many connections as the stack was made for.
    #[error("the stack holds as many connections as it was made for; close some, or raise connections_max")]
    Full,
    /// No route leads to the address.
    #[error("no route leads to the address; add a gateway or an address of its subnet")]
    NoRoute,
    /// The local address is not one of this stack.
    #[error("the local address is not one of this stack")]
    NotLocal,
    /// The connection of these addresses and ports exists already.
    #[error("this connection exists already; choose another local port")]
    InUse,
    /// All local ports to this destination are in use.
    #[error("all local ports to this destination are in use; add local addresses")]
    NoPort,
    /// The remote address is no unicast address, the families differ, or the port is 0.
    #[error(
        "the remote address cannot be connected to; it must be a unicast address of the family of the local one, with a port"
    )]
    BadAddress,
}

/// Why a listener could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// Somebody listens there.
    #[error("a listener has this address and port already")]
    InUse,
    /// The address is not one of this stack.
    #[error("the address is not one of this stack; use one of its addresses, or the unspecified one")]
    NotLocal,
    /// The port is 0.
    #[error("port 0 cannot be listened on")]
    BadPort,
}

/// What is known of a connection: what `ss -ti` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Local address and port.
    pub local: SocketAddr,
    /// Remote address and port.
    pub remote: SocketAddr,
    /// Who began it.
    pub origin: Origin,
    /// State.
    pub state: State,
    /// The application's word.
    pub token: u64,
    /// Smoothed round-trip time in microseconds; 0 before the first measurement.
    pub srtt_us: u32,
    /// Its variation in microseconds.
    pub rttvar_us: u32,
    /// Retransmission time-out in milliseconds.
    pub rto_ms: u32,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow start threshold in bytes.
    pub ssthresh: u32,
    /// Most bytes of data in a segment to the peer.
    pub mss: u16,
    /// Bytes (and SYN, FIN) in flight.
    pub in_flight: u32,
    /// Bytes that were written and are not acknowledged.
    pub queued: u32,
    /// Bytes that arrived and wait for the application.
    pub receive_queued: u32,
    /// Window of the peer in bytes.
    pub send_window: u32,
    /// Window of this side in bytes.
    pub receive_window: u32,
    /// Window scales: of the peer, of this side.
    pub scales: (u8, u8),
    /// Timestamps option in use.
    pub timestamps: bool,
    /// SACK in use.
    pub sack: bool,
    /// ECN in use.
    pub ecn: bool,
    /// Time-outs in a row.
    pub backoffs: u8,
}

/// When a silent peer is probed (RFC 9293 section 3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe, in milliseconds.
    pub idle_ms: u32,
    /// Time between probes, in milliseconds.
    pub interval_ms: u32,
    /// Probes without an answer after which the connection ends.
    pub probes: u32,
}
