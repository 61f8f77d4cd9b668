//! One monotonic nanosecond clock: `CLOCK_MONOTONIC`, read through the vDSO.
//!
//! The kernel's vDSO reads the TSC where it is invariant and scales it, in about 20 ns; read once a batch that is below a
//! nanosecond a packet, and the value is the very clock that `bpf_ktime_get_ns` reads, so timestamps made by programs in the
//! kernel and here can be subtracted. (Sockets timestamp packets with `CLOCK_REALTIME`; their ports convert.)
#![allow(unsafe_code)]

pub use crate::slack::sleep_exactly;

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

/// How far [`realtime_ns`] is ahead of [`now_ns`]. The two clocks cannot be read at once, and a thread may be kept from its core
/// between two readings; so the one is read between two of the other, again where those are not close together.
pub fn realtime_ahead_ns() -> u64 {
    ahead_ns(now_ns, realtime_ns)
}

/// Readings this close together are of one moment.
const CLOSE_NS: u64 = 1_000;
const READINGS_MAX: usize = 4;

fn ahead_ns(mut now_ns: impl FnMut() -> u64, mut realtime_ns: impl FnMut() -> u64) -> u64 {
    let (mut closest_ns, mut ahead_ns) = (u64::MAX, 0);
    for _ in 0..READINGS_MAX {
        let (before_ns, real_ns, after_ns) = (now_ns(), realtime_ns(), now_ns());
        let apart_ns = after_ns.saturating_sub(before_ns);
        if apart_ns < closest_ns {
            (closest_ns, ahead_ns) = (apart_ns, real_ns.wrapping_sub(before_ns + apart_ns / 2));
        }
        if closest_ns <= CLOSE_NS {
            break;
        }
    }
    ahead_ns
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
        tv_sec: (deadline_ns / 1_000_000_000) as _,
        tv_nsec: (deadline_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `deadline` is a valid timespec; no remainder is asked for with an absolute time.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &deadline, std::ptr::null_mut()) };
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
    fn a_reading_between_which_the_thread_had_no_core_is_made_again() {
        // Real time is 1,000,000 ahead. Of each reading: how long the thread was away before its second and its third clock.
        let ahead_ns = |away_ns: &[[u64; 2]]| {
            let time_ns = std::cell::Cell::new(50);
            let mut away_ns = away_ns.iter().flat_map(|[real, after]| [0, *real, *after]);
            let away_ns = std::cell::RefCell::new(&mut away_ns);
            let read = || time_ns.replace(time_ns.get() + away_ns.borrow_mut().next().unwrap() + 10) + 10;
            super::ahead_ns(read, || read() + 1_000_000)
        };
        assert_eq!(ahead_ns(&[[0, 0]]), 1_000_000);
        assert_eq!(ahead_ns(&[[0, 4_000_000], [0, 0]]), 1_000_000);
        assert_eq!(ahead_ns(&[[7_000_000, 0], [0, 7_000_000], [0, 0]]), 1_000_000);
        let always_away = [[7_000, 0], [2_000, 0], [0, 9_000], [9_000, 0]];
        assert!(ahead_ns(&always_away).abs_diff(1_000_000) <= 1_000, "the closest one");
        let now_ns = now_ns();
        assert!(realtime_ns() - now_ns >= realtime_ahead_ns() - 1_000_000_000);
    }
}
