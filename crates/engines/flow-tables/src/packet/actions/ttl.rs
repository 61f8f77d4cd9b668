//! Actions on the TTL of MPLS and IPv4, and the hop limit of IPv6.

use linerate_wire::{Protocol, mpls};

use super::super::read::{byte, put};
use super::super::{Headers, PacketBuffer, shape};
use super::{ActionDrop, checksum};

/// Where a TTL is.
#[derive(Clone, Copy)]
enum Ttl {
    /// In the label stack entry at this place.
    Mpls(usize),
    /// In the IP header of these headers.
    Ip(Headers),
}

impl Ttl {
    fn of_mpls(headers: &Headers) -> Option<Ttl> {
        headers.has(shape::MPLS).then_some(Ttl::Mpls(headers.label.into()))
    }

    fn of_ip(headers: &Headers) -> Option<Ttl> {
        headers.has(shape::IP).then_some(Ttl::Ip(*headers))
    }

    /// The outermost TTL of a packet.
    fn outermost(headers: &Headers) -> Option<Ttl> {
        Ttl::of_mpls(headers).or(Ttl::of_ip(headers))
    }

    /// The TTL of the next header behind this one, which is that of `headers`.
    fn next(self, bytes: &[u8], headers: &Headers) -> Option<Ttl> {
        match self {
            Ttl::Mpls(at) => {
                let is_bottom = byte(bytes, at + 2) & 1 != 0;
                let behind = at + mpls::HEADER_LEN;
                match is_bottom {
                    false => (behind + mpls::HEADER_LEN <= bytes.len()).then_some(Ttl::Mpls(behind)),
                    // The IP header is known if this entry was pushed here.
                    true => Ttl::of_ip(headers).or_else(|| Ttl::of_ip(&Headers::of_ip(bytes, behind))),
                }
            }
            Ttl::Ip(outer) => {
                const IPV4: Protocol = Protocol(4);
                const IPV6: Protocol = Protocol(41);
                let is_tunnel = matches!(Protocol(outer.protocol), IPV4 | IPV6);
                let is_tunnel = is_tunnel && outer.fragment != super::super::Fragment::Later;
                if is_tunnel { Ttl::of_ip(&Headers::of_ip(bytes, outer.transport.into())) } else { None }
            }
        }
    }

    fn at(self) -> usize {
        match self {
            Ttl::Mpls(at) => at + mpls::field::TTL.start,
            Ttl::Ip(headers) if headers.has(shape::IPV4) => usize::from(headers.network) + 8,
            Ttl::Ip(headers) => usize::from(headers.network) + 7,
        }
    }

    fn value(self, bytes: &[u8]) -> u8 {
        byte(bytes, self.at())
    }

    fn set(self, packet: &mut impl PacketBuffer, ttl: u8) {
        match self {
            Ttl::Ip(headers) if headers.has(shape::IPV4) => {
                checksum::write_ip(packet.bytes_mut(), &headers, self.at(), [ttl])
            }
            _ => put(packet.bytes_mut(), self.at(), [ttl]),
        }
    }

    /// # Errors
    /// `InvalidTtl` if it is 0, or would become 0.
    fn decrement(self, packet: &mut impl PacketBuffer) -> Result<(), ActionDrop> {
        match self.value(packet.bytes()) {
            0 | 1 => Err(ActionDrop::InvalidTtl),
            ttl => {
                self.set(packet, ttl - 1);
                Ok(())
            }
        }
    }
}

/// The TTL that a new MPLS header takes over: of the outermost MPLS header, else of IP, else 0.
pub fn of_outermost(bytes: &[u8], headers: &Headers) -> u8 {
    Ttl::outermost(headers).map_or(0, |ttl| ttl.value(bytes))
}

/// Copies the next-to-outermost TTL to the outermost header.
pub fn copy_out(packet: &mut impl PacketBuffer, headers: &Headers) {
    if let Some((outer, inner)) = two(packet, headers) {
        let ttl = inner.value(packet.bytes());
        outer.set(packet, ttl);
    }
}

/// Copies the outermost TTL to the next-to-outermost header.
pub fn copy_in(packet: &mut impl PacketBuffer, headers: &Headers) {
    if let Some((outer, inner)) = two(packet, headers) {
        let ttl = outer.value(packet.bytes());
        inner.set(packet, ttl);
    }
}

fn two(packet: &impl PacketBuffer, headers: &Headers) -> Option<(Ttl, Ttl)> {
    let outer = Ttl::outermost(headers)?;
    Some((outer, outer.next(packet.bytes(), headers)?))
}

/// Sets the TTL of the outermost MPLS header.
pub fn set_mpls(packet: &mut impl PacketBuffer, headers: &Headers, ttl: u8) {
    if let Some(place) = Ttl::of_mpls(headers) {
        place.set(packet, ttl);
    }
}

/// Decrements it.
pub fn decrement_mpls(packet: &mut impl PacketBuffer, headers: &Headers) -> Result<(), ActionDrop> {
    Ttl::of_mpls(headers).map_or(Ok(()), |place| place.decrement(packet))
}

/// Sets the TTL of IPv4 or the hop limit of IPv6.
pub fn set_ip(packet: &mut impl PacketBuffer, headers: &Headers, ttl: u8) {
    if let Some(place) = Ttl::of_ip(headers) {
        place.set(packet, ttl);
    }
}

/// Decrements it.
pub fn decrement_ip(packet: &mut impl PacketBuffer, headers: &Headers) -> Result<(), ActionDrop> {
    Ttl::of_ip(headers).map_or(Ok(()), |place| place.decrement(packet))
}
