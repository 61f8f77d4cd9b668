//! A timer wheel of ids whose deadlines stand elsewhere.

use crate::{PopulateError, ReserveError, Slab};

/// Levels: a slot of level 0 covers one tick, a slot of each further level 256 times as many. Four levels cover all of `u32`.
const LEVELS: usize = 4;
const SLOTS: usize = 256;
/// Ids in one block.
const BLOCK: usize = 14;
/// `next` of the last block of a slot.
const NONE: u32 = u32::MAX;

/// Ids of one slot; a slot has a list of them, of which only the first has room.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Block {
    ids: [u32; BLOCK],
    len: u32,
    next: u32,
}

/// A wheel for lazy timers: the owner keeps each deadline, files an id under a tick, and compares when the id comes out.
///
/// Nothing is ever taken out early. An owner that moves a deadline to a later tick leaves the entry where it is, and files the id again
/// when it comes out too early; for an earlier tick it files a second entry and ignores the first. Ticks wrap; a tick lies less than
/// 2^31 ticks ahead.
///
/// ```
/// let mut wheel = linerate_slab::Wheel::new(100, 0).unwrap();
/// assert_eq!(wheel.add(7, 1000), Some(1000));
/// assert_eq!(wheel.pop(767), None);
/// let early = wheel.pop(768).unwrap();          // a coarse slot comes out at its first tick
/// assert!((early.id, early.covers(1000)) == (7, true));
/// wheel.add(7, 1000);
/// assert_eq!(wheel.pop(999), None);
/// assert_eq!(wheel.pop(1000).unwrap().id, 7);
/// ```
pub struct Wheel {
    blocks: Slab<Block>,
    slots: Box<[[u32; SLOTS]; LEVELS]>,
    /// A bit for each slot that has entries.
    occupied: [[u64; SLOTS / 64]; LEVELS],
    /// All ticks up to this one have come out, but for those in `due`.
    now: u32,
    /// Slots that come out at `now`, first blocks; level 0 last.
    due: [u32; LEVELS],
    /// First tick at which a slot comes out, or an earlier one; `None` if none has entries.
    soonest: Option<u32>,
    len: usize,
}

/// An entry that came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The id.
    pub id: u32,
    first: u32,
    ticks: u32,
}

impl Expired {
    /// True if the entry may be the one that was filed under `tick`.
    #[inline]
    pub fn covers(&self, tick: u32) -> bool {
        tick.wrapping_sub(self.first) < self.ticks
    }
}

impl Wheel {
    /// A wheel that starts at tick `now`, for about `capacity` entries. Blocks that are not full may take more room than that, so a
    /// wheel has some to spare: two blocks for each slot.
    ///
    /// # Errors
    /// The kernel does not reserve so much address space.
    pub fn new(capacity: usize, now: u32) -> Result<Wheel, ReserveError> {
        let blocks = Slab::new(capacity.div_ceil(BLOCK) + 2 * SLOTS * LEVELS)?;
        let slots = Box::new([[NONE; SLOTS]; LEVELS]);
        Ok(Wheel {
            blocks,
            slots,
            occupied: [[0; SLOTS / 64]; LEVELS],
            now,
            due: [NONE; LEVELS],
            soonest: None,
            len: 0,
        })
    }

    /// Takes memory for `count` entries in advance, as [`crate::Array::populate`].
    ///
    /// # Errors
    /// There is not so much memory.
    pub fn populate(&mut self, count: usize) -> Result<(), PopulateError> {
        self.blocks.populate(count.div_ceil(BLOCK) + 2 * SLOTS * LEVELS)
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets the time of an empty wheel, which may be any; a wheel with entries stays as it is. An owner whose clock may stand still or begin
    /// anywhere calls this before it files, because ticks that lie 2^31 apart cannot be told from ticks of the past.
    #[inline]
    pub fn restart(&mut self, now: u32) {
        if self.len == 0 {
            (self.now, self.soonest) = (now, None);
        }
    }

    /// Files `id` under `tick`; a tick that has passed counts as the next one.
    /// Returns the tick that it is filed under; `None` if there is no room.
    #[inline]
    pub fn add(&mut self, id: u32, tick: u32) -> Option<u32> {
        let next = self.now.wrapping_add(1);
        let tick = if (tick.wrapping_sub(next) as i32) < 0 { next } else { tick };
        let (level, slot) = self.slot_of(tick);
        let first = tick & (u32::MAX << (8 * level));
        let is_sooner = |soonest: u32| first.wrapping_sub(self.now) < soonest.wrapping_sub(self.now);
        if self.soonest.is_none_or(is_sooner) {
            self.soonest = Some(first);
        }
        self.put(level, slot, id).then_some(tick)
    }

    /// Puts an id into a slot; false if there is no room.
    #[inline]
    fn put(&mut self, level: usize, slot: usize, id: u32) -> bool {
        let head = self.slots[level][slot];
        if let Some(block) = self.blocks.get_mut(head).filter(|block| block.len < BLOCK as u32) {
            block.ids[block.len as usize % BLOCK] = id;
            block.len += 1;
            self.len += 1;
            return true;
        }
        let mut ids = [0; BLOCK];
        ids[0] = id;
        let Some(block) = self.blocks.insert(Block { ids, len: 1, next: head }) else { return false };
        self.slots[level][slot] = block;
        self.occupied[level][slot / 64] |= 1 << (slot % 64);
        self.len += 1;
        true
    }

    /// Takes out every entry for which `keep` says no: those that their owners have forgotten. It walks over all entries, so an owner calls
    /// it only if the wheel is full.
    #[cold]
    pub fn retain(&mut self, mut keep: impl FnMut(Expired) -> bool) {
        for level in 0..LEVELS {
            let shift = 8 * level as u32;
            let current = self.now >> shift;
            for slot in 0..SLOTS {
                let mut head = std::mem::replace(&mut self.slots[level][slot], NONE);
                self.occupied[level][slot / 64] &= !(1 << (slot % 64));
                // A slot that is current holds what lies one turn ahead.
                let ahead = (slot + SLOTS - current as usize % SLOTS - 1) % SLOTS + 1;
                let first = current.wrapping_add(ahead as u32) << shift;
                while let Some(block) = self.blocks.get(head).copied().filter(|_| head != NONE) {
                    self.blocks.remove(head);
                    head = block.next;
                    self.len -= block.len as usize;
                    for &id in &block.ids[..block.len as usize] {
                        if keep(Expired { id, first, ticks: 1 << shift }) {
                            self.put(level, slot, id);
                        }
                    }
                }
            }
        }
    }

    /// The next entry whose slot begins at `now` or before; `None` if there is none. Time never goes back.
    #[inline]
    pub fn pop(&mut self, now: u32) -> Option<Expired> {
        loop {
            if let Some(expired) = self.pop_due() {
                return Some(expired);
            }
            if (now.wrapping_sub(self.now) as i32) <= 0 {
                return None;
            }
            self.advance(now);
        }
    }

    /// The first tick at which an entry comes out; `None` if there is no entry. It may be too early for coarse slots, never too late.
    #[inline]
    pub fn next_tick(&self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        if self.due != [NONE; LEVELS] {
            return Some(self.now);
        }
        self.soonest
    }

    /// The first tick at which a slot comes out; `None` if none has entries.
    fn next_slot(&self) -> Option<u32> {
        (0..LEVELS).filter_map(|level| self.next_of(level)).min_by_key(|tick| tick.wrapping_sub(self.now))
    }

    fn pop_due(&mut self) -> Option<Expired> {
        for level in (0..LEVELS).rev() {
            let head = self.due[level];
            let Some(block) = self.blocks.get_mut(head).filter(|_| head != NONE) else { continue };
            block.len -= 1;
            let (id, next, emptied) = (block.ids[block.len as usize % BLOCK], block.next, block.len == 0);
            if block.len == BLOCK as u32 / 2 {
                self.blocks.prefetch(next);
            }
            if emptied {
                self.blocks.remove(head);
                self.due[level] = next;
            }
            self.len -= 1;
            let ticks = 1u32 << (8 * level);
            return Some(Expired { id, first: self.now & !(ticks - 1), ticks });
        }
        None
    }

    /// Moves on to the next tick at which something comes out, or to `now` if that is earlier. Nothing is due.
    fn advance(&mut self, now: u32) {
        let to = match self.next_slot() {
            Some(tick) if tick.wrapping_sub(self.now) < now.wrapping_sub(self.now) => tick,
            _ => now,
        };
        self.now = to;
        for level in 0..LEVELS {
            let shift = 8 * level as u32;
            if to & ((1u32 << shift) - 1) != 0 {
                break;
            }
            let slot = (to >> shift) as usize % SLOTS;
            self.due[level] = std::mem::replace(&mut self.slots[level][slot], NONE);
            self.occupied[level][slot / 64] &= !(1 << (slot % 64));
        }
        self.soonest = self.next_slot();
    }

    /// The finest level in which `tick` has a slot of its own, before that level comes around.
    #[inline]
    fn slot_of(&self, tick: u32) -> (usize, usize) {
        for level in 0..LEVELS - 1 {
            let shift = 8 * level as u32;
            let ahead = (tick >> shift).wrapping_sub(self.now >> shift) & (u32::MAX >> shift);
            if ahead < SLOTS as u32 && ahead > 0 {
                return (level, (tick >> shift) as usize % SLOTS);
            }
        }
        (LEVELS - 1, (tick >> 24) as usize % SLOTS)
    }

    /// First tick of the next occupied slot of a level.
    fn next_of(&self, level: usize) -> Option<u32> {
        let shift = 8 * level as u32;
        let current = self.now >> shift;
        let start = (current as usize + 1) % SLOTS;
        let bits = &self.occupied[level];
        for step in 0..=SLOTS / 64 {
            let word = (start / 64 + step) % (SLOTS / 64);
            let from = if step == 0 { start % 64 } else { 0 };
            let until = if step == SLOTS / 64 { (1u64 << (start % 64)) - 1 } else { u64::MAX };
            let set = bits[word] & (u64::MAX << from) & until;
            if set != 0 {
                let slot = word * 64 + set.trailing_zeros() as usize;
                let ahead = (slot + SLOTS - current as usize % SLOTS) % SLOTS;
                let ahead = if ahead == 0 { SLOTS } else { ahead };
                return Some(current.wrapping_add(ahead as u32) << shift);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_wheel_can_be_set_to_any_time() {
        let mut wheel = Wheel::new(10, 0).unwrap();
        for now in [3_888_885_000, 5, 1 << 31, u32::MAX] {
            wheel.restart(now);
            assert_eq!(wheel.add(1, now.wrapping_add(200)), Some(now.wrapping_add(200)));
            wheel.restart(0);
            assert_eq!(wheel.next_tick().map(|tick| tick.wrapping_sub(now) <= 200), Some(true));
            let mut out = 0;
            (0..=200).for_each(|ahead| out += usize::from(wheel.pop(now.wrapping_add(ahead)).is_some()));
            assert!(out == 1 && wheel.is_empty());
        }
    }

    /// Entries of all levels that are kept come out when they would have, the others never, and their blocks can be used again.
    #[test]
    fn what_owners_forgot_can_be_taken_out() {
        for start in [0, 255, 65_535, u32::MAX - 70_000] {
            let mut wheel = Wheel::new(1000, start).unwrap();
            let ticks = [1, 255, 256, 257, 300, 65_536, 70_000, 1 << 20, 1 << 24, (1 << 24) + 5, 1 << 30];
            let mut kept = Vec::new();
            for (number, ahead) in ticks.iter().cycle().take(660).enumerate() {
                let tick = start.wrapping_add(*ahead);
                assert_eq!(wheel.add(number as u32, tick), Some(tick));
                if number % 3 == 0 {
                    kept.push((number as u32, tick));
                }
            }
            let blocks = wheel.blocks.len();
            wheel.retain(|entry| {
                let tick = start.wrapping_add(ticks[entry.id as usize % ticks.len()]);
                assert!(entry.covers(tick), "{entry:?} {tick}");
                entry.id % 3 == 0
            });
            assert!(wheel.len() == kept.len() && wheel.blocks.len() < blocks);
            while let Some(tick) = wheel.next_tick() {
                while let Some(entry) = wheel.pop(tick) {
                    let at = kept.iter().position(|(id, _)| *id == entry.id).expect("an entry that was kept");
                    let (_, wanted) = kept.swap_remove(at);
                    assert!(entry.covers(wanted), "{entry:?} {wanted}");
                }
            }
            assert!(kept.is_empty() && wheel.is_empty() && wheel.blocks.is_empty());
        }
    }
}
