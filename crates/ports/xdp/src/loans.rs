//! The frames that the kernel has, and for what. An address that the kernel names becomes a slot only if its frame was loaned for that
//! purpose, so a wrong or repeated address can never make a second owner of a frame.

use linerate_mem::{Batch, OwnershipTable, Pool, Region, SlotFields};

use crate::abi::{self, Descriptor};
use crate::fault::Corrupt;
use crate::placement::Placement;
use crate::umem::ReleaseProbe;

/// Notes of the table: what a frame was loaned for. A frame that is sent notes the length and the end of its packet, too.
const TO_RECEIVE: u16 = 1 << 13;
const TO_SEND: u16 = 1 << 14;
const ENDS_PACKET: u16 = 1 << 15;
const LENGTH: u16 = 0x1fff;
const _: () = assert!(abi::CHUNK_BYTES_MAX <= LENGTH as usize);

/// The frames on loan to one socket. Dropped after its socket (the fields of `Queue` are in that order), it returns the frames that
/// the kernel still had.
pub(crate) struct Loans {
    pool: Pool,
    table: OwnershipTable,
    placement: Placement,
    /// Set when the device itself reads and writes frames, which it may do for a while after the socket is closed.
    pub(crate) release: Option<ReleaseProbe>,
}

/// Frames that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Completed {
    /// Bytes of packets in them.
    pub(crate) bytes: u64,
    /// Packets that end in them.
    pub(crate) packets: u64,
}

impl Loans {
    pub(crate) fn new(pool: &Pool, placement: Placement) -> Loans {
        Loans { pool: pool.clone(), table: OwnershipTable::new(pool), placement, release: None }
    }

    /// Bytes of a frame.
    pub(crate) fn frame_bytes(&self) -> u64 {
        self.pool.region().frame_size() as u64
    }

    /// Where its frames are.
    pub(crate) fn region(&self) -> &Region {
        self.pool.region()
    }

    /// True when the batch's packets are in the frames of this pool.
    #[inline]
    pub(crate) fn is_of(&self, batch: &Batch) -> bool {
        batch.is_of(self.pool.region())
    }

    /// Lends up to `count` free frames to receive into; `put` gets the address of each. Returns how many.
    #[inline]
    pub(crate) fn lend_to_receive(&mut self, count: u32, mut put: impl FnMut(u64)) -> u32 {
        let Loans { pool, table, placement, .. } = self;
        let shift = pool.region().frame_size().trailing_zeros();
        let mut lent = 0;
        while lent < count {
            let went = table.export_free(pool, (count - lent) as usize, TO_RECEIVE, |words| {
                for fields in words.iter().map(|word| SlotFields::of(*word)) {
                    put(placement.chunk_address(u64::from(fields.frame) << shift, fields.offset));
                }
                words.len()
            });
            if went == 0 {
                break;
            }
            lent += went as u32;
        }
        lent
    }

    /// Lends the first `count` slots of the batch to be sent; `put` gets the descriptor of each.
    #[inline]
    pub(crate) fn lend_to_send(&mut self, batch: &mut Batch, count: usize, mut put: impl FnMut(Descriptor)) {
        let shift = self.pool.region().frame_size().trailing_zeros();
        let note = |slot: SlotFields| TO_SEND | if slot.more { 0 } else { ENDS_PACKET } | slot.len & LENGTH;
        self.table.export(batch, count, note, |words| {
            for slot in words.iter().map(|word| SlotFields::of(*word)) {
                let address = (u64::from(slot.frame) << shift) + u64::from(slot.offset);
                let options = if slot.more { abi::PACKET_CONTINUES } else { 0 };
                put(Descriptor { address, len: slot.len.into(), options });
            }
            words.len()
        });
    }

    /// Takes packets that were received back at the end of the batch. `peek` gives the descriptor at each of the next `available`
    /// places; only whole packets are taken. Returns how many slots.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        batch: &mut Batch,
        available: u32,
        peek: impl Fn(u32) -> Descriptor,
    ) -> Result<usize, Corrupt> {
        let (shift, placement) = (self.pool.region().frame_size().trailing_zeros(), self.placement);
        let taken = self.table.import(batch, TO_RECEIVE, |words| {
            let (mut read, mut whole) = (0, 0);
            for (word, place) in words.iter_mut().zip(0..available) {
                let descriptor = peek(place);
                *word = word_of(placement.packet_address(descriptor.address), descriptor, shift);
                read += 1;
                if descriptor.options & abi::PACKET_CONTINUES == 0 {
                    whole = read;
                }
            }
            whole
        });
        Ok(taken?)
    }

    /// Takes frames back, of which `address` names the next at each call, until it gives `None`; those that were loaned for `note`.
    fn take_back(
        &mut self,
        mut address: impl FnMut() -> Option<u64>,
        mut accept: impl FnMut(u16) -> bool,
    ) -> Result<(), Corrupt> {
        let shift = self.pool.region().frame_size().trailing_zeros();
        let empty = Descriptor { address: 0, len: 0, options: 0 };
        loop {
            let read = |words: &mut [u64]| {
                let mut count = 0;
                for (word, address) in words.iter_mut().zip(std::iter::from_fn(&mut address)) {
                    *word = word_of(address, empty, shift);
                    count += 1;
                }
                count
            };
            if self.table.import_free(&mut self.pool, read, &mut accept)? == 0 {
                return Ok(());
            }
        }
    }

    /// Takes back the frames of a packet that was received, at the next `count` places, for the pool.
    pub(crate) fn discard(&mut self, count: u32, peek: impl Fn(u32) -> Descriptor) -> Result<(), Corrupt> {
        let placement = self.placement;
        let mut places = 0..count;
        self.take_back(
            || places.next().map(|place| placement.packet_address(peek(place).address)),
            |note| note == TO_RECEIVE,
        )
    }

    /// Takes back the frames that were sent, whose addresses are at the next `count` places, for the pool.
    #[inline]
    pub(crate) fn complete(&mut self, count: u32, peek: impl Fn(u32) -> u64) -> Result<Completed, Corrupt> {
        let (mut places, mut bytes, mut packets) = (0..count, 0, 0);
        self.take_back(
            || places.next().map(&peek),
            |note| {
                bytes += u64::from(note & LENGTH);
                packets += u64::from(note & ENDS_PACKET != 0);
                note & TO_SEND != 0
            },
        )?;
        Ok(Completed { bytes, packets })
    }
}

/// The word of a slot for a packet at `address`; one that no table accepts if its parts are too large for it.
#[inline]
fn word_of(address: u64, descriptor: Descriptor, shift: u32) -> u64 {
    let frame = u32::try_from(address >> shift);
    let (Ok(frame), Ok(len)) = (frame, u16::try_from(descriptor.len)) else { return u64::MAX };
    let more = descriptor.options & abi::PACKET_CONTINUES != 0;
    SlotFields { frame, offset: (address & ((1 << shift) - 1)) as u16, len, more }.word()
}

impl Drop for Loans {
    fn drop(&mut self) {
        if self.release.as_ref().is_none_or(ReleaseProbe::wait) {
            self.table.reclaim(&mut self.pool);
        }
        // Else it is better to lose the frames than to hand out memory that a device writes to.
    }
}
