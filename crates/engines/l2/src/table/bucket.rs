//! One line of the MAC table: four entries, each with an address, and the port and time at which it was seen.

use linerate_mem::{Compare, FourPairs};

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

    #[inline]
    pub(super) fn seen(self) -> u32 {
        (self.0 >> 32) as u32
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

/// A state that many addresses are compared with.
pub(super) struct Wanted<C: Compare> {
    pub(super) mask: C::Wide,
    pub(super) state: C::Wide,
}

impl<C: Compare> Wanted<C> {
    /// That of addresses which were seen at `port` in the tick `tick`.
    #[inline(always)]
    pub(super) fn new(compare: C, port: u16, tick: u32) -> Wanted<C> {
        let state = u64::from(tick) << 32 | u64::from(port) << State::MOVES;
        Wanted { mask: compare.wide(u64::MAX << State::MOVES), state: compare.wide(state) }
    }
}

/// Four places for entries in one cache line. Several threads may read them while one writes.
#[derive(Clone, Copy)]
pub(super) struct Bucket<'a>(pub(super) &'a FourPairs);

impl Bucket<'_> {
    /// Finds the place of a key. The default key finds a free place.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<usize> {
        self.0.position(key.0)
    }

    /// Finds a key and returns everything else about its entry. `SHARED`: another thread may put another entry there meanwhile, so the
    /// key is read again after the state.
    #[inline]
    pub(super) fn state<const SHARED: bool>(&self, key: Key) -> Option<State> {
        self.state_at::<SHARED>(key, self.find(key)?)
    }

    /// What [`Bucket::state`] says, of a place where the key was found.
    #[inline(always)]
    pub(super) fn state_at<const SHARED: bool>(&self, key: Key, way: usize) -> Option<State> {
        let state = State(self.0.value(way));
        // The key is found before the state and is there after it, and a state changes to that of another key only while the key is zero: so both
        // are of one entry.
        if SHARED && self.0.key(way) != key.0 {
            return None;
        }
        Some(state)
    }

    /// The entry in a place below [`WAYS`].
    #[inline]
    pub(super) fn entry(&self, way: usize) -> Entry {
        let key = Key(self.0.key(way));
        let state = State(self.0.value(way));
        Entry { key, port: state.port(), moves: state.0 as u16, seen: state.seen() }
    }

    /// The entries in all places that are used. One that is just being replaced may be missing.
    pub(super) fn entries(self) -> impl Iterator<Item = Entry> {
        let entries = (0..WAYS).map(move |way| (way, self.entry(way)));
        // Read twice, as in `state`.
        let whole = entries.filter(move |(way, entry)| entry.key.0 & USED != 0 && self.0.key(*way) == entry.key.0);
        whole.map(|(_, entry)| entry)
    }

    /// Puts an entry into a place below [`WAYS`]. Only one thread may do so at a time.
    #[inline]
    pub(super) fn set(&self, way: usize, entry: Entry) {
        if self.0.key(way) != entry.key.0 {
            self.0.set_key(way, Key::default().0);
        }
        self.0.set_value(way, State::of(entry).0);
        self.0.set_key(way, entry.key.0);
    }

    /// Notes that the address in a place was seen again where it was, if that is what the place says: `Some(true)` if it is noted, `None` if
    /// the address is not there. May be called while another thread writes.
    pub(super) fn renew(&self, key: Key, port: u16, tick: u32) -> Option<bool> {
        let way = self.find(key)?;
        let state = self.state::<true>(key)?;
        if state.seen() == STATIC || (state.port() == port && state.seen() >= tick) {
            return Some(true);
        }
        let new = State(u64::from(tick) << 32 | state.0 & 0xffff_ffff);
        // Should there be another entry by now with the same port and time, then its time is a tick too late.
        Some(state.port() == port && self.0.replace_value(way, state.0, new.0))
    }

    /// Removes the entries for which `unwanted` is true; returns their number.
    pub(super) fn remove(&self, mut unwanted: impl FnMut(&Entry) -> bool) -> u64 {
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
