//! What a thread used of its core, and what was withheld from it (getrusage(2), /proc/thread-self/schedstat).
#![allow(unsafe_code)]

use crate::checked;
use std::io;

/// Totals of the calling thread since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadUsage {
    /// Times that it gave its core away.
    pub voluntary_switches: u64,
    /// Times that its core was taken away for another thread.
    pub involuntary_switches: u64,
    /// Nanoseconds that it was ready to run and had no core; `None` on kernels without CONFIG_SCHED_INFO.
    pub waited_ns: Option<u64>,
}

impl ThreadUsage {
    /// Reads them now.
    ///
    /// # Errors
    /// None that Linux gives.
    pub fn read() -> io::Result<ThreadUsage> {
        // SAFETY: a rusage of zeroes is a valid value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is valid for writing.
        checked(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) })?;
        let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        Ok(ThreadUsage {
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
            waited_ns: statistics.and_then(|text| waited_ns(&text)),
        })
    }
}

/// The second number: time on a core, time waited for one, times run.
fn waited_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn giving_the_core_away_is_counted() {
        let before = ThreadUsage::read().unwrap();
        // A sleep that is over before the thread gives its core away is none.
        for _ in 0..50 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let after = ThreadUsage::read().unwrap();
        assert!(after.voluntary_switches >= before.voluntary_switches + 5, "{before:?} {after:?}");
        assert!(after.waited_ns >= before.waited_ns);
    }

    #[test]
    fn schedstat_is_three_numbers() {
        assert_eq!(waited_ns("12 345 6\n"), Some(345));
        assert_eq!(waited_ns(""), None);
    }
}
