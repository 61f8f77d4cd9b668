//! What header actions need of a packet's memory.

use linerate_mem::{Batch, Checksum};

/// The bytes of one packet's first frame, which header actions change in place.
pub trait PacketBuffer {
    /// The bytes.
    fn bytes(&self) -> &[u8];

    /// The bytes, to write.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Adds `bytes` bytes of any contents in front; false, and nothing has happened, if there is no room.
    fn prepend(&mut self, bytes: usize) -> bool;

    /// Removes the first `bytes` bytes, or all if there are fewer.
    fn adj(&mut self, bytes: usize);

    /// Appends zeros up to a length of `bytes` bytes, as far as there is room; nothing happens if there are as many, or if the packet goes
    /// on in another frame.
    fn pad(&mut self, bytes: usize);

    /// What is known about the packet's transport checksum.
    fn checksum(&self) -> Checksum;

    /// Notes what is known about the packet's transport checksum.
    fn set_checksum(&mut self, checksum: Checksum);

    /// Completes a partial transport checksum, wherever in the packet it is; nothing is known about it then.
    fn complete_checksum(&mut self);

    /// True if the packet goes on in another frame, so that `bytes` are not all of it.
    fn has_more(&self) -> bool;
}

/// The packet that begins in one slot of a batch.
pub struct SlotPacket<'a> {
    batch: &'a mut Batch,
    index: usize,
}

impl<'a> SlotPacket<'a> {
    /// The packet that begins in slot `index` of `batch`. Its methods panic if `index >= batch.len()`.
    pub fn new(batch: &'a mut Batch, index: usize) -> SlotPacket<'a> {
        SlotPacket { batch, index }
    }
}

impl PacketBuffer for SlotPacket<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.batch.packet(self.index)
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.batch.packet_mut(self.index)
    }

    #[inline]
    fn prepend(&mut self, bytes: usize) -> bool {
        self.batch.prepend(self.index, bytes)
    }

    #[inline]
    fn adj(&mut self, bytes: usize) {
        self.batch.adj(self.index, bytes);
    }

    fn pad(&mut self, bytes: usize) {
        let len = self.bytes().len();
        if len < bytes && !self.has_more() {
            self.batch.set_len(self.index, bytes);
            self.bytes_mut()[len..].fill(0);
        }
    }

    #[inline]
    fn checksum(&self) -> Checksum {
        self.batch.checksum(self.index)
    }

    #[inline]
    fn set_checksum(&mut self, checksum: Checksum) {
        self.batch.set_checksum(self.index, checksum);
    }

    fn complete_checksum(&mut self) {
        linerate_port::complete_checksum(self.batch, self.index);
    }

    #[inline]
    fn has_more(&self) -> bool {
        self.batch.more(self.index)
    }
}

/// A whole packet outside a frame, about whose checksum nothing is known.
impl PacketBuffer for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }

    fn prepend(&mut self, bytes: usize) -> bool {
        let len = self.len();
        self.resize(len + bytes, 0);
        self.copy_within(..len, bytes);
        true
    }

    fn adj(&mut self, bytes: usize) {
        let gone = bytes.min(self.len());
        self.copy_within(gone.., 0);
        self.truncate(self.len() - gone);
    }

    fn pad(&mut self, bytes: usize) {
        if self.len() < bytes {
            self.resize(bytes, 0);
        }
    }

    fn checksum(&self) -> Checksum {
        Checksum::Unknown
    }

    fn set_checksum(&mut self, _: Checksum) {}

    fn complete_checksum(&mut self) {}

    fn has_more(&self) -> bool {
        false
    }
}
