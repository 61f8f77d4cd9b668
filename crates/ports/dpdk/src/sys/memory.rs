//! Frames of a pool as mbufs: the store that the mempool's operations take free frames from, and give them back to.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use linerate_mem::{Pool, Slot};

use super::abi::{self, RawMemory};

/// What both directions need to know.
struct Store {
    pool: Mutex<Pool>,
    base: usize,
    frame_shift: u32,
    /// Address of the mbuf of frame 0, and bytes from one mbuf to the next; set once the mbufs are there.
    mbufs: OnceLock<(usize, usize)>,
}

impl Store {
    fn pool(&self) -> MutexGuard<'_, Pool> {
        // A panic elsewhere leaves the pool whole.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mbufs of a pool's frames. Dropping it gives all frames that DPDK holds back; no device is open on it then.
pub(crate) struct FrameStore {
    memory: NonNull<RawMemory>,
    /// Owned; the shim has the same address.
    store: NonNull<Store>,
}

// SAFETY: the memory is used by libdpdk's own rules, which allow any thread; the store locks.
unsafe impl Send for FrameStore {}
// SAFETY: as above.
unsafe impl Sync for FrameStore {}

/// Memories that exist, so that a thread that ends can give back what its caches hold.
static MEMORIES: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn memories() -> MutexGuard<'static, Vec<usize>> {
    MEMORIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the frames back that the calling thread's caches hold.
pub(super) fn flush_all() {
    for memory in memories().iter() {
        // SAFETY: a memory on the list exists, because it leaves the list, whose lock is held, before it goes.
        unsafe { abi::ln_memory_flush_thread(*memory as *mut RawMemory) };
    }
}

impl FrameStore {
    /// Makes an mbuf for each frame of the pool, and registers its memory. `None` if there is no memory for the mbufs.
    pub fn new(pool: &Pool) -> Option<FrameStore> {
        let region = pool.region();
        let frame_shift = region.frame_size().trailing_zeros();
        let page_bytes = if region.is_huge() { 2 << 20 } else { 4096 };
        let pool = Mutex::new(pool.clone());
        let (base, bytes, frames) = (region.base(), region.bytes() as u64, region.frames());
        let store = Box::new(Store { pool, base: base as usize, frame_shift, mbufs: OnceLock::new() });
        let store = NonNull::from(Box::leak(store));
        // SAFETY: the region lives as long as the store's pool; the store lives until the memory is freed; the functions are as
        // the shim wants them.
        let memory = unsafe {
            abi::ln_memory_new(base, bytes, frames, frame_shift, page_bytes, store.as_ptr().cast(), put, take)
        };
        let Some(memory) = NonNull::new(memory) else {
            // SAFETY: nobody else has the store.
            drop(unsafe { Box::from_raw(store.as_ptr()) });
            return None;
        };
        // SAFETY: the shim made it and does not change these fields any more.
        let raw = unsafe { memory.as_ref() };
        // SAFETY: the store is alive.
        let _ = unsafe { store.as_ref() }.mbufs.set((raw.mbufs as usize, raw.stride as usize));
        memories().push(memory.as_ptr() as usize);
        Some(FrameStore { memory, store })
    }

    pub(super) fn raw(&self) -> *mut RawMemory {
        self.memory.as_ptr()
    }

    /// Gives the frames back that the calling thread's cache holds.
    pub fn flush(&self) {
        // SAFETY: the memory exists; the cache is the calling thread's own.
        unsafe { abi::ln_memory_flush_thread(self.raw()) };
        // SAFETY: the store is alive.
        unsafe { self.store.as_ref() }.pool().flush();
    }
}

impl Drop for FrameStore {
    fn drop(&mut self) {
        memories().retain(|memory| *memory != self.memory.as_ptr() as usize);
        // SAFETY: no device is open on the memory, so that nobody uses it; the store goes last.
        unsafe {
            abi::ln_memory_free(self.raw());
            drop(Box::from_raw(self.store.as_ptr()));
        }
    }
}

extern "C" fn put(store: *mut c_void, mbufs: *const *mut c_void, count: c_uint) -> c_int {
    // SAFETY: the shim passes the store that it was given, and so many mbufs.
    let (store, mbufs) = unsafe { (&*store.cast::<Store>(), std::slice::from_raw_parts(mbufs, count as usize)) };
    let mut pool = store.pool();
    for mbuf in mbufs {
        // SAFETY: the first field of an mbuf is the address of its buffer, here the first byte of its frame.
        let buffer = unsafe { *mbuf.cast::<usize>() };
        let frame = (buffer - store.base) >> store.frame_shift;
        // SAFETY: a free mbuf owns its frame, which is the pool's, and gives it up here.
        unsafe { pool.free_slot(Slot::new(frame as u32, 0, 0)) };
    }
    0
}

extern "C" fn take(store: *mut c_void, mbufs: *mut *mut c_void, count: c_uint) -> c_int {
    // SAFETY: as in `put`; the mbufs are written only.
    let store = unsafe { &*store.cast::<Store>() };
    let Some((first, stride)) = store.mbufs.get().copied() else { return -libc::ENOBUFS };
    let mut pool = store.pool();
    for index in 0..count as usize {
        let Some(slot) = pool.alloc_slot(0) else {
            for taken in 0..index {
                // SAFETY: written by an earlier pass of the loop; the frame goes back to where it came from.
                unsafe {
                    let frame = (*mbufs.add(taken) as usize - first) / stride;
                    pool.free_slot(Slot::new(frame as u32, 0, 0));
                }
            }
            return -libc::ENOBUFS;
        };
        // SAFETY: there is room for `count` mbufs; mbuf N is the one of frame N.
        unsafe { mbufs.add(index).write((first + slot.frame() as usize * stride) as *mut c_void) };
    }
    0
}
