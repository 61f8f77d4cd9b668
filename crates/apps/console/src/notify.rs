//! How a thread that moves packets wakes the main one, which sleeps between its looks, when it is through.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// Wakes the main thread when the other one is through, however that ends.
pub struct NotifyOnDrop<'a> {
    /// The main thread.
    pub watcher: &'a Thread,
    /// Set when the other one is through.
    pub done: &'a AtomicBool,
}

impl Drop for NotifyOnDrop<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        self.watcher.unpark();
    }
}
