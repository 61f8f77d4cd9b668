//! Everything unsafe of this backend: the socket and the descriptors that it carries, and the memory shared with the peer.
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use linerate_sys::poll::{PollFor, poll};
use linerate_sys::shared::SharedMapping;

use crate::message::MESSAGE_BYTES;

/// Connections that may wait to be accepted.
const BACKLOG: libc::c_int = 64;

/// Descriptors taken from one message; the kernel closes what is beyond.
const FILES_MAX: usize = 4;

/// Bytes of a socket's name, the zero at its end (or start) included.
pub(crate) const NAME_BYTES_MAX: usize = 108;

/// A socket address: a path, or (after `@`) a name in the abstract namespace.
fn address_of(name: &str) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: a structure of integers, for which all zeros is a value.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let (skip, text) = match name.strip_prefix('@') {
        Some(rest) => (1, rest),
        None => (0, name),
    };
    if text.is_empty() || text.len() + 1 > address.sun_path.len() || text.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in address.sun_path[skip..].iter_mut().zip(text.bytes()) {
        *to = from as libc::c_char;
    }
    // A path counts with the zero at its end, an abstract name with the one at its start.
    let len = std::mem::offset_of!(libc::sockaddr_un, sun_path) + text.len() + 1;
    Ok((address, len as libc::socklen_t))
}

fn new_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes constants only.
    let fd = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: `fd` was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A socket that clients connect to.
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    fd: OwnedFd,
}

impl ListeningSocket {
    /// Binds and listens; the socket's file has mode 0600 from its first moment on.
    pub(crate) fn bind(name: &str) -> io::Result<ListeningSocket> {
        let (address, len) = address_of(name)?;
        let fd = new_socket()?;
        // SAFETY: takes a descriptor and a number. bind(2) takes over the mode of the socket.
        check(unsafe { libc::fchmod(fd.as_raw_fd(), 0o600) })?;
        // SAFETY: the address is live and of the length given.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        // SAFETY: takes a descriptor and a number.
        check(unsafe { libc::listen(fd.as_raw_fd(), BACKLOG) })?;
        Ok(ListeningSocket { fd })
    }

    /// The next client; `None` when there is none.
    pub(crate) fn accept(&self) -> io::Result<Option<Channel>> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no address is asked for.
        let fd = unsafe { libc::accept4(self.fd.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags) };
        match check(fd) {
            // SAFETY: `fd` was just made and belongs to nobody else.
            Ok(fd) => Ok(Some(Channel { fd: unsafe { OwnedFd::from_raw_fd(fd) } })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// One end of a control channel; never blocks.
#[derive(Debug)]
pub(crate) struct Channel {
    fd: OwnedFd,
}

/// What came over a channel.
#[derive(Debug)]
pub(crate) enum Received {
    /// One message, as long as it was, and the first descriptor that came with it.
    Message { bytes: [u8; MESSAGE_BYTES], len: usize, file: Option<OwnedFd> },
    /// The other end is closed.
    End,
    /// Nothing yet.
    Nothing,
}

impl Channel {
    /// Connects to who listens at `name`.
    pub(crate) fn connect(name: &str) -> io::Result<Channel> {
        let (address, len) = address_of(name)?;
        let fd = new_socket()?;
        // SAFETY: the address is live and of the length given.
        check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
        Ok(Channel { fd })
    }

    /// User of the process at the other end.
    pub(crate) fn peer_uid(&self) -> io::Result<u32> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of_val(&peer) as libc::socklen_t;
        let fd = self.fd.as_raw_fd();
        // SAFETY: the structure is live and as long as said.
        let result =
            unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &mut len) };
        check(result).map(|_| peer.uid)
    }

    /// Sends one message, and a descriptor with it.
    pub(crate) fn send(&self, bytes: &[u8; MESSAGE_BYTES], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut control = ControlBuffer::default();
        let mut part = libc::iovec { iov_base: bytes.as_ptr() as *mut libc::c_void, iov_len: bytes.len() };
        // SAFETY: a structure of integers and pointers, for which all zeros is a value.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (&mut part, 1);
        if let Some(file) = file {
            let payload = size_of::<libc::c_int>() as libc::c_uint;
            header.msg_control = control.bytes.as_mut_ptr().cast();
            // SAFETY: computes a number.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(payload) } as _;
            // SAFETY: the buffer is aligned, and longer than one header with one descriptor.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(payload) as _;
                libc::CMSG_DATA(first).cast::<libc::c_int>().write_unaligned(file.as_raw_fd());
            }
        }
        // SAFETY: the header points to live memory of the lengths in it; nothing is written.
        let sent = unsafe { libc::sendmsg(self.fd.as_raw_fd(), &header, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
        check(sent as libc::c_int).map(|_| ())
    }

    /// Takes the next message.
    pub(crate) fn receive(&self) -> io::Result<Received> {
        let mut bytes = [0; MESSAGE_BYTES];
        let mut control = ControlBuffer::default();
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: as in `send`.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (&mut part, 1);
        header.msg_control = control.bytes.as_mut_ptr().cast();
        header.msg_controllen = control.bytes.len() as _;
        let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC | libc::MSG_TRUNC;
        // SAFETY: the header points to live buffers of the lengths in it.
        let len = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut header, flags) };
        match check(len as libc::c_int) {
            Ok(0) => return Ok(Received::End),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::Nothing),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(Received::End),
            Err(error) => return Err(error),
        }
        // All descriptors are owned from here on; the first is wanted.
        let mut files = received_files(&header);
        let file = if files.is_empty() { None } else { Some(files.remove(0)) };
        Ok(Received::Message { bytes, len: len as usize, file })
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Room for the descriptors of a message, aligned as a `cmsghdr` must be.
#[repr(C, align(8))]
struct ControlBuffer {
    bytes: [u8; 64],
}

// The header and the descriptors fit.
const _: () = assert!(size_of::<libc::cmsghdr>() + FILES_MAX * size_of::<libc::c_int>() <= 64);

impl Default for ControlBuffer {
    fn default() -> ControlBuffer {
        ControlBuffer { bytes: [0; 64] }
    }
}

fn received_files(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut files = Vec::new();
    // SAFETY: the kernel filled the control buffer that the header points to, and said how far.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while !next.is_null() {
            if (*next).cmsg_level == libc::SOL_SOCKET && (*next).cmsg_type == libc::SCM_RIGHTS {
                let bytes = ((*next).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                for index in 0..bytes / size_of::<libc::c_int>() {
                    let fd = libc::CMSG_DATA(next).cast::<libc::c_int>().add(index).read_unaligned();
                    files.push(OwnedFd::from_raw_fd(fd));
                }
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    files
}

/// An eventfd: what one side rings and the other sleeps on.
#[derive(Debug)]
pub(crate) struct Doorbell {
    fd: OwnedFd,
    /// Odd while a thread is about to ring.
    ringing: AtomicU32,
}

impl Doorbell {
    pub(crate) fn new() -> io::Result<Doorbell> {
        // SAFETY: takes constants only.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: `fd` was just made and belongs to nobody else.
        Ok(Doorbell { fd: unsafe { OwnedFd::from_raw_fd(fd) }, ringing: AtomicU32::new(0) })
    }

    /// One that a peer made. It must be an eventfd: to ring anything else might block, or do harm.
    pub(crate) fn of_peer(fd: OwnedFd) -> io::Result<Doorbell> {
        let kind = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        if kind.as_os_str() != "anon_inode:[eventfd]" {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no eventfd"));
        }
        let bell = Doorbell { fd, ringing: AtomicU32::new(0) };
        bell.keep_from_blocking()?;
        Ok(bell)
    }

    /// Neither [`Doorbell::ring`] nor [`Doorbell::silence`] waits. The peer can undo this: it is a property of what both have.
    fn keep_from_blocking(&self) -> io::Result<()> {
        // SAFETY: takes a descriptor, a command and a number.
        check(unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_SETFL, libc::O_RDWR | libc::O_NONBLOCK) })?;
        Ok(())
    }

    /// Rings. One that rings already needs nothing; so no error is of interest.
    pub(crate) fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        self.ringing.fetch_add(1, Ordering::Relaxed);
        // SAFETY: eight live bytes.
        unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        self.ringing.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes each time that a thread begins or ends to ring; odd in between.
    pub(crate) fn rings(&self) -> u32 {
        self.ringing.load(Ordering::Relaxed)
    }

    /// True when whoever rings would have to wait: a counter that no honest peer ever fills.
    pub(crate) fn is_full(&self) -> bool {
        poll(self.fd.as_fd(), PollFor::Writing, 0).is_ok_and(|found| !found.ready)
    }

    /// Lets go on who hangs in [`Doorbell::ring`], because the peer has made the call wait and filled the counter.
    pub(crate) fn free(&self) {
        // If the flag cannot be set, the counter is emptied all the same.
        let _ = self.keep_from_blocking();
        self.silence();
    }

    /// What a peer can do to it: whoever rings then waits.
    #[cfg(test)]
    pub(crate) fn jam(&self) {
        let most = (u64::MAX - 1).to_ne_bytes();
        self.silence();
        // SAFETY: a descriptor, a command and a number; eight live bytes.
        unsafe {
            libc::fcntl(self.fd.as_raw_fd(), libc::F_SETFL, libc::O_RDWR);
            libc::write(self.fd.as_raw_fd(), most.as_ptr().cast(), most.len());
        }
    }

    /// Takes the ringing away, if there is some.
    pub(crate) fn silence(&self) {
        let mut count = [0u8; 8];
        let part = libc::iovec { iov_base: count.as_mut_ptr().cast(), iov_len: count.len() };
        // SAFETY: one live buffer of eight bytes. RWF_NOWAIT holds whatever the peer did to the descriptor's flags.
        let read = unsafe { libc::preadv2(self.fd.as_raw_fd(), &part, 1, -1, libc::RWF_NOWAIT) };
        if read < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EOPNOTSUPP) {
            // SAFETY: as above.
            unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A clock that becomes readable.
#[derive(Debug)]
pub(crate) struct Alarm {
    fd: OwnedFd,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Alarm> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: takes constants only.
        let fd = check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        // SAFETY: `fd` was just made and belongs to nobody else.
        Ok(Alarm { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Sets it to ring once in `delay_ns` (less than a second), or with 0 never. It no longer rings for what was before.
    pub(crate) fn set(&self, delay_ns: u64) {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = libc::itimerspec {
            it_interval: none,
            it_value: libc::timespec { tv_nsec: delay_ns as libc::c_long, ..none },
        };
        // SAFETY: the setting is live; the one before is not asked for.
        unsafe { libc::timerfd_settime(self.fd.as_raw_fd(), 0, &setting, std::ptr::null_mut()) };
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The user that this process acts as.
pub(crate) fn own_uid() -> u32 {
    // SAFETY: no arguments, never fails.
    unsafe { libc::geteuid() }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Marks memory as a ring.
pub(crate) const COOKIE: u32 = 0x03e3_1f20;

/// Flag of a ring: whoever puts something in need not ring.
pub(crate) const NO_INTERRUPT: u16 = 1;

/// Flag of a descriptor: the packet goes on in the next.
pub(crate) const NEXT: u16 = 1;

const FLAGS_AT: usize = 4;
const HEAD_AT: usize = 6;
const TAIL_AT: usize = 64;
const CELLS_AT: usize = 128;
const CELL_BYTES: usize = 16;

/// One place of a ring: where a buffer is, and how much is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) flags: u16,
    pub(crate) region: u16,
    pub(crate) length: u32,
    pub(crate) offset: u32,
}

/// A ring in shared memory, whose every byte the peer may change at any time.
///
/// ```text
///    0 cookie u32 | 4 flags u16 | 6 head u16 | 64 tail u16 | 128 descriptors, 16 bytes each
/// descriptor   0 flags u16 | 2 region u16 | 4 length u32 | 8 offset u32 | 12 metadata u32
/// ```
/// The client moves `head`, the server `tail`; whoever receives sets the flag.
pub(crate) struct Ring {
    start: NonNull<u8>,
    mask: u16,
    _memory: Arc<SharedMapping>,
}

// SAFETY: the memory stays mapped as long as the ring exists, and all access is atomic.
unsafe impl Send for Ring {}

impl Ring {
    /// Bytes of a ring.
    pub(crate) const fn bytes(log2_slots: u8) -> usize {
        CELLS_AT + (CELL_BYTES << log2_slots)
    }

    /// The ring at `offset`; `None` if that is no place for one. The offset is a multiple of 8: descriptors are read by eights.
    pub(crate) fn at(memory: &Arc<SharedMapping>, offset: usize, log2_slots: u8) -> Option<Ring> {
        let fits = log2_slots < 16 && offset.checked_add(Ring::bytes(log2_slots))? <= memory.bytes();
        if !fits || !offset.is_multiple_of(8) {
            return None;
        }
        // SAFETY: the offset lies inside the mapping.
        let start = unsafe { memory.start().add(offset) };
        Some(Ring { start, mask: ((1u32 << log2_slots) - 1) as u16, _memory: Arc::clone(memory) })
    }

    /// Makes a ring of it, empty.
    pub(crate) fn format(&self, flags: u16) {
        self.head().store(0, Ordering::Relaxed);
        self.tail().store(0, Ordering::Relaxed);
        self.flags().store(flags, Ordering::Relaxed);
        self.cookie().store(COOKIE, Ordering::Release);
    }

    pub(crate) fn slots(&self) -> u16 {
        self.mask.wrapping_add(1)
    }

    /// Which slot an index, which wraps, stands for.
    #[inline]
    pub(crate) fn slot(&self, index: u16) -> u16 {
        index & self.mask
    }

    pub(crate) fn cookie(&self) -> &AtomicU32 {
        // SAFETY: inside the ring's memory by `at`, aligned, and shared as an atomic.
        unsafe { self.start.cast().as_ref() }
    }

    #[inline]
    pub(crate) fn flags(&self) -> &AtomicU16 {
        // SAFETY: as in `cookie`.
        unsafe { self.start.add(FLAGS_AT).cast().as_ref() }
    }

    #[inline]
    pub(crate) fn head(&self) -> &AtomicU16 {
        // SAFETY: as in `cookie`.
        unsafe { self.start.add(HEAD_AT).cast().as_ref() }
    }

    #[inline]
    pub(crate) fn tail(&self) -> &AtomicU16 {
        // SAFETY: as in `cookie`.
        unsafe { self.start.add(TAIL_AT).cast().as_ref() }
    }

    #[inline]
    fn cell(&self, index: u16) -> &[AtomicU64; 2] {
        // SAFETY: the mask keeps the cell inside the ring's memory; it is aligned to eight bytes, and shared as atomics.
        unsafe { self.start.add(CELLS_AT + CELL_BYTES * usize::from(index & self.mask)).cast().as_ref() }
    }

    /// The descriptor, each byte of it read once.
    #[inline]
    pub(crate) fn read(&self, index: u16) -> Descriptor {
        let [first, second] = self.cell(index);
        let [a, b, c, d, length @ ..] = first.load(Ordering::Relaxed).to_ne_bytes();
        let [offset @ .., _, _, _, _] = second.load(Ordering::Relaxed).to_ne_bytes();
        Descriptor {
            flags: u16::from_ne_bytes([a, b]),
            region: u16::from_ne_bytes([c, d]),
            length: u32::from_ne_bytes(length),
            offset: u32::from_ne_bytes(offset),
        }
    }

    #[inline]
    pub(crate) fn write(&self, index: u16, descriptor: Descriptor) {
        self.write_filled(index, descriptor);
        let offset = descriptor.offset.to_ne_bytes();
        let second = [offset[0], offset[1], offset[2], offset[3], 0, 0, 0, 0];
        self.cell(index)[1].store(u64::from_ne_bytes(second), Ordering::Relaxed);
    }

    /// As [`Ring::write`], without the offset: what changes when a buffer is filled.
    #[inline]
    pub(crate) fn write_filled(&self, index: u16, descriptor: Descriptor) {
        let (flags, region) = (descriptor.flags.to_ne_bytes(), descriptor.region.to_ne_bytes());
        let length = descriptor.length.to_ne_bytes();
        let first = [flags[0], flags[1], region[0], region[1], length[0], length[1], length[2], length[3]];
        self.cell(index)[0].store(u64::from_ne_bytes(first), Ordering::Relaxed);
    }
}

/// The memory in which packets lie, by region.
pub(crate) struct Regions {
    table: Box<[Region]>,
    mappings: Box<[Arc<SharedMapping>]>,
}

#[derive(Clone, Copy)]
struct Region {
    start: NonNull<u8>,
    bytes: u64,
}

// SAFETY: addresses of mappings that live as long as the table; the bytes behind them are only copied.
unsafe impl Send for Regions {}
// SAFETY: as above.
unsafe impl Sync for Regions {}

impl Regions {
    pub(crate) fn new(mappings: Vec<Arc<SharedMapping>>) -> Regions {
        let region = |mapping: &Arc<SharedMapping>| Region { start: mapping.start(), bytes: mapping.bytes() as u64 };
        Regions { table: mappings.iter().map(region).collect(), mappings: mappings.into() }
    }

    /// `length` bytes of a region; `None` if it does not have them.
    #[inline]
    pub(crate) fn span(&self, region: u16, offset: u32, length: u32) -> Option<Span<'_>> {
        let region = self.table.get(usize::from(region))?;
        if u64::from(offset) + u64::from(length) > region.bytes {
            return None;
        }
        // SAFETY: the offset lies inside the region.
        let start = unsafe { region.start.add(offset as usize) };
        Some(Span { start, length: length as usize, _regions: PhantomData })
    }

    /// True once the peer took away some of it.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.mappings.iter().any(|mapping| mapping.is_lost())
    }
}

/// Bytes of shared memory, which the peer may change at any time: they are copied, never referred to.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    start: NonNull<u8>,
    length: usize,
    _regions: PhantomData<&'a Regions>,
}

impl Span<'_> {
    /// No bytes.
    pub(crate) const NONE: Span<'static> = Span { start: NonNull::dangling(), length: 0, _regions: PhantomData };

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Copies bytes from `at` on into all of `to`; false if there are not as many.
    #[inline]
    pub(crate) fn read(&self, at: usize, to: &mut [u8]) -> bool {
        if at > self.length || to.len() > self.length - at {
            return false;
        }
        // SAFETY: both ranges were checked, and shared memory never overlaps a frame.
        unsafe { copy(self.start.as_ptr().add(at), to.as_mut_ptr(), to.len()) };
        true
    }

    /// Copies all of `from` to the bytes from `at` on; false if there are not as many.
    #[inline]
    pub(crate) fn write(&self, at: usize, from: &[u8]) -> bool {
        if at > self.length || from.len() > self.length - at {
            return false;
        }
        // SAFETY: both ranges were checked, and shared memory never overlaps a frame.
        unsafe { copy(from.as_ptr(), self.start.as_ptr().add(at), from.len()) };
        true
    }

    /// Asks for the first line.
    #[inline]
    pub(crate) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing that the program sees and does not fault.
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(self.start.as_ptr().cast());
        }
    }
}

/// Copies `len` bytes, no more: what lies behind a packet in its frame is of other packets. Short packets, the usual case where
/// time counts, go in pieces of 16 bytes of which the last ones overlap.
///
/// # Safety
/// Both ranges are valid and do not overlap.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    const PIECE: usize = 16;
    // SAFETY: pieces at 0, 16, and counted from the end, of ranges that are as long as the branch says.
    unsafe {
        let piece = |at: usize| std::ptr::copy_nonoverlapping(from.add(at), to.add(at), PIECE);
        match len {
            33..=64 => {
                piece(0);
                piece(PIECE);
                piece(len - 2 * PIECE);
                piece(len - PIECE);
            }
            PIECE..=32 => {
                piece(0);
                piece(len - PIECE);
            }
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}
