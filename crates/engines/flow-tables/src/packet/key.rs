//! The key of a packet: all 40 fields in 128 bytes, and where each of them lies there.
//!
//! ```text
//! word 0   eth_dst 48                      eth_type 16          word 8, 9    ipv6_src
//! word 1   eth_src 48              pcp 3, vlan_vid 13           word 10, 11  ipv6_dst
//! word 2   ipv4_src or arp_spa 32  ipv4_dst or arp_tpa 32       word 12, 13  ipv6_nd_target
//! word 3   in_phy_port 32          ports, ICMP or arp_op 32     word 14      nd_sll or arp_sha 48   flow label, low 16
//! word 4   proto 8  dscp, ecn 8    mpls 24         isid 24      word 15      nd_tll or arp_tha 48   flow label, high 4
//! word 5   metadata                                                          spare 3   ipv6_exthdr 9
//! word 6   tunnel_id
//! word 7   shape 32 (bit 31: words 8 to 15 are in use)  in_port 32
//! ```

use linerate_classify::Key;
use linerate_openflow::Field;

use super::read::{be16, be32, be64};
use super::{Headers, shape};

/// Fields of a packet that are not in its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineFields {
    /// Ingress port.
    pub in_port: u32,
    /// Physical port below it; the same number if there is none.
    pub in_phy_port: u32,
    /// Metadata that tables hand to each other.
    pub metadata: u64,
    /// Metadata of the logical port.
    pub tunnel_id: u64,
}

/// Bits of a field's value that lie in one word of the key: `bits` bits from `from` on of the value, at `at` of the word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub word: usize,
    pub at: u32,
    pub from: u32,
    pub bits: u32,
}

impl Part {
    const fn new(word: usize, at: u32, from: u32, bits: u32) -> Part {
        Part { word, at, from, bits }
    }

    /// The part's bits of `value`, where they lie in the word.
    #[inline]
    pub fn put(&self, value: u128) -> u64 {
        // A shift of 128 bits takes many steps, and few fields need one.
        let value = if self.from == 0 { value as u64 } else { (value >> self.from) as u64 };
        (value & self.mask()) << self.at
    }

    /// The part's bits of a word, where they lie in the value.
    pub fn take(&self, word: u64) -> u128 {
        u128::from(word >> self.at & self.mask()) << self.from
    }

    const fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }
}

/// Where a field lies in a key.
#[rustfmt::skip]
pub(super) fn parts(field: Field) -> &'static [Part] {
    const fn one(word: usize, at: u32, bits: u32) -> [Part; 1] {
        [Part::new(word, at, 0, bits)]
    }
    const fn two(word: usize) -> [Part; 2] {
        [Part::new(word, 0, 64, 64), Part::new(word + 1, 0, 0, 64)]
    }
    match field {
        Field::EthDst => const { &one(0, 16, 48) },
        Field::EthType => const { &one(0, 0, 16) },
        Field::EthSrc => const { &one(1, 16, 48) },
        Field::VlanPcp => const { &one(1, 13, 3) },
        Field::VlanVid => const { &one(1, 0, 13) },
        Field::Ipv4Src | Field::ArpSpa => const { &one(2, 32, 32) },
        Field::Ipv4Dst | Field::ArpTpa => const { &one(2, 0, 32) },
        Field::InPhyPort => const { &one(3, 32, 32) },
        Field::TcpSrc | Field::UdpSrc | Field::SctpSrc => const { &one(3, 16, 16) },
        Field::Icmpv4Type | Field::Icmpv6Type => const { &one(3, 16, 8) },
        Field::TcpDst | Field::UdpDst | Field::SctpDst | Field::ArpOp => const { &one(3, 0, 16) },
        Field::Icmpv4Code | Field::Icmpv6Code => const { &one(3, 0, 8) },
        Field::IpProto => const { &one(4, 56, 8) },
        Field::IpDscp => const { &one(4, 50, 6) },
        Field::IpEcn => const { &one(4, 48, 2) },
        Field::MplsLabel => const { &one(4, 28, 20) },
        Field::MplsTc => const { &one(4, 25, 3) },
        Field::MplsBos => const { &one(4, 24, 1) },
        Field::PbbIsid => const { &one(4, 0, 24) },
        Field::Metadata => const { &one(5, 0, 64) },
        Field::TunnelId => const { &one(6, 0, 64) },
        Field::InPort => const { &one(7, 0, 32) },
        Field::Ipv6Src => const { &two(8) },
        Field::Ipv6Dst => const { &two(10) },
        Field::Ipv6NdTarget => const { &two(12) },
        Field::Ipv6NdSll | Field::ArpSha => const { &one(14, 16, 48) },
        Field::Ipv6NdTll | Field::ArpTha => const { &one(15, 16, 48) },
        Field::Ipv6Flabel => const { &[Part::new(14, 0, 0, 16), Part::new(15, 12, 16, 4)] },
        Field::Ipv6Exthdr => const { &one(15, 0, 9) },
    }
}

/// The header that a field is part of: bits of [`shape`], of which a packet has all. 0 for fields that each packet has.
pub fn header_of(field: Field) -> u32 {
    match field {
        Field::InPort | Field::InPhyPort | Field::Metadata | Field::TunnelId => 0,
        // Each packet that is looked up has an Ethernet header, and its VLAN ID says if there is a tag.
        Field::EthDst | Field::EthSrc | Field::EthType | Field::VlanVid | Field::VlanPcp => 0,
        Field::IpDscp | Field::IpEcn | Field::IpProto => shape::IP,
        Field::Ipv4Src | Field::Ipv4Dst => shape::IPV4,
        Field::TcpSrc | Field::TcpDst => shape::TCP,
        Field::UdpSrc | Field::UdpDst => shape::UDP,
        Field::SctpSrc | Field::SctpDst => shape::SCTP,
        Field::Icmpv4Type | Field::Icmpv4Code => shape::ICMPV4,
        Field::ArpOp | Field::ArpSpa | Field::ArpTpa | Field::ArpSha | Field::ArpTha => shape::ARP,
        Field::Ipv6Src | Field::Ipv6Dst | Field::Ipv6Flabel | Field::Ipv6Exthdr => shape::IPV6,
        Field::Icmpv6Type | Field::Icmpv6Code => shape::ICMPV6,
        Field::Ipv6NdTarget => shape::ND,
        Field::Ipv6NdSll => shape::ND_SLL,
        Field::Ipv6NdTll => shape::ND_TLL,
        Field::MplsLabel | Field::MplsTc | Field::MplsBos => shape::MPLS,
        Field::PbbIsid => shape::PBB,
    }
}

/// Where the shape lies in word 7.
pub(super) const SHAPE_AT: u32 = 32;

impl Headers {
    /// Writes the key of the packet whose headers these are. `bytes` are those that were parsed. Words 8 to 15 are written only if they
    /// are in use ([`Key::EXTENDED`]).
    #[inline]
    pub fn fill_key(&self, bytes: &[u8], fields: &PipelineFields, key: &mut Key) {
        let shape = self.visible;
        let words = &mut key.words;
        let ethertype_at = usize::from(self.ethertype_at);
        let vlan = if ethertype_at > 12 { u64::from(be16(bytes, 14)) | 0x1000 } else { 0 };
        words[0] = be64(bytes, 0) & !0xffff | u64::from(be16(bytes, ethertype_at));
        words[1] = be64(bytes, 6) & !0xffff | vlan;
        words[2] = 0;
        words[4] = 0;
        let mut transport = 0;
        if shape & shape::IP != 0 {
            let network = usize::from(self.network);
            let class = if shape & shape::IPV4 != 0 {
                words[2] = be64(bytes, network + 12);
                be16(bytes, network) & 0xff
            } else {
                be16(bytes, network) >> 4 & 0xff
            };
            words[4] = u64::from(self.protocol) << 56 | u64::from(class) << 48;
            if shape & shape::PORTS != 0 {
                transport = u64::from(be32(bytes, usize::from(self.transport)));
            } else if shape & shape::ICMP != 0 {
                let kind = u64::from(be16(bytes, usize::from(self.transport)));
                transport = (kind & 0xff00) << 8 | kind & 0xff;
            }
        } else if shape != 0 {
            transport = self.fill_others(bytes, shape, words);
        }
        words[3] = u64::from(fields.in_phy_port) << 32 | transport;
        words[5] = fields.metadata;
        words[6] = fields.tunnel_id;
        words[7] = u64::from(shape) << SHAPE_AT | u64::from(fields.in_port);
        if shape & shape::SECOND_LINE != 0 {
            words[7] |= Key::EXTENDED;
            self.fill_second_line(bytes, shape, words);
        }
    }

    /// The key of the packet.
    pub fn key(&self, bytes: &[u8], fields: &PipelineFields) -> Key {
        let mut key = Key::ZERO;
        self.fill_key(bytes, fields, &mut key);
        key
    }

    /// Writes the fields of MPLS, PBB and ARP that lie in the first line; returns the bits of word 3.
    fn fill_others(&self, bytes: &[u8], shape: u32, words: &mut [u64; 16]) -> u64 {
        if shape & shape::ARP != 0 {
            let at = usize::from(self.network);
            words[2] = u64::from(be32(bytes, at + 14)) << 32 | u64::from(be32(bytes, at + 24));
            return u64::from(be16(bytes, at + 6));
        }
        let start = u64::from(be32(bytes, self.payload()));
        words[4] = if shape & shape::MPLS != 0 { (start >> 8) << 24 } else { start & 0xff_ffff };
        0
    }

    fn fill_second_line(&self, bytes: &[u8], shape: u32, words: &mut [u64; 16]) {
        let at = usize::from(self.network);
        if shape & shape::ARP != 0 {
            words[8..14].fill(0);
            words[14] = be64(bytes, at + 8) & !0xffff;
            // The target's address lies behind two bytes of the one before.
            words[15] = be64(bytes, at + 16) << 16;
            return;
        }
        for (word, place) in words[8..12].iter_mut().zip([8, 16, 24, 32]) {
            *word = be64(bytes, at + place);
        }
        let label = u64::from(be32(bytes, at) & 0xf_ffff);
        (words[12], words[13]) = (0, 0);
        words[14] = label & 0xffff;
        words[15] = label >> 16 << 12 | u64::from(self.exthdr);
        if shape & shape::ND != 0 {
            let transport = usize::from(self.transport);
            words[12] = be64(bytes, transport + 8);
            words[13] = be64(bytes, transport + 16);
            let address = usize::from(self.nd_address);
            // An option's address lies behind two other bytes of it.
            let address = be64(bytes, address.saturating_sub(2)) << 16;
            words[14] |= if shape & shape::ND_SLL != 0 { address } else { 0 };
            words[15] |= if shape & shape::ND_TLL != 0 { address } else { 0 };
        }
    }
}
