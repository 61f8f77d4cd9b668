//! Walking the blocks of a TPACKET_V3 receive ring (Documentation/networking/packet_mmap.rst).
//!
//! The kernel hands over a block at a time, so looking for packets is one load from memory and no system call. Each number
//! in a block is read once and checked against the block before it is used: **what cannot be is reported, not followed.**

use linerate_port::{Drops, PortError};

use crate::sys::{Mapping, RingShape};

/// Offsets in `struct tpacket_block_desc` of block_status, num_pkts, offset_to_first_pkt.
const STATUS_AT: usize = 8;
const PACKETS_AT: usize = 12;
const FIRST_AT: usize = 16;
/// Bytes of `struct tpacket_block_desc`; no packet starts earlier.
const BLOCK_HEADER_BYTES: usize = 48;
const PACKET_HEADER_BYTES: usize = size_of::<libc::tpacket3_hdr>();

/// Bytes of an Ethernet header before the ethertype, where a VLAN tag goes.
const TAG_AT: usize = 12;
/// Bytes of a VLAN tag.
const TAG_BYTES: usize = 4;

/// A packet found in the ring.
#[derive(Clone, Copy, Default)]
pub(crate) struct Found {
    /// First byte in the mapping.
    start: usize,
    /// Bytes there.
    stored: usize,
    /// The VLAN tag that the kernel took out (TPID, TCI), to be put back.
    tag: Option<[u8; TAG_BYTES]>,
    /// Kernel's time stamp, nanoseconds since 1970.
    pub time_ns: u64,
    /// True when the ring holds only the packet's beginning.
    pub truncated: bool,
    /// Place in the block of the packet after this one.
    next: usize,
}

impl Found {
    /// Bytes of the packet, its VLAN tag included.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.stored + if self.tag.is_some() { TAG_BYTES } else { 0 }
    }
}

/// The reading side of a ring.
pub(crate) struct BlockRing {
    mapping: Mapping,
    block_bytes: usize,
    blocks: usize,
    /// Number of the block being read, or to be read next.
    block: usize,
    /// Packets of that block not read yet; 0 = the block is the kernel's.
    left: usize,
    /// Place in the block of the next packet.
    offset: usize,
    corrupt: Option<&'static str>,
}

impl BlockRing {
    pub(crate) fn new(mapping: Mapping, shape: RingShape) -> BlockRing {
        let (block_bytes, blocks) = (shape.block_bytes, shape.blocks);
        BlockRing { mapping, block_bytes, blocks, block: 0, left: 0, offset: 0, corrupt: None }
    }

    /// True when [`BlockRing::peek`] would find something.
    #[inline]
    pub(crate) fn ready(&self) -> bool {
        self.left > 0 || self.status() & libc::TP_STATUS_USER != 0
    }

    /// Fills `found` with the next packets of one block, oldest first, and returns how many; they stay in the ring.
    #[inline]
    pub(crate) fn peek(&mut self, found: &mut [Found]) -> Result<usize, &'static str> {
        if let Some(what) = self.corrupt {
            return Err(what);
        }
        if self.left == 0 && !self.open_block()? {
            return Ok(0);
        }
        let count = found.len().min(self.left);
        let mut offset = self.offset;
        for (index, entry) in found[..count].iter_mut().enumerate() {
            match self.packet_at(offset, index + 1 == self.left) {
                Ok(packet) => *entry = packet,
                Err(what) => return Err(self.refuse(what)),
            }
            offset = entry.next;
        }
        Ok(count)
    }

    /// Takes the first packets that [`BlockRing::peek`] found out of the ring; after the last one the block is the kernel's.
    #[inline]
    pub(crate) fn advance(&mut self, taken: &[Found]) {
        let Some(last) = taken.last() else { return };
        self.offset = last.next;
        self.left = self.left.saturating_sub(taken.len());
        if self.left == 0 {
            self.give_back_block();
        }
    }

    /// Copies bytes of a packet, from byte `from` of it on, as many as `to` holds; its VLAN tag is where it was on the wire.
    /// The caller asks for bytes inside the packet only.
    #[inline]
    pub(crate) fn copy(&self, packet: &Found, from: usize, to: &mut [u8]) {
        match packet.tag {
            None => self.copy_stored(packet, from, to),
            Some(tag) => self.copy_tagged(packet, tag, from, to),
        }
    }

    fn copy_tagged(&self, packet: &Found, tag: [u8; TAG_BYTES], from: usize, to: &mut [u8]) {
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
    fn copy_stored(&self, packet: &Found, from: usize, to: &mut [u8]) {
        if from + to.len() <= packet.stored {
            self.mapping.copy(packet.start + from, to);
        }
    }

    #[inline]
    fn status(&self) -> u32 {
        self.mapping.load_acquire(self.block_start() + STATUS_AT).unwrap_or(0)
    }

    #[inline]
    fn block_start(&self) -> usize {
        self.block * self.block_bytes
    }

    fn give_back_block(&mut self) {
        self.left = 0;
        self.mapping.store_release(self.block_start() + STATUS_AT, libc::TP_STATUS_KERNEL);
        self.block = (self.block + 1) % self.blocks;
    }

    /// Starts on the next block with packets, if the kernel has handed one over.
    fn open_block(&mut self) -> Result<bool, &'static str> {
        for _ in 0..self.blocks {
            if self.status() & libc::TP_STATUS_USER == 0 {
                return Ok(false);
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
            return Ok(true);
        }
        Ok(false)
    }

    #[inline]
    fn packet_at(&self, offset: usize, last_of_block: bool) -> Result<Found, &'static str> {
        if offset > self.block_bytes - PACKET_HEADER_BYTES {
            return Err("a packet that starts outside its block");
        }
        let place = self.block_start() + offset;
        let Some(header) = self.mapping.packet_header(place) else {
            return Err("a packet at an odd place");
        };
        let (data, stored) = (offset + header.tp_mac as usize, header.tp_snaplen as usize);
        if data + stored > self.block_bytes {
            return Err("a packet that goes on past its block");
        }
        if !last_of_block && (header.tp_next_offset as usize) < PACKET_HEADER_BYTES {
            return Err("a packet that does not lead to the next one");
        }
        Ok(Found {
            start: self.block_start() + data,
            stored,
            tag: tag_of(&header, stored),
            time_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
            truncated: header.tp_len as usize > stored,
            next: offset + header.tp_next_offset as usize,
        })
    }

    #[cold]
    fn refuse(&mut self, what: &'static str) -> &'static str {
        self.corrupt = Some(what);
        what
    }
}

/// The tag that the kernel (or the NIC) took out of the packet; kernels before 3.14 do not tell the TPID.
#[inline]
fn tag_of(header: &libc::tpacket3_hdr, stored: usize) -> Option<[u8; TAG_BYTES]> {
    if header.tp_status & libc::TP_STATUS_VLAN_VALID == 0 || stored < TAG_AT {
        return None;
    }
    let known = header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let tpid = if known { header.hv1.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
    let [a, b] = tpid.to_be_bytes();
    let [c, d] = (header.hv1.tp_vlan_tci as u16).to_be_bytes();
    Some([a, b, c, d])
}

/// What happened to packets that reached the socket and were not handed on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RingLosses {
    /// The ring was full.
    pub ring_full: u64,
    /// Longer than a block of the ring.
    pub truncated: u64,
    /// Longer than the caller's batch or the pool can hold.
    pub too_long: u64,
    /// Times that the ring was full.
    pub freezes: u64,
}

impl RingLosses {
    pub(crate) fn rows(&self, interface: &str) -> Vec<Drops> {
        let place = format!("AF_PACKET ring of {interface}");
        let row = |cause: &str, packets| Drops { place: place.clone(), cause: cause.into(), packets };
        let rows = [
            row("ring full", self.ring_full),
            row("longer than a ring block", self.truncated),
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
