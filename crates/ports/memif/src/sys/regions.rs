//! The memory in which packets lie: copied from and to, and never referred to.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use linerate_sys::shared::SharedMapping;

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

    #[inline]
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
        unsafe { linerate_mem::copy_bytes(self.start.as_ptr().add(at), to.as_mut_ptr(), to.len()) };
        true
    }

    /// Copies all of `from` to the bytes from `at` on; false if there are not as many.
    #[inline]
    pub(crate) fn write(&self, at: usize, from: &[u8]) -> bool {
        if at > self.length || from.len() > self.length - at {
            return false;
        }
        // SAFETY: both ranges were checked, and shared memory never overlaps a frame.
        unsafe { linerate_mem::copy_bytes(from.as_ptr(), self.start.as_ptr().add(at), from.len()) };
        true
    }

    /// Asks for the first line.
    #[inline]
    pub(crate) fn prefetch(&self) {
        linerate_mem::prefetch_address(self.start.as_ptr());
    }
}
