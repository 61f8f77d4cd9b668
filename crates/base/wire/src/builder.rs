//! Building a frame from a [`Stack`]: order and range checks, derived fields, payload, checksums
//! from the inside out.

use crate::layout::{ChecksumField, LayerSpan, Layout};
use crate::{EtherType, geneve, ipv4, ipv6, mpls, vlan, vxlan};
use crate::{Layer, LayerKind, Stack, Sum, UdpChecksum};
use std::fmt;

/// A frame and where everything is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The frame, without FCS.
    pub bytes: Vec<u8>,
    /// Where everything is.
    pub layout: Layout,
}

impl Stack {
    /// Builds a frame of `frame_len` bytes (without FCS).
    ///
    /// # Errors
    /// See [`BuildError`].
    ///
    /// ```
    /// use linerate_wire::{LayerKind, Stack, ethernet, ipv4, udp};
    /// let stack = Stack::new()
    ///     .with(ethernet::Header::default())
    ///     .with(ipv4::Header::default())
    ///     .with(udp::Header::default());
    /// let built = stack.build(60).unwrap();
    /// assert_eq!(built.layout.find(LayerKind::Udp).unwrap().offset, 34);
    /// assert_eq!(built.layout.payload, 42..60);
    /// assert!(stack.build(41).is_err());
    /// ```
    pub fn build(&self, frame_len: usize) -> Result<Built, BuildError> {
        let mut bytes = vec![0; frame_len];
        let layout = self.build_into(&mut bytes)?;
        Ok(Built { bytes, layout })
    }

    /// Builds a frame that fills `frame`.
    ///
    /// # Errors
    /// See [`BuildError`]; `frame` is then unchanged.
    pub fn build_into(&self, frame: &mut [u8]) -> Result<Layout, BuildError> {
        let layers = self.resolve(frame.len())?;
        let layout = self.layout(&layers, frame.len());
        for (layer, span) in layers.iter().zip(&layout.layers) {
            layer.emit(&mut frame[span.offset..]);
        }
        self.fill.write(&mut frame[layout.payload.clone()]);
        // The IPv4 header checksum came with the header; an inner checksum is data of an outer one.
        for (index, layer) in layers.iter().enumerate().rev() {
            fill_checksum(layer, index, &layout, &layers, frame);
        }
        Ok(layout)
    }

    /// The layers as they will be emitted in a frame of `frame_len` bytes: every derived field set,
    /// but for the checksums.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn resolve(&self, frame_len: usize) -> Result<Vec<Layer>, BuildError> {
        self.check_order()?;
        self.check_ranges()?;
        let headers_len = self.headers_len();
        if frame_len < headers_len {
            let layers = self.layers.iter().map(|layer| (layer.kind(), layer.header_len())).collect();
            return Err(BuildError::TooShort { frame_len, headers_len, layers });
        }
        let mut layers = self.layers.clone();
        let mut offset = 0;
        for index in 0..layers.len() {
            let next = layers.get(index + 1).cloned();
            let layer = &mut layers[index];
            derive_fields(layer, next.as_ref(), frame_len - offset)?;
            offset += layer.header_len();
        }
        Ok(layers)
    }

    fn check_order(&self) -> Result<(), BuildError> {
        let mut after = None;
        for layer in self.layers.iter().map(Layer::kind) {
            if !may_follow(after, layer) {
                return Err(BuildError::Order { layer: Some(layer), after });
            }
            after = Some(layer);
        }
        match after {
            None | Some(LayerKind::Vxlan | LayerKind::Geneve | LayerKind::Gre) => {
                Err(BuildError::Order { layer: None, after })
            }
            Some(_) => Ok(()),
        }
    }

    fn check_ranges(&self) -> Result<(), BuildError> {
        let mut over_ipv6 = false;
        for layer in &self.layers {
            let kind = layer.kind();
            let check = |field, value: u32, max: u32| match value > max {
                true => Err(BuildError::FieldRange { layer: kind, field, value, max }),
                false => Ok(()),
            };
            match layer {
                Layer::Vlan { header, .. } => {
                    check("VLAN id", header.vid.into(), vlan::MAX_VID.into())?;
                    check("priority", header.pcp.into(), vlan::MAX_PCP.into())?;
                }
                Layer::Mpls(header) => {
                    check("label", header.label, mpls::MAX_LABEL)?;
                    check("traffic class", header.tc.into(), mpls::MAX_TC.into())?;
                }
                Layer::Ipv4(header) => {
                    check("fragment offset", header.fragment_offset.into(), ipv4::MAX_FRAGMENT_OFFSET.into())?;
                }
                Layer::Ipv6(header) => check("flow label", header.flow_label, ipv6::MAX_FLOW_LABEL)?,
                Layer::Vxlan(header) => check("network identifier", header.vni, vxlan::MAX_VNI)?,
                Layer::Geneve(header) => check("network identifier", header.vni, geneve::MAX_VNI)?,
                Layer::Udp(_) if over_ipv6 && self.udp_checksum == UdpChecksum::Absent => {
                    return Err(BuildError::ChecksumRequired);
                }
                _ => {}
            }
            over_ipv6 = kind == LayerKind::Ipv6;
        }
        Ok(())
    }

    fn layout(&self, layers: &[Layer], frame_len: usize) -> Layout {
        let mut layout = Layout { frame_len, layers: Vec::new(), checksums: Vec::new(), payload: 0..frame_len };
        for (index, layer) in layers.iter().enumerate() {
            let offset = layout.payload.start;
            layout.payload.start += layer.header_len();
            layout.layers.push(LayerSpan { kind: layer.kind(), offset, len: layer.header_len() });
            let network = layout.layers[index.saturating_sub(1)];
            let has_checksum = match layer {
                Layer::Udp(_) => self.has_udp_checksum(network.kind, layers.get(index + 1)),
                _ => true,
            };
            layout.checksums.extend(ChecksumField::of(layout.layers[index], network, frame_len, has_checksum));
        }
        layout
    }

    fn has_udp_checksum(&self, network: LayerKind, next: Option<&Layer>) -> bool {
        let outside_tunnel = matches!(next, Some(Layer::Vxlan(_) | Layer::Geneve(_)));
        network == LayerKind::Ipv6 || self.udp_checksum == UdpChecksum::Computed && !outside_tunnel
    }
}

/// Whether a `layer` may come after this one; `None` is the start of the frame.
fn may_follow(after: Option<LayerKind>, layer: LayerKind) -> bool {
    use LayerKind::*;
    match after {
        None | Some(Vxlan) => layer == Ethernet,
        Some(Ethernet | Vlan) => matches!(layer, Vlan | Mpls | Arp | Ipv4 | Ipv6),
        Some(Mpls) => matches!(layer, Mpls | Ipv4 | Ipv6),
        Some(Ipv4) => matches!(layer, Udp | Tcp | Icmpv4 | Gre),
        Some(Ipv6) => matches!(layer, Udp | Tcp | Icmpv6 | Gre),
        Some(Udp) => matches!(layer, Vxlan | Geneve),
        Some(Geneve) => matches!(layer, Ethernet | Ipv4 | Ipv6),
        Some(Gre) => matches!(layer, Ethernet | Mpls | Ipv4 | Ipv6),
        Some(Arp | Tcp | Icmpv4 | Icmpv6) => false,
    }
}

/// Sets the fields of `layer` that follow from the `next` one and from `len`, the bytes from its
/// start to the frame's end.
fn derive_fields(layer: &mut Layer, next: Option<&Layer>, len: usize) -> Result<(), BuildError> {
    let kind = layer.kind();
    let ethertype = next.and_then(Layer::ethertype);
    let protocol = next.and_then(Layer::protocol);
    let len16 =
        |len: usize| u16::try_from(len).map_err(|_| BuildError::TooLong { layer: kind, len, max: u16::MAX.into() });
    match layer {
        Layer::Ethernet(header) => header.ethertype = ethertype.unwrap_or(header.ethertype),
        Layer::Vlan { header, .. } => header.ethertype = ethertype.unwrap_or(header.ethertype),
        Layer::Mpls(header) => header.bottom = !matches!(next, Some(Layer::Mpls(_))),
        Layer::Ipv4(header) => {
            header.total_len = len16(len)?;
            header.protocol = protocol.unwrap_or(header.protocol);
        }
        Layer::Ipv6(header) => {
            header.payload_len = len16(len - ipv6::HEADER_LEN)?;
            header.next_header = protocol.unwrap_or(header.next_header);
        }
        Layer::Udp(header) => (header.length, header.checksum) = (len16(len)?, 0),
        Layer::Tcp(header) => header.checksum = 0,
        Layer::Icmpv4(header) => header.checksum = 0,
        Layer::Icmpv6(header) => header.checksum = 0,
        // A frame has no EtherType of its own in front of it.
        Layer::Geneve(header) => header.protocol = ethertype.unwrap_or(EtherType::TRANSPARENT_ETHERNET),
        Layer::Gre(header) => header.protocol = ethertype.unwrap_or(EtherType::TRANSPARENT_ETHERNET),
        Layer::Arp(_) | Layer::Vxlan(_) => {}
    }
    Ok(())
}

/// Computes the transport checksum of `layer`, whose field is still zero.
fn fill_checksum(layer: &Layer, index: usize, layout: &Layout, layers: &[Layer], frame: &mut [u8]) {
    let Some(protocol) = layer.protocol() else {
        return;
    };
    let span = layout.layers[index];
    let Some(field) = layout.checksums.iter().find(|field| span.range().contains(&field.offset)) else {
        return;
    };
    if !field.present {
        return;
    }
    // The length fits: the IP layer around it has been checked.
    let len = (layout.frame_len - span.offset) as u16;
    let pseudo = match (&layers[index - 1], layer) {
        (_, Layer::Icmpv4(_)) => Sum::new(),
        (Layer::Ipv4(ip), _) => Sum::pseudo_ipv4(ip.src, ip.dst, protocol.0, len),
        (Layer::Ipv6(ip), _) => Sum::pseudo_ipv6(ip.src, ip.dst, protocol.0, len.into()),
        _ => return,
    };
    let sum = pseudo.add_slice(&frame[span.offset..]);
    let checksum = if span.kind == LayerKind::Udp { sum.finish_udp() } else { sum.finish() };
    frame[field.offset..field.offset + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Why a [`Stack`] cannot become a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The headers do not fit the frame length.
    TooShort {
        /// The frame length asked for, in bytes without FCS.
        frame_len: usize,
        /// Bytes that the headers need.
        headers_len: usize,
        /// The same by layer, outermost first.
        layers: Vec<(LayerKind, usize)>,
    },
    /// A length field cannot hold the length.
    TooLong {
        /// The layer with the length field.
        layer: LayerKind,
        /// The length in bytes that it would have to hold.
        len: usize,
        /// The most that it holds.
        max: usize,
    },
    /// A layer stands where it cannot.
    Order {
        /// The layer; `None` is the end of the stack.
        layer: Option<LayerKind>,
        /// What it comes after; `None` is the start of the frame.
        after: Option<LayerKind>,
    },
    /// A value does not fit its field.
    FieldRange {
        /// The layer with the field.
        layer: LayerKind,
        /// The field.
        field: &'static str,
        /// The value.
        value: u32,
        /// The largest that fits.
        max: u32,
    },
    /// UDP over IPv6 without checksum.
    ChecksumRequired,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::TooShort { frame_len, headers_len, layers } => {
                write!(f, "a frame of {frame_len} bytes (without FCS) cannot hold {headers_len} bytes of headers: ")?;
                let parts: Vec<_> = layers.iter().map(|(kind, len)| format!("{kind} {len}")).collect();
                f.write_str(&parts.join(" + "))
            }
            BuildError::TooLong { layer, len, max } => {
                write!(f, "{layer}: a length of {len} bytes is above the {max} that its length field holds")
            }
            BuildError::Order { layer: Some(layer), after: None } => {
                write!(f, "a frame starts with Ethernet, not with {layer}")
            }
            BuildError::Order { layer: Some(layer), after: Some(after) } => write!(f, "{layer} cannot follow {after}"),
            BuildError::Order { layer: None, after: None } => f.write_str("a frame needs at least an Ethernet layer"),
            BuildError::Order { layer: None, after: Some(after) } => write!(f, "{after} cannot be the last layer"),
            BuildError::FieldRange { layer, field, value, max } => {
                write!(f, "{layer}: {field} {value} is above {max}")
            }
            BuildError::ChecksumRequired => f.write_str("UDP over IPv6 must carry a checksum (RFC 8200 section 8.1)"),
        }
    }
}

impl std::error::Error for BuildError {}
