//! The area that the kernel shares: a mapping, the rings in it, and the buffers.
//!
//! Other processes that use ports of the same area can write to all of it. So places and sizes are read once and checked, indices are
//! checked when they are read, and the bytes of buffers are copied; only frames of a pool that is made of the area's own buffers
//! (exchange.rs) are referred to.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::abi::{self, SlotWord, interface, ring};

/// A mapping of the area that a descriptor was bound to.
pub(crate) struct Area {
    base: NonNull<u8>,
    bytes: usize,
    /// The memory of an area of tests; `None` for a mapping.
    #[cfg(test)]
    _own: Option<Box<[AtomicU64]>>,
}

// SAFETY: the mapping lives as long as the value; what lies in it is read and written by atomic operations, or copied.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    /// Maps the area of `bytes` bytes that `control` is bound to.
    pub(crate) fn map(control: &impl AsFd, bytes: u64) -> io::Result<Area> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, control.as_fd().as_raw_fd());
        // SAFETY: a fresh mapping at an address of the kernel's choice; touches no existing memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(Area {
            base,
            bytes,
            #[cfg(test)]
            _own: None,
        })
    }

    /// An area of tests, in memory of this process.
    #[cfg(test)]
    pub(crate) fn fake(words: usize) -> Area {
        let own: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        Area { base: NonNull::from(&*own).cast(), bytes: words * 8, _own: Some(own) }
    }

    /// Writes eight bytes as the kernel, or another process, could.
    #[cfg(test)]
    pub(crate) fn poke(&self, place: usize, value: u64) {
        self.cell::<AtomicU64>(place).unwrap().store(value, Ordering::Relaxed);
    }

    /// As [`Area::poke`], four bytes.
    #[cfg(test)]
    pub(crate) fn poke_u32(&self, place: usize, value: u32) {
        self.cell::<AtomicU32>(place).unwrap().store(value, Ordering::Release);
    }

    /// Reads four bytes as the kernel could.
    #[cfg(test)]
    pub(crate) fn peek_u32(&self, place: usize) -> u32 {
        self.cell::<AtomicU32>(place).unwrap().load(Ordering::Acquire)
    }

    /// The atomic `T` at byte `place`; `None` if it is not inside, or not aligned.
    pub(super) fn cell<T>(&self, place: usize) -> Option<&T> {
        let fits = place.checked_add(size_of::<T>()).is_some_and(|end| end <= self.bytes);
        if !fits || !place.is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: the cell lies inside the area, which is aligned to a page (in tests: to 8 bytes), and is an atomic type, for which each
        // value is valid and which others may change.
        Some(unsafe { self.base.add(place).cast::<T>().as_ref() })
    }

    fn u32_at(&self, place: usize) -> Option<u32> {
        self.cell::<AtomicU32>(place).map(|cell| cell.load(Ordering::Relaxed))
    }

    fn u64_at(&self, place: usize) -> Option<u64> {
        self.cell::<AtomicU64>(place).map(|cell| cell.load(Ordering::Relaxed))
    }

    /// Empties the list of extra buffers of a descriptor that asked for none. The kernel leaves there what the last user of this place gave
    /// back, and frees these buffers once more when the descriptor is closed, whosever they are by then.
    pub(crate) fn forget_extra(&self, header: u64) {
        let place = usize::try_from(header).ok().and_then(|header| header.checked_add(interface::FIRST_EXTRA));
        if let Some(first) = place.and_then(|place| self.cell::<AtomicU32>(place)) {
            first.store(0, Ordering::Release);
        }
    }

    /// Place of a ring: number `index` of those that send or receive, first those of the interface, then those of the host's stack.
    pub(crate) fn ring_place(&self, header: u64, receives: bool, index: u32) -> Option<usize> {
        let header = usize::try_from(header).ok()?;
        let number = |place: usize| self.u32_at(header.checked_add(place)?).map(|number| number as usize);
        let (send, host_send) = (number(interface::TX_RINGS)?, number(interface::HOST_TX_RINGS)?);
        let (receive, host_receive) = (number(interface::RX_RINGS)?, number(interface::HOST_RX_RINGS)?);
        let (first, count) = if receives {
            (send.checked_add(host_send)?, receive.checked_add(host_receive)?)
        } else {
            (0, send.checked_add(host_send)?)
        };
        let index = index as usize;
        if index >= count {
            return None;
        }
        let at = first.checked_add(index)?.checked_mul(8)?.checked_add(interface::RING_PLACES)?;
        // Places are signed, and counted from the interface header on.
        let distance = self.u64_at(header.checked_add(at)?)? as i64;
        header.checked_add_signed(isize::try_from(distance).ok()?)
    }
}

impl Area {
    /// The first of `bytes` bytes at byte `place`; `None` if they are not inside.
    pub(super) fn start(&self, place: usize, bytes: usize) -> Option<NonNull<u8>> {
        let inside = place.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        // SAFETY: the place is inside the mapping, or just behind it where there are no bytes.
        inside.then(|| unsafe { self.base.add(place) })
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        #[cfg(test)]
        if self._own.is_some() {
            return;
        }
        // SAFETY: the mapping was made by `map` with this size, and nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// One ring: its indices, its slots, and the buffers that these name.
pub(crate) struct RingMemory {
    area: Arc<Area>,
    header: usize,
    slots: u32,
    /// Place of buffer 0 in the area.
    buffers: usize,
    buffer_bytes: usize,
    buffer_count: u32,
    offset_mask: u64,
}

impl RingMemory {
    /// The ring whose header is at byte `header` of the area.
    ///
    /// # Errors
    /// What is wrong with the header, in words.
    pub(crate) fn new(area: &Arc<Area>, header: usize) -> Result<RingMemory, String> {
        let outside = || format!("a ring at byte {header} of an area of {} bytes", area.bytes);
        if header.checked_add(ring::FIRST_SLOT).is_none_or(|end| end > area.bytes) {
            return Err(outside());
        }
        let slots = area.u32_at(header + ring::SLOTS).ok_or_else(outside)?;
        let buffer_bytes = area.u32_at(header + ring::BUFFER_BYTES).ok_or_else(outside)? as usize;
        let offset_mask = area.u64_at(header + ring::OFFSET_MASK).ok_or_else(outside)?;
        let distance = area.u64_at(header + ring::BUFFERS).ok_or_else(outside)? as i64;
        let end = (slots as usize)
            .checked_mul(ring::SLOT_BYTES)
            .and_then(|bytes| bytes.checked_add(header + ring::FIRST_SLOT));
        if slots < 2 || end.is_none_or(|end| end > area.bytes) || !header.is_multiple_of(8) {
            return Err(format!("a ring of {slots} slots at byte {header} of an area of {} bytes", area.bytes));
        }
        let buffers = isize::try_from(distance).ok().and_then(|distance| header.checked_add_signed(distance));
        let buffers = buffers.filter(|place| *place < area.bytes && (64..=1 << 16).contains(&buffer_bytes));
        let Some(buffers) = buffers else {
            return Err(format!("buffers of {buffer_bytes} bytes at {distance} bytes from the ring"));
        };
        let buffer_count = u32::try_from((area.bytes - buffers) / buffer_bytes).unwrap_or(u32::MAX);
        let area = Arc::clone(area);
        Ok(RingMemory { area, header, slots, buffers, buffer_bytes, buffer_count, offset_mask })
    }

    /// Number of slots.
    #[inline]
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    /// Bytes of a buffer.
    #[inline]
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// True for the number of a buffer that a slot may have.
    #[inline]
    pub(crate) fn has_buffer(&self, buffer: u32) -> bool {
        (abi::FIRST_BUFFER..self.buffer_count).contains(&buffer)
    }

    #[inline]
    fn field(&self, place: usize) -> &AtomicU32 {
        // SAFETY: `new` checked that the header and all slots lie inside the area, at a multiple of 8 bytes; the type is atomic.
        unsafe { self.area.base.add(self.header + place).cast::<AtomicU32>().as_ref() }
    }

    /// First slot of ours, as it stands in shared memory.
    #[inline]
    pub(crate) fn head(&self) -> u32 {
        self.field(ring::HEAD).load(Ordering::Relaxed)
    }

    /// First slot of the kernel's.
    #[inline]
    pub(crate) fn tail(&self) -> u32 {
        self.field(ring::TAIL).load(Ordering::Acquire)
    }

    /// Makes `head` the first slot of ours, and the place from which on more slots wake us.
    #[inline]
    pub(crate) fn set_head(&self, head: u32) {
        self.field(ring::HEAD).store(head, Ordering::Release);
        self.field(ring::CUR).store(head, Ordering::Release);
    }

    /// Makes `cur` the place from which on more slots wake us, and leaves `head` where it is.
    #[inline]
    pub(crate) fn set_cur(&self, cur: u32) {
        self.field(ring::CUR).store(cur, Ordering::Release);
    }

    /// The words of all slots, and their pointers.
    #[inline]
    fn cells(&self) -> &[[AtomicU64; 2]] {
        // SAFETY: `new` checked that so many slots of 16 bytes lie inside the area from here on; the type is atomic.
        unsafe {
            let first = self.area.base.add(self.header + ring::FIRST_SLOT).cast::<[AtomicU64; 2]>();
            std::slice::from_raw_parts(first.as_ptr(), self.slots as usize)
        }
    }

    /// Slot `index`, which is below [`RingMemory::slots`].
    #[inline]
    pub(crate) fn slot(&self, index: u32) -> SlotWord {
        SlotWord::of(self.cells()[index as usize][0].load(Ordering::Relaxed))
    }

    /// Offset of the packet in the buffer of slot `index`.
    #[inline]
    pub(crate) fn offset(&self, index: u32) -> u64 {
        if self.offset_mask == 0 {
            return 0;
        }
        self.cells()[index as usize][1].load(Ordering::Relaxed) & self.offset_mask
    }

    /// Writes slot `index`.
    #[inline]
    pub(crate) fn set_slot(&self, index: u32, slot: SlotWord) {
        self.cells()[index as usize][0].store(slot.word(), Ordering::Relaxed);
    }

    /// Writes the offset of the packet in the buffer of slot `index`; without effect if offsets were not agreed on.
    #[inline]
    pub(crate) fn set_offset(&self, index: u32, offset: u64) {
        if self.offset_mask != 0 {
            let cell = &self.cells()[index as usize][1];
            let others = cell.load(Ordering::Relaxed) & !self.offset_mask;
            cell.store(others | (offset & self.offset_mask), Ordering::Relaxed);
        }
    }

    /// Address of `len` bytes from byte `offset` of a buffer on; `None` if there is no such buffer, or they are not inside it.
    #[inline]
    fn bytes(&self, buffer: u32, offset: u64, len: usize) -> Option<NonNull<u8>> {
        let inside = offset <= self.buffer_bytes as u64 && len <= self.buffer_bytes - offset as usize;
        if !self.has_buffer(buffer) || !inside {
            return None;
        }
        // SAFETY: `buffer_count` buffers lie between `buffers` and the end of the area, and the bytes are inside this one.
        Some(unsafe { self.area.base.add(self.buffers + buffer as usize * self.buffer_bytes + offset as usize) })
    }

    /// Asks for the first bytes of a buffer ahead of time.
    #[inline]
    pub(crate) fn prefetch(&self, buffer: u32) {
        if let Some(first) = self.bytes(buffer, 0, 1) {
            linerate_mem::prefetch_address(first.as_ptr());
        }
    }

    /// Copies bytes of a buffer into all of `to`; false if they are not inside it, or overlap with `to`.
    #[inline]
    pub(crate) fn read(&self, buffer: u32, offset: u64, to: &mut [u8]) -> bool {
        let Some(from) = self.bytes(buffer, offset, to.len()) else { return false };
        if overlap(from.as_ptr(), to.as_ptr(), to.len()) {
            return false;
        }
        // SAFETY: both ranges were checked, and do not overlap.
        unsafe { linerate_mem::copy_bytes(from.as_ptr(), to.as_mut_ptr(), to.len()) };
        true
    }

    /// Copies all of `from` into a buffer; false if it does not fit there, or overlaps with it.
    #[inline]
    pub(crate) fn write(&self, buffer: u32, offset: u64, from: &[u8]) -> bool {
        let Some(to) = self.bytes(buffer, offset, from.len()) else { return false };
        if overlap(to.as_ptr(), from.as_ptr(), from.len()) {
            return false;
        }
        // SAFETY: both ranges were checked, and do not overlap.
        unsafe { linerate_mem::copy_bytes(from.as_ptr(), to.as_ptr(), from.len()) };
        true
    }
}

/// True if two ranges of `len` bytes share some, as a frame of a pool that is made of the area does with its own buffer.
#[inline]
fn overlap(one: *const u8, other: *const u8, len: usize) -> bool {
    one.addr().abs_diff(other.addr()) < len
}
