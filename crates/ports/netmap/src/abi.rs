//! What is agreed with the kernel module: the requests of `NIOCCTRL`, and the layout of the shared area.
//!
//! From `sys/net/netmap.h` and `sys/net/netmap_user.h` of netmap, `NETMAP_API` 14. Written by hand; the assertions below hold sizes and
//! offsets as a C compiler lays them out for 64-bit Linux and FreeBSD, which differ in the numbers of requests without an argument alone.
//!
//! ```text
//! area    | interface header ... | ring headers, each with its slots ... | buffers 0, 1, 2 ...      (one mapping)
//! header  16 name, 4 version, 4 flags, 4 tx rings, 4 rx rings, 4 first extra buffer, 4 + 4 host rings, 12 unused,
//!         then the place of each ring from the header on, 8 bytes each: tx, host tx, rx, host rx
//! ring    8 place of buffer 0 from the ring on, 4 slots, 4 bytes of a buffer, ... 4 head, 4 cur, 4 tail, ..., slots from byte 256 on
//! slot    4 number of the buffer, 2 length, 2 flags, 8 pointer (or, if asked for, the offset of the packet in its buffer)
//! ```

/// Version of the interface that this file describes.
pub(crate) const API: u16 = 14;
/// The control device.
pub(crate) const DEVICE: &str = "/dev/netmap";
/// Bytes for the name of a port, with the zero behind it.
pub(crate) const NAME_BYTES: usize = 64;

/// `NIOCCTRL`: `_IOWR('i', 151, struct nmreq_header)`.
pub(crate) const CONTROL: libc::c_ulong = 0xc000_0000 | (size_of::<Header>() as libc::c_ulong) << 16 | ioctl(151);
/// `NIOCTXSYNC`: `_IO('i', 148)`, without what a system adds to requests that have no argument.
pub(crate) const TX_SYNC: libc::c_ulong = ioctl(148);
/// `NIOCRXSYNC`: `_IO('i', 149)`, without that.
pub(crate) const RX_SYNC: libc::c_ulong = ioctl(149);

const fn ioctl(number: u8) -> libc::c_ulong {
    (b'i' as libc::c_ulong) << 8 | number as libc::c_ulong
}

/// `NETMAP_REQ_REGISTER`: binds a descriptor to rings of a port.
pub(crate) const REGISTER: u16 = 1;

/// `NETMAP_REQ_POOLS_INFO_GET`: where the buffers of a port's area lie.
pub(crate) const POOLS_INFO: u16 = 12;

/// `NR_REG_NULL`: no ring, but the port's area, and extra buffers of it.
pub(crate) const NO_RINGS: u32 = 7;
/// `NR_REG_ALL_NIC`: all rings of the interface.
pub(crate) const ALL_RINGS: u32 = 1;
/// `NR_REG_ONE_NIC`: one ring pair of the interface.
pub(crate) const ONE_RING: u32 = 4;
/// `NR_REG_ONE_SW`: one ring pair of the host's stack.
pub(crate) const ONE_HOST_RING: u32 = 8;

/// `NR_MONITOR_TX`, `NR_MONITOR_RX`, `NR_ZCOPY_MON`: this port gets copies of the packets of another one.
pub(crate) const MONITOR_TX: u64 = 0x100;
pub(crate) const MONITOR_RX: u64 = 0x200;
pub(crate) const MONITOR_ZERO_COPY: u64 = 0x400;
/// `NR_EXCLUSIVE`: nobody else may bind the rings.
pub(crate) const EXCLUSIVE: u64 = 0x800;
/// `NR_RX_RINGS_ONLY`, `NR_TX_RINGS_ONLY`.
pub(crate) const RX_RINGS_ONLY: u64 = 0x2000;
pub(crate) const TX_RINGS_ONLY: u64 = 0x4000;

/// `NS_BUF_CHANGED`: the slot has another buffer than before.
pub(crate) const BUFFER_CHANGED: u16 = 0x0001;
/// `NS_REPORT`: the driver says soon that this slot was sent.
pub(crate) const REPORT: u16 = 0x0002;
/// `NS_MOREFRAG`: the packet goes on in the next slot.
pub(crate) const MORE_FRAGMENTS: u16 = 0x0020;
/// `NETMAP_MAX_FRAGS`: slots of one packet, at most.
pub(crate) const FRAGMENTS_MAX: usize = 64;

/// Buffers 0 and 1 of an area stand for "none" in the kernel.
pub(crate) const FIRST_BUFFER: u32 = 2;

/// `struct nmreq_header`.
#[repr(C)]
pub(crate) struct Header {
    pub version: u16,
    pub request: u16,
    pub reserved: u32,
    pub name: [u8; NAME_BYTES],
    /// Address of the first option, or 0.
    pub options: u64,
    /// Address of the body.
    pub body: u64,
}

impl Header {
    /// A header of no request.
    pub(crate) const EMPTY: Header =
        Header { version: 0, request: 0, reserved: 0, name: [0; NAME_BYTES], options: 0, body: 0 };
}

/// `struct nmreq_register`. What is 0 is the kernel's to choose; it writes back what it chose.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Register {
    /// Place of the interface header in the area.
    pub offset: u64,
    /// Bytes of the area.
    pub area_bytes: u64,
    pub tx_slots: u32,
    pub rx_slots: u32,
    pub tx_rings: u16,
    pub rx_rings: u16,
    pub host_tx_rings: u16,
    pub host_rx_rings: u16,
    /// Number of the area; 1 is the one that interfaces share.
    pub memory: u16,
    pub ring: u16,
    pub mode: u32,
    pub extra_buffers: u32,
    pub flags: u64,
}

/// `struct nmreq_pools_info`: the pools of an area, of which interface headers, rings and buffers are made.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolsInfo {
    /// Bytes of the area.
    pub area_bytes: u64,
    /// Number of the area.
    pub memory: u16,
    pub reserved: [u16; 3],
    pub interfaces_offset: u64,
    pub interfaces: u32,
    pub interface_bytes: u32,
    pub rings_offset: u64,
    pub rings: u32,
    pub ring_bytes: u32,
    /// Place of buffer 0 in the area.
    pub buffers_offset: u64,
    pub buffers: u32,
    pub buffer_bytes: u32,
}

/// Places in `struct netmap_if`.
pub(crate) mod interface {
    /// Number of the first extra buffer; each begins with the number of the next one, and 0 ends the list.
    pub(crate) const FIRST_EXTRA: usize = 32;
    pub(crate) const TX_RINGS: usize = 24;
    pub(crate) const RX_RINGS: usize = 28;
    pub(crate) const HOST_TX_RINGS: usize = 36;
    pub(crate) const HOST_RX_RINGS: usize = 40;
    pub(crate) const RING_PLACES: usize = 56;
}

/// Places in `struct netmap_ring`.
pub(crate) mod ring {
    pub(crate) const BUFFERS: usize = 0;
    pub(crate) const SLOTS: usize = 8;
    pub(crate) const BUFFER_BYTES: usize = 12;
    pub(crate) const HEAD: usize = 20;
    pub(crate) const CUR: usize = 24;
    pub(crate) const TAIL: usize = 28;
    pub(crate) const OFFSET_MASK: usize = 56;
    pub(crate) const FIRST_SLOT: usize = 256;
    /// Bytes of a slot.
    pub(crate) const SLOT_BYTES: usize = 16;
}

/// The first word of a slot in memory: buffer, length and flags, in this order of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotWord {
    pub buffer: u32,
    pub len: u16,
    pub flags: u16,
}

impl SlotWord {
    /// The fields of eight bytes of memory.
    #[inline]
    pub(crate) fn of(word: u64) -> SlotWord {
        let [b0, b1, b2, b3, l0, l1, f0, f1] = word.to_ne_bytes();
        SlotWord {
            buffer: u32::from_ne_bytes([b0, b1, b2, b3]),
            len: u16::from_ne_bytes([l0, l1]),
            flags: u16::from_ne_bytes([f0, f1]),
        }
    }

    /// The eight bytes as they stand in memory.
    #[inline]
    pub(crate) fn word(self) -> u64 {
        let ([b0, b1, b2, b3], [l0, l1], [f0, f1]) =
            (self.buffer.to_ne_bytes(), self.len.to_ne_bytes(), self.flags.to_ne_bytes());
        u64::from_ne_bytes([b0, b1, b2, b3, l0, l1, f0, f1])
    }
}

// As a C compiler has them, on both systems.
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Header>() == 88 && offset_of!(Header, name) == 8);
    assert!(offset_of!(Header, options) == 72 && offset_of!(Header, body) == 80);
    assert!(
        size_of::<Register>() == 56 && offset_of!(Register, tx_slots) == 16 && offset_of!(Register, tx_rings) == 24
    );
    assert!(offset_of!(Register, memory) == 32 && offset_of!(Register, ring) == 34 && offset_of!(Register, mode) == 36);
    assert!(offset_of!(Register, extra_buffers) == 40 && offset_of!(Register, flags) == 48);
    assert!(size_of::<PoolsInfo>() == 64 && offset_of!(PoolsInfo, buffers_offset) == 48);
    assert!(CONTROL == 0xc058_6997 && TX_SYNC == 0x6994 && RX_SYNC == 0x6995);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_bytes_in_their_order() {
        let slot = SlotWord { buffer: 0x0403_0201, len: 0x0605, flags: 0x0807 };
        let bytes = slot.word().to_ne_bytes();
        let wanted: Vec<u8> =
            [&slot.buffer.to_ne_bytes()[..], &slot.len.to_ne_bytes(), &slot.flags.to_ne_bytes()].concat();
        assert_eq!(bytes[..], wanted[..]);
        assert_eq!(SlotWord::of(u64::from_ne_bytes(bytes)), slot);
    }
}
