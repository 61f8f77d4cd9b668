//! The border of a region that two processes share: slots that go to the other process, and come from it.
//!
//! ```text
//! here   the pool, batches, rings of this process      --- hand out --->      away   the other process, or on the way
//!                                                      <--- take in ----
//! ```
//! Which frames are here is kept in private memory. A frame is taken in only if it is away, so that whatever the other process
//! writes, two slots of this one never name the same frame; offset and length are checked against the frame's size. (The other
//! process can write into any frame at any time. What is in a packet may change while it is read; where it is, may not.)
#![allow(unsafe_code)]

use std::sync::{Arc, MutexGuard};

use crate::depot::Depot;
use crate::slot::frame_of;
use crate::{Batch, Pool, Region, Slot};

/// Which frames are here.
pub(crate) struct Custody {
    here: Box<[bool]>,
    count: usize,
}

impl Custody {
    pub(crate) fn new(frames: usize, here: bool) -> Custody {
        Custody { here: vec![here; frames].into(), count: if here { frames } else { 0 } }
    }

    /// Number of frames that are here.
    pub(crate) fn here(&self) -> usize {
        self.count
    }

    /// Lets the frame of a slot go, which the caller has just taken apart.
    #[inline]
    fn leave(&mut self, word: u64) {
        if let Some(here) = self.here.get_mut(frame_of(word) as usize) {
            *here = false;
        }
    }

    /// Takes a frame in, if it is away.
    #[inline]
    fn enter(&mut self, frame: u32) -> bool {
        match self.here.get_mut(frame as usize) {
            Some(here) => !std::mem::replace(here, true),
            None => false,
        }
    }
}

/// What the other process handed over and cannot have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trespass {
    /// The frame does not exist, or is not the other process's to give: it is here.
    #[error("frame {0}, which it does not have")]
    Frame(u32),
    /// The packet leaves its frame, or a flag is set that there is none of.
    #[error("slot {0:#018x}, whose packet is not inside its frame")]
    Place(u64),
}

/// Hands slots out of this process and takes them in.
pub struct Border {
    region: Arc<Region>,
    depot: Arc<Depot>,
}

/// Bits of a slot that mean something: all but the flags, and of these `more`.
const KNOWN_BITS: u64 = 0x01ff_ffff_ffff_ffff;

/// Free frames that cross at a time.
const FREE_AT_ONCE: usize = 64;

impl Border {
    pub(crate) fn new(region: Arc<Region>, depot: Arc<Depot>) -> Border {
        Border { region, depot }
    }

    fn custody(&self) -> Option<MutexGuard<'_, Custody>> {
        self.region.custody()
    }

    /// Frames that are here.
    pub fn here(&self) -> usize {
        self.custody().map_or(0, |custody| custody.count)
    }

    /// Hands out the first `count` slots of the batch: `put` gets their words, and says how many of the first it took; those
    /// leave the batch. Returns that number.
    #[inline]
    pub fn hand_out(&self, batch: &mut Batch, count: usize, put: impl FnOnce(&[u64]) -> usize) -> usize {
        batch.check_region(&self.region);
        let Some(mut custody) = self.custody() else { return 0 };
        let words = batch.words();
        let words = &words[..count.min(words.len())];
        let taken = put(words).min(words.len());
        for word in batch.drain_words(taken) {
            custody.leave(*word);
        }
        custody.count -= taken;
        taken
    }

    /// Takes slots in at the end of the batch: `read` writes words into private memory and says how many. Returns that number.
    ///
    /// # Errors
    /// The first word that cannot be. Those before it are in the batch.
    #[inline]
    pub fn take_in(&self, batch: &mut Batch, read: impl FnOnce(&mut [u64]) -> usize) -> Result<usize, Trespass> {
        batch.check_region(&self.region);
        let Some(mut custody) = self.custody() else { return Ok(0) };
        let frame_size = self.region.frame_size() as u64;
        let spare = batch.spare_words();
        let count = read(spare).min(spare.len());
        let mut good = 0;
        let mut trespass = None;
        for word in &spare[..count] {
            let end = (word >> 16 & 0xffff) + (word & 0xffff);
            if end > frame_size || word & !KNOWN_BITS != 0 {
                trespass = Some(Trespass::Place(*word));
                break;
            }
            if !custody.enter(frame_of(*word)) {
                trespass = Some(Trespass::Frame(frame_of(*word)));
                break;
            }
            good += 1;
        }
        custody.count += good;
        // SAFETY: `good` words were written; each names a frame that was away, so that no slot of this process names it, and
        // which is here now; its packet lies inside it.
        unsafe { batch.grow(good) };
        trespass.map_or(Ok(count), Err)
    }

    /// Hands out up to `count` free frames of `pool`; `put` as in [`Border::hand_out`]. Returns how many went.
    pub fn hand_out_free(&self, pool: &mut Pool, count: usize, put: impl FnOnce(&[u64]) -> usize) -> usize {
        let mut words = [0; FREE_AT_ONCE];
        let mut had = 0;
        for word in words.iter_mut().take(count) {
            let Some(slot) = pool.alloc_slot(0) else { break };
            *word = slot.into_word();
            had += 1;
        }
        let Some(mut custody) = self.custody() else { return 0 };
        let taken = put(&words[..had]).min(had);
        for word in &words[..taken] {
            custody.leave(*word);
        }
        custody.count -= taken;
        for word in &words[taken..had] {
            // SAFETY: the word was a slot of this pool a moment ago, and becomes one again.
            unsafe { pool.free_slot(Slot::from_word(*word)) };
        }
        taken
    }

    /// Takes free frames into `pool`; `read` as in [`Border::take_in`]. Returns how many came.
    ///
    /// # Errors
    /// The first frame that cannot be. Those before it are in the pool.
    pub fn take_in_free(&self, pool: &mut Pool, read: impl FnOnce(&mut [u64]) -> usize) -> Result<usize, Trespass> {
        let mut words = [0; FREE_AT_ONCE];
        let Some(mut custody) = self.custody() else { return Ok(0) };
        let count = read(&mut words).min(FREE_AT_ONCE);
        for (index, word) in words[..count].iter().enumerate() {
            let frame = frame_of(*word);
            if !custody.enter(frame) {
                custody.count += index;
                return Err(Trespass::Frame(frame));
            }
            // SAFETY: the frame was away and is here now, so this slot is the only one that names it.
            unsafe { pool.free_slot(Slot::new(frame, 0, 0)) };
        }
        custody.count += count;
        Ok(count)
    }

    /// The other process is gone: everything that is away is here again, and free. Returns how many frames that were.
    pub fn reclaim(&self) -> usize {
        let Some(mut custody) = self.custody() else { return 0 };
        let away: Vec<u32> = (0..self.region.frames()).filter(|frame| custody.enter(*frame)).collect();
        custody.count += away.len();
        let count = away.len();
        self.depot.put_loose(away.into_iter());
        count
    }
}
