//! AF_PACKET by system calls (packet(7), linux/if_packet.h): the socket, the mapped receive ring, batched sending.
//!
//! Everything offered here is safe to call with any argument: offsets into the ring are checked, and what is read from it is
//! copied out first.
#![allow(unsafe_code)]

mod messages;

use linerate_sys::checked;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_void};

pub(crate) use messages::{MESSAGES_MAX, Messages, SLOTS_MAX};

/// An AF_PACKET socket for whole frames (`SOCK_RAW`). It receives nothing before [`Socket::bind`].
pub(crate) struct Socket {
    fd: OwnedFd,
}

/// How the ring is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingShape {
    /// Bytes of a block, a power of two and a multiple of the page size.
    pub block_bytes: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// The kernel hands over a block that is not full after this many milliseconds.
    pub retire_ms: u32,
    /// Each block is of one packet, and the kernel hands it over at once (version 2 of the ring). Blocks may be smaller
    /// than a page then.
    pub prompt: bool,
}

/// What PACKET_STATISTICS tells since the last call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RingCounts {
    /// Packets that passed the filter, those among them that found no room.
    pub packets: u64,
    /// Packets that found no room in the ring.
    pub drops: u64,
    /// Times that the ring was full and the kernel stopped filling it.
    pub freezes: u64,
}

impl Socket {
    pub(crate) fn new() -> io::Result<Socket> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: socket takes constants only. Protocol 0: no packet before bind.
        let fd = checked(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: `fd` was just made and belongs to nobody else.
        Ok(Socket { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Sets an option of level SOL_PACKET that is a number.
    pub(crate) fn set(&self, option: c_int, value: c_int) -> io::Result<()> {
        self.set_option(libc::SOL_PACKET, option, &value)
    }

    /// Room for frames on their way out; past the system's limit where this process may.
    pub(crate) fn set_send_buffer(&self, bytes: c_int) -> io::Result<()> {
        self.set_option(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
            .or_else(|_| self.set_option(libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes))
    }

    /// Room for packets beside the ring; past the system's limit where this process may.
    pub(crate) fn set_receive_buffer(&self, bytes: c_int) -> io::Result<()> {
        self.set_option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes)
            .or_else(|_| self.set_option(libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes))
    }

    /// Reads the oldest packet beside the ring into the pieces, one after the other, and returns its length, which may be more
    /// than they hold.
    #[inline]
    pub(crate) fn receive_copy(&self, pieces: &mut [&mut [u8]; 3]) -> io::Result<usize> {
        let mut parts =
            pieces.each_mut().map(|piece| libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() });
        // SAFETY: a plain C structure of integers and pointers; all zeros is a value of it.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len() as _);
        let mut receive = || {
            let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
            // SAFETY: the message names the parts, which name the bytes that the caller lends.
            let len = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut message, flags) };
            usize::try_from(len).map_err(|_| io::Error::last_os_error())
        };
        // A pending error of the socket comes first, once.
        receive().or_else(|_| receive())
    }

    /// Ties the socket to one interface. With `receive`, all of its packets go to the socket from here on.
    pub(crate) fn bind(&self, interface: u32, receive: bool) -> io::Result<()> {
        // SAFETY: sockaddr_ll is a plain C structure of integers; all zeros is a value of it.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = if receive { (libc::ETH_P_ALL as u16).to_be() } else { 0 };
        address.sll_ifindex = interface as c_int;
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is valid for reading its length.
        check(unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) })
    }

    /// Makes the interface take packets for other addresses as long as this socket lives.
    pub(crate) fn join_promiscuous(&self, interface: u32) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: interface as c_int,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set_option(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Shares the interface's packets with the other sockets of `group` (a fanout mode of linux/if_packet.h).
    pub(crate) fn join_fanout(&self, group: u16, mode: u32) -> io::Result<()> {
        self.set(libc::PACKET_FANOUT, (u32::from(group) | mode << 16) as c_int)
    }

    /// Makes a group of its own, whose number the kernel chooses among the free ones of the namespace.
    pub(crate) fn join_new_fanout(&self, mode: u32) -> io::Result<u16> {
        self.set(libc::PACKET_FANOUT, ((mode | libc::PACKET_FANOUT_FLAG_UNIQUEID) << 16) as c_int)?;
        let mut group: c_int = 0;
        let mut len = size_of::<c_int>() as libc::socklen_t;
        let to = (&raw mut group).cast();
        // SAFETY: the integer is valid for writing `len` bytes.
        check(unsafe { libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, to, &mut len) })?;
        Ok(group as u16)
    }

    /// Takes only packets that `program` (classic BPF) returns other than 0 for; replaces an earlier one.
    pub(crate) fn set_filter(&self, program: &[libc::sock_filter]) -> io::Result<()> {
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
        self.set_option(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
    }

    /// Takes every packet again.
    pub(crate) fn remove_filter(&self) -> io::Result<()> {
        self.set_option(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0_i32)
    }

    /// Makes and maps the receive ring.
    pub(crate) fn map_ring(&self, shape: RingShape) -> io::Result<Mapping> {
        if shape.prompt {
            self.set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as c_int)?;
            let pages_bytes = shape.block_bytes.max(PAGE_BYTES);
            let request = libc::tpacket_req {
                tp_block_size: pages_bytes as u32,
                tp_block_nr: (shape.block_bytes * shape.blocks / pages_bytes) as u32,
                tp_frame_size: shape.block_bytes as u32,
                tp_frame_nr: shape.blocks as u32,
            };
            self.set_option(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
            return Mapping::new(self.fd.as_fd(), shape.block_bytes * shape.blocks);
        }
        self.set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V3 as c_int)?;
        // Frames have no fixed size in version 3; the kernel only wants the product to be right.
        const FRAME_BYTES: usize = 2048;
        let request = libc::tpacket_req3 {
            tp_block_size: shape.block_bytes as u32,
            tp_block_nr: shape.blocks as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (shape.block_bytes / FRAME_BYTES * shape.blocks) as u32,
            tp_retire_blk_tov: shape.retire_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        self.set_option(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        Mapping::new(self.fd.as_fd(), shape.block_bytes * shape.blocks)
    }

    /// Reads and clears the ring's counters.
    pub(crate) fn take_counts(&self) -> io::Result<RingCounts> {
        // SAFETY: three integers; all zeros is a value.
        let mut counts: libc::tpacket_stats_v3 = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&counts) as libc::socklen_t;
        let to = (&raw mut counts).cast();
        // SAFETY: the structure is valid for writing `len` bytes.
        check(unsafe {
            libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, to, &mut len)
        })?;
        let (packets, drops) = (counts.tp_packets.into(), counts.tp_drops.into());
        Ok(RingCounts { packets, drops, freezes: counts.tp_freeze_q_cnt.into() })
    }

    /// Reads and clears the socket's pending error.
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        let mut errno: c_int = 0;
        let mut len = size_of::<c_int>() as libc::socklen_t;
        let to = (&raw mut errno).cast();
        // SAFETY: the integer is valid for writing `len` bytes.
        check(unsafe { libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, to, &mut len) })?;
        Ok((errno != 0).then(|| io::Error::from_raw_os_error(errno)))
    }

    fn set_option<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let len = size_of::<T>() as libc::socklen_t;
        let from: *const c_void = (value as *const T).cast();
        // SAFETY: the value is valid for reading its own size; pointers inside it (a filter's) are valid for this call.
        check(unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, option, from, len) })
    }
}

impl AsFd for Socket {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[inline]
fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What rings are made of.
pub(crate) const PAGE_BYTES: usize = 4096;

/// What matters of `struct tpacket3_hdr` and `struct tpacket2_hdr`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketHeader {
    /// Distance of the next packet's header; 0 in version 2.
    pub next: u32,
    /// Timestamp since 1970.
    pub seconds: u32,
    pub nanoseconds: u32,
    /// Bytes in the ring, and of the whole packet.
    pub stored: u32,
    pub whole: u32,
    /// `TP_STATUS_*`.
    pub status: u32,
    /// Distance of the frame.
    pub mac_at: u16,
    pub vlan_tci: u32,
    pub vlan_tpid: u16,
}

/// The receive ring in memory that the kernel shares.
///
/// ```text
/// block    | version, offset to private area | status  packets  first  ... | packet | packet | ...
/// packet   | struct tpacket3_hdr (48) | sockaddr_ll | pad | frame from its Ethernet header on (at tp_mac) |
/// status   KERNEL (0): the kernel writes the block; USER: this process reads it, then stores KERNEL
/// ```
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone; the kernel's side is the same from every thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(Mapping { base, bytes })
    }

    /// Loads the word at `offset` so that what was written before it can be read after; `None` outside the mapping.
    #[inline]
    pub(crate) fn load_acquire(&self, offset: usize) -> Option<u32> {
        Some(self.word(offset)?.load(Ordering::Acquire))
    }

    /// Stores the word at `offset` after all that was read before; nothing happens outside the mapping.
    #[inline]
    pub(crate) fn store_release(&self, offset: usize, value: u32) {
        if let Some(word) = self.word(offset) {
            word.store(value, Ordering::Release);
        }
    }

    #[inline]
    fn word(&self, offset: usize) -> Option<&AtomicU32> {
        let at = self.place(offset, size_of::<u32>())?;
        // SAFETY: inside the mapping, aligned (checked by `place`), and shared with the kernel as an atomic word only.
        Some(unsafe { AtomicU32::from_ptr(at.cast()) })
    }

    /// Copies out the packet header at `offset`; `None` when it is not wholly inside the mapping, or not aligned.
    #[inline]
    pub(crate) fn packet_header(&self, offset: usize) -> Option<PacketHeader> {
        let at = self.place(offset, size_of::<libc::tpacket3_hdr>())?.cast::<libc::tpacket3_hdr>();
        // SAFETY: inside the mapping and aligned; any bytes are a value of these integers. Volatile: each is read once, and
        // only what was read is looked at.
        unsafe {
            Some(PacketHeader {
                next: (&raw const (*at).tp_next_offset).read_volatile(),
                seconds: (&raw const (*at).tp_sec).read_volatile(),
                nanoseconds: (&raw const (*at).tp_nsec).read_volatile(),
                stored: (&raw const (*at).tp_snaplen).read_volatile(),
                whole: (&raw const (*at).tp_len).read_volatile(),
                status: (&raw const (*at).tp_status).read_volatile(),
                mac_at: (&raw const (*at).tp_mac).read_volatile(),
                vlan_tci: (&raw const (*at).hv1.tp_vlan_tci).read_volatile(),
                vlan_tpid: (&raw const (*at).hv1.tp_vlan_tpid).read_volatile(),
            })
        }
    }

    /// As [`Mapping::packet_header`], for a block of a single packet (version 2).
    #[inline]
    pub(crate) fn single_header(&self, offset: usize) -> Option<PacketHeader> {
        let at = self.place(offset, size_of::<libc::tpacket2_hdr>())?.cast::<libc::tpacket2_hdr>();
        // SAFETY: as in `packet_header`.
        unsafe {
            Some(PacketHeader {
                next: 0,
                seconds: (&raw const (*at).tp_sec).read_volatile(),
                nanoseconds: (&raw const (*at).tp_nsec).read_volatile(),
                stored: (&raw const (*at).tp_snaplen).read_volatile(),
                whole: (&raw const (*at).tp_len).read_volatile(),
                status: (&raw const (*at).tp_status).read_volatile(),
                mac_at: (&raw const (*at).tp_mac).read_volatile(),
                vlan_tci: (&raw const (*at).tp_vlan_tci).read_volatile().into(),
                vlan_tpid: (&raw const (*at).tp_vlan_tpid).read_volatile(),
            })
        }
    }

    /// Hints to the core that the line at `offset` will be read. No effect but on time, also outside the mapping.
    #[inline]
    pub(crate) fn prefetch(&self, offset: usize) {
        linerate_mem::prefetch_address(self.base.as_ptr().wrapping_add(offset).cast());
    }

    /// Copies the bytes at `offset` into `to`; false when they are not wholly inside the mapping.
    #[inline]
    pub(crate) fn copy(&self, offset: usize, to: &mut [u8]) -> bool {
        if !self.inside(offset, to.len()) {
            return false;
        }
        // SAFETY: the source is inside the mapping, the target is a live slice, and they cannot overlap, since nobody else
        // hands out slices of the mapping.
        unsafe { copy_bytes(self.base.as_ptr().add(offset), to.as_mut_ptr(), to.len()) };
        true
    }

    #[inline]
    fn place(&self, offset: usize, len: usize) -> Option<*mut u8> {
        if !self.inside(offset, len) || !offset.is_multiple_of(align_of::<libc::tpacket3_hdr>()) {
            return None;
        }
        // SAFETY: inside the mapping.
        Some(unsafe { self.base.as_ptr().add(offset) })
    }

    #[inline]
    fn inside(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.bytes)
    }
}

/// Copies `len` bytes. Lengths of short packets are copied in two halves of a fixed length, which overlap in the middle: that takes
/// a few instructions instead of a call.
///
/// # Safety
/// Both places have `len` bytes and do not overlap.
#[inline]
unsafe fn copy_bytes(from: *const u8, to: *mut u8, len: usize) {
    /// # Safety
    /// As `copy_bytes`, and `N <= len <= 2 * N`.
    #[inline(always)]
    unsafe fn halves<const N: usize>(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: both halves end at `len` at the latest.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, N);
            std::ptr::copy_nonoverlapping(from.add(len - N), to.add(len - N), N);
        }
    }
    // SAFETY: the caller's promise, and the lengths that each arm is for.
    unsafe {
        match len {
            32..=64 => halves::<32>(from, to, len),
            65..=128 => halves::<64>(from, to, len),
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this size and nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
impl Mapping {
    /// The same ordinary memory mapped twice, for tests that write rings by themselves.
    #[inline]
    pub(crate) fn pair(bytes: usize) -> (Mapping, Mapping) {
        // SAFETY: the name is a terminated string.
        let fd = unsafe { libc::memfd_create(c"ring".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: `fd` was just made and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: takes a descriptor and a number.
        assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), bytes as i64) }, 0);
        (Mapping::new(fd.as_fd(), bytes).unwrap(), Mapping::new(fd.as_fd(), bytes).unwrap())
    }

    #[inline]
    pub(crate) fn write(&mut self, offset: usize, from: &[u8]) {
        assert!(self.inside(offset, from.len()));
        // SAFETY: inside the mapping; the other mapping of these bytes is used by the same thread.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.base.as_ptr().add(offset), from.len()) };
    }
}
