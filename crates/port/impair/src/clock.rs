//! Where an impaired port has its time from.

/// A clock, read at most once in each call of the port.
pub trait Clock: Send {
    /// The time in nanoseconds.
    fn now_ns(&mut self) -> u64;

    /// Sleeps until this time, or until a signal arrives.
    fn sleep_until_ns(&mut self, deadline_ns: u64);
}

/// The clock of this machine, `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    fn now_ns(&mut self) -> u64 {
        linerate_sys::clock::now_ns()
    }

    fn sleep_until_ns(&mut self, deadline_ns: u64) {
        linerate_sys::clock::sleep_until_ns(deadline_ns);
    }
}
