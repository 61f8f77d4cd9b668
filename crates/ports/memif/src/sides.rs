//! The two ends of a queue pair as a port has them: with copies, or without.

use std::sync::Arc;

use linerate_mem::{Batch, Pool};

use crate::link::End;
use crate::receive::{Corrupt, ReceiveSide, Received, Store};
use crate::sys::Doorbell;
use crate::transmit::{Sent, Stop, TransmitSide};
use crate::zero_copy_rx::ZeroCopyRx;
use crate::zero_copy_tx::ZeroCopyTx;

/// The receiving end of a ring.
pub(crate) enum Receiver {
    Copying(ReceiveSide),
    ZeroCopy(ZeroCopyRx),
}

impl Receiver {
    /// The end of one of `rings` rings of the interface.
    pub(crate) fn new(end: End, pool: &mut Pool, rings: u16) -> Receiver {
        match end {
            End::Copied(end) => Receiver::Copying(ReceiveSide::new(end, false)),
            End::Lent(end) => Receiver::ZeroCopy(ZeroCopyRx::new(end, pool, rings)),
        }
    }

    /// Appends whole packets to the batch and returns how many.
    #[inline]
    pub(crate) fn receive(&mut self, batch: &mut Batch, store: &mut Store) -> Result<usize, Corrupt> {
        match self {
            Receiver::Copying(side) => side.receive(batch, store),
            Receiver::ZeroCopy(side) => side.receive(batch, store.pool, store.totals),
        }
    }

    /// Counts whole packets without copying them, at most `packets`; an end whose frames are lent to the peer counts none so.
    #[inline]
    pub(crate) fn count(&mut self, packets: u64, totals: &mut Received) -> Result<u64, Corrupt> {
        match self {
            Receiver::Copying(side) => side.count(packets, totals),
            Receiver::ZeroCopy(_) => Ok(0),
        }
    }

    /// Filled slots that were not read, after a look at the peer's index.
    #[inline]
    pub(crate) fn look(&mut self) -> Result<u16, Corrupt> {
        match self {
            Receiver::Copying(side) => side.look(),
            Receiver::ZeroCopy(side) => side.look(),
        }
    }

    /// The peer is gone: what it wrote up to now is the last of it.
    pub(crate) fn freeze(&mut self) {
        match self {
            Receiver::Copying(side) => side.freeze(),
            Receiver::ZeroCopy(side) => side.freeze(),
        }
    }

    /// Whole packets that were not read; 0 if the ring makes no sense.
    pub(crate) fn waiting(&mut self) -> u64 {
        match self {
            Receiver::Copying(side) => side.waiting(),
            Receiver::ZeroCopy(side) => side.waiting(),
        }
    }

    /// Whether the peer shall ring when it fills a slot.
    #[inline]
    pub(crate) fn enable_interrupts(&self, wanted: bool) {
        match self {
            Receiver::Copying(side) => side.enable_interrupts(wanted),
            Receiver::ZeroCopy(side) => side.enable_interrupts(wanted),
        }
    }

    #[inline]
    pub(crate) fn bell(&self) -> Option<&Arc<Doorbell>> {
        match self {
            Receiver::Copying(side) => side.end.bell.as_ref(),
            Receiver::ZeroCopy(side) => side.bell(),
        }
    }

    /// True once the peer took away memory. Memory that was made here cannot be taken away.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Receiver::Copying(side) => side.end.buffers.is_lost(),
            Receiver::ZeroCopy(_) => false,
        }
    }
}

/// The sending end of a ring.
pub(crate) enum Sender {
    Copying(TransmitSide),
    ZeroCopy(ZeroCopyTx),
}

impl Sender {
    /// As [`Receiver::new`].
    pub(crate) fn new(end: End, pool: &Pool, rings: u16) -> Sender {
        match end {
            End::Copied(end) => Sender::Copying(TransmitSide::new(end)),
            End::Lent(end) => Sender::ZeroCopy(ZeroCopyTx::new(end, pool, rings)),
        }
    }

    /// Sends packets from the front of the batch, and says why it stopped if that was not for want of room. Returns how many it
    /// took, whatever the reason.
    #[inline]
    pub(crate) fn transmit(&mut self, batch: &mut Batch, pool: &mut Pool, totals: &mut Sent) -> (usize, Option<Stop>) {
        match self {
            Sender::Copying(side) => side.transmit(batch, pool, totals),
            Sender::ZeroCopy(side) => side.transmit(batch, pool, totals),
        }
    }

    /// Sends packets from slot `from` on that stay in the batch; an end that hands frames over sends none so.
    #[inline]
    pub(crate) fn transmit_ref(&mut self, batch: &Batch, from: usize, totals: &mut Sent) -> Result<usize, Corrupt> {
        match self {
            Sender::Copying(side) => side.transmit_ref(batch, from, totals),
            Sender::ZeroCopy(_) => Ok(0),
        }
    }

    /// True when the packet that did not fit the last time may fit now.
    #[inline]
    pub(crate) fn has_room(&mut self, pool: &mut Pool) -> Result<bool, Corrupt> {
        match self {
            Sender::Copying(side) => side.has_room(),
            Sender::ZeroCopy(side) => side.has_room(pool),
        }
    }

    /// Puts the frames that the peer is done with back into the pool: all of them, or only if there are many.
    #[inline]
    pub(crate) fn take_back(&mut self, pool: &mut Pool, all: bool) -> Result<(), Corrupt> {
        match self {
            Sender::Copying(_) => Ok(()),
            Sender::ZeroCopy(side) if all => side.take_back(pool),
            Sender::ZeroCopy(side) => side.take_many_back(pool),
        }
    }

    /// As [`Receiver::is_lost`].
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Sender::Copying(side) => side.end.buffers.is_lost(),
            Sender::ZeroCopy(_) => false,
        }
    }
}
