//! The extension headers of IPv6 (RFC 8200 section 4) between the fixed header and the upper layer.

use crate::bytes::{be16, cut};
use crate::{LayerKind, ParseError, Protocol};

/// Length of the fixed header in front, which errors count too.
const FIXED_LEN: usize = 40;

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtensionHeader<'a> {
    /// Its number, as the header before it gives it.
    pub protocol: Protocol,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Where it starts, in bytes from the end of the fixed header.
    pub offset: usize,
}

impl ExtensionHeader<'_> {
    /// Fragment offset in units of 8 bytes and the more-fragments flag, of a fragment header.
    #[inline]
    pub fn fragment(&self) -> Option<(u16, bool)> {
        let field = (self.protocol == Protocol::FRAGMENT).then(|| be16(self.bytes, 2..4))?;
        Some((field >> 3, field & 1 != 0))
    }

    /// True for a routing header with segments left.
    #[inline]
    pub fn is_routed(&self) -> bool {
        self.protocol == Protocol::ROUTING && self.bytes[3] != 0
    }
}

/// Walks over the extension headers of a packet. The walk ends at the upper layer, at a header that cannot be passed (ESP, no
/// next header), and behind the fragment header of a later fragment, whose data belong to some header that began elsewhere.
#[derive(Clone, Debug)]
pub struct ExtensionHeaders<'a> {
    payload: &'a [u8],
    protocol: Protocol,
    offset: usize,
    is_over: bool,
}

impl<'a> ExtensionHeaders<'a> {
    /// A walk from `next_header` over `payload`, which starts behind the fixed header.
    #[inline]
    pub fn new(next_header: Protocol, payload: &'a [u8]) -> ExtensionHeaders<'a> {
        ExtensionHeaders { payload, protocol: next_header, offset: 0, is_over: false }
    }

    /// The number of what comes next.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Where it starts, in bytes from the end of the fixed header.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The length of the header that comes next; `None` if it is no extension header that can be passed.
    fn next_len(&self, start: [u8; 8]) -> Option<usize> {
        let len_field = usize::from(start[1]);
        match self.protocol {
            Protocol::HOP_BY_HOP | Protocol::DESTINATION_OPTIONS | Protocol::ROUTING => Some((len_field + 1) * 8),
            Protocol::FRAGMENT => Some(8),
            Protocol::AUTHENTICATION => Some((len_field + 2) * 4),
            _ => None,
        }
    }
}

impl<'a> Iterator for ExtensionHeaders<'a> {
    type Item = Result<ExtensionHeader<'a>, ParseError>;

    /// The next header; after an error (`Truncated`) there is none.
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        // Every step moves the offset on by at least 8 bytes, so the walk ends.
        let rest = cut(self.payload, self.offset, self.payload.len());
        let start = rest.first_chunk::<8>().copied();
        let need = self.next_len(start.unwrap_or_default())?.max(8);
        let (Some(start), Some(bytes)) = (start, rest.get(..need)) else {
            self.is_over = true;
            let have = FIXED_LEN + self.payload.len();
            let fits = ParseError::check_len(LayerKind::Ipv6, FIXED_LEN + self.offset + need, have);
            return fits.err().map(Err);
        };
        let header = ExtensionHeader { protocol: self.protocol, bytes, offset: self.offset };
        self.is_over = header.fragment().is_some_and(|(offset, _)| offset != 0);
        self.protocol = Protocol(start[0]);
        self.offset += need;
        Some(Ok(header))
    }
}

/// What lies behind the extension headers of an IPv6 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// Its protocol; also a header that the walk does not know or cannot pass (ESP).
    pub protocol: Protocol,
    /// Where it starts, in bytes from the end of the fixed header.
    pub offset: usize,
    /// Whether there is a fragment header that says this is a part (RFC 6946's atomic fragments are
    /// whole).
    pub is_fragment: bool,
    /// Whether the packet is in a fragment that does not start with the upper-layer header.
    pub is_later_fragment: bool,
    /// Whether a routing header has segments left, so that the destination is not the one of the
    /// pseudo-header.
    pub is_routed: bool,
}

impl UpperLayer {
    pub(crate) fn find(mut headers: ExtensionHeaders<'_>) -> Result<UpperLayer, ParseError> {
        let (mut is_fragment, mut is_later_fragment, mut is_routed) = (false, false, false);
        for header in &mut headers {
            let header = header?;
            if let Some((offset, more)) = header.fragment() {
                is_fragment |= offset != 0 || more;
                is_later_fragment = offset != 0;
            }
            is_routed |= header.is_routed();
        }
        let (protocol, offset) = (headers.protocol(), headers.offset());
        Ok(UpperLayer { protocol, offset, is_fragment, is_later_fragment, is_routed })
    }
}
