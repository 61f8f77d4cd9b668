//! [`Stack`]: the headers of a frame from the outside in, and what fills the rest.

use crate::{EtherType, LayerKind, Protocol};
use crate::{arp, ethernet, geneve, gre, icmpv4, icmpv6, ipv4, ipv6, mpls, tcp, udp, vlan, vxlan};

/// One layer of a [`Stack`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Ethernet.
    Ethernet(ethernet::Header),
    /// A VLAN tag.
    Vlan {
        /// The EtherType that announces the tag: [`EtherType::VLAN`] or [`EtherType::QINQ`].
        tpid: EtherType,
        /// The tag.
        header: vlan::Header,
    },
    /// An MPLS label.
    Mpls(mpls::Header),
    /// ARP.
    Arp(arp::Header),
    /// IPv4.
    Ipv4(ipv4::Header),
    /// IPv6.
    Ipv6(ipv6::Header),
    /// UDP.
    Udp(udp::Header),
    /// TCP.
    Tcp(tcp::Header),
    /// ICMP for IPv4.
    Icmpv4(icmpv4::Header),
    /// ICMP for IPv6.
    Icmpv6(icmpv6::Header),
    /// VXLAN; an Ethernet layer follows.
    Vxlan(vxlan::Header),
    /// Geneve; Ethernet or IP follows.
    Geneve(geneve::Header),
    /// GRE; Ethernet, MPLS or IP follows.
    Gre(gre::Header),
}

impl Layer {
    /// An 802.1ad service tag.
    pub const fn qinq(header: vlan::Header) -> Layer {
        Layer::Vlan { tpid: EtherType::QINQ, header }
    }

    /// What kind of layer this is.
    pub const fn kind(&self) -> LayerKind {
        match self {
            Layer::Ethernet(_) => LayerKind::Ethernet,
            Layer::Vlan { .. } => LayerKind::Vlan,
            Layer::Mpls(_) => LayerKind::Mpls,
            Layer::Arp(_) => LayerKind::Arp,
            Layer::Ipv4(_) => LayerKind::Ipv4,
            Layer::Ipv6(_) => LayerKind::Ipv6,
            Layer::Udp(_) => LayerKind::Udp,
            Layer::Tcp(_) => LayerKind::Tcp,
            Layer::Icmpv4(_) => LayerKind::Icmpv4,
            Layer::Icmpv6(_) => LayerKind::Icmpv6,
            Layer::Vxlan(_) => LayerKind::Vxlan,
            Layer::Geneve(_) => LayerKind::Geneve,
            Layer::Gre(_) => LayerKind::Gre,
        }
    }

    /// Length of its header in bytes.
    pub const fn header_len(&self) -> usize {
        match self {
            Layer::Ethernet(header) => header.header_len(),
            Layer::Vlan { header, .. } => header.header_len(),
            Layer::Mpls(header) => header.header_len(),
            Layer::Arp(header) => header.header_len(),
            Layer::Ipv4(header) => header.header_len(),
            Layer::Ipv6(header) => header.header_len(),
            Layer::Udp(header) => header.header_len(),
            Layer::Tcp(header) => header.header_len(),
            Layer::Icmpv4(header) => header.header_len(),
            Layer::Icmpv6(header) => header.header_len(),
            Layer::Vxlan(header) => header.header_len(),
            Layer::Geneve(header) => header.header_len(),
            Layer::Gre(header) => header.header_len(),
        }
    }

    /// Writes its header to the start of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`Layer::header_len`].
    pub fn emit(&self, bytes: &mut [u8]) {
        match self {
            Layer::Ethernet(header) => header.emit(bytes),
            Layer::Vlan { header, .. } => header.emit(bytes),
            Layer::Mpls(header) => header.emit(bytes),
            Layer::Arp(header) => header.emit(bytes),
            Layer::Ipv4(header) => header.emit(bytes),
            Layer::Ipv6(header) => header.emit(bytes),
            Layer::Udp(header) => header.emit(bytes),
            Layer::Tcp(header) => header.emit(bytes),
            Layer::Icmpv4(header) => header.emit(bytes),
            Layer::Icmpv6(header) => header.emit(bytes),
            Layer::Vxlan(header) => header.emit(bytes),
            Layer::Geneve(header) => header.emit(bytes),
            Layer::Gre(header) => header.emit(bytes),
        }
    }

    /// The EtherType that announces this layer.
    pub(crate) const fn ethertype(&self) -> Option<EtherType> {
        match self {
            Layer::Vlan { tpid, .. } => Some(*tpid),
            Layer::Mpls(_) => Some(EtherType::MPLS),
            Layer::Arp(_) => Some(EtherType::ARP),
            Layer::Ipv4(_) => Some(EtherType::IPV4),
            Layer::Ipv6(_) => Some(EtherType::IPV6),
            _ => None,
        }
    }

    /// The IP protocol number that announces this layer.
    pub(crate) const fn protocol(&self) -> Option<Protocol> {
        match self {
            Layer::Udp(_) => Some(Protocol::UDP),
            Layer::Tcp(_) => Some(Protocol::TCP),
            Layer::Icmpv4(_) => Some(Protocol::ICMPV4),
            Layer::Icmpv6(_) => Some(Protocol::ICMPV6),
            Layer::Gre(_) => Some(Protocol::GRE),
            _ => None,
        }
    }
}

macro_rules! layer_from {
    ($($module:ident => $variant:ident),*) => {
        $(impl From<$module::Header> for Layer {
            fn from(header: $module::Header) -> Layer {
                Layer::$variant(header)
            }
        })*
    };
}

layer_from!(ethernet => Ethernet, mpls => Mpls, arp => Arp, ipv4 => Ipv4, ipv6 => Ipv6, udp => Udp, tcp => Tcp,
    icmpv4 => Icmpv4, icmpv6 => Icmpv6, vxlan => Vxlan, geneve => Geneve, gre => Gre);

impl From<vlan::Header> for Layer {
    /// An 802.1Q tag.
    fn from(header: vlan::Header) -> Layer {
        Layer::Vlan { tpid: EtherType::VLAN, header }
    }
}

/// What fills a frame behind its headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fill {
    /// Zero bytes.
    #[default]
    Zero,
    /// One byte, repeated.
    Byte(u8),
    /// 0, 1, 2 ... 255, 0 ...
    Increment,
    /// A pattern, repeated; an empty one is zero bytes.
    Repeat(Vec<u8>),
    /// Pseudo-random bytes from a seed (SplitMix64), the same on every machine.
    Random(u64),
}

impl Fill {
    /// Fills `payload`.
    ///
    /// ```
    /// let mut payload = [0; 5];
    /// linerate_wire::Fill::Repeat(b"ab".to_vec()).write(&mut payload);
    /// assert_eq!(&payload, b"ababa");
    /// ```
    pub fn write(&self, payload: &mut [u8]) {
        match self {
            Fill::Zero => payload.fill(0),
            Fill::Byte(byte) => payload.fill(*byte),
            Fill::Increment => payload.iter_mut().zip((0..=255).cycle()).for_each(|(to, byte)| *to = byte),
            Fill::Repeat(pattern) => {
                payload.fill(0);
                payload.iter_mut().zip(pattern.iter().cycle()).for_each(|(to, byte)| *to = *byte);
            }
            Fill::Random(seed) => {
                let mut state = *seed;
                for chunk in payload.chunks_mut(8) {
                    chunk.copy_from_slice(&splitmix64(&mut state).to_le_bytes()[..chunk.len()]);
                }
            }
        }
    }
}

/// One step of SplitMix64 (Steele, Lea, Flood 2014).
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Whether UDP over IPv4 carries a checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UdpChecksum {
    /// Yes, except outside VXLAN, where RFC 7348 section 5 wants 0, and outside Geneve, where it may be 0 (RFC 8926 section 3.3).
    #[default]
    Computed,
    /// No: 0. Over IPv6, where it must be there (RFC 8200 section 8.1), building fails.
    Absent,
}

/// The headers of a frame from the outside in, and what fills the rest; [`Stack::build`] makes the
/// bytes.
///
/// The order must be that of a real frame: Ethernet; VLAN tags; MPLS labels; ARP, or IPv4 or IPv6;
/// UDP, TCP, GRE or the ICMP of that family; behind UDP, VXLAN and another such stack, or Geneve; behind Geneve and GRE another such
/// stack, or its part from IP on. It may end after any layer but a tunnel's.
///
/// ```
/// use linerate_wire::*;
/// let inner_udp = udp::Header { src_port: 1, dst_port: 2, ..Default::default() };
/// let stack = Stack::new()
///     .with(ethernet::Header::default())
///     .with(Layer::qinq(vlan::Header { vid: 7, ..Default::default() }))
///     .with(vlan::Header { vid: 100, ..Default::default() })
///     .with(ipv4::Header::default())
///     .with(udp::Header { src_port: 49152, dst_port: vxlan::PORT, ..Default::default() })
///     .with(vxlan::Header { vni: 42 })
///     .with(ethernet::Header::default())
///     .with(ipv6::Header::default())
///     .with(inner_udp)
///     .fill(Fill::Increment);
/// assert_eq!(stack.headers_len(), 14 + 4 + 4 + 20 + 8 + 8 + 14 + 40 + 8);
/// let error = stack.build(100).unwrap_err();
/// assert!(error.to_string().starts_with("a frame of 100 bytes (without FCS) cannot hold 120 bytes of headers"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// The layers, outermost first.
    pub layers: Vec<Layer>,
    /// What fills the frame behind the headers.
    pub fill: Fill,
    /// Whether UDP over IPv4 carries a checksum.
    pub udp_checksum: UdpChecksum,
}

impl Stack {
    /// A stack without layers.
    pub const fn new() -> Stack {
        Stack { layers: Vec::new(), fill: Fill::Zero, udp_checksum: UdpChecksum::Computed }
    }

    /// Adds a layer inside the ones there. Fields that follow from other layers (EtherType,
    /// protocol, lengths, bottom of stack, checksums) are derived when building.
    #[must_use]
    pub fn with(mut self, layer: impl Into<Layer>) -> Stack {
        self.layers.push(layer.into());
        self
    }

    /// Sets what fills the frame behind the headers.
    #[must_use]
    pub fn fill(mut self, fill: Fill) -> Stack {
        self.fill = fill;
        self
    }

    /// Sets whether UDP over IPv4 carries a checksum.
    #[must_use]
    pub const fn udp_checksum(mut self, udp_checksum: UdpChecksum) -> Stack {
        self.udp_checksum = udp_checksum;
        self
    }

    /// Length of all headers in bytes: the shortest frame that the stack can make, without FCS.
    pub fn headers_len(&self) -> usize {
        self.layers.iter().map(Layer::header_len).sum()
    }
}
