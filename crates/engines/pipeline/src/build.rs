//! Packets made of fields, for whoever wants to know what a switch does with one.

use linerate_flow_tables::packet::{Headers, PipelineFields, apply, fields_of, header_of, shape};
use linerate_openflow::{Action, Field, FieldMatch, Match};
use linerate_wire::{EtherType, Protocol};

/// Makes a packet that has the fields of `wanted`, with right lengths and checksums, of 60 bytes or more. Fields that are not given are 0, but for
/// TTLs of 64; headers that fields are part of need no prerequisites, for example `tcp_dst` makes IPv4 unless the EtherType says otherwise.
///
/// # Errors
/// The first field that such a packet cannot have together with the others.
pub fn build_packet(wanted: &Match) -> Result<Vec<u8>, Field> {
    let headers = wanted.fields.iter().fold(0, |all, of| all | header_of(of.field));
    let value = |field| wanted.get(field).map(|found| found.value);
    let mut packet = vec![0; 12];
    if value(Field::VlanVid).is_some_and(|vid| vid & 0x1000 != 0) || value(Field::VlanPcp).is_some() {
        packet.extend([0x81, 0, 0, 0]);
    }
    let ethertype = value(Field::EthType).map_or_else(|| ethertype_of(headers), |given| EtherType(given as u16));
    packet.extend(ethertype.0.to_be_bytes());
    match ethertype {
        EtherType::IPV4 => packet.extend(ipv4(&upper_layer(wanted, headers))),
        EtherType::IPV6 => {
            let extensions = value(Field::Ipv6Exthdr).unwrap_or(0) as u16;
            packet.extend(ipv6(&upper_layer(wanted, headers), extensions));
        }
        EtherType::ARP => packet.extend([&[0, 1, 8, 0, 6, 4, 0, 1][..], &[0; 20]].concat()),
        EtherType::PBB => packet.extend([0; 18]),
        // The bottom of the stack, with a TTL.
        _ if ethertype.is_mpls() => packet.extend([0, 0, 1, 64]),
        _ => {}
    }
    packet.resize(packet.len().max(60), 0);
    set_fields(&mut packet, wanted);
    let key = Headers::parse(&packet).key(&packet, &PipelineFields::from_match(wanted));
    let found = Match::new(fields_of(&key));
    let has = |of: &FieldMatch| {
        let mask = of.effective_mask();
        mask == 0 || found.get(of.field).is_some_and(|found| (found.value ^ of.value) & mask == 0)
    };
    wanted.fields.iter().find(|of| !has(of)).map_or(Ok(packet), |of| Err(of.field))
}

fn set_fields(packet: &mut Vec<u8>, wanted: &Match) {
    let mut headers = Headers::parse(packet);
    for of in &wanted.fields {
        // These two are there from the start, and a change would lose what is behind them.
        if !matches!(of.field, Field::EthType | Field::IpProto) {
            // Nothing fails: the packet is no fragment, there is room, and no TTL is decremented.
            let _ = apply(&Action::SetField(of.field, of.value), packet, &mut headers, &mut PipelineFields::default());
        }
    }
}

/// The EtherType of a packet with these headers.
fn ethertype_of(headers: u32) -> EtherType {
    const OF_IPV6: u32 = shape::IPV6 | shape::ICMPV6 | shape::ND | shape::ND_SLL | shape::ND_TLL;
    const OF_IPV4: u32 = shape::IP | shape::IPV4 | shape::ICMPV4 | shape::PORTS;
    match headers {
        _ if headers & OF_IPV6 != 0 => EtherType::IPV6,
        _ if headers & OF_IPV4 != 0 => EtherType::IPV4,
        _ if headers & shape::ARP != 0 => EtherType::ARP,
        _ if headers & shape::MPLS != 0 => EtherType::MPLS,
        _ if headers & shape::PBB != 0 => EtherType::PBB,
        _ => EtherType(0),
    }
}

/// An upper layer: its number, and its bytes with a checksum that is right for addresses of 0.
struct UpperLayer {
    protocol: Protocol,
    bytes: Vec<u8>,
}

fn upper_layer(wanted: &Match, headers: u32) -> UpperLayer {
    let implied = match headers {
        _ if headers & shape::TCP != 0 => Protocol::TCP,
        _ if headers & shape::UDP != 0 => Protocol::UDP,
        _ if headers & shape::SCTP != 0 => Protocol::SCTP,
        _ if headers & shape::ICMPV4 != 0 => Protocol::ICMPV4,
        _ if headers & (shape::ICMPV6 | shape::ND | shape::ND_SLL | shape::ND_TLL) != 0 => Protocol::ICMPV6,
        // A number that is reserved.
        _ => Protocol(255),
    };
    let protocol = wanted.get(Field::IpProto).map_or(implied, |given| Protocol(given.value as u8));
    let (mut bytes, checksum) = match protocol {
        // The header's length, and a window.
        Protocol::TCP => ([&[0; 12][..], &[0x50, 0, 0x20, 0, 0, 0, 0, 0]].concat(), 16),
        Protocol::UDP => (vec![0, 0, 0, 0, 0, 8, 0, 0], 6),
        Protocol::SCTP => (sctp(), 0),
        Protocol::ICMPV4 => (vec![0; 8], 2),
        Protocol::ICMPV6 => (icmpv6(wanted, headers), 2),
        _ => (Vec::new(), 0),
    };
    if checksum != 0 {
        let pseudo = match protocol {
            Protocol::ICMPV4 => linerate_wire::Sum::new(),
            _ => linerate_wire::Sum::new().add_u16(protocol.0.into()).add_u16(bytes.len() as u16),
        };
        let sum = pseudo.add_slice(&bytes).finish_udp();
        bytes[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
    }
    UpperLayer { protocol, bytes }
}

/// An SCTP header without chunks, and its checksum.
fn sctp() -> Vec<u8> {
    // The CRC32c of twelve bytes of 0, lowest byte first.
    [&[0; 8][..], &0x2b60_b55d_u32.to_le_bytes()].concat()
}

fn icmpv6(wanted: &Match, headers: u32) -> Vec<u8> {
    let implied = match headers {
        _ if headers & shape::ND_TLL != 0 => 136,
        _ if headers & (shape::ND | shape::ND_SLL) != 0 => 135,
        _ => 0,
    };
    let kind = wanted.get(Field::Icmpv6Type).map_or(implied, |given| given.value as u8);
    let body = match kind {
        135 => [&[0; 16][..], &[1, 1, 0, 0, 0, 0, 0, 0]].concat(),
        136 => [&[0; 16][..], &[2, 1, 0, 0, 0, 0, 0, 0]].concat(),
        _ => Vec::new(),
    };
    // Options that are not asked for stay away.
    let len = if headers & (shape::ND_SLL | shape::ND_TLL) != 0 { body.len() } else { body.len().min(16) };
    [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &body[..len]].concat()
}

fn ipv4(upper: &UpperLayer) -> Vec<u8> {
    let len = (20 + upper.bytes.len()) as u16;
    let header = linerate_wire::ipv4::Header { total_len: len, protocol: upper.protocol, ..Default::default() };
    let mut bytes = vec![0; 20];
    header.emit(&mut bytes);
    [bytes, upper.bytes.clone()].concat()
}

/// IPv6 with the extension headers of the field IPV6_EXTHDR, each empty, in the order of RFC 8200.
fn ipv6(upper: &UpperLayer, wanted: u16) -> Vec<u8> {
    const ORDER: [(u16, u8); 5] = [(1 << 6, 0), (1 << 3, 60), (1 << 5, 43), (1 << 4, 44), (1 << 2, 51)];
    let numbers: Vec<u8> = ORDER.iter().filter(|(bit, _)| wanted & bit != 0).map(|(_, number)| *number).collect();
    let last = match wanted {
        _ if wanted & 1 << 1 != 0 => Protocol::ESP,
        _ if wanted & 1 != 0 => Protocol::NO_NEXT_HEADER,
        _ => upper.protocol,
    };
    let next = |index: usize| numbers.get(index).copied().unwrap_or(last.0);
    // Options are one of padding (RFC 8200 section 4.2); four words are the shortest authentication header.
    let extension = |index: usize| match numbers[index] {
        0 | 60 => vec![next(index + 1), 0, 1, 4, 0, 0, 0, 0],
        51 => [&[next(index + 1), 2][..], &[0; 14]].concat(),
        _ => vec![next(index + 1), 0, 0, 0, 0, 0, 0, 0],
    };
    let extensions: Vec<u8> = (0..numbers.len()).flat_map(extension).collect();
    let data: &[u8] = if last == upper.protocol { &upper.bytes } else { &[] };
    let header = linerate_wire::ipv6::Header {
        payload_len: (extensions.len() + data.len()) as u16,
        next_header: Protocol(next(0)),
        ..Default::default()
    };
    let mut bytes = vec![0; 40];
    header.emit(&mut bytes);
    [&bytes, &extensions, data].concat()
}
