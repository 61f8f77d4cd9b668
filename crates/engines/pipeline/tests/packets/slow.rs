//! A decoder of packets that is slow, and written after the specification's table 11 rather than after the code.

use std::collections::BTreeMap;

use linerate_openflow::Field;

pub type Fields = BTreeMap<Field, u128>;

/// Reads from the front of bytes; a read beyond the end gives `None`.
#[derive(Clone)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn number(&mut self, bytes: usize) -> Option<u128> {
        let taken = self.take(bytes)?;
        Some(taken.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)))
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn limit(&mut self, bytes: usize) {
        self.0 = &self.0[..bytes.min(self.0.len())];
    }
}

/// The fields that are in the packet's bytes. Empty for a runt.
pub fn decode(bytes: &[u8]) -> Fields {
    let mut fields = Fields::new();
    let _ = ethernet(&mut fields, Cursor(bytes));
    fields
}

fn ethernet(fields: &mut Fields, mut at: Cursor<'_>) -> Option<()> {
    let (dst, src, mut ethertype) = (at.number(6)?, at.number(6)?, at.number(2)?);
    fields.insert(Field::EthDst, dst);
    fields.insert(Field::EthSrc, src);
    fields.insert(Field::VlanVid, 0);
    for tag in 0..8 {
        if !matches!(ethertype, 0x8100 | 0x88a8) || at.0.len() < 4 {
            break;
        }
        let tci = at.number(2)?;
        if tag == 0 {
            fields.insert(Field::VlanVid, 0x1000 | tci & 0xfff);
            fields.insert(Field::VlanPcp, tci >> 13);
        }
        ethertype = at.number(2)?;
    }
    fields.insert(Field::EthType, ethertype);
    match ethertype {
        0x0800 => ipv4(fields, at),
        0x86dd => ipv6(fields, at),
        0x0806 => arp(fields, at),
        0x8847 | 0x8848 => {
            let entry = at.number(4)?;
            fields.insert(Field::MplsLabel, entry >> 12);
            fields.insert(Field::MplsTc, entry >> 9 & 7);
            fields.insert(Field::MplsBos, entry >> 8 & 1);
            Some(())
        }
        0x88e7 => {
            let tci = at.number(4)?;
            at.take(14)?;
            fields.insert(Field::PbbIsid, tci & 0xff_ffff);
            Some(())
        }
        _ => None,
    }
}

fn arp(fields: &mut Fields, mut at: Cursor<'_>) -> Option<()> {
    if at.take(6)? != [0, 1, 8, 0, 6, 4] {
        return None;
    }
    if at.0.len() < 22 {
        return None;
    }
    let found = [(Field::ArpOp, 2), (Field::ArpSha, 6), (Field::ArpSpa, 4), (Field::ArpTha, 6), (Field::ArpTpa, 4)]
        .map(|(field, bytes)| (field, at.number(bytes)));
    fields.extend(found.into_iter().map(|(field, value)| (field, value.unwrap())));
    Some(())
}

fn ipv4(fields: &mut Fields, at: Cursor<'_>) -> Option<()> {
    let mut header = at.clone();
    let start = header.number(1)?;
    let (version, words) = (start >> 4, start as usize & 15);
    let class = header.number(1)?;
    let total = header.number(2)? as usize;
    header.take(2)?;
    let fragment = header.number(2)?;
    header.take(1)?;
    let protocol = header.number(1)?;
    header.take(2)?;
    let (src, dst) = (header.number(4)?, header.number(4)?);
    if version != 4 || words < 5 || total < words * 4 || at.0.len() < words * 4 {
        return None;
    }
    fields.insert(Field::IpDscp, class >> 2);
    fields.insert(Field::IpEcn, class & 3);
    fields.insert(Field::IpProto, protocol);
    fields.insert(Field::Ipv4Src, src);
    fields.insert(Field::Ipv4Dst, dst);
    if fragment & 0x1fff != 0 {
        return None;
    }
    let mut upper = at;
    upper.limit(total);
    upper.take(words * 4)?;
    match protocol {
        1 => {
            let (kind, code, _) = (upper.number(1)?, upper.number(1)?, upper.number(2)?);
            fields.insert(Field::Icmpv4Type, kind);
            fields.insert(Field::Icmpv4Code, code);
            Some(())
        }
        _ => ports(fields, protocol, upper),
    }
}

fn ports(fields: &mut Fields, protocol: u128, mut at: Cursor<'_>) -> Option<()> {
    let (len, src, dst) = match protocol {
        6 => (20, Field::TcpSrc, Field::TcpDst),
        17 => (8, Field::UdpSrc, Field::UdpDst),
        132 => (12, Field::SctpSrc, Field::SctpDst),
        _ => return None,
    };
    if at.0.len() < len {
        return None;
    }
    fields.insert(src, at.number(2)?);
    fields.insert(dst, at.number(2)?);
    Some(())
}

fn ipv6(fields: &mut Fields, mut at: Cursor<'_>) -> Option<()> {
    let start = at.number(4)?;
    let (len, next, _) = (at.number(2)? as usize, at.number(1)?, at.number(1)?);
    let (src, dst) = (at.number(16)?, at.number(16)?);
    if start >> 28 != 6 {
        return None;
    }
    fields.insert(Field::IpDscp, start >> 22 & 0x3f);
    fields.insert(Field::IpEcn, start >> 20 & 3);
    fields.insert(Field::Ipv6Flabel, start & 0xf_ffff);
    fields.insert(Field::Ipv6Src, src);
    fields.insert(Field::Ipv6Dst, dst);
    at.limit(len);
    let (headers, protocol, is_later) = extensions(&mut at, next);
    fields.insert(Field::IpProto, protocol);
    fields.insert(Field::Ipv6Exthdr, exthdr(&headers));
    match protocol {
        _ if is_later => None,
        58 => icmpv6(fields, at),
        _ => ports(fields, protocol, at),
    }
}

/// The numbers of all headers that were met, the upper layer's included; the upper layer's; and if this is a later fragment.
fn extensions(at: &mut Cursor<'_>, mut next: u128) -> (Vec<u128>, u128, bool) {
    let mut met = Vec::new();
    for _ in 0..12 {
        let mut header = at.clone();
        let mut skip = || -> Option<(u128, u128, usize)> {
            let (following, len, field) = (header.number(1)?, header.number(1)? as usize, header.number(2)?);
            let len = match next {
                0 | 43 | 60 => 8 + len * 8,
                44 => 8,
                51 => (8 + len * 4).max(8),
                _ => return None,
            };
            Some((following, field, len))
        };
        let Some((following, field, len)) = skip() else { break };
        if at.take(len).is_none() {
            break;
        }
        met.push(next);
        if next == 44 && field >> 3 != 0 {
            return (met, following, true);
        }
        next = following;
    }
    met.push(next);
    (met, next, false)
}

fn exthdr(met: &[u128]) -> u128 {
    let known: Vec<u128> = met.iter().copied().filter(|next| [0, 43, 44, 50, 51, 59, 60].contains(next)).collect();
    let mut bits = 0;
    let mut count = BTreeMap::new();
    for (index, next) in known.iter().enumerate() {
        *count.entry(*next).or_insert(0) += 1;
        bits |= match next {
            59 => 1,
            50 => 2,
            51 => 4,
            60 => 8,
            44 => 16,
            43 => 32,
            _ if index == 0 => 64,
            _ => 0,
        };
    }
    if count.iter().any(|(next, count)| *count > if *next == 60 { 2 } else { 1 }) {
        bits |= 128;
    }
    if !in_order(&known) {
        bits |= 256;
    }
    bits
}

/// True if headers are in the order of RFC 8200 section 4.1: hop-by-hop, destination, routing, fragment, authentication, ESP, destination. More
/// than two destination headers, and equal neighbours, are a matter of repeats alone.
fn in_order(known: &[u128]) -> bool {
    let mut is_right = true;
    for (index, next) in known.iter().enumerate() {
        let before = &known[..index];
        let had = |some: &[u128]| before.iter().any(|header| some.contains(header));
        let destinations = before.iter().filter(|header| **header == 60).count();
        is_right &= match next {
            0 => index == 0,
            43 => !had(&[44, 51, 50, 59]) && destinations < 2 && !last_destination(before),
            44 => !had(&[51, 50, 59]) && destinations < 2 && !last_destination(before),
            51 => !had(&[50, 59]) && destinations < 2 && !last_destination(before),
            50 => !had(&[59]) && destinations < 2 && !last_destination(before),
            60 => !had(&[59]),
            _ => true,
        };
    }
    is_right
}

/// True if a destination header came behind one that it comes first of, so that it was the last one.
fn last_destination(before: &[u128]) -> bool {
    before.iter().enumerate().any(|(index, header)| {
        *header == 60 && before[..index].iter().any(|earlier| [43, 44, 51, 50, 60].contains(earlier))
    })
}

fn icmpv6(fields: &mut Fields, mut at: Cursor<'_>) -> Option<()> {
    let (kind, code, _) = (at.number(1)?, at.number(1)?, at.number(2)?);
    fields.insert(Field::Icmpv6Type, kind);
    fields.insert(Field::Icmpv6Code, code);
    let (wanted, field) = match kind {
        135 => (1, Field::Ipv6NdSll),
        136 => (2, Field::Ipv6NdTll),
        _ => return None,
    };
    at.take(4)?;
    let target = at.number(16)?;
    fields.insert(Field::Ipv6NdTarget, target);
    for _ in 0..12 {
        let mut option = at.clone();
        let (kind, len) = (option.number(1)?, option.number(1)? as usize * 8);
        if len == 0 {
            return None;
        }
        at.take(len)?;
        if kind == wanted {
            fields.insert(field, option.number(6)?);
            return Some(());
        }
    }
    None
}

/// What the checksums of an IP packet cover.
pub struct Covered {
    /// The header of IPv4, if it is that.
    pub ipv4_header: Option<Vec<u8>>,
    /// Protocol of the upper layer.
    pub protocol: u8,
    /// The pseudo-header's addresses. Those of a packet with segments left in a routing header have no destination, which is not
    /// in the packet's header.
    pub addresses: Vec<u8>,
    /// The upper layer, unless the packet is a later fragment.
    pub data: Option<Vec<u8>>,
}

/// Finds what the checksums of a well-formed IP packet behind tags cover.
pub fn covered(bytes: &[u8]) -> Option<Covered> {
    let mut at = Cursor(bytes);
    at.take(12)?;
    loop {
        match at.number(2)? {
            0x8100 | 0x88a8 => at.take(2)?,
            0x0800 => return covered_by_ipv4(at.0),
            0x86dd => return covered_by_ipv6(at),
            _ => return None,
        };
    }
}

fn covered_by_ipv4(packet: &[u8]) -> Option<Covered> {
    let (header_len, total) = ((packet[0] & 15) as usize * 4, u16::from_be_bytes([packet[2], packet[3]]) as usize);
    let is_later = (packet[6] & 0x1f, packet[7]) != (0, 0);
    Some(Covered {
        ipv4_header: Some(packet[..header_len].to_vec()),
        protocol: packet[9],
        addresses: packet[12..20].to_vec(),
        data: (!is_later).then(|| packet[header_len..total].to_vec()),
    })
}

fn covered_by_ipv6(mut at: Cursor<'_>) -> Option<Covered> {
    at.take(4)?;
    let (len, next) = (at.number(2)? as usize, at.number(1)?);
    at.take(1)?;
    let mut addresses = at.take(32)?.to_vec();
    at.limit(len);
    let mut walk = at.clone();
    let mut number = next;
    while matches!(number, 0 | 43 | 51 | 60 | 44) {
        let start = walk.clone().take(8)?;
        if number == 43 && start[3] != 0 {
            addresses.truncate(16);
        }
        walk.take(if number == 51 {
            8 + start[1] as usize * 4
        } else if number == 44 {
            8
        } else {
            8 + start[1] as usize * 8
        })?;
        if number == 44 && u16::from_be_bytes([start[2], start[3]]) >> 3 != 0 {
            break;
        }
        number = start[0].into();
    }
    let (_, protocol, is_later) = extensions(&mut at, next);
    let data = (!is_later).then(|| at.0.to_vec());
    Some(Covered { ipv4_header: None, protocol: protocol as u8, addresses, data })
}
