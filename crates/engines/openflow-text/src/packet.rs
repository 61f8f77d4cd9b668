//! Makes a packet of fields, for tracing it.

use linerate_wire::{EtherType, Fill, Layer, MacAddress, Protocol, Stack};
use linerate_wire::{arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, mpls, tcp, udp, vlan};

use crate::TextError;
use crate::names::{ARP, ICMP, ICMPV6, IPV4, IPV6, MPLS, MPLS_MULTICAST, PBB, SCTP, TCP, UDP};
use crate::parse_match;
use linerate_openflow::{Field, Match, PortNumber};

/// Shortest frame in bytes, without FCS; shorter ones are filled up with zero bytes.
const SHORTEST: usize = 60;

/// A packet that fields describe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPacket {
    /// The port by which it arrives; 1 if the text says nothing.
    pub in_port: PortNumber,
    /// Metadata of the logical port that it arrives by.
    pub tunnel_id: u64,
    /// The frame without FCS, with right lengths and checksums.
    pub bytes: Vec<u8>,
}

/// Reads a packet in the words of a match without masks, for example `in_port=1,tcp,nw_src=192.0.2.1,nw_dst=192.0.2.2,tp_dst=80`. What is
/// not given is 0; the TTL is 64.
///
/// # Errors
/// As [`super::parse_match`]; a value has a mask, or is not one of a packet.
pub fn parse_packet(text: &str) -> Result<TextPacket, TextError> {
    let matching = parse_match(text)?;
    for wanted in &matching.fields {
        let any_tag = wanted.field == Field::VlanVid && wanted.mask == Some(0x1000);
        if wanted.mask.is_some() && !any_tag {
            return Err(TextError::new(
                text,
                format!("a packet has whole values; write {} without a mask", wanted.field.name()),
            ));
        }
        if matches!(wanted.field, Field::Metadata | Field::Ipv6Exthdr | Field::MplsBos | Field::InPhyPort) {
            return Err(TextError::new(text, format!("a packet cannot be made with {}", wanted.field.name())));
        }
    }
    let fields = Fields(&matching);
    let bytes = fields.frame().map_err(|problem| TextError::new(text, problem))?;
    let in_port = matching.get(Field::InPort).map_or(PortNumber(1), |wanted| PortNumber(wanted.value as u32));
    Ok(TextPacket { in_port, tunnel_id: fields.get(Field::TunnelId) as u64, bytes })
}

struct Fields<'a>(&'a Match);

impl Fields<'_> {
    fn get(&self, field: Field) -> u128 {
        self.0.get(field).map_or(0, |wanted| wanted.value)
    }

    fn mac(&self, field: Field) -> MacAddress {
        MacAddress::from_u64(self.get(field) as u64)
    }

    fn frame(&self) -> Result<Vec<u8>, String> {
        let eth_type = self.get(Field::EthType);
        let mut stack = Stack::new().with(ethernet::Header {
            dst: self.mac(Field::EthDst),
            src: self.mac(Field::EthSrc),
            ethertype: EtherType(eth_type as u16),
        });
        let vid = self.get(Field::VlanVid);
        if vid & 0x1000 != 0 {
            let (pcp, ethertype) = (self.get(Field::VlanPcp) as u8, EtherType(eth_type as u16));
            stack = stack.with(vlan::Header { pcp, dei: false, vid: vid as u16 & 0xfff, ethertype });
        }
        let mut payload = Vec::new();
        stack = match eth_type {
            IPV4 | IPV6 => self.ip(stack, &mut payload),
            ARP => stack.with(self.arp()),
            MPLS => stack.with(self.mpls()),
            MPLS_MULTICAST => {
                self.mpls().emit(grown(&mut payload, 4));
                stack
            }
            PBB => {
                let isid = self.get(Field::PbbIsid) as u32;
                grown(&mut payload, 18)[..4].copy_from_slice(&isid.to_be_bytes());
                stack
            }
            _ => stack,
        };
        let length = (stack.headers_len() + payload.len()).max(SHORTEST);
        // IP ends where its length says, so that what fills the frame up is not part of a checksum.
        let exact = stack.headers_len() + payload.len();
        let built = stack.fill(Fill::Repeat(payload)).build(exact).map_err(|error| error.to_string())?;
        let mut bytes = built.bytes;
        bytes.resize(length, 0);
        Ok(bytes)
    }

    fn mpls(&self) -> mpls::Header {
        let (label, tc) = (self.get(Field::MplsLabel) as u32, self.get(Field::MplsTc) as u8);
        mpls::Header { label, tc, bottom: true, ttl: 64 }
    }

    fn arp(&self) -> arp::Header {
        let address = |field| core::net::Ipv4Addr::from(self.get(field) as u32);
        arp::Header {
            operation: self.get(Field::ArpOp).max(1) as u16,
            sender_mac: self.mac(Field::ArpSha),
            sender_ip: address(Field::ArpSpa),
            target_mac: self.mac(Field::ArpTha),
            target_ip: address(Field::ArpTpa),
        }
    }

    fn ip(&self, stack: Stack, payload: &mut Vec<u8>) -> Stack {
        let tos = (self.get(Field::IpDscp) << 2 | self.get(Field::IpEcn)) as u8;
        let ip_proto = self.get(Field::IpProto);
        let protocol = Protocol(ip_proto as u8);
        let stack = if self.get(Field::EthType) == IPV4 {
            let address = |field| core::net::Ipv4Addr::from(self.get(field) as u32);
            let (src, dst) = (address(Field::Ipv4Src), address(Field::Ipv4Dst));
            stack.with(ipv4::Header { tos, ttl: 64, protocol, src, dst, ..Default::default() })
        } else {
            let address = |field| core::net::Ipv6Addr::from(self.get(field));
            stack.with(ipv6::Header {
                traffic_class: tos,
                flow_label: self.get(Field::Ipv6Flabel) as u32,
                next_header: protocol,
                hop_limit: 64,
                src: address(Field::Ipv6Src),
                dst: address(Field::Ipv6Dst),
                ..Default::default()
            })
        };
        match self.transport(ip_proto, payload) {
            Some(layer) => stack.with(layer),
            None => stack,
        }
    }

    fn transport(&self, ip_proto: u128, payload: &mut Vec<u8>) -> Option<Layer> {
        let number = |field| self.get(field) as u16;
        let is_ipv4 = self.get(Field::EthType) == IPV4;
        match ip_proto {
            TCP => {
                let (src_port, dst_port) = (number(Field::TcpSrc), number(Field::TcpDst));
                Some(tcp::Header { src_port, dst_port, ..Default::default() }.into())
            }
            UDP => {
                let (src_port, dst_port) = (number(Field::UdpSrc), number(Field::UdpDst));
                Some(udp::Header { src_port, dst_port, ..Default::default() }.into())
            }
            SCTP => {
                let header = grown(payload, 12);
                header[..2].copy_from_slice(&number(Field::SctpSrc).to_be_bytes());
                header[2..4].copy_from_slice(&number(Field::SctpDst).to_be_bytes());
                None
            }
            ICMP if is_ipv4 => {
                let (kind, code) = (self.get(Field::Icmpv4Type) as u8, self.get(Field::Icmpv4Code) as u8);
                Some(icmpv4::Header { kind, code, ..Default::default() }.into())
            }
            ICMPV6 if !is_ipv4 => {
                let (kind, code) = (self.get(Field::Icmpv6Type) as u8, self.get(Field::Icmpv6Code) as u8);
                self.neighbour_discovery(kind, payload);
                Some(icmpv6::Header { kind, code, checksum: 0, identifier: 0, sequence: 0 }.into())
            }
            _ => None,
        }
    }

    /// The target and the link-layer address of a solicitation (135) or an advertisement (136); RFC 4861.
    fn neighbour_discovery(&self, kind: u8, payload: &mut Vec<u8>) {
        let (option, field) = match kind {
            135 => (1, Field::Ipv6NdSll),
            136 => (2, Field::Ipv6NdTll),
            _ => return,
        };
        payload.extend(self.get(Field::Ipv6NdTarget).to_be_bytes());
        payload.extend([option, 1]);
        payload.extend(self.mac(field).0);
    }
}

/// `bytes` longer by `count` zero bytes, which are returned.
fn grown(bytes: &mut Vec<u8>, count: usize) -> &mut [u8] {
    let start = bytes.len();
    bytes.resize(start + count, 0);
    &mut bytes[start..]
}
