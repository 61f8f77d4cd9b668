//! The neighbour cache of both families: link addresses, reachability (RFC 4861 section 7.3, which serves ARP as well: RFC 1122 section
//! 2.3.2.1), and packets that are parked until a neighbour answers.
//!
//! ```text
//! hop -> Incomplete --answer--> Reachable --30 s--> Stale --used--> Delay --5 s--> Probe --3 x 1 s--> Failed
//!            +--3 x 1 s--> Failed      ^------- answer, or progress of TCP ---------+
//! ```
//! The table has a fixed size. A neighbour that is new takes the place of one that never answered, or that nobody has used for a minute;
//! if there is none, it is refused. So a flood of addresses pushes out its own entries, and never a neighbour in use.

mod parked;

use std::collections::HashMap;

use core::cell::Cell;
use core::net::IpAddr;

use linerate_mem::Checksum;
use linerate_wire::{EtherType, MacAddress};

use crate::link::{Link, LinkHeader};
use parked::{Parking, Queue};

pub use parked::Parked;

/// Number of a neighbour. It stays valid while the neighbour is in use; [`Ip::header`](crate::Ip::header) returns `None` for one that has
/// made room for another, and [`Ip::hop`](crate::Ip::hop) then gives a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HopId(u32);

/// How often an entry has made room for others; long, so that a number that is no longer valid does not become so again under a flood.
const GENERATION_BITS: u32 = 18;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;
/// Neighbours at a time, at most; the number behind the last one is [`HopId::NONE`]'s.
pub const NEIGHBOURS_MAX: usize = (1 << (32 - GENERATION_BITS)) - 1;

impl HopId {
    /// A number that no neighbour has.
    pub const NONE: HopId = HopId(u32::MAX);
    /// Another number that no neighbour has, for the empty place of a cache.
    pub const VACANT: HopId = HopId(u32::MAX - 1);

    fn new(index: usize, generation: u32) -> HopId {
        HopId((index as u32) << GENERATION_BITS | generation & GENERATION_MASK)
    }

    #[inline]
    fn index(self) -> usize {
        (self.0 >> GENERATION_BITS) as usize
    }

    #[inline]
    fn generation(self) -> u32 {
        self.0 & GENERATION_MASK
    }
}

/// What is known about a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Free,
    Incomplete,
    Reachable,
    Stale,
    Delay,
    Probe,
    Failed,
    /// A group or broadcast address: its link address is computed.
    Group,
}

impl State {
    /// A word for people, as `ip neighbour` has it.
    pub fn name(self) -> &'static str {
        match self {
            State::Free => "free",
            State::Incomplete => "incomplete",
            State::Reachable => "reachable",
            State::Stale => "stale",
            State::Delay => "delay",
            State::Probe => "probe",
            State::Failed => "failed",
            State::Group => "group",
        }
    }
}

/// All that sending reads.
#[derive(Clone, Debug)]
struct Hot {
    header: LinkHeader,
    generation: u32,
    is_ready: bool,
    used: Cell<bool>,
    confirmed: Cell<bool>,
}

#[derive(Debug)]
struct Entry {
    address: IpAddr,
    mac: MacAddress,
    state: State,
    deadline_ns: u64,
    asked: u8,
    /// When somebody last sent to it; 0: never.
    used_ns: u64,
    is_router: bool,
    /// It was asked three times in vain, and has not been heard of since.
    has_failed: bool,
    parked: Queue,
}

/// How a link address was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// In a packet of the neighbour's own: an ARP request for us, the source option of a solicitation, an advertisement of a router.
    Heard,
    /// In an answer to our question.
    Answered,
    /// In an announcement, which changes what is known, and makes nothing new.
    Announced,
    /// In an advertisement without the override flag that nobody asked for, or asked for if true.
    Offered {
        /// It answers our question.
        solicited: bool,
    },
}

/// Something that the owner of the cache must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask for the link address: everybody, or the neighbour at the address that is known.
    Ask { address: IpAddr, to: Option<MacAddress> },
    /// The neighbour does not answer.
    Failed { hop: HopId, address: IpAddr },
}

/// Times in nanoseconds (RFC 4861 section 10).
const RETRANSMIT_NS: u64 = 1_000_000_000;
const REACHABLE_NS: u64 = 30_000_000_000;
const DELAY_NS: u64 = 5_000_000_000;
const TRIES: u8 = 3;
/// A neighbour that nobody has used for so long makes room for others.
const UNUSED_NS: u64 = 60_000_000_000;
/// A neighbour that nobody has used for so long is forgotten.
const FORGET_NS: u64 = 600_000_000_000;
/// Time between two looks at which neighbours are used.
const SWEEP_NS: u64 = 1_000_000_000;
/// Shortest time between two sweeps, so that many deadlines close to each other are one sweep.
const SWEEP_MIN_NS: u64 = 10_000_000;
/// Neighbours looked at for one that can go, for each new one.
const EVICTION_STEPS: usize = 64;

/// The cache.
pub struct Neighbours {
    link: Link,
    hot: Vec<Hot>,
    entries: Vec<Entry>,
    index: HashMap<IpAddr, u16>,
    free: Vec<u16>,
    hand: usize,
    parking: Parking,
    next_ns: u64,
    swept_ns: u64,
    reachable_ns: u64,
    retransmit_ns: u64,
    random: u64,
    /// Neighbours that made room for others.
    pub evicted: u64,
    /// Neighbours that were refused.
    pub refused: u64,
    /// Parked packets dropped.
    pub parked_dropped: u64,
}

impl Neighbours {
    /// An empty cache for `capacity` neighbours and `parked` packets of at most `packet_len` bytes.
    pub fn new(link: Link, capacity: usize, parked: usize, packet_len: usize, seed: u64) -> Neighbours {
        let capacity = capacity.clamp(4, NEIGHBOURS_MAX);
        let hot = Hot {
            header: link.header(MacAddress::ZERO, EtherType::IPV4),
            generation: 0,
            is_ready: false,
            used: Cell::new(false),
            confirmed: Cell::new(false),
        };
        let entry = |_| Entry {
            address: IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
            mac: MacAddress::ZERO,
            state: State::Free,
            deadline_ns: u64::MAX,
            asked: 0,
            used_ns: 0,
            is_router: false,
            has_failed: false,
            parked: Queue::EMPTY,
        };
        Neighbours {
            link,
            hot: vec![hot; capacity],
            entries: (0..capacity).map(entry).collect(),
            index: HashMap::with_capacity(capacity),
            free: (0..capacity as u16).rev().collect(),
            hand: 0,
            parking: Parking::new(parked, packet_len),
            next_ns: u64::MAX,
            swept_ns: 0,
            reachable_ns: REACHABLE_NS,
            retransmit_ns: RETRANSMIT_NS,
            random: seed | 1,
            evicted: 0,
            refused: 0,
            parked_dropped: 0,
        }
    }

    /// Takes the times that a router advertised, in milliseconds; 0 leaves one as it is.
    pub fn set_times(&mut self, reachable_ms: u32, retransmit_ms: u32) {
        if reachable_ms > 0 {
            // No more than an hour (RFC 4861 section 6.2.1), and no so little that it makes us busy.
            self.reachable_ns = u64::from(reachable_ms.clamp(1000, 3_600_000)) * 1_000_000;
        }
        if retransmit_ms > 0 {
            self.retransmit_ns = u64::from(retransmit_ms.clamp(100, 60_000)) * 1_000_000;
        }
    }

    /// The link header for a neighbour; `None` while its link address is not known, or if the number is of one that is gone.
    #[inline]
    pub fn header(&self, hop: HopId) -> Option<&LinkHeader> {
        let hot = self.hot.get(hop.index())?;
        if !hot.is_ready | (hot.generation != hop.generation()) {
            return None;
        }
        hot.used.set(true);
        Some(&hot.header)
    }

    /// Notes that the neighbour works: a packet that was sent to it has brought progress (RFC 4861 section 7.3.1).
    #[inline]
    pub fn confirm(&self, hop: HopId) {
        if let Some(hot) = self.hot.get(hop.index()).filter(|hot| hot.generation == hop.generation()) {
            hot.confirmed.set(true);
        }
    }

    /// True if the neighbour was asked three times in vain, and has not been heard of since, also while it is asked again.
    pub fn has_failed(&self, hop: HopId) -> bool {
        let is_current = self.hot.get(hop.index()).is_some_and(|hot| hot.generation == hop.generation());
        is_current && self.entries[hop.index()].has_failed
    }

    /// The neighbour of an address, if it is known.
    pub fn find(&self, address: IpAddr) -> Option<(HopId, State)> {
        let index = usize::from(*self.index.get(&address)?);
        Some((self.hop(index), self.entries[index].state))
    }

    /// Notes whether a known neighbour is a router; true if it was one and is none any more.
    pub fn set_router(&mut self, address: IpAddr, is_router: bool) -> bool {
        let Some(index) = self.index.get(&address) else { return false };
        let entry = &mut self.entries[usize::from(*index)];
        core::mem::replace(&mut entry.is_router, is_router) && !is_router
    }

    /// The neighbour of an address, which begins to be resolved if it is not known; then the second value is what to ask.
    /// `None` if the cache is full of neighbours in use.
    pub fn resolve(&mut self, address: IpAddr, now_ns: u64) -> Option<(HopId, Option<Action>)> {
        let index = match self.index.get(&address) {
            Some(index) => usize::from(*index),
            None => {
                let index = self.take(address, now_ns)?;
                self.begin(index, now_ns);
                let action = Action::Ask { address, to: None };
                return Some((self.hop(index), Some(action)));
            }
        };
        let entry = &mut self.entries[index];
        entry.used_ns = now_ns.max(1);
        if entry.state == State::Failed && now_ns >= entry.deadline_ns {
            self.begin(index, now_ns);
            return Some((self.hop(index), Some(Action::Ask { address, to: None })));
        }
        Some((self.hop(index), None))
    }

    /// The hop to a group or broadcast address, whose link address is `mac`.
    pub fn group(&mut self, address: IpAddr, mac: MacAddress, now_ns: u64) -> Option<HopId> {
        if let Some((hop, _)) = self.find(address) {
            return Some(hop);
        }
        let index = self.take(address, now_ns)?;
        self.entries[index].state = State::Group;
        self.set_mac(index, mac);
        Some(self.hop(index))
    }

    /// Takes a link address in. A parked packet may leave then: [`Neighbours::take_parked`].
    pub fn learn(&mut self, address: IpAddr, mac: MacAddress, learned: Learned, now_ns: u64) -> Option<HopId> {
        let index = match self.index.get(&address) {
            Some(index) => usize::from(*index),
            None if learned == Learned::Heard => {
                let index = self.take(address, now_ns)?;
                let entry = &mut self.entries[index];
                (entry.used_ns, entry.state) = (0, State::Incomplete);
                index
            }
            None => return None,
        };
        let (state, is_same) = (self.entries[index].state, self.entries[index].mac == mac);
        let unknown = matches!(state, State::Incomplete | State::Failed);
        let reached = matches!(learned, Learned::Answered | Learned::Offered { solicited: true });
        let keeps = matches!(learned, Learned::Offered { .. }) && !is_same && !unknown;
        match state {
            State::Group | State::Free => return None,
            // Another link address, which may not replace the one that is known: is that one still right?
            State::Reachable if keeps => self.change(index, State::Stale, u64::MAX),
            _ if keeps => {}
            _ if reached => {
                self.set_mac(index, mac);
                let deadline_ns = now_ns + self.reachable_time();
                self.change(index, State::Reachable, deadline_ns);
            }
            _ if unknown || !is_same => {
                self.set_mac(index, mac);
                self.change(index, State::Stale, u64::MAX);
            }
            _ => {}
        }
        Some(self.hop(index))
    }

    /// Parks a packet, which begins with its IP header, until the neighbour's link address is known. If there is no room, the oldest packet
    /// that is parked there makes room for it (RFC 1122 section 2.3.2.2). False if it was not taken.
    pub fn park(&mut self, hop: HopId, packet: &[u8], checksum: Checksum) -> bool {
        let is_current = self.hot.get(hop.index()).is_some_and(|hot| hot.generation == hop.generation());
        let waits = is_current && self.entries[hop.index()].state == State::Incomplete;
        if !waits {
            self.parked_dropped += 1;
            return false;
        }
        let queue = &mut self.entries[hop.index()].parked;
        if self.parking.is_full(queue)
            && let Some(oldest) = self.parking.take(queue)
        {
            self.parking.free(oldest);
            self.parked_dropped += 1;
        }
        let is_taken = self.parking.park(queue, packet, checksum);
        self.parked_dropped += u64::from(!is_taken);
        is_taken
    }

    /// Takes the oldest packet out that is parked for a neighbour whose link address is known. It must be given back by
    /// [`Neighbours::free_parked`].
    pub fn take_parked(&mut self, hop: HopId) -> Option<Parked> {
        let is_ready = self.hot.get(hop.index()).is_some_and(|hot| hot.is_ready && hot.generation == hop.generation());
        if is_ready { self.parking.take(&mut self.entries[hop.index()].parked) } else { None }
    }

    /// Bytes of a parked packet.
    pub fn parked(&self, parked: &Parked) -> (&[u8], Checksum) {
        self.parking.bytes(parked)
    }

    /// Gives the memory of a parked packet back.
    pub fn free_parked(&mut self, parked: Parked) {
        self.parking.free(parked);
    }

    /// When [`Neighbours::sweep`] has something to do, in nanoseconds.
    pub fn next_deadline_ns(&self) -> u64 {
        self.next_ns.max(self.swept_ns.saturating_add(SWEEP_MIN_NS))
    }

    /// Goes over all neighbours: what is due is done, or added to `actions`.
    pub fn sweep(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        (self.next_ns, self.swept_ns) = (u64::MAX, now_ns);
        for index in 0..self.entries.len() {
            if self.entries[index].state != State::Free {
                self.step(index, now_ns, actions);
            }
        }
        if self.free.len() < self.entries.len() {
            self.next_ns = self.next_ns.min(now_ns + SWEEP_NS);
        }
    }

    /// Neighbours that are known, with their states: for tables that people read.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, MacAddress, State)> {
        let taken = self.entries.iter().filter(|entry| entry.state != State::Free);
        taken.map(|entry| (entry.address, entry.mac, entry.state))
    }

    fn step(&mut self, index: usize, now_ns: u64, actions: &mut Vec<Action>) {
        let hop = self.hop(index);
        let (used, confirmed) = (self.hot[index].used.take(), self.hot[index].confirmed.take());
        let entry = &mut self.entries[index];
        if used {
            entry.used_ns = now_ns.max(1);
        }
        let (address, mac) = (entry.address, entry.mac);
        let is_due = now_ns >= entry.deadline_ns;
        let idle_ns = now_ns.saturating_sub(entry.used_ns);
        let is_known = matches!(entry.state, State::Reachable | State::Stale | State::Delay | State::Probe);
        if confirmed && is_known {
            let deadline_ns = now_ns + self.reachable_time();
            self.change(index, State::Reachable, deadline_ns);
            return;
        }
        match entry.state {
            State::Free => {}
            State::Group | State::Stale if idle_ns > FORGET_NS => self.release(index),
            State::Failed if idle_ns > UNUSED_NS => self.release(index),
            State::Incomplete if entry.used_ns == 0 => self.release(index),
            State::Group | State::Failed => {}
            State::Reachable if is_due => self.change(index, State::Stale, u64::MAX),
            State::Stale if used => self.change(index, State::Delay, now_ns + DELAY_NS),
            State::Delay if is_due => {
                entry.asked = 1;
                self.change(index, State::Probe, now_ns + self.retransmit_ns);
                actions.push(Action::Ask { address, to: Some(mac) });
            }
            State::Incomplete | State::Probe if is_due && entry.asked < TRIES => {
                entry.asked += 1;
                let to = (entry.state == State::Probe).then_some(mac);
                self.change(index, entry_state(to), now_ns + self.retransmit_ns);
                actions.push(Action::Ask { address, to });
            }
            State::Incomplete | State::Probe if is_due => {
                self.fail(index, now_ns);
                actions.push(Action::Failed { hop, address });
            }
            _ => self.next_ns = self.next_ns.min(entry.deadline_ns),
        }
    }

    fn fail(&mut self, index: usize, now_ns: u64) {
        self.drop_parked(index);
        self.hot[index].is_ready = false;
        self.entries[index].has_failed = true;
        // Asked again a second later at the earliest (RFC 1122 section 2.3.2.1).
        self.change(index, State::Failed, now_ns + RETRANSMIT_NS);
    }

    fn begin(&mut self, index: usize, now_ns: u64) {
        self.hot[index].is_ready = false;
        let entry = &mut self.entries[index];
        (entry.asked, entry.used_ns) = (1, now_ns.max(1));
        self.change(index, State::Incomplete, now_ns + self.retransmit_ns);
    }

    fn change(&mut self, index: usize, state: State, deadline_ns: u64) {
        let entry = &mut self.entries[index];
        (entry.state, entry.deadline_ns) = (state, deadline_ns);
        self.next_ns = self.next_ns.min(deadline_ns);
    }

    fn set_mac(&mut self, index: usize, mac: MacAddress) {
        let entry = &mut self.entries[index];
        (entry.mac, entry.has_failed) = (mac, false);
        let kind = if entry.address.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
        self.hot[index].header = self.link.header(mac, kind);
        self.hot[index].is_ready = true;
    }

    #[inline]
    fn hop(&self, index: usize) -> HopId {
        HopId::new(index, self.hot[index].generation)
    }

    /// A random time between half of the reachable time and one and a half (RFC 4861 section 6.3.2).
    fn reachable_time(&mut self) -> u64 {
        // xorshift64.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.reachable_ns / 2 + self.random % self.reachable_ns.max(1)
    }

    /// A free entry for `address`, or one that made room.
    fn take(&mut self, address: IpAddr, now_ns: u64) -> Option<usize> {
        if self.free.is_empty() {
            self.evict(now_ns);
        }
        let Some(index) = self.free.pop().map(usize::from) else {
            self.refused += 1;
            return None;
        };
        self.index.insert(address, index as u16);
        let entry = &mut self.entries[index];
        (entry.address, entry.mac, entry.asked, entry.is_router) = (address, MacAddress::ZERO, 0, false);
        (entry.used_ns, entry.deadline_ns, entry.has_failed) = (now_ns.max(1), u64::MAX, false);
        self.next_ns = self.next_ns.min(now_ns + SWEEP_NS);
        Some(index)
    }

    /// Lets the next neighbour go that never answered or is not used.
    fn evict(&mut self, now_ns: u64) {
        for _ in 0..EVICTION_STEPS.min(self.entries.len()) {
            let index = self.hand;
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &self.entries[index];
            let is_idle = !self.hot[index].used.get() && now_ns.saturating_sub(entry.used_ns) > UNUSED_NS;
            let may_go = match entry.state {
                State::Incomplete | State::Failed => true,
                _ => is_idle || entry.used_ns == 0 && !self.hot[index].used.get(),
            };
            if may_go && entry.state != State::Free && !entry.is_router {
                self.release(index);
                self.evicted += 1;
                return;
            }
        }
    }

    fn release(&mut self, index: usize) {
        self.drop_parked(index);
        self.index.remove(&self.entries[index].address);
        self.entries[index].state = State::Free;
        let hot = &mut self.hot[index];
        (hot.is_ready, hot.generation) = (false, (hot.generation + 1) & GENERATION_MASK);
        hot.used.set(false);
        hot.confirmed.set(false);
        self.free.push(index as u16);
    }

    fn drop_parked(&mut self, index: usize) {
        while let Some(parked) = self.parking.take(&mut self.entries[index].parked) {
            self.parking.free(parked);
            self.parked_dropped += 1;
        }
    }
}

fn entry_state(to: Option<MacAddress>) -> State {
    if to.is_some() { State::Probe } else { State::Incomplete }
}
