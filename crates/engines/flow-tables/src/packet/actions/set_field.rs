//! The action SET_FIELD.

use linerate_mem::Checksum;
use linerate_openflow::Field;

use super::super::key::header_of;
use super::super::read::{be16, be32, put};
use super::super::{Headers, PacketBuffer, PipelineFields, shape};
use super::{ActionDrop, checksum};

/// Sets `field` to `value`. Fields that cannot be set stay what they are.
#[inline]
pub fn set(
    packet: &mut impl PacketBuffer,
    headers: &mut Headers,
    fields: &mut PipelineFields,
    field: Field,
    value: u128,
) -> Result<(), ActionDrop> {
    let header = header_of(field);
    if headers.shape & header != header || headers.is_runt() {
        return Ok(());
    }
    let network = usize::from(headers.network);
    let transport = usize::from(headers.transport);
    match field {
        Field::EthDst => put(packet.bytes_mut(), 0, address(value)),
        Field::EthSrc => put(packet.bytes_mut(), 6, address(value)),
        Field::EthType => set_ethertype(packet, headers, value as u16),
        Field::VlanVid => set_tag(packet, headers, 0x0fff, value as u16),
        Field::VlanPcp => set_tag(packet, headers, 0xe000, (value as u16) << 13),
        Field::IpDscp => set_class(packet, headers, 0xfc, (value as u8) << 2),
        Field::IpEcn => set_class(packet, headers, 0x03, value as u8),
        Field::IpProto => set_protocol(packet, headers, value as u8),
        Field::Ipv4Src => checksum::write_address(packet, headers, network + 12, (value as u32).to_be_bytes(), true),
        Field::Ipv4Dst => checksum::write_address(packet, headers, network + 16, (value as u32).to_be_bytes(), true),
        Field::Ipv6Src => checksum::write_address(packet, headers, network + 8, value.to_be_bytes(), true),
        // The pseudo-header has the last destination of a routing header (RFC 8200 section 8.1).
        Field::Ipv6Dst => {
            checksum::write_address(packet, headers, network + 24, value.to_be_bytes(), !headers.is_routed);
        }
        Field::Ipv6Flabel => set_bits(packet, network, 0xf_ffff, value as u32),
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => {
            checksum::write_upper(packet, headers, transport, (value as u16).to_be_bytes())?;
        }
        Field::TcpDst | Field::UdpDst | Field::SctpDst => {
            checksum::write_upper(packet, headers, transport + 2, (value as u16).to_be_bytes())?;
        }
        Field::Icmpv4Type => checksum::write_upper(packet, headers, transport, [value as u8])?,
        Field::Icmpv4Code | Field::Icmpv6Code => checksum::write_upper(packet, headers, transport + 1, [value as u8])?,
        Field::Icmpv6Type => {
            checksum::write_upper(packet, headers, transport, [value as u8])?;
            // Another type may begin or end a packet of neighbour discovery.
            parse_again(packet, headers);
        }
        Field::Ipv6NdTarget => checksum::write_upper(packet, headers, transport + 8, value.to_be_bytes())?,
        Field::Ipv6NdSll | Field::Ipv6NdTll => {
            checksum::write_upper(packet, headers, headers.nd_address.into(), address(value))?;
        }
        Field::ArpOp => put(packet.bytes_mut(), network + 6, (value as u16).to_be_bytes()),
        Field::ArpSha => put(packet.bytes_mut(), network + 8, address(value)),
        Field::ArpSpa => put(packet.bytes_mut(), network + 14, (value as u32).to_be_bytes()),
        Field::ArpTha => put(packet.bytes_mut(), network + 18, address(value)),
        Field::ArpTpa => put(packet.bytes_mut(), network + 24, (value as u32).to_be_bytes()),
        Field::MplsLabel => set_bits(packet, headers.label.into(), 0xffff_f000, (value as u32) << 12),
        Field::MplsTc => set_bits(packet, headers.label.into(), 0xe00, (value as u32) << 9),
        Field::MplsBos => set_bits(packet, headers.label.into(), 0x100, (value as u32) << 8),
        Field::PbbIsid => set_bits(packet, headers.itag.into(), 0xff_ffff, value as u32),
        Field::TunnelId => fields.tunnel_id = value as u64,
        Field::InPort | Field::InPhyPort | Field::Metadata | Field::Ipv6Exthdr => {}
    }
    Ok(())
}

/// An Ethernet address of the number that its bytes make.
fn address(value: u128) -> [u8; 6] {
    let [_, _, bytes @ ..] = (value as u64).to_be_bytes();
    bytes
}

/// Sets the bits `mask` of the 32-bit number at `at`.
fn set_bits(packet: &mut impl PacketBuffer, at: usize, mask: u32, value: u32) {
    let bytes = packet.bytes_mut();
    let new = be32(bytes, at) & !mask | value & mask;
    put(bytes, at, new.to_be_bytes());
}

/// Sets the bits `mask` of the outermost VLAN tag.
fn set_tag(packet: &mut impl PacketBuffer, headers: &Headers, mask: u16, value: u16) {
    if headers.ethertype_at > 12 {
        let bytes = packet.bytes_mut();
        let new = be16(bytes, 14) & !mask | value & mask;
        put(bytes, 14, new.to_be_bytes());
    }
}

/// Sets the bits `mask` of IPv4's type of service or IPv6's traffic class.
fn set_class(packet: &mut impl PacketBuffer, headers: &Headers, mask: u8, value: u8) {
    let at = usize::from(headers.network);
    let bytes = packet.bytes_mut();
    let old = be16(bytes, at);
    let (mask, value) = (u16::from(mask), u16::from(value & mask));
    match headers.has(shape::IPV4) {
        true => checksum::write_ip(bytes, headers, at, (old & !mask | value).to_be_bytes()),
        false => put(bytes, at, (old & !(mask << 4) | value << 4).to_be_bytes()),
    }
}

fn set_ethertype(packet: &mut impl PacketBuffer, headers: &mut Headers, ethertype: u16) {
    if packet.checksum() == Checksum::Partial {
        // Nobody would find it behind another EtherType.
        packet.complete_checksum();
    }
    put(packet.bytes_mut(), headers.ethertype_at.into(), ethertype.to_be_bytes());
    *headers = Headers::parse(packet.bytes());
}

fn set_protocol(packet: &mut impl PacketBuffer, headers: &mut Headers, protocol: u8) {
    checksum::write_protocol(packet, headers, protocol);
    parse_again(packet, headers);
}

/// Parses the IP header and what is behind it again. Headers that were pushed in front of it stay.
fn parse_again(packet: &impl PacketBuffer, headers: &mut Headers) {
    let mut found = Headers::of_ip(packet.bytes(), headers.network.into());
    let pushed = headers.shape & (shape::MPLS | shape::PBB);
    found.visible = if pushed == 0 { found.shape } else { headers.visible };
    found.shape |= pushed;
    (found.ethertype_at, found.label, found.itag) = (headers.ethertype_at, headers.label, headers.itag);
    *headers = found;
}
