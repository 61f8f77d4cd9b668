//! Keeping the threads of a trial on their cores while others want them too.
//!
//! On a shared machine a thread that waits some milliseconds for its core is loss at any load: a veth ring holds 256 packets.
//! So the threads that send, route and receive go ahead of others, for the length of a trial (their own threads) or of the path (its
//! NAPI threads, and the switches that are processes, which share cores with these); all of them end with it.
//!
//! | priority | when | what others get |
//! |---|---|---|
//! | [`Priority::RealTime`] | the trial is short, and its threads have a core each | nothing until the trial ends |
//! | [`Priority::Nice`] | else | about 1 % of the core, in slices of milliseconds |
//!
//! A longer trial in the real-time class would be stopped for the rest of each second once it has worked through 95 % of it
//! (kernel.sched_rt_runtime_us), and two busy threads of that class on one core never give way to each other.

use linerate_sys::affinity;

const NICE: i32 = -20;
/// Low in the real-time class: above every ordinary thread, below whatever else the machine runs in it.
const REAL_TIME: i32 = 1;
/// Longest load in the real-time class, in nanoseconds: with the trial before it well below the share that the kernel allows.
pub const REAL_TIME_MAX_NS: u64 = 500_000_000;

/// How far the threads of a trial go ahead of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// The best nice value.
    #[default]
    Nice,
    /// SCHED_FIFO.
    RealTime,
}

/// Puts a thread (0 = the calling one) ahead. A wish: without CAP_SYS_NICE the threads share their cores as equals, which
/// makes a result noisier, not wrong.
pub fn raise_priority(thread_id: i32, priority: Priority) {
    let _ = affinity::set_nice(thread_id, NICE);
    let level = if priority == Priority::RealTime { REAL_TIME } else { 0 };
    let _ = affinity::set_fifo(thread_id, level);
}

/// Puts the calling thread on its core, ahead of what else runs there. A wish, as [`raise_priority`] is.
pub fn pin_and_prioritize(core: Option<usize>, priority: Priority) {
    if let Some(core) = core {
        let _ = affinity::pin_to_core(core);
    }
    raise_priority(0, priority);
}
