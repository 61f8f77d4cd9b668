//! Memory of a guest, its rings, and the system calls around them (mmap(2), epoll(7), unix(7)).
//!
//! Everything offered here is safe to call with any argument and whatever the guest does meanwhile: places are checked against
//! the mapping, each value is read once, and a page that the guest takes away (SIGBUS) is replaced, see [`linerate_sys::shared`].
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering, fence};

use libc::c_int;
use linerate_mem::{copy_bytes, prefetch_address, prefetch_address_to_write};

use linerate_sys::shared::SharedMapping;

/// Part of a guest's memory, mapped into this process.
#[derive(Debug)]
pub(crate) struct Mapping(SharedMapping);

impl Mapping {
    /// Maps `bytes` of `file` from `offset` on, a multiple of the file's page size.
    pub(crate) fn new(file: &File, offset: u64, bytes: usize) -> io::Result<Mapping> {
        SharedMapping::map_at(file.as_fd(), offset, bytes).map(Mapping)
    }

    /// True once the guest took pages of it away. What is read from then on are zeros, and the guest sees no write.
    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.0.is_lost()
    }

    /// `len` bytes from `offset` on; `None` when they do not lie in the mapping.
    #[inline]
    pub(crate) fn span(&self, offset: usize, len: usize) -> Option<Span<'_>> {
        if offset > self.0.bytes() || len > self.0.bytes() - offset {
            return None;
        }
        // SAFETY: `offset` is at most the mapping's size.
        Some(Span { start: unsafe { self.0.start().add(offset) }, len, mapping: PhantomData })
    }

    /// Address of `offset`, which is checked to have `len` bytes behind it and to be a multiple of `align` (mappings begin at
    /// a page).
    fn place(&self, offset: usize, len: usize, align: usize) -> Option<NonNull<u8>> {
        self.span(offset, len).map(|span| span.start).filter(|start| (start.as_ptr() as usize).is_multiple_of(align))
    }
}

/// Bytes of a guest. They may change at any time; they are only copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'m> {
    start: NonNull<u8>,
    len: usize,
    mapping: PhantomData<&'m Mapping>,
}

#[repr(C, packed)]
struct Unaligned<T: Copy>(T);

impl<'m> Span<'m> {
    /// A span of nothing.
    pub(crate) const EMPTY: Span<'static> = Span { start: NonNull::dangling(), len: 0, mapping: PhantomData };

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first `count` bytes (or all, if they are fewer), and the rest.
    #[inline]
    pub(crate) fn split(self, count: usize) -> (Span<'m>, Span<'m>) {
        let count = count.min(self.len);
        // SAFETY: `count` is at most the span's length.
        let rest = unsafe { self.start.add(count) };
        (Span { len: count, ..self }, Span { start: rest, len: self.len - count, ..self })
    }

    /// Copies as many bytes as both have, and returns how many.
    #[inline]
    pub(crate) fn read(self, into: &mut [u8]) -> usize {
        let len = self.len.min(into.len());
        // SAFETY: both have `len` bytes; a slice of ours and a guest's mapping do not overlap.
        unsafe { copy_bytes(self.start.as_ptr(), into.as_mut_ptr(), len) };
        len
    }

    /// Copies as many bytes as both have, and returns how many.
    #[inline]
    pub(crate) fn write(self, from: &[u8]) -> usize {
        let len = self.len.min(from.len());
        // SAFETY: as in `read`.
        unsafe { copy_bytes(from.as_ptr(), self.start.as_ptr(), len) };
        len
    }

    /// The first two bytes as one value, read once; `None` when there are fewer.
    #[inline]
    pub(crate) fn read_u16(self) -> Option<u16> {
        // SAFETY: the span has two bytes; a packed structure needs no alignment.
        (self.len >= 2).then(|| unsafe { self.start.cast::<Unaligned<u16>>().as_ptr().read_volatile().0 })
    }

    /// The first 16 bytes as two values, each read once; `None` when there are fewer.
    #[inline]
    pub(crate) fn read_u64_pair(self) -> Option<(u64, u64)> {
        let words = self.start.cast::<Unaligned<u64>>().as_ptr();
        // SAFETY: the span has 16 bytes; a packed structure needs no alignment.
        (self.len >= 16).then(|| unsafe { (words.read_volatile().0, words.add(1).read_volatile().0) })
    }

    /// Writes the first 12 bytes, when there are so many.
    #[inline]
    pub(crate) fn write_12(self, first: u64, rest: u32) {
        if self.len >= 12 {
            // SAFETY: the span has 12 bytes; a packed structure needs no alignment.
            unsafe {
                self.start.cast::<Unaligned<u64>>().as_ptr().write_volatile(Unaligned(first));
                self.start.add(8).cast::<Unaligned<u32>>().as_ptr().write_volatile(Unaligned(rest));
            }
        }
    }

    /// Asks for the lines of its first and its last byte of the first `len`, to be read.
    #[inline]
    pub(crate) fn prefetch(self, len: usize) {
        prefetch_address(self.start.as_ptr());
        prefetch_address(self.start.as_ptr().wrapping_add(len.min(2 * LINE)));
    }

    /// The same, to be written.
    #[inline]
    pub(crate) fn prefetch_to_write(self, len: usize) {
        prefetch_address_to_write(self.start.as_ptr());
        prefetch_address_to_write(self.start.as_ptr().wrapping_add(len.min(2 * LINE)));
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Where a part of a ring lies.
pub(crate) type Place = (Arc<Mapping>, usize);

/// The three parts of a split virtqueue (virtio 1.2, 2.7), in a guest's memory.
#[derive(Debug)]
pub(crate) struct SplitRing {
    descriptors: NonNull<u8>,
    available: NonNull<u8>,
    used: NonNull<u8>,
    size: u16,
    _mappings: [Arc<Mapping>; 3],
}

// SAFETY: the places lie in mappings that this value keeps alive; see `Mapping`.
unsafe impl Send for SplitRing {}

/// A descriptor, as the guest wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub address: u64,
    pub len: u32,
    pub flags: u16,
    pub next: u16,
}

impl Descriptor {
    /// From the two halves of its 16 bytes, which are little-endian.
    #[inline]
    pub(crate) fn from_halves((first, second): (u64, u64)) -> Descriptor {
        let (first, second) = (u64::from_le(first), u64::from_le(second));
        Descriptor { address: first, len: second as u32, flags: (second >> 32) as u16, next: (second >> 48) as u16 }
    }
}

/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR_BYTES: usize = 16;

impl SplitRing {
    /// Bytes of the descriptor table, of the available ring and of the used ring, the event fields included.
    pub(crate) fn part_bytes(size: u16) -> [usize; 3] {
        let size = usize::from(size);
        [DESCRIPTOR_BYTES * size, 6 + 2 * size, 6 + 8 * size]
    }

    /// A ring of `size` entries, a power of two; `None` when a part does not lie in its mapping or is not aligned.
    pub(crate) fn new(size: u16, parts: [Place; 3]) -> Option<SplitRing> {
        if !size.is_power_of_two() {
            return None;
        }
        let [table_bytes, available_bytes, used_bytes] = SplitRing::part_bytes(size);
        Some(SplitRing {
            descriptors: parts[0].0.place(parts[0].1, table_bytes, 16)?,
            available: parts[1].0.place(parts[1].1, available_bytes, 2)?,
            used: parts[2].0.place(parts[2].1, used_bytes, 4)?,
            size,
            _mappings: parts.map(|(mapping, _)| mapping),
        })
    }

    #[inline]
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    #[inline]
    fn masked(&self, index: u16) -> usize {
        usize::from(index & (self.size - 1))
    }

    /// Number `field` of the 16-bit fields of the available ring: flags, index, entries, event.
    #[inline]
    fn available(&self, field: usize) -> &AtomicU16 {
        // SAFETY: callers stay within the 3 + size fields that `new` checked; the place is aligned.
        unsafe { AtomicU16::from_ptr(self.available.cast::<u16>().add(field).as_ptr()) }
    }

    /// The 16-bit field of the used ring at `offset`.
    #[inline]
    fn used(&self, offset: usize) -> &AtomicU16 {
        // SAFETY: callers stay within the bytes that `new` checked, at even offsets; the place is aligned.
        unsafe { AtomicU16::from_ptr(self.used.add(offset).cast::<u16>().as_ptr()) }
    }

    /// What the driver says about notifications.
    #[inline]
    pub(crate) fn available_flags(&self) -> u16 {
        u16::from_le(self.available(0).load(Ordering::Relaxed))
    }

    /// How far the driver got; what lies before is written.
    #[inline]
    pub(crate) fn available_index(&self) -> u16 {
        u16::from_le(self.available(1).load(Ordering::Acquire))
    }

    /// Which descriptor the driver made available at `index`; may be any number.
    #[inline]
    pub(crate) fn available_entry(&self, index: u16) -> u16 {
        u16::from_le(self.available(2 + self.masked(index)).load(Ordering::Relaxed))
    }

    /// The used index at which the driver wants to be told.
    #[inline]
    pub(crate) fn used_event(&self) -> u16 {
        u16::from_le(self.available(2 + usize::from(self.size)).load(Ordering::Relaxed))
    }

    /// Descriptor `number`; `None` when the table has no such.
    #[inline]
    pub(crate) fn descriptor(&self, number: u16) -> Option<Descriptor> {
        if number >= self.size {
            return None;
        }
        // SAFETY: the table has `size` descriptors of two words each, aligned.
        let words = unsafe { self.descriptors.cast::<u64>().add(2 * usize::from(number)) }.as_ptr();
        // SAFETY: as above.
        let halves = unsafe { (words.read_volatile(), words.add(1).read_volatile()) };
        Some(Descriptor::from_halves(halves))
    }

    /// Asks for the lines of the descriptors of `count` entries from `index` on, and for those into which their being used is
    /// written. One after the other they would be waited for: a driver on another core has just had them all.
    #[inline]
    pub(crate) fn prefetch(&self, index: u16, count: u16) {
        let base = self.descriptors.as_ptr().cast::<u8>();
        for offset in (0..count).step_by(LINE / DESCRIPTOR_BYTES) {
            let number = self.available_entry(index.wrapping_add(offset));
            prefetch_address(base.wrapping_add(DESCRIPTOR_BYTES * usize::from(number)));
        }
        for offset in (0..count).step_by(LINE / 8) {
            prefetch_address_to_write(self.used.as_ptr().wrapping_add(4 + 8 * self.masked(index.wrapping_add(offset))));
        }
    }

    /// Writes the used entry at `index`.
    #[inline]
    pub(crate) fn write_used(&self, index: u16, number: u16, bytes: u32) {
        let word = (u64::from(number) | u64::from(bytes) << 32).to_le();
        // SAFETY: entry `masked(index)` of 8 bytes lies within what `new` checked; a packed structure needs no alignment.
        unsafe {
            let entry = self.used.add(4 + 8 * self.masked(index)).cast::<Unaligned<u64>>();
            entry.as_ptr().write_volatile(Unaligned(word));
        }
    }

    /// The used index, as the guest's memory has it.
    pub(crate) fn used_index(&self) -> u16 {
        u16::from_le(self.used(2).load(Ordering::Relaxed))
    }

    /// Tells the driver that all entries before `index` are used.
    #[inline]
    pub(crate) fn publish(&self, index: u16) {
        self.used(2).store(index.to_le(), Ordering::Release);
    }

    /// Tells the driver whether it may leave out notifications (without event indices).
    #[inline]
    pub(crate) fn set_used_flags(&self, flags: u16) {
        self.used(0).store(flags.to_le(), Ordering::Relaxed);
    }

    /// Tells the driver at which available index to notify.
    #[inline]
    pub(crate) fn set_available_event(&self, index: u16) {
        self.used(4 + 8 * usize::from(self.size)).store(index.to_le(), Ordering::Relaxed);
    }

    /// What was written before this is seen before what is read after it.
    #[inline]
    pub(crate) fn fence() {
        fence(Ordering::SeqCst);
    }
}

/// Makes calls on the descriptor return instead of waiting.
fn set_nonblocking(fd: &impl AsFd) -> io::Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: takes and gives numbers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    check(flags)?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) })
}

/// A descriptor of our own for the eventfd behind `file`, on which writing never waits.
///
/// # Errors
/// It is no eventfd: others could make the caller wait.
pub(crate) fn own_eventfd(file: &File) -> io::Result<File> {
    let own = file.try_clone()?;
    let kind = std::fs::read_link(format!("/proc/self/fd/{}", own.as_raw_fd()))?;
    if kind.as_os_str() != "anon_inode:[eventfd]" {
        return Err(io::Error::other(kind.display().to_string()));
    }
    set_nonblocking(&own)?;
    Ok(own)
}

/// Takes away what was written to an eventfd, and has writing not wait again. Never waits, whatever the peer does to the descriptor's
/// flags meanwhile (preadv2(2), RWF_NOWAIT).
pub(crate) fn empty_eventfd(file: &File) {
    let mut count = [0u8; 8];
    let part = libc::iovec { iov_base: count.as_mut_ptr().cast(), iov_len: count.len() };
    // If the flag cannot be set, the counter is emptied all the same.
    let _ = set_nonblocking(file);
    // SAFETY: one live buffer of eight bytes.
    unsafe { libc::preadv2(file.as_raw_fd(), &part, 1, -1, libc::RWF_NOWAIT) };
}

/// Which of the descriptors have something to read, or ended; waits for one of them, for `timeout_ms` at most (-1: for ever).
pub(crate) fn readable<const N: usize>(fds: [BorrowedFd<'_>; N], timeout_ms: c_int) -> io::Result<[bool; N]> {
    let mut entries = fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    // SAFETY: the entries are valid for reading and writing `N` of them.
    match check(unsafe { libc::poll(entries.as_mut_ptr(), N as libc::nfds_t, timeout_ms) }) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        Err(_) => Ok([false; N]),
        Ok(()) => Ok(entries.map(|entry| entry.revents != 0)),
    }
}

/// What a socket has to read, as far as it fits, without taking it; waits for the first byte.
pub(crate) fn peek(socket: &UnixStream, into: &mut [u8]) -> io::Result<usize> {
    let (fd, start, room) = (socket.as_raw_fd(), into.as_mut_ptr(), into.len());
    // SAFETY: the bytes are valid for writing.
    let len = unsafe { libc::recv(fd, start.cast(), room, libc::MSG_PEEK) };
    usize::try_from(len).map_err(|_| io::Error::last_os_error())
}

/// The user that this process acts as.
pub(crate) fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Flags of open(2) that hold a file of any kind, but no link, and do nothing with it.
pub(crate) const HOLD_WITHOUT_FOLLOWING: c_int = libc::O_PATH | libc::O_NOFOLLOW;

/// A socket at `path` that nobody but `mode` says may ever connect to: its rights are there before it is.
pub(crate) fn listen(path: &Path, mode: u32) -> io::Result<UnixListener> {
    // SAFETY: numbers; all zeros is a value.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    let name = path.as_os_str().as_bytes();
    if name.is_empty() || name.len() >= address.sun_path.len() || name.contains(&0) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    // SAFETY: takes numbers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    check(fd)?;
    // SAFETY: just made, and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: takes numbers. The file that bind makes has the socket's mode, less what the umask takes away.
    check(unsafe { libc::fchmod(fd, mode) })?;
    // SAFETY: the address is valid for its whole length.
    check(unsafe { libc::bind(fd, (&raw const address).cast(), size_of::<libc::sockaddr_un>() as u32) })?;
    // SAFETY: takes numbers.
    check(unsafe { libc::listen(fd, 4) })?;
    Ok(UnixListener::from(socket))
}

/// Waits for eventfds, each of which wakes once for each time that it is written to. They are never read, so that a peer
/// cannot make this process wait for one.
#[derive(Debug)]
pub(crate) struct Doorbells {
    epoll: OwnedFd,
}

impl Doorbells {
    pub(crate) fn new() -> io::Result<Doorbells> {
        // SAFETY: takes numbers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        check(fd)?;
        // SAFETY: just made, and nobody else's.
        Ok(Doorbells { epoll: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    pub(crate) fn add(&self, fd: &impl AsFd) -> io::Result<()> {
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
        let (epoll, fd) = (self.epoll.as_raw_fd(), fd.as_fd().as_raw_fd());
        // SAFETY: the event is valid for reading.
        check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) })
    }

    /// Forgets what rang.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.wait(0)
    }

    pub(crate) fn remove(&self, fd: &impl AsFd) {
        let (epoll, fd) = (self.epoll.as_raw_fd(), fd.as_fd().as_raw_fd());
        // SAFETY: deleting needs no event.
        unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }

    /// Sleeps until one rings, the time is over or a signal arrives.
    pub(crate) fn wait(&self, timeout_ns: u64) -> io::Result<()> {
        const EVENTS: usize = 16;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        let timeout = libc::timespec {
            tv_sec: i64::try_from(timeout_ns / 1_000_000_000).unwrap_or(i64::MAX) as _,
            tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
        };
        let (fd, room) = (self.epoll.as_raw_fd(), EVENTS as c_int);
        let mask = std::ptr::null::<libc::sigset_t>();
        // SAFETY: the events are valid for writing `room` of them, the timeout for reading; no signal mask. Not every C library has a
        // function for this system call.
        let found = unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, fd, events.as_mut_ptr(), room, &raw const timeout, mask, 0)
        };
        match check(found as c_int) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                // Kernels before 5.11 know milliseconds only.
                let timeout_ms = c_int::try_from(timeout_ns.div_ceil(1_000_000)).unwrap_or(c_int::MAX);
                // SAFETY: as above.
                check(unsafe { libc::epoll_wait(fd, events.as_mut_ptr(), room, timeout_ms) })
            }
            result => result,
        }
        .or_else(|error| if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) })
    }
}

impl AsFd for Doorbells {
    /// Readable when one rings.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// An eventfd of our own.
pub(crate) fn eventfd() -> io::Result<File> {
    // SAFETY: takes numbers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    check(fd)?;
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// What a system call answered.
fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
