//! Frames for human eyes: a line with [`Summary`], bytes with [`Hexdump`].

use crate::bytes::cut;
use crate::{EtherType, Ip, LayerKind, ParseError, Parsed, Transport};
use crate::{arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, mpls, tcp, udp, vlan, vxlan};
use std::fmt;

/// How many VXLAN layers are shown.
const MAX_DEPTH: usize = 4;

/// Displays a frame as one line: addresses, layers, lengths. What cannot be parsed is named in
/// brackets.
///
/// ```
/// use linerate_wire::{Stack, Summary, ethernet, ipv4, udp, vlan};
/// let stack = Stack::new()
///     .with(ethernet::Header::default())
///     .with(vlan::Header { vid: 100, ..Default::default() })
///     .with(ipv4::Header { src: [10, 0, 0, 1].into(), dst: [10, 1, 0, 1].into(), ..Default::default() })
///     .with(udp::Header { src_port: 1234, dst_port: 7, ..Default::default() });
/// assert_eq!(
///     Summary(&stack.build(64).unwrap().bytes).to_string(),
///     "64 B 00:00:00:00:00:00 > 00:00:00:00:00:00 vlan 100 IPv4 10.0.0.1 > 10.1.0.1 ttl 64 UDP 1234 > 7 data 18 B"
/// );
/// assert_eq!(Summary(&[0; 3]).to_string(), "3 B [Ethernet: needs 14 bytes, has 3]");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a>(
    /// The frame.
    pub &'a [u8],
);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0.len())?;
        write_frame(f, self.0, MAX_DEPTH)
    }
}

fn write_frame(f: &mut fmt::Formatter<'_>, frame: &[u8], depth: usize) -> fmt::Result {
    let ethernet = match ethernet::Packet::new_checked(frame) {
        Ok(ethernet) => ethernet,
        Err(error) => return write!(f, " [{error}]"),
    };
    write!(f, " {} > {}", ethernet.src(), ethernet.dst())?;
    let parsed = match Parsed::parse(frame) {
        Ok(parsed) => parsed,
        Err(error) => return write!(f, " {} [{error}]", ethernet.ethertype()),
    };
    write_tags(f, frame, &parsed)?;
    let l3 = cut(frame, parsed.l3_offset, frame.len());
    match (parsed.ip, parsed.ethertype) {
        (Some(ip), _) => write_ip(f, frame, &ip)?,
        (None, EtherType::ARP) => return or_error(f, arp::Header::parse(l3), write_arp),
        (None, EtherType(length)) if length < 1536 => write!(f, " 802.3 length {length}")?,
        (None, ethertype) => write!(f, " {ethertype} data {} B", l3.len())?,
    }
    let Some(inner) = parsed.inner(frame) else {
        return Ok(());
    };
    let transport_end = parsed.ip.and_then(|ip| ip.transport).map_or(0, |transport| transport.end);
    let header = cut(frame, transport_end - inner.len() - vxlan::HEADER_LEN, transport_end);
    or_error(f, vxlan::Header::parse(header), |f, header| write!(f, " vxlan {}", header.vni))?;
    if depth == 0 { f.write_str(" ...") } else { write_frame(f, inner, depth - 1) }
}

fn write_tags(f: &mut fmt::Formatter<'_>, frame: &[u8], parsed: &Parsed) -> fmt::Result {
    let tags = cut(frame, ethernet::HEADER_LEN, parsed.l3_offset);
    let (tags, labels) = tags.split_at(parsed.vlan_tags * vlan::HEADER_LEN);
    for tag in tags.chunks(vlan::HEADER_LEN) {
        or_error(f, vlan::Header::parse(tag), |f, tag| write!(f, " vlan {}", tag.vid))?;
    }
    for label in labels.chunks(mpls::HEADER_LEN) {
        or_error(f, mpls::Header::parse(label), |f, entry| write!(f, " mpls {}", entry.label))?;
    }
    Ok(())
}

fn write_arp(f: &mut fmt::Formatter<'_>, header: arp::Header) -> fmt::Result {
    let arp::Header { operation, sender_mac, sender_ip, target_ip, .. } = header;
    match operation {
        arp::REQUEST => write!(f, " ARP who has {target_ip}, tell {sender_ip} ({sender_mac})"),
        arp::REPLY => write!(f, " ARP {sender_ip} is at {sender_mac}"),
        other => write!(f, " ARP operation {other}"),
    }
}

fn write_ip(f: &mut fmt::Formatter<'_>, frame: &[u8], ip: &Ip) -> fmt::Result {
    let bytes = cut(frame, ip.offset, ip.end);
    match ip.kind {
        LayerKind::Ipv4 => or_error(f, ipv4::Packet::new_truncated(bytes), |f, packet| {
            write!(f, " IPv4 {} > {} ttl {}", packet.src(), packet.dst(), packet.ttl())
        })?,
        _ => or_error(f, ipv6::Packet::new_truncated(bytes), |f, packet| {
            write!(f, " IPv6 {} > {} hop limit {}", packet.src(), packet.dst(), packet.hop_limit())
        })?,
    }
    match ip.transport {
        Some(transport) => write_transport(f, frame, &transport)?,
        None if ip.is_fragment => write!(f, " fragment of {} data {} B", ip.protocol, ip.end - ip.payload_offset)?,
        None => write!(f, " {} data {} B", ip.protocol, ip.end - ip.payload_offset)?,
    }
    if ip.is_truncated { f.write_str(" [cut short]") } else { Ok(()) }
}

fn write_transport(f: &mut fmt::Formatter<'_>, frame: &[u8], transport: &Transport) -> fmt::Result {
    let bytes = cut(frame, transport.offset, transport.end);
    match transport.kind {
        LayerKind::Udp => or_error(f, udp::Packet::new_truncated(bytes), |f, packet| {
            write!(f, " UDP {} > {}", packet.src_port(), packet.dst_port())
        })?,
        LayerKind::Tcp => or_error(f, tcp::Header::parse(bytes), |f, header| {
            let tcp::Header { src_port, dst_port, flags, sequence, acknowledgment, window, .. } = header;
            write!(f, " TCP {src_port} > {dst_port} [{flags}] seq {sequence} ack {acknowledgment} win {window}")
        })?,
        LayerKind::Icmpv4 => or_error(f, icmpv4::Header::parse(bytes), |f, header| {
            let icmpv4::Header { kind, code, identifier, sequence, .. } = header;
            let text = icmp_text(icmpv4_name(kind), (kind, code), (identifier, sequence));
            write!(f, " ICMP {text}")
        })?,
        _ => or_error(f, icmpv6::Header::parse(bytes), |f, header| {
            let icmpv6::Header { kind, code, identifier, sequence, .. } = header;
            let text = icmp_text(icmpv6_name(kind), (kind, code), (identifier, sequence));
            write!(f, " ICMPv6 {text}")
        })?,
    }
    write!(f, " data {} B", transport.end - transport.payload_offset)
}

/// An echo by its name, identifier and sequence; anything else by type and code.
fn icmp_text(echo: Option<&str>, kind_code: (u8, u8), id_sequence: (u16, u16)) -> String {
    let ((kind, code), (id, sequence)) = (kind_code, id_sequence);
    match echo {
        Some(name) => format!("{name} id {id} seq {sequence}"),
        None => format!("type {kind} code {code}"),
    }
}

fn icmpv4_name(kind: u8) -> Option<&'static str> {
    match kind {
        icmpv4::ECHO_REQUEST => Some("echo request"),
        icmpv4::ECHO_REPLY => Some("echo reply"),
        _ => None,
    }
}

fn icmpv6_name(kind: u8) -> Option<&'static str> {
    match kind {
        icmpv6::ECHO_REQUEST => Some("echo request"),
        icmpv6::ECHO_REPLY => Some("echo reply"),
        _ => None,
    }
}

/// Writes the value, or the error in brackets.
fn or_error<T>(
    f: &mut fmt::Formatter<'_>,
    result: Result<T, ParseError>,
    write: impl FnOnce(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    match result {
        Ok(value) => write(f, value),
        Err(error) => write!(f, " [{error}]"),
    }
}

/// Displays bytes as lines of offset, 16 bytes in hexadecimal, and the printable ones as text.
///
/// ```
/// use linerate_wire::Hexdump;
/// let line = "0000  68 65 6c 6c 6f 00                                  hello.\n";
/// assert_eq!(Hexdump(b"hello\0").to_string(), line);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Hexdump<'a>(
    /// The bytes.
    pub &'a [u8],
);

impl fmt::Display for Hexdump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (line, bytes) in self.0.chunks(16).enumerate() {
            let mut hex = String::with_capacity(49);
            for (index, byte) in bytes.iter().enumerate() {
                let gap = if index == 8 { " " } else { "" };
                hex.push_str(&format!("{gap}{byte:02x} "));
            }
            let printable = |byte: &u8| {
                if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' }
            };
            let text: String = bytes.iter().map(printable).collect();
            writeln!(f, "{:04x}  {hex:<49}  {text}", line * 16)?;
        }
        Ok(())
    }
}
