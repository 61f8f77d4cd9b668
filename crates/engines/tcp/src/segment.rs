//! A segment that arrived: header and options, read once (RFC 9293 section 3.1, RFC 7323, RFC 2018).

use linerate_wire::tcp::Flags;

use crate::Seq;

/// Flags of a header, as bits.
pub(crate) mod bit {
    pub(crate) const FIN: u8 = 0x01;
    pub(crate) const SYN: u8 = 0x02;
    pub(crate) const RST: u8 = 0x04;
    pub(crate) const PSH: u8 = 0x08;
    pub(crate) const ACK: u8 = 0x10;
    pub(crate) const URG: u8 = 0x20;
    pub(crate) const ECE: u8 = 0x40;
    pub(crate) const CWR: u8 = 0x80;
}

const HEADER_LEN: usize = 20;
/// NOP, NOP, timestamps, 10: the first word of the options of nearly all segments (RFC 7323 appendix A).
const TIMESTAMPS_ONLY: u32 = 0x0101_080a;

/// A segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    pub(crate) seq: Seq,
    pub(crate) ack: Seq,
    pub(crate) flags: u8,
    /// Unscaled.
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    /// TSval and TSecr.
    pub(crate) timestamps: Option<(u32, u32)>,
    /// Options beside the timestamps, to be read by [`Options::parse`]; empty if the timestamps are the only option.
    pub(crate) options: &'a [u8],
    pub(crate) data: &'a [u8],
    /// ECN bits of the IP header.
    pub(crate) ecn: u8,
}

impl<'a> Segment<'a> {
    /// Reads header and data of the transport; `None` if the header length is wrong.
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8], ecn: u8) -> Option<Segment<'a>> {
        let head = bytes.first_chunk::<HEADER_LEN>()?;
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let header_len = usize::from(head[12] >> 4) * 4;
        let mut segment = Segment {
            src_port: half(0),
            dst_port: half(2),
            seq: Seq(word(4)),
            ack: Seq(word(8)),
            flags: head[13],
            window: half(14),
            urgent: half(18),
            timestamps: None,
            options: &[],
            data: &[],
            ecn,
        };
        if header_len == HEADER_LEN + 12
            && let Some((options, data)) = bytes[HEADER_LEN..].split_first_chunk::<12>()
        {
            let word = |at: usize| u32::from_be_bytes([options[at], options[at + 1], options[at + 2], options[at + 3]]);
            if word(0) == TIMESTAMPS_ONLY {
                segment.timestamps = Some((word(4), word(8)));
                segment.data = data;
                return Some(segment);
            }
        }
        segment.options = bytes.get(HEADER_LEN..header_len)?;
        segment.data = &bytes[header_len..];
        if let Some(offer) = Offer::of(segment.options) {
            segment.timestamps = Some(offer.timestamps);
        } else if !segment.options.is_empty() {
            segment.timestamps = Options::parse(segment.options).timestamps;
        }
        Some(segment)
    }

    #[inline]
    pub(crate) fn has(&self, bits: u8) -> bool {
        self.flags & bits != 0
    }

    /// Numbers that the segment takes (SEG.LEN): data, SYN, FIN.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.data.len() as u32 + u32::from(self.has(bit::SYN)) + u32::from(self.has(bit::FIN))
    }

    /// The number behind the segment.
    #[inline]
    pub(crate) fn end(&self) -> Seq {
        self.seq + self.len()
    }
}

impl std::fmt::Display for Segment<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (flags, len) = (Flags(self.flags), self.data.len());
        write!(out, "{}>{} {flags} seq {} ack {} len {len}", self.src_port, self.dst_port, self.seq.0, self.ack.0)
    }
}

/// The options of a SYN of Linux, and of this stack, in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) mss: u16,
    /// Shift, at most 14.
    pub(crate) window_scale: u8,
    pub(crate) timestamps: (u32, u32),
}

impl Offer {
    /// `None` if the options are others: [`Options::parse`] reads them.
    #[inline]
    pub(crate) fn of(options: &[u8]) -> Option<Offer> {
        // By words, which is a third of the instructions that bytes take.
        let words = options.as_chunks::<4>().0.first_chunk::<5>().filter(|_| options.len() == 20)?;
        let [first, kinds, value, echo, last] = words.map(u32::from_be_bytes);
        let is_usual = (first >> 16 == 0x0204) & (kinds == 0x0402_080a) & (last >> 8 == 0x01_0303);
        let offer = Offer { mss: first as u16, window_scale: (last as u8).min(14), timestamps: (value, echo) };
        is_usual.then_some(offer)
    }
}

/// Most SACK blocks of a segment.
pub(crate) const SACKS_MAX: usize = 4;

/// Options of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) mss: Option<u16>,
    /// Shift, at most 14.
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) sacks: [(Seq, Seq); SACKS_MAX],
    pub(crate) sack_count: usize,
}

impl Options {
    /// Reads options. An option with a bad length ends the reading, and those before it count.
    pub(crate) fn parse(mut bytes: &[u8]) -> Options {
        let mut options = Options::default();
        while let [kind, rest @ ..] = bytes {
            match kind {
                0 => break,
                1 => bytes = rest,
                kind => {
                    let Some(len) = rest.first().map(|len| usize::from(*len)) else { break };
                    if len < 2 || len > bytes.len() {
                        break;
                    }
                    options.take(*kind, &bytes[2..len]);
                    bytes = &bytes[len..];
                }
            }
        }
        options
    }

    fn take(&mut self, kind: u8, body: &[u8]) {
        match (kind, body) {
            (2, [a, b]) => self.mss = Some(u16::from_be_bytes([*a, *b])),
            // RFC 7323 section 2.3: a larger shift counts as 14.
            (3, [shift]) => self.window_scale = Some((*shift).min(14)),
            (4, []) => self.sack_permitted = true,
            (5, blocks) if blocks.len().is_multiple_of(8) => {
                for block in blocks.as_chunks::<8>().0.iter().take(SACKS_MAX) {
                    let [a, b, c, d, e, f, g, h] = *block;
                    let (left, right) = (Seq(u32::from_be_bytes([a, b, c, d])), Seq(u32::from_be_bytes([e, f, g, h])));
                    if self.sack_count < SACKS_MAX && left.before(right) {
                        self.sacks[self.sack_count] = (left, right);
                        self.sack_count += 1;
                    }
                }
            }
            (8, [a, b, c, d, e, f, g, h]) => {
                self.timestamps = Some((u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h])));
            }
            _ => {}
        }
    }

    /// The SACK blocks.
    pub(crate) fn sacks(&self) -> &[(Seq, Seq)] {
        &self.sacks[..self.sack_count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(options: &[u8], data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x04, 0x00, 0x00, 0x50, 0, 0, 0, 1, 0, 0, 0, 2, 0, bit::ACK, 0x10, 0, 0, 0, 0, 0];
        bytes[12] = (((20 + options.len()) / 4) << 4) as u8;
        bytes.extend_from_slice(options);
        bytes.extend_from_slice(data);
        bytes
    }

    #[test]
    fn timestamps_are_read_wherever_they_stand() {
        let value = [0, 0, 0, 7, 0, 0, 0, 9];
        let usual = [&[1, 1, 8, 10][..], &value].concat();
        let other = [&[8, 10][..], &value, &[1, 1]].concat();
        let beside = [&[8, 10][..], &value, &[5, 10, 0, 0, 0, 5, 0, 0, 0, 6]].concat();
        for options in [usual, other, beside] {
            let bytes = header(&options, b"data");
            let segment = Segment::parse(&bytes, 0).unwrap();
            assert_eq!((segment.timestamps, segment.data, segment.len()), (Some((7, 9)), &b"data"[..], 4));
            assert_eq!((segment.src_port, segment.dst_port, segment.seq, segment.ack), (1024, 80, Seq(1), Seq(2)));
        }
    }

    #[test]
    fn options_of_a_syn() {
        let bytes = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 15];
        let options = Options::parse(&bytes);
        assert_eq!((options.mss, options.window_scale, options.sack_permitted), (Some(1460), Some(14), true));
        assert_eq!(options.timestamps, Some((1, 0)));
    }

    #[test]
    fn bad_lengths_end_the_reading_and_never_panic() {
        for bytes in
            [&[2, 4, 5, 0xb4, 3][..], &[2, 4, 5, 0xb4, 3, 1, 0], &[2, 4, 5, 0xb4, 8, 200, 0, 0], &[2, 4, 5, 0xb4, 9, 0]]
        {
            assert_eq!(Options::parse(bytes), Options { mss: Some(1460), ..Options::default() }, "{bytes:?}");
        }
        let blocks = [&[5, 34][..], &[0, 0, 0, 9, 0, 0, 0, 8], &[0, 0, 0, 1, 0, 0, 0, 8].repeat(3)].concat();
        assert_eq!(Options::parse(&blocks).sacks(), [(Seq(1), Seq(8)); 3]);
        for len in 0..15u8 {
            let mut bytes = header(&[], &[]);
            bytes[12] = len << 4;
            assert_eq!(Segment::parse(&bytes, 0).is_some(), len == 5, "{len}");
        }
    }
}
