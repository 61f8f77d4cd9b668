//! The depot: the free frames that no pool handle holds, in magazines (after Bonwick and Adams, "Magazines and Vmem", 2001).

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Frame numbers in a magazine: what one visit to the depot moves.
pub(crate) const MAGAZINE: usize = 64;

/// A stack of at most [`MAGAZINE`] free frame numbers.
pub(crate) type Magazine = Vec<u32>;

#[derive(Default)]
struct Stock {
    full: Vec<Magazine>,
    empty: Vec<Magazine>,
    /// Frames that came one by one, from handles and batches that were dropped.
    loose: Vec<u32>,
}

/// Shared by all handles of a pool; locked once a magazine.
pub(crate) struct Depot {
    stock: Mutex<Stock>,
    frames: usize,
}

impl Depot {
    pub(crate) fn new(frames: u32) -> Depot {
        let numbers: Vec<u32> = (0..frames).rev().collect();
        let mut stock = Stock { loose: Vec::with_capacity(frames as usize), ..Stock::default() };
        let magazines = frames as usize / MAGAZINE + 2;
        stock.full.reserve(magazines);
        stock.empty.reserve(magazines * 2);
        for chunk in numbers.chunks(MAGAZINE) {
            let mut magazine = Vec::with_capacity(MAGAZINE);
            magazine.extend_from_slice(chunk);
            stock.full.push(magazine);
        }
        stock.full.reverse();
        Depot { stock: Mutex::new(stock), frames: frames as usize }
    }

    fn lock(&self) -> MutexGuard<'_, Stock> {
        // A panic elsewhere leaves the stacks whole: each operation below moves a magazine in one step.
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a magazine with frames for an empty one; false when there is none.
    pub(crate) fn exchange_for_full(&self, magazine: &mut Magazine) -> bool {
        let mut stock = self.lock();
        if let Some(full) = stock.full.pop() {
            let empty = std::mem::replace(magazine, full);
            stock.empty.push(empty);
            return true;
        }
        let keep = stock.loose.len().saturating_sub(MAGAZINE);
        magazine.extend(stock.loose.drain(keep..));
        !magazine.is_empty()
    }

    /// Gives an empty magazine for a full one.
    pub(crate) fn exchange_for_empty(&self, magazine: &mut Magazine) {
        let mut stock = self.lock();
        let empty = stock.empty.pop().unwrap_or_else(|| Vec::with_capacity(MAGAZINE));
        let full = std::mem::replace(magazine, empty);
        stock.full.push(full);
    }

    /// Takes back frames one by one (the slow way, for what is dropped).
    pub(crate) fn put_loose(&self, frames: impl Iterator<Item = u32>) {
        self.lock().loose.extend(frames);
    }

    /// Frames in the depot.
    pub(crate) fn len(&self) -> usize {
        let stock = self.lock();
        stock.loose.len() + stock.full.iter().map(Vec::len).sum::<usize>()
    }

    /// Frames of the pool, wherever they are.
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }
}
