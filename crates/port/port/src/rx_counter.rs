//! Counting inside the backend: packets that nobody reads are counted where they lie, and are not handed out.

use crate::PortError;

/// What one call of [`RxCounter::count`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets that were counted.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Looks at the port that found packets: what calls of [`crate::Port::receive`] that returned some would have been.
    pub batches: u64,
    /// Nanoseconds at the end of the call in which no packet came.
    pub idle_ns: u64,
}

/// A port that counts packets without handing them out, for callers that need neither their bytes nor frames.
pub trait RxCounter {
    /// Counts packets that have arrived, at most `packets` of them, and takes them off the port. They count in [`crate::Stats`] as if
    /// [`crate::Port::receive`] had returned them; calls of both may follow each other in any order.
    ///
    /// Sleeps if none has arrived, and goes on as long as many keep coming, so that a call may last for some milliseconds. It ends when
    /// `packets` packets were counted, when none came for `timeout_ns` nanoseconds, or earlier (a signal, few packets), so that the caller
    /// can look after other things.
    ///
    /// # Errors
    /// As those of [`crate::Port::receive`]. A call that counted packets before returns those, and the next one the error.
    fn count(&mut self, packets: u64, timeout_ns: u64) -> Result<Counted, PortError>;
}
