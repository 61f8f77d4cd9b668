//! Prints matches as ovs-ofctl does.

use crate::names::{ARP, IPV4, IPV6, MPLS, MPLS_MULTICAST, PROTOCOLS, Protocols, RARP, ovs_name};
use crate::value::{experimenter_field_text, masked_text, value_text};
use linerate_openflow::{Field, FieldMatch, Match};

/// A match as `ovs-ofctl dump-flows` prints it; empty for a match of all packets. Fields that OpenFlow 1.3 has and Open vSwitch lacks
/// stand last, with the specification's names.
pub fn match_text(matching: &Match) -> String {
    Printer { matching, printed: Vec::new(), words: Vec::new() }.print()
}

struct Printer<'a> {
    matching: &'a Match,
    printed: Vec<Field>,
    words: Vec<String>,
}

impl Printer<'_> {
    fn print(mut self) -> String {
        self.protocol();
        for field in [Field::TunnelId, Field::Metadata, Field::InPort] {
            self.field(field, ovs_name(field));
        }
        self.vlan();
        self.field(Field::EthSrc, "dl_src");
        self.field(Field::EthDst, "dl_dst");
        self.field(Field::EthType, "dl_type");
        for field in [Field::Ipv6Src, Field::Ipv6Dst] {
            self.field(field, field.name());
        }
        self.label();
        for (field, name) in [
            (Field::Ipv4Src, "nw_src"),
            (Field::Ipv4Dst, "nw_dst"),
            (Field::ArpSpa, "arp_spa"),
            (Field::ArpTpa, "arp_tpa"),
            (Field::IpProto, "nw_proto"),
            (Field::ArpOp, "arp_op"),
            (Field::ArpSha, "arp_sha"),
            (Field::ArpTha, "arp_tha"),
        ] {
            self.field(field, name);
        }
        self.type_of_service();
        for (field, name) in [
            (Field::IpEcn, "nw_ecn"),
            (Field::MplsLabel, "mpls_label"),
            (Field::MplsTc, "mpls_tc"),
            (Field::MplsBos, "mpls_bos"),
            (Field::Icmpv4Type, "icmp_type"),
            (Field::Icmpv4Code, "icmp_code"),
            (Field::Icmpv6Type, "icmp_type"),
            (Field::Icmpv6Code, "icmp_code"),
            (Field::Ipv6NdTarget, "nd_target"),
            (Field::Ipv6NdSll, "nd_sll"),
            (Field::Ipv6NdTll, "nd_tll"),
            (Field::TcpSrc, "tp_src"),
            (Field::TcpDst, "tp_dst"),
            (Field::UdpSrc, "tp_src"),
            (Field::UdpDst, "tp_dst"),
            (Field::SctpSrc, "tp_src"),
            (Field::SctpDst, "tp_dst"),
        ] {
            self.field(field, name);
        }
        for field in Field::all() {
            self.field(field, field.name());
        }
        let others = self.matching.experimenter_fields.iter().map(|(_, field)| experimenter_field_text(field));
        self.words.extend(others);
        self.words.join(",")
    }

    /// What a match wants of a field that is not printed yet; a mask of 0 wants nothing.
    fn take(&mut self, field: Field) -> Option<FieldMatch> {
        let wanted = *self.matching.get(field)?;
        if self.printed.contains(&field) || wanted.effective_mask() == 0 {
            return None;
        }
        self.printed.push(field);
        Some(wanted)
    }

    fn field(&mut self, field: Field, name: &str) {
        if let Some(wanted) = self.take(field) {
            // A short name such as `tp_src` means another field beside another protocol.
            let meant = Protocols::of(&self.matching.fields).field(name, name);
            let name = if meant == Ok(Some(field)) { name } else { field.name() };
            self.words.push(format!("{name}={}", masked_text(&wanted)));
        }
    }

    /// One word for EtherType and IP protocol where there is one.
    fn protocol(&mut self) {
        let Protocols { eth_type: Some(eth_type), ip_proto } = Protocols::of(&self.matching.fields) else { return };
        if !matches!(eth_type, IPV4 | IPV6 | ARP | RARP | MPLS | MPLS_MULTICAST) {
            return;
        }
        let ip_proto = ip_proto.filter(|_| matches!(eth_type, IPV4 | IPV6));
        let name = |number: Option<u128>| {
            let same =
                |protocol: &&super::names::Protocol| protocol.eth_type == eth_type && protocol.ip_proto == number;
            PROTOCOLS.iter().find(same).map(|protocol| protocol.name)
        };
        let _ = self.take(Field::EthType);
        if let Some(word) = name(ip_proto).filter(|_| ip_proto.is_some()) {
            let _ = self.take(Field::IpProto);
            self.words.push(word.into());
        } else if let Some(word) = name(None) {
            self.words.push(word.into());
        }
    }

    fn vlan(&mut self) {
        let pcp = self.matching.get(Field::VlanPcp).map(|wanted| wanted.value);
        let Some(vid) = self.take(Field::VlanVid) else { return };
        let (value, mask) = (vid.value, vid.effective_mask());
        let has_tag = value & 0x1000 != 0;
        if has_tag && mask == 0x1fff {
            self.words.push(format!("dl_vlan={}", value & 0xfff));
        } else if !(has_tag && mask == 0x1000 && pcp.is_some()) {
            self.words.push(format!("vlan_tci={value:#06x}/{mask:#06x}"));
        }
        self.field(Field::VlanPcp, "dl_vlan_pcp");
    }

    fn label(&mut self) {
        if let Some(wanted) = self.take(Field::Ipv6Flabel) {
            let mask = wanted.effective_mask();
            let full = mask == Field::Ipv6Flabel.full_mask();
            let mask = if full { String::new() } else { format!("/{mask:#07x}") };
            self.words.push(format!("ipv6_label={:#07x}{mask}", wanted.value));
        }
    }

    fn type_of_service(&mut self) {
        if let Some(wanted) = self.take(Field::IpDscp) {
            self.words.push(format!("nw_tos={}", value_text(Field::IpDscp, wanted.value << 2)));
        }
    }
}
