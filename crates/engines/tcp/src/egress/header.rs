//! The headers of a segment that leaves.

use linerate_wire::Sum;

use crate::Seq;
use crate::tuple::Tuple;

/// A segment that leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) seq: Seq,
    pub(crate) ack: Seq,
    /// Flags of the header, as bits.
    pub(crate) flags: u8,
    /// As it stands in the header.
    pub(crate) window: u16,
    pub(crate) options: Options,
    pub(crate) data: &'a [u8],
    /// ECN bits of the IP header.
    pub(crate) ecn: u8,
}

/// Option bytes, in whole words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    bytes: [u8; 40],
    len: u8,
}

impl Options {
    pub(crate) const NONE: Options = Options { bytes: [1; 40], len: 0 };

    /// Timestamps alone, as nearly all segments have them.
    #[inline]
    pub(crate) fn timestamps(value: u32, echo: u32) -> Options {
        let mut options = Options::NONE;
        options.push_timestamps(value, echo);
        options
    }

    /// NOP, NOP, timestamps.
    #[inline]
    pub(crate) fn push_timestamps(&mut self, value: u32, echo: u32) {
        let ([a, b, c, d], [e, f, g, h]) = (value.to_be_bytes(), echo.to_be_bytes());
        self.push(&[1, 1, 8, 10, a, b, c, d, e, f, g, h]);
    }

    /// Appends bytes as far as they fit.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let start = usize::from(self.len);
        if let Some(place) = self.bytes.get_mut(start..start + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len() as u8;
        }
    }

    /// Appends SACK blocks as far as they fit.
    pub(crate) fn push_sacks(&mut self, blocks: &[(Seq, Seq)]) {
        let count = blocks.len().min(self.sacks_max());
        if count == 0 {
            return;
        }
        self.push(&[1, 1, 5, 2 + 8 * count as u8]);
        for (left, right) in &blocks[..count] {
            self.push(&left.0.to_be_bytes());
            self.push(&right.0.to_be_bytes());
        }
    }

    /// SACK blocks that fit.
    pub(crate) fn sacks_max(&self) -> usize {
        (40 - usize::from(self.len)).saturating_sub(4) / 8
    }

    /// Bytes, in whole words.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }
}

const TTL: u8 = 64;
const TCP: u8 = 6;

/// Writes link header, IP header, TCP header and data to the start of `frame`, and returns their length. Data are cut to what the frame
/// has room for.
#[inline]
pub(super) fn write(frame: &mut [u8], link: &[u8], tuple: &Tuple, segment: &Segment<'_>, partial: bool) -> usize {
    let header_len = 20 + segment.options.len();
    let network_len = if tuple.v6 { 40 } else { 20 };
    let room = frame.len().saturating_sub(link.len() + network_len + header_len);
    let data = &segment.data[..segment.data.len().min(room)];
    let tcp_len = header_len + data.len();
    let (link_place, rest) = frame.split_at_mut(link.len());
    link_place.copy_from_slice(link);
    let (network, rest) = rest.split_at_mut(network_len);
    if tuple.v6 {
        write_v6(network, tuple, tcp_len, segment.ecn);
    } else {
        write_v4(network, tuple, tcp_len, segment.ecn);
    }
    let tcp = &mut rest[..tcp_len];
    let pseudo = tuple.pseudo_sum(tcp_len);
    write_tcp(tcp, tuple, segment, pseudo, data);
    if !partial {
        let checksum = Sum::new().add_slice(tcp).finish();
        tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    }
    link.len() + network_len + tcp_len
}

#[inline]
fn write_v4(place: &mut [u8], tuple: &Tuple, tcp_len: usize, ecn: u8) {
    let Some(place) = place.first_chunk_mut::<20>() else { return };
    let (local, remote) = (tuple.local as u32, tuple.remote as u32);
    let first = 0x4500_0000 | u32::from(ecn) << 16 | (20 + tcp_len as u32);
    let third = u32::from(TTL) << 24 | u32::from(TCP) << 16;
    // Identification 0, because a datagram that may not be fragmented needs none (RFC 6864).
    let sum = Sum::new().add_u32(first).add_u32(0x4000).add_u32(third).add_u32(local).add_u32(remote);
    let third = third | u32::from(sum.finish());
    let words = [first, 0x4000, third, local, remote];
    for (chunk, word) in place.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *chunk = word.to_be_bytes();
    }
}

fn write_v6(place: &mut [u8], tuple: &Tuple, tcp_len: usize, ecn: u8) {
    let Some(place) = place.first_chunk_mut::<40>() else { return };
    let first = 0x6000_0000 | u32::from(ecn) << 20;
    place[..4].copy_from_slice(&first.to_be_bytes());
    place[4..6].copy_from_slice(&(tcp_len as u16).to_be_bytes());
    place[6..8].copy_from_slice(&[TCP, TTL]);
    place[8..24].copy_from_slice(&tuple.local.to_be_bytes());
    place[24..].copy_from_slice(&tuple.remote.to_be_bytes());
}

/// The checksum field holds the sum of the pseudo-header afterwards.
#[inline]
fn write_tcp(place: &mut [u8], tuple: &Tuple, segment: &Segment<'_>, pseudo: Sum, data: &[u8]) {
    let header_len = 20 + segment.options.len();
    let (header, body) = place.split_at_mut(header_len);
    let Some((fixed, options)) = header.split_first_chunk_mut::<20>() else { return };
    let offset_and_flags = (header_len as u32 / 4) << 28 | u32::from(segment.flags) << 16 | u32::from(segment.window);
    let words = [tuple.ports(), segment.seq.0, segment.ack.0, offset_and_flags, u32::from(pseudo.fold()) << 16];
    for (chunk, word) in fixed.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *chunk = word.to_be_bytes();
    }
    if let Some(place) = options.first_chunk_mut::<12>().filter(|_| segment.options.len == 12)
        && let Some(bytes) = segment.options.bytes.first_chunk::<12>()
    {
        *place = *bytes;
    } else {
        options.copy_from_slice(&segment.options.bytes[..options.len()]);
    }
    if let [byte] = data {
        body[0] = *byte;
    } else {
        body.copy_from_slice(data);
    }
}
