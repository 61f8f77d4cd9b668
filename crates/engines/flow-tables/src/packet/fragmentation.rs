//! Cuts IP packets into fragments (RFC 791 section 3.2, RFC 8200 section 4.5): those that were put together for a look at them and are
//! longer than their egress port takes.

use linerate_wire::ipv6::ExtensionHeaders;
use linerate_wire::{Protocol, ipv4, ipv6};

use super::headers::Headers;
use super::read::put;
use super::{Fragment, shape};

/// Bytes of the fragment header of IPv6.
const FRAGMENT_HEADER_LEN: usize = 8;
/// Options of IPv4 whose type has this bit are in every fragment.
const COPIED: u8 = 0x80;
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;

/// Cuts `packet`, whose headers are `headers`, into fragments of at most `len_max` bytes, Ethernet header included, makes each of them
/// in `made` and gives it to `take`. `identification` is the fragments' own if they are of IPv6; IPv4 packets have one. Returns false,
/// and nothing has happened, if the packet is no whole IP packet, must not be cut, or `len_max` has no room for 8 bytes of data.
pub fn cut_into_fragments(
    packet: &[u8],
    headers: &Headers,
    len_max: usize,
    identification: u32,
    made: &mut Vec<u8>,
    mut take: impl FnMut(&[u8]),
) -> bool {
    let Some(cut) = Cut::find(packet, headers) else { return false };
    let room = len_max.saturating_sub(cut.data_at + cut.header_len()) & !7;
    if room == 0 {
        return false;
    }
    let data = &packet[cut.data_at..cut.end];
    let mut offset = 0;
    while offset < data.len() {
        let end = data.len().min(offset + room);
        made.clear();
        made.extend_from_slice(&packet[..cut.data_at]);
        cut.finish(made, offset, &data[offset..end], end < data.len(), identification);
        take(made);
        offset = end;
    }
    true
}

/// Where a packet can be cut.
struct Cut {
    network: usize,
    /// Where the data begin that are divided.
    data_at: usize,
    /// Where they end.
    end: usize,
    /// Of IPv6: where the number of the first divided header stands.
    next_header_at: Option<usize>,
}

impl Cut {
    fn find(packet: &[u8], headers: &Headers) -> Option<Cut> {
        let network = usize::from(headers.network);
        if headers.fragment() != Fragment::Whole {
            return None;
        }
        if headers.has(shape::IPV4) {
            let ip = ipv4::Packet::new_checked(packet.get(network..)?).ok()?;
            let (data_at, end) = (network + ip.header_len(), network + usize::from(ip.total_len()));
            let cut = Cut { network, data_at, end, next_header_at: None };
            return (!ip.dont_fragment() && end <= packet.len()).then_some(cut);
        }
        if !headers.has(shape::IPV6) {
            return None;
        }
        let ip = ipv6::Packet::new_checked(packet.get(network..)?).ok()?;
        let end = network + ipv6::HEADER_LEN + usize::from(ip.payload_len());
        let start = network + ipv6::HEADER_LEN;
        let mut cut =
            Cut { network, data_at: start, end, next_header_at: Some(network + ipv6::field::NEXT_HEADER.start) };
        // Headers that routers look at stand in front of the fragment header, with all before them.
        for header in ExtensionHeaders::new(ip.next_header(), packet.get(start..end)?) {
            let header = header.ok()?;
            if matches!(header.protocol, Protocol::HOP_BY_HOP | Protocol::ROUTING) {
                cut.next_header_at = Some(start + header.offset);
                cut.data_at = start + header.offset + header.bytes.len();
            }
        }
        Some(cut)
    }

    /// Bytes that a fragment has in front of its data, beside those that the packet has.
    fn header_len(&self) -> usize {
        if self.next_header_at.is_some() { FRAGMENT_HEADER_LEN } else { 0 }
    }

    /// Makes the headers of the packet, which are in `made`, those of a fragment, and appends its data.
    fn finish(&self, made: &mut Vec<u8>, offset: usize, data: &[u8], more: bool, identification: u32) {
        match self.next_header_at {
            None => {
                made.extend_from_slice(data);
                let ip = &mut made[self.network..];
                let len = ip.len();
                if offset > 0 {
                    forget_options(&mut ip[ipv4::HEADER_LEN..len - data.len()]);
                }
                let mut header = ipv4::Packet::new_unchecked(ip);
                header.set_total_len(len as u16);
                header.set_fragment(false, more, (offset / 8) as u16);
                header.fill_checksum();
            }
            Some(next_header_at) => {
                let next = std::mem::replace(&mut made[next_header_at], Protocol::FRAGMENT.0);
                let place = (offset as u16 | u16::from(more)).to_be_bytes();
                made.extend_from_slice(&[next, 0, place[0], place[1]]);
                made.extend_from_slice(&identification.to_be_bytes());
                made.extend_from_slice(data);
                let len = made.len() - self.network - ipv6::HEADER_LEN;
                put(made, self.network + 4, (len as u16).to_be_bytes());
            }
        }
    }
}

/// Overwrites the options that only the first fragment has.
fn forget_options(options: &mut [u8]) {
    let mut at = 0;
    while let Some(kind) = options.get(at).copied() {
        let len = match kind {
            END_OF_OPTIONS => return,
            NO_OPERATION => 1,
            _ => options.get(at + 1).map_or(1, |len| usize::from(*len).max(2)),
        };
        let end = options.len().min(at + len);
        if kind & COPIED == 0 {
            options[at..end].fill(NO_OPERATION);
        }
        at = end;
    }
}
