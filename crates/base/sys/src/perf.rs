//! Counters of cycles, instructions and CPU time by perf_event_open(2), kernel and user code together.
//!
//! Counting a thread of one's own with its kernel part needs CAP_PERFMON or `kernel.perf_event_paranoid` of at most 1, counting a
//! core at most 0. Virtual machines often have no such counters at all: then opening one says `ENOENT` or `EOPNOTSUPP`.
#![allow(unsafe_code)]

use crate::checked;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Cycles of the core's clock.
    Cycles,
    /// Instructions retired.
    Instructions,
    /// Nanoseconds on a core, by the kernel's clock (every machine has it).
    TaskClock,
}

/// Whose events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of the calling thread, wherever it runs.
    ThisThread,
    /// Those of a core, whatever runs there.
    Core(usize),
}

/// A counter that runs from its opening on.
#[derive(Debug)]
pub struct Counter {
    fd: OwnedFd,
}

/// What a counter says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Events counted.
    pub value: u64,
    /// Nanoseconds for which it was to count.
    pub enabled_ns: u64,
    /// Nanoseconds for which it counted: less when more counters were open than the core has.
    pub running_ns: u64,
}

/// `struct perf_event_attr` of include/uapi/linux/perf_event.h, its first version.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const FORMAT_TOTAL_TIME_ENABLED: u64 = 1;
const FORMAT_TOTAL_TIME_RUNNING: u64 = 2;
const FLAG_FD_CLOEXEC: libc::c_ulong = 8;

impl Event {
    fn kind_and_config(self) -> (u32, u64) {
        match self {
            Event::Cycles => (TYPE_HARDWARE, 0),
            Event::Instructions => (TYPE_HARDWARE, 1),
            Event::TaskClock => (TYPE_SOFTWARE, 1),
        }
    }
}

impl Counter {
    /// Opens a counter and starts it.
    ///
    /// # Errors
    /// `ENOENT` or `EOPNOTSUPP` when the machine has no such counter, `EACCES` or `EPERM` when it may not be used, `ENOSYS` on kernels
    /// without it.
    pub fn open(event: Event, scope: Scope) -> io::Result<Counter> {
        let (kind, config) = event.kind_and_config();
        let read_format = FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING;
        let attr = Attr { kind, size: size_of::<Attr>() as u32, config, read_format, ..Attr::default() };
        let (thread, core) = match scope {
            Scope::ThisThread => (0, -1),
            Scope::Core(core) => (-1, i32::try_from(core).map_err(io::Error::other)?),
        };
        let no_group = -1;
        // SAFETY: the structure is live and says its own size; the other arguments are numbers.
        let fd = checked(unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attr, thread, core, no_group, FLAG_FD_CLOEXEC)
        })?;
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(Counter { fd: unsafe { OwnedFd::from_raw_fd(fd as i32) } })
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// None that an open counter gives.
    pub fn read(&self) -> io::Result<Reading> {
        let mut words = [0_u64; 3];
        let len = size_of_val(&words);
        // SAFETY: the buffer is valid for writing `len` bytes.
        let read = checked(unsafe { libc::read(self.fd.as_raw_fd(), words.as_mut_ptr().cast(), len) })?;
        if read as usize != len {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok(Reading { value: words[0], enabled_ns: words[1], running_ns: words[2] })
    }
}

impl Reading {
    /// Events over all the time for which it was to count, by proportion; none when it did not count at all.
    pub fn scaled(&self) -> Option<f64> {
        (self.running_ns > 0).then(|| self.value as f64 * self.enabled_ns as f64 / self.running_ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_on_a_core() {
        let counter = match Counter::open(Event::TaskClock, Scope::ThisThread) {
            Ok(counter) => counter,
            Err(error) => return eprintln!("skipped: no perf events here: {error}"),
        };
        let before = counter.read().unwrap();
        let busy_until_ns = crate::clock::thread_cpu_ns() + 5_000_000;
        while crate::clock::thread_cpu_ns() < busy_until_ns {
            std::hint::spin_loop();
        }
        let after = counter.read().unwrap();
        assert!(after.value >= before.value + 4_000_000, "{before:?} {after:?}");
        assert!(after.scaled().is_some());
    }

    #[test]
    fn instructions_are_counted_or_refused() {
        match Counter::open(Event::Instructions, Scope::ThisThread) {
            Ok(counter) => {
                let before = counter.read().unwrap().value;
                (0..10_000).for_each(|_| std::hint::spin_loop());
                assert!(counter.read().unwrap().value > before + 10_000);
            }
            Err(error) => eprintln!("skipped: this machine counts no instructions: {error}"),
        }
        assert!(Counter::open(Event::Cycles, Scope::Core(100_000)).is_err());
    }

    #[test]
    fn a_counter_that_shared_its_hardware_is_scaled() {
        assert_eq!(Reading { value: 10, enabled_ns: 100, running_ns: 50 }.scaled(), Some(20.0));
        assert_eq!(Reading { value: 0, enabled_ns: 100, running_ns: 0 }.scaled(), None);
    }
}
