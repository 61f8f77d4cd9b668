//! [`verify_checksums`]: every checksum of a received frame.

use crate::bytes::cut;
use crate::{Ip, LayerKind, ParseError, Parsed, Sum, Transport};
use crate::{icmpv4, icmpv6, ipv4, ipv6, tcp, udp, vxlan};
use std::fmt;

/// Checks the checksums of a frame: IPv4 header, UDP, TCP, ICMP and ICMPv6, also inside VXLAN on
/// the standard port.
///
/// Not checked, because it cannot be: the transport checksum of a fragment, and behind an IPv6
/// routing header with segments left. A frame without checksums passes. UDP without checksum passes
/// over IPv4; over IPv6 only if it is VXLAN (RFC 6935).
///
/// # Errors
/// [`ChecksumError`] for the first wrong checksum from the outside in, or if the frame cannot be
/// parsed or is cut short.
///
/// ```
/// use linerate_wire::{ChecksumError, Stack, ethernet, ipv4, udp, verify_checksums};
/// let stack = Stack::new()
///     .with(ethernet::Header::default())
///     .with(ipv4::Header::default())
///     .with(udp::Header::default());
/// let mut frame = stack.build(60).unwrap().bytes;
/// assert_eq!(verify_checksums(&frame), Ok(()));
/// frame[59] ^= 1;
/// assert!(matches!(verify_checksums(&frame), Err(ChecksumError::Wrong { offset: 40, .. })));
/// ```
pub fn verify_checksums(frame: &[u8]) -> Result<(), ChecksumError> {
    let mut inner = Some((frame, Parsed::parse(frame)?));
    let mut base = 0;
    // Each round looks at a frame inside the one before, so this ends.
    while let Some((frame, parsed)) = inner {
        let Some(ip) = parsed.ip else { break };
        verify_ip(frame, &ip, base)?;
        inner = parsed.inner(frame).and_then(|bytes| {
            let end = ip.transport.map_or(0, |transport| transport.end);
            base += end - bytes.len();
            // What is inside a VXLAN port need not be a frame that we know.
            Some((bytes, Parsed::parse(bytes).ok()?))
        });
    }
    Ok(())
}

/// Checks one IP layer of `frame`, which starts `base` bytes into the outermost frame.
fn verify_ip(frame: &[u8], ip: &Ip, base: usize) -> Result<(), ChecksumError> {
    if ip.kind == LayerKind::Ipv4 {
        let packet = ipv4::Packet::new_truncated(cut(frame, ip.offset, ip.end))?;
        let place = Place { kind: LayerKind::Ipv4, offset: base + ip.offset + ipv4::field::CHECKSUM.start };
        place.check(packet.sum(), packet.checksum())?;
    }
    match ip.transport {
        Some(transport) if !ip.is_routed => verify_transport(frame, ip, &transport, base),
        _ => Ok(()),
    }
}

fn verify_transport(frame: &[u8], ip: &Ip, transport: &Transport, base: usize) -> Result<(), ChecksumError> {
    if ip.is_truncated {
        return Err(ChecksumError::Truncated { kind: transport.kind });
    }
    let bytes = cut(frame, transport.offset, transport.end);
    let pseudo = pseudo_sum(frame, ip, bytes.len())?;
    let place =
        |field: std::ops::Range<usize>| Place { kind: transport.kind, offset: base + transport.offset + field.start };
    match transport.kind {
        LayerKind::Udp => {
            let packet = udp::Packet::new_checked(bytes)?;
            let place = place(udp::field::CHECKSUM);
            let may_lack = ip.kind == LayerKind::Ipv4 || packet.dst_port() == vxlan::PORT;
            match packet.checksum() {
                0 if may_lack => Ok(()),
                0 => Err(ChecksumError::Missing { offset: place.offset }),
                found => place.check(pseudo.add_sum(packet.sum()), found),
            }
        }
        LayerKind::Tcp => {
            let packet = tcp::Packet::new_checked(bytes)?;
            place(tcp::field::CHECKSUM).check(pseudo.add_sum(packet.sum()), packet.checksum())
        }
        LayerKind::Icmpv4 => {
            let packet = icmpv4::Packet::new_checked(bytes)?;
            place(icmpv4::field::CHECKSUM).check(packet.sum(), packet.checksum())
        }
        _ => {
            let packet = icmpv6::Packet::new_checked(bytes)?;
            place(icmpv6::field::CHECKSUM).check(pseudo.add_sum(packet.sum()), packet.checksum())
        }
    }
}

fn pseudo_sum(frame: &[u8], ip: &Ip, len: usize) -> Result<Sum, ParseError> {
    let packet = cut(frame, ip.offset, ip.end);
    // An IP packet's data is shorter than 65,536 bytes.
    match ip.kind {
        LayerKind::Ipv4 => Ok(ipv4::Packet::new_truncated(packet)?.pseudo_sum(len as u16)),
        _ => Ok(ipv6::Packet::new_truncated(packet)?.pseudo_sum(ip.protocol, len as u32)),
    }
}

/// A checksum field.
struct Place {
    kind: LayerKind,
    offset: usize,
}

impl Place {
    /// `sum` is that of the data with the checksum `found` in it.
    fn check(&self, sum: Sum, found: u16) -> Result<(), ChecksumError> {
        if sum.is_valid() {
            return Ok(());
        }
        let without = sum.sub_u16(found);
        let expected = if self.kind == LayerKind::Udp { without.finish_udp() } else { without.finish() };
        Err(ChecksumError::Wrong { kind: self.kind, offset: self.offset, found, expected })
    }
}

/// Why the checksums of a frame are not in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumError {
    /// The frame cannot be parsed.
    Parse(ParseError),
    /// The frame ends before the data of a checksum does.
    Truncated {
        /// The layer with the checksum.
        kind: LayerKind,
    },
    /// A checksum is wrong.
    Wrong {
        /// The layer with the checksum.
        kind: LayerKind,
        /// Where the field is, in bytes from the start of the frame.
        offset: usize,
        /// What it says.
        found: u16,
        /// What it should say.
        expected: u16,
    },
    /// UDP over IPv6 has no checksum.
    Missing {
        /// Where the field is, in bytes from the start of the frame.
        offset: usize,
    },
}

impl From<ParseError> for ChecksumError {
    fn from(error: ParseError) -> Self {
        ChecksumError::Parse(error)
    }
}

impl fmt::Display for ChecksumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChecksumError::Parse(error) => error.fmt(f),
            ChecksumError::Truncated { kind } => {
                write!(f, "{kind}: the frame ends before the data of the checksum")
            }
            ChecksumError::Wrong { kind, offset, found, expected } => {
                write!(f, "{kind}: checksum at byte {offset} is {found:#06x}, should be {expected:#06x}")
            }
            ChecksumError::Missing { offset } => {
                write!(f, "UDP over IPv6: no checksum at byte {offset}")
            }
        }
    }
}

impl std::error::Error for ChecksumError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ChecksumError::Parse(error) => Some(error),
            _ => None,
        }
    }
}
