//! One monotonic nanosecond clock: `CLOCK_MONOTONIC`, read through the vDSO.
//!
//! The kernel's vDSO reads the TSC where it is invariant and scales it, in about 20 ns; read once a batch that is below a
//! nanosecond a packet, and the value is the very clock that `bpf_ktime_get_ns` reads, so stamps made by programs in the
//! kernel and here can be subtracted. (Sockets stamp packets with `CLOCK_REALTIME`; their ports convert.)
#![allow(unsafe_code)]

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[inline]
pub fn now_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of the same clock as of the last tick of the kernel, up to 10 ms ago (`CLOCK_MONOTONIC_COARSE`, clock_gettime(2)):
/// a quarter of the price, for what need not be exact.
#[inline]
pub fn recent_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC_COARSE)
}

/// Nanoseconds since 1970 (`CLOCK_REALTIME`), for capture files and names of results.
pub fn realtime_ns() -> u64 {
    read_ns(libc::CLOCK_REALTIME)
}

/// Nanoseconds that the calling thread has run on a core (`CLOCK_THREAD_CPUTIME_ID`).
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[inline]
fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing; the clocks named above always exist, so the call cannot fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until `deadline_ns` of [`now_ns`], or until a signal arrives.
pub fn sleep_until_ns(deadline_ns: u64) {
    let deadline = libc::timespec {
        tv_sec: (deadline_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (deadline_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `deadline` is a valid timespec; no remainder is asked for with an absolute time.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &deadline, std::ptr::null_mut()) };
}

/// Makes the sleeps of the calling thread end on time: its timer slack (PR_SET_TIMERSLACK, prctl(2)) becomes 1 ns instead of
/// the usual 50 us, by which the kernel may delay a wake-up to join it with others.
pub fn sleep_exactly() {
    // SAFETY: takes a number, touches no memory; it cannot fail with these arguments.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_and_sleeps_at_least_as_long_as_asked() {
        let before = now_ns();
        sleep_until_ns(before + 2_000_000);
        assert!(now_ns() >= before + 2_000_000);
    }

    #[test]
    fn the_last_tick_is_a_moment_ago() {
        let recent = recent_ns();
        let now = now_ns();
        assert!(recent <= now && recent + 1_000_000_000 > now, "{recent} and {now}");
    }

    #[test]
    fn slack_is_set_for_this_thread() {
        sleep_exactly();
        // SAFETY: takes no argument and touches no memory.
        assert_eq!(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) }, 1);
    }
}
