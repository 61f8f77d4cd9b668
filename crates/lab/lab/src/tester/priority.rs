//! Keeping the threads of a trial on their cores while others want them too.
//!
//! On a shared machine a thread that waits some milliseconds for its core is loss at any load: a veth ring holds 256 packets.
//! So the threads that send, route and receive go ahead of the rest, for the length of a trial (their own threads) or of the
//! path (its NAPI threads); all of them end with it.

use linerate_sys::affinity;

/// Who goes first where several of them share a core: the receiving thread, which sleeps most of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Working = 1,
    Receiving = 2,
}

/// Kernels from this one on let ordinary threads have 5 % of a core only when they really wait for it (the fair server);
/// earlier ones stop real-time threads for 50 ms in every second, which is worse than sharing.
const FAIR_SERVER_SINCE: (u32, u32) = (6, 12);

const NICE: i32 = -20;

/// Puts a thread (0 = the calling one) ahead. A wish: without CAP_SYS_NICE the threads share their cores as equals, which
/// makes a result noisier, not wrong.
pub(super) fn go_ahead(thread_id: i32, level: Level) {
    if kernel_version() < Some(FAIR_SERVER_SINCE) || affinity::set_fifo(thread_id, level as i32).is_err() {
        let _ = affinity::set_nice(thread_id, NICE);
    }
}

fn kernel_version() -> Option<(u32, u32)> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|word| word.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}
