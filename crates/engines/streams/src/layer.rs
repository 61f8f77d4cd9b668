//! Layers of a stream's packets: `"udp"` with every field at its default, or `{ udp = { destination = 53 } }`.
//!
//! Defaults are those of a test frame: addresses of 198.18.0.0/15 (RFC 2544, appendix C.2.2) and 2001:2::/48 (RFC 5180,
//! section 8), UDP from port 49184 to port 7 (RFC 2544, appendix C.2.6.4), TTL 64.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::fmt;

use linerate_wire::{
    EtherType, Layer, MacAddress, Protocol, ethernet, geneve, gre, icmpv4, icmpv6, ipv4, ipv6, mpls, tcp, udp, vlan,
    vxlan,
};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::scalar::{AsText, TcpFlags};

/// A locally administered unicast address: hosts on a shared network drop what is sent to it.
const DESTINATION_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const SOURCE_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const SOURCE_PORT: u16 = 0xc020;
const DESTINATION_PORT: u16 = 7;

/// One layer as written.
pub(super) enum RawLayer {
    Ethernet(Ethernet),
    Vlan(Vlan),
    Qinq(Vlan),
    Mpls(Mpls),
    Ipv4(Ipv4),
    Ipv6(Ipv6),
    Udp(Udp),
    Tcp(Tcp),
    Icmp(Icmp),
    Icmpv6(Icmp),
    Vxlan(Vxlan),
    Geneve(Vxlan),
    Gre(Gre),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    Ethernet,
    Vlan,
    Qinq,
    Mpls,
    Ipv4,
    Ipv6,
    Udp,
    Tcp,
    Icmp,
    Icmpv6,
    Vxlan,
    Geneve,
    Gre,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ethernet {
    pub source: Option<AsText<MacAddress>>,
    destination: Option<AsText<MacAddress>>,
    ethertype: Option<u16>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vlan {
    id: Option<u16>,
    priority: Option<u8>,
    drop_eligible: Option<bool>,
    tpid: Option<u16>,
    ethertype: Option<u16>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mpls {
    label: Option<u32>,
    class: Option<u8>,
    ttl: Option<u8>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ipv4 {
    source: Option<AsText<Ipv4Addr>>,
    destination: Option<AsText<Ipv4Addr>>,
    tos: Option<u8>,
    dscp: Option<u8>,
    identification: Option<u16>,
    dont_fragment: Option<bool>,
    ttl: Option<u8>,
    protocol: Option<u8>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ipv6 {
    pub source: Option<AsText<Ipv6Addr>>,
    pub destination: Option<AsText<Ipv6Addr>>,
    class: Option<u8>,
    flow_label: Option<u32>,
    hop_limit: Option<u8>,
    next_header: Option<u8>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Udp {
    source: Option<u16>,
    destination: Option<u16>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tcp {
    source: Option<u16>,
    destination: Option<u16>,
    sequence: Option<u32>,
    acknowledgment: Option<u32>,
    flags: Option<TcpFlags>,
    window: Option<u16>,
    urgent: Option<u16>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Icmp {
    r#type: Option<u8>,
    code: Option<u8>,
    identifier: Option<u16>,
    sequence: Option<u16>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Vxlan {
    vni: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gre {
    key: Option<u32>,
}

impl<'de> Deserialize<'de> for RawLayer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawLayer, D::Error> {
        deserializer.deserialize_any(LayerVisitor)
    }
}

struct LayerVisitor;

impl<'de> Visitor<'de> for LayerVisitor {
    type Value = RawLayer;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a layer: its name in quotes, or { NAME = { FIELD = VALUE } }")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<RawLayer, E> {
        Ok(RawLayer::plain(Name::deserialize(serde::de::value::StrDeserializer::new(name))?))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawLayer, A::Error> {
        let Some(name) = map.next_key()? else {
            return Err(A::Error::custom("a layer without a name; a layer is { NAME = { FIELD = VALUE } }"));
        };
        let layer = match name {
            Name::Ethernet => RawLayer::Ethernet(map.next_value()?),
            Name::Vlan => RawLayer::Vlan(map.next_value()?),
            Name::Qinq => RawLayer::Qinq(map.next_value()?),
            Name::Mpls => RawLayer::Mpls(map.next_value()?),
            Name::Ipv4 => RawLayer::Ipv4(map.next_value()?),
            Name::Ipv6 => RawLayer::Ipv6(map.next_value()?),
            Name::Udp => RawLayer::Udp(map.next_value()?),
            Name::Tcp => RawLayer::Tcp(map.next_value()?),
            Name::Icmp => RawLayer::Icmp(map.next_value()?),
            Name::Icmpv6 => RawLayer::Icmpv6(map.next_value()?),
            Name::Vxlan => RawLayer::Vxlan(map.next_value()?),
            Name::Geneve => RawLayer::Geneve(map.next_value()?),
            Name::Gre => RawLayer::Gre(map.next_value()?),
        };
        match map.next_key::<String>()? {
            None => Ok(layer),
            Some(other) => {
                Err(A::Error::custom(format!("{other}: each layer is a table of its own, in the order of the packet")))
            }
        }
    }
}

impl RawLayer {
    /// A layer with every field at its default.
    fn plain(name: Name) -> RawLayer {
        match name {
            Name::Ethernet => RawLayer::Ethernet(Ethernet::default()),
            Name::Vlan => RawLayer::Vlan(Vlan::default()),
            Name::Qinq => RawLayer::Qinq(Vlan::default()),
            Name::Mpls => RawLayer::Mpls(Mpls::default()),
            Name::Ipv4 => RawLayer::Ipv4(Ipv4::default()),
            Name::Ipv6 => RawLayer::Ipv6(Ipv6::default()),
            Name::Udp => RawLayer::Udp(Udp::default()),
            Name::Tcp => RawLayer::Tcp(Tcp::default()),
            Name::Icmp => RawLayer::Icmp(Icmp::default()),
            Name::Icmpv6 => RawLayer::Icmpv6(Icmp::default()),
            Name::Vxlan => RawLayer::Vxlan(Vxlan::default()),
            Name::Geneve => RawLayer::Geneve(Vxlan::default()),
            Name::Gre => RawLayer::Gre(Gre::default()),
        }
    }

    /// The layers of a stream that names none: UDP over IPv4.
    pub(super) fn usual() -> Vec<RawLayer> {
        [Name::Ethernet, Name::Ipv4, Name::Udp].map(RawLayer::plain).into()
    }

    /// The layer, given the one after it (`None`: the last).
    pub(super) fn layer(&self, next: Option<&RawLayer>) -> Result<Layer, String> {
        Ok(match self {
            RawLayer::Ethernet(ethernet) => ethernet.header().into(),
            RawLayer::Vlan(tag) => tag.layer(EtherType::VLAN),
            RawLayer::Qinq(tag) => tag.layer(EtherType::QINQ),
            RawLayer::Mpls(label) => label.header().into(),
            RawLayer::Ipv4(ip) => ip.header()?.into(),
            RawLayer::Ipv6(ip) => ip.header().into(),
            RawLayer::Udp(udp) => udp.header(next).into(),
            RawLayer::Tcp(tcp) => tcp.header().into(),
            RawLayer::Icmp(icmp) => icmp.header_v4().into(),
            RawLayer::Icmpv6(icmp) => icmp.header_v6().into(),
            RawLayer::Vxlan(tunnel) => vxlan::Header { vni: tunnel.vni.unwrap_or(1) }.into(),
            RawLayer::Geneve(tunnel) => {
                geneve::Header { vni: tunnel.vni.unwrap_or(1), ..geneve::Header::default() }.into()
            }
            RawLayer::Gre(tunnel) => gre::Header { key: tunnel.key, ..gre::Header::default() }.into(),
        })
    }
}

impl Ethernet {
    fn header(&self) -> ethernet::Header {
        ethernet::Header {
            src: self.source.map_or(SOURCE_MAC, |text| text.0),
            dst: self.destination.map_or(DESTINATION_MAC, |text| text.0),
            // Behind a frame without further layers: the type for experiments (IEEE 802, local experimental 1).
            ethertype: EtherType(self.ethertype.unwrap_or(0x88b5)),
        }
    }
}

impl Vlan {
    fn layer(&self, tpid: EtherType) -> Layer {
        let header = vlan::Header {
            pcp: self.priority.unwrap_or(0),
            dei: self.drop_eligible.unwrap_or(false),
            vid: self.id.unwrap_or(1),
            ethertype: EtherType(self.ethertype.unwrap_or(0x88b5)),
        };
        Layer::Vlan { tpid: self.tpid.map_or(tpid, EtherType), header }
    }
}

impl Mpls {
    fn header(&self) -> mpls::Header {
        // Labels below 16 are reserved (RFC 3032, section 2.1).
        mpls::Header {
            label: self.label.unwrap_or(16),
            tc: self.class.unwrap_or(0),
            ttl: self.ttl.unwrap_or(64),
            bottom: true,
        }
    }
}

impl Ipv4 {
    fn header(&self) -> Result<ipv4::Header, String> {
        let tos = match (self.tos, self.dscp) {
            (Some(_), Some(_)) => return Err("tos and dscp are the same bits; give one of them".into()),
            (_, Some(dscp)) if dscp > 63 => return Err(format!("dscp {dscp} does not fit its 6 bits (at most 63)")),
            (_, Some(dscp)) => dscp << 2,
            (tos, None) => tos.unwrap_or(0),
        };
        Ok(ipv4::Header {
            src: self.source.map_or(Ipv4Addr::new(198, 18, 0, 1), |text| text.0),
            dst: self.destination.map_or(Ipv4Addr::new(198, 18, 0, 2), |text| text.0),
            tos,
            identification: self.identification.unwrap_or(0),
            dont_fragment: self.dont_fragment.unwrap_or(false),
            ttl: self.ttl.unwrap_or(64),
            // 253: for experiments and testing (RFC 3692), when no layer follows.
            protocol: Protocol(self.protocol.unwrap_or(253)),
            ..ipv4::Header::default()
        })
    }
}

impl Ipv6 {
    fn header(&self) -> ipv6::Header {
        ipv6::Header {
            src: self.source.map_or(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1), |text| text.0),
            dst: self.destination.map_or(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2), |text| text.0),
            traffic_class: self.class.unwrap_or(0),
            flow_label: self.flow_label.unwrap_or(0),
            hop_limit: self.hop_limit.unwrap_or(64),
            next_header: Protocol(self.next_header.unwrap_or(253)),
            payload_len: 0,
        }
    }
}

impl Udp {
    fn header(&self, next: Option<&RawLayer>) -> udp::Header {
        let destination = match next {
            Some(RawLayer::Vxlan(_)) => vxlan::PORT,
            Some(RawLayer::Geneve(_)) => geneve::PORT,
            _ => DESTINATION_PORT,
        };
        udp::Header {
            src_port: self.source.unwrap_or(SOURCE_PORT),
            dst_port: self.destination.unwrap_or(destination),
            ..udp::Header::default()
        }
    }
}

impl Tcp {
    fn header(&self) -> tcp::Header {
        tcp::Header {
            src_port: self.source.unwrap_or(SOURCE_PORT),
            dst_port: self.destination.unwrap_or(DESTINATION_PORT),
            sequence: self.sequence.unwrap_or(0),
            acknowledgment: self.acknowledgment.unwrap_or(0),
            flags: self.flags.map_or(tcp::Flags::ACK, |flags| flags.0),
            window: self.window.unwrap_or(0xffff),
            urgent: self.urgent.unwrap_or(0),
            ..tcp::Header::default()
        }
    }
}

impl Icmp {
    fn header_v4(&self) -> icmpv4::Header {
        let usual = icmpv4::Header::default();
        icmpv4::Header {
            kind: self.r#type.unwrap_or(usual.kind),
            code: self.code.unwrap_or(0),
            identifier: self.identifier.unwrap_or(0),
            sequence: self.sequence.unwrap_or(0),
            ..usual
        }
    }

    fn header_v6(&self) -> icmpv6::Header {
        let usual = icmpv6::Header::default();
        icmpv6::Header {
            kind: self.r#type.unwrap_or(usual.kind),
            code: self.code.unwrap_or(0),
            identifier: self.identifier.unwrap_or(0),
            sequence: self.sequence.unwrap_or(0),
            ..usual
        }
    }
}
