//! Writes to bytes that checksums cover, with the checksums updated.

use linerate_mem::Checksum;
use linerate_wire::{PartialChecksum, Sum, icmpv4, icmpv6, ipv4, tcp, udp};

use super::super::headers::{Fragment, Headers};
use super::super::read::{array, be16, put};
use super::super::{PacketBuffer, shape};
use super::{ActionDrop, crc32c};

/// Where SCTP's checksum is in its header (RFC 9260 section 3.1), lowest byte first.
const SCTP_CHECKSUM: usize = 8;

/// Writes `new` to bytes of the IP header at `at` that are not an address; IPv4's checksum covers them.
pub fn write_ip<const N: usize>(bytes: &mut [u8], headers: &Headers, at: usize, new: [u8; N]) {
    let Some(old) = array::<N>(bytes, at) else { return };
    let change = change(at - usize::from(headers.network), old, &new);
    put(bytes, at, new);
    update_ipv4(bytes, headers, change);
}

/// Writes `new` to an address of the IP header at `at`, which the checksum of the upper layer covers, too, if it `is_covered`.
pub fn write_address<const N: usize>(
    packet: &mut impl PacketBuffer,
    headers: &Headers,
    at: usize,
    new: [u8; N],
    is_covered: bool,
) {
    let upper = if is_covered { Upper::find(packet, headers) } else { None };
    let bytes = packet.bytes_mut();
    let Some(old) = array::<N>(bytes, at) else { return };
    let change = change(0, old, &new);
    put(bytes, at, new);
    update_ipv4(bytes, headers, change);
    if let Some(upper) = upper {
        upper.pseudo_header_changed(bytes, change);
    }
}

/// Writes the number of the upper layer. Its header stays what it is, and so does the place of its checksum, in whose pseudo-header the
/// number is.
pub fn write_protocol(packet: &mut impl PacketBuffer, headers: &Headers, protocol: u8) {
    if packet.checksum() == Checksum::Partial {
        // Nobody would find it under the new number.
        packet.complete_checksum();
    }
    let at = usize::from(headers.protocol_at);
    let upper = Upper::find(packet, headers);
    let change = Sum::new().replace_u16(headers.protocol.into(), protocol.into());
    let bytes = packet.bytes_mut();
    match headers.has(shape::IPV4) {
        true => write_ip(bytes, headers, at, [protocol]),
        false => put(bytes, at, [protocol]),
    }
    if let Some(upper) = upper {
        upper.pseudo_header_changed(bytes, change);
    }
}

/// Writes `new` to bytes at `at` of the header of the upper layer, or behind it.
///
/// # Errors
/// `ChecksumOutOfReach` for SCTP in a fragment.
pub fn write_upper<const N: usize>(
    packet: &mut impl PacketBuffer,
    headers: &Headers,
    at: usize,
    new: [u8; N],
) -> Result<(), ActionDrop> {
    if headers.has(shape::SCTP) {
        return write_sctp(packet.bytes_mut(), headers, at, new);
    }
    let upper = Upper::find(packet, headers);
    let bytes = packet.bytes_mut();
    let Some(old) = array::<N>(bytes, at) else { return Ok(()) };
    let change = change(at - usize::from(headers.transport), old, &new);
    put(bytes, at, new);
    if let Some(upper) = upper {
        upper.data_changed(bytes, change);
        if upper.kind == Kind::WithoutPseudoHeader && headers.fragment == Fragment::Whole {
            let message = bytes.get_mut(usize::from(headers.transport)..ip_end(bytes, headers));
            message.into_iter().for_each(|message| icmpv4::Packet::new_unchecked(message).complete_zero());
        }
    }
    Ok(())
}

fn write_sctp<const N: usize>(bytes: &mut [u8], headers: &Headers, at: usize, new: [u8; N]) -> Result<(), ActionDrop> {
    if headers.fragment != Fragment::Whole {
        return Err(ActionDrop::ChecksumOutOfReach);
    }
    let Some(old) = array::<N>(bytes, at) else { return Ok(()) };
    let end = ip_end(bytes, headers);
    let place = usize::from(headers.transport) + SCTP_CHECKSUM;
    let checksum = u32::from_le_bytes(array(bytes, place).copied().unwrap_or_default());
    let difference: [u8; N] = std::array::from_fn(|index| old[index] ^ new[index]);
    put(bytes, at, new);
    if checksum != 0 {
        // Peers may agree on checksums of 0 (RFC 9653).
        let checksum = checksum ^ crc32c::difference(&difference, end.saturating_sub(at + N));
        put(bytes, place, checksum.to_le_bytes());
    }
    Ok(())
}

/// Where the IP packet ends by its own length, which may be beyond the bytes of the first frame.
fn ip_end(bytes: &[u8], headers: &Headers) -> usize {
    let network = usize::from(headers.network);
    match headers.has(shape::IPV4) {
        true => network + usize::from(be16(bytes, network + 2)),
        false => network + 40 + usize::from(be16(bytes, network + 4)),
    }
}

fn update_ipv4(bytes: &mut [u8], headers: &Headers, change: Sum) {
    if headers.has(shape::IPV4) {
        let at = usize::from(headers.network) + ipv4::field::CHECKSUM.start;
        let checksum = change.update(be16(bytes, at));
        put(bytes, at, checksum.to_be_bytes());
    }
}

/// What the change of bytes that begin at `offset` of the data does to its sum. One byte may lie at any offset, more at even ones.
#[inline]
fn change<const N: usize>(offset: usize, old: &[u8; N], new: &[u8; N]) -> Sum {
    debug_assert!(N == 1 || N.is_multiple_of(2) && offset.is_multiple_of(2));
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let shift = if N == 1 && offset.is_multiple_of(2) { 8 } else { 0 };
    let replace = |sum: Sum, old: &[u8], new: &[u8]| sum.replace_u64(number(old) << shift, number(new) << shift);
    // Sums are the same whatever the words are taken in.
    let ((old, old_rest), (new, new_rest)) = (old.split_at(N.min(8)), new.split_at(N.min(8)));
    let sum = replace(Sum::new(), old, new);
    if N > 8 { replace(sum, old_rest, new_rest) } else { sum }
}

/// An internet checksum of the upper layer.
struct Upper {
    at: usize,
    kind: Kind,
}

#[derive(PartialEq)]
enum Kind {
    /// TCP, ICMPv6.
    Plain,
    /// UDP, where 0 means that there is none.
    Udp,
    /// ICMP, which has no pseudo-header.
    WithoutPseudoHeader,
    /// The field holds the sum of the pseudo-header, and whoever sends the packet completes it.
    Partial,
}

impl Upper {
    fn find(packet: &impl PacketBuffer, headers: &Headers) -> Option<Upper> {
        let (field, kind) = match headers.shape {
            shape if shape & shape::TCP != 0 => (tcp::field::CHECKSUM, Kind::Plain),
            shape if shape & shape::UDP != 0 => (udp::field::CHECKSUM, Kind::Udp),
            shape if shape & shape::ICMPV6 != 0 => (icmpv6::field::CHECKSUM, Kind::Plain),
            shape if shape & shape::ICMPV4 != 0 => (icmpv4::field::CHECKSUM, Kind::WithoutPseudoHeader),
            _ => return None,
        };
        let at = usize::from(headers.transport) + field.start;
        // The partial checksum may also be one inside of a tunnel.
        let is_partial = packet.checksum() == Checksum::Partial
            && PartialChecksum::find(packet.bytes()).is_some_and(|partial| partial.field == at);
        Some(Upper { at, kind: if is_partial { Kind::Partial } else { kind } })
    }

    fn pseudo_header_changed(self, bytes: &mut [u8], change: Sum) {
        let old = be16(bytes, self.at);
        let new = match self.kind {
            Kind::Plain => change.update(old),
            Kind::Udp => change.update_udp(old),
            Kind::Partial => change.add_u16(old).fold(),
            Kind::WithoutPseudoHeader => return,
        };
        put(bytes, self.at, new.to_be_bytes());
    }

    fn data_changed(&self, bytes: &mut [u8], change: Sum) {
        let old = be16(bytes, self.at);
        let new = match self.kind {
            Kind::Plain | Kind::WithoutPseudoHeader => change.update(old),
            Kind::Udp => change.update_udp(old),
            Kind::Partial => return,
        };
        put(bytes, self.at, new.to_be_bytes());
    }
}
