//! Load beside a test.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Does `work` while two threads of their own call `send` and `receive` again and again, and returns what it returns. They end with it, also
/// where it panics.
pub fn under_load<T>(mut send: impl FnMut() + Send, mut receive: impl FnMut() + Send, work: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    let repeat = |act: &mut dyn FnMut()| {
        while !ended.load(Ordering::Relaxed) {
            act();
        }
    };
    thread::scope(|scope| {
        let _end = End(&ended);
        scope.spawn(|| repeat(&mut send));
        scope.spawn(|| repeat(&mut receive));
        work()
    })
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
