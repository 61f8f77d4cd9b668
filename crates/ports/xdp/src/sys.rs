//! Everything unsafe of this backend: system calls on the socket, and the rings' shared memory.
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use linerate_mem::Region;

use crate::abi::{self, Descriptor, RingKind};
use crate::placement::Placement;

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
    /// [`crate::loans::Loans`] lends to it through the rings.
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

    /// Has the device's NAPI run in the calls of this socket, `budget` packets in each, instead of in softirqs, as far as the interface
    /// defers its interrupts (`Documentation/networking/napi.rst`, "Software IRQ coalescing").
    pub(crate) fn prefer_busy_poll(&self, budget: u32) -> io::Result<()> {
        self.set_option(libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, &1i32)?;
        self.set_option(libc::SOL_SOCKET, libc::SO_BUSY_POLL, &abi::BUSY_POLL_US)?;
        self.set_option(libc::SOL_SOCKET, libc::SO_BUSY_POLL_BUDGET, &budget)
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
