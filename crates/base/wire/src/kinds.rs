//! Names for what a layer is: [`LayerKind`], [`EtherType`] and IP [`Protocol`] numbers.

use std::fmt;

/// A kind of layer in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// Ethernet II header.
    Ethernet,
    /// One 802.1Q or 802.1ad tag.
    Vlan,
    /// One MPLS label stack entry.
    Mpls,
    /// ARP for IPv4 over Ethernet.
    Arp,
    /// IPv4 header with options.
    Ipv4,
    /// IPv6 fixed header.
    Ipv6,
    /// UDP header.
    Udp,
    /// TCP header with options.
    Tcp,
    /// ICMP for IPv4.
    Icmpv4,
    /// ICMP for IPv6.
    Icmpv6,
    /// VXLAN header.
    Vxlan,
    /// Geneve header with options.
    Geneve,
    /// GRE header with what its flags announce.
    Gre,
}

impl fmt::Display for LayerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LayerKind::Ethernet => "Ethernet",
            LayerKind::Vlan => "VLAN",
            LayerKind::Mpls => "MPLS",
            LayerKind::Arp => "ARP",
            LayerKind::Ipv4 => "IPv4",
            LayerKind::Ipv6 => "IPv6",
            LayerKind::Udp => "UDP",
            LayerKind::Tcp => "TCP",
            LayerKind::Icmpv4 => "ICMPv4",
            LayerKind::Icmpv6 => "ICMPv6",
            LayerKind::Vxlan => "VXLAN",
            LayerKind::Geneve => "Geneve",
            LayerKind::Gre => "GRE",
        })
    }
}

/// An EtherType number (IEEE 802 numbers registry). Values below 1536 are 802.3 lengths.
///
/// ```
/// use linerate_wire::EtherType;
/// assert_eq!(EtherType::IPV6.to_string(), "IPv6");
/// assert_eq!(EtherType(0x9000).to_string(), "0x9000");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4, 0x0800.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP, 0x0806.
    pub const ARP: EtherType = EtherType(0x0806);
    /// 802.1Q customer tag, 0x8100.
    pub const VLAN: EtherType = EtherType(0x8100);
    /// IPv6, 0x86dd.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// MPLS unicast, 0x8847.
    pub const MPLS: EtherType = EtherType(0x8847);
    /// MPLS with upstream-assigned label (once "multicast"), 0x8848.
    pub const MPLS_UPSTREAM: EtherType = EtherType(0x8848);
    /// A whole Ethernet frame in a tunnel, 0x6558.
    pub const TRANSPARENT_ETHERNET: EtherType = EtherType(0x6558);
    /// 802.1ad service tag, 0x88a8.
    pub const QINQ: EtherType = EtherType(0x88a8);
    /// PBB service instance tag (802.1ah), 0x88e7.
    pub const PBB: EtherType = EtherType(0x88e7);
    /// Service tag of equipment older than 802.1ad, 0x9100.
    pub const QINQ_OLD: EtherType = EtherType(0x9100);

    /// Whether a VLAN tag follows this EtherType.
    #[inline]
    pub const fn is_vlan(self) -> bool {
        matches!(self, EtherType::VLAN | EtherType::QINQ | EtherType::QINQ_OLD)
    }

    /// Whether an MPLS label stack follows this EtherType.
    #[inline]
    pub const fn is_mpls(self) -> bool {
        matches!(self, EtherType::MPLS | EtherType::MPLS_UPSTREAM)
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EtherType::IPV4 => f.write_str("IPv4"),
            EtherType::ARP => f.write_str("ARP"),
            EtherType::VLAN => f.write_str("802.1Q"),
            EtherType::IPV6 => f.write_str("IPv6"),
            EtherType::MPLS => f.write_str("MPLS"),
            EtherType::QINQ => f.write_str("802.1ad"),
            EtherType(number) => write!(f, "{number:#06x}"),
        }
    }
}

/// An IP protocol number, also IPv6 next header (IANA protocol numbers registry).
///
/// ```
/// use linerate_wire::Protocol;
/// assert_eq!(Protocol::UDP.to_string(), "UDP");
/// assert_eq!(Protocol(99).to_string(), "protocol 99");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 hop-by-hop options, 0.
    pub const HOP_BY_HOP: Protocol = Protocol(0);
    /// GRE, 47.
    pub const GRE: Protocol = Protocol(47);
    /// ICMP for IPv4, 1.
    pub const ICMPV4: Protocol = Protocol(1);
    /// TCP, 6.
    pub const TCP: Protocol = Protocol(6);
    /// UDP, 17.
    pub const UDP: Protocol = Protocol(17);
    /// IPv6 routing header, 43.
    pub const ROUTING: Protocol = Protocol(43);
    /// IPv6 fragment header, 44.
    pub const FRAGMENT: Protocol = Protocol(44);
    /// Encapsulating security payload, 50.
    pub const ESP: Protocol = Protocol(50);
    /// Authentication header, 51.
    pub const AUTHENTICATION: Protocol = Protocol(51);
    /// ICMP for IPv6, 58.
    pub const ICMPV6: Protocol = Protocol(58);
    /// IPv6 no next header, 59.
    pub const NO_NEXT_HEADER: Protocol = Protocol(59);
    /// IPv6 destination options, 60.
    pub const DESTINATION_OPTIONS: Protocol = Protocol(60);
    /// SCTP, 132.
    pub const SCTP: Protocol = Protocol(132);
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Protocol::ICMPV4 => f.write_str("ICMP"),
            Protocol::TCP => f.write_str("TCP"),
            Protocol::UDP => f.write_str("UDP"),
            Protocol::ICMPV6 => f.write_str("ICMPv6"),
            Protocol::SCTP => f.write_str("SCTP"),
            Protocol(number) => write!(f, "protocol {number}"),
        }
    }
}
