//! The depot: the free frames that no pool handle holds, in magazines (after Bonwick and Adams, "Magazines and Vmem", 2001).

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Frame numbers in a magazine: what one visit to the depot moves.
pub(crate) const MAGAZINE: usize = 64;

/// Magazines that a handle has beside those in use, where another thread visits the depot, too: each visit then waits for
/// several cache lines from that thread's core, so fewer visits move more. A thread that is alone with the depot keeps few
/// frames in turn instead, those which are in its nearest cache.
const SPARES: usize = 3;

/// Full magazines that must be in the depot for handles to have spare ones.
const RESERVE: usize = 16;

/// A stack of at most [`MAGAZINE`] free frame numbers.
pub(crate) type Magazine = Vec<u32>;

/// An empty magazine.
pub(crate) fn new_magazine() -> Magazine {
    Vec::with_capacity(MAGAZINE)
}

/// Magazines that a handle has beside those in use.
#[derive(Default)]
pub(crate) struct Spares {
    pub(crate) full: Vec<Magazine>,
    pub(crate) empty: Vec<Magazine>,
    /// Another thread has been at the depot between this handle's last two visits.
    pub(crate) shared: bool,
}

#[derive(Default)]
struct Stock {
    /// Which thread was here last.
    visitor: usize,
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

impl Stock {
    /// Notes the calling thread's visit; true when another thread has been here since its last one.
    fn visit(&mut self) -> bool {
        thread_local!(static MARK: u8 = const { 0 });
        let visitor = MARK.with(|mark| std::ptr::from_ref(mark) as usize);
        std::mem::replace(&mut self.visitor, visitor) != visitor
    }
}

impl Depot {
    /// A depot for `frames` frames, which has all of them.
    pub(crate) fn new(frames: u32) -> Depot {
        Depot::with((0..frames).rev().collect(), frames)
    }

    /// A depot for `frames` frames, which has none yet.
    pub(crate) fn empty(frames: u32) -> Depot {
        Depot::with(Vec::new(), frames)
    }

    fn with(numbers: Vec<u32>, frames: u32) -> Depot {
        let mut stock = Stock { loose: Vec::with_capacity(frames as usize), ..Stock::default() };
        let magazines = frames as usize / MAGAZINE + 2;
        stock.full.reserve(magazines);
        stock.empty.reserve(magazines * 2);
        for chunk in numbers.chunks(MAGAZINE) {
            let mut magazine = new_magazine();
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

    /// Fills `magazine`, which is empty; false when there is no frame. The handle's empty magazines come back, and where
    /// visits are dear, more full ones go out with it.
    pub(crate) fn take(&self, magazine: &mut Magazine, spares: &mut Spares) -> bool {
        let mut stock = self.lock();
        spares.shared = stock.visit() && stock.full.len() > RESERVE;
        stock.empty.append(&mut spares.empty);
        if let Some(full) = stock.full.pop() {
            let empty = std::mem::replace(magazine, full);
            stock.empty.push(empty);
            if spares.shared {
                let keep = stock.full.len() - SPARES;
                spares.full.extend(stock.full.drain(keep..));
            }
            return true;
        }
        let keep = stock.loose.len().saturating_sub(MAGAZINE);
        magazine.extend(stock.loose.drain(keep..));
        !magazine.is_empty()
    }

    /// Empties `magazine`, which is full. The handle's full magazines come back, and where visits are dear, more empty ones go
    /// out with it.
    pub(crate) fn give(&self, magazine: &mut Magazine, spares: &mut Spares) {
        let mut stock = self.lock();
        spares.shared = stock.visit() && stock.full.len() > RESERVE;
        stock.full.append(&mut spares.full);
        let empty = stock.empty.pop().unwrap_or_else(new_magazine);
        let full = std::mem::replace(magazine, empty);
        stock.full.push(full);
        if spares.shared {
            let keep = stock.empty.len().saturating_sub(SPARES);
            spares.empty.extend(stock.empty.drain(keep..));
            spares.empty.resize_with(SPARES, new_magazine);
        }
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
