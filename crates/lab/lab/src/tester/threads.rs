//! Keeping the threads of a trial on their cores while others want them too.
//!
//! On a shared machine a thread that waits some milliseconds for its core is loss at any load: a veth ring holds 256 packets.
//! So the threads that send, route and receive have the best nice value, for the length of a trial (their own threads) or of
//! the path (its NAPI threads, and the switches that are processes, which share cores with these); all of them end with it. Not a real-time class: a kernel with a limit on those stops such a
//! thread for the rest of a second once it has worked through 95 % of it, which a thread under full load does.

use linerate_sys::affinity;

const NICE: i32 = -20;

/// Puts a thread (0 = the calling one) ahead. A wish: without CAP_SYS_NICE the threads share their cores as equals, which
/// makes a result noisier, not wrong.
pub(crate) fn go_ahead(thread_id: i32) {
    let _ = affinity::set_nice(thread_id, NICE);
}

/// Puts the calling thread on its core, ahead of what else runs there. A wish, as [`go_ahead`] is.
pub(super) fn settle_on(core: Option<usize>) {
    if let Some(core) = core {
        let _ = affinity::pin_to_core(core);
    }
    go_ahead(0);
}
