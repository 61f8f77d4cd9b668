//! UDP (RFC 768; RFC 8200 section 8.1): sockets that are bound or connected, of one address or of all.

use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use linerate_mem::{Batch, Checksum, Pool};

use crate::fast::{Fast4, Fast6};
use crate::inbound::{IcmpError, Packet};
use crate::ip::{Ip, NoRoute};

/// Number of a socket. A stale one is refused by every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpId {
    index: u32,
    generation: u32,
}

/// A datagram for a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The socket that it is for.
    pub socket: UdpId,
    /// Who sent it.
    pub from: SocketAddr,
    /// Where it was sent to: our address, or a group or broadcast address, and the socket's port.
    pub to: SocketAddr,
    /// Where the data lie, in the bytes that the packet lies in.
    pub data: Range<usize>,
}

/// Why a socket was not bound or connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// Another socket has the address and port.
    #[error("another socket has this address and port")]
    InUse,
    /// The address is none of ours.
    #[error("the address is none of this stack's")]
    NotOurs,
    /// There is no free port.
    #[error("no port is free; close sockets, or give the stack more addresses")]
    NoPort,
    /// There are as many sockets as there may be.
    #[error("there are as many sockets as the stack was made for; close some")]
    TooMany,
    /// There is no way to the remote address.
    #[error(transparent)]
    NoRoute(#[from] NoRoute),
}

/// Why a datagram was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The socket is closed.
    #[error("the socket is closed")]
    Closed,
    /// The socket is not connected, and no destination was given.
    #[error("the socket is not connected; give a destination")]
    NotConnected,
    /// The datagram is longer than UDP allows.
    #[error("a datagram has at most 65,507 bytes over IPv4, 65,527 over IPv6")]
    TooLong,
    /// The batch or the pool has no room now.
    #[error("there is no room for packets now; send again later")]
    NoRoom,
    /// There is no way to the destination.
    #[error(transparent)]
    NoRoute(#[from] NoRoute),
}

/// Counts of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Datagrams that sockets were given.
    pub delivered: u64,
    /// Datagrams for ports at which nobody listens.
    pub no_port: u64,
    /// Datagrams whose lengths do not fit together, or whose checksum is wrong.
    pub malformed: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that were not sent.
    pub send_failed: u64,
}

/// The sockets of a shard.
pub struct Udp {
    counters: UdpCounters,
}

impl Udp {
    /// No sockets, and room for `sockets`. `secret` keys hashes and the choice of ports.
    pub fn new(sockets: usize, secret: [u8; 16]) -> Udp {
        let _ = (sockets, secret);
        Udp { counters: UdpCounters::default() }
    }

    /// Binds a socket to an address of ours and a port. An unspecified address stands for all of its family; port 0 for one that is free
    /// (RFC 6056).
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind(&mut self, local: SocketAddr, ip: &Ip) -> Result<UdpId, BindError> {
        let _ = (local, ip);
        Err(BindError::TooMany)
    }

    /// Binds a socket and connects it: it sends to `remote`, and takes datagrams of `remote` only.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn connect(
        &mut self,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        ip: &mut Ip,
        now_ns: u64,
        out: &mut Batch,
        pool: &mut Pool,
    ) -> Result<UdpId, BindError> {
        let _ = (local, remote, ip, now_ns, out, pool);
        Err(BindError::TooMany)
    }

    /// Closes a socket.
    pub fn close(&mut self, socket: UdpId) {
        let _ = socket;
    }

    /// Address and port that a socket is bound to.
    pub fn local(&self, socket: UdpId) -> Option<SocketAddr> {
        let _ = socket;
        None
    }

    /// Takes in what [`Ip::fast4`] recognised. `None`: nobody listens there (the caller then calls [`Ip::send_error`]), or the datagram is
    /// not in order; it was counted.
    #[inline]
    pub fn receive4(&mut self, fast: &Fast4, frame: &[u8], checksum: Checksum) -> Option<Datagram> {
        let _ = (fast, frame, checksum);
        None
    }

    /// As [`Udp::receive4`], of [`Ip::fast6`].
    #[inline]
    pub fn receive6(&mut self, fast: &Fast6, frame: &[u8], checksum: Checksum) -> Option<Datagram> {
        let _ = (fast, frame, checksum);
        None
    }

    /// As [`Udp::receive4`], of [`Ip::receive`]. `bytes` are those that the packet lies in.
    pub fn receive(&mut self, packet: &Packet, bytes: &[u8]) -> Option<Datagram> {
        let _ = (packet, bytes);
        None
    }

    /// The socket that an ICMP error is about.
    pub fn error(&mut self, error: &IcmpError) -> Option<UdpId> {
        let _ = error;
        None
    }

    /// Sends a datagram, by a connected socket or to `to`. One that is longer than the path MTU leaves in fragments. `trusted`: the port
    /// keeps packets in this process, so the checksum is left partial.
    ///
    /// # Errors
    /// See [`SendError`].
    #[expect(clippy::too_many_arguments, reason = "the packet path hands everything down")]
    pub fn send(
        &mut self,
        socket: UdpId,
        to: Option<SocketAddr>,
        data: &[u8],
        trusted: bool,
        ip: &mut Ip,
        now_ns: u64,
        out: &mut Batch,
        pool: &mut Pool,
    ) -> Result<(), SendError> {
        let _ = (socket, to, data, trusted, ip, now_ns, out, pool);
        Err(SendError::Closed)
    }

    /// Counts of datagrams.
    pub fn counters(&self) -> &UdpCounters {
        &self.counters
    }
}

/// True if `address` is the unspecified one of its family.
pub(crate) fn is_any(address: IpAddr) -> bool {
    address.is_unspecified()
}
