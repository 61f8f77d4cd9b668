//! The trait that every backend implements.

use std::any::Any;
use std::os::fd::BorrowedFd;

use linerate_mem::Batch;

use crate::{Caps, PortError, RxCounter, Stats, TxGenerator};

/// One queue pair to somewhere: a NIC queue, a socket, a file, another thread.
///
/// **Contract**, which `linerate-testkit` checks for every backend:
/// - `receive` appends to the batch, at most [`Batch::room`] slots, oldest first; 0 means "nothing yet", not an error.
/// - `transmit` takes from the front of the batch; what did not fit stays, in order. A full ring is a return value.
/// - What `transmit` took is either sent (it shows in [`Stats::tx_packets`], at the latest after [`Port::flush`]) or lost with a
///   place and a cause in [`Stats::tx_drops`]: taken + [`Stats::tx_duplicated`] = sent + dropped, to the packet.
/// - A packet longer than [`Caps::frame_len_max`] is refused as [`PortError::FrameTooLong`] before anything of it is sent; the
///   packets before it are sent, it stays at the front of the batch.
/// - An error means that the port is broken (see [`PortError`]); its totals can still be read.
/// - Frames go back to the pool that the port was opened on; after the port is dropped none is missing.
/// - `receive` may return packets whose checksum is partial or verified ([`linerate_mem::Checksum`]). Unless the port leads to this
///   process (`pipe:`), `transmit` completes partial checksums before the packets leave ([`crate::complete_checksums`]).
/// - A packet of several slots (all but the last marked `more`) is taken or left as a whole. Ports whose
///   [`Caps::frags_max`] is 1 refuse such packets as `FrameTooLong`.
pub trait Port: Send {
    /// What this port is and can do; does not change while it is open.
    fn caps(&self) -> &Caps;

    /// Appends packets that have arrived and returns how many packets.
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError>;

    /// Takes packets from the front of the batch for sending and returns how many packets.
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError>;

    /// Sends packets of the batch from slot `from` on without taking them. A port that copies all that it sends implements this,
    /// and saves its caller a copy of packets that are needed for something else (a mirror). Returns the number of packets sent;
    /// they count as if [`Port::transmit`] had taken them. It stops before the first packet that it cannot send now, because it
    /// has no room or because of the packet's shape. A backend that hands frames over sends 0 packets. The packets have no partial
    /// checksums ([`Batch::has_partial_checksums`]), which only [`Port::transmit`] completes.
    fn transmit_ref(&mut self, batch: &Batch, from: usize) -> Result<usize, PortError> {
        let _ = (batch, from);
        Ok(0)
    }

    /// Hands packets that have arrived on to `to`, oldest first and without a look at them, and returns how many. They count as if
    /// [`Port::receive`] had returned them and [`Port::transmit`] of `to` had taken them, but for their bytes ([`Stats::rx_unsized`]). Returns 0
    /// if nothing has arrived, if `to` takes nothing now, or if the two ports cannot do this: the caller then receives and transmits, as
    /// always. What arrived and was not handed on is what `receive` returns next.
    ///
    /// Only a port that was opened for it does this ([`Caps::hands_on`]), and only a caller that neither changes, counts nor copies the packets calls it.
    fn hand_on(&mut self, to: &mut dyn Port) -> usize {
        let _ = to;
        0
    }

    /// The port itself, for the [`Port::hand_on`] of another one of its kind.
    fn as_any(&mut self) -> Option<&mut dyn Any> {
        None
    }

    /// Pushes on what the port still holds, without waiting; returns the number of packets whose sending is not complete
    /// yet. Call again (with [`Port::wait`] between) until it returns 0.
    fn flush(&mut self) -> Result<usize, PortError> {
        Ok(0)
    }

    /// Sleeps until the port may be ready for `interest`, or `timeout_ns` is over, or a signal arrived. A port that cannot
    /// sleep returns at once. Never spins.
    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError>;

    /// Arms wakeups for a caller that sleeps on several ports at once. Hands `add` each descriptor that becomes readable when a
    /// packet arrives or the port breaks, asks the peer for interrupts if it needs to, and returns true. Packets that are already
    /// queued may not wake the caller, so it calls `receive` once more and, if that returned 0, sleeps (ppoll(2)). A `receive` that
    /// returns 0 leaves wakeups armed. Returns false if the port has no descriptor now: the caller polls it again after a nap.
    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        let _ = add;
        false
    }

    /// Returns the time at which the port has work to do although nothing arrives, in nanoseconds of `CLOCK_MONOTONIC`: a packet that
    /// it delays is due then. `None` if the port waits for no time. A caller that sleeps on several ports wakes up at that time at
    /// the latest, and then calls `flush` and `receive`. The time may have passed already.
    fn next_deadline_ns(&self) -> Option<u64> {
        None
    }

    /// Returns how many bytes of the receive ring hold packets that nobody has received yet, and how many bytes the ring has;
    /// `None` if the backend does not know. It is made for a gauge and too slow for every batch.
    fn rx_occupancy(&self) -> Option<(u64, u64)> {
        None
    }

    /// Tells whether packets can pass now. It may ask the kernel, so it is too slow for every batch. A port whose link is down stays
    /// open and works again once the link is up.
    ///
    /// # Errors
    /// The port is broken and stays so.
    fn link(&mut self) -> Result<LinkState, PortError> {
        Ok(LinkState::Up)
    }

    /// Returns the longest packet in bytes, without FCS and VLAN tag, that the port takes now: the MTU of its interface may have changed since it was
    /// opened ([`Caps::frame_len_max`]). It may ask the kernel, so it is too slow for every batch.
    fn current_frame_len_max(&mut self) -> usize {
        self.caps().frame_len_max
    }

    /// Returns the totals since the port was opened. It may read counters of the kernel, so it is too slow for every batch.
    fn stats(&mut self) -> Result<Stats, PortError>;

    /// Returns the totals of each queue pair that this port stands for, in the order of the queues: its own alone, unless it joins
    /// several.
    ///
    /// # Errors
    /// As [`Port::stats`].
    fn queue_stats(&mut self) -> Result<Vec<Stats>, PortError> {
        Ok(vec![self.stats()?])
    }

    /// Returns the generator inside the backend, if it has one (`xdplive:`): it builds and sends packets by itself.
    fn tx_generator(&mut self) -> Option<&mut dyn TxGenerator> {
        None
    }

    /// Returns the counter inside the backend, if it has one (`netmap:`): it counts packets without handing them out, for a caller that
    /// does not read them.
    fn rx_counter(&mut self) -> Option<&mut dyn RxCounter> {
        None
    }
}

/// Whether packets can pass through a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// They can: the interface is up and has a carrier, or the peer is there.
    Up,
    /// They cannot: the interface is down or has no carrier, or there is no peer.
    Down,
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
    /// No packet will ever arrive again: the file is at its end, or the other side of the pipe is gone. Packets that were
    /// received before are complete, and `receive` goes on returning 0.
    Closed,
}
