//! System calls, and the memory that two processes share: memfd_create(2), seals (fcntl(2)), SCM_RIGHTS and SO_PEERCRED (unix(7)).
#![allow(unsafe_code)]

use linerate_sys::checked;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
pub use std::sync::atomic::AtomicU64;

use linerate_mem::{MapError, Pool, Region};

use crate::layout::Shape;
use crate::link::Link;

/// Memory of `bytes` zero bytes that nobody can shrink or grow.
pub fn sealed_memory(bytes: usize) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a valid C string.
    let fd = checked(unsafe { libc::memfd_create(c"linerate-shm".as_ptr(), flags) })?;
    // SAFETY: the descriptor is new and nobody else's.
    let memory = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: a plain call on an own descriptor.
    checked(unsafe { libc::ftruncate(fd, bytes as libc::off_t) })?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: as above.
    checked(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) })?;
    Ok(memory)
}

/// The part in front of the frames: words that both sides read and write.
pub struct Words {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping lives as long as this, and is reached through atomics only.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Maps the first `bytes` bytes of `memory`, whose size has been checked and sealed (by `Region::map_shared`).
    pub fn map(memory: BorrowedFd<'_>, bytes: usize) -> io::Result<Words> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice; touches no existing memory.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, memory.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(Words { base, bytes })
    }

    /// The 32-bit word at byte `place`.
    #[inline]
    pub fn index(&self, place: usize) -> &AtomicU32 {
        assert!(place.is_multiple_of(4) && place + 4 <= self.bytes, "a place outside of the memory");
        // SAFETY: inside the mapping, aligned, and of a type for which every value is valid and which others may write.
        unsafe { &*self.base.as_ptr().add(place).cast::<AtomicU32>() }
    }

    /// `count` 64-bit words from byte `place` on.
    #[inline]
    pub fn cells(&self, place: usize, count: usize) -> &[AtomicU64] {
        assert!(place.is_multiple_of(8) && place + 8 * count <= self.bytes, "a place outside of the memory");
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(place).cast::<AtomicU64>(), count) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this size and nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A pool on the frames behind the words. `here`: this side has all frames, or none yet.
pub fn pool(memory: BorrowedFd<'_>, shape: Shape, here: bool, link: Link) -> Result<Pool, MapError> {
    let frames = (shape.frames as usize, shape.frame_size as usize);
    // SAFETY: the memory was made a moment ago, or came from another process, and is mapped this once: `Link` keeps its
    // descriptor to itself.
    let region = unsafe { Region::map_shared(memory, shape.rings().frames, frames, Box::new(Arc::new(link))) }?;
    Ok(Pool::shared(region, here))
}

/// The user that this process acts for.
pub fn own_uid() -> u32 {
    // SAFETY: no arguments, no failure.
    unsafe { libc::geteuid() }
}

/// The user of the process at the other end of a socket, when it connected.
pub fn peer_uid(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let into = (&raw mut who).cast();
    // SAFETY: the structure is valid for writing its own size.
    checked(unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, into, &mut len) })?;
    Ok(who.uid)
}

/// Descriptors that cross with a message.
const DESCRIPTORS: usize = 2;
/// Room for their control message; aligned by the type of the buffer.
const CONTROL_WORDS: usize = 8;

/// Sends `bytes` with two descriptors, all or nothing, without waiting.
pub fn send_with(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: [BorrowedFd<'_>; DESCRIPTORS]) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0u64; CONTROL_WORDS];
    let payload = (DESCRIPTORS * size_of::<libc::c_int>()) as libc::c_uint;
    // SAFETY: a msghdr of zeroes is a valid, empty one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: plain arithmetic.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(payload) } as _;
    // SAFETY: the control buffer has room for one header and its payload.
    let header = unsafe { libc::CMSG_FIRSTHDR(&message) };
    let numbers = descriptors.map(|descriptor| descriptor.as_raw_fd());
    // SAFETY: the header lies in `control`, which is zeroed, aligned and big enough for the header and two descriptors.
    unsafe {
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(payload) as _;
        std::ptr::copy_nonoverlapping(numbers.as_ptr(), libc::CMSG_DATA(header).cast(), DESCRIPTORS);
    }
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the message, its part and its control buffer are valid for the call.
    match unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags) } {
        sent if sent == bytes.len() as isize => Ok(()),
        sent if sent >= 0 => Err(io::Error::other("the socket took half a message")),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Receives a message and its descriptors (at most two; more are closed by the kernel), waiting as long as the socket's own
/// time limit says.
pub fn receive_with(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = [0u64; CONTROL_WORDS];
    // SAFETY: a msghdr of zeroes is a valid, empty one.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: plain arithmetic.
    message.msg_controllen = unsafe { libc::CMSG_SPACE((DESCRIPTORS * size_of::<libc::c_int>()) as u32) } as _;
    // SAFETY: the message, its part and its control buffer are valid for the call.
    let received = checked(unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) })?;
    let mut descriptors = Vec::new();
    // SAFETY: the kernel filled the control buffer up to `msg_controllen`.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&message) };
    while !header.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return headers inside the buffer.
        let (level, kind, len) = unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
            // SAFETY: plain arithmetic.
            let payload = usize::saturating_sub(len as _, unsafe { libc::CMSG_LEN(0) } as usize);
            for number in 0..payload / size_of::<libc::c_int>() {
                // SAFETY: the kernel wrote so many descriptors behind the header, unaligned at worst.
                let fd = unsafe { libc::CMSG_DATA(header).cast::<libc::c_int>().add(number).read_unaligned() };
                // SAFETY: the kernel made it for this process, and nobody else has it.
                descriptors.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
        // SAFETY: as for the first header.
        header = unsafe { libc::CMSG_NXTHDR(&message, header) };
    }
    Ok((received as usize, descriptors))
}
