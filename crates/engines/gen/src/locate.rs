//! Names of header fields -> places in a built frame.
//!
//! A name is `layer.field`, `layer#2.field` for the second layer of that kind (the inner VLAN tag, the inner IPv4 header of
//! VXLAN), or `offset+width` in bytes for what has no name.

use linerate_wire::{
    LayerKind, Layout, ethernet, geneve, gre, icmpv4, icmpv6, ipv4, ipv6, mpls, tcp, udp, vlan, vxlan,
};

use crate::plan_error::PlanError;

/// Where a field's bits are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLocation {
    /// First byte that is rewritten.
    pub offset: usize,
    /// Bytes rewritten.
    pub width: usize,
    /// Bits below the field's lowest one in those bytes.
    pub shift: u32,
    /// Bits of the field.
    pub value_bits: u32,
}

type Row = (&'static str, std::ops::Range<usize>, u32, u32);

const fn whole(name: &'static str, range: std::ops::Range<usize>) -> Row {
    let bits = (range.end - range.start) as u32 * 8;
    (name, range, 0, bits)
}

/// Fields of a layer: name, bytes, shift, bits.
fn rows(kind: LayerKind) -> Vec<Row> {
    // An IPv6 address varies in its low 64 bits: the interface identifier.
    let low_half = |range: std::ops::Range<usize>| range.end - 8..range.end;
    match kind {
        LayerKind::Ethernet => vec![whole("source", ethernet::field::SRC), whole("destination", ethernet::field::DST)],
        LayerKind::Vlan => vec![("id", vlan::field::TCI, 0, 12), ("priority", vlan::field::TCI, 13, 3)],
        LayerKind::Mpls => vec![
            ("label", mpls::field::ENTRY, 12, 20),
            ("class", mpls::field::ENTRY, 9, 3),
            whole("ttl", mpls::field::TTL),
        ],
        LayerKind::Ipv4 => vec![
            whole("source", ipv4::field::SRC),
            whole("destination", ipv4::field::DST),
            whole("tos", ipv4::field::TOS),
            ("dscp", ipv4::field::TOS, 2, 6),
            whole("identification", ipv4::field::IDENTIFICATION),
            whole("ttl", ipv4::field::TTL),
        ],
        LayerKind::Ipv6 => vec![
            whole("source", low_half(ipv6::field::SRC)),
            whole("destination", low_half(ipv6::field::DST)),
            ("flow_label", ipv6::field::VERSION_CLASS_FLOW, 0, 20),
            ("class", ipv6::field::VERSION_CLASS_FLOW, 20, 8),
            whole("hop_limit", ipv6::field::HOP_LIMIT),
        ],
        LayerKind::Udp => vec![whole("source", udp::field::SRC_PORT), whole("destination", udp::field::DST_PORT)],
        LayerKind::Tcp => vec![
            whole("source", tcp::field::SRC_PORT),
            whole("destination", tcp::field::DST_PORT),
            whole("sequence", tcp::field::SEQUENCE),
            whole("acknowledgment", tcp::field::ACKNOWLEDGMENT),
            whole("flags", tcp::field::FLAGS),
            whole("window", tcp::field::WINDOW),
        ],
        LayerKind::Icmpv4 => vec![
            whole("type", icmpv4::field::KIND),
            whole("code", icmpv4::field::CODE),
            whole("identifier", icmpv4::field::IDENTIFIER),
            whole("sequence", icmpv4::field::SEQUENCE),
        ],
        LayerKind::Icmpv6 => vec![
            whole("type", icmpv6::field::KIND),
            whole("code", icmpv6::field::CODE),
            whole("identifier", icmpv6::field::IDENTIFIER),
            whole("sequence", icmpv6::field::SEQUENCE),
        ],
        LayerKind::Vxlan => vec![("vni", vxlan::field::VNI_WORD, 8, 24)],
        LayerKind::Geneve => vec![("vni", geneve::field::VNI_WORD, 8, 24)],
        LayerKind::Gre => vec![whole("key", gre::field::KEY)],
        LayerKind::Arp => Vec::new(),
    }
}

const LAYER_NAMES: [(&str, LayerKind); 12] = [
    ("ethernet", LayerKind::Ethernet),
    ("vlan", LayerKind::Vlan),
    ("mpls", LayerKind::Mpls),
    ("ipv4", LayerKind::Ipv4),
    ("ipv6", LayerKind::Ipv6),
    ("udp", LayerKind::Udp),
    ("tcp", LayerKind::Tcp),
    ("icmp", LayerKind::Icmpv4),
    ("icmpv6", LayerKind::Icmpv6),
    ("vxlan", LayerKind::Vxlan),
    ("geneve", LayerKind::Geneve),
    ("gre", LayerKind::Gre),
];

/// Finds a field by its name in a frame.
pub fn locate(layout: &Layout, name: &str) -> Result<FieldLocation, PlanError> {
    let wrong = |problem: String| PlanError::Field { name: name.into(), problem };
    let Some((layer, field)) = name.split_once('.') else {
        return locate_by_offset(layout, name);
    };
    let (layer, number) = match layer.split_once('#') {
        Some((layer, number)) => (layer, number.parse().ok().filter(|number| *number > 0)),
        None => (layer, Some(1usize)),
    };
    let number = number.ok_or_else(|| wrong("what follows # is no number from 1".into()))?;
    let Some((_, kind)) = LAYER_NAMES.iter().find(|(known, _)| *known == layer) else {
        let known: Vec<&str> = LAYER_NAMES.iter().map(|(known, _)| *known).collect();
        return Err(wrong(format!("there is no layer {layer}; layers are {}", known.join(", "))));
    };
    let rows = rows(*kind);
    let Some((_, range, shift, value_bits)) = rows.iter().find(|(known, ..)| *known == field) else {
        let known: Vec<&str> = rows.iter().map(|(known, ..)| *known).collect();
        return Err(wrong(format!("{layer} has no field {field}; it has {}", known.join(", "))));
    };
    let span = layout.layers.iter().filter(|span| span.kind == *kind).nth(number - 1);
    let span = span.ok_or_else(|| wrong(format!("the packet has no such layer ({layer} number {number})")))?;
    let range = span.field(range.clone());
    if range.end > span.range().end {
        return Err(wrong(format!(
            "this {layer} layer has no {field}; give it one: {{ {layer} = {{ {field} = 1 }} }}"
        )));
    }
    Ok(FieldLocation { offset: range.start, width: range.len(), shift: *shift, value_bits: *value_bits })
}

/// `offset+width`.
fn locate_by_offset(layout: &Layout, name: &str) -> Result<FieldLocation, PlanError> {
    let wrong = |problem: &str| PlanError::Field { name: name.into(), problem: problem.into() };
    let numbers = name.split_once('+').and_then(|(offset, width)| Some((offset.parse().ok()?, width.parse().ok()?)));
    let Some((offset, width)): Option<(usize, usize)> = numbers else {
        return Err(wrong("a field is layer.name (ipv4.source) or offset+width in bytes (42+2)"));
    };
    if !(1..=8).contains(&width) || offset.saturating_add(width) > layout.frame_len {
        return Err(wrong("the width must be 1 to 8 and the field must lie in the packet"));
    }
    Ok(FieldLocation { offset, width, shift: 0, value_bits: width as u32 * 8 })
}
