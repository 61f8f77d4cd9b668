//! Values by index, which one thread inserts and removes while workers read them.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use crate::chunks::Chunks;
use crate::domain::{Domain, Guard, Limbo};
use crate::memory::Cell;
use crate::primitive::{Arc, AtomicU32, Ordering};

/// Low two bits of a state. The bits above count how often the slot was bumped or emptied.
const KIND: u32 = 3;
/// There is no value.
const VACANT: u32 = 0;
/// There is a value, which readers may take.
const OCCUPIED: u32 = 1;
/// There is a value, which was removed and which readers may still hold.
const REMOVED: u32 = 2;

/// A value and its state, which lie beside each other: a value of 56 bytes, aligned to 8, makes one cache line.
#[repr(C)]
struct Slot<T> {
    state: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: zeroes are a vacant slot, whose value nobody reads; the slab drops the values of others.
unsafe impl<T> Cell for Slot<T> {
    fn vacant() -> Slot<T> {
        Slot { state: AtomicU32::new(VACANT), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }
}

struct Shared<T> {
    domain: Domain,
    slots: Chunks<Slot<T>>,
}

// SAFETY: values pass between threads (`Send`) and are read by several (`Sync`). The one writer writes a value only where the
// slot is vacant, so that no reader takes it.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Shared<T> {}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        for slot in self.slots.iter() {
            if slot.state.load(Ordering::Relaxed) & KIND != VACANT {
                // SAFETY: a slot that is not vacant has a value, and nobody else has the slab any more.
                unsafe { (*slot.value.get()).assume_init_drop() };
            }
        }
    }
}

/// The writer's end of a slab.
///
/// ```
/// use linerate_classify::{Domain, Slab};
/// let domain = Domain::new(1);
/// let mut worker = domain.worker().unwrap();
/// let mut slab = Slab::new(&domain, 1000);
/// let reader = slab.reader();
/// let index = slab.insert("value").unwrap();
/// let guard = worker.enter();
/// assert_eq!(reader.view(&guard).get(index), Some(&"value"));
/// ```
pub struct Slab<T> {
    shared: Arc<Shared<T>>,
    free: Vec<u32>,
    /// Slots that had a value once are below it.
    used: u32,
    capacity: u32,
    len: usize,
    limbo: Limbo<u32>,
}

impl<T: Send + Sync> Slab<T> {
    /// An empty slab for up to `capacity` values, whose readers are workers of `domain`.
    pub fn new(domain: &Domain, capacity: u32) -> Slab<T> {
        let shared = Arc::new(Shared { domain: domain.clone(), slots: Chunks::new() });
        Slab { shared, free: Vec::new(), used: 0, capacity, len: 0, limbo: Limbo::new(domain) }
    }

    /// An end for a reader.
    pub fn reader(&self) -> SlabReader<T> {
        SlabReader(Arc::clone(&self.shared))
    }

    /// Puts a value in and returns its index. An index is used again after its value was dropped.
    ///
    /// # Errors
    /// The slab is full; the value comes back. Values that were removed count until they are dropped.
    pub fn insert(&mut self, value: T) -> Result<u32, T> {
        if self.free.is_empty() {
            self.reclaim();
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.used < self.capacity => {
                self.shared.slots.reserve(self.used);
                self.used += 1;
                self.used - 1
            }
            None => return Err(value),
        };
        let Some(slot) = self.shared.slots.get(index) else { return Err(value) };
        let state = slot.state.load(Ordering::Relaxed);
        // SAFETY: the slot is vacant, since its index was free, so no reader takes the value, and there is one writer.
        unsafe { (*slot.value.get()).write(value) };
        slot.state.store(state & !KIND | OCCUPIED, Ordering::Release);
        self.len += 1;
        Ok(index)
    }

    /// Takes the value at `index` out of reach. It is dropped after each worker has passed a quiet point or is parked, by a later
    /// call of this writer. Returns false if there is none.
    pub fn remove(&mut self, index: u32) -> bool {
        let Some(slot) = self.occupied(index) else { return false };
        slot.state.store(slot.state.load(Ordering::Relaxed) & !KIND | REMOVED, Ordering::Release);
        self.len -= 1;
        self.limbo.put(index);
        if self.limbo.len().is_multiple_of(RECLAIM_AT) {
            self.reclaim();
        }
        true
    }

    /// Gives the value at `index` another generation, so that pairs of index and generation that others keep are stale. Returns
    /// false if there is none.
    pub fn bump(&mut self, index: u32) -> bool {
        let Some(slot) = self.occupied(index) else { return false };
        slot.state.store(slot.state.load(Ordering::Relaxed).wrapping_add(KIND + 1), Ordering::Release);
        true
    }

    /// Drops removed values that no worker holds any more, and returns how many. Insertions and removals do so, too.
    pub fn reclaim(&mut self) -> usize {
        let due = self.limbo.due();
        for index in &due {
            let Some(slot) = self.shared.slots.get(*index) else { continue };
            // SAFETY: the slot is marked as removed and has its value; every worker has passed a quiet point since it was marked,
            // so none holds the value or can take it. There is one writer.
            unsafe { (*slot.value.get()).assume_init_drop() };
            let state = slot.state.load(Ordering::Relaxed);
            slot.state.store((state & !KIND).wrapping_add(KIND + 1) | VACANT, Ordering::Release);
        }
        self.free.extend_from_slice(&due);
        due.len()
    }

    /// The value at `index`.
    pub fn get(&self, index: u32) -> Option<&T> {
        // SAFETY: the slot is occupied; only this writer drops the value, for which it must not be borrowed.
        self.occupied(index).map(|slot| unsafe { (*slot.value.get()).assume_init_ref() })
    }

    /// The generation of the value at `index`.
    pub fn generation(&self, index: u32) -> Option<u32> {
        self.occupied(index).map(|slot| slot.state.load(Ordering::Relaxed))
    }

    /// Values in the slab, without those removed.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no value in the slab.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All indices below this one are those that were ever used.
    pub fn end(&self) -> u32 {
        self.used
    }

    /// Bytes that the slots take at most.
    pub fn memory_bytes(&self) -> usize {
        self.shared.slots.bytes() + self.free.capacity() * size_of::<u32>()
    }

    fn occupied(&self, index: u32) -> Option<&Slot<T>> {
        self.shared.slots.get(index).filter(|slot| slot.state.load(Ordering::Relaxed) & KIND == OCCUPIED)
    }
}

/// Removed values that wait before a removal looks which can be dropped.
const RECLAIM_AT: usize = 128;

/// A reader's end of a slab.
pub struct SlabReader<T>(Arc<Shared<T>>);

impl<T> Clone for SlabReader<T> {
    fn clone(&self) -> SlabReader<T> {
        SlabReader(Arc::clone(&self.0))
    }
}

impl<T: Send + Sync> SlabReader<T> {
    /// What can be read until the worker's next quiet point.
    ///
    /// # Panics
    /// If the guard is of a worker of another domain.
    #[inline]
    pub fn view<'g>(&'g self, guard: &'g Guard<'_>) -> SlabView<'g, T> {
        guard.assert_of(&self.0.domain);
        SlabView(&self.0)
    }
}

/// The values of a slab while a worker reads.
pub struct SlabView<'g, T>(&'g Shared<T>);

impl<T> Clone for SlabView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SlabView<'_, T> {}

impl<'g, T: Send + Sync> SlabView<'g, T> {
    /// The value at `index`.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&'g T> {
        let slot = self.0.slots.get(index)?;
        // SAFETY: as for `take`, which this is for any generation.
        (slot.state.load(Ordering::Acquire) & KIND == OCCUPIED).then(|| unsafe { take(slot) })
    }

    /// The value at `index`, if its generation is this one still.
    #[inline]
    pub fn get_current(&self, index: u32, generation: u32) -> Option<&'g T> {
        let slot = self.0.slots.get(index)?;
        let state = slot.state.load(Ordering::Acquire);
        // SAFETY: as for `take`.
        (state == generation && state & KIND == OCCUPIED).then(|| unsafe { take(slot) })
    }

    /// The value at `index` and its generation.
    #[inline]
    pub fn get_with_generation(&self, index: u32) -> Option<(&'g T, u32)> {
        let slot = self.0.slots.get(index)?;
        let state = slot.state.load(Ordering::Acquire);
        // SAFETY: as for `take`.
        (state & KIND == OCCUPIED).then(|| (unsafe { take(slot) }, state))
    }

    /// Asks for the first cache line of the value at `index`.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        self.0.slots.prefetch(index);
    }
}

/// # Safety
/// The caller holds a guard and has seen, by a load that acquires, that the slot is occupied. The writer drops or replaces the value only
/// after the guard's worker has passed a quiet point, and the guard outlives `'g`.
#[inline]
unsafe fn take<T>(slot: &Slot<T>) -> &T {
    // SAFETY: the value was written before the slot was marked as occupied.
    unsafe { (*slot.value.get()).assume_init_ref() }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_removed_value_lives_until_each_worker_has_passed_a_quiet_point() {
        let domain = Domain::new(1);
        let mut worker = domain.worker().unwrap();
        let mut slab = Slab::new(&domain, 2);
        let reader = slab.reader();
        let value = Arc::new(7);
        let index = slab.insert(Arc::clone(&value)).unwrap();
        let guard = worker.enter();
        let view = reader.view(&guard);
        let held = view.get(index).unwrap();
        assert!(slab.remove(index) && !slab.remove(index));
        assert!(view.get(index).is_none() && slab.is_empty());
        assert_eq!((slab.reclaim(), **held, Arc::strong_count(&value)), (0, 7, 2));
        let other = slab.insert(Arc::new(8)).unwrap();
        assert_ne!(other, index);
        assert!(slab.insert(Arc::new(9)).is_err(), "the removed value counts until it is dropped");
        worker.enter();
        assert_eq!((slab.reclaim(), Arc::strong_count(&value)), (1, 1));
        assert_eq!(slab.insert(Arc::new(10)).unwrap(), index);
    }

    #[test]
    fn a_generation_is_stale_once_the_value_was_bumped_or_replaced() {
        let domain = Domain::new(1);
        let mut worker = domain.worker().unwrap();
        let mut slab = Slab::new(&domain, 10);
        let reader = slab.reader();
        let index = slab.insert(1).unwrap();
        let first = slab.generation(index).unwrap();
        let guard = worker.enter();
        let view = reader.view(&guard);
        assert_eq!((view.get_current(index, first), view.get_with_generation(index)), (Some(&1), Some((&1, first))));
        assert!(slab.bump(index));
        assert_eq!((view.get_current(index, first), view.get(index)), (None, Some(&1)));
        let second = slab.generation(index).unwrap();
        assert_eq!(view.get_current(index, second), Some(&1));
        slab.remove(index);
        assert_eq!((view.get_current(index, second), slab.generation(index)), (None, None));
        worker.park();
        slab.reclaim();
        assert_eq!(slab.insert(2).unwrap(), index);
        let guard = worker.enter();
        let view = reader.view(&guard);
        assert_eq!((view.get_current(index, second), view.get(index)), (None, Some(&2)));
    }

    #[test]
    fn every_value_is_dropped_once() {
        let domain = Domain::new(1);
        let mut worker = domain.worker().unwrap();
        let value = Arc::new(0);
        let mut slab = Slab::new(&domain, 1000);
        let reader = slab.reader();
        for index in 0..500 {
            assert_eq!(slab.insert(Arc::clone(&value)).unwrap(), index);
        }
        worker.enter();
        (0..250).for_each(|index| assert!(slab.remove(index)));
        drop(slab);
        assert_eq!(Arc::strong_count(&value), 501, "a reader may still hold the removed ones");
        drop(reader);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
