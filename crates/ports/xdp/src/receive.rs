//! The receiving side of one socket: fill ring out, receive ring in.

use std::sync::atomic::AtomicU64;

use linerate_mem::Batch;
use linerate_wire::PartialChecksum;

use crate::abi::{Descriptor, PACKET_CONTINUES};
use crate::queue::Fault;
use crate::rings::{ConsumerEnd, ProducerEnd};
use crate::sys::{Corrupt, Custody, DescriptorCell, XdpSocket};

/// Frames are lent in groups of this size, so that the shared line of the fill ring is touched once a group.
const REFILL: u32 = 64;

pub(crate) struct ReceiveSide {
    fill: ProducerEnd<AtomicU64>,
    ring: ConsumerEnd<DescriptorCell>,
    /// Frames that the kernel shall have, and has: in the fill ring, in its hands, or in the receive ring.
    share: u32,
    lent: u32,
    zero_copy: bool,
    /// Packets may come with partial checksums. They are completed here; the kernel's mark of them does not get this far.
    pub(crate) completes: bool,
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
        ReceiveSide { fill, ring, share, lent: 0, zero_copy, completes: true, totals: Received::default() }
    }

    /// Appends what has arrived, whole packets only, and returns how many packets.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        custody: &mut Custody,
        socket: &XdpSocket,
        batch: &mut Batch,
    ) -> Result<usize, Fault> {
        let available = self.ring.available()?;
        let (mut taken, mut packets) = (0, 0);
        while taken < available {
            let slots = if self.ring.peek(taken).options & PACKET_CONTINUES == 0 {
                1
            } else {
                self.slots_of_packet(taken, available)?
            };
            if slots as usize > batch.room() {
                if packets == 0 && batch.is_empty() && batch.capacity() > 0 {
                    self.discard(custody, slots)?;
                }
                break;
            }
            for slot in taken..taken + slots {
                let descriptor = self.ring.peek(slot);
                custody.receive_into(batch, descriptor)?;
                self.totals.bytes += u64::from(descriptor.len);
            }
            if self.completes {
                complete_last(batch, slots as usize);
            }
            taken += slots;
            packets += 1;
        }
        if taken > 0 {
            self.ring.release(taken);
            self.lent -= taken.min(self.lent);
            self.totals.packets += packets;
        }
        if self.share - self.lent >= REFILL || available == 0 {
            self.refill(custody, socket)?;
        }
        Ok(packets as usize)
    }

    /// Places that the packet at `first` takes. The kernel shows packets only when they are complete.
    #[cold]
    fn slots_of_packet(&self, first: u32, available: u32) -> Result<u32, Corrupt> {
        let ends = |slot: &u32| self.ring.peek(*slot).options & PACKET_CONTINUES == 0;
        match (first..available).find(ends) {
            Some(last) => Ok(last - first + 1),
            None => Err(Corrupt("a receive ring that ends inside a packet".into())),
        }
    }

    /// Drops the first packet, which no batch of this size can ever take.
    #[cold]
    fn discard(&mut self, custody: &mut Custody, slots: u32) -> Result<(), Corrupt> {
        for slot in 0..slots {
            let descriptor: Descriptor = self.ring.peek(slot);
            custody.discard(descriptor)?;
        }
        self.ring.release(slots);
        self.lent -= slots.min(self.lent);
        self.totals.unfit += 1;
        Ok(())
    }

    /// Lends frames up to the share, as far as the pool has some and the fill ring has room.
    ///
    /// The kernel frees places of the fill ring after it shows what it put into the receive ring, so the fill ring may look
    /// full although frames came back; the next call goes on.
    #[inline]
    pub(crate) fn refill(&mut self, custody: &mut Custody, socket: &XdpSocket) -> Result<(), Fault> {
        let wanted = self.share - self.lent;
        if wanted > 0 {
            let room = self.fill.room(wanted)?.min(wanted);
            let mut put = 0;
            while put < room {
                let Some(address) = custody.lend_to_receive() else { break };
                self.fill.put(address);
                put += 1;
            }
            if put > 0 {
                self.fill.publish();
                self.lent += put;
            }
        }
        if self.zero_copy && self.fill.needs_wakeup() {
            match socket.kick_receive() {
                // The driver is busy with the queue; it looks at the ring by itself.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS)) => {}
                result => result.map_err(|error| Fault::from_kick("ask the driver to receive", error))?,
            }
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

/// Completes the checksum of the packet in the last `slots` slots of the batch, if it is partial.
#[inline]
fn complete_last(batch: &mut Batch, slots: usize) {
    let Some(first) = batch.len().checked_sub(slots) else { return };
    if let Some(partial) = PartialChecksum::find(batch.packet(first)) {
        complete(batch, first, partial);
    }
}

#[cold]
fn complete(batch: &mut Batch, first: usize, partial: PartialChecksum) {
    let Some(checksum) = partial.checksum(batch.iter().skip(first)) else { return };
    // The field was found in the first slot.
    if let Some(field) = batch.packet_mut(first).get_mut(partial.field..partial.field + 2) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
}
