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
        let (payload_offset, protocol) = (offset + packet.header_len(), packet.protocol());
        let whole_end = offset + usize::from(packet.total_len());
        let (end, is_truncated, is_fragment) =
            (whole_end.min(frame.len()), whole_end > frame.len(), packet.is_fragment());
        let data = cut(frame, payload_offset, end);
        let transport = match protocol {
            _ if is_fragment => None,
            Protocol::UDP => Some(Transport::udp(data, payload_offset, is_truncated)?),
            Protocol::TCP => Some(Transport::tcp(data, payload_offset)?),
            Protocol::ICMPV4 => Some(Transport::icmpv4(data, payload_offset)?),
            _ => None,
        };
        let (kind, is_routed) = (LayerKind::Ipv4, false);
        Ok(Ip { kind, offset, payload_offset, end, protocol, is_truncated, is_fragment, is_routed, transport })
    }

    #[inline]
    fn parse_v6(frame: &[u8], offset: usize) -> Result<Ip, ParseError> {
        let packet = ipv6::Packet::new_truncated(rest(frame, offset))?;
        let ipv6::UpperLayer { protocol, offset: upper_offset, is_fragment, is_routed, .. } = packet.upper_layer()?;
        let payload_offset = offset + ipv6::HEADER_LEN + upper_offset;
        let whole_end = offset + packet.total_len();
        let (end, is_truncated) = (whole_end.min(frame.len()), whole_end > frame.len());
        let data = cut(frame, payload_offset, end);
        let transport = match protocol {
            _ if is_fragment => None,
            Protocol::UDP => Some(Transport::udp(data, payload_offset, is_truncated)?),
            Protocol::TCP => Some(Transport::tcp(data, payload_offset)?),
            Protocol::ICMPV6 => Some(Transport::icmpv6(data, payload_offset)?),
            _ => None,
        };
        let kind = LayerKind::Ipv6;
        Ok(Ip { kind, offset, payload_offset, end, protocol, is_truncated, is_fragment, is_routed, transport })
    }
}

/// Each takes the data of IP, which starts at `offset` of the frame.
impl Transport {
    #[inline]
    fn udp(data: &[u8], offset: usize, is_truncated: bool) -> Result<Transport, ParseError> {
        let datagram = udp::Packet::new_truncated(data)?;
        let length = usize::from(datagram.length());
        if !is_truncated {
            ParseError::check_len(LayerKind::Udp, length, data.len())?;
        }
        let (payload_offset, end) = (offset + udp::HEADER_LEN, offset + length.min(data.len()));
        Ok(Transport { kind: LayerKind::Udp, offset, payload_offset, end })
    }

    #[inline]
    fn tcp(data: &[u8], offset: usize) -> Result<Transport, ParseError> {
        let header_len = tcp::Packet::new_checked(data)?.header_len();
        Ok(Transport { kind: LayerKind::Tcp, offset, payload_offset: offset + header_len, end: offset + data.len() })
    }

    #[inline]
    fn icmpv4(data: &[u8], offset: usize) -> Result<Transport, ParseError> {
        icmpv4::Packet::new_checked(data)?;
        let (payload_offset, end) = (offset + icmpv4::HEADER_LEN, offset + data.len());
        Ok(Transport { kind: LayerKind::Icmpv4, offset, payload_offset, end })
    }

    #[inline]
    fn icmpv6(data: &[u8], offset: usize) -> Result<Transport, ParseError> {
        icmpv6::Packet::new_checked(data)?;
        let (payload_offset, end) = (offset + icmpv6::HEADER_LEN, offset + data.len());
        Ok(Transport { kind: LayerKind::Icmpv6, offset, payload_offset, end })
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
