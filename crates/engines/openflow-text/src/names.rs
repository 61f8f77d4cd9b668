//! Names of fields and of protocols.

use crate::TextError;
use linerate_openflow::{Field, FieldMatch};

/// EtherTypes and protocols that names depend on.
pub(super) const IPV4: u128 = 0x0800;
pub(super) const IPV6: u128 = 0x86dd;
pub(super) const ARP: u128 = 0x0806;
pub(super) const RARP: u128 = 0x8035;
pub(super) const MPLS: u128 = 0x8847;
pub(super) const MPLS_MULTICAST: u128 = 0x8848;
pub(super) const PBB: u128 = 0x88e7;
pub(super) const ICMP: u128 = 1;
pub(super) const TCP: u128 = 6;
pub(super) const UDP: u128 = 17;
pub(super) const ICMPV6: u128 = 58;
pub(super) const SCTP: u128 = 132;

/// A word for an EtherType and perhaps an IP protocol. The first of several names is the one that is printed.
pub(super) struct Protocol {
    pub name: &'static str,
    pub eth_type: u128,
    pub ip_proto: Option<u128>,
}

#[rustfmt::skip]
pub(super) const PROTOCOLS: [Protocol; 17] = [
    Protocol { name: "ip", eth_type: IPV4, ip_proto: None },
    Protocol { name: "ipv4", eth_type: IPV4, ip_proto: None },
    Protocol { name: "icmp", eth_type: IPV4, ip_proto: Some(ICMP) },
    Protocol { name: "icmp4", eth_type: IPV4, ip_proto: Some(ICMP) },
    Protocol { name: "tcp", eth_type: IPV4, ip_proto: Some(TCP) },
    Protocol { name: "udp", eth_type: IPV4, ip_proto: Some(UDP) },
    Protocol { name: "sctp", eth_type: IPV4, ip_proto: Some(SCTP) },
    Protocol { name: "ipv6", eth_type: IPV6, ip_proto: None },
    Protocol { name: "ip6", eth_type: IPV6, ip_proto: None },
    Protocol { name: "icmp6", eth_type: IPV6, ip_proto: Some(ICMPV6) },
    Protocol { name: "tcp6", eth_type: IPV6, ip_proto: Some(TCP) },
    Protocol { name: "udp6", eth_type: IPV6, ip_proto: Some(UDP) },
    Protocol { name: "sctp6", eth_type: IPV6, ip_proto: Some(SCTP) },
    Protocol { name: "arp", eth_type: ARP, ip_proto: None },
    Protocol { name: "rarp", eth_type: RARP, ip_proto: None },
    Protocol { name: "mpls", eth_type: MPLS, ip_proto: None },
    Protocol { name: "mplsm", eth_type: MPLS_MULTICAST, ip_proto: None },
];

/// Names that mean a field by themselves, beside those of the specification.
const ALIASES: [(&str, Field); 10] = [
    ("dl_src", Field::EthSrc),
    ("dl_dst", Field::EthDst),
    ("dl_type", Field::EthType),
    ("dl_vlan_pcp", Field::VlanPcp),
    ("nw_ecn", Field::IpEcn),
    ("tun_id", Field::TunnelId),
    ("ipv6_label", Field::Ipv6Flabel),
    ("nd_target", Field::Ipv6NdTarget),
    ("nd_sll", Field::Ipv6NdSll),
    ("nd_tll", Field::Ipv6NdTll),
];

/// Names whose field depends on the protocol.
const DEPENDENT: [&str; 9] =
    ["nw_src", "nw_dst", "ip_src", "ip_dst", "nw_proto", "tp_src", "tp_dst", "icmp_type", "icmp_code"];

/// The protocol that a match has asked for so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Protocols {
    pub eth_type: Option<u128>,
    pub ip_proto: Option<u128>,
}

impl Protocols {
    /// Those of a match.
    pub(super) fn of(fields: &[FieldMatch]) -> Protocols {
        let exact = |field| fields.iter().find(|wanted| wanted.field == field).map(|wanted| wanted.value);
        Protocols { eth_type: exact(Field::EthType), ip_proto: exact(Field::IpProto) }
    }

    fn is_ip(self) -> bool {
        matches!(self.eth_type, Some(IPV4 | IPV6))
    }

    /// The field of this name; `Ok(None)` if no field has it.
    pub(super) fn field(self, word: &str, name: &str) -> Result<Option<Field>, TextError> {
        if let Some(field) = Field::all().find(|field| field.name() == name) {
            return Ok(Some(field));
        }
        if let Some((_, field)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
            return Ok(Some(*field));
        }
        let found = match (name, self.eth_type, self.ip_proto) {
            ("nw_src", Some(ARP), _) => Some(Field::ArpSpa),
            ("nw_dst", Some(ARP), _) => Some(Field::ArpTpa),
            ("nw_proto", Some(ARP), _) => Some(Field::ArpOp),
            ("nw_src" | "ip_src", ..) => Some(Field::Ipv4Src),
            ("nw_dst" | "ip_dst", ..) => Some(Field::Ipv4Dst),
            ("nw_proto", ..) => Some(Field::IpProto),
            ("tp_src", _, Some(TCP)) => Some(Field::TcpSrc),
            ("tp_dst", _, Some(TCP)) => Some(Field::TcpDst),
            ("tp_src", _, Some(UDP)) => Some(Field::UdpSrc),
            ("tp_dst", _, Some(UDP)) => Some(Field::UdpDst),
            ("tp_src", _, Some(SCTP)) => Some(Field::SctpSrc),
            ("tp_dst", _, Some(SCTP)) => Some(Field::SctpDst),
            ("tp_src", Some(IPV4), Some(ICMP)) => Some(Field::Icmpv4Type),
            ("tp_dst", Some(IPV4), Some(ICMP)) => Some(Field::Icmpv4Code),
            ("icmp_type", Some(IPV6), _) | ("tp_src", Some(IPV6), Some(ICMPV6)) => Some(Field::Icmpv6Type),
            ("icmp_code", Some(IPV6), _) | ("tp_dst", Some(IPV6), Some(ICMPV6)) => Some(Field::Icmpv6Code),
            ("icmp_type", ..) => Some(Field::Icmpv4Type),
            ("icmp_code", ..) => Some(Field::Icmpv4Code),
            _ => None,
        };
        if found.is_none() && matches!(name, "tp_src" | "tp_dst") {
            return Err(TextError::new(word, "depends on the protocol; add tcp, udp, sctp, tcp6, udp6 or sctp6"));
        }
        Ok(found)
    }
}

/// Every name of a field, for suggestions.
pub(super) fn field_names() -> Vec<&'static str> {
    let mut names: Vec<_> = Field::all().map(Field::name).collect();
    names.extend(ALIASES.iter().map(|(name, _)| *name));
    names.extend(DEPENDENT);
    names
}

/// Open vSwitch's name of a field, which it prints in `set_field`; the specification's where it has none.
pub(super) fn ovs_name(field: Field) -> &'static str {
    match field {
        Field::IpEcn => "nw_ecn",
        Field::Ipv4Src => "ip_src",
        Field::Ipv4Dst => "ip_dst",
        Field::Icmpv4Type => "icmp_type",
        Field::Icmpv4Code => "icmp_code",
        Field::Ipv6Flabel => "ipv6_label",
        Field::Ipv6NdTarget => "nd_target",
        Field::Ipv6NdSll => "nd_sll",
        Field::Ipv6NdTll => "nd_tll",
        Field::TunnelId => "tun_id",
        field => field.name(),
    }
}

/// What a field needs beside it in the match and that is not there (table 12 of the specification), as a word to add.
pub(super) fn missing_prerequisite(field: Field, fields: &[FieldMatch]) -> Option<&'static str> {
    let protocols = Protocols::of(fields);
    let (eth_type, ip_proto) = (protocols.eth_type, protocols.ip_proto);
    let is_ip = protocols.is_ip();
    let has = |field: Field| fields.iter().find(|wanted| wanted.field == field);
    let fulfilled = |met: bool, word| if met { None } else { Some(word) };
    match field {
        Field::InPhyPort => fulfilled(has(Field::InPort).is_some(), "in_port"),
        Field::VlanPcp => {
            let tagged = has(Field::VlanVid).is_some_and(|vid| vid.value & 0x1000 != 0);
            fulfilled(tagged, "dl_vlan or vlan_tci=0x1000/0x1000")
        }
        Field::IpDscp | Field::IpEcn | Field::IpProto => fulfilled(is_ip, "ip or ipv6"),
        Field::Ipv4Src | Field::Ipv4Dst => fulfilled(eth_type == Some(IPV4), "ip or arp"),
        Field::TcpSrc | Field::TcpDst => fulfilled(is_ip && ip_proto == Some(TCP), "tcp or tcp6"),
        Field::UdpSrc | Field::UdpDst => fulfilled(is_ip && ip_proto == Some(UDP), "udp or udp6"),
        Field::SctpSrc | Field::SctpDst => fulfilled(is_ip && ip_proto == Some(SCTP), "sctp or sctp6"),
        Field::Icmpv4Type | Field::Icmpv4Code => {
            fulfilled(eth_type == Some(IPV4) && ip_proto == Some(ICMP), "icmp or icmp6")
        }
        Field::ArpOp | Field::ArpSpa | Field::ArpTpa | Field::ArpSha | Field::ArpTha => {
            fulfilled(eth_type == Some(ARP), "arp")
        }
        Field::Ipv6Src | Field::Ipv6Dst | Field::Ipv6Flabel | Field::Ipv6Exthdr => {
            fulfilled(eth_type == Some(IPV6), "ipv6")
        }
        Field::Icmpv6Type | Field::Icmpv6Code => fulfilled(eth_type == Some(IPV6) && ip_proto == Some(ICMPV6), "icmp6"),
        Field::Ipv6NdTarget | Field::Ipv6NdSll | Field::Ipv6NdTll => {
            let kind = has(Field::Icmpv6Type).map(|wanted| wanted.value);
            let (met, word) = match field {
                Field::Ipv6NdTarget => (matches!(kind, Some(135 | 136)), "icmp6,icmp_type=135 or icmp6,icmp_type=136"),
                Field::Ipv6NdSll => (kind == Some(135), "icmp6,icmp_type=135"),
                _ => (kind == Some(136), "icmp6,icmp_type=136"),
            };
            fulfilled(met, word)
        }
        Field::MplsLabel | Field::MplsTc | Field::MplsBos => {
            fulfilled(matches!(eth_type, Some(MPLS | MPLS_MULTICAST)), "mpls or mplsm")
        }
        Field::PbbIsid => fulfilled(eth_type == Some(PBB), "dl_type=0x88e7"),
        _ => None,
    }
}
