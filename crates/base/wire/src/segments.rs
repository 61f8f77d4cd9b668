//! [`Segments`]: cuts a packet that a kernel merged, or did not cut itself, into packets as they are sent.
//!
//! A kernel hands TCP data of up to 64 KiB to an interface in one packet, and leaves the cutting to the network card (TCP
//! segmentation offload, GSO in Linux), and merges packets that it receives (GRO); UDP programs do the same with `UDP_SEGMENT`.
//! Between namespaces (veth) such packets are never cut. What is done here is what `tcp_gso_segment` and `__udp_gso_segment`
//! of Linux do: each segment has the headers of the whole, its own lengths, sequence number, IPv4 identification and checksums.

use std::ops::Range;

use crate::tcp::Flags;
use crate::{LayerKind, Parsed, Protocol};
use crate::{ipv4, ipv6, tcp, udp, vxlan};

/// Most bytes of headers: Ethernet, tags, IP with options and TCP with options, also inside VXLAN.
const HEADERS_MAX: usize = 256;
/// Most IP layers: one, or two with VXLAN between them.
const LAYERS_MAX: usize = 2;

/// A merged packet on its way of being cut. The packet's bytes stay with the caller.
///
/// ```
/// use linerate_wire::{Segments, Stack, ethernet, ipv4, tcp, verify_checksums};
/// let stack = Stack::new()
///     .with(ethernet::Header::default())
///     .with(ipv4::Header { src: [192, 0, 2, 1].into(), dst: [192, 0, 2, 2].into(), ..Default::default() })
///     .with(tcp::Header::default());
/// let mut merged = stack.build(54 + 2500).unwrap().bytes;
/// let mut segments = Segments::new(&merged, 1000, None).unwrap();
/// let mut lens = Vec::new();
/// while let Some(range) = segments.next(&mut merged) {
///     assert!(verify_checksums(&merged[range.clone()]).is_ok());
///     lens.push(range.len());
/// }
/// assert_eq!(lens, [1054, 1054, 554]);
/// ```
#[derive(Clone, Debug)]
pub struct Segments {
    /// The headers of the whole.
    headers: [u8; HEADERS_MAX],
    headers_len: usize,
    /// IP layers, the outermost first.
    layers: [Layer; LAYERS_MAX],
    depth: usize,
    /// Bytes of data in each segment.
    size: usize,
    /// Where the data of the next segment begins, and where all data ends.
    data_at: usize,
    end: usize,
    /// How many segments there were.
    count: u16,
    /// CWR is for the first segment only (RFC 3168); each has it otherwise, as accurate ECN wants.
    first_only: Flags,
    /// Checksums hold the sum of the pseudo-header only.
    partial: bool,
}

/// An IP layer and what it carries.
#[derive(Clone, Copy, Debug)]
struct Layer {
    ip: LayerKind,
    ip_at: usize,
    transport: LayerKind,
    transport_at: usize,
}

impl Segments {
    /// Of a whole frame of TCP or UDP over IPv4 or IPv6, also inside VXLAN on the standard port, `size` bytes of data in each
    /// segment. `transport_at` says where the header of the TCP or UDP is whose data is cut; `None`: the innermost.
    ///
    /// `None` for any other packet, and for `size` 0.
    pub fn new(frame: &[u8], size: usize, transport_at: Option<usize>) -> Option<Segments> {
        let (mut base, mut depth, mut headers_len, mut end) = (0, 0, 0, 0);
        let none = Layer { ip: LayerKind::Ipv4, ip_at: 0, transport: LayerKind::Udp, transport_at: 0 };
        let mut layers = [none; LAYERS_MAX];
        while depth < LAYERS_MAX {
            let Some((layer, parsed)) = layer(frame, base) else { break };
            layers[depth] = layer;
            depth += 1;
            let transport = parsed.ip?.transport?;
            (headers_len, end) = (base + transport.payload_offset, base + transport.end);
            let found = transport_at.is_some_and(|wanted| wanted == layer.transport_at);
            if found || parsed.inner(frame.get(base..)?).is_none() {
                break;
            }
            base = headers_len + vxlan::HEADER_LEN;
        }
        let last = depth.checked_sub(1)?;
        let elsewhere = transport_at.is_some_and(|wanted| wanted != layers[last].transport_at);
        if elsewhere || size == 0 || headers_len > HEADERS_MAX || headers_len >= end {
            return None;
        }
        let mut headers = [0; HEADERS_MAX];
        headers[..headers_len].copy_from_slice(frame.get(..headers_len)?);
        let (data_at, first_only) = (headers_len, Flags::CWR);
        Some(Segments { headers, headers_len, layers, depth, size, data_at, end, count: 0, first_only, partial: false })
    }

    /// As [`Segments::new`] of TCP whose segments shall be as long as `frame_len_max` allows, for a packet that came without a
    /// word about how it is to be cut. TCP does not care where its data is cut; UDP does, so there is none for UDP.
    pub fn fitting(frame: &[u8], frame_len_max: usize) -> Option<Segments> {
        let mut segments = Segments::new(frame, 1, None)?;
        segments.size = frame_len_max.checked_sub(segments.headers_len).filter(|size| *size > 0)?;
        (segments.innermost().transport == LayerKind::Tcp).then_some(segments)
    }

    /// CWR stays on each segment.
    #[must_use]
    pub fn with_accurate_ecn(mut self) -> Segments {
        self.first_only = Flags(0);
        self
    }

    /// Leaves the checksums of TCP segments partial ([`crate::PartialChecksum`]), unless they are in a tunnel, for whoever sends them
    /// to complete.
    #[must_use]
    pub fn with_partial_checksums(mut self) -> Segments {
        self.partial = self.depth == 1 && self.innermost().transport == LayerKind::Tcp;
        self
    }

    /// True if the segments' checksums are partial.
    pub fn checksums_are_partial(&self) -> bool {
        self.partial
    }

    /// Writes the headers of the next segment in front of its data, over data that was there before, and says where that
    /// segment is in `frame`. Whoever asks again is done with the segment before. `frame` is the one that was cut.
    pub fn next(&mut self, frame: &mut [u8]) -> Option<Range<usize>> {
        if self.data_at >= self.end || self.end > frame.len() {
            return None;
        }
        let (start, end) = (self.data_at - self.headers_len, self.end.min(self.data_at.saturating_add(self.size)));
        let segment = &mut frame[start..end];
        segment[..self.headers_len].copy_from_slice(&self.headers[..self.headers_len]);
        self.write_tcp(segment, end == self.end);
        // An outer checksum covers what is inside, so the innermost comes first.
        for layer in self.layers[..self.depth].iter().rev() {
            layer.finish(segment, self.count, self.partial);
        }
        (self.data_at, self.count) = (end, self.count.wrapping_add(1));
        Some(start..end)
    }

    fn write_tcp(&self, segment: &mut [u8], is_last: bool) {
        let layer = self.innermost();
        if layer.transport != LayerKind::Tcp {
            return;
        }
        let mut header = tcp::Packet::new_unchecked(&mut segment[layer.transport_at..]);
        let before = (self.data_at - self.headers_len) as u32;
        header.set_sequence(header.sequence().wrapping_add(before));
        let last_only = if is_last { 0 } else { Flags::FIN.0 | Flags::PSH.0 };
        let first_only = if before == 0 { 0 } else { self.first_only.0 };
        header.set_flags(Flags(header.flags().0 & !last_only & !first_only));
    }

    fn innermost(&self) -> Layer {
        self.layers[self.depth - 1]
    }
}

impl Layer {
    /// Sets lengths, identification and checksums; the packet ends with `segment`.
    fn finish(&self, segment: &mut [u8], number: u16, partial: bool) {
        let transport_len = segment.len() - self.transport_at;
        let (ip_len, bytes) = (segment.len() - self.ip_at, &mut segment[self.ip_at..]);
        let pseudo = if self.ip == LayerKind::Ipv4 {
            let mut ip = ipv4::Packet::new_unchecked(bytes);
            ip.set_total_len(ip_len as u16);
            ip.set_identification(ip.identification().wrapping_add(number));
            ip.fill_checksum();
            ip.pseudo_sum(transport_len as u16)
        } else {
            let mut ip = ipv6::Packet::new_unchecked(bytes);
            ip.set_payload_len((ip_len - ipv6::HEADER_LEN) as u16);
            let protocol = if self.transport == LayerKind::Tcp { Protocol::TCP } else { Protocol::UDP };
            ip.pseudo_sum(protocol, transport_len as u32)
        };
        let transport = &mut segment[self.transport_at..];
        if self.transport == LayerKind::Tcp {
            let mut header = tcp::Packet::new_unchecked(transport);
            return if partial { header.set_checksum(pseudo.fold()) } else { header.fill_checksum(pseudo) };
        }
        let mut datagram = udp::Packet::new_unchecked(transport);
        datagram.set_length(transport_len as u16);
        // 0: no checksum, which is usual around VXLAN.
        if datagram.checksum() != 0 {
            datagram.fill_checksum(pseudo);
        }
    }
}

/// The IP layer of the Ethernet frame at `base`, if it carries whole UDP or TCP.
fn layer(frame: &[u8], base: usize) -> Option<(Layer, Parsed)> {
    let parsed = Parsed::parse(frame.get(base..)?).ok()?;
    let ip = parsed.ip.filter(|ip| !ip.is_truncated && !ip.is_routed)?;
    let transport = ip.transport.filter(|found| matches!(found.kind, LayerKind::Tcp | LayerKind::Udp))?;
    let (ip_at, transport_at) = (base + ip.offset, base + transport.offset);
    Some((Layer { ip: ip.kind, ip_at, transport: transport.kind, transport_at }, parsed))
}
