//! Everything unsafe of this backend: system calls on the socket, the rings' shared memory, and the custody of frames.
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use linerate_mem::{Batch, Pool, Region, Slot};

use crate::abi::{self, Descriptor, RingKind};
use crate::umem::{Placement, ReleaseProbe};

/// An AF_XDP socket.
#[derive(Debug)]
pub(crate) struct XdpSocket {
    fd: OwnedFd,
}

impl XdpSocket {
    /// A socket of the calling thread's network namespace.
    pub(crate) fn new() -> io::Result<XdpSocket> {
        // SAFETY: socket takes constants only.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just made and belongs to nobody else.
        Ok(XdpSocket { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Makes `region` the socket's UMEM, one chunk a frame. The kernel pins the pages, and uses of them only the frames that
    /// [`Custody`] lends to it through the rings.
    pub(crate) fn register(&self, region: &Region, placement: Placement) -> io::Result<()> {
        let registration = libc::xdp_umem_reg {
            addr: region.base() as u64,
            len: region.bytes() as u64,
            chunk_size: region.frame_size() as u32,
            headroom: placement.headroom(),
            flags: placement.flags(),
            tx_metadata_len: 0,
        };
        self.set_option(abi::SOL_XDP, libc::XDP_UMEM_REG, &registration)
    }

    /// Makes a ring of `entries` places, a power of two.
    pub(crate) fn create_ring(&self, kind: RingKind, entries: u32) -> io::Result<()> {
        self.set_option(abi::SOL_XDP, kind.option(), &entries)
    }

    /// Maps a ring that [`XdpSocket::create_ring`] made with this many entries. The mapping keeps the socket alive.
    pub(crate) fn map_ring<C: Cell>(&self, kind: RingKind, entries: u32) -> io::Result<RingMemory<C>> {
        // SAFETY: a structure of integers, for which all zeros is a value.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        let len = self.get_option(libc::XDP_MMAP_OFFSETS, &mut offsets)?;
        if len != size_of_val(&offsets) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel is older than 5.4"));
        }
        RingMemory::map(self.fd.as_fd(), kind.page_offset(), kind.layout(&offsets), entries)
    }

    /// Binds to queue `queue` of interface `ifindex`, with `XDP_*` flags.
    pub(crate) fn bind(&self, ifindex: u32, queue: u32, flags: u16) -> io::Result<()> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: ifindex,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is a valid sockaddr_xdp of the length given.
        check(unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) })
    }

    /// Whether the driver reads and writes the frames itself.
    pub(crate) fn is_zero_copy(&self) -> io::Result<bool> {
        let mut options = libc::xdp_options { flags: 0 };
        self.get_option(libc::XDP_OPTIONS, &mut options)?;
        Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// The socket's counters.
    pub(crate) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        // SAFETY: a structure of integers, for which all zeros is a value.
        let mut statistics: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        self.get_option(libc::XDP_STATISTICS, &mut statistics)?;
        Ok(statistics)
    }

    /// Lets one [`XdpSocket::kick_transmit`] send up to `packets` packets in copy mode.
    pub(crate) fn set_transmit_budget(&self, packets: u32) -> io::Result<()> {
        self.set_option(abi::SOL_XDP, abi::XDP_MAX_TX_SKB_BUDGET, &packets)
    }

    /// Lets `bytes` of skbs be on their way in copy mode: beyond the system's limit if the process may, else up to it.
    pub(crate) fn set_send_buffer(&self, bytes: libc::c_int) -> io::Result<()> {
        self.set_option(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
            .or_else(|_| self.set_option(libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes))
    }

    /// Tells the kernel that there is something in the transmit ring. In copy mode the packets are sent within the call.
    pub(crate) fn kick_transmit(&self) -> io::Result<()> {
        // SAFETY: no buffer and no address are given.
        let sent =
            unsafe { libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        check(sent as libc::c_int)
    }

    /// Tells the kernel that there is something in the fill ring. Also says whether the interface is still there and up.
    pub(crate) fn kick_receive(&self) -> io::Result<()> {
        let (buffer, address) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: no buffer and no address are given.
        let received = unsafe {
            libc::recvfrom(self.fd.as_raw_fd(), buffer, 0, libc::MSG_DONTWAIT, address, std::ptr::null_mut())
        };
        check(received as libc::c_int)
    }

    fn set_option<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        let len = size_of::<T>() as libc::socklen_t;
        let value = std::ptr::from_ref(value).cast();
        // SAFETY: the value is live and as long as said; the options used here read it and, but for the UMEM's memory
        // (see `register`), follow no pointer.
        check(unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, option, value, len) })
    }

    fn get_option<T>(&self, option: libc::c_int, value: &mut T) -> io::Result<usize> {
        let mut len = size_of::<T>() as libc::socklen_t;
        let value = std::ptr::from_mut(value).cast();
        // SAFETY: the value is live, as long as said, and one of the plain structures of integers used above.
        check(unsafe { libc::getsockopt(self.fd.as_raw_fd(), abi::SOL_XDP, option, value, &mut len) })?;
        Ok(len as usize)
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sleeps until one of the sockets has something to read (or, with `writing`, room to write), `timeout_ns` is over, or a
/// signal arrives; true in the first case.
pub(crate) fn poll<'a>(
    sockets: impl Iterator<Item = &'a XdpSocket>,
    writing: bool,
    timeout_ns: u64,
) -> io::Result<bool> {
    let events = if writing { libc::POLLOUT } else { libc::POLLIN };
    let entry = |socket: &XdpSocket| libc::pollfd { fd: socket.fd.as_raw_fd(), events, revents: 0 };
    let mut entries: Vec<libc::pollfd> = sockets.map(entry).collect();
    let timeout = libc::timespec {
        tv_sec: i64::try_from(timeout_ns / 1_000_000_000).unwrap_or(i64::MAX) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    let count = entries.len() as libc::nfds_t;
    // SAFETY: the entries and the time are valid for the call; there is no signal mask.
    match unsafe { libc::ppoll(entries.as_mut_ptr(), count, &timeout, std::ptr::null()) } {
        0.. => Ok(entries.iter().any(|entry| entry.revents != 0)),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What a ring is made of.
///
/// # Safety
/// Any bytes are a value of the type, and it may be written by others at any time (it is made of atomics).
pub(crate) unsafe trait Cell {}

// SAFETY: an atomic integer.
unsafe impl Cell for AtomicU64 {}

/// `struct xdp_desc` in shared memory.
#[repr(C)]
pub(crate) struct DescriptorCell {
    address: AtomicU64,
    len: AtomicU32,
    options: AtomicU32,
}

// SAFETY: three atomic integers without padding.
unsafe impl Cell for DescriptorCell {}

impl DescriptorCell {
    /// The descriptor, each field read once.
    #[inline]
    pub(crate) fn read(&self) -> Descriptor {
        Descriptor {
            address: self.address.load(Ordering::Relaxed),
            len: self.len.load(Ordering::Relaxed),
            options: self.options.load(Ordering::Relaxed),
        }
    }

    #[inline]
    pub(crate) fn write(&self, descriptor: Descriptor) {
        self.address.store(descriptor.address, Ordering::Relaxed);
        self.len.store(descriptor.len, Ordering::Relaxed);
        self.options.store(descriptor.options, Ordering::Relaxed);
    }
}

/// A ring's memory, shared with the kernel. Unmapped on drop.
///
/// ```text
///   producer u32 | consumer u32 | flags u32 | cells[entries]        each at an offset that the kernel names
/// ```
pub(crate) struct RingMemory<C> {
    base: NonNull<u8>,
    bytes: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    cells: NonNull<C>,
    mask: u32,
    _cells: PhantomData<C>,
}

// SAFETY: the mapping belongs to the process, and all access to it is atomic.
unsafe impl<C: Cell> Send for RingMemory<C> {}

impl<C: Cell> RingMemory<C> {
    fn map(fd: BorrowedFd<'_>, place: libc::off64_t, at: libc::xdp_ring_offset, entries: u32) -> io::Result<Self> {
        let cells_bytes = entries as usize * size_of::<C>();
        let end = |offset: u64, bytes: usize| usize::try_from(offset).ok().and_then(|at| at.checked_add(bytes));
        let ends = [end(at.producer, 4), end(at.consumer, 4), end(at.flags, 4), end(at.desc, cells_bytes)];
        let bytes = ends.into_iter().try_fold(0, |most, end| end.map(|end| most.max(end)));
        let aligned =
            at.desc.is_multiple_of(align_of::<C>() as u64) && (at.producer | at.consumer | at.flags).is_multiple_of(4);
        let (Some(bytes), true, true) = (bytes, aligned, entries.is_power_of_two()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel named an impossible ring layout"));
        };
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let base = unsafe { libc::mmap64(std::ptr::null_mut(), bytes, protection, flags, fd.as_raw_fd(), place) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base: NonNull<u8> = NonNull::new(base.cast()).ok_or(io::Error::from_raw_os_error(libc::ENOMEM))?;
        // SAFETY: the offset was checked to lie inside the mapping.
        let part = |offset: u64| unsafe { base.add(offset as usize) };
        Ok(RingMemory {
            base,
            bytes,
            producer: part(at.producer).cast(),
            consumer: part(at.consumer).cast(),
            flags: part(at.flags).cast(),
            cells: part(at.desc).cast(),
            mask: entries - 1,
            _cells: PhantomData,
        })
    }

    /// Places in the ring.
    #[inline]
    pub(crate) fn entries(&self) -> u32 {
        self.mask + 1
    }

    /// Index of the next place to be written; whoever takes out reads it.
    #[inline]
    pub(crate) fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping, aligned, and shared as an atomic.
        unsafe { self.producer.as_ref() }
    }

    /// Index of the next place to be read; whoever puts in reads it.
    #[inline]
    pub(crate) fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as in `producer`.
        unsafe { self.consumer.as_ref() }
    }

    /// [`abi::NEED_WAKEUP`] or 0.
    #[inline]
    pub(crate) fn flags(&self) -> &AtomicU32 {
        // SAFETY: as in `producer`.
        unsafe { self.flags.as_ref() }
    }

    /// The cell of an index, which wraps.
    #[inline]
    pub(crate) fn cell(&self, index: u32) -> &C {
        // SAFETY: the mask keeps the cell inside the array that `map` checked to be inside the mapping.
        unsafe { self.cells.add((index & self.mask) as usize).as_ref() }
    }

    /// A ring that no kernel knows, with both indices at `start`.
    #[cfg(test)]
    pub(crate) fn detached(entries: u32, start: u32) -> RingMemory<C> {
        let file = tempfile_of(1 << 20);
        let layout = libc::xdp_ring_offset { producer: 0, consumer: 64, flags: 128, desc: 192 };
        let memory = RingMemory::map(file.as_fd(), 0, layout, entries).expect("a mapping of a file");
        memory.producer().store(start, Ordering::Relaxed);
        memory.consumer().store(start, Ordering::Relaxed);
        memory
    }
}

#[cfg(test)]
fn tempfile_of(bytes: u64) -> std::fs::File {
    // SAFETY: a terminated name and a constant.
    let fd = unsafe { libc::memfd_create(c"ring".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0);
    // SAFETY: `fd` was just made and belongs to nobody else.
    let file = unsafe { std::fs::File::from_raw_fd(fd) };
    file.set_len(bytes).expect("a file in memory");
    file
}

impl<C> Drop for RingMemory<C> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and no borrow of it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// What the kernel wrote that cannot be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Corrupt(pub(crate) String);

/// A frame that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completed {
    /// Bytes of the packet in it.
    pub(crate) len: u32,
    /// It held the end of its packet.
    pub(crate) ends_packet: bool,
}

/// Which frames the kernel has, and for what. An address that the kernel names becomes a slot only if its frame was lent for
/// that purpose, so a wrong or repeated address can never make a second owner of a frame.
///
/// Dropped after its socket (the fields of `Queue` are in that order), it returns the frames that the kernel still had.
pub(crate) struct Custody {
    pool: Pool,
    /// A mark for each frame: 0, or [`LENT_TO_RECEIVE`], or [`LENT_TO_SEND`] with the length.
    marks: Box<[u16]>,
    placement: Placement,
    /// Set when the device itself reads and writes frames, which it may do for a while after the socket is closed.
    pub(crate) release: Option<ReleaseProbe>,
}

const LENGTH: u16 = 0x1fff;
const LENT_TO_RECEIVE: u16 = 1 << 13;
const LENT_TO_SEND: u16 = 1 << 14;
const ENDS_PACKET: u16 = 1 << 15;
const _: () = assert!(abi::CHUNK_BYTES_MAX <= LENGTH as usize);

impl Custody {
    /// Bytes of a frame.
    pub(crate) fn frame_bytes(&self) -> u64 {
        self.pool.region().frame_size() as u64
    }

    pub(crate) fn new(pool: &Pool, placement: Placement) -> Custody {
        let frames = pool.region().frames() as usize;
        Custody { pool: pool.clone(), marks: vec![0; frames].into(), placement, release: None }
    }

    /// True when the batch's packets are in the frames of this pool.
    #[inline]
    pub(crate) fn is_of(&self, batch: &Batch) -> bool {
        batch.is_of(self.pool.region())
    }

    /// Lends a free frame to receive into, and returns its address; `None` when the pool is empty.
    #[inline]
    pub(crate) fn lend_to_receive(&mut self) -> Option<u64> {
        let slot = self.pool.alloc_slot(0)?;
        let (frame, offset) = (slot.frame(), slot.offset());
        self.marks[frame as usize] = LENT_TO_RECEIVE;
        slot.into_word();
        Some(self.placement.chunk_address(self.pool.region().frame_start(frame) as u64, offset))
    }

    /// Lends the first slot of the batch to be sent. `None` for an empty batch or one of another region.
    #[inline]
    pub(crate) fn lend_to_send(&mut self, batch: &mut Batch) -> Option<Descriptor> {
        if !self.is_of(batch) {
            return None;
        }
        let slot = batch.pop_front()?;
        let (frame, more) = (slot.frame(), slot.more());
        let address = self.pool.region().frame_start(frame) as u64 + u64::from(slot.offset());
        let (len, end) = (slot.len(), if more { 0 } else { ENDS_PACKET });
        self.marks[frame as usize] = LENT_TO_SEND | end | len & LENGTH;
        slot.into_word();
        Some(Descriptor { address, len: len.into(), options: if more { abi::PACKET_CONTINUES } else { 0 } })
    }

    /// Takes back a frame that was received into, as the last slot of the batch, which must have room.
    #[inline]
    pub(crate) fn receive_into(&mut self, batch: &mut Batch, from: Descriptor) -> Result<(), Corrupt> {
        let slot = self.take_received(from)?;
        assert!(self.is_of(batch), "the caller checked the batch");
        // SAFETY: the slot is of the pool's region, and so is the batch.
        unsafe { batch.push(slot.with_more(from.options & abi::PACKET_CONTINUES != 0)) };
        Ok(())
    }

    /// Takes back a frame that was received into, for the pool.
    pub(crate) fn discard(&mut self, from: Descriptor) -> Result<(), Corrupt> {
        let slot = self.take_received(from)?;
        // SAFETY: the slot is of this pool's region.
        unsafe { self.pool.free_slot(slot) };
        Ok(())
    }

    #[inline]
    fn take_received(&mut self, from: Descriptor) -> Result<Slot, Corrupt> {
        let size = self.pool.region().frame_size() as u64;
        let address = self.placement.packet_address(from.address);
        // A frame's size is a power of two.
        let (frame, offset) = (address >> size.trailing_zeros(), address & (size - 1));
        let mark = usize::try_from(frame).ok().and_then(|frame| self.marks.get_mut(frame));
        match mark {
            Some(mark) if *mark == LENT_TO_RECEIVE && offset + u64::from(from.len) <= size => {
                *mark = 0;
                // SAFETY: the mark says that the frame was lent, so nobody owns it; it is one of the region's, and the
                // packet lies inside it.
                Ok(unsafe { Slot::new(frame as u32, offset as u16, from.len as u16) })
            }
            _ => Err(wrong_received(from)),
        }
    }

    /// Takes back a frame that was sent, for the pool.
    #[inline]
    pub(crate) fn complete(&mut self, address: u64) -> Result<Completed, Corrupt> {
        let frame = address / self.pool.region().frame_size() as u64;
        let mark = usize::try_from(frame).ok().and_then(|frame| self.marks.get_mut(frame));
        match mark {
            Some(mark) if *mark & LENT_TO_SEND != 0 => {
                let completed = Completed { len: (*mark & LENGTH).into(), ends_packet: *mark & ENDS_PACKET != 0 };
                *mark = 0;
                self.return_frame(frame as u32);
                Ok(completed)
            }
            _ => Err(wrong_completed(address)),
        }
    }

    /// Puts a frame whose mark was just cleared into the pool.
    #[inline]
    fn return_frame(&mut self, frame: u32) {
        // SAFETY: its mark said that the frame was lent, so nobody owns it; it is one of the region's.
        let slot = unsafe { Slot::new(frame, 0, 0) };
        // SAFETY: the slot is of this pool's region.
        unsafe { self.pool.free_slot(slot) };
    }
}

#[cold]
fn wrong_received(from: Descriptor) -> Corrupt {
    Corrupt(format!("a receive descriptor of {} bytes at {:#x}, which was not lent", from.len, from.address))
}

#[cold]
fn wrong_completed(address: u64) -> Corrupt {
    Corrupt(format!("a completion for address {address:#x}, which was not being sent"))
}

impl Drop for Custody {
    fn drop(&mut self) {
        if self.release.as_ref().is_some_and(|probe| !probe.wait()) {
            // Better to lose the frames than to hand out memory that a device writes to.
            return;
        }
        for frame in 0..self.marks.len() {
            if std::mem::take(&mut self.marks[frame]) != 0 {
                self.return_frame(frame as u32);
            }
        }
    }
}
