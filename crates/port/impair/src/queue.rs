//! Packets that wait until they are due.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use linerate_mem::{Batch, Pool, SlotTable};

/// Waiting packets, as slots of a pool, in the order in which they are due.
pub(crate) struct Queue {
    table: SlotTable,
    /// Packets that are due no sooner than those that came before them: the rule.
    line: VecDeque<Entry>,
    /// Packets that are due before the last one of the line.
    overtaking: BinaryHeap<Reverse<Entry>>,
    /// Slots that have come.
    came: u64,
    packets: usize,
}

/// A slot that waits. Entries are ordered by time, and those of one time by arrival; so the slots of a packet stay together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    due_ns: u64,
    arrival: u64,
    /// Its number in the table.
    number: u32,
    /// Slots of the packet that begins here; 0 for its other slots.
    slots: u32,
    /// The packet's timestamp when it leaves; 0 without one.
    time_ns: u64,
}

impl Queue {
    /// A queue for up to `limit` slots.
    pub(crate) fn new(pool: &Pool, limit: usize) -> Queue {
        let (line, overtaking) = (VecDeque::with_capacity(limit), BinaryHeap::with_capacity(limit));
        Queue { table: SlotTable::new(pool, limit), line, overtaking, came: 0, packets: 0 }
    }

    /// Packets that wait.
    #[inline]
    pub(crate) fn packets(&self) -> usize {
        self.packets
    }

    /// Slots that there is room for.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.table.room()
    }

    /// Takes the packet in the first `slots` slots of the batch, for which there is room.
    #[inline]
    pub(crate) fn push(&mut self, batch: &mut Batch, slots: usize, due_ns: u64, time_ns: u64) {
        for index in 0..slots {
            let Some(number) = self.table.insert(batch) else { return };
            let slots = if index == 0 { slots as u32 } else { 0 };
            let entry = Entry { due_ns, arrival: self.came, number, slots, time_ns };
            self.came += 1;
            match self.line.back() {
                Some(last) if last.due_ns > due_ns => self.overtaking.push(Reverse(entry)),
                _ => self.line.push_back(entry),
            }
        }
        self.packets += 1;
    }

    /// When the next packet is due.
    #[inline]
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        self.first().map(|entry| entry.due_ns)
    }

    /// Moves packets that are due at `now_ns` to the end of the batch, the longest due first, each as a whole.
    #[inline]
    pub(crate) fn pop_due(&mut self, now_ns: u64, batch: &mut Batch) {
        while let Some(first) = self.first()
            && first.due_ns <= now_ns
            && first.slots as usize <= batch.room()
        {
            self.pop(first.slots, batch);
        }
    }

    /// Moves the next packet to the batch if it is due and has more than `slots_max` slots; true when it was.
    pub(crate) fn pop_longer(&mut self, now_ns: u64, slots_max: usize, batch: &mut Batch) -> bool {
        let longer = |entry: &Entry| entry.due_ns <= now_ns && entry.slots as usize > slots_max;
        let first = self.first().filter(longer);
        first.inspect(|first| self.pop(first.slots, batch)).is_some()
    }

    #[inline]
    fn pop(&mut self, slots: u32, batch: &mut Batch) {
        for _ in 0..slots {
            let Some(entry) = self.pop_first() else { return };
            if self.table.remove(entry.number, batch) {
                batch.set_time_ns(batch.len() - 1, entry.time_ns);
            }
        }
        self.packets -= 1;
    }

    #[inline]
    fn first(&self) -> Option<Entry> {
        match (self.line.front(), self.overtaking.peek()) {
            (Some(line), Some(Reverse(overtaking))) => Some(*line.min(overtaking)),
            (line, None) => line.copied(),
            (None, Some(Reverse(overtaking))) => Some(*overtaking),
        }
    }

    #[inline]
    fn pop_first(&mut self) -> Option<Entry> {
        match (self.line.front(), self.overtaking.peek()) {
            (Some(line), Some(Reverse(overtaking))) if overtaking < line => {
                self.overtaking.pop().map(|Reverse(entry)| entry)
            }
            (None, _) => self.overtaking.pop().map(|Reverse(entry)| entry),
            _ => self.line.pop_front(),
        }
    }
}
