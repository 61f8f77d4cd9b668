//! Deadlines that were filed last. Most of them are of no use a round trip later, because what was sent is acknowledged.
//!
//! An entry stays here until many others were filed behind it. If its connection waits for nothing by then, it is done with, while the block is
//! still in the cache: the timer wheel would hand it out after the whole time-out, and the block would have to come from memory for it.

use std::collections::VecDeque;

use linerate_slab::Slab;

use super::Engine;
use crate::time::NEVER;
use crate::{State, Tcb, send};

/// Entries, at most: what a few thousand connections have in flight at a time passes through without a way into the wheel.
const ENTRIES: usize = 4096;
/// Entries that leave together when there is no room for one more.
const LEAVE: usize = ENTRIES / 2;
/// So many entries ahead, a block is asked for.
const AHEAD: usize = 16;

/// A queue of blocks and the ticks that they were filed under, the oldest first.
pub(super) struct Fresh {
    entries: VecDeque<(u32, u32)>,
    /// The earliest of the ticks; what it is says nothing when there is no entry.
    soonest: u32,
}

impl Fresh {
    pub(super) fn new() -> Fresh {
        Fresh { entries: VecDeque::with_capacity(ENTRIES), soonest: 0 }
    }

    /// The first tick at which an entry is due; `None` if there is no entry.
    pub(super) fn next_tick(&self) -> Option<u32> {
        (!self.entries.is_empty()).then_some(self.soonest)
    }

    /// Appends an entry, for which there is room.
    #[inline]
    fn push(&mut self, index: u32, due: u32) {
        if self.entries.is_empty() || (due.wrapping_sub(self.soonest) as i32) < 0 {
            self.soonest = due;
        }
        self.entries.push_back((index, due));
    }

    /// Looks for the earliest tick again.
    fn find_soonest(&mut self) {
        let Some(&(_, first)) = self.entries.front() else { return };
        let least = self.entries.iter().map(|(_, due)| due.wrapping_sub(first) as i32).min();
        self.soonest = first.wrapping_add(least.unwrap_or(0) as u32);
    }

    /// Takes the oldest entry out, and asks for a block whose turn comes soon.
    fn pop(&mut self, tcbs: &Slab<Tcb>) -> Option<(u32, u32)> {
        if let Some((later, _)) = self.entries.get(AHEAD) {
            tcbs.prefetch(*later);
        }
        self.entries.pop_front()
    }
}

impl Engine {
    /// Files the deadline of a block, which is earlier than what the block was filed under, if at all.
    #[inline]
    pub(super) fn file_fresh(&mut self, index: u32, due: u32) {
        if self.fresh.entries.len() >= ENTRIES {
            self.settle(LEAVE);
        }
        self.tcbs[index].filed = due;
        self.fresh.push(index, due);
    }

    /// Hands out the older half, for as long as an entry is due.
    pub(super) fn expire_fresh(&mut self) {
        while self.fresh.next_tick().is_some_and(|tick| self.now.is_due(tick)) {
            for _ in 0..self.fresh.entries.len().div_ceil(2) {
                if let Some(index) = self.take_oldest() {
                    self.expire_block(index);
                }
            }
            self.fresh.find_soonest();
        }
    }

    /// Moves what still waits for something of the `count` oldest entries to the wheel. Nothing comes of a deadline here: the caller may be about to
    /// send, with frames and room that it has counted.
    #[inline(never)]
    pub(super) fn settle(&mut self, count: usize) {
        for _ in 0..count.min(self.fresh.entries.len()) {
            if let Some(index) = self.take_oldest() {
                let due = send::deadline(&self.tcbs[index]);
                self.tcbs[index].filed = self.file_entry(index, due);
            }
        }
        self.fresh.find_soonest();
    }

    /// Takes the oldest entry out; its block, if that waits for something and was not filed again since.
    #[inline]
    fn take_oldest(&mut self) -> Option<u32> {
        let (index, due) = self.fresh.pop(&self.tcbs)?;
        let tcb = &mut self.tcbs[index];
        if tcb.filed != due {
            return None;
        }
        tcb.filed = NEVER;
        (tcb.state != State::Closed && send::deadline(tcb) != NEVER).then_some(index)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use linerate_ip::{HopId, IpConfig};
    use linerate_mem::{Pool, PoolConfig};

    use super::*;
    use crate::engine::Beginning;
    use crate::tuple::Tuple;
    use crate::{Flags, StackConfig};

    const MS: u64 = 1_000_000;

    /// An engine for so many connections, at tick 5,000.
    pub(in crate::engine) fn engine(connections_max: usize) -> Engine {
        let mac = linerate_wire::MacAddress([2, 0, 0, 0, 0, 1]);
        let ip = IpConfig { mac, duplicate_detection: false, ipv6: false, ..IpConfig::default() };
        let config = StackConfig { ip, connections_max, ..StackConfig::default() };
        let mut engine = Engine::new(config, Pool::new(PoolConfig::default()).unwrap()).unwrap();
        engine.set_now(5_000 * MS);
        engine
    }

    /// A connection whose deadline is in so many milliseconds.
    pub(in crate::engine) fn begin(engine: &mut Engine, port: usize, ms: u32) -> u32 {
        let tuple = Tuple { local: 1, remote: 2, local_port: port as u16, remote_port: 4, v6: false };
        let (hop, state, flags) = (HopId::NONE, State::SynReceived, Flags(0));
        let index = engine.begin(Beginning { tuple, hop, state, flags, iss: None, token: 0 }).unwrap();
        file(engine, index, ms);
        index
    }

    fn file(engine: &mut Engine, index: u32, ms: u32) {
        engine.tcbs[index].send_deadline = engine.now.in_ms(ms);
        engine.file(index);
    }

    /// The older half leaves when there is no room: to the wheel if it still waits, else nowhere, and it can be filed again.
    #[test]
    fn what_waits_for_nothing_any_more_does_not_reach_the_wheel() {
        let mut engine = engine(2 * ENTRIES);
        let blocks: Vec<u32> = (0..ENTRIES).map(|port| begin(&mut engine, port, 200)).collect();
        assert_eq!((engine.fresh.entries.len(), engine.wheel.len()), (ENTRIES, 0));
        blocks.iter().skip(2).for_each(|block| engine.tcbs[*block].send_deadline = NEVER);
        let another = begin(&mut engine, ENTRIES, 300);
        assert_eq!((engine.fresh.entries.len(), engine.wheel.len()), (ENTRIES - LEAVE + 1, 2));
        assert!(engine.tcbs[blocks[0]].filed == 5_200 && engine.tcbs[blocks[2]].filed == NEVER);
        file(&mut engine, blocks[2], 250);
        assert!(engine.tcbs[blocks[2]].filed == 5_250 && engine.tcbs[another].filed == 5_300);
    }

    /// A deadline that comes while its entry is here is met at its tick, whatever was filed before and after it.
    #[test]
    fn a_deadline_is_met_at_its_tick() {
        for (before, after) in [(0, 0), (3, 0), (0, 3), (7, 9)] {
            let mut engine = engine(2 * ENTRIES);
            (0..before).for_each(|port| _ = begin(&mut engine, port, 400));
            let block = begin(&mut engine, 100, 200);
            (0..after).for_each(|port| _ = begin(&mut engine, 200 + port, 400));
            assert_eq!(engine.next_deadline_ns(), 5_200 * MS);
            engine.set_now(5_199 * MS);
            engine.expire_fresh();
            assert_eq!(engine.tcbs[block].send_deadline, 5_200);
            engine.set_now(5_200 * MS);
            engine.expire_fresh();
            engine.expire_wheel();
            assert_ne!(engine.tcbs[block].send_deadline, 5_200);
        }
    }

    /// A deadline that moved to an earlier tick is met at that one, and what it was filed under before is passed over.
    #[test]
    fn an_earlier_deadline_takes_the_place_of_a_later_one() {
        let mut engine = engine(2 * ENTRIES);
        let block = begin(&mut engine, 1, 400);
        file(&mut engine, block, 100);
        assert_eq!((engine.fresh.entries.len(), engine.next_deadline_ns()), (2, 5_100 * MS));
        engine.settle(2);
        assert_eq!((engine.wheel.len(), engine.tcbs[block].filed), (1, 5_100));
    }
}
