//! UDP (RFC 768; RFC 8200 section 8.1): sockets that are bound or connected, of one address or of all.
//!
//! ```text
//! receive_usual4(frame) -> Datagram: nearly all datagrams over IPv4
//! receive4(fast4), receive6(fast6), receive(Packet) -> Datagram { socket, from, to, data }     table.rs: which socket
//! send(socket, from, to, data) -> prepared headers, length, checksum, data into a frame          send.rs
//! ```
//! A socket that is alone at its port is found by one load and a compare; others by their whole address in a hash with a key.

mod send;
mod table;

use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use linerate_mem::Checksum;
use linerate_wire::udp;

use crate::fast::{Fast4, Fast6, UsualDatagram4};
use crate::inbound::{ErrorKind, IcmpError, Packet};
use crate::ip::{Ip, NoRoute};
use crate::output::Output;
use crate::shard::Shard;
use send::{Path, Paths};
use table::{Ends, Table, bits, mapped};

/// Number of a socket. A stale one is refused by every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpId {
    /// Index of its place.
    pub index: u32,
    /// Which of the sockets that had this place.
    pub generation: u32,
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
    /// Another socket, or the DHCP client, has the address and port.
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
    #[error("a datagram has at most 65,507 bytes over IPv4, 65,487 over IPv6")]
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
    /// Datagrams of the fast path whose lengths do not fit together, or whose checksum is wrong.
    pub malformed: u64,
    /// Datagrams sent, or parked until a neighbour answers.
    pub sent: u64,
    /// Datagrams that were not sent.
    pub send_failed: u64,
}

/// The sockets of a shard.
pub struct Udp {
    table: Table,
    paths: Paths,
    counters: UdpCounters,
    scratch: Vec<u8>,
}

impl Udp {
    /// No sockets, and room for `sockets`. `secret` keys hashes and the choice of ports.
    pub fn new(sockets: usize, secret: [u8; 16]) -> Udp {
        Udp::of_shard(sockets, secret, Shard::default())
    }

    /// As [`Udp::new`], for one of several shards: connected sockets get ports that it owns.
    pub fn of_shard(sockets: usize, secret: [u8; 16], shard: Shard) -> Udp {
        Udp {
            table: Table::new(sockets, secret, shard),
            paths: Paths::default(),
            counters: UdpCounters::default(),
            scratch: Vec::new(),
        }
    }

    /// Binds a socket to an address of ours and a port. An unspecified address stands for all of its family; port 0 for one that is free
    /// (RFC 6056).
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind(&mut self, local: SocketAddr, ip: &Ip) -> Result<UdpId, BindError> {
        if !local.ip().is_unspecified() && !ip.is_ours(local.ip()) {
            return Err(BindError::NotOurs);
        }
        if local.is_ipv4() && ip.is_port_of_dhcp(local.port()) {
            return Err(BindError::InUse);
        }
        self.table.add(Ends { local: mapped(local.ip()), local_port: local.port(), remote: 0, remote_port: 0 })
    }

    /// Binds a socket and connects it: it sends to `remote`, and takes datagrams of `remote` only. Without `local`, the address and the
    /// port are chosen.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn connect(
        &mut self,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        ip: &mut Ip,
        out: &mut Output<'_>,
    ) -> Result<UdpId, BindError> {
        let src = local.map(|local| local.ip()).filter(|local| !local.is_unspecified());
        let (hop, src) = ip.resolve(src, remote.ip(), out)?;
        let (remote_bits, remote_port) = (mapped(remote.ip()), remote.port());
        let local_port = local.map_or(0, |local| local.port());
        if src.is_ipv4() && ip.is_port_of_dhcp(local_port) {
            return Err(BindError::InUse);
        }
        let id = self.table.add(Ends { local: mapped(src), local_port, remote: remote_bits, remote_port })?;
        if let Some(ends) = self.table.ends(id).copied() {
            self.paths.connect(id, Path::new(hop, ends, ip.hop_limit()));
        }
        Ok(id)
    }

    /// Closes a socket.
    pub fn close(&mut self, socket: UdpId) {
        if self.table.remove(socket) {
            self.paths.disconnect(socket.index);
        }
    }

    /// Number of open sockets.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True if no socket is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Address and port that a socket is bound to.
    pub fn local(&self, socket: UdpId) -> Option<SocketAddr> {
        let ends = self.table.ends(socket)?;
        Some(SocketAddr::new(bits(ends.local), ends.local_port))
    }

    /// Takes in a frame that is a usual datagram over IPv4: without a VLAN tag, options or a fragment, for one of our addresses and a socket,
    /// with checksums that are right. `checksum` is what the slot says, as for [`Ip::fast4`]. `None`: nothing has happened, and the frame goes
    /// the way of all others ([`Ip::fast4`], [`Ip::fast6`], [`Ip::receive`]). Frames that were taken are counted by [`Ip::count_fast`].
    #[inline(always)]
    pub fn receive_usual4(&mut self, ip: &Ip, frame: &[u8], checksum: Checksum) -> Option<Datagram> {
        let datagram = ip.usual_datagram4(frame, checksum)?;
        let (socket, is_connected) = self.table.find_usual4(&datagram)?;
        // The remote address of a connected socket is one that another host can have.
        if !is_connected && !ip.may_send4(datagram.src()) {
            return None;
        }
        self.counters.delivered += 1;
        let from = SocketAddr::new(IpAddr::V4(datagram.src().into()), datagram.src_port());
        let to = SocketAddr::new(IpAddr::V4(datagram.dst().into()), datagram.dst_port());
        let start = UsualDatagram4::HEADERS_LEN;
        Some(Datagram { socket, from, to, data: start..start + usize::from(datagram.data_len) })
    }

    /// Takes in what [`Ip::fast4`] recognised. `None`: nobody listens there (then [`Udp::is_unreachable`] is true for it, and the caller calls
    /// [`Ip::send_error`]), or the datagram is not in order; it was counted.
    #[inline(always)]
    pub fn receive4(&mut self, fast: &Fast4, frame: &[u8], checksum: Checksum) -> Option<Datagram> {
        let (src, dst) = (IpAddr::V4(fast.src.into()), IpAddr::V4(fast.dst.into()));
        let header = self.header(fast.payload(frame))?;
        let is_checked = checksum != Checksum::Unknown || header.checksum == 0;
        let len = usize::from(header.len);
        if !is_checked {
            let data = frame.get(usize::from(fast.offset)..usize::from(fast.offset) + len)?;
            let pseudo = fast.pseudo_sum().sub_u16(fast.end - fast.offset).add_u16(header.len);
            if !pseudo.add_slice(data).is_valid() {
                self.counters.malformed += 1;
                return None;
            }
        }
        self.deliver(src, dst, &header, usize::from(fast.offset))
    }

    /// As [`Udp::receive4`], of [`Ip::fast6`].
    #[inline]
    pub fn receive6(&mut self, fast: &Fast6, frame: &[u8], checksum: Checksum) -> Option<Datagram> {
        let (src, dst) = (IpAddr::V6(fast.src.into()), IpAddr::V6(fast.dst.into()));
        let header = self.header(fast.payload(frame))?;
        let data = fast.payload(frame).get(..usize::from(header.len)).unwrap_or_default();
        let pseudo = fast.pseudo_sum().sub_u16(fast.end - fast.offset).add_u16(header.len);
        // A datagram over IPv6 has a checksum (RFC 8200 section 8.1).
        let is_right = checksum != Checksum::Unknown || pseudo.add_slice(data).is_valid();
        if header.checksum == 0 || !is_right {
            self.counters.malformed += 1;
            return None;
        }
        self.deliver(src, dst, &header, usize::from(fast.offset))
    }

    /// As [`Udp::receive4`], of [`Ip::receive`]. `bytes` are those that the packet lies in ([`Ip::bytes`]).
    pub fn receive(&mut self, packet: &Packet, bytes: &[u8]) -> Option<Datagram> {
        let header = self.header(bytes.get(packet.payload.clone()).unwrap_or_default())?;
        self.deliver(packet.src, packet.dst, &header, packet.payload.start)
    }

    /// The header of a datagram; one whose length does not fit is counted.
    #[inline]
    fn header(&mut self, payload: &[u8]) -> Option<Header> {
        let header = Header::read(payload);
        self.counters.malformed += u64::from(header.is_none());
        header
    }

    /// Inlined, so that a caller who does not ask for the addresses does not pay for them.
    #[inline(always)]
    fn deliver(&mut self, src: IpAddr, dst: IpAddr, header: &Header, offset: usize) -> Option<Datagram> {
        let ends =
            Ends { local: mapped(dst), local_port: header.dst_port, remote: mapped(src), remote_port: header.src_port };
        let Some(socket) = self.table.find(&ends) else {
            self.counters.no_port += 1;
            return None;
        };
        self.counters.delivered += 1;
        let from = SocketAddr::new(src, header.src_port);
        let to = SocketAddr::new(dst, header.dst_port);
        Some(Datagram { socket, from, to, data: offset + udp::HEADER_LEN..offset + usize::from(header.len) })
    }

    /// True if nobody listens where a datagram goes that [`Udp::receive4`] and its like did not take: its sender is to be told.
    pub fn is_unreachable(&self, src: SocketAddr, dst: SocketAddr) -> bool {
        let ends =
            Ends { local: mapped(dst.ip()), local_port: dst.port(), remote: mapped(src.ip()), remote_port: src.port() };
        self.table.find(&ends).is_none()
    }

    /// The socket that an ICMP error is about. The path MTU is lowered if the error says so.
    pub fn error(&mut self, error: &IcmpError, ip: &mut Ip, now_ns: u64) -> Option<UdpId> {
        let (local, remote) = (error.original.local, error.original.remote);
        let socket = self.table.find(&Ends {
            local: mapped(local.ip()),
            local_port: local.port(),
            remote: mapped(remote.ip()),
            remote_port: remote.port(),
        })?;
        if let ErrorKind::PacketTooBig { mtu } = error.kind {
            ip.packet_too_big(remote.ip(), mtu, now_ns);
        }
        Some(socket)
    }

    /// Counts of datagrams.
    pub fn counters(&self) -> &UdpCounters {
        &self.counters
    }
}

/// The header of a datagram whose length fits its packet.
struct Header {
    src_port: u16,
    dst_port: u16,
    len: u16,
    checksum: u16,
}

impl Header {
    #[inline]
    fn read(payload: &[u8]) -> Option<Header> {
        let [a, b, c, d, e, f, g, h] = *payload.first_chunk::<8>()?;
        let len = u16::from_be_bytes([e, f]);
        let fits = usize::from(len) <= payload.len() && usize::from(len) >= udp::HEADER_LEN;
        fits.then(|| Header {
            src_port: u16::from_be_bytes([a, b]),
            dst_port: u16::from_be_bytes([c, d]),
            len,
            checksum: u16::from_be_bytes([g, h]),
        })
    }
}
