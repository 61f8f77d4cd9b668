//! The trait that every backend implements.

use std::os::fd::BorrowedFd;

use linerate_mem::Batch;

use crate::{Caps, PortError, Stats, TransmitOffload};

/// One queue pair to somewhere: a NIC queue, a socket, a file, another thread.
///
/// **Contract**, which `linerate-testkit` checks for every backend:
/// - `receive` appends to the batch, at most [`Batch::room`] slots, oldest first; 0 means "nothing yet", not an error.
/// - `transmit` takes from the front of the batch; what did not fit stays, in order. A full ring is a return value.
/// - What `transmit` took is either sent (it shows in [`Stats::tx_packets`], at the latest after [`Port::flush`]) or lost with a
///   place and a cause in [`Stats::tx_drops`]: taken = sent + dropped, to the packet.
/// - A packet longer than [`Caps::frame_len_max`] is refused as [`PortError::FrameTooLong`] before anything of it is sent; the
///   packets before it are sent, it stays at the front of the batch.
/// - An error means that the port is broken (see [`PortError`]); its totals can still be read.
/// - Frames go back to the pool that the port was opened on; after the port is dropped none is missing.
/// - A packet of several slots (all but the last marked `more`) is taken or left as a whole. Ports whose
///   [`Caps::segments_max`] is 1 refuse such packets as `FrameTooLong`.
pub trait Port: Send {
    /// What this port is and can do; does not change while it is open.
    fn caps(&self) -> &Caps;

    /// Appends packets that have arrived and returns how many packets.
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError>;

    /// Takes packets from the front of the batch for sending and returns how many packets.
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError>;

    /// Sends packets of the batch from slot `from` on without taking them: a port that copies whatever it sends can, and saves
    /// its caller a copy where the packets are needed for something else. Returns how many it has sent, which count as if taken by
    /// [`Port::transmit`]. It stops before a packet that cannot go so now, for want of room or for its shape; a backend that hands
    /// frames over, or does not know this, sends none.
    fn show(&mut self, batch: &Batch, from: usize) -> Result<usize, PortError> {
        let _ = (batch, from);
        Ok(0)
    }

    /// Pushes on what the port still holds, without waiting; returns the number of packets whose sending is not complete
    /// yet. Call again (with [`Port::wait`] between) until it returns 0.
    fn flush(&mut self) -> Result<usize, PortError> {
        Ok(0)
    }

    /// Sleeps until the port may be ready for `interest`, or `timeout_ns` is over, or a signal arrived. A port that cannot
    /// sleep returns at once. Never spins.
    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError>;

    /// For a caller that sleeps on several ports at once: hands `add` each descriptor that becomes readable when something
    /// arrives or the port breaks, makes the peer ring if it has to, and returns true. Then `receive` once more - what came
    /// before this call need not show - and, if it returned 0, sleep (ppoll(2)). A `receive` that returns 0 leaves the bell on.
    /// False: this port has no descriptor now, and wants to be looked at again after a nap.
    fn sleep_on(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        let _ = add;
        false
    }

    /// Bytes of the receive ring that hold packets nobody has taken out yet, and bytes of the whole ring; `None` where that cannot be
    /// known. For a gauge, not for every batch.
    fn receive_level_bytes(&self) -> Option<(u64, u64)> {
        None
    }

    /// The totals since the port was opened. Reads the kernel's counters where there are some, so not for every batch.
    fn stats(&mut self) -> Result<Stats, PortError>;

    /// The way to make the backend build and send packets by itself, where it can (`xdplive:`).
    fn transmit_offload(&mut self) -> Option<&mut dyn TransmitOffload> {
        None
    }
}

/// What a caller of [`Port::wait`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// A packet to receive.
    Receive,
    /// Room to transmit.
    Transmit,
}

/// What [`Port::wait`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Trying is worth it.
    Ready,
    /// The time was over first.
    TimedOut,
    /// Nothing will ever come: the file is at its end, the other side of the pipe is gone. What was received before is
    /// complete; `receive` goes on returning 0.
    Ended,
}
