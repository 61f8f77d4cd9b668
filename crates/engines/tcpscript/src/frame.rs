//! Frames: making those that arrive, reading those that leave, and the replies of a neighbour that resolve addresses.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linerate_wire::{EtherType, MacAddress, Parsed, Protocol, Sum, arp, ethernet, ipv4, ipv6, tcp};

use crate::script::IcmpError;

/// The runner's own MAC address.
pub const PEER_MAC: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 0x02]);

/// A segment with absolute numbers, and what of its IP header matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// Addresses.
    pub src: Option<IpAddr>,
    /// As `src`.
    pub dst: Option<IpAddr>,
    /// Fields of the TCP header.
    pub src_port: u16,
    /// As `src_port`.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Flags.
    pub flags: u8,
    /// Window field.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Option bytes.
    pub options: Vec<u8>,
    /// Data.
    pub data: Vec<u8>,
    /// DSCP and ECN.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
    /// Don't fragment.
    pub dont_fragment: bool,
    /// Header length in words, where it is a wrong one.
    pub data_offset: Option<u8>,
    /// The checksum is wrong.
    pub bad_checksum: bool,
    /// IPv4 options.
    pub ip_options: Vec<u8>,
}

/// What a frame that left is.
#[derive(Debug)]
pub enum Left {
    /// A segment.
    Tcp(Box<Wire>),
    /// An ICMP message: type and code.
    Icmp(u8, u8),
    /// Resolves or announces addresses, queries groups: none of a scenario's matters. Some want a reply.
    Neighbour(Option<Vec<u8>>),
    /// Anything else.
    Other(String),
}

impl Wire {
    /// The frame to `mac`.
    pub fn frame(&self, mac: MacAddress) -> Vec<u8> {
        let mut segment = vec![0; tcp::HEADER_LEN];
        segment.extend_from_slice(&self.options);
        let header_len = segment.len();
        segment.extend_from_slice(&self.data);
        segment[tcp::field::DATA_OFFSET.start] = self.data_offset.unwrap_or((header_len / 4) as u8) << 4;
        let mut packet = tcp::Packet::new_unchecked(&mut segment[..]);
        packet.set_src_port(self.src_port);
        packet.set_dst_port(self.dst_port);
        packet.set_sequence(self.seq);
        packet.set_acknowledgment(self.ack);
        packet.set_flags(tcp::Flags(self.flags));
        packet.set_window(self.window);
        packet.set_urgent(self.urgent);
        let (src, dst) = (self.src.unwrap_or(UNSPECIFIED), self.dst.unwrap_or(UNSPECIFIED));
        let sum = pseudo(src, dst, Protocol::TCP.0, segment.len()).add_slice(&segment).finish();
        let sum = if self.bad_checksum { sum ^ 0x5a5a } else { sum };
        segment[tcp::field::CHECKSUM].copy_from_slice(&sum.to_be_bytes());
        let ip = IpFields {
            src,
            dst,
            tos: self.tos,
            ttl: self.ttl,
            dont_fragment: self.dont_fragment,
            options: &self.ip_options,
        };
        ip.frame(mac, Protocol::TCP, &segment)
    }
}

const UNSPECIFIED: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

struct IpFields<'a> {
    src: IpAddr,
    dst: IpAddr,
    tos: u8,
    ttl: u8,
    dont_fragment: bool,
    options: &'a [u8],
}

impl IpFields<'_> {
    fn frame(&self, mac: MacAddress, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; ethernet::HEADER_LEN];
        let mut link = ethernet::Header { dst: mac, src: PEER_MAC, ethertype: EtherType::IPV4 };
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let options =
                    linerate_wire::Options::new(linerate_wire::LayerKind::Ipv4, self.options).unwrap_or_default();
                let header = ipv4::Header {
                    tos: self.tos,
                    total_len: (ipv4::HEADER_LEN + options.len() + payload.len()) as u16,
                    identification: 0,
                    dont_fragment: self.dont_fragment,
                    ttl: self.ttl,
                    protocol,
                    src,
                    dst,
                    options,
                    ..Default::default()
                };
                let mut bytes = vec![0; header.header_len()];
                header.emit(&mut bytes);
                frame.extend_from_slice(&bytes);
            }
            (src, dst) => {
                link.ethertype = EtherType::IPV6;
                let header = ipv6::Header {
                    traffic_class: self.tos,
                    flow_label: 0,
                    payload_len: payload.len() as u16,
                    next_header: protocol,
                    hop_limit: self.ttl,
                    src: v6(src),
                    dst: v6(dst),
                };
                let mut bytes = vec![0; ipv6::HEADER_LEN];
                header.emit(&mut bytes);
                frame.extend_from_slice(&bytes);
            }
        }
        link.emit(&mut frame);
        frame.extend_from_slice(payload);
        frame
    }
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V6(address) => address,
        IpAddr::V4(address) => address.to_ipv6_mapped(),
    }
}

fn pseudo(src: IpAddr, dst: IpAddr, protocol: u8, len: usize) -> Sum {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Sum::pseudo_ipv4(src, dst, protocol, len as u16),
        _ => Sum::pseudo_ipv6(v6(src), v6(dst), protocol, len as u32),
    }
}

/// An ICMP error from `router` about a segment from `wire.src`: it quotes IP header and the first bytes of TCP, as RFC 1812 section 4.3.2.3 has it.
pub fn icmp_frame(error: &IcmpError, router: IpAddr, quoted: &Wire, mac: MacAddress) -> Vec<u8> {
    let inner = quoted.frame(MacAddress::ZERO);
    let quoted_ip = &inner[ethernet::HEADER_LEN..];
    let to = quoted.src.unwrap_or(UNSPECIFIED);
    let mut message = vec![error.kind, error.code, 0, 0];
    let is_v4 = to.is_ipv4();
    match is_v4 {
        true => message.extend_from_slice(&[0, 0, (error.mtu >> 8) as u8, error.mtu as u8]),
        false => message.extend_from_slice(&error.mtu.to_be_bytes()),
    }
    message.extend_from_slice(&quoted_ip[..quoted_ip.len().min(if is_v4 { 548 } else { 1232 })]);
    let protocol = if is_v4 { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
    let sum = if is_v4 { Sum::new() } else { pseudo(router, to, protocol.0, message.len()) };
    let sum = sum.add_slice(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let ip = IpFields { src: router, dst: to, tos: 0, ttl: 255, dont_fragment: false, options: &[] };
    ip.frame(mac, protocol, &message)
}

/// Reads a frame that left.
pub fn read(frame: &[u8]) -> Left {
    let Ok(parsed) = Parsed::parse(frame) else { return Left::Other("a frame that cannot be parsed".into()) };
    if parsed.ethertype == EtherType::ARP {
        return Left::Neighbour(arp_reply(frame));
    }
    let Some(ip) = parsed.ip else { return Left::Other(format!("a frame of type {:#06x}", parsed.ethertype.0)) };
    let (header, payload) = (&frame[ip.offset..], &frame[ip.payload_offset..ip.end]);
    let (src, dst, tos, ttl, dont_fragment): (IpAddr, IpAddr, _, _, _) = match parsed.ethertype {
        EtherType::IPV4 => {
            let packet = ipv4::Packet::new_unchecked(header);
            (packet.src().into(), packet.dst().into(), packet.tos(), packet.ttl(), packet.dont_fragment())
        }
        _ => {
            let packet = ipv6::Packet::new_unchecked(header);
            (packet.src().into(), packet.dst().into(), packet.traffic_class(), packet.hop_limit(), true)
        }
    };
    match ip.protocol {
        Protocol::TCP => match tcp::Packet::new_checked(payload) {
            Ok(packet) => Left::Tcp(Box::new(Wire {
                src: Some(src),
                dst: Some(dst),
                src_port: packet.src_port(),
                dst_port: packet.dst_port(),
                seq: packet.sequence(),
                ack: packet.acknowledgment(),
                flags: packet.flags().0,
                window: packet.window(),
                urgent: packet.urgent(),
                options: packet.options().to_vec(),
                data: packet.payload().to_vec(),
                tos,
                ttl,
                dont_fragment,
                data_offset: None,
                bad_checksum: !packet.verify_checksum(pseudo(src, dst, Protocol::TCP.0, payload.len())),
                ip_options: Vec::new(),
            })),
            Err(error) => Left::Other(format!("a segment that cannot be parsed: {error}")),
        },
        Protocol::ICMPV6 if payload.first().is_some_and(|kind| (130..=143).contains(kind)) => {
            Left::Neighbour(neighbour_advertisement(frame, src, payload))
        }
        Protocol(2) | Protocol::HOP_BY_HOP => Left::Neighbour(None),
        Protocol::ICMPV4 | Protocol::ICMPV6 if payload.len() >= 8 => Left::Icmp(payload[0], payload[1]),
        other => Left::Other(format!("a packet of protocol {}", other.0)),
    }
}

/// The reply to an ARP request for any address but the asker's own.
fn arp_reply(frame: &[u8]) -> Option<Vec<u8>> {
    let packet = arp::Packet::new_checked(&frame[ethernet::HEADER_LEN..]).ok()?;
    let announces = packet.sender_ip() == packet.target_ip() || packet.sender_ip().is_unspecified();
    if packet.operation() != arp::REQUEST || announces {
        return None;
    }
    let header = arp::Header {
        operation: arp::REPLY,
        sender_mac: PEER_MAC,
        sender_ip: packet.target_ip(),
        target_mac: packet.sender_mac(),
        target_ip: packet.sender_ip(),
    };
    let link = ethernet::Header { dst: packet.sender_mac(), src: PEER_MAC, ethertype: EtherType::ARP };
    let mut reply = vec![0; 60];
    link.emit(&mut reply);
    header.emit(&mut reply[ethernet::HEADER_LEN..]);
    Some(reply)
}

/// The answer to a neighbour solicitation (RFC 4861 section 7.2.4), but not to one that looks for duplicates.
fn neighbour_advertisement(frame: &[u8], src: IpAddr, payload: &[u8]) -> Option<Vec<u8>> {
    if payload[0] != 135 || payload.len() < 24 || src.is_unspecified() {
        return None;
    }
    let target: [u8; 16] = payload[8..24].try_into().ok()?;
    let target_address = IpAddr::V6(target.into());
    if target_address == src {
        return None;
    }
    // Advertisement, solicited and override, with the target's link-layer address.
    let mut message = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
    message.extend_from_slice(&target);
    message.extend_from_slice(&[2, 1]);
    message.extend_from_slice(&PEER_MAC.0);
    let sum = pseudo(target_address, src, Protocol::ICMPV6.0, message.len()).add_slice(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mac = ethernet::Packet::new_unchecked(frame).src();
    let ip = IpFields { src: target_address, dst: src, tos: 0, ttl: 255, dont_fragment: false, options: &[] };
    Some(ip.frame(mac, Protocol::ICMPV6, &message))
}
