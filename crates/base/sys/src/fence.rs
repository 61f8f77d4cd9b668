//! A pair of fences, of which the one that is passed often costs nearly nothing, and the other one a system call (membarrier(2)).
//!
//! A thread stores A, passes one fence and loads B; another one stores B, passes the other fence and loads A. At least one of them sees what the
//! other stored. Where the kernel has no such call, both fences are full ones.
//!
//! ```text
//! sender    store a packet       light fence     is the flag set?         sees the flag, or
//! sleeper   set the flag         heavy fence     is there a packet?       sees the packet
//! ```

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

use crate::membarrier::{of_all_threads, register};

/// The heavy fence is one of all threads of this process. Written by [`prepare`] alone.
static IS_OF_ALL: AtomicBool = AtomicBool::new(false);

/// Asks the kernel for its part, once in a process. To be called before either fence is passed, by whoever makes what both threads share.
pub fn prepare() {
    static ASKED: Once = Once::new();
    ASKED.call_once(|| {
        // An interpreter does not know the call.
        let is_there = !cfg!(miri) && register() && of_all_threads();
        IS_OF_ALL.store(is_there, Ordering::SeqCst);
    });
}

/// The fence that is passed often.
#[inline]
pub fn light() {
    if IS_OF_ALL.load(Ordering::Relaxed) { compiler_fence(Ordering::SeqCst) } else { fence(Ordering::SeqCst) }
}

/// The fence that is passed seldom. False if it did not work, so that what the other thread stores may not be seen.
pub fn heavy() -> bool {
    fence(Ordering::SeqCst);
    !IS_OF_ALL.load(Ordering::Relaxed) || of_all_threads()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// Two threads, over and over: never does neither see what the other stored.
    #[test]
    fn one_of_two_sees_the_other() {
        const ROUNDS: u32 = if cfg!(miri) { 50 } else { 20_000 };
        prepare();
        let (packet, flag, both) = (AtomicU32::new(0), AtomicU32::new(0), Barrier::new(2));
        let (saw_flag, saw_packet) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    both.wait();
                    packet.store(round, Ordering::Relaxed);
                    light();
                    saw_flag.store(flag.load(Ordering::Relaxed), Ordering::Relaxed);
                    both.wait();
                }
            });
            for round in 1..=ROUNDS {
                both.wait();
                flag.store(round, Ordering::Relaxed);
                assert!(heavy());
                saw_packet.store(packet.load(Ordering::Relaxed), Ordering::Relaxed);
                both.wait();
                let seen = [&saw_flag, &saw_packet].map(|seen| seen.load(Ordering::Relaxed));
                assert!(seen.contains(&round), "round {round}: {seen:?}");
            }
        });
    }
}
