//! A region: one anonymous mapping cut into frames of equal size.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::Slot;

/// Why a region could not be mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The frame size is no power of two between 512 and 65,536, or there are no frames, or too many.
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
}

/// Packet memory: `frames` frames of `frame_size` bytes, on huge pages where the kernel has them.
pub struct Region {
    base: NonNull<u8>,
    bytes: usize,
    frame_shift: u32,
    frames: u32,
    huge: bool,
}

// SAFETY: the mapping belongs to the region alone and lives as long as it; access to a frame goes through the one slot that
// owns it, so threads never share bytes.
unsafe impl Send for Region {}
// SAFETY: as above; the region itself hands out nothing but numbers and, to owners of slots, their own frames.
unsafe impl Sync for Region {}

const HUGE_PAGE: usize = 2 << 20;

impl Region {
    /// Maps and touches the memory, so that no page fault happens later on the packet path.
    pub fn map(frames: usize, frame_size: usize) -> Result<Region, MapError> {
        let shape_ok = frame_size.is_power_of_two() && (512..=32768).contains(&frame_size);
        if !shape_ok || frames == 0 || frames > Slot::FRAMES_MAX {
            return Err(MapError::Shape { frames, frame_size });
        }
        let bytes = (frames * frame_size).next_multiple_of(4096);
        let (base, bytes, huge) = match map_pages(bytes.next_multiple_of(HUGE_PAGE), libc::MAP_HUGETLB) {
            Ok(base) => (base, bytes.next_multiple_of(HUGE_PAGE), true),
            Err(_) => (map_pages(bytes, 0).map_err(|source| MapError::Map { bytes, source })?, bytes, false),
        };
        Ok(Region { base, bytes, frame_shift: frame_size.trailing_zeros(), frames: frames as u32, huge })
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
        // SAFETY: as in `packet`; the caller's ownership is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.packet_start(word), word as u16 as usize) }
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
        let start = self.frame_start(crate::slot::frame_of(word)) + (word >> 16) as u16 as usize;
        self.base.as_ptr().wrapping_add(start)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this size and nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

fn map_pages(bytes: usize, flags: i32) -> std::io::Result<NonNull<u8>> {
    if cfg!(miri) && flags != 0 {
        return Err(std::io::Error::other("the interpreter has no huge pages"));
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice; touches no existing memory.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    touch(base, bytes);
    NonNull::new(base.cast()).ok_or_else(|| std::io::Error::other("mmap returned address 0"))
}

/// Asks for transparent huge pages, then for all pages at once. Both are wishes: a kernel that refuses them faults the pages
/// in one by one instead.
fn touch(base: *mut libc::c_void, bytes: usize) {
    if cfg!(miri) {
        return;
    }
    // SAFETY: the range is the mapping that was just made, and madvise with these values changes no contents.
    unsafe {
        libc::madvise(base, bytes, libc::MADV_HUGEPAGE);
        libc::madvise(base, bytes, libc::MADV_POPULATE_WRITE);
    }
}
