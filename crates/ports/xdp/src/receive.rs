//! The receiving side of one socket: fill ring out, receive ring in.

use std::sync::atomic::AtomicU64;

use linerate_mem::{Batch, Checksum};
use linerate_port::checksum_of;

use crate::abi::PACKET_CONTINUES;
use crate::fault::{Corrupt, Fault};
use crate::loans::Loans;
use crate::rings::{ConsumerEnd, ProducerEnd};
use crate::sys::{DescriptorCell, XdpSocket};

/// Frames are lent in groups of this size, so that the shared line of the fill ring is touched once a group.
const REFILL: u32 = 64;

pub(crate) struct ReceiveSide {
    fill: ProducerEnd<AtomicU64>,
    ring: ConsumerEnd<DescriptorCell>,
    /// Frames that the kernel shall have, and has: in the fill ring, in its hands, or in the receive ring.
    share: u32,
    lent: u32,
    zero_copy: bool,
    /// A call that finds nothing has the kernel look into the device, on this core.
    pub(crate) busy_polls: bool,
    /// Packets may come with partial checksums. They are looked for; the kernel's mark of them does not get this far.
    pub(crate) looks_for_partial: bool,
    pub(crate) totals: Received,
}

/// What came out of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets of more slots than the caller's whole batch has room for.
    pub(crate) unfit: u64,
}

impl ReceiveSide {
    pub(crate) fn new(
        fill: ProducerEnd<AtomicU64>,
        ring: ConsumerEnd<DescriptorCell>,
        share: u32,
        zero_copy: bool,
    ) -> ReceiveSide {
        // With a place in the receive ring for each frame lent, the kernel never copies a packet in vain.
        let share = share.min(fill.entries()).min(ring.entries());
        let totals = Received::default();
        ReceiveSide { fill, ring, share, lent: 0, zero_copy, busy_polls: false, looks_for_partial: true, totals }
    }

    /// Appends what has arrived, whole packets only, and returns how many packets.
    #[inline]
    pub(crate) fn receive(&mut self, loans: &mut Loans, socket: &XdpSocket, batch: &mut Batch) -> Result<usize, Fault> {
        let available = self.ring.available()?;
        let held = batch.len();
        let taken = loans.receive(batch, available, |place| self.ring.peek(place))? as u32;
        let received = batch.totals_after(held);
        if taken > 0 {
            if self.looks_for_partial {
                mark_partial_from(batch, held);
            }
            self.release(taken);
            self.totals.packets += received.packets;
            self.totals.bytes += received.bytes;
        } else if available > 0 && batch.is_empty() && batch.capacity() > 0 {
            self.discard(loans, available)?;
        }
        if self.share - self.lent >= REFILL || available == 0 {
            self.refill(loans, socket)?;
        }
        if self.busy_polls && available == 0 {
            kick(socket)?;
        }
        Ok(received.packets as usize)
    }

    /// Gives the first `count` places back to the kernel, whose frames came back.
    #[inline]
    fn release(&mut self, count: u32) {
        self.ring.release(count);
        self.lent -= count.min(self.lent);
    }

    /// Drops the first packet, which no batch of this size can ever take. The kernel shows packets only when they are complete.
    #[cold]
    fn discard(&mut self, loans: &mut Loans, available: u32) -> Result<(), Corrupt> {
        let ends = |place: &u32| self.ring.peek(*place).options & PACKET_CONTINUES == 0;
        let Some(last) = (0..available).find(ends) else {
            return Err(Corrupt("a receive ring that ends inside a packet".into()));
        };
        loans.discard(last + 1, |place| self.ring.peek(place))?;
        self.release(last + 1);
        self.totals.unfit += 1;
        Ok(())
    }

    /// Lends frames up to the share, as far as the pool has some and the fill ring has room.
    ///
    /// The kernel frees places of the fill ring after it shows what it put into the receive ring, so the fill ring may look
    /// full although frames came back; the next call goes on.
    #[inline]
    pub(crate) fn refill(&mut self, loans: &mut Loans, socket: &XdpSocket) -> Result<(), Fault> {
        let wanted = self.share - self.lent;
        if wanted > 0 {
            let room = self.fill.room(wanted)?.min(wanted);
            let fill = &mut self.fill;
            let lent = loans.lend_to_receive(room, |address| fill.put(address));
            if lent > 0 {
                self.fill.publish();
                self.lent += lent;
            }
        }
        if self.zero_copy && self.fill.needs_wakeup() {
            kick(socket)?;
        }
        Ok(())
    }

    /// True when a call of [`ReceiveSide::receive`] would find something.
    pub(crate) fn is_ready(&mut self) -> Result<bool, Fault> {
        Ok(self.ring.available()? > 0)
    }

    /// Frames that wait to be received, and all that there are for that.
    pub(crate) fn level(&self) -> (u32, u32) {
        (self.ring.waiting().min(self.share), self.share)
    }

    /// Frames that the kernel has now.
    pub(crate) fn lent(&self) -> u32 {
        self.lent
    }
}

/// Has the driver look at the fill ring, or, of a socket that prefers busy polling, take packets in.
fn kick(socket: &XdpSocket) -> Result<(), Fault> {
    match socket.kick_receive() {
        // The driver is busy with the queue; it looks at the ring by itself.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS)) => Ok(()),
        result => result.map_err(|error| Fault::from_kick("ask the driver to receive", error)),
    }
}

/// Marks the packets from slot `first` on whose checksum is partial.
#[inline]
fn mark_partial_from(batch: &mut Batch, mut first: usize) {
    while first < batch.len() {
        if checksum_of(batch.packet(first)) == Checksum::Partial {
            batch.set_checksum(first, Checksum::Partial);
        }
        while batch.more(first) {
            first += 1;
        }
        first += 1;
    }
}
