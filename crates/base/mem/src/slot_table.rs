//! Slots that wait in no order of their own: each is put aside under a number, and taken by it.
#![allow(unsafe_code)]

use std::sync::Arc;

use crate::depot::Depot;
use crate::{Batch, Pool, Region, Slot};

/// A bounded table of owned slots of one region. Dropping it returns their frames.
pub struct SlotTable {
    region: Arc<Region>,
    depot: Arc<Depot>,
    words: Box<[u64]>,
    /// Numbers of vacant places, the next one last.
    vacant: Vec<u32>,
}

/// The word of a vacant place. No slot has it, because a packet ends inside its frame, which is shorter than offset and length of
/// this word.
const VACANT: u64 = u64::MAX;

impl SlotTable {
    /// A table with room for `capacity` slots of `pool`'s region, at most [`Slot::FRAMES_MAX`].
    pub fn new(pool: &Pool, capacity: usize) -> SlotTable {
        let capacity = capacity.min(Slot::FRAMES_MAX);
        SlotTable {
            region: Arc::clone(pool.region()),
            depot: Arc::clone(pool.depot()),
            words: vec![VACANT; capacity].into(),
            vacant: (0..capacity as u32).rev().collect(),
        }
    }

    /// Slots in the table.
    #[inline]
    pub fn len(&self) -> usize {
        self.words.len() - self.vacant.len()
    }

    /// True when the table holds no slot.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots that fit into the table now.
    #[inline]
    pub fn room(&self) -> usize {
        self.vacant.len()
    }

    /// Moves the first slot of the batch into the table and returns its number there; `None` if there is no slot or no room.
    #[inline]
    pub fn insert(&mut self, batch: &mut Batch) -> Option<u32> {
        batch.check_region(&self.region);
        if batch.is_empty() {
            return None;
        }
        let number = self.vacant.pop()?;
        self.words[number as usize] = batch.drain_words(1)[0];
        Some(number)
    }

    /// Moves slot `number` to the end of the batch. Returns false, and nothing has happened, if there is no such slot in the table
    /// or no room in the batch.
    #[inline]
    pub fn remove(&mut self, number: u32, batch: &mut Batch) -> bool {
        batch.check_region(&self.region);
        match self.words.get_mut(number as usize) {
            Some(word) if *word != VACANT && batch.room() > 0 => {
                let word = std::mem::replace(word, VACANT);
                self.vacant.push(number);
                // SAFETY: the word was taken out of a batch of this region as an owned slot, and left the table just now.
                unsafe { batch.push(Slot::from_word(word)) };
                true
            }
            _ => false,
        }
    }
}

impl Drop for SlotTable {
    fn drop(&mut self) {
        if !self.is_empty() {
            let owned = self.words.iter().filter(|word| **word != VACANT);
            self.depot.put_loose(owned.map(|word| crate::slot::frame_of(*word)));
        }
    }
}
