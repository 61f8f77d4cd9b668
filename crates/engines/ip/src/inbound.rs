//! What became of a frame that was received, and what is handed up.

use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use linerate_wire::Protocol;

use crate::counters::DropReason;

/// What became of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inbound {
    /// A TCP segment for one of our addresses. Its checksum is right.
    Tcp(Packet),
    /// A UDP datagram for one of our addresses, or a group or broadcast address. Its checksum is right, or absent where that is allowed.
    Udp(Packet),
    /// An ICMP error about a packet that one of our addresses sent, or somebody pretends that it did. TCP must check that the sequence
    /// number is in flight before it believes it (RFC 5927).
    Error(IcmpError),
    /// It was for this layer, which has done what is to be done.
    Handled,
    /// It was dropped, and counted.
    Dropped(DropReason),
}

/// A packet for a transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Who sent it.
    pub src: IpAddr,
    /// One of our addresses; for UDP also a group or broadcast address.
    pub dst: IpAddr,
    /// Where the header and data of the transport lie: in the frame, or, if `reassembled`, in [`Ip::reassembled`](crate::Ip::reassembled).
    pub payload: Range<usize>,
    /// Where the IP header lies, in the same bytes.
    pub network: usize,
    /// ECN bits of the IP header (RFC 3168), 0 to 3.
    pub ecn: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// True if it came in fragments; the bytes are then those that [`Ip::reassembled`](crate::Ip::reassembled) returns until the next frame.
    pub reassembled: bool,
}

/// An ICMP error that somebody sent us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// What it says.
    pub kind: ErrorKind,
    /// Who sent it: a router, or the destination.
    pub from: IpAddr,
    /// The packet that it is about.
    pub original: Original,
}

/// What an ICMP error says, for both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The network or host cannot be reached now; soft (RFC 9293 section 3.9.2.2).
    Unreachable {
        /// The code of ICMPv4 or ICMPv6.
        code: u8,
    },
    /// The port or protocol is not there; hard.
    PortUnreachable,
    /// Somebody's policy forbids it.
    Prohibited,
    /// The packet was longer than a link of the path. `mtu` is that link's MTU in bytes; it has been made plausible (RFC 1191 section 7.1, RFC 8201).
    PacketTooBig {
        /// MTU in bytes, IP header included.
        mtu: u16,
    },
    /// It lived too long, or its fragments did not become whole.
    TimeExceeded,
    /// A header field is wrong.
    ParameterProblem,
}

/// The packet that an ICMP error is about, as far as the error quotes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Original {
    /// Protocol of the transport.
    pub protocol: Protocol,
    /// Our side: source address and port of the quoted packet.
    pub local: SocketAddr,
    /// The other side.
    pub remote: SocketAddr,
    /// Sequence number of a quoted TCP segment.
    pub sequence: Option<u32>,
}
