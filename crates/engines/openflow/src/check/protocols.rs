//! Prerequisites: the protocols that a packet must have for a field to exist (section 7.2.3.8).

use crate::{Field, FieldMatch, Match};

/// What is certain about one property of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fact<T> {
    /// Nothing was said, so a field that depends on it is refused.
    Unstated,
    /// It has this value.
    Is(T),
    /// Actions changed the packet such that anything is possible, so nothing is refused.
    Anything,
}

impl<T> Fact<T> {
    fn allows(self, wanted: impl Fn(T) -> bool) -> bool {
        match self {
            Fact::Unstated => false,
            Fact::Is(value) => wanted(value),
            Fact::Anything => true,
        }
    }
}

/// What a match, and actions so far, say about the protocols of a packet.
#[derive(Clone, Copy)]
pub(super) struct Protocols {
    in_port: bool,
    pub eth_type: Fact<u16>,
    /// There is a VLAN tag.
    pub vlan: Fact<bool>,
    pub ip_proto: Fact<u8>,
    pub icmpv6_type: Fact<u8>,
}

const VID_PRESENT: u128 = 0x1000;
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const PBB: u16 = 0x88e7;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const ND_SOLICITATION: u8 = 135;
const ND_ADVERTISEMENT: u8 = 136;

impl Protocols {
    /// Nothing is said.
    pub fn unstated() -> Protocols {
        Protocols {
            in_port: false,
            eth_type: Fact::Unstated,
            vlan: Fact::Unstated,
            ip_proto: Fact::Unstated,
            icmpv6_type: Fact::Unstated,
        }
    }

    /// Anything is possible.
    pub fn anything() -> Protocols {
        Protocols {
            in_port: true,
            eth_type: Fact::Anything,
            vlan: Fact::Anything,
            ip_proto: Fact::Anything,
            icmpv6_type: Fact::Anything,
        }
    }

    pub fn of(matching: &Match) -> Protocols {
        let mut protocols = Protocols::unstated();
        matching.fields.iter().for_each(|wanted| protocols.learn(wanted));
        protocols
    }

    /// Takes in what one field of a match says.
    pub fn learn(&mut self, wanted: &FieldMatch) {
        match wanted.field {
            Field::InPort => self.in_port = true,
            Field::EthType => self.eth_type = Fact::Is(wanted.value as u16),
            Field::VlanVid if wanted.effective_mask() & VID_PRESENT != 0 => {
                self.vlan = Fact::Is(wanted.value & VID_PRESENT != 0);
            }
            Field::IpProto => self.ip_proto = Fact::Is(wanted.value as u8),
            Field::Icmpv6Type => self.icmpv6_type = Fact::Is(wanted.value as u8),
            _ => {}
        }
    }

    pub fn have_ip(&self) -> bool {
        self.have_eth_type(&[IPV4, IPV6])
    }

    pub fn have_mpls(&self) -> bool {
        self.have_eth_type(&[0x8847, 0x8848])
    }

    pub fn have_pbb(&self) -> bool {
        self.have_eth_type(&[PBB])
    }

    pub fn have_vlan(&self) -> bool {
        self.vlan.allows(|present| present)
    }

    /// True if a packet with these protocols has the field.
    pub fn have(&self, field: Field) -> bool {
        match field {
            Field::InPort
            | Field::Metadata
            | Field::EthDst
            | Field::EthSrc
            | Field::EthType
            | Field::VlanVid
            | Field::TunnelId => true,
            Field::InPhyPort => self.in_port,
            Field::VlanPcp => self.have_vlan(),
            Field::IpDscp | Field::IpEcn | Field::IpProto => self.have_ip(),
            Field::Ipv4Src | Field::Ipv4Dst => self.have_eth_type(&[IPV4]),
            Field::TcpSrc | Field::TcpDst => self.have_ip() && self.have_ip_proto(TCP),
            Field::UdpSrc | Field::UdpDst => self.have_ip() && self.have_ip_proto(UDP),
            Field::SctpSrc | Field::SctpDst => self.have_ip() && self.have_ip_proto(SCTP),
            Field::Icmpv4Type | Field::Icmpv4Code => self.have_eth_type(&[IPV4]) && self.have_ip_proto(ICMP),
            Field::ArpOp | Field::ArpSpa | Field::ArpTpa | Field::ArpSha | Field::ArpTha => self.have_eth_type(&[ARP]),
            Field::Ipv6Src | Field::Ipv6Dst | Field::Ipv6Flabel | Field::Ipv6Exthdr => self.have_eth_type(&[IPV6]),
            Field::Icmpv6Type | Field::Icmpv6Code => self.have_icmpv6(),
            Field::Ipv6NdTarget => self.have_neighbor_discovery(&[ND_SOLICITATION, ND_ADVERTISEMENT]),
            Field::Ipv6NdSll => self.have_neighbor_discovery(&[ND_SOLICITATION]),
            Field::Ipv6NdTll => self.have_neighbor_discovery(&[ND_ADVERTISEMENT]),
            Field::MplsLabel | Field::MplsTc | Field::MplsBos => self.have_mpls(),
            Field::PbbIsid => self.have_pbb(),
        }
    }

    fn have_eth_type(&self, wanted: &[u16]) -> bool {
        self.eth_type.allows(|value| wanted.contains(&value))
    }

    fn have_ip_proto(&self, wanted: u8) -> bool {
        self.ip_proto.allows(|value| value == wanted)
    }

    fn have_icmpv6(&self) -> bool {
        self.have_eth_type(&[IPV6]) && self.have_ip_proto(ICMPV6)
    }

    fn have_neighbor_discovery(&self, types: &[u8]) -> bool {
        self.have_icmpv6() && self.icmpv6_type.allows(|value| types.contains(&value))
    }
}
