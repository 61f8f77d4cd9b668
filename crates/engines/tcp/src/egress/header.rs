//! The headers of a segment that leaves.

use linerate_wire::Sum;

use crate::tuple::Tuple;
use crate::{Seq, Tcb};

/// A segment that leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) seq: Seq,
    pub(crate) ack: Seq,
    /// Flags of the header, as bits.
    pub(crate) flags: u8,
    /// As it stands in the header.
    pub(crate) window: u16,
    /// TSval and TSecr, which stand before all other options.
    pub(crate) timestamps: Option<(u32, u32)>,
    /// The other options, in whole words.
    pub(crate) options: &'a [u8],
    pub(crate) data: &'a [u8],
    /// Traffic class of the IP header: DSCP and ECN bits.
    pub(crate) traffic_class: u8,
    /// Time to live, hop limit.
    pub(crate) hop_limit: u8,
    /// Urgent pointer, with the flag URG.
    pub(crate) urgent: u16,
}

impl Segment<'_> {
    /// Nothing, to take the rest of the fields from.
    pub(crate) const EMPTY: Segment<'static> = Segment {
        seq: Seq(0),
        ack: Seq(0),
        flags: 0,
        window: 0,
        timestamps: None,
        options: &[],
        data: &[],
        traffic_class: 0,
        hop_limit: HOP_LIMIT,
        urgent: 0,
    };

    /// Bytes of the TCP header.
    #[inline]
    fn header_len(&self) -> usize {
        20 + if self.timestamps.is_some() { TIMESTAMPS_LEN } else { 0 } + self.options.len()
    }
}

/// NOP, NOP, timestamps.
const TIMESTAMPS_LEN: usize = 12;
const TIMESTAMPS_HEAD: u32 = 0x0101_080a;
/// Most bytes of options.
const OPTIONS_MAX: usize = 40;

/// Option bytes beside the timestamps, in whole words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    bytes: [u8; OPTIONS_MAX],
    len: u8,
}

impl Options {
    pub(crate) const NONE: Options = Options { bytes: [1; OPTIONS_MAX], len: 0 };

    /// Options of these words.
    #[inline]
    pub(crate) fn of<const WORDS: usize>(words: [u32; WORDS]) -> Options {
        const { assert!(4 * WORDS <= OPTIONS_MAX) };
        let mut options = Options { bytes: [0; OPTIONS_MAX], len: 4 * WORDS as u8 };
        for (place, word) in options.bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        options
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

    /// Appends SACK blocks as far as they fit beside the timestamps.
    pub(crate) fn push_sacks(&mut self, blocks: &[(Seq, Seq)]) {
        let count = blocks.len();
        self.push(&[1, 1, 5, 2 + 8 * count as u8]);
        for (left, right) in blocks {
            self.push(&left.0.to_be_bytes());
            self.push(&right.0.to_be_bytes());
        }
    }

    /// SACK blocks that fit beside the timestamps, if these are sent.
    pub(crate) fn sacks_max(timestamps: bool) -> usize {
        (OPTIONS_MAX - 4 - if timestamps { TIMESTAMPS_LEN } else { 0 }) / 8
    }

    /// The bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Time to live and hop limit, unless the program sets another.
const HOP_LIMIT: u8 = 64;
const TCP: u8 = 6;
/// The second word of the IP header. Identification 0, because a datagram that may not be fragmented needs none (RFC 6864).
const DONT_FRAGMENT: u32 = 0x4000;

/// Writes link header, IP header, TCP header and data to the start of `frame`, and returns their length; 0 if they do not fit.
pub(super) fn write(frame: &mut [u8], link: &[u8], tuple: &Tuple, segment: &Segment<'_>, partial: bool) -> usize {
    if !tuple.v6 {
        let ends = Ends { local: tuple.local as u32, remote: tuple.remote as u32, ports: tuple.ports() };
        return write_v4(frame, link, ends, segment, partial);
    }
    let tcp_len = segment.header_len() + segment.data.len();
    let Some((link_place, rest)) = frame.split_at_mut_checked(link.len()) else { return 0 };
    let Some((network, rest)) = rest.split_first_chunk_mut::<40>() else { return 0 };
    let Some(tcp) = rest.get_mut(..tcp_len) else { return 0 };
    link_place.copy_from_slice(link);
    network[..4].copy_from_slice(&(0x6000_0000 | u32::from(segment.traffic_class) << 20).to_be_bytes());
    network[4..6].copy_from_slice(&(tcp_len as u16).to_be_bytes());
    network[6..8].copy_from_slice(&[TCP, segment.hop_limit]);
    network[8..24].copy_from_slice(&tuple.local.to_be_bytes());
    network[24..].copy_from_slice(&tuple.remote.to_be_bytes());
    let fixed = fixed_words(tuple.ports(), segment, tuple.pseudo_sum(tcp_len).fold());
    write_tcp(tcp, fixed, segment, partial);
    link.len() + 40 + tcp_len
}

/// Both ends of an IPv4 connection; the local port in the upper half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) local: u32,
    pub(crate) remote: u32,
    pub(crate) ports: u32,
}

/// As [`write`], over IPv4.
#[inline]
pub(super) fn write_v4(frame: &mut [u8], link: &[u8], ends: Ends, segment: &Segment<'_>, partial: bool) -> usize {
    let tcp_len = segment.header_len() + segment.data.len();
    let len = link.len() + 20 + tcp_len;
    if len > frame.len() {
        return 0;
    }
    let words = words_v4(ends, segment, tcp_len);
    let (link_place, rest) = frame.split_at_mut(link.len());
    link_place.copy_from_slice(link);
    let Some((network, rest)) = rest.split_first_chunk_mut::<20>() else { return 0 };
    let [a, b, c, d, e, tcp @ ..] = words;
    put(network, [a, b, c, d, e]);
    write_tcp(&mut rest[..tcp_len], tcp, segment, partial);
    len
}

/// A segment of a connection over IPv4 that leaves with the acknowledgment of all that arrived, timestamps for its only options, and the usual IP
/// header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usual<'a> {
    pub(crate) seq: Seq,
    /// Flags of the header, as bits.
    pub(crate) flags: u8,
    /// As it stands in the header.
    pub(crate) window: u16,
    /// TSval.
    pub(crate) value: u32,
    pub(crate) data: &'a [u8],
}

/// As [`write_v4`], for a usual segment of the connection `tcb`, and a link header without a tag, behind which `link` has two more bytes.
#[inline(always)]
pub(super) fn write_usual(frame: &mut [u8], link: &[u8; 16], tcb: &Tcb, segment: &Usual<'_>, partial: bool) -> usize {
    let Some((head, rest)) = frame.split_first_chunk_mut::<66>() else { return 0 };
    let Usual { seq, flags, window, value, data } = *segment;
    let Some(place) = rest.get_mut(..data.len()) else { return 0 };
    let tcp_len = 32 + data.len();
    // The link header as one piece; the words cover its last two bytes.
    if let Some(link_place) = head.first_chunk_mut() {
        *link_place = *link;
    }
    // Both addresses are one word in the block.
    let addresses = u64::from(tcb.local) << 32 | u64::from(tcb.remote);
    if let Some(place) = head[26..].first_chunk_mut() {
        *place = addresses.to_be_bytes();
    }
    let mut put = |at: usize, word: u32| {
        if let Some(place) = head[at..].first_chunk_mut() {
            *place = word.to_be_bytes();
        }
    };
    // What the block holds is read where it is written, so that it takes no register meanwhile.
    let (pseudo, checksum) = sums_v4(addresses, 0, HOP_LIMIT, tcp_len);
    put(14, 0x4500_0000 | (20 + tcp_len as u32));
    put(18, DONT_FRAGMENT);
    put(22, u32::from(HOP_LIMIT) << 24 | u32::from(TCP) << 16 | u32::from(checksum));
    put(34, u32::from(tcb.local_port) << 16 | u32::from(tcb.remote_port));
    put(38, seq.0);
    put(42, tcb.rcv_nxt.0);
    put(46, 0x8000_0000 | u32::from(flags) << 16 | u32::from(window));
    put(50, u32::from(pseudo) << 16);
    put(54, TIMESTAMPS_HEAD);
    put(58, value);
    put(62, tcb.ts_recent);
    // The data last: what the headers need is not kept over a call that copies.
    match (&mut *place, data) {
        ([place], [byte]) => *place = *byte,
        (_, []) => {}
        (place, data) => place.copy_from_slice(data),
    }
    if !partial {
        fill_checksum(&mut frame[34..34 + tcp_len]);
    }
    34 + tcp_len
}

/// As [`write_v4`], for a SYN with these words of options, without data, and a link header as for [`write_usual`].
#[inline]
pub(super) fn write_syn(
    frame: &mut [u8],
    link: &[u8; 16],
    ends: Ends,
    segment: &Segment<'_>,
    options: [u32; 5],
    partial: bool,
) -> usize {
    const LEN: usize = 14 + 20 + 40;
    let Some(place) = frame.first_chunk_mut::<LEN>() else { return 0 };
    // The length of the options counts, and not what they are.
    let segment = Segment { options: &[0; 20], timestamps: None, data: &[], ..*segment };
    let [a, b, c, d, e, f, g, h, i, j] = words_v4(ends, &segment, 40);
    let [k, l, m, n, o] = options;
    // The link header as one piece; the words cover its last two bytes.
    if let Some(link_place) = place.first_chunk_mut() {
        *link_place = *link;
    }
    if let Some(words_place) = place.last_chunk_mut::<60>() {
        put(words_place, [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o]);
    }
    if !partial {
        fill_checksum(&mut place[34..]);
    }
    LEN
}

/// Completes the checksum of a segment whose checksum field holds the sum of the pseudo-header.
#[inline(never)]
fn fill_checksum(tcp: &mut [u8]) {
    let checksum = Sum::new().add_slice(tcp).finish();
    if let Some(place) = tcp.get_mut(16..18) {
        place.copy_from_slice(&checksum.to_be_bytes());
    }
}

/// IP header and fixed part of the TCP header, whose checksum field holds the sum of the pseudo-header.
#[inline]
fn words_v4(ends: Ends, segment: &Segment<'_>, tcp_len: usize) -> [u32; 10] {
    let Segment { traffic_class, hop_limit, .. } = *segment;
    let addresses = u64::from(ends.local) << 32 | u64::from(ends.remote);
    let (pseudo, checksum) = sums_v4(addresses, traffic_class, hop_limit, tcp_len);
    let first = 0x4500_0000 | u32::from(traffic_class) << 16 | (20 + tcp_len as u32);
    let third = u32::from(hop_limit) << 24 | u32::from(TCP) << 16 | u32::from(checksum);
    let [a, b, c, d, e] = fixed_words(ends.ports, segment, pseudo);
    [first, DONT_FRAGMENT, third, ends.local, ends.remote, a, b, c, d, e]
}

/// The sum of the pseudo-header of TCP over IPv4, and the checksum of the IP header. Both have the addresses and the length, so that they differ by what
/// is the same for all usual segments.
#[inline(always)]
fn sums_v4(addresses: u64, traffic_class: u8, hop_limit: u8, tcp_len: usize) -> (u16, u16) {
    let pseudo = Sum::new().add_u64(addresses).add_u64(u64::from(TCP) + tcp_len as u64).fold();
    let rest = 0x4500 + u32::from(traffic_class) + 20 + DONT_FRAGMENT + (u32::from(hop_limit) << 8);
    let sum = u32::from(pseudo) + u32::from(Sum::new().add_u32(rest).fold());
    (pseudo, !((sum & 0xffff) + (sum >> 16)) as u16)
}

/// The fixed part of the TCP header. The checksum field holds the sum of the pseudo-header.
#[inline]
fn fixed_words(ports: u32, segment: &Segment<'_>, pseudo: u16) -> [u32; 5] {
    let offset = (segment.header_len() as u32 / 4) << 28;
    let flags_and_window = u32::from(segment.flags) << 16 | u32::from(segment.window);
    [
        ports,
        segment.seq.0,
        segment.ack.0,
        offset | flags_and_window,
        u32::from(pseudo) << 16 | u32::from(segment.urgent),
    ]
}

/// Writes header and data, which are as long as `place`.
#[inline]
fn write_tcp(place: &mut [u8], fixed: [u32; 5], segment: &Segment<'_>, partial: bool) {
    if let (Some((value, echo)), Some((head, rest))) = (segment.timestamps, place.split_first_chunk_mut::<32>()) {
        let [a, b, c, d, e] = fixed;
        put(head, [a, b, c, d, e, TIMESTAMPS_HEAD, value, echo]);
        write_rest(rest, segment);
    } else if let Some((head, rest)) = place.split_first_chunk_mut::<20>() {
        put(head, fixed);
        write_rest(rest, segment);
    }
    if !partial {
        fill_checksum(place);
    }
}

#[inline]
fn write_rest(place: &mut [u8], segment: &Segment<'_>) {
    if segment.options.is_empty() {
        if let ([place], [byte]) = (&mut *place, segment.data) {
            *place = *byte;
        } else if !place.is_empty() {
            place.copy_from_slice(segment.data);
        }
        return;
    }
    let (options, body) = place.split_at_mut(segment.options.len());
    options.copy_from_slice(segment.options);
    body.copy_from_slice(segment.data);
}

#[inline]
fn put<const BYTES: usize, const WORDS: usize>(place: &mut [u8; BYTES], words: [u32; WORDS]) {
    const { assert!(BYTES == 4 * WORDS) };
    for (chunk, word) in place.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *chunk = word.to_be_bytes();
    }
}
