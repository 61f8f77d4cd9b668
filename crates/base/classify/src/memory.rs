//! Arrays of shared cells in zeroed memory: large ones on huge pages, of which the kernel gives those that are touched.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::size_of;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::primitive::{Arc, AtomicU32, AtomicU64};

/// A cell that can lie in memory before anybody writes it.
///
/// # Safety
/// Bytes that are all zero are a valid cell (but for loom, which gets `vacant` in each), and nothing has to be dropped.
pub(crate) unsafe trait Cell {
    /// The cell that zeroes stand for.
    fn vacant() -> Self;
}

// SAFETY: an atomic integer is its integer, for which zeroes are valid.
unsafe impl Cell for AtomicU64 {
    fn vacant() -> AtomicU64 {
        AtomicU64::new(0)
    }
}

// SAFETY: as above.
unsafe impl Cell for AtomicU32 {
    fn vacant() -> AtomicU32 {
        AtomicU32::new(0)
    }
}

/// One cache line of words.
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [AtomicU64; 8]);

// SAFETY: as above.
unsafe impl Cell for Line {
    fn vacant() -> Line {
        Line(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

// SAFETY: zeroes are a valid byte.
unsafe impl Cell for u8 {
    fn vacant() -> u8 {
        0
    }
}

/// From this size on an array is a mapping of its own, on huge pages if the kernel has them.
const LARGE: usize = 1 << 20;

/// Cells in one piece that begins at a cache line.
pub(crate) struct Array<T: Cell> {
    start: NonNull<T>,
    count: usize,
}

// SAFETY: the array owns its cells, as a box does.
unsafe impl<T: Cell + Send> Send for Array<T> {}
// SAFETY: as above; it hands out shared references only.
unsafe impl<T: Cell + Sync> Sync for Array<T> {}

impl<T: Cell> Array<T> {
    /// `count` vacant cells. As with a vector, the process ends if there is no memory.
    pub(crate) fn new(count: usize) -> Array<T> {
        let layout = layout::<T>(count);
        let start = zeroed(layout).cast::<T>();
        if cfg!(loom) {
            // SAFETY: the memory has room for `count` cells and is ours.
            (0..count).for_each(|at| unsafe { start.add(at).write(T::vacant()) });
        }
        Array { start, count }
    }

    /// Bytes that the array takes at most.
    pub(crate) fn bytes(&self) -> usize {
        layout::<T>(self.count).size()
    }
}

impl<T: Cell> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` made `count` valid cells there, which live as long as the array.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T: Cell> DerefMut for Array<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the array is the only owner of its cells.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}

impl<T: Cell> Drop for Array<T> {
    fn drop(&mut self) {
        if cfg!(loom) {
            // SAFETY: `new` wrote them, and nobody uses them any more.
            (0..self.count).for_each(|at| unsafe { self.start.add(at).drop_in_place() });
        }
        release(self.start.cast(), layout::<T>(self.count));
    }
}

/// An array that several own. Where its cells lie stands in each handle, so that a reader does not load it from the array.
pub(crate) struct SharedArray<T: Cell> {
    start: NonNull<T>,
    count: usize,
    array: Arc<Array<T>>,
}

// SAFETY: the pointer is into the array, of which the handle is an owner as an `Arc` is.
unsafe impl<T: Cell + Send + Sync> Send for SharedArray<T> {}
// SAFETY: as above.
unsafe impl<T: Cell + Send + Sync> Sync for SharedArray<T> {}

impl<T: Cell> SharedArray<T> {
    /// `count` vacant cells.
    pub(crate) fn new(count: usize) -> SharedArray<T> {
        let array = Arc::new(Array::new(count));
        SharedArray { start: array.start, count, array }
    }

    /// Bytes that the array takes at most.
    pub(crate) fn bytes(&self) -> usize {
        self.array.bytes()
    }
}

impl<T: Cell> Clone for SharedArray<T> {
    fn clone(&self) -> SharedArray<T> {
        SharedArray { start: self.start, count: self.count, array: Arc::clone(&self.array) }
    }
}

impl<T: Cell> Deref for SharedArray<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: these are the cells of the array, which lives as long as the handle and never moves them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

fn layout<T>(count: usize) -> Layout {
    let layout = size_of::<T>().checked_mul(count.max(1)).and_then(|bytes| {
        let bytes = if is_large(bytes) { bytes.next_multiple_of(4096) } else { bytes };
        Layout::from_size_align(bytes, align_of::<T>().max(64)).ok()
    });
    layout.expect("an array of cells is smaller than the address space")
}

fn is_large(bytes: usize) -> bool {
    bytes >= LARGE && !cfg!(any(miri, loom))
}

fn zeroed(layout: Layout) -> NonNull<u8> {
    let start = if is_large(layout.size()) {
        map(layout.size())
    } else {
        // SAFETY: the layout has a size, since `layout` counts one cell at least and no cell is empty.
        NonNull::new(unsafe { alloc_zeroed(layout) })
    };
    start.unwrap_or_else(|| handle_alloc_error(layout))
}

fn release(start: NonNull<u8>, layout: Layout) {
    if is_large(layout.size()) {
        // SAFETY: `map` made this mapping with this size, and nothing refers to it any more.
        unsafe { libc::munmap(start.as_ptr().cast(), layout.size()) };
    } else {
        // SAFETY: `alloc_zeroed` gave it with this layout.
        unsafe { dealloc(start.as_ptr(), layout) };
    }
}

fn map(bytes: usize) -> Option<NonNull<u8>> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice; touches no existing memory.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the range is the mapping that was just made, and this advice changes no contents. A kernel may refuse it.
    unsafe { libc::madvise(start, bytes, libc::MADV_HUGEPAGE) };
    NonNull::new(start.cast())
}
