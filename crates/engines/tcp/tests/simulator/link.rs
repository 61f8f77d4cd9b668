//! A link between two stacks that loses, copies, damages, delays and reorders by a seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::numbers::Numbers;

/// What happens to frames, in parts of 10,000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub lost: u32,
    pub copied: u32,
    pub damaged: u32,
    pub reordered: u32,
    pub delay_us: u32,
    pub jitter_us: u32,
}

/// When a frame arrives, its number, the end that it is for, its bytes.
type UnderWay = (u64, u64, usize, Vec<u8>);

/// Frames under way.
pub struct Link {
    faults: Faults,
    numbers: Numbers,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    count: u64,
}

/// Arrival times are multiples of this, so that batches arrive.
const STEP_NS: u64 = 32_000;

impl Link {
    pub fn new(faults: Faults, seed: u64) -> Link {
        Link { faults, numbers: Numbers::new(seed), under_way: BinaryHeap::new(), count: 0 }
    }

    /// A frame leaves for end `to`.
    pub fn send(&mut self, now_ns: u64, to: usize, mut frame: Vec<u8>) {
        let faults = self.faults;
        let mut happens = |parts: u32| parts > 0 && self.numbers.below(10_000) < u64::from(parts);
        if happens(faults.lost) {
            return;
        }
        let (copied, damaged, reordered) = (happens(faults.copied), happens(faults.damaged), happens(faults.reordered));
        if copied {
            self.enter(now_ns, to, frame.clone(), reordered);
        }
        if damaged && !frame.is_empty() {
            let bit = self.numbers.below(frame.len() as u64 * 8);
            frame[bit as usize / 8] ^= 1 << (bit % 8);
        }
        self.enter(now_ns, to, frame, reordered);
    }

    fn enter(&mut self, now_ns: u64, to: usize, frame: Vec<u8>, reordered: bool) {
        let mut delay_us = u64::from(self.faults.delay_us) + self.numbers.below(u64::from(self.faults.jitter_us) + 1);
        if reordered {
            delay_us += self.numbers.below(3 * u64::from(self.faults.delay_us) + 1000);
        }
        let at_ns = (now_ns + delay_us * 1000).next_multiple_of(STEP_NS);
        self.count += 1;
        self.under_way.push(Reverse((at_ns, self.count, to, frame)));
    }

    /// When the next frame arrives.
    pub fn next_ns(&self) -> u64 {
        self.under_way.peek().map_or(u64::MAX, |Reverse((at_ns, ..))| *at_ns)
    }

    /// Takes a frame for `to` that arrives now.
    pub fn take(&mut self, now_ns: u64, to: usize) -> Option<Vec<u8>> {
        let Reverse((at_ns, _, end, _)) = self.under_way.peek()?;
        if *at_ns > now_ns || *end != to {
            return None;
        }
        self.under_way.pop().map(|Reverse((.., frame))| frame)
    }
}
