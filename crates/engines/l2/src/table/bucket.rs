//! One line of the MAC table: four entries, each with an address, and the port and time at which it was seen.

use linerate_mem::FourWords;

/// Entries of a bucket.
pub(super) const WAYS: usize = 4;
/// Marks a key in use, so that no address of any VLAN is the key of a free place.
const USED: u64 = 1 << 63;
/// `seen` of an entry that does not age and does not move.
pub(super) const STATIC: u32 = u32::MAX;
/// A tick is 2^30 ns.
pub(super) const TICK_SHIFT: u32 = 30;

/// Returns the tick of the table, 1.07 s long, at a time in nanoseconds.
#[inline]
pub(crate) fn tick(now_ns: u64) -> u32 {
    // `STATIC` is 146 years away from the start of a monotonic clock.
    (now_ns >> TICK_SHIFT) as u32
}

/// An address in a VLAN, as one word. The default is the key of a free place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key(pub(super) u64);

impl Key {
    /// Makes a key of a VLAN and of an address that has nothing above its 48 bits.
    #[inline]
    pub(crate) fn new(vlan: u16, mac: u64) -> Key {
        Key(USED | u64::from(vlan & 0xfff) << 48 | mac)
    }

    /// Returns the key of an address in the same VLAN. The address of `self` must be 0.
    #[inline]
    pub(crate) fn with_mac(self, mac: u64) -> Key {
        Key(self.0 | mac)
    }

    /// The VLAN.
    #[inline]
    pub(crate) fn vlan(self) -> u16 {
        (self.0 >> 48) as u16 & 0xfff
    }

    /// The address.
    #[inline]
    pub(crate) fn mac(self) -> u64 {
        self.0 & 0xffff_ffff_ffff
    }

    /// True for multicast and broadcast addresses.
    #[inline]
    pub(crate) fn is_group(self) -> bool {
        self.0 & 1 << 40 != 0
    }
}

/// An entry taken out of its bucket.
#[derive(Clone, Copy, Default)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) port: u16,
    pub(super) moves: u16,
    pub(super) seen: u32,
}

/// Everything about an entry but its key, in one word, so that one comparison tells whether port and time are the expected ones.
#[derive(Clone, Copy, Default)]
pub(super) struct State(u64);

impl State {
    /// Bits of `moves`, below port and time.
    const MOVES: u32 = 16;

    fn of(entry: Entry) -> State {
        State(u64::from(entry.seen) << 32 | u64::from(entry.port) << State::MOVES | u64::from(entry.moves))
    }

    #[inline]
    pub(super) fn port(self) -> u16 {
        (self.0 >> State::MOVES) as u16
    }

    /// True if the address was seen at `port` in the tick `tick`.
    #[inline]
    pub(super) fn is(self, port: u16, tick: u32) -> bool {
        self.0 >> State::MOVES == u64::from(tick) << 16 | u64::from(port)
    }

    /// True if the address was seen in the tick `tick` or later.
    #[inline]
    pub(super) fn is_since(self, tick: u32) -> bool {
        self.0 >= u64::from(tick) << 32
    }
}

/// Four places for entries in one cache line.
#[derive(Clone, Default)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    keys: FourWords,
    states: [State; WAYS],
}

impl Bucket {
    /// Finds the place of a key. The default key finds a free place.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<usize> {
        self.keys.position(key.0)
    }

    /// Finds a key and returns everything else about its entry.
    #[inline]
    pub(super) fn state(&self, key: Key) -> Option<State> {
        self.find(key).map(|way| self.states[way])
    }

    /// The entry in a place below [`WAYS`].
    #[inline]
    pub(super) fn entry(&self, way: usize) -> Entry {
        let State(state) = self.states[way % WAYS];
        let key = Key(self.keys.word(way));
        Entry { key, port: self.states[way % WAYS].port(), moves: state as u16, seen: (state >> 32) as u32 }
    }

    /// The entries in all places, used or free.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..WAYS).map(|way| self.entry(way))
    }

    /// Puts an entry into a place below [`WAYS`].
    #[inline]
    pub(super) fn set(&mut self, way: usize, entry: Entry) {
        self.keys.set(way, entry.key.0);
        self.states[way % WAYS] = State::of(entry);
    }

    /// Removes the entries for which `unwanted` is true; returns their number.
    pub(super) fn remove(&mut self, mut unwanted: impl FnMut(&Entry) -> bool) -> u64 {
        let mut removed = 0;
        for way in 0..WAYS {
            let entry = self.entry(way);
            if entry.key != Key::default() && unwanted(&entry) {
                self.set(way, Entry::default());
                removed += 1;
            }
        }
        removed
    }
}
