//! Which of several shards a packet is for.

use linerate_ip::{Shard, Steering, steering};
use linerate_wire::{STEERING_ENTRIES, entry};

/// Every shard gets a copy. No shard has this number: there are at most as many as the table has entries.
pub(crate) const ALL: u8 = u8::MAX;

/// The shard of each entry of the steering table, as one of the shards has it.
#[derive(Clone, Debug)]
pub(crate) struct Owners {
    table: [u8; STEERING_ENTRIES],
    /// The number of this shard.
    own: u8,
}

impl Owners {
    pub(crate) fn new(shard: Shard) -> Owners {
        let own = u8::try_from(shard.number()).unwrap_or(u8::MAX);
        Owners { table: core::array::from_fn(|at| (at % usize::from(shard.of())) as u8), own }
    }

    /// This shard's number.
    #[inline]
    pub(crate) fn own(&self) -> u8 {
        self.own
    }

    /// The shard of a fold of addresses and ports.
    #[inline]
    pub(crate) fn of_fold(&self, fold: u16) -> u8 {
        self.table[usize::from(entry(fold)) % STEERING_ENTRIES]
    }

    /// The shard that a frame is for, or [`ALL`].
    #[inline]
    pub(crate) fn of(&self, frame: &[u8]) -> u8 {
        match steering(frame) {
            Steering::Owner(fold) => self.of_fold(fold),
            Steering::First => 0,
            Steering::All => ALL,
        }
    }
}

/// Which packets of a batch another shard is to have, or each shard.
pub(crate) struct Sieve<'a> {
    pub(crate) owners: &'a Owners,
    /// Their places, and whose they are, first to last.
    pub(crate) foreign: &'a mut Vec<(usize, u8)>,
}

impl Sieve<'_> {
    /// Notes a packet that is not this shard's alone; true if it is for all.
    #[cold]
    pub(crate) fn keeps(&mut self, place: usize, owner: u8) -> bool {
        self.foreign.push((place, owner));
        owner == ALL
    }
}
