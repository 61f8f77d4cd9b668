//! A value that one thread replaces while workers read it.
#![allow(unsafe_code)]

use std::sync::{Mutex, PoisonError};

use crate::domain::{Domain, Guard, Limbo};
use crate::primitive::{Arc, AtomicPtr, Ordering};

/// The readers' side.
pub(crate) struct Published<T> {
    domain: Domain,
    /// Made by `Arc::into_raw`; owns one count.
    current: AtomicPtr<T>,
    /// Values that readers may hold after the writer is gone.
    leftover: Mutex<Vec<Arc<T>>>,
}

impl<T: Send + Sync> Published<T> {
    /// The value, as the writer left it before the guard's version began or later.
    ///
    /// # Panics
    /// If the guard is of a worker of another domain.
    #[inline]
    pub(crate) fn load<'g>(&'g self, guard: &'g Guard<'_>) -> &'g T {
        guard.assert_of(&self.domain);
        // SAFETY: the pointer is of a value that was current when it was loaded. The writer keeps a value that it replaced until each
        // worker has passed a quiet point since, which this one does not while the guard lives; and one that the writer leaves behind
        // lives as long as `self`.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer owns a count of an `Arc`, and nobody reads it any more.
        drop(unsafe { Arc::from_raw(self.current.load(Ordering::Relaxed)) });
    }
}

/// The writer's side.
pub(crate) struct Publisher<T> {
    published: Arc<Published<T>>,
    current: Arc<T>,
    limbo: Limbo<Arc<T>>,
}

impl<T: Send + Sync> Publisher<T> {
    pub(crate) fn new(domain: &Domain, value: T) -> Publisher<T> {
        let current = Arc::new(value);
        let pointer = AtomicPtr::new(Arc::into_raw(Arc::clone(&current)).cast_mut());
        let published = Arc::new(Published { domain: domain.clone(), current: pointer, leftover: Mutex::default() });
        Publisher { published, current, limbo: Limbo::new(domain) }
    }

    pub(crate) fn published(&self) -> &Arc<Published<T>> {
        &self.published
    }

    pub(crate) fn current(&self) -> &T {
        &self.current
    }

    /// Replaces the value. The old one is dropped by a later call, when no worker reads it any more.
    pub(crate) fn publish(&mut self, value: T) {
        self.current = Arc::new(value);
        let pointer = Arc::into_raw(Arc::clone(&self.current)).cast_mut();
        let old = self.published.current.swap(pointer, Ordering::AcqRel);
        // SAFETY: the pointer owned a count of an `Arc`, which passes to the limbo.
        self.limbo.put(unsafe { Arc::from_raw(old) });
        self.reclaim();
    }

    /// Drops values that no worker reads any more.
    pub(crate) fn reclaim(&mut self) {
        drop(self.limbo.due());
    }
}

impl<T> Drop for Publisher<T> {
    fn drop(&mut self) {
        let waiting = self.limbo.drain();
        self.published.leftover.lock().unwrap_or_else(PoisonError::into_inner).extend(waiting);
    }
}
