//! How a thread that moves packets tells the main one, which sleeps between its looks, that it is through.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// Wakes the main thread when the other one is through, however that ends.
pub struct Telling<'a> {
    /// The main thread.
    pub watcher: &'a Thread,
    /// Set when the other one is through.
    pub done: &'a AtomicBool,
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        self.watcher.unpark();
    }
}
