//! An array of fixed capacity in a reserved mapping, whose elements never move.
#![allow(unsafe_code)]

use std::ops::{Index, IndexMut};
use std::ptr::NonNull;

use crate::available::available_bytes;

/// Address space for an array could not be reserved.
#[derive(Debug, thiserror::Error)]
#[error("cannot reserve {bytes} bytes for {capacity} elements: {source}; a smaller capacity needs less")]
pub struct ReserveError {
    /// Elements asked for.
    pub capacity: usize,
    /// Size of the mapping.
    pub bytes: usize,
    /// What mmap(2) answered.
    pub source: std::io::Error,
}

/// The kernel does not give memory in advance.
#[derive(Debug, thiserror::Error)]
#[error("cannot take {bytes} bytes of memory in advance for {count} elements: {why}")]
pub struct PopulateError {
    /// Elements that memory was asked for.
    pub count: usize,
    /// Size of that memory.
    pub bytes: usize,
    /// What is available, or what madvise(2) answered.
    pub why: String,
}

/// Elements by `u32` index in one mapping, on huge pages if the kernel has them.
///
/// The mapping is reserved for the whole capacity when the array is made, but the kernel gives memory only where elements are
/// pushed. Elements are plain values (`Copy`), because nothing is dropped with the array.
///
/// ```
/// let mut array = linerate_slab::Array::new(1_000_000).unwrap();
/// assert_eq!(array.push(7u64), Some(0));
/// array[0] += 1;
/// assert_eq!((array[0], array.len(), array.get(1)), (8, 1, None));
/// ```
pub struct Array<T: Copy> {
    start: NonNull<T>,
    len: usize,
    capacity: usize,
    mapping: *mut libc::c_void,
    mapping_bytes: usize,
}

// SAFETY: the array owns its mapping and its elements, as a vector does.
unsafe impl<T: Copy + Send> Send for Array<T> {}
// SAFETY: as above; shared references only read.
unsafe impl<T: Copy + Sync> Sync for Array<T> {}

const HUGE_PAGE: usize = 2 << 20;
const PAGE: usize = 4096;
const LINE: usize = 64;

impl<T: Copy> Array<T> {
    /// An empty array with room for `capacity` elements, at most `u32::MAX`.
    ///
    /// # Errors
    /// The kernel does not reserve so much address space.
    pub fn new(capacity: usize) -> Result<Array<T>, ReserveError> {
        const { assert!(align_of::<T>() <= PAGE) };
        let refused = |bytes, source| ReserveError { capacity, bytes, source };
        let bytes = capacity.max(1).checked_mul(size_of::<T>().max(1)).filter(|_| capacity <= u32::MAX as usize);
        let bytes = bytes.and_then(|bytes| bytes.checked_next_multiple_of(PAGE));
        let Some(bytes) = bytes.filter(|bytes| *bytes <= isize::MAX as usize - HUGE_PAGE) else {
            return Err(refused(usize::MAX, std::io::Error::from_raw_os_error(libc::ENOMEM)));
        };
        let is_large = bytes >= HUGE_PAGE;
        let mapping_bytes = if is_large { bytes + HUGE_PAGE } else { bytes };
        let mapping = map(mapping_bytes).map_err(|source| refused(mapping_bytes, source))?;
        let skip = if is_large { mapping.as_ptr().align_offset(HUGE_PAGE) } else { 0 };
        // An interpreter may not know how far the next huge page is; every page is aligned well enough.
        let skip = if skip <= HUGE_PAGE { skip } else { 0 };
        // SAFETY: a large mapping is longer than its elements by one huge page, so the skipped bytes are inside it.
        let start = unsafe { mapping.add(skip) };
        if is_large {
            advise_huge_pages(start, bytes);
        }
        Ok(Array { start: start.cast(), len: 0, capacity, mapping: mapping.as_ptr().cast(), mapping_bytes })
    }

    /// An array of `len` elements whose bytes are all zero, of which none is in memory yet.
    ///
    /// # Errors
    /// The kernel does not reserve so much address space.
    ///
    /// # Safety
    /// Zeroes are a valid element.
    pub(crate) unsafe fn zeroed(len: usize) -> Result<Array<T>, ReserveError> {
        // Pages of a fresh anonymous mapping are zero.
        let mut array = Array::new(len)?;
        array.len = len;
        Ok(array)
    }

    /// Takes memory for the first `count` elements from the kernel now, on huge pages if it has them, so that no later write to them waits
    /// for a page. At most the capacity counts. The elements stay as they are.
    ///
    /// # Errors
    /// There is not so much memory. A part of it may have been taken.
    pub fn populate(&mut self, count: usize) -> Result<(), PopulateError> {
        let count = count.min(self.capacity);
        let bytes = count * size_of::<T>();
        if bytes == 0 || cfg!(miri) {
            return Ok(());
        }
        // The kernel would rather end a process than refuse.
        match available_bytes() {
            Some(available) if (bytes as u64) > available => {
                let why = format!("{available} bytes are available");
                Err(PopulateError { count, bytes, why })
            }
            _ => populate(self.start.cast(), bytes.next_multiple_of(PAGE)).map_err(|source| {
                let why = source.to_string();
                PopulateError { count, bytes, why }
            }),
        }
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Most elements that the array can have.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Appends an element and returns its index; `None` if the array is full.
    #[inline]
    pub fn push(&mut self, element: T) -> Option<u32> {
        if self.len == self.capacity {
            return None;
        }
        // SAFETY: `len` is below the capacity, so the place is inside the mapping, and nobody else refers to it.
        unsafe { self.start.add(self.len).write(element) };
        self.len += 1;
        Some((self.len - 1) as u32)
    }

    /// Takes the last element out.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: the place held an element, which `push` wrote.
        Some(unsafe { self.start.add(self.len).read() })
    }

    /// Element `index`.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        // SAFETY: indexes below `len` have elements, and `&self` keeps writers out.
        ((index as usize) < self.len).then(|| unsafe { self.start.add(index as usize).as_ref() })
    }

    /// As [`Array::get`], to write.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        // SAFETY: as in `get`; `&mut self` keeps everybody else out.
        ((index as usize) < self.len).then(|| unsafe { self.start.add(index as usize).as_mut() })
    }

    /// All elements.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the first `len` places have elements, in one piece.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// As [`Array::as_slice`], to write.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`; `&mut self` keeps everybody else out.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Asks for the line in which element `index` begins, and for the next one if the element is longer than a line. The element will
    /// be written soon. Nothing happens if there is no such element.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        let lines = self.lines();
        let first = index as usize * size_of::<T>() / LINE;
        linerate_mem::prefetch_to_write(lines, first);
        if size_of::<T>() > LINE || !LINE.is_multiple_of(size_of::<T>().max(1)) {
            linerate_mem::prefetch_to_write(lines, first + 1);
        }
    }

    /// The elements' memory as whole lines.
    #[inline]
    fn lines(&self) -> &[[u8; LINE]] {
        // SAFETY: no line is in the slice, so nothing is read through it; only the address is used.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), 0) }
    }
}

impl<T: Copy> Index<u32> for Array<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.as_slice()[index as usize]
    }
}

impl<T: Copy> IndexMut<u32> for Array<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.as_mut_slice()[index as usize]
    }
}

impl<T: Copy> Drop for Array<T> {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping with this size, and nothing refers to it any more.
        unsafe { libc::munmap(self.mapping, self.mapping_bytes) };
    }
}

fn map(bytes: usize) -> std::io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let reserve_only = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | reserve_only;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice; it touches no existing memory.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| std::io::Error::other("mmap returned address 0"))
}

fn advise_huge_pages(start: NonNull<u8>, bytes: usize) {
    if cfg!(miri) {
        return;
    }
    // SAFETY: the range is inside the mapping that was just made, and this advice changes no contents. A kernel may refuse it.
    unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
}

/// Takes the pages of this range, whole pages of a mapping that nobody else uses now (MADV_POPULATE_WRITE, since Linux 5.14; by a write to each
/// page before).
fn populate(start: NonNull<u8>, bytes: usize) -> std::io::Result<()> {
    // SAFETY: the range is inside a mapping, and this advice changes no contents.
    if unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) } == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    if error.raw_os_error() != Some(libc::EINVAL) {
        return Err(error);
    }
    touch(start, bytes);
    Ok(())
}

/// Writes to each page what is there.
fn touch(start: NonNull<u8>, bytes: usize) {
    for offset in (0..bytes).step_by(PAGE) {
        // SAFETY: the byte is inside the range, whose owner lends it for writing; a volatile access is not left out.
        unsafe {
            let page = start.add(offset);
            page.write_volatile(page.read_volatile());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the array that are in memory.
    fn resident<T: Copy>(array: &Array<T>) -> usize {
        let mut pages = vec![0_u8; array.mapping_bytes.div_ceil(PAGE)];
        // SAFETY: the vector has a byte for each page of the mapping.
        assert_eq!(unsafe { libc::mincore(array.mapping, array.mapping_bytes, pages.as_mut_ptr()) }, 0);
        pages.iter().filter(|page| **page & 1 != 0).count() * PAGE
    }

    #[test]
    #[cfg_attr(miri, ignore = "the interpreter knows no pages")]
    fn memory_is_taken_in_advance_and_no_more_when_it_is_written() {
        for take in [
            |array: &mut Array<u64>, count| array.populate(count).unwrap(),
            |array: &mut Array<u64>, count| {
                touch(array.start.cast(), count * 8);
            },
        ] {
            let mut array = Array::new(8 << 20).unwrap();
            (0..1000).for_each(|number| assert!(array.push(number).is_some()));
            assert!(resident(&array) <= HUGE_PAGE);
            take(&mut array, 2 << 20);
            let taken = resident(&array);
            assert!((16 << 20..=18 << 20).contains(&taken), "{taken}");
            (1000..2 << 20).for_each(|number| assert!(array.push(number).is_some()));
            assert_eq!(resident(&array), taken);
            assert!((0..2 << 20).all(|index| array[index] == u64::from(index)), "contents stay");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "the interpreter knows no pages")]
    fn memory_that_is_not_there_is_refused_and_none_is_taken() {
        let mut array = Array::<[u8; 1 << 20]>::new(64 << 20).unwrap();
        let error = array.populate(usize::MAX).unwrap_err();
        assert_eq!((error.count, error.bytes), (64 << 20, 64 << 40));
        assert!(error.to_string().contains("bytes are available"), "{error}");
        // The array can be used as before.
        assert!(array.populate(1).is_ok() && array.populate(0).is_ok() && array.is_empty());
    }
}
