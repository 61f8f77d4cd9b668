//! A batch: the packets that one port call moves.
#![allow(unsafe_code)]

mod moving;

use std::sync::Arc;

pub use moving::Moving;

use crate::depot::Depot;
use crate::slot::CHECKSUM_FLAGS;
use crate::{Checksum, Pool, Region, Slot};

/// A bounded queue of owned slots of one region, with optional timestamps.
///
/// Ports append to it and take from its front; what a port could not take stays. Dropping a batch returns its frames.
pub struct Batch {
    region: Arc<Region>,
    depot: Arc<Depot>,
    words: Box<[u64]>,
    head: usize,
    tail: usize,
    times_ns: Box<[u64]>,
}

impl Batch {
    /// A batch with room for `capacity` packets of `pool`'s region.
    pub fn new(pool: &Pool, capacity: usize) -> Batch {
        Batch::build(pool, capacity, 0)
    }

    /// As [`Batch::new`], with a timestamp beside each packet, for ports that have one to give or to keep.
    pub fn with_times(pool: &Pool, capacity: usize) -> Batch {
        Batch::build(pool, capacity, capacity)
    }

    fn build(pool: &Pool, capacity: usize, timestamps: usize) -> Batch {
        Batch {
            region: Arc::clone(pool.region()),
            depot: Arc::clone(pool.depot()),
            words: vec![0; capacity].into(),
            head: 0,
            tail: 0,
            times_ns: vec![0; timestamps].into(),
        }
    }

    /// Packets (slots) in the batch.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    /// True when there is no packet in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    /// Packets that an empty batch has room for.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.words.len()
    }

    /// Packets that can be appended.
    #[inline]
    pub fn room(&self) -> usize {
        self.words.len() - self.len()
    }

    /// The region that its slots are of.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// True when the packets of this batch and the frames of `pool` are of one region.
    #[inline]
    pub fn is_of(&self, region: &Arc<Region>) -> bool {
        Arc::ptr_eq(&self.region, region)
    }

    #[inline]
    pub(crate) fn check_region(&self, region: &Arc<Region>) {
        assert!(self.is_of(region), "a batch of one region was given to a pool or ring of another");
    }

    #[inline]
    fn word(&self, index: usize) -> u64 {
        self.words[self.head..self.tail][index]
    }

    /// Bytes of packet `index` (of its part in that slot). Panics when `index >= len()`.
    #[inline]
    pub fn packet(&self, index: usize) -> &[u8] {
        let word = self.word(index);
        // SAFETY: the batch owns the slot, `&self` keeps writers out.
        unsafe { self.region.packet(word) }
    }

    /// As [`Batch::packet`], to write.
    #[inline]
    pub fn packet_mut(&mut self, index: usize) -> &mut [u8] {
        let word = self.word(index);
        // SAFETY: the batch owns the slot, `&mut self` keeps everybody else out.
        unsafe { self.region.packet_mut(word) }
    }

    /// First byte of packet `index`, counted from the start of the region.
    #[inline]
    pub fn region_offset(&self, index: usize) -> usize {
        let word = self.word(index);
        self.region.frame_start(crate::slot::frame_of(word)) + (word >> 16) as u16 as usize
    }

    /// True when packet `index` goes on in slot `index + 1`.
    #[inline]
    pub fn more(&self, index: usize) -> bool {
        crate::slot::more_of(self.word(index))
    }

    /// True when a slot of the batch is not the last one of its packet.
    #[inline]
    pub fn has_frags(&self) -> bool {
        crate::slot::more_of(self.words().iter().fold(0, |all, word| all | word))
    }

    /// Extent of the packet that begins in slot `index`; `None` when its last slot is not in the batch.
    #[inline]
    pub fn span(&self, index: usize) -> Option<Span> {
        let words = self.words().get(index..)?;
        let first = *words.first()?;
        if !crate::slot::more_of(first) {
            return Some(Span { slots: 1, len: usize::from(first as u16) });
        }
        let last = words.iter().position(|word| !crate::slot::more_of(*word))?;
        let len = words[..=last].iter().map(|word| usize::from(*word as u16)).sum();
        Some(Span { slots: last + 1, len })
    }

    /// The packets' bytes, first to last.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        // SAFETY: as in `packet`.
        self.words[self.head..self.tail].iter().map(|word| unsafe { self.region.packet(*word) })
    }

    /// The slots' contents, first to last, for a reader that wants all about them in one pass.
    #[inline]
    pub fn parts(&self) -> impl ExactSizeIterator<Item = Part<'_>> {
        let times_ns = self.times_ns.get(self.head..).unwrap_or(&[]);
        self.words().iter().enumerate().map(move |(index, word)| Part {
            // SAFETY: as in `packet`.
            bytes: unsafe { self.region.packet(*word) },
            more: crate::slot::more_of(*word),
            checksum: Checksum::of(*word),
            time_ns: times_ns.get(index).copied().unwrap_or(0),
        })
    }

    /// Asks for the line that each packet ends in, before they are read one after the other: lines that another core wrote
    /// then come at the same time instead of one by one.
    #[inline]
    pub fn prefetch_tails(&self) {
        for word in self.words() {
            crate::prefetch::prefetch_address(self.region.last_byte(*word));
        }
    }

    /// Asks for the line that each of the packets in `count` slots from `from` on begins in, before they are read one after
    /// the other.
    #[inline]
    pub fn prefetch_heads(&self, from: usize, count: usize) {
        for word in self.words().iter().skip(from).take(count) {
            crate::prefetch::prefetch_address(self.region.first_byte(*word));
        }
    }

    /// The packets' bytes, first to last, to write.
    #[inline]
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [u8]> {
        let packets = self.region.packets();
        // SAFETY: each slot names another frame, so the slices do not overlap, and `&mut self` keeps everybody else out.
        self.words[self.head..self.tail].iter().map(move |word| unsafe { packets.packet_mut(*word) })
    }

    /// Sets the length of packet `index`, cut to what its frame holds after its offset. Panics when `index >= len()`.
    #[inline]
    pub fn set_len(&mut self, index: usize, len: usize) {
        let word = self.word(index);
        let room = self.region.frame_size() - (word >> 16) as u16 as usize;
        self.words[self.head + index] = word & !0xffff | len.min(room) as u64;
    }

    /// What is known about the checksum of the packet that begins in slot `index`.
    #[inline]
    pub fn checksum(&self, index: usize) -> Checksum {
        Checksum::of(self.word(index))
    }

    /// Notes what is known about the checksum of the packet that begins in slot `index`. A partial checksum must be one that parsing
    /// the packet finds.
    #[inline]
    pub fn set_checksum(&mut self, index: usize, checksum: Checksum) {
        let word = self.word(index);
        self.words[self.head + index] = word & !CHECKSUM_FLAGS | checksum.flags();
    }

    /// True when something is known about the checksum of a packet.
    #[inline]
    pub fn has_checksum_flags(&self) -> bool {
        self.words().iter().fold(0, |all, word| all | word) & CHECKSUM_FLAGS != 0
    }

    /// True when the checksum of a packet from slot `from` on is partial.
    #[inline]
    pub fn has_partial_checksums(&self, from: usize) -> bool {
        let words = self.words().get(from..).unwrap_or(&[]);
        Checksum::of(words.iter().fold(0, |all, word| all | word) & !Checksum::Verified.flags()) == Checksum::Partial
    }

    /// Marks that packet `index` goes on in the next slot, or that it does not.
    #[inline]
    pub fn set_more(&mut self, index: usize, more: bool) {
        let word = self.word(index);
        // SAFETY: the word is taken apart and put back as one slot.
        self.words[self.head + index] = unsafe { Slot::from_word(word) }.with_more(more).into_word();
    }

    /// Time of packet `index` in nanoseconds (0 if its port gave none); `None` in a batch without times. Live ports timestamp with
    /// `CLOCK_MONOTONIC`, capture files with the time since 1970 that they hold.
    #[inline]
    pub fn time_ns(&self, index: usize) -> Option<u64> {
        self.times_ns.get(self.head + index).copied()
    }

    /// Notes the time of packet `index`; without effect in a batch without times.
    #[inline]
    pub fn set_time_ns(&mut self, index: usize, time_ns: u64) {
        if let Some(timestamp) = self.times_ns.get_mut(self.head + index) {
            *timestamp = time_ns;
        }
    }

    /// Packets and bytes in the batch. A packet counts where its last slot is.
    #[inline]
    pub fn totals(&self) -> Totals {
        self.totals_of(self.len())
    }

    /// As [`Batch::totals`], for the first `count` slots.
    #[inline]
    pub fn totals_of(&self, count: usize) -> Totals {
        totals(&self.words()[..count])
    }

    /// As [`Batch::totals`], without the first `count` slots.
    #[inline]
    pub fn totals_after(&self, count: usize) -> Totals {
        totals(&self.words()[count..])
    }

    /// Takes the first slot out.
    #[inline]
    pub fn pop_front(&mut self) -> Option<Slot> {
        let word = *self.words[self.head..self.tail].first()?;
        self.head += 1;
        // SAFETY: the word leaves the batch here, so it becomes a slot once.
        Some(unsafe { Slot::from_word(word) })
    }

    /// Appends a slot. Panics when there is no room.
    ///
    /// # Safety
    /// The slot is of this batch's region.
    #[inline]
    pub unsafe fn push(&mut self, slot: Slot) {
        // SAFETY: the slot ends here and is of this region, as the caller vouches.
        unsafe { self.push_word(slot.into_word(), 0) };
    }

    /// Appends the slot of a word, with its time. Panics when there is no room.
    ///
    /// # Safety
    /// The word is an owned slot of this batch's region.
    #[inline]
    pub(crate) unsafe fn push_word(&mut self, word: u64, time_ns: u64) {
        if self.tail == self.words.len() {
            self.compact();
        }
        self.words[self.tail] = word;
        if let Some(timestamp) = self.times_ns.get_mut(self.tail) {
            *timestamp = time_ns;
        }
        self.tail += 1;
    }

    /// True if there is a place behind the last slot; slots are moved to the front if they have to be.
    #[inline]
    pub(crate) fn has_place(&mut self) -> bool {
        self.tail < self.words.len() || self.make_place()
    }

    #[cold]
    fn make_place(&mut self) -> bool {
        let has_room = self.room() > 0;
        self.compact();
        has_room
    }

    /// Appends the slot of a word, without a time, in the place that [`Batch::has_place`] found, and returns its bytes. Panics when there is none.
    ///
    /// # Safety
    /// As for `push_word`.
    #[inline(always)]
    pub(crate) unsafe fn push_in_place(&mut self, word: u64) -> &mut [u8] {
        self.words[self.tail] = word;
        if let Some(timestamp) = self.times_ns.get_mut(self.tail) {
            *timestamp = 0;
        }
        self.tail += 1;
        // SAFETY: as in `packet_mut`.
        unsafe { self.region.packet_mut(word) }
    }

    /// Moves the first `count` slots to the end of `other`, as far as it has room, and returns how many.
    #[inline]
    pub fn move_to(&mut self, other: &mut Batch, count: usize) -> usize {
        other.check_region(&self.region);
        if count.min(self.len()) == 1 {
            // What answers one packet, without what copies of many cost.
            return usize::from(self.move_front(other));
        }
        self.move_many(other, count)
    }

    fn move_many(&mut self, other: &mut Batch, count: usize) -> usize {
        let count = count.min(self.len()).min(other.room());
        let at = other.make_room(count);
        let from = self.head..self.head + count;
        other.words[at..at + count].copy_from_slice(&self.words[from.clone()]);
        if let Some(timestamps) = other.times_ns.get_mut(at..at + count) {
            match self.times_ns.get(from) {
                Some(times_ns) => timestamps.copy_from_slice(times_ns),
                None => timestamps.fill(0),
            }
        }
        other.tail += count;
        self.head += count;
        if self.is_empty() {
            (self.head, self.tail) = (0, 0);
        }
        count
    }

    /// Moves the first slot to the end of `other`; false, and nothing has happened, if there is none, or no room.
    #[inline]
    pub fn move_front(&mut self, other: &mut Batch) -> bool {
        other.check_region(&self.region);
        if self.is_empty() || other.room() == 0 {
            return false;
        }
        let at = other.make_room(1);
        other.words[at] = self.words[self.head];
        if let Some(stamp) = other.times_ns.get_mut(at) {
            *stamp = self.times_ns.get(self.head).copied().unwrap_or(0);
        }
        other.tail += 1;
        self.head += 1;
        true
    }

    /// Bytes of the first packet, to write; none if there is no packet.
    #[inline(always)]
    pub fn first_mut(&mut self) -> &mut [u8] {
        if self.is_empty() {
            return &mut [];
        }
        let word = self.words[self.head];
        // SAFETY: as in `packet_mut`.
        unsafe { self.region.packet_mut(word) }
    }

    /// Moves the first slot to the end of `other` as a packet of `len` bytes (cut to the length that it has) of whose checksum this is known;
    /// false, and nothing has happened, if there is none, or no room.
    #[inline(always)]
    pub fn move_written(&mut self, other: &mut Batch, len: usize, checksum: Checksum) -> bool {
        if self.is_empty() {
            return false;
        }
        let word = self.words[self.head];
        let len = len.min(word as u16 as usize) as u64;
        let word = word & !(0xffff | CHECKSUM_FLAGS) | len | checksum.flags();
        if other.times_ns.is_empty()
            && let Some(place) = other.words.get_mut(other.tail)
            && Arc::ptr_eq(&other.region, &self.region)
        {
            *place = word;
            other.tail += 1;
            self.head += 1;
            return true;
        }
        self.words[self.head] = word;
        self.move_front(other)
    }

    /// Cuts `bytes` bytes (all of them, if there are fewer) off the front of slot `index`.
    #[inline]
    pub fn adj(&mut self, index: usize, bytes: usize) {
        let word = self.word(index);
        let cut = bytes.min(word as u16 as usize) as u64;
        // The offset grows by what the length loses, so neither field overflows into its neighbour.
        self.words[self.head + index] = word + (cut << 16) - cut;
    }

    /// Puts `bytes` bytes, of whatever contents, in front of slot `index`; false, and nothing has happened, when its frame
    /// has not the room there.
    #[inline]
    pub fn prepend(&mut self, index: usize, bytes: usize) -> bool {
        let word = self.word(index);
        if bytes > (word >> 16) as u16 as usize {
            return false;
        }
        let grown = bytes as u64;
        // The packet stays inside the frame, whose size a length can say.
        self.words[self.head + index] = word - (grown << 16) + grown;
        true
    }

    /// Bytes that slot `index` can grow by at its end.
    #[inline]
    pub fn tail_room(&self, index: usize) -> usize {
        let word = self.word(index);
        self.region.frame_size() - (word >> 16) as u16 as usize - word as u16 as usize
    }

    /// The words of the first slots, without taking them out.
    #[inline]
    pub(crate) fn words(&self) -> &[u64] {
        &self.words[self.head..self.tail]
    }

    /// Takes the first `count` slots out, as words; the caller owns their frames.
    #[inline]
    pub(crate) fn drain_words(&mut self, count: usize) -> &[u64] {
        let start = self.head;
        self.head += count.min(self.len());
        let end = self.head;
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
        }
        &self.words[start..end]
    }

    /// Room behind the last slot, as words, for a ring to fill: `filled` of them become slots by [`Batch::grow`].
    #[inline]
    pub(crate) fn spare_words(&mut self) -> &mut [u64] {
        if self.is_empty() {
            (self.head, self.tail) = (0, 0);
        } else if self.tail == self.words.len() {
            self.compact();
        }
        &mut self.words[self.tail..]
    }

    /// Makes slots of the first `count` spare words.
    ///
    /// # Safety
    /// They were written since `spare_words`, each is an owned slot of this region.
    #[inline]
    pub(crate) unsafe fn grow(&mut self, count: usize) {
        if !self.times_ns.is_empty() {
            self.times_ns[self.tail..self.tail + count].fill(0);
        }
        self.tail += count;
    }

    /// Index in `words` from which on `count` words are free, which the batch has room for.
    #[inline]
    fn make_room(&mut self, count: usize) -> usize {
        if self.is_empty() {
            (self.head, self.tail) = (0, 0);
        } else if self.tail + count > self.words.len() {
            self.compact();
        }
        self.tail
    }

    /// Takes the last slot out.
    #[inline]
    pub(crate) fn pop_back(&mut self) -> Option<Slot> {
        let word = *self.words().last()?;
        self.tail -= 1;
        // SAFETY: the word leaves the batch here, so it becomes a slot once.
        Some(unsafe { Slot::from_word(word) })
    }

    #[cold]
    fn compact(&mut self) {
        self.words.copy_within(self.head..self.tail, 0);
        if !self.times_ns.is_empty() {
            self.times_ns.copy_within(self.head..self.tail, 0);
        }
        self.tail -= self.head;
        self.head = 0;
    }
}

/// Counts packets and bytes; packets of one slot, the rule, only by looking that there is no other.
#[inline]
fn totals(words: &[u64]) -> Totals {
    let (mut bytes, mut marks) = (0, 0);
    for word in words {
        bytes += word & 0xffff;
        marks |= word;
    }
    let mut packets = words.len();
    if crate::slot::more_of(marks) {
        packets -= words.iter().filter(|word| crate::slot::more_of(**word)).count();
    }
    Totals { packets: packets as u64, bytes }
}

/// What one slot of a batch holds: a packet, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// True when the packet goes on in the next slot.
    pub more: bool,
    /// What is known about its checksum.
    pub checksum: Checksum,
    /// Its timestamp; 0 where the port gave none, or the batch keeps none.
    pub time_ns: u64,
}

/// Extent of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Slots that it occupies.
    pub slots: usize,
    /// Its bytes in all of them.
    pub len: usize,
}

/// Packets, and their bytes without FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of packets.
    pub packets: u64,
    /// Sum of their lengths.
    pub bytes: u64,
}

impl Drop for Batch {
    fn drop(&mut self) {
        if !self.is_empty() {
            let words = &self.words[self.head..self.tail];
            self.depot.put_loose(words.iter().map(|word| crate::slot::frame_of(*word)));
        }
    }
}
