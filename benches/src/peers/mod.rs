//! Other tools, each run the way that its own documentation shows it at its best on this kind of path.
//!
//! What they move is read from their port counters or from the receiver's interface, what they cost from the kernel's account
//! of their threads; never from what they say about their speed.

pub mod compare;
pub mod memif;
mod offered;
pub mod process;
pub mod testpmd;
pub mod veth;

/// What one side of a comparison reached in one run.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    /// Million packets per second by the wall clock.
    pub wall_mpps: f64,
    /// Nanoseconds on a core for each packet, of the thread (or process) that moves them.
    pub core_ns: f64,
}

/// Why a side could not run: what is missing or went wrong, for people.
pub type Unable = String;
