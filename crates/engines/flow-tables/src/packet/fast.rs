//! Headers and key of common packets in one pass: TCP or UDP over IPv4 without options or over IPv6 without extension headers, whole, with one VLAN
//! tag or none. All their fields lie at places that the compiler knows.

use linerate_classify::Key;
use linerate_wire::{EtherType, Protocol, ipv4, ipv6, tcp, udp};

use super::key::SHAPE_AT;
use super::{Headers, PipelineFields, shape};

/// Bytes of the shortest packets that are read here, without their tag: UDP over IPv4 and IPv6.
const IPV4_LEN: usize = 14 + ipv4::HEADER_LEN + udp::HEADER_LEN;
const IPV6_LEN: usize = 14 + ipv6::HEADER_LEN + udp::HEADER_LEN;

impl Headers {
    /// Finds the headers of a packet and writes its key: [`Headers::parse`] and [`Headers::fill_key`], faster.
    #[inline]
    pub fn read(bytes: &[u8], fields: &PipelineFields, key: &mut Key) -> Headers {
        match CommonHeaders::read(bytes, fields, key) {
            Some(common) => common.headers(),
            None => Headers::read_slowly(bytes, fields, key),
        }
    }

    /// As [`Headers::read`], for packets that [`CommonHeaders::read`] does not know. Not inlined, so that what is common stays small.
    #[inline(never)]
    pub fn read_slowly(bytes: &[u8], fields: &PipelineFields, key: &mut Key) -> Headers {
        let headers = Headers::parse(bytes);
        headers.fill_key(bytes, fields, key);
        headers
    }
}

/// The headers of a common packet, in three bytes: which of them it has says where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonHeaders {
    protocol: u8,
    network: u8,
    is_ipv6: bool,
}

impl CommonHeaders {
    /// Writes the key of a common packet; `None`, and the key is as before, if it is another one.
    #[inline]
    pub fn read(bytes: &[u8], fields: &PipelineFields, key: &mut Key) -> Option<CommonHeaders> {
        let start = bytes.first_chunk::<18>()?;
        match be16(start, 12) {
            IPV4 => read_ipv4::<IPV4_LEN, 0>(bytes, 0, fields, key),
            IPV6 => read_ipv6::<IPV6_LEN, 0>(bytes, 0, fields, key),
            TAG | SERVICE_TAG => {
                let vlan = u64::from(be16(start, 14) | 0x1000);
                match be16(start, 16) {
                    IPV4 => read_ipv4::<{ IPV4_LEN + 4 }, 4>(bytes, vlan, fields, key),
                    IPV6 => read_ipv6::<{ IPV6_LEN + 4 }, 4>(bytes, vlan, fields, key),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Where the headers are.
    pub fn headers(self) -> Headers {
        let CommonHeaders { protocol, network, is_ipv6 } = self;
        let (_, upper) = upper_layer(protocol);
        let (version, protocol_at, len) = if is_ipv6 { (shape::IPV6, 6, 40) } else { (shape::IPV4, 9, 20) };
        let (shape, network) = (shape::IP | version | upper, u16::from(network));
        Headers {
            shape,
            visible: shape,
            protocol,
            ethertype_at: network - 2,
            network,
            protocol_at: network + protocol_at,
            transport: network + len,
            ..Headers::default()
        }
    }
}

const IPV4: u16 = EtherType::IPV4.0;
const IPV6: u16 = EtherType::IPV6.0;
const TAG: u16 = EtherType::VLAN.0;
const SERVICE_TAG: u16 = EtherType::QINQ.0;

#[inline(always)]
fn read_ipv4<const LEN: usize, const TAG_LEN: usize>(
    bytes: &[u8],
    vlan: u64,
    fields: &PipelineFields,
    key: &mut Key,
) -> Option<CommonHeaders> {
    let start = bytes.first_chunk::<LEN>()?;
    let at = 14 + TAG_LEN;
    let (need, found) = upper_layer(start[at + 9]);
    // Version and length, and neither an offset nor more fragments.
    let is_plain = start[at] == 0x45 && be16(start, at + 6) & 0x3fff == 0;
    let fits = usize::from(be16(start, at + 2)) >= 20 + need && bytes.len() >= at + 20 + need;
    if !is_plain || !fits {
        return None;
    }
    let shape = shape::IP | shape::IPV4 | found;
    let class = (u64::from(start[at + 9]) << 8 | u64::from(start[at + 1])) << 48;
    let ports = be32(start, at + 20);
    first_line(start, key, fields, [vlan << 16 | u64::from(IPV4), be64(start, at + 12), ports.into(), class]);
    key.words[7] = u64::from(shape) << SHAPE_AT | u64::from(fields.in_port);
    Some(CommonHeaders { protocol: start[at + 9], network: at as u8, is_ipv6: false })
}

#[inline(always)]
fn read_ipv6<const LEN: usize, const TAG_LEN: usize>(
    bytes: &[u8],
    vlan: u64,
    fields: &PipelineFields,
    key: &mut Key,
) -> Option<CommonHeaders> {
    let start = bytes.first_chunk::<LEN>()?;
    let at = 14 + TAG_LEN;
    let (need, found) = upper_layer(start[at + 6]);
    let word = be32(start, at);
    let fits = usize::from(be16(start, at + 4)) >= need && bytes.len() >= at + 40 + need;
    if word >> 28 != 6 || !fits {
        return None;
    }
    let shape = shape::IP | shape::IPV6 | found;
    let class = (u64::from(start[at + 6]) << 8 | u64::from(word >> 20 & 0xff)) << 48;
    let ports = be32(start, at + 40);
    first_line(start, key, fields, [vlan << 16 | u64::from(IPV6), 0, ports.into(), class]);
    let words = &mut key.words;
    words[7] = u64::from(shape) << SHAPE_AT | u64::from(fields.in_port) | Key::EXTENDED;
    words[8] = be64(start, at + 8);
    words[9] = be64(start, at + 16);
    words[10] = be64(start, at + 24);
    words[11] = be64(start, at + 32);
    (words[12], words[13]) = (0, 0);
    words[14] = u64::from(word & 0xffff);
    words[15] = u64::from(word >> 16 & 15) << 12;
    Some(CommonHeaders { protocol: start[at + 6], network: at as u8, is_ipv6: true })
}

/// The least length of TCP or UDP, and its bit. Any other protocol has a length that no packet has.
#[inline(always)]
fn upper_layer(protocol: u8) -> (usize, u32) {
    match Protocol(protocol) {
        Protocol::TCP => (tcp::HEADER_LEN, shape::TCP),
        Protocol::UDP => (udp::HEADER_LEN, shape::UDP),
        _ => (1 << 20, 0),
    }
}

/// Writes words 0 to 6; `words` are the VLAN and the EtherType, and words 2, 3 and 4, the physical port apart.
#[inline(always)]
fn first_line<const LEN: usize>(start: &[u8; LEN], key: &mut Key, fields: &PipelineFields, words: [u64; 4]) {
    let [types, addresses, ports, class] = words;
    key.words[0] = be64(start, 0) & !0xffff | types & 0xffff;
    key.words[1] = be64(start, 6) & !0xffff | types >> 16;
    key.words[2] = addresses;
    key.words[3] = u64::from(fields.in_phy_port) << 32 | ports;
    key.words[4] = class;
    key.words[5] = fields.metadata;
    key.words[6] = fields.tunnel_id;
}

#[inline(always)]
fn be16<const LEN: usize>(bytes: &[u8; LEN], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
fn be32<const LEN: usize>(bytes: &[u8; LEN], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline(always)]
fn be64<const LEN: usize>(bytes: &[u8; LEN], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}
