//! [`Parsed`]: where the layers of a received frame start.

use crate::bytes::cut;
use crate::{EtherType, LayerKind, ParseError, Protocol};
use crate::{ethernet, icmpv4, icmpv6, ipv4, ipv6, mpls, tcp, udp, vlan, vxlan};

/// Where the layers of a frame start. All offsets are from the start of the frame and lie inside
/// it.
///
/// ```
/// use linerate_wire::{LayerKind, Parsed, Stack, ethernet, ipv6, tcp};
/// let stack = Stack::new()
///     .with(ethernet::Header::default())
///     .with(ipv6::Header::default())
///     .with(tcp::Header::default());
/// let parsed = Parsed::parse(&stack.build(80).unwrap().bytes).unwrap();
/// let ip = parsed.ip.unwrap();
/// let transport = ip.transport.unwrap();
/// assert_eq!((ip.offset, transport.kind, transport.offset, transport.payload_offset), (14, LayerKind::Tcp, 54, 74));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// What is at `l3_offset`. Behind MPLS labels: IPv4 or IPv6 by the first four bits (RFC 4928),
    /// else the MPLS EtherType.
    pub ethertype: EtherType,
    /// Number of VLAN tags.
    pub vlan_tags: usize,
    /// Number of MPLS labels.
    pub mpls_labels: usize,
    /// Where the network layer starts: behind Ethernet, tags and labels.
    pub l3_offset: usize,
    /// The network layer, if it is IP.
    pub ip: Option<Ip>,
}

/// An IP layer of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// IPv4 or IPv6.
    pub kind: LayerKind,
    /// Where its header starts.
    pub offset: usize,
    /// Where its data starts, behind options or extension headers.
    pub payload_offset: usize,
    /// Where its data ends; padding may follow.
    pub end: usize,
    /// Protocol of the data.
    pub protocol: Protocol,
    /// Whether the frame ends before the packet does, as in a capture.
    pub is_truncated: bool,
    /// Whether this is a fragment, the first included; then `transport` is `None`.
    pub is_fragment: bool,
    /// Whether an IPv6 routing header has segments left.
    pub is_routed: bool,
    /// The transport layer, if it is a known one.
    pub transport: Option<Transport>,
}

/// A transport layer of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// UDP, TCP, ICMPv4 or ICMPv6.
    pub kind: LayerKind,
    /// Where its header starts.
    pub offset: usize,
    /// Where its data starts.
    pub payload_offset: usize,
    /// Where its data ends; a UDP length may be smaller than the room in the IP packet.
    pub end: usize,
}

impl Parsed {
    /// Finds the layers of an Ethernet frame. The data of IP may be cut short (`is_truncated`),
    /// headers may not.
    ///
    /// # Errors
    /// A [`ParseError`] if Ethernet or one of the known layers in it is cut or malformed.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Parsed, ParseError> {
        let mut ethertype = ethernet::Packet::new_checked(frame)?.ethertype();
        let (mut l3_offset, mut vlan_tags, mut mpls_labels) = (ethernet::HEADER_LEN, 0, 0);
        while ethertype.is_vlan() {
            ethertype = vlan::Packet::new_checked(rest(frame, l3_offset))?.ethertype();
            l3_offset += vlan::HEADER_LEN;
            vlan_tags += 1;
        }
        if ethertype.is_mpls() {
            (mpls_labels, ethertype) = skip_labels(rest(frame, l3_offset), ethertype)?;
            l3_offset += mpls_labels * mpls::HEADER_LEN;
        }
        let ip = match ethertype {
            EtherType::IPV4 => Some(Ip::parse_v4(frame, l3_offset)?),
            EtherType::IPV6 => Some(Ip::parse_v6(frame, l3_offset)?),
            _ => None,
        };
        Ok(Parsed { ethertype, vlan_tags, mpls_labels, l3_offset, ip })
    }

    /// The frame inside, if this one is VXLAN to the standard port.
    #[inline]
    pub fn inner<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        let transport = self.ip?.transport.filter(|transport| transport.kind == LayerKind::Udp)?;
        let datagram = udp::Packet::new_truncated(cut(frame, transport.offset, transport.end)).ok()?;
        let data = cut(frame, transport.payload_offset, transport.end);
        let is_vxlan = datagram.dst_port() == vxlan::PORT && vxlan::Packet::new_checked(data).is_ok();
        is_vxlan.then(|| rest(data, vxlan::HEADER_LEN))
    }
}

impl Ip {
    #[inline]
    fn parse_v4(frame: &[u8], offset: usize) -> Result<Ip, ParseError> {
        let packet = ipv4::Packet::new_truncated(rest(frame, offset))?;
        let end = offset + usize::from(packet.total_len());
        let ip = Ip {
            kind: LayerKind::Ipv4,
            offset,
            payload_offset: offset + packet.header_len(),
            end: end.min(frame.len()),
            protocol: packet.protocol(),
            is_truncated: end > frame.len(),
            is_fragment: packet.is_fragment(),
            is_routed: false,
            transport: None,
        };
        ip.with_transport(frame)
    }

    #[inline]
    fn parse_v6(frame: &[u8], offset: usize) -> Result<Ip, ParseError> {
        let packet = ipv6::Packet::new_truncated(rest(frame, offset))?;
        let upper = packet.upper_layer()?;
        let end = offset + packet.total_len();
        let ip = Ip {
            kind: LayerKind::Ipv6,
            offset,
            payload_offset: offset + ipv6::HEADER_LEN + upper.offset,
            end: end.min(frame.len()),
            protocol: upper.protocol,
            is_truncated: end > frame.len(),
            is_fragment: upper.is_fragment,
            is_routed: upper.is_routed,
            transport: None,
        };
        ip.with_transport(frame)
    }

    #[inline]
    fn with_transport(mut self, frame: &[u8]) -> Result<Ip, ParseError> {
        let data = cut(frame, self.payload_offset, self.end);
        if self.is_fragment {
            return Ok(self);
        }
        let (kind, header_len, len) = match (self.protocol, self.kind) {
            (Protocol::UDP, _) => (LayerKind::Udp, udp::HEADER_LEN, self.udp_len(data)?),
            (Protocol::TCP, _) => (LayerKind::Tcp, tcp::Packet::new_checked(data)?.header_len(), data.len()),
            (Protocol::ICMPV4, LayerKind::Ipv4) => {
                icmpv4::Packet::new_checked(data)?;
                (LayerKind::Icmpv4, icmpv4::HEADER_LEN, data.len())
            }
            (Protocol::ICMPV6, LayerKind::Ipv6) => {
                icmpv6::Packet::new_checked(data)?;
                (LayerKind::Icmpv6, icmpv6::HEADER_LEN, data.len())
            }
            _ => return Ok(self),
        };
        let offset = self.payload_offset;
        self.transport = Some(Transport { kind, offset, payload_offset: offset + header_len, end: offset + len });
        Ok(self)
    }

    /// The length of the datagram at the start of `data`, as far as it is there.
    #[inline]
    fn udp_len(&self, data: &[u8]) -> Result<usize, ParseError> {
        let datagram = match self.is_truncated {
            true => udp::Packet::new_truncated(data)?,
            false => udp::Packet::new_checked(data)?,
        };
        Ok(usize::from(datagram.length()).min(data.len()))
    }
}

#[inline]
fn rest(bytes: &[u8], offset: usize) -> &[u8] {
    cut(bytes, offset, bytes.len())
}

/// Counts the labels at the start of `bytes` and tells what is behind them: IP, or still
/// `ethertype`.
fn skip_labels(bytes: &[u8], ethertype: EtherType) -> Result<(usize, EtherType), ParseError> {
    let mut labels = 0;
    loop {
        let entry = mpls::Packet::new_checked(rest(bytes, labels * mpls::HEADER_LEN))?;
        labels += 1;
        if entry.bottom() {
            let behind = match entry.payload().first().map(|byte| byte >> 4) {
                Some(4) => EtherType::IPV4,
                Some(6) => EtherType::IPV6,
                _ => ethertype,
            };
            return Ok((labels, behind));
        }
    }
}
