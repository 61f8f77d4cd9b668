//! Walking the blocks of a TPACKET_V3 receive ring (Documentation/networking/packet_mmap.rst), or of a TPACKET_V2 one, each
//! frame of which is taken for a block of one packet.
//!
//! The kernel hands over a block at a time, so looking for packets is one load from memory and no system call. Each number
//! in a block is read once and checked against the block before it is used: **what cannot be is reported, not followed.**

use linerate_port::{Drops, PortError, VnetHeader};

use crate::receive::Loss;
use crate::sys::{Mapping, PacketHeader, RingShape};

/// Offsets in `struct tpacket_block_desc` of block_status, num_pkts, offset_to_first_pkt, ts_first_pkt, ts_last_pkt.
const STATUS_AT: usize = 8;
/// Offset in `struct tpacket2_hdr` of tp_status.
const SINGLE_STATUS_AT: usize = 0;
const PACKETS_AT: usize = 12;
const FIRST_AT: usize = 16;
const FIRST_TIME_AT: usize = 32;
const LAST_TIME_AT: usize = 40;
/// Bytes of `struct tpacket_block_desc`; no packet starts earlier.
const BLOCK_HEADER_BYTES: usize = 48;
const PACKET_HEADER_BYTES: usize = size_of::<libc::tpacket3_hdr>();

/// Where `struct sockaddr_ll` lies behind a packet's header (TPACKET_ALIGN), in both versions, and `sll_pkttype` in it.
const ADDRESS_AT: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
const SINGLE_ADDRESS_AT: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
const TYPE_AT: usize = std::mem::offset_of!(libc::sockaddr_ll, sll_pkttype);

/// Bytes of an Ethernet header before the ethertype, where a VLAN tag goes.
pub(crate) const TAG_AT: usize = 12;
/// Bytes of a VLAN tag.
const TAG_BYTES: usize = 4;

/// Packets ahead of the one being read whose first lines are called for. The core that wrote them still has them, and only
/// some lines at a time are on their way by themselves. 32 packets take a quarter of a microsecond; with 8 each cost 1 to 2 ns more.
const PACKETS_AHEAD: usize = 32;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// A packet found in the ring.
#[derive(Clone, Copy, Default)]
pub(crate) struct PacketInRing {
    /// Its header in the mapping.
    header_at: usize,
    /// First byte in the mapping.
    start: usize,
    /// Bytes there.
    stored: usize,
    /// The VLAN tag that the kernel took out (TPID, TCI), to be put back.
    pub tag: Option<[u8; TAG_BYTES]>,
    /// Kernel's timestamp, nanoseconds since 1970.
    pub time_ns: u64,
    /// True when the ring holds only the packet's beginning.
    pub truncated: bool,
    /// Bytes that the packet had, the tag that was taken out included.
    whole: usize,
    /// `TP_STATUS_*`.
    pub status: u32,
    /// Place in the block of the packet after this one.
    next: usize,
}

impl PacketInRing {
    /// Bytes of the packet, its VLAN tag included.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.stored + if self.tag.is_some() { TAG_BYTES } else { 0 }
    }

    /// Bytes that it had, its VLAN tag included, however few of them are in the ring.
    #[inline]
    pub(crate) fn original_len(&self) -> usize {
        self.whole
    }

    /// True when its checksum is partial, as it is of merged packets, too.
    #[inline]
    pub(crate) fn is_partial(&self) -> bool {
        self.status & libc::TP_STATUS_CSUMNOTREADY != 0
    }

    /// True when the kernel or the network card has verified its checksum.
    #[inline]
    pub(crate) fn is_verified(&self) -> bool {
        self.status & libc::TP_STATUS_CSUM_VALID != 0
    }

    /// True when the socket has the whole packet, beside the ring (PACKET_COPY_THRESH).
    #[inline]
    pub(crate) fn has_copy(&self) -> bool {
        self.status & libc::TP_STATUS_COPY != 0
    }
}

/// The reading side of a ring.
pub(crate) struct BlockRing {
    mapping: Mapping,
    block_bytes: usize,
    blocks: usize,
    /// Each block is of one packet, and begins with its header.
    single: bool,
    /// Offset of a block's status.
    status_at: usize,
    /// Number of the block being read, or to be read next.
    block: usize,
    /// Packets of that block not read yet; 0 = the block is the kernel's.
    left: usize,
    /// Place in the block of the next packet.
    offset: usize,
    /// See [`BlockRing::take_pause_ns`].
    pause_ns: u64,
    /// Longest of these.
    pub pause_ns_max: u64,
    /// How long the kernel keeps a block that is not full.
    pub retire_ns: u64,
    corrupt: Option<&'static str>,
}

impl BlockRing {
    pub(crate) fn new(mapping: Mapping, shape: RingShape) -> BlockRing {
        let (block_bytes, blocks) = (shape.block_bytes, shape.blocks);
        let (single, status_at) = (shape.prompt, if shape.prompt { SINGLE_STATUS_AT } else { STATUS_AT });
        let retire_ns = if single { 0 } else { u64::from(shape.retire_ms) * 1_000_000 };
        BlockRing {
            mapping,
            block_bytes,
            blocks,
            single,
            status_at,
            block: 0,
            left: 0,
            offset: 0,
            pause_ns: 0,
            pause_ns_max: 2 * retire_ns,
            retire_ns,
            corrupt: None,
        }
    }

    /// True when there is a packet, or an empty block to pass over.
    #[inline]
    pub(crate) fn ready(&self) -> bool {
        self.left > 0 || self.status() & libc::TP_STATUS_USER != 0
    }

    /// How long a reader that has read everything may sleep without a look at the ring, in nanoseconds.
    ///
    /// 0 unless the last block came because it was full. Then as long as an eighth of the ring takes to fill at that
    /// block's rate, at most `pause_ns_max`, which is twice the time after which a block that is not full is handed over unless
    /// it is set: waking once for several blocks instead of once for each saves most of what a busy reader costs.
    #[inline]
    pub(crate) fn take_pause_ns(&mut self) -> u64 {
        std::mem::take(&mut self.pause_ns)
    }

    /// The oldest packet that was not taken out yet; it stays in the ring.
    #[inline(always)]
    pub(crate) fn front(&mut self) -> Result<Option<PacketInRing>, &'static str> {
        if let Some(what) = self.corrupt {
            return Err(what);
        }
        if self.left == 0 && !self.open_block()? {
            return Ok(None);
        }
        match self.packet_at(self.offset, self.left) {
            Ok(packet) => Ok(Some(packet)),
            Err(what) => Err(self.refuse(what)),
        }
    }

    /// Shows the oldest packets, at most `packets_max`, and takes them out; how many there were. A block becomes the kernel's when its
    /// last packet was shown. What [`BlockRing::front`] and [`BlockRing::advance`] do for one packet, with less for each.
    #[inline]
    pub(crate) fn walk(
        &mut self,
        packets_max: usize,
        mut each: impl FnMut(&BlockRing, &PacketInRing),
    ) -> Result<usize, &'static str> {
        let mut count = 0;
        while count < packets_max {
            if let Some(what) = self.corrupt {
                return Err(what);
            }
            if self.left == 0 && !self.open_block()? {
                break;
            }
            let end = self.left.saturating_sub(packets_max - count);
            let (mut left, mut offset) = (self.left, self.offset);
            count += left - end;
            while left > end {
                match self.packet_at(offset, left) {
                    Ok(found) => {
                        each(self, &found);
                        offset = found.next;
                    }
                    Err(what) => return Err(self.refuse(what)),
                }
                left -= 1;
            }
            (self.left, self.offset) = (left, offset);
            if left == 0 {
                self.give_back_block();
            }
        }
        Ok(count)
    }

    /// Takes out the packet that [`BlockRing::front`] gave; with the last of a block the block becomes the kernel's.
    #[inline(always)]
    pub(crate) fn advance(&mut self, front: &PacketInRing) {
        self.offset = front.next;
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.give_back_block();
        }
    }

    /// `sll_pkttype` of a packet that was not taken out: whose it is, and which way it went.
    #[inline]
    pub(crate) fn packet_type(&self, packet: &PacketInRing) -> u8 {
        let address = if self.single { SINGLE_ADDRESS_AT } else { ADDRESS_AT };
        let mut byte = [0];
        self.mapping.copy(packet.header_at + address + TYPE_AT, &mut byte);
        byte[0]
    }

    /// What the kernel notes about a packet that was not taken out, right in front of it; of sockets with PACKET_VNET_HDR only.
    #[inline]
    pub(crate) fn offload(&self, packet: &PacketInRing) -> VnetHeader {
        let mut note = [0; VnetHeader::BYTES];
        if let Some(at) = packet.start.checked_sub(VnetHeader::BYTES) {
            self.mapping.copy(at, &mut note);
        }
        VnetHeader::parse(note, packet.tag.map_or(0, |_| TAG_BYTES))
    }

    /// Blocks that the kernel has handed over and that were not given back: they follow each other, so it is a look at each of them
    /// and one more.
    fn filled_blocks(&self) -> usize {
        let status_of = |block| self.mapping.load_acquire(block * self.block_bytes + self.status_at).unwrap_or(0);
        let oldest_first = (0..self.blocks).map(|behind| (self.block + behind) % self.blocks);
        oldest_first.take_while(|block| status_of(*block) & libc::TP_STATUS_USER != 0).count()
    }

    /// Bytes of those blocks, and of all.
    pub(crate) fn level_bytes(&self) -> (u64, u64) {
        let bytes = |blocks: usize| (blocks * self.block_bytes) as u64;
        (bytes(self.filled_blocks()), bytes(self.blocks))
    }

    /// Copies bytes of a packet, from byte `from` of it on, as many as `to` holds; its VLAN tag is where it was on the wire.
    /// The caller asks for bytes inside the packet only.
    #[inline]
    pub(crate) fn copy(&self, packet: &PacketInRing, from: usize, to: &mut [u8]) {
        match packet.tag {
            None => self.copy_stored(packet, from, to),
            Some(tag) => self.copy_tagged(packet, tag, from, to),
        }
    }

    #[inline]
    fn copy_tagged(&self, packet: &PacketInRing, tag: [u8; TAG_BYTES], from: usize, to: &mut [u8]) {
        const TAG_END: usize = TAG_AT + TAG_BYTES;
        let end = from + to.len();
        if from < TAG_AT {
            let len = end.min(TAG_AT) - from;
            self.copy_stored(packet, from, &mut to[..len]);
        }
        let (start, stop) = (from.max(TAG_AT), end.min(TAG_END));
        if start < stop {
            to[start - from..stop - from].copy_from_slice(&tag[start - TAG_AT..stop - TAG_AT]);
        }
        if end > TAG_END {
            let start = from.max(TAG_END);
            self.copy_stored(packet, start - TAG_BYTES, &mut to[start - from..]);
        }
    }

    /// `packet_at` checked that the packet is inside its block; a request past it copies nothing.
    #[inline]
    fn copy_stored(&self, packet: &PacketInRing, from: usize, to: &mut [u8]) {
        if from + to.len() <= packet.stored {
            self.mapping.copy(packet.start + from, to);
        }
    }

    #[inline]
    fn status(&self) -> u32 {
        self.mapping.load_acquire(self.block_start() + self.status_at).unwrap_or(0)
    }

    #[inline]
    fn block_start(&self) -> usize {
        self.block * self.block_bytes
    }

    #[inline]
    fn give_back_block(&mut self) {
        self.left = 0;
        self.mapping.store_release(self.block_start() + self.status_at, libc::TP_STATUS_KERNEL);
        self.block = (self.block + 1) % self.blocks;
    }

    /// Starts on the next block with packets, if the kernel has handed one over.
    #[inline]
    fn open_block(&mut self) -> Result<bool, &'static str> {
        for _ in 0..self.blocks {
            if self.status() & libc::TP_STATUS_USER == 0 {
                return Ok(false);
            }
            if self.single {
                (self.left, self.offset) = (1, 0);
                return Ok(true);
            }
            let start = self.block_start();
            let packets = self.mapping.load_acquire(start + PACKETS_AT).unwrap_or(u32::MAX) as usize;
            let first = self.mapping.load_acquire(start + FIRST_AT).unwrap_or(u32::MAX) as usize;
            if packets == 0 {
                self.give_back_block();
                continue;
            }
            if packets > self.block_bytes / PACKET_HEADER_BYTES {
                return Err(self.refuse("a block with more packets than fit into it"));
            }
            if first < BLOCK_HEADER_BYTES {
                return Err(self.refuse("a block whose first packet lies in its header"));
            }
            (self.left, self.offset) = (packets, first);
            self.pause_ns = self.pause_after_block();
            return Ok(true);
        }
        Ok(false)
    }

    #[inline]
    fn pause_after_block(&self) -> u64 {
        if self.status() & libc::TP_STATUS_BLK_TMO != 0 {
            return 0;
        }
        let word = |at| u64::from(self.mapping.load_acquire(self.block_start() + at).unwrap_or(0));
        let time_ns = |at| word(at) * 1_000_000_000 + word(at + 4);
        let fill_ns = time_ns(LAST_TIME_AT).saturating_sub(time_ns(FIRST_TIME_AT));
        fill_ns.saturating_mul(self.blocks as u64 / 8).min(self.pause_ns_max)
    }

    #[inline(always)]
    fn packet_at(&self, offset: usize, left: usize) -> Result<PacketInRing, &'static str> {
        if offset > self.block_bytes - PACKET_HEADER_BYTES {
            return Err("a packet that starts outside its block");
        }
        let start = self.block_start() + offset;
        let header = if self.single { self.mapping.single_header(start) } else { self.mapping.packet_header(start) };
        let Some(header) = header else {
            return Err("a packet at an odd place");
        };
        let (data, stored) = (offset + header.mac_at as usize, header.stored as usize);
        if data + stored > self.block_bytes {
            return Err("a packet that goes on past its block");
        }
        if left > 1 && (header.next as usize) < PACKET_HEADER_BYTES {
            return Err("a packet that does not lead to the next one");
        }
        self.call_ahead(offset, header.next as usize);
        let tagged = header.status & libc::TP_STATUS_VLAN_VALID != 0;
        Ok(PacketInRing {
            header_at: start,
            start: self.block_start() + data,
            stored,
            tag: if tagged { tag_of(&header) } else { None },
            time_ns: u64::from(header.seconds) * 1_000_000_000 + u64::from(header.nanoseconds),
            truncated: header.whole > header.stored,
            whole: header.whole as usize + if tagged { TAG_BYTES } else { 0 },
            status: header.status,
            next: offset + header.next as usize,
        })
    }

    /// Calls for the header and the first bytes of a packet further on, as if all were as long as the one at `offset`.
    #[inline]
    fn call_ahead(&self, offset: usize, step: usize) {
        let ahead = self.block_start() + offset + PACKETS_AHEAD * step;
        self.mapping.prefetch(ahead);
        if step > LINE_BYTES {
            self.mapping.prefetch(ahead + LINE_BYTES);
        }
        if step > 2 * LINE_BYTES {
            self.mapping.prefetch(ahead + 2 * LINE_BYTES);
        }
    }

    #[cold]
    fn refuse(&mut self, what: &'static str) -> &'static str {
        self.corrupt = Some(what);
        what
    }
}

/// The tag that the kernel (or the NIC) took out of the packet; kernels before 3.14 do not tell the TPID.
#[inline]
fn tag_of(header: &PacketHeader) -> Option<[u8; TAG_BYTES]> {
    if (header.stored as usize) < TAG_AT {
        return None;
    }
    let known = header.status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let [a, b] = if known { header.vlan_tpid } else { libc::ETH_P_8021Q as u16 }.to_be_bytes();
    let [c, d] = (header.vlan_tci as u16).to_be_bytes();
    Some([a, b, c, d])
}

/// What happened to packets that reached the socket and were not handed on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RingLosses {
    /// The ring was full.
    pub ring_full: u64,
    /// Longer than a block of the ring, where the socket had no room for it either.
    pub truncated: u64,
    /// Merged of several, and not to be cut here.
    pub not_cut: u64,
    /// With a partial checksum that cannot be completed here.
    pub not_completed: u64,
    /// Longer than the caller's batch or the pool can hold.
    pub too_long: u64,
    /// Times that the ring was full.
    pub freezes: u64,
}

impl RingLosses {
    #[inline]
    pub(crate) fn count(&mut self, loss: Loss) {
        *match loss {
            Loss::Truncated => &mut self.truncated,
            Loss::NotCut => &mut self.not_cut,
            Loss::NotCompleted => &mut self.not_completed,
        } += 1;
    }

    pub(crate) fn rows(&self, interface: &str) -> Vec<Drops> {
        let place = format!("AF_PACKET ring of {interface}");
        let row = |cause: &str, packets| Drops { place: place.clone(), cause: cause.into(), packets };
        let rows = [
            row("ring full", self.ring_full),
            row("longer than a ring block", self.truncated),
            row("merged packet of an unknown kind", self.not_cut),
            row("partial checksum of an unknown kind", self.not_completed),
            row("longer than the batch", self.too_long),
        ];
        rows.into_iter().filter(|row| row.packets > 0).collect()
    }
}

/// The error for a ring with impossible contents.
pub(crate) fn corrupt(port: &str, what: &str) -> PortError {
    PortError::PeerCorrupt { port: port.into(), what: format!("{what} into the AF_PACKET ring") }
}

#[cfg(test)]
mod tests;
