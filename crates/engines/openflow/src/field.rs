//! The 40 basic match fields of OpenFlow 1.3 (section 7.2.3.7, table 11).

/// A match field of the class `OFPXMC_OPENFLOW_BASIC`; its number is the field number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Field {
    /// Ingress port, or the logical port that a packet arrived by.
    InPort = 0,
    /// Physical port below the ingress port.
    InPhyPort = 1,
    /// Metadata that tables hand to each other.
    Metadata = 2,
    /// Ethernet destination.
    EthDst = 3,
    /// Ethernet source.
    EthSrc = 4,
    /// EtherType behind VLAN tags.
    EthType = 5,
    /// VLAN ID, with bit 12 (0x1000, `OFPVID_PRESENT`) if there is a tag.
    VlanVid = 6,
    /// VLAN priority.
    VlanPcp = 7,
    /// Differentiated services code point of IPv4 or IPv6.
    IpDscp = 8,
    /// ECN bits of IPv4 or IPv6.
    IpEcn = 9,
    /// Protocol of IPv4, or of IPv6 behind extension headers.
    IpProto = 10,
    /// IPv4 source.
    Ipv4Src = 11,
    /// IPv4 destination.
    Ipv4Dst = 12,
    /// TCP source port.
    TcpSrc = 13,
    /// TCP destination port.
    TcpDst = 14,
    /// UDP source port.
    UdpSrc = 15,
    /// UDP destination port.
    UdpDst = 16,
    /// SCTP source port.
    SctpSrc = 17,
    /// SCTP destination port.
    SctpDst = 18,
    /// ICMP type.
    Icmpv4Type = 19,
    /// ICMP code.
    Icmpv4Code = 20,
    /// ARP operation.
    ArpOp = 21,
    /// ARP sender's IPv4 address.
    ArpSpa = 22,
    /// ARP target's IPv4 address.
    ArpTpa = 23,
    /// ARP sender's hardware address.
    ArpSha = 24,
    /// ARP target's hardware address.
    ArpTha = 25,
    /// IPv6 source.
    Ipv6Src = 26,
    /// IPv6 destination.
    Ipv6Dst = 27,
    /// IPv6 flow label.
    Ipv6Flabel = 28,
    /// ICMPv6 type.
    Icmpv6Type = 29,
    /// ICMPv6 code.
    Icmpv6Code = 30,
    /// Target of neighbour discovery.
    Ipv6NdTarget = 31,
    /// Source link-layer address of neighbour discovery.
    Ipv6NdSll = 32,
    /// Target link-layer address of neighbour discovery.
    Ipv6NdTll = 33,
    /// Label of the outermost MPLS header.
    MplsLabel = 34,
    /// Traffic class of the outermost MPLS header.
    MplsTc = 35,
    /// Bottom-of-stack bit of the outermost MPLS header.
    MplsBos = 36,
    /// Service ID of a PBB header.
    PbbIsid = 37,
    /// Metadata of the logical port: VXLAN's VNI, GRE's key.
    TunnelId = 38,
    /// Bits of IPv6 extension headers that are present.
    Ipv6Exthdr = 39,
}

struct Row {
    field: Field,
    name: &'static str,
    bits: u8,
    maskable: bool,
}

#[rustfmt::skip]
const ROWS: [Row; Field::COUNT] = [
    Row { field: Field::InPort, name: "in_port", bits: 32, maskable: false },
    Row { field: Field::InPhyPort, name: "in_phy_port", bits: 32, maskable: false },
    Row { field: Field::Metadata, name: "metadata", bits: 64, maskable: true },
    Row { field: Field::EthDst, name: "eth_dst", bits: 48, maskable: true },
    Row { field: Field::EthSrc, name: "eth_src", bits: 48, maskable: true },
    Row { field: Field::EthType, name: "eth_type", bits: 16, maskable: false },
    Row { field: Field::VlanVid, name: "vlan_vid", bits: 13, maskable: true },
    Row { field: Field::VlanPcp, name: "vlan_pcp", bits: 3, maskable: false },
    Row { field: Field::IpDscp, name: "ip_dscp", bits: 6, maskable: false },
    Row { field: Field::IpEcn, name: "ip_ecn", bits: 2, maskable: false },
    Row { field: Field::IpProto, name: "ip_proto", bits: 8, maskable: false },
    Row { field: Field::Ipv4Src, name: "ipv4_src", bits: 32, maskable: true },
    Row { field: Field::Ipv4Dst, name: "ipv4_dst", bits: 32, maskable: true },
    Row { field: Field::TcpSrc, name: "tcp_src", bits: 16, maskable: false },
    Row { field: Field::TcpDst, name: "tcp_dst", bits: 16, maskable: false },
    Row { field: Field::UdpSrc, name: "udp_src", bits: 16, maskable: false },
    Row { field: Field::UdpDst, name: "udp_dst", bits: 16, maskable: false },
    Row { field: Field::SctpSrc, name: "sctp_src", bits: 16, maskable: false },
    Row { field: Field::SctpDst, name: "sctp_dst", bits: 16, maskable: false },
    Row { field: Field::Icmpv4Type, name: "icmpv4_type", bits: 8, maskable: false },
    Row { field: Field::Icmpv4Code, name: "icmpv4_code", bits: 8, maskable: false },
    Row { field: Field::ArpOp, name: "arp_op", bits: 16, maskable: false },
    Row { field: Field::ArpSpa, name: "arp_spa", bits: 32, maskable: true },
    Row { field: Field::ArpTpa, name: "arp_tpa", bits: 32, maskable: true },
    Row { field: Field::ArpSha, name: "arp_sha", bits: 48, maskable: true },
    Row { field: Field::ArpTha, name: "arp_tha", bits: 48, maskable: true },
    Row { field: Field::Ipv6Src, name: "ipv6_src", bits: 128, maskable: true },
    Row { field: Field::Ipv6Dst, name: "ipv6_dst", bits: 128, maskable: true },
    Row { field: Field::Ipv6Flabel, name: "ipv6_flabel", bits: 20, maskable: true },
    Row { field: Field::Icmpv6Type, name: "icmpv6_type", bits: 8, maskable: false },
    Row { field: Field::Icmpv6Code, name: "icmpv6_code", bits: 8, maskable: false },
    Row { field: Field::Ipv6NdTarget, name: "ipv6_nd_target", bits: 128, maskable: false },
    Row { field: Field::Ipv6NdSll, name: "ipv6_nd_sll", bits: 48, maskable: false },
    Row { field: Field::Ipv6NdTll, name: "ipv6_nd_tll", bits: 48, maskable: false },
    Row { field: Field::MplsLabel, name: "mpls_label", bits: 20, maskable: false },
    Row { field: Field::MplsTc, name: "mpls_tc", bits: 3, maskable: false },
    Row { field: Field::MplsBos, name: "mpls_bos", bits: 1, maskable: false },
    Row { field: Field::PbbIsid, name: "pbb_isid", bits: 24, maskable: true },
    Row { field: Field::TunnelId, name: "tunnel_id", bits: 64, maskable: true },
    Row { field: Field::Ipv6Exthdr, name: "ipv6_exthdr", bits: 9, maskable: true },
];

impl Field {
    /// Number of fields.
    pub const COUNT: usize = 40;

    /// All fields, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Field> {
        ROWS.iter().map(|row| row.field)
    }

    /// The field with this number on the wire.
    #[inline]
    pub fn from_number(number: u8) -> Option<Field> {
        ROWS.get(usize::from(number)).map(|row| row.field)
    }

    /// The specification's name in lower case, for example `eth_dst`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Width of the value in bits.
    pub fn bits(self) -> u32 {
        u32::from(self.row().bits)
    }

    /// Width of the value in a message in bytes: those of 20 bits take 4.
    #[inline]
    pub fn bytes(self) -> usize {
        const BYTES: [u8; Field::COUNT] = {
            let (mut bytes, mut at) = ([0; Field::COUNT], 0);
            while at < Field::COUNT {
                bytes[at] = if ROWS[at].bits == 20 { 4 } else { ROWS[at].bits.div_ceil(8) };
                at += 1;
            }
            bytes
        };
        BYTES[self as usize].into()
    }

    /// A number with all bits of the field set.
    #[inline]
    pub fn full_mask(self) -> u128 {
        static MASKS: [u128; Field::COUNT] = {
            let (mut masks, mut at) = ([0; Field::COUNT], 0);
            while at < Field::COUNT {
                masks[at] = u128::MAX >> (128 - ROWS[at].bits);
                at += 1;
            }
            masks
        };
        MASKS[self as usize]
    }

    /// True if a match may give a mask.
    #[inline]
    pub fn is_maskable(self) -> bool {
        self.row().maskable
    }

    /// True if an action may set the field: all but the ports, the metadata and the extension headers of IPv6 (section 7.2.5).
    pub fn is_settable(self) -> bool {
        !matches!(self, Field::InPort | Field::InPhyPort | Field::Metadata | Field::Ipv6Exthdr)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_at_their_numbers() {
        for (number, row) in ROWS.iter().enumerate() {
            assert_eq!(row.field as usize, number, "{}", row.name);
            assert_eq!(Field::from_number(number as u8), Some(row.field));
        }
        assert_eq!(Field::from_number(40), None);
        assert_eq!(
            (Field::Ipv6Src.full_mask(), Field::VlanVid.full_mask(), Field::VlanVid.bytes()),
            (u128::MAX, 0x1fff, 2)
        );
        assert_eq!((Field::Ipv6Flabel.bytes(), Field::MplsLabel.bytes(), Field::PbbIsid.bytes()), (4, 4, 3));
    }
}
