//! A region: one mapping cut into frames of equal size, of this process alone or shared with another one.
#![allow(unsafe_code)]

use std::any::Any;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use crate::{Slot, pages};

/// Why a region could not be mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The frame size is no power of two between 512 and 32,768, or there are no frames, or too many.
    #[error(
        "a region of {frames} frames of {frame_size} bytes is not possible: the size must be a power of two from 512 to 32768, the number from 1 to 16777216"
    )]
    Shape {
        /// Frames asked for.
        frames: usize,
        /// Bytes asked for a frame.
        frame_size: usize,
    },
    /// The kernel refused the mapping.
    #[error("cannot map {bytes} bytes of packet memory: {source}; fewer frames need less")]
    Map {
        /// Size of the mapping.
        bytes: usize,
        /// What mmap(2) answered.
        source: std::io::Error,
    },
    /// Another process could take the memory away while it is used, or there is less of it than was said.
    #[error("shared packet memory of {bytes} bytes cannot be trusted: {why}")]
    Untrusted {
        /// Size of the mapping.
        bytes: usize,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Packet memory: `frames` frames of `frame_size` bytes, on huge pages where the kernel has them.
pub struct Region {
    base: NonNull<u8>,
    bytes: usize,
    frame_shift: u32,
    frames: u32,
    huge: bool,
    /// The mapping is this region's to end.
    mapped: bool,
    /// What must live as long as the mapping; dropped after it.
    companion: Option<Box<dyn Any + Send + Sync>>,
}

// SAFETY: the mapping belongs to the region alone and lives as long as it; access to a frame goes through the one slot that
// owns it, so threads never share bytes.
unsafe impl Send for Region {}
// SAFETY: as above; the region itself hands out nothing but numbers and, to owners of slots, their own frames.
unsafe impl Sync for Region {}

impl Region {
    /// Maps and touches the memory, so that no page fault happens later on the packet path.
    pub fn map(frames: usize, frame_size: usize) -> Result<Region, MapError> {
        check_shape(frames, frame_size)?;
        let bytes = (frames * frame_size).next_multiple_of(4096);
        let (base, bytes, huge) = pages::map_frames(bytes).map_err(|source| MapError::Map { bytes, source })?;
        let frame_shift = frame_size.trailing_zeros();
        Ok(Region { base, bytes, frame_shift, frames: frames as u32, huge, mapped: true, companion: None })
    }

    /// Maps memory that another process maps, too: the frames lie in `memory` (a memfd, sealed against shrinking) from byte
    /// `offset` on, a multiple of the page size. `companion` lives as long as the mapping, and a little longer.
    ///
    /// # Errors
    /// The shape is not possible, the file is not sealed or too small, or the kernel refuses.
    ///
    /// # Safety
    /// No other region of this process is made of these bytes.
    pub unsafe fn map_shared(
        memory: BorrowedFd<'_>,
        offset: usize,
        (frames, frame_size): (usize, usize),
        companion: Box<dyn Any + Send + Sync>,
    ) -> Result<Region, MapError> {
        check_shape(frames, frame_size)?;
        let bytes = (frames * frame_size).next_multiple_of(4096);
        check_shared(memory, offset, bytes)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, place) = (memory.as_raw_fd(), offset as libc::off_t);
        // SAFETY: a fresh mapping at an address of the kernel's choice; touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, place) };
        let refused = |source| MapError::Map { bytes, source };
        if base == libc::MAP_FAILED {
            return Err(refused(std::io::Error::last_os_error()));
        }
        pages::touch_shared(base, bytes);
        let base =
            NonNull::new(base.cast()).ok_or_else(|| refused(std::io::Error::other("mmap returned address 0")))?;
        let (frame_shift, companion) = (frame_size.trailing_zeros(), Some(companion));
        Ok(Region { base, bytes, frame_shift, frames: frames as u32, huge: false, mapped: true, companion })
    }

    /// A region over memory that somebody else made and keeps: a netmap area, buffers of a DPDK application. `companion` keeps it, and
    /// is dropped last.
    ///
    /// # Errors
    /// The shape is not possible.
    ///
    /// # Safety
    /// `frames * frame_size` bytes from `base` on can be read and written as long as `companion` lives. Nobody else touches a frame
    /// while this process owns it, or what is read and written are bytes whose value nobody relies on. No other region is made of
    /// these bytes.
    pub unsafe fn from_raw(
        base: NonNull<u8>,
        (frames, frame_size): (usize, usize),
        companion: Box<dyn Any + Send + Sync>,
    ) -> Result<Region, MapError> {
        check_shape(frames, frame_size)?;
        let (bytes, frame_shift, frames) = (frames * frame_size, frame_size.trailing_zeros(), frames as u32);
        Ok(Region { base, bytes, frame_shift, frames, huge: false, mapped: false, companion: Some(companion) })
    }

    /// What was given to [`Region::map_shared`] to live as long as it.
    pub fn companion(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.companion.as_deref()
    }

    /// Frames in the region.
    #[inline]
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Bytes in a frame.
    #[inline]
    pub fn frame_size(&self) -> usize {
        1 << self.frame_shift
    }

    /// First byte of the mapping, for a kernel that is to use it (an AF_XDP UMEM).
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Size of the mapping in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True when the mapping is made of huge pages.
    pub fn is_huge(&self) -> bool {
        self.huge
    }

    /// Place of frame `frame` in the mapping, in bytes.
    #[inline]
    pub fn frame_start(&self, frame: u32) -> usize {
        (frame as usize) << self.frame_shift
    }

    /// The bytes of a slot's packet.
    ///
    /// # Safety
    /// The caller owns the slot that the word stands for, the slot is of this region, and nobody writes meanwhile.
    #[inline]
    pub(crate) unsafe fn packet(&self, word: u64) -> &[u8] {
        // SAFETY: a slot lies inside its region by the contract of `Slot::new`, and the caller owns it.
        unsafe { std::slice::from_raw_parts(self.packet_start(word), word as u16 as usize) }
    }

    /// As [`Region::packet`], to write.
    ///
    /// # Safety
    /// As for `packet`, and nobody reads meanwhile.
    #[allow(clippy::mut_from_ref)]
    #[inline]
    pub(crate) unsafe fn packet_mut(&self, word: u64) -> &mut [u8] {
        // SAFETY: the same, as the caller vouches.
        unsafe { self.packets().packet_mut(word) }
    }

    /// Address of the first byte of a slot's packet, not to be read through.
    #[inline]
    pub(crate) fn first_byte(&self, word: u64) -> *const u8 {
        self.packet_start(word)
    }

    /// Address of its last byte (of the one before it, if it has none), not to be read through.
    #[inline]
    pub(crate) fn last_byte(&self, word: u64) -> *const u8 {
        self.packet_start(word).wrapping_add(word as u16 as usize).wrapping_sub(1)
    }

    #[inline]
    fn packet_start(&self, word: u64) -> *mut u8 {
        self.packets().start(word)
    }

    /// For a walk through packets that are written: what says where they lie stays in registers.
    #[inline]
    pub(crate) fn packets(&self) -> Packets<'_> {
        Packets { base: self.base, frame_shift: self.frame_shift, region: PhantomData }
    }
}

/// Where the packets of a region lie. It is a copy, so a write to a packet cannot change it, as far as the compiler knows.
#[derive(Clone, Copy)]
pub(crate) struct Packets<'a> {
    base: NonNull<u8>,
    frame_shift: u32,
    region: PhantomData<&'a Region>,
}

impl<'a> Packets<'a> {
    /// As [`Region::packet_mut`].
    ///
    /// # Safety
    /// As for it.
    #[inline]
    pub(crate) unsafe fn packet_mut(self, word: u64) -> &'a mut [u8] {
        // SAFETY: as in `Region::packet`; the caller's ownership is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start(word), word as u16 as usize) }
    }

    #[inline]
    fn start(self, word: u64) -> *mut u8 {
        let start = ((crate::slot::frame_of(word) as usize) << self.frame_shift) + (word >> 16) as u16 as usize;
        self.base.as_ptr().wrapping_add(start)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: the mapping was made by `map` with this size and nothing refers to it any more.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
        }
    }
}

fn check_shape(frames: usize, frame_size: usize) -> Result<(), MapError> {
    let shape_ok = frame_size.is_power_of_two() && (512..=32768).contains(&frame_size);
    if !shape_ok || frames == 0 || frames > Slot::FRAMES_MAX {
        return Err(MapError::Shape { frames, frame_size });
    }
    Ok(())
}

/// Pages behind the end of a file kill whoever touches them; so the end must be far enough away, and sealed.
fn check_shared(memory: BorrowedFd<'_>, offset: usize, bytes: usize) -> Result<(), MapError> {
    let untrusted = |why| Err(MapError::Untrusted { bytes, why });
    // SAFETY: a plain question about a descriptor that the caller lends.
    let seals = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
        return untrusted("it is not sealed against shrinking");
    }
    // SAFETY: a stat of zeroes is a valid value.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is valid for writing, the descriptor is lent.
    let known = unsafe { libc::fstat(memory.as_raw_fd(), &mut status) } == 0;
    let end = offset.checked_add(bytes).and_then(|end| i64::try_from(end).ok());
    match end {
        Some(end) if known && status.st_size >= end => Ok(()),
        _ => untrusted("it is smaller"),
    }
}
