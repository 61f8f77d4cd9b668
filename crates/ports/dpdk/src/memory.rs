//! The mbufs of each pool that DPDK ports are opened on: made with the first port on it, gone with the last one.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use linerate_mem::{Pool, Region};

use crate::sys::FrameStore;

struct Entry {
    region: Weak<Region>,
    store: Weak<FrameStore>,
}

/// The mbufs of this pool's frames.
///
/// # Errors
/// There is no memory for them; in words.
pub(crate) fn store_of(pool: &Pool) -> Result<Arc<FrameStore>, String> {
    static STORES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    stores.retain(|entry| entry.store.strong_count() > 0);
    let is_of_pool = |entry: &&Entry| std::ptr::eq(entry.region.as_ptr(), Arc::as_ptr(pool.region()));
    if let Some(store) = stores.iter().find(is_of_pool).and_then(|entry| entry.store.upgrade()) {
        return Ok(store);
    }
    let frames = pool.region().frames();
    let store = FrameStore::new(pool).ok_or_else(|| {
        format!("no memory for {frames} mbufs: give the kernel more huge pages, or take fewer frames or queues")
    })?;
    let store = Arc::new(store);
    stores.push(Entry { region: Arc::downgrade(pool.region()), store: Arc::downgrade(&store) });
    Ok(store)
}
