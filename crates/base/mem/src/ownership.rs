//! The ownership table: which frames of a region are owned by this process, and which are loaned to a kernel or to a process that
//! shares the region.
//!
//! ```text
//! owned   the pool, batches, rings of this process    --- export --->    loaned   the other side, or on the way
//!                                                     <--- import ---
//! ```
//! The table lies in private memory. A frame is imported only if it is loaned. Two slots of this process therefore never name the
//! same frame, whatever the other side writes. Offset and length are checked against the frame's size. (A process that shares the
//! region can write into any frame at any time: the bytes of a packet may change while they are read. Where they lie does not.)
#![allow(unsafe_code)]

use std::sync::Arc;

use crate::slot::KNOWN_BITS;
use crate::{Batch, Pool, Region, Slot, SlotFields};

/// The other side named a frame that it cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFrame {
    /// The frame does not exist, or it is not loaned.
    #[error("frame {0}, which it does not have")]
    NotLoaned(u32),
    /// The packet is not inside its frame, or an unknown flag is set.
    #[error("slot {0:#018x}, whose packet is not inside its frame")]
    OutOfBounds(u64),
}

/// Frames that are exported or imported at a time.
const AT_ONCE: usize = 64;

/// Which frames of one pool's region are loaned, and what each was loaned for: a note of 16 bits, which the borrower chooses and
/// which is not 0.
pub struct OwnershipTable {
    region: Arc<Region>,
    /// The note of each frame that is loaned; 0 for a frame that is owned.
    notes: Box<[u16]>,
    loaned: usize,
    at_end: Option<AtEnd>,
}

/// Gets the frames that are owned.
type AtEnd = Box<dyn FnOnce(&mut dyn Iterator<Item = u32>) + Send>;

impl OwnershipTable {
    /// A table for the frames of `pool`, all of which are owned.
    pub fn new(pool: &Pool) -> OwnershipTable {
        OwnershipTable::with(pool.region(), 0)
    }

    /// A table for the frames of a region, each of which has this note.
    pub(crate) fn with(region: &Arc<Region>, note: u16) -> OwnershipTable {
        let frames = region.frames() as usize;
        let loaned = if note == 0 { 0 } else { frames };
        OwnershipTable { region: Arc::clone(region), notes: vec![note; frames].into(), loaned, at_end: None }
    }

    /// What is done when the table goes, which is when the last handle of its pool does: `give_back` gets the frames that are owned then,
    /// for memory in which somebody else goes on.
    pub fn at_end(&mut self, give_back: impl FnOnce(&mut dyn Iterator<Item = u32>) + Send + 'static) {
        self.at_end = Some(Box::new(give_back));
    }

    /// True for a frame that is loaned: no slot of this process names it.
    #[inline]
    pub fn is_loaned(&self, frame: u32) -> bool {
        self.notes.get(frame as usize).is_some_and(|note| *note != 0)
    }

    /// Number of frames that are loaned.
    pub fn loaned(&self) -> usize {
        self.loaned
    }

    /// Exports the first `count` slots of the batch. `put` gets their words, and returns how many of the first it took; those leave
    /// the batch. `note` says what a slot is loaned for. Returns the number of slots exported.
    #[inline]
    pub fn export(
        &mut self,
        batch: &mut Batch,
        count: usize,
        note: impl Fn(SlotFields) -> u16,
        put: impl FnOnce(&[u64]) -> usize,
    ) -> usize {
        batch.check_region(&self.region);
        let words = batch.words();
        let words = &words[..count.min(words.len())];
        let taken = put(words).min(words.len());
        for word in batch.drain_words(taken) {
            let fields = SlotFields::of(*word);
            if let Some(place) = self.notes.get_mut(fields.frame as usize) {
                *place = note(fields);
            }
        }
        self.loaned += taken;
        taken
    }

    /// Gives frames that are loaned another note, by their words: those that were on their way to the other side have reached it.
    pub fn note_again(&mut self, words: &[u64], note: u16) {
        for word in words {
            if let Some(found) = self.notes.get_mut(SlotFields::of(*word).frame as usize).filter(|found| **found != 0) {
                *found = note.max(1);
            }
        }
    }

    /// Imports slots that were loaned for `note` at the end of the batch. `read` writes their words into private memory and returns
    /// how many. Returns that number.
    ///
    /// # Errors
    /// The first word that is invalid. The slots before it are in the batch.
    #[inline]
    pub fn import(
        &mut self,
        batch: &mut Batch,
        note: u16,
        read: impl FnOnce(&mut [u64]) -> usize,
    ) -> Result<usize, InvalidFrame> {
        batch.check_region(&self.region);
        let frame_size = self.region.frame_size();
        let spare = batch.spare_words();
        let count = read(spare).min(spare.len());
        let mut good = 0;
        let mut invalid = None;
        for word in &spare[..count] {
            let fields = SlotFields::of(*word);
            if usize::from(fields.offset) + usize::from(fields.len) > frame_size || word & !KNOWN_BITS != 0 {
                invalid = Some(InvalidFrame::OutOfBounds(*word));
                break;
            }
            match self.notes.get_mut(fields.frame as usize) {
                Some(found) if *found == note && note != 0 => *found = 0,
                _ => {
                    invalid = Some(InvalidFrame::NotLoaned(fields.frame));
                    break;
                }
            }
            good += 1;
        }
        self.loaned -= good;
        // SAFETY: `good` words were written. Each names a frame that was loaned, so that no slot of this process names it, and that is
        // owned now; its packet lies inside it.
        unsafe { batch.grow(good) };
        invalid.map_or(Ok(count), Err)
    }

    /// Exports up to `count` free frames of `pool`, at most 64, for `note`. `put` is as in [`OwnershipTable::export`]. Returns the
    /// number of frames exported.
    pub fn export_free(
        &mut self,
        pool: &mut Pool,
        count: usize,
        note: u16,
        put: impl FnOnce(&[u64]) -> usize,
    ) -> usize {
        self.check_region(pool);
        let mut words = [0; AT_ONCE];
        let mut had = 0;
        for word in words.iter_mut().take(count) {
            let Some(slot) = pool.alloc_slot(0) else { break };
            *word = slot.into_word();
            had += 1;
        }
        let taken = put(&words[..had]).min(had);
        for word in &words[..taken] {
            self.notes[SlotFields::of(*word).frame as usize] = note;
        }
        self.loaned += taken;
        for word in &words[taken..had] {
            // SAFETY: the word was a slot of this pool a moment ago, and becomes one again.
            unsafe { pool.free_slot(Slot::from_word(*word)) };
        }
        taken
    }

    /// Imports frames that become free frames of `pool`, at most 64. `read` is as in [`OwnershipTable::import`]; `accept` is told
    /// what each frame was loaned for, and says whether it may come back so. Returns the number of frames imported.
    ///
    /// # Errors
    /// The first word that is invalid. The frames before it are in the pool.
    pub fn import_free(
        &mut self,
        pool: &mut Pool,
        read: impl FnOnce(&mut [u64]) -> usize,
        mut accept: impl FnMut(u16) -> bool,
    ) -> Result<usize, InvalidFrame> {
        self.check_region(pool);
        let mut words = [0; AT_ONCE];
        let count = read(&mut words).min(AT_ONCE);
        for word in &words[..count] {
            if word & !KNOWN_BITS != 0 {
                return Err(InvalidFrame::OutOfBounds(*word));
            }
            let frame = SlotFields::of(*word).frame;
            match self.notes.get_mut(frame as usize) {
                Some(note) if *note != 0 && accept(*note) => *note = 0,
                _ => return Err(InvalidFrame::NotLoaned(frame)),
            }
            self.loaned -= 1;
            // SAFETY: the frame was loaned and is owned now, so this slot is the only one that names it; it is of the pool's region.
            unsafe { pool.free_slot(Slot::new(frame, 0, 0)) };
        }
        Ok(count)
    }

    /// Takes back all frames that are loaned, because the other side is gone: they become free frames of `pool`. Returns their
    /// number.
    pub fn reclaim(&mut self, pool: &mut Pool) -> usize {
        self.check_region(pool);
        for (frame, note) in self.notes.iter_mut().enumerate().filter(|(_, note)| **note != 0) {
            *note = 0;
            // SAFETY: as in `import_free`.
            unsafe { pool.free_slot(Slot::new(frame as u32, 0, 0)) };
        }
        std::mem::take(&mut self.loaned)
    }

    fn check_region(&self, pool: &Pool) {
        assert!(Arc::ptr_eq(pool.region(), &self.region), "the table of one region was given a pool of another");
    }
}

impl Drop for OwnershipTable {
    fn drop(&mut self) {
        if let Some(give_back) = self.at_end.take() {
            let owned = self.notes.iter().zip(0..).filter(|(note, _)| **note == 0);
            give_back(&mut owned.map(|(_, frame)| frame));
        }
    }
}
