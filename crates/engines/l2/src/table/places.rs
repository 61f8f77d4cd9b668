//! The places of a MAC table: what its readers see of it, while one thread at a time writes.

use std::hint::cold_path;
use std::sync::Arc;

use linerate_mem::{Compare, FourPairs, Lines, PairTable};
use linerate_wire::MacAddress;

use super::MacEntry;
use super::bucket::{Bucket, Entry, Key, STATIC, State, TICK_SHIFT, Wanted};

/// The buckets of a table, and how a key is found in them. A clone has the same buckets.
#[derive(Clone)]
pub(super) struct Places {
    pub(super) buckets: Arc<PairTable>,
    pub(super) seed: u64,
    pub(super) age_ticks: u32,
}

/// Finds the first buckets of addresses, where they most likely are.
pub(crate) struct Finder<'a> {
    buckets: Lines<'a, FourPairs>,
    seed: u64,
}

impl Finder<'_> {
    /// Returns the place of a key's first bucket, and asks for its cache line.
    #[inline]
    pub(crate) fn prefetch(&self, key: Key) -> u32 {
        let first = self.buckets.place(hash(key, self.seed) as u32);
        self.buckets.prefetch(first);
        first
    }
}

/// The table for a loop over packets of one port, in which this thread changes nothing; with `SHARED`, others may. The places of first buckets are what
/// [`Finder::prefetch`] returned.
pub(crate) struct View<'a, C: Compare, const SHARED: bool> {
    buckets: Lines<'a, FourPairs>,
    seed: u64,
    compare: C,
    /// The port and the tick that sources are to have.
    port: u16,
    tick: u32,
    wanted: Wanted<C>,
    /// Addresses that were seen last before this tick are too old.
    oldest: u32,
}

impl<C: Compare, const SHARED: bool> View<'_, C, SHARED> {
    /// The place of the bucket that a key is in if its first one is full.
    #[inline(always)]
    fn second(&self, key: Key, first: u32) -> u32 {
        cold_path();
        let second = self.buckets.place((hash(key, self.seed) >> (32 - LOW_BITS)) as u32);
        if second == first { first ^ 1 << LOW_BITS } else { second }
    }

    /// True when the table says already that the address is at the port of the view, as of now.
    #[inline(always)]
    pub(crate) fn says(&self, key: Key, first: u32) -> bool {
        let first = self.buckets.place(first);
        self.bucket_says(key, first) || self.bucket_says(key, self.second(key, first))
    }

    #[inline(always)]
    fn bucket_says(&self, key: Key, place: u32) -> bool {
        match SHARED {
            false => self.compare.has(&self.buckets, place, key.0, self.wanted.mask, self.wanted.state),
            // Key and state are to be of one entry.
            true => self.state(key, place).is_some_and(|state| state.is(self.port, self.tick)),
        }
    }

    #[inline(always)]
    fn state(&self, key: Key, place: u32) -> Option<State> {
        let way = self.compare.position(&self.buckets, place, key.0)?;
        Bucket(self.buckets.get(place)).state_at::<SHARED>(key, way)
    }

    /// The port of an address.
    #[inline(always)]
    pub(crate) fn port(&self, key: Key, first: u32) -> Option<u16> {
        let first = self.buckets.place(first);
        let state = self.state(key, first).or_else(|| self.state(key, self.second(key, first)));
        state.filter(|state| state.is_since(self.oldest)).map(State::port)
    }
}

impl Places {
    pub(super) fn new(buckets: usize, seed: u64, age_ticks: u32) -> Places {
        Places { buckets: Arc::new(PairTable::new(buckets)), seed, age_ticks }
    }

    pub(super) fn finder(&self) -> Finder<'_> {
        Finder { buckets: Lines::new(&self.buckets), seed: self.seed }
    }

    /// Notes that an address was seen again where it was; false if it is new, or moved. May be called while another thread writes.
    pub(super) fn renew(&self, key: Key, port: u16, tick: u32) -> bool {
        let (first, second) = self.of(key);
        let renewed = self.bucket(first).renew(key, port, tick);
        renewed.or_else(|| self.bucket(second).renew(key, port, tick)).unwrap_or(false)
    }

    /// Numbers of the two buckets of a key.
    #[inline]
    pub(super) fn of(&self, key: Key) -> (usize, usize) {
        let hash = hash(key, self.seed);
        let mask = self.buckets.len() - 1;
        let first = hash as usize >> LOW_BITS & mask;
        let second = (hash >> 32) as usize & mask;
        (first, if second == first { first ^ 1 } else { second })
    }

    #[inline]
    pub(super) fn bucket(&self, number: usize) -> Bucket<'_> {
        // The mask keeps the number inside the slice, which the compiler sees: no panic path.
        Bucket(&self.buckets[number & (self.buckets.len() - 1)])
    }

    /// The table for a loop over packets that came in at `port`.
    #[inline(always)]
    pub(super) fn view<C: Compare, const SHARED: bool>(&self, compare: C, port: u16, tick: u32) -> View<'_, C, SHARED> {
        let (wanted, oldest) = (Wanted::new(compare, port, tick), tick.saturating_sub(self.age_ticks));
        View { buckets: Lines::new(&self.buckets), seed: self.seed, compare, port, tick, wanted, oldest }
    }

    /// What is known of an address, wherever it is in the table.
    #[inline]
    fn state<const SHARED: bool>(&self, key: Key) -> Option<State> {
        let (first, second) = self.of(key);
        self.bucket(first).state::<SHARED>(key).or_else(|| self.bucket(second).state::<SHARED>(key))
    }

    /// True when an address is known to be at that port, as of now.
    pub(super) fn says<const SHARED: bool>(&self, key: Key, port: u16, tick: u32) -> bool {
        self.state::<SHARED>(key).is_some_and(|state| state.is(port, tick))
    }

    /// The port of an address.
    pub(super) fn lookup<const SHARED: bool>(&self, key: Key, tick: u32) -> Option<u16> {
        let state = self.state::<SHARED>(key)?;
        state.is_since(tick.saturating_sub(self.age_ticks)).then(|| state.port())
    }

    /// The addresses of the table, in no order, as they are at `tick`.
    pub(super) fn entries(&self, tick: u32) -> impl Iterator<Item = MacEntry> + '_ {
        let entries = self.buckets.iter().flat_map(|line| Bucket(line).entries());
        entries.map(move |entry: Entry| {
            let is_static = entry.seen == STATIC;
            let idle = if is_static { 0 } else { tick.saturating_sub(entry.seen) };
            MacEntry {
                mac: MacAddress::from_u64(entry.key.mac()),
                vlan: entry.key.vlan(),
                port: crate::PortIndex(entry.port),
                is_static,
                idle_s: ((u64::from(idle) << TICK_SHIFT) / 1_000_000_000) as u32,
                moves: entry.moves,
            }
        })
    }
}

/// Bits of a hash that [`Lines`] leaves out.
const LOW_BITS: u32 = 6;
const _: () = assert!(size_of::<FourPairs>() == 1 << LOW_BITS);

/// The fractional bits of the golden ratio, made odd.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes a key with the seed: all bits of the result depend on all of both.
#[inline]
fn hash(key: Key, seed: u64) -> u64 {
    let product = u128::from(key.0 ^ seed) * u128::from(MULTIPLIER);
    (product >> 64) as u64 ^ product as u64
}
