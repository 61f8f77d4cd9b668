//! Actions that put headers in front and take them away.
//!
//! New tags are the outermost, right behind the Ethernet addresses, MPLS headers in front of VLAN tags, too (section 5.12.1). They take their fields
//! from the outermost header of their kind (section 5.12.1, table 7); other fields are 0.

use linerate_mem::Checksum;
use linerate_wire::{EtherType, mpls, vlan};

use super::super::headers::{ITAG_LEN, TAGS_END, is_tag};
use super::super::read::{array, be16, be32, put};
use super::super::{Headers, PacketBuffer, shape};
use super::{ActionDrop, ttl};

/// Both Ethernet addresses.
const ADDRESSES: usize = 12;
/// The shortest Ethernet frame, without its check sequence (IEEE 802.3 clause 3.2.8). Packets that lose a header are padded to it.
const LEN_MIN: usize = 60;
/// What a PBB header adds: addresses, EtherType, I-TAG.
const PBB_LEN: usize = ADDRESSES + 2 + ITAG_LEN;

/// Pushes a VLAN tag; ID and priority are those of the outermost tag.
pub fn push_vlan(packet: &mut impl PacketBuffer, headers: &mut Headers, ethertype: u16) -> Result<(), ActionDrop> {
    if headers.is_runt() {
        return Ok(());
    }
    let tci = if is_tagged(headers) { be16(packet.bytes(), 14) & !0x1000 } else { 0 };
    insert(packet, vlan::HEADER_LEN)?;
    let bytes = packet.bytes_mut();
    put(bytes, 12, ethertype.to_be_bytes());
    put(bytes, 14, tci.to_be_bytes());
    headers.ethertype_at += vlan::HEADER_LEN as u16;
    headers.shift(vlan::HEADER_LEN as i16);
    if usize::from(headers.ethertype_at) > TAGS_END || !is_tag(ethertype) {
        *headers = Headers::parse(packet.bytes());
    }
    Ok(())
}

/// Removes the outermost VLAN tag.
pub fn pop_vlan(packet: &mut impl PacketBuffer, headers: &mut Headers) {
    if !is_tagged(headers) {
        return;
    }
    // Another tag may come into sight, and padding may complete a header that was cut.
    let parses_again = usize::from(headers.ethertype_at) == TAGS_END || headers.is_truncated;
    remove(packet, ADDRESSES, vlan::HEADER_LEN);
    headers.ethertype_at -= vlan::HEADER_LEN as u16;
    headers.shift(-(vlan::HEADER_LEN as i16));
    if parses_again {
        *headers = Headers::parse(packet.bytes());
    }
}

/// Pushes an MPLS header; label, traffic class and TTL are those of the outermost MPLS header, or the TTL is that of IP.
pub fn push_mpls(packet: &mut impl PacketBuffer, headers: &mut Headers, ethertype: u16) -> Result<(), ActionDrop> {
    if headers.is_runt() {
        return Ok(());
    }
    complete(packet);
    let bytes = packet.bytes();
    let label_and_class = if headers.has(shape::MPLS) { be32(bytes, headers.label.into()) & 0xffff_fe00 } else { 0 };
    // What follows is a label stack if the outermost header is one.
    let is_bottom = !EtherType(be16(bytes, ADDRESSES)).is_mpls();
    let entry = label_and_class | u32::from(is_bottom) << 8 | u32::from(ttl::of_outermost(bytes, headers));
    insert(packet, mpls::HEADER_LEN)?;
    let bytes = packet.bytes_mut();
    put(bytes, 12, ethertype.to_be_bytes());
    put(bytes, 14, entry.to_be_bytes());
    headers.shift(mpls::HEADER_LEN as i16);
    headers.ethertype_at = ADDRESSES as u16;
    headers.label = ADDRESSES as u16 + 2;
    headers.shape |= shape::MPLS;
    headers.visible = shape::MPLS;
    if !EtherType(ethertype).is_mpls() {
        *headers = Headers::parse(packet.bytes());
    }
    Ok(())
}

/// Removes the outermost MPLS header; the EtherType in front of it becomes `ethertype`.
pub fn pop_mpls(packet: &mut impl PacketBuffer, headers: &mut Headers, ethertype: u16) {
    if headers.visible & shape::MPLS == 0 {
        return;
    }
    put(packet.bytes_mut(), headers.ethertype_at.into(), ethertype.to_be_bytes());
    remove(packet, headers.payload(), mpls::HEADER_LEN);
    *headers = Headers::parse(packet.bytes());
}

/// Pushes a PBB header: the packet becomes that of a customer. The service ID is that of the outermost PBB header, the priority that of
/// the VLAN tag, and the backbone addresses are the customer's until they are set.
pub fn push_pbb(packet: &mut impl PacketBuffer, headers: &mut Headers, ethertype: u16) -> Result<(), ActionDrop> {
    if headers.is_runt() {
        return Ok(());
    }
    complete(packet);
    let bytes = packet.bytes();
    let service = if headers.has(shape::PBB) { be32(bytes, headers.itag.into()) & 0xff_ffff } else { 0 };
    let priority = if is_tagged(headers) { u32::from(be16(bytes, 14) >> 13) << 29 } else { 0 };
    if !packet.prepend(PBB_LEN) {
        return Err(ActionDrop::NoHeadroom);
    }
    let bytes = packet.bytes_mut();
    bytes.copy_within(PBB_LEN..PBB_LEN + ADDRESSES, 0);
    put(bytes, 12, ethertype.to_be_bytes());
    put(bytes, 14, (priority | service).to_be_bytes());
    headers.shift(PBB_LEN as i16);
    headers.ethertype_at = ADDRESSES as u16;
    headers.itag = ADDRESSES as u16 + 2;
    headers.shape |= shape::PBB;
    headers.visible = shape::PBB;
    if EtherType(ethertype) != EtherType::PBB {
        *headers = Headers::parse(packet.bytes());
    }
    Ok(())
}

/// Removes the outermost PBB header: the customer's addresses become those of the packet. VLAN tags of the backbone stay ("it should
/// be removed prior to this operation via the Pop VLAN header action", section 7.2.5).
pub fn pop_pbb(packet: &mut impl PacketBuffer, headers: &mut Headers) {
    if headers.visible & shape::PBB == 0 {
        return;
    }
    let tags_end = usize::from(headers.ethertype_at);
    let customer = tags_end + 2 + ITAG_LEN;
    let bytes = packet.bytes_mut();
    if let Some(addresses) = array::<ADDRESSES>(bytes, customer).copied() {
        bytes.copy_within(ADDRESSES..tags_end, PBB_LEN + ADDRESSES);
        put(bytes, PBB_LEN, addresses);
        packet.adj(PBB_LEN);
        packet.pad(LEN_MIN);
    }
    *headers = Headers::parse(packet.bytes());
}

fn is_tagged(headers: &Headers) -> bool {
    usize::from(headers.ethertype_at) > ADDRESSES
}

/// Makes room for `bytes` bytes behind the addresses.
fn insert(packet: &mut impl PacketBuffer, bytes: usize) -> Result<(), ActionDrop> {
    if !packet.prepend(bytes) {
        return Err(ActionDrop::NoHeadroom);
    }
    packet.bytes_mut().copy_within(bytes..bytes + ADDRESSES, 0);
    Ok(())
}

/// Removes `bytes` bytes at `at`, which lie in the packet.
fn remove(packet: &mut impl PacketBuffer, at: usize, bytes: usize) {
    packet.bytes_mut().copy_within(..at, bytes);
    packet.adj(bytes);
    packet.pad(LEN_MIN);
}

/// Completes a partial checksum, which nobody would find behind an MPLS or PBB header.
fn complete(packet: &mut impl PacketBuffer) {
    if packet.checksum() == Checksum::Partial {
        packet.complete_checksum();
    }
}
