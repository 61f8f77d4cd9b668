//! [`Headers`]: where the headers of a packet are, found in one pass.

use linerate_wire::ipv6::ExtensionHeaders;
use linerate_wire::{EtherType, Protocol, arp, ethernet, ipv4, ipv6, mpls, tcp, udp, vlan};

use super::read::{array, be16, byte};
use super::{exthdr, shape};

/// The I-TAG behind its EtherType: priority, flags and service ID; then the customer's addresses and EtherType.
pub const ITAG_LEN: usize = 4;
/// SCTP's header without chunks (RFC 9260 section 3).
pub const SCTP_LEN: usize = 12;
/// What an ICMP or ICMPv6 packet has at least: type, code, checksum.
const ICMP_LEN: usize = 4;
/// A neighbour solicitation or advertisement without options (RFC 4861 section 4.3 and 4.4).
const ND_LEN: usize = 24;
/// How ARP for IPv4 over Ethernet begins.
const ARP_START: [u8; 6] = [0, 1, 8, 0, 6, 4];
/// Tags, extension headers and options that a packet's parser goes over at most, so that a hostile packet costs little. What lies behind
/// is not seen.
const TAGS_MAX: usize = 8;
/// Where the EtherType behind so many tags is.
pub const TAGS_END: usize = 12 + TAGS_MAX * vlan::HEADER_LEN;
const EXTENSIONS_MAX: usize = 12;
const OPTIONS_MAX: usize = 12;

/// If a packet is a part of a larger one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// It is whole.
    #[default]
    Whole,
    /// It has the start, with the header of the upper layer.
    First,
    /// It has a later part, without that header.
    Later,
}

/// Where the headers of a packet are, in bytes from its start.
///
/// A header counts as present if its fixed part lies in the bytes and has the right version and lengths. Header actions keep this up to
/// date. Headers that an MPLS or PBB header was pushed in front of stay known to actions, but are no longer part of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// The headers that actions reach: bits of [`shape`].
    pub(super) shape: u32,
    /// Those of them that a match sees. An MPLS or PBB header that was pushed hides what is behind it.
    pub(super) visible: u32,
    pub(super) fragment: Fragment,
    /// Protocol of IPv4, or what comes behind the extension headers of IPv6 that were gone over.
    pub(super) protocol: u8,
    /// An IPv6 routing header has segments left, so the pseudo-header has another destination.
    pub(super) is_routed: bool,
    pub(super) is_truncated: bool,
    /// Where the EtherType is that counts: behind all tags. 0 for a runt.
    pub(super) ethertype_at: u16,
    /// Where the outermost MPLS label stack entry is that the shape says there is one.
    pub(super) label: u16,
    /// Where the outermost I-TAG is that the shape says there is one.
    pub(super) itag: u16,
    /// Where the header of ARP, IPv4 or IPv6 is.
    pub(super) network: u16,
    /// Where the protocol number of the upper layer is.
    pub(super) protocol_at: u16,
    /// Where the header of the upper layer is; set wherever there is one, also if it is none of the known.
    pub(super) transport: u16,
    /// Bits of IPv6 extension headers.
    pub(super) exthdr: u16,
    /// Where the link-layer address of neighbour discovery is that the shape says there is one.
    pub(super) nd_address: u16,
}

impl Headers {
    /// Where the IP or ARP header begins, in bytes.
    pub fn network_offset(&self) -> usize {
        usize::from(self.network)
    }

    /// Finds the headers of a packet in the bytes of its first frame.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Headers {
        let mut headers = Headers::default();
        if bytes.len() < ethernet::HEADER_LEN {
            return headers;
        }
        let mut at = 12;
        let mut ethertype = be16(bytes, at);
        while is_tag(ethertype) {
            let behind = at + vlan::HEADER_LEN;
            if behind + 2 > bytes.len() || behind > TAGS_END {
                break;
            }
            at = behind;
            ethertype = be16(bytes, at);
        }
        headers.ethertype_at = at as u16;
        match EtherType(ethertype) {
            EtherType::IPV4 => headers.ipv4(bytes, at + 2),
            EtherType::IPV6 => headers.ipv6(bytes, at + 2),
            _ => headers.others(bytes, at + 2, ethertype),
        }
        headers.visible = headers.shape;
        headers
    }

    /// True if the packet is too short for an Ethernet header. Such a packet must not be looked up: it has no fields.
    #[inline]
    pub fn is_runt(&self) -> bool {
        self.ethertype_at == 0
    }

    /// If the packet is a part of a larger one. Only packets of IP say so that are not behind an MPLS or PBB header.
    #[inline]
    pub fn fragment(&self) -> Fragment {
        self.fragment
    }

    /// True if a header began in the bytes and did not end there. If the packet goes on in another frame, its headers are cut.
    #[inline]
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    #[inline]
    pub(super) fn has(&self, any_of: u32) -> bool {
        self.shape & any_of != 0
    }

    /// Where the first header behind the EtherType is.
    #[inline]
    pub(super) fn payload(&self) -> usize {
        usize::from(self.ethertype_at) + 2
    }

    /// Notes that all headers behind the addresses moved by `bytes`, because something was put in front of them or taken away.
    #[inline]
    pub(super) fn shift(&mut self, bytes: i16) {
        let places = [
            &mut self.label,
            &mut self.itag,
            &mut self.network,
            &mut self.protocol_at,
            &mut self.transport,
            &mut self.nd_address,
        ];
        places.into_iter().for_each(|place| *place = place.wrapping_add_signed(bytes));
    }

    /// The headers of the IPv4 or IPv6 packet at `at` behind an MPLS header, which does not name it: the version tells.
    pub(super) fn of_ip(bytes: &[u8], at: usize) -> Headers {
        let mut headers = Headers::default();
        match byte(bytes, at) >> 4 {
            4 => headers.ipv4(bytes, at),
            6 => headers.ipv6(bytes, at),
            _ => {}
        }
        headers
    }

    fn others(&mut self, bytes: &[u8], at: usize, ethertype: u16) {
        let ethertype = EtherType(ethertype);
        let (need, found) = match ethertype {
            _ if ethertype.is_mpls() => (mpls::HEADER_LEN, shape::MPLS),
            EtherType::PBB => (ITAG_LEN + ethernet::HEADER_LEN, shape::PBB),
            EtherType::ARP => (arp::HEADER_LEN, shape::ARP),
            _ => {
                // More tags than are gone over, or one that is cut.
                self.is_truncated = is_tag(ethertype.0) && at + 4 > bytes.len();
                return;
            }
        };
        if at + need > bytes.len() {
            self.is_truncated = true;
            return;
        }
        match found {
            shape::ARP if array(bytes, at) != Some(&ARP_START) => return,
            shape::MPLS => self.label = at as u16,
            shape::PBB => self.itag = at as u16,
            _ => self.network = at as u16,
        }
        self.shape = found;
    }

    #[inline]
    fn ipv4(&mut self, bytes: &[u8], at: usize) {
        let Some(header) = array::<{ ipv4::HEADER_LEN }>(bytes, at) else {
            self.is_truncated = true;
            return;
        };
        let header_len = usize::from(header[0].wrapping_sub(0x40)) * 4;
        let total_len = usize::from(be16(header, 2));
        // A version other than 4 makes the length too large or too small.
        if !(20..=60).contains(&header_len) || total_len < header_len {
            return;
        }
        if at + header_len > bytes.len() {
            self.is_truncated = true;
            return;
        }
        self.shape = shape::IP | shape::IPV4;
        self.network = at as u16;
        self.protocol = header[9];
        self.protocol_at = (at + 9) as u16;
        self.transport = (at + header_len) as u16;
        let fragment = be16(header, 6) & 0x3fff;
        if fragment != 0 {
            self.fragment = if fragment & 0x1fff == 0 { Fragment::First } else { Fragment::Later };
        }
        if self.fragment != Fragment::Later {
            self.upper_layer(bytes, (at + total_len).min(bytes.len()));
        }
    }

    #[inline]
    fn ipv6(&mut self, bytes: &[u8], at: usize) {
        let Some(header) = array::<{ ipv6::HEADER_LEN }>(bytes, at) else {
            self.is_truncated = true;
            return;
        };
        if header[0] >> 4 != 6 {
            return;
        }
        self.shape = shape::IP | shape::IPV6;
        self.network = at as u16;
        self.protocol = header[6];
        self.protocol_at = (at + 6) as u16;
        self.transport = (at + ipv6::HEADER_LEN) as u16;
        let end = (at + ipv6::HEADER_LEN + usize::from(be16(header, 4))).min(bytes.len());
        if !matches!(Protocol(self.protocol), Protocol::TCP | Protocol::UDP | Protocol::ICMPV6) {
            self.extensions(bytes, at + ipv6::HEADER_LEN, end);
        }
        if self.fragment != Fragment::Later {
            self.upper_layer(bytes, end);
        }
    }

    #[cold]
    fn extensions(&mut self, bytes: &[u8], start: usize, end: usize) {
        let mut walk = ExtensionHeaders::new(Protocol(self.protocol), bytes.get(start..end).unwrap_or(&[]));
        let mut seen = exthdr::Seen::default();
        for header in (&mut walk).take(EXTENSIONS_MAX) {
            let Ok(header) = header else {
                self.is_truncated = end == bytes.len();
                break;
            };
            seen.note(header.protocol);
            if let Some((offset, more)) = header.fragment() {
                self.fragment = match (offset, more) {
                    (0, false) => self.fragment,
                    (0, true) => Fragment::First,
                    _ => Fragment::Later,
                };
            }
            self.is_routed |= header.is_routed();
            self.protocol_at = (start + header.offset) as u16;
        }
        if self.fragment != Fragment::Later {
            seen.note(walk.protocol());
        }
        self.exthdr = seen.bits();
        self.protocol = walk.protocol().0;
        self.transport = (start + walk.offset()) as u16;
    }

    /// Looks at the header of the upper layer, whose bytes end at `end`.
    #[inline]
    fn upper_layer(&mut self, bytes: &[u8], end: usize) {
        let (need, found) = match Protocol(self.protocol) {
            Protocol::TCP => (tcp::HEADER_LEN, shape::TCP),
            Protocol::UDP => (udp::HEADER_LEN, shape::UDP),
            Protocol::ICMPV4 if self.has(shape::IPV4) => (ICMP_LEN, shape::ICMPV4),
            Protocol::ICMPV6 if self.has(shape::IPV6) => (ICMP_LEN, shape::ICMPV6),
            Protocol::SCTP => (SCTP_LEN, shape::SCTP),
            _ => return,
        };
        let at = usize::from(self.transport);
        self.is_truncated |= at + need > bytes.len();
        if at + need <= end {
            self.shape |= found;
            if found == shape::ICMPV6 {
                self.neighbour_discovery(bytes, at, end);
            }
        }
    }

    fn neighbour_discovery(&mut self, bytes: &[u8], at: usize, end: usize) {
        let (wanted, found) = match byte(bytes, at) {
            135 => (1, shape::ND_SLL),
            136 => (2, shape::ND_TLL),
            _ => return,
        };
        if at + ND_LEN > end {
            self.is_truncated |= end == bytes.len();
            return;
        }
        self.shape |= shape::ND;
        let mut option = at + ND_LEN;
        for _ in 0..OPTIONS_MAX {
            let len = usize::from(byte(bytes, option + 1)) * 8;
            if len == 0 || option + len > end {
                self.is_truncated |= option < end && end == bytes.len();
                return;
            }
            if byte(bytes, option) == wanted {
                self.shape |= found;
                self.nd_address = (option + 2) as u16;
                return;
            }
            option += len;
        }
    }
}

/// True for the EtherTypes of VLAN tags that OpenFlow knows: 802.1Q and 802.1ad.
#[inline(always)]
pub fn is_tag(ethertype: u16) -> bool {
    matches!(EtherType(ethertype), EtherType::VLAN | EtherType::QINQ)
}
