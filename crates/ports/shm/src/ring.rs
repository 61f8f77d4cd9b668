//! The two ends of a ring in shared memory. Own indices are private; the other side's is read once and checked.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::layout::RingPlace;
use crate::sys::{AtomicU64, Words};

/// The other side wrote an index that cannot be, or a packet without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// What it wrote, in words.
    pub what: &'static str,
    /// The value.
    pub value: u32,
}

/// `count` words from `index` on: those up to the end of the array, then those from its start.
#[inline]
fn cells(words: &Words, place: RingPlace, index: u32, count: usize) -> (&[AtomicU64], &[AtomicU64]) {
    let all = words.cells(place.words, place.capacity as usize);
    let (before, behind) = all.split_at(index as usize & (all.len() - 1));
    let first = count.min(behind.len());
    (&behind[..first], &before[..(count - first).min(before.len())])
}

/// The end that puts words in.
pub struct Producer {
    words: Arc<Words>,
    place: RingPlace,
    tail: u32,
    head_seen: u32,
}

impl Producer {
    /// The producing end, at the start.
    pub fn new(words: &Arc<Words>, place: RingPlace, start: u32) -> Producer {
        Producer { words: Arc::clone(words), place, tail: start, head_seen: start }
    }

    /// Words that the ring can hold.
    pub fn capacity(&self) -> usize {
        self.place.capacity as usize
    }

    /// Words that fit now, as far as that is known; looks at the consumer's index if they are fewer than `wanted`.
    #[inline]
    pub fn room(&mut self, wanted: usize) -> Result<usize, Corrupt> {
        let room = self.capacity() - self.tail.wrapping_sub(self.head_seen) as usize;
        if room >= wanted { Ok(room) } else { self.look() }
    }

    fn look(&mut self) -> Result<usize, Corrupt> {
        let head = self.words.index(self.place.head).load(Ordering::Acquire);
        let held = self.tail.wrapping_sub(head);
        // It moves from the index that it was seen at towards the tail.
        if held > self.tail.wrapping_sub(self.head_seen) {
            return Err(Corrupt { what: "a head index", value: head });
        }
        self.head_seen = head;
        Ok((self.place.capacity - held) as usize)
    }

    /// Puts in as many of `words` as are known to fit, and returns how many.
    #[inline]
    pub fn put(&mut self, words: &[u64]) -> usize {
        let room = self.capacity() - self.tail.wrapping_sub(self.head_seen) as usize;
        let count = room.min(words.len());
        let (behind, before) = cells(&self.words, self.place, self.tail, count);
        let (first, second) = words[..count].split_at(behind.len());
        behind.iter().zip(first).for_each(|(cell, word)| cell.store(*word, Ordering::Relaxed));
        before.iter().zip(second).for_each(|(cell, word)| cell.store(*word, Ordering::Relaxed));
        if count > 0 {
            self.tail = self.tail.wrapping_add(count as u32);
            self.words.index(self.place.tail).store(self.tail, Ordering::Release);
        }
        count
    }

    /// The words that nobody took out, as they are in memory.
    pub fn left(&mut self) -> Vec<u64> {
        // What cannot be is taken for all of them.
        let _ = self.look();
        let count = self.tail.wrapping_sub(self.head_seen) as usize;
        let (behind, before) = cells(&self.words, self.place, self.head_seen, count);
        behind.iter().chain(before).map(|cell| cell.load(Ordering::Relaxed)).collect()
    }
}

/// The end that takes words out.
pub struct Consumer {
    words: Arc<Words>,
    place: RingPlace,
    head: u32,
    tail_seen: u32,
}

impl Consumer {
    /// The consuming end, at the start.
    pub fn new(words: &Arc<Words>, place: RingPlace, start: u32) -> Consumer {
        Consumer { words: Arc::clone(words), place, head: start, tail_seen: start }
    }

    /// Words that are there, as far as that is known; looks at the producer's index if there are none.
    #[inline]
    pub fn available(&mut self) -> Result<usize, Corrupt> {
        match self.tail_seen.wrapping_sub(self.head) {
            0 => self.look(),
            known => Ok(known as usize),
        }
    }

    /// As [`Consumer::available`], but always looks.
    #[inline]
    pub fn look(&mut self) -> Result<usize, Corrupt> {
        let tail = self.words.index(self.place.tail).load(Ordering::Acquire);
        let held = tail.wrapping_sub(self.head);
        if held > self.place.capacity || held < self.tail_seen.wrapping_sub(self.head) {
            return Err(Corrupt { what: "a tail index", value: tail });
        }
        self.tail_seen = tail;
        Ok(held as usize)
    }

    /// Takes out words that are known to be there, up to `out.len()`, and without cutting a run of which `goes_on` says that
    /// the next word belongs to it. Returns how many.
    #[inline]
    pub fn take(&mut self, out: &mut [u64], goes_on: impl Fn(u64) -> bool) -> Result<usize, Corrupt> {
        let known = self.tail_seen.wrapping_sub(self.head) as usize;
        let most = known.min(out.len());
        let (behind, before) = cells(&self.words, self.place, self.head, most);
        let (first, second) = out[..most].split_at_mut(behind.len());
        behind.iter().zip(first).for_each(|(cell, word)| *word = cell.load(Ordering::Relaxed));
        before.iter().zip(second).for_each(|(cell, word)| *word = cell.load(Ordering::Relaxed));
        let mut count = most;
        while count > 0 && goes_on(out[count - 1]) {
            count -= 1;
        }
        if count < most && most == known {
            // Packets come as a whole, so the last word that is there ends one.
            return Err(Corrupt {
                what: "a packet without an end, at index",
                value: self.head.wrapping_add(count as u32),
            });
        }
        if count > 0 {
            self.head = self.head.wrapping_add(count as u32);
            self.words.index(self.place.head).store(self.head, Ordering::Release);
        }
        Ok(count)
    }
}
