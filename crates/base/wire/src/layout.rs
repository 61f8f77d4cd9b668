//! [`Layout`]: where the layers of a built frame are, and which checksums a changed field needs
//! updated.
//!
//! **Invariant**: every header starts at an even offset of the frame, and so does the data of every
//! checksum. So the byte parity of an offset in the frame is its parity in every checksum.
//!
//! A field can be covered by several checksums: an IPv4 address by the IPv4 header checksum and,
//! through the pseudo-header, by that of UDP or TCP; an IPv6 address by the latter only; anything
//! inside VXLAN over IPv6 by the outer UDP checksum too. There the inner checksums are data
//! themselves, and change when they are updated. All this is settled once, by
//! [`Layout::checksums_covering`]: each update carries a `weight`, by which the difference of the
//! field counts.

use crate::{LayerKind, Sum};
use crate::{icmpv4, icmpv6, ipv4, ipv6, tcp, udp};
use std::ops::Range;

/// A layer's place in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerSpan {
    /// What it is.
    pub kind: LayerKind,
    /// Where its header starts, in bytes from the start of the frame.
    pub offset: usize,
    /// Length of its header in bytes.
    pub len: usize,
}

impl LayerSpan {
    /// The bytes of its header.
    pub const fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.len
    }

    /// Where a `field` of its header lies in the frame.
    ///
    /// ```
    /// use linerate_wire::{LayerKind, LayerSpan, ipv4};
    /// let span = LayerSpan { kind: LayerKind::Ipv4, offset: 14, len: 20 };
    /// assert_eq!(span.field(ipv4::field::SRC), 26..30);
    /// ```
    pub const fn field(&self, field: Range<usize>) -> Range<usize> {
        self.offset + field.start..self.offset + field.end
    }
}

/// A checksum field of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChecksumField {
    /// The layer whose checksum it is: IPv4, UDP, TCP, ICMPv4 or ICMPv6.
    pub kind: LayerKind,
    /// Where the two bytes of the field are, from the start of the frame.
    pub offset: usize,
    /// Whether there is a checksum. If not, the field is 0 and stays 0 (UDP only).
    pub present: bool,
    /// The bytes it covers, its own field apart. For one with a pseudo-header: IP addresses and IP
    /// length, then the upper layer. The IP protocol number is left out: a frame in which it
    /// changes has another kind of checksum.
    pub covers: Vec<Range<usize>>,
}

impl ChecksumField {
    /// The checksum field of the layer at `span`, which lies in the layer at `network`; `None` if
    /// it has none.
    pub(crate) fn of(span: LayerSpan, network: LayerSpan, frame_len: usize, present: bool) -> Option<ChecksumField> {
        let field = match span.kind {
            LayerKind::Ipv4 => ipv4::field::CHECKSUM,
            LayerKind::Udp => udp::field::CHECKSUM,
            LayerKind::Tcp => tcp::field::CHECKSUM,
            LayerKind::Icmpv4 => icmpv4::field::CHECKSUM,
            LayerKind::Icmpv6 => icmpv6::field::CHECKSUM,
            _ => return None,
        };
        let upper_layer = span.offset..frame_len;
        let covers = match (span.kind, network.kind) {
            (LayerKind::Ipv4, _) => vec![span.range()],
            (LayerKind::Icmpv4, _) => vec![upper_layer],
            (_, LayerKind::Ipv4) => {
                let addresses = network.field(ipv4::field::SRC.start..ipv4::field::DST.end);
                vec![network.field(ipv4::field::TOTAL_LEN), addresses, upper_layer]
            }
            _ => {
                let addresses = network.field(ipv6::field::SRC.start..ipv6::field::DST.end);
                vec![network.field(ipv6::field::PAYLOAD_LEN), addresses, upper_layer]
            }
        };
        Some(ChecksumField { kind: span.kind, offset: span.offset + field.start, present, covers })
    }

    /// Whether the frame byte at `offset` is data of this checksum.
    fn covers(&self, offset: usize) -> bool {
        let own_field = (self.offset..self.offset + 2).contains(&offset);
        !own_field && self.covers.iter().any(|range| range.contains(&offset))
    }
}

/// One incremental update of one checksum, for a change of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChecksumUpdate {
    /// Which checksum: an index of [`Layout::checksums`].
    pub checksum: usize,
    /// Where the two bytes of the checksum are, from the start of the frame.
    pub offset: usize,
    /// Whether it is a UDP checksum, where a computed 0x0000 is sent as 0xffff.
    pub is_udp: bool,
    /// The bytes of the changed field that count, in the frame.
    pub bytes: Range<usize>,
    /// How often their difference counts. 1 for a plain frame; inside VXLAN over IPv6 the outer
    /// checksum can need -1, because the inner checksums change too.
    pub weight: i32,
}

impl ChecksumUpdate {
    /// Updates the checksum in `frame`; `delta` is the difference of `bytes`, as by
    /// [`Sum::replace_slice_at`] at their offset in the frame.
    ///
    /// # Panics
    /// If the frame is shorter than the layout's.
    #[inline]
    pub fn apply(&self, frame: &mut [u8], delta: Sum) {
        let once = if self.weight < 0 { delta.negate() } else { delta };
        let total = (0..self.weight.unsigned_abs()).fold(Sum::new(), |sum, _| sum.add_sum(once));
        let field = &mut frame[self.offset..self.offset + 2];
        let old = u16::from_be_bytes([field[0], field[1]]);
        let new = if self.is_udp { total.update_udp(old) } else { total.update(old) };
        field.copy_from_slice(&new.to_be_bytes());
    }
}

/// Where everything is in a built frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Length of the frame in bytes, without FCS.
    pub frame_len: usize,
    /// The layers, outermost first.
    pub layers: Vec<LayerSpan>,
    /// The checksum fields, outermost first.
    pub checksums: Vec<ChecksumField>,
    /// The bytes behind the last header.
    pub payload: Range<usize>,
}

impl Layout {
    /// The outermost layer of a kind.
    pub fn find(&self, kind: LayerKind) -> Option<&LayerSpan> {
        self.layers.iter().find(|span| span.kind == kind)
    }

    /// The innermost layer of a kind.
    pub fn find_innermost(&self, kind: LayerKind) -> Option<&LayerSpan> {
        self.layers.iter().rfind(|span| span.kind == kind)
    }

    /// The checksum updates that a change of the `width` bytes at `offset` of the frame needs.
    /// Bytes beyond the frame count for nothing. Normally there is one update for each checksum
    /// that covers the field; a field that is only partly covered gets updates for its parts.
    ///
    /// ```
    /// use linerate_wire::{LayerKind, Stack, ethernet, ipv4, udp};
    /// let stack = Stack::new()
    ///     .with(ethernet::Header::default())
    ///     .with(ipv4::Header::default())
    ///     .with(udp::Header::default());
    /// let layout = stack.build(60).unwrap().layout;
    /// let src = layout.find(LayerKind::Ipv4).unwrap().field(ipv4::field::SRC);
    /// let updates = layout.checksums_covering(src.start, src.len());
    /// assert_eq!(updates.iter().map(|update| update.offset).collect::<Vec<_>>(), [24, 40]);
    /// ```
    pub fn checksums_covering(&self, offset: usize, width: usize) -> Vec<ChecksumUpdate> {
        let end = offset.saturating_add(width).min(self.frame_len);
        let mut updates = Vec::new();
        let mut start = offset;
        while start < end {
            let next = self.next_boundary(start, end);
            for (checksum, weight) in self.weights(start).into_iter().enumerate().filter(|(_, weight)| *weight != 0) {
                let field = &self.checksums[checksum];
                let is_udp = field.kind == LayerKind::Udp;
                updates.push(ChecksumUpdate { checksum, offset: field.offset, is_udp, bytes: start..next, weight });
            }
            start = next;
        }
        updates
    }

    /// Writes `new` at `offset` of `frame` and updates every checksum that covers it. For single
    /// changes; a loop takes the updates from [`Layout::checksums_covering`] once.
    ///
    /// # Panics
    /// If `new` does not lie inside the frame, or the frame is shorter than the layout's.
    pub fn patch(&self, frame: &mut [u8], offset: usize, new: &[u8]) {
        for update in self.checksums_covering(offset, new.len()) {
            let replacement = &new[update.bytes.start - offset..update.bytes.end - offset];
            let delta = Sum::new().replace_slice_at(update.bytes.start, &frame[update.bytes.clone()], replacement);
            update.apply(frame, delta);
        }
        frame[offset..offset + new.len()].copy_from_slice(new);
        for field in self.checksums.iter().filter(|field| field.kind == LayerKind::Icmpv4 && field.present) {
            let message = field.offset - icmpv4::field::CHECKSUM.start..self.frame_len;
            icmpv4::Packet::new_unchecked(&mut frame[message]).complete_zero();
        }
    }

    /// The first offset after `start`, at most `end`, from which on other checksums may cover the
    /// bytes.
    fn next_boundary(&self, start: usize, end: usize) -> usize {
        let ends = |field: &ChecksumField| {
            let own_field = field.offset..field.offset + 2;
            let ranges = field.covers.iter().cloned().chain([own_field]);
            ranges.flat_map(|range| [range.start, range.end]).collect::<Vec<_>>()
        };
        self.checksums.iter().flat_map(ends).filter(|at| *at > start).fold(end, usize::min)
    }

    /// For each checksum, how often a difference of the byte at `offset` counts in its data.
    fn weights(&self, offset: usize) -> Vec<i32> {
        let mut weights = vec![0; self.checksums.len()];
        for index in (0..self.checksums.len()).rev() {
            let field = &self.checksums[index];
            if field.present {
                // A checksum that counts a difference w times changes by -w times that difference
                // itself.
                let inner =
                    (index + 1..self.checksums.len()).filter(|inner| field.covers(self.checksums[*inner].offset));
                let carried: i32 = inner.map(|inner| weights[inner]).sum();
                weights[index] = i32::from(field.covers(offset)) - carried;
            }
        }
        weights
    }
}
