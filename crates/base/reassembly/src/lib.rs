//! Reassembly of IP fragments (RFC 791 section 3.2, RFC 8200 section 4.5, RFC 5722 and RFC 3168 section 5.3), for hosts and for switches.
//!
//! The memory is fixed: a buffer for each packet that is put together at a time. When all are in use, the oldest is given up, so that
//! nobody can keep others from theirs for longer than the traffic lasts. Fragments that overlap are an attack, or damage: the packet is
//! given up, and its other fragments are refused until it is forgotten. A sender that fills a quarter of the places displaces its own packets.
#![forbid(unsafe_code)]

mod datagram;
mod part;

use datagram::Datagram;
use part::Part;

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReassemblyLimits {
    /// Packets that are put together at a time; each takes 65,792 bytes of memory.
    pub packets: usize,
    /// Time after the first fragment at which a packet is given up, in nanoseconds.
    pub timeout_ns: u64,
}

impl Default for ReassemblyLimits {
    /// 64 packets, 30 seconds (Linux's).
    fn default() -> ReassemblyLimits {
        ReassemblyLimits { packets: 64, timeout_ns: 30_000_000_000 }
    }
}

/// Why a fragment was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FragmentDrop {
    /// Its lengths do not fit together, or it is cut.
    Malformed,
    /// It overlaps another one, or belongs to a packet that was given up because of that.
    Overlap,
    /// The packet would be longer than IP allows, is in too many pieces, or has more than 256 bytes of headers.
    TooLarge,
}

/// Fragments that were taken in and did not become a part of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Fragments of packets that others overlapped, or that became too large.
    pub refused: u64,
    /// Fragments of packets that did not become whole in time.
    pub late: u64,
    /// Fragments of packets that made room for others.
    pub displaced: u64,
    /// Fragments that came again. The first copy counts.
    pub repeated: u64,
}

/// What became of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub enum Reassembly<'a> {
    /// It was taken in, and its packet is not whole yet.
    Held,
    /// It made its packet whole.
    Whole {
        /// The packet, with the first fragment's headers.
        packet: &'a [u8],
        /// Fragments that it was made of, this one included.
        fragments: u64,
    },
    /// It was refused.
    Refused(FragmentDrop),
}

/// Puts packets together. Every fragment is held, refused, given up, or part of a whole packet:
/// `added = held() + refused by add + all of given_up() + fragments of whole packets`.
pub struct Reassembler {
    timeout_ns: u64,
    datagrams: Vec<Datagram>,
    given_up: GivenUp,
}

impl Reassembler {
    /// An empty one. All memory that it will ever use is allocated here, and comes into being when it is first used.
    pub fn new(limits: ReassemblyLimits) -> Reassembler {
        let datagrams = (0..limits.packets.max(1)).map(|_| Datagram::new()).collect();
        Reassembler { timeout_ns: limits.timeout_ns, datagrams, given_up: GivenUp::default() }
    }

    /// Takes a fragment in. `packet` is all of it, and its IP header begins at `network`; the packet is a fragment, or becomes one by a
    /// fragment header that says that it is whole. `in_port` is where it came from: fragments of one packet come from one port with the
    /// same VLAN tags.
    pub fn add(&mut self, packet: &[u8], network: usize, in_port: u32, now_ns: u64) -> Reassembly<'_> {
        self.expire(now_ns);
        let part = match Part::find(packet, network, in_port) {
            Ok(part) => part,
            Err(why) => return Reassembly::Refused(why),
        };
        let index = match self.datagrams.iter().position(|datagram| datagram.is_of(&part)) {
            Some(index) => index,
            None => self.begin(&part, now_ns),
        };
        let datagram = &mut self.datagrams[index];
        let before = datagram.fragments();
        match datagram.add(&part) {
            Ok(datagram::Added::New) => {}
            Ok(datagram::Added::Repeated) => {
                self.given_up.repeated += 1;
                return Reassembly::Held;
            }
            Err(why) => {
                self.given_up.refused += before;
                datagram.refuse();
                return Reassembly::Refused(why);
            }
        }
        if !datagram.is_whole() {
            return Reassembly::Held;
        }
        let fragments = datagram.fragments();
        match self.datagrams[index].finish() {
            Some(packet) => Reassembly::Whole { packet, fragments },
            None => {
                self.given_up.refused += before;
                Reassembly::Refused(FragmentDrop::TooLarge)
            }
        }
    }

    /// Gives up packets that did not become whole in time.
    pub fn expire(&mut self, now_ns: u64) {
        self.expire_each(now_ns, |_| {});
    }

    /// Gives up packets that did not become whole in time. `tell` gets the headers and the first data of each of which the first fragment
    /// is there, as an ICMP error about it quotes them.
    pub fn expire_each(&mut self, now_ns: u64, mut tell: impl FnMut(&[u8])) {
        for datagram in &mut self.datagrams {
            if datagram.deadline_ns() <= now_ns {
                if let Some(start) = datagram.start() {
                    tell(start);
                }
                self.given_up.late += datagram.fragments();
                datagram.clear();
            }
        }
    }

    /// When [`Reassembler::expire`] has something to do; `u64::MAX` if nothing is held.
    pub fn next_deadline_ns(&self) -> u64 {
        self.datagrams.iter().map(Datagram::deadline_ns).min().unwrap_or(u64::MAX)
    }

    /// Fragments that are held.
    pub fn held(&self) -> u64 {
        self.datagrams.iter().map(Datagram::fragments).sum()
    }

    /// What was given up so far.
    pub fn given_up(&self) -> GivenUp {
        self.given_up
    }

    /// Begins a packet in a free place, or in that of the oldest: of the same sender, if that has a quarter of all places.
    fn begin(&mut self, part: &Part<'_>, now_ns: u64) -> usize {
        // Free places have the highest deadline, those of refused packets are as good as any.
        let is_free = |datagram: &Datagram| datagram.deadline_ns() == u64::MAX;
        let free = self.datagrams.iter().position(is_free);
        let is_greedy =
            self.datagrams.iter().filter(|datagram| datagram.is_from(part)).count() * 4 >= self.datagrams.len();
        let may_go = |index: &usize| !is_greedy || self.datagrams[*index].is_from(part);
        let all = 0..self.datagrams.len();
        let oldest = || all.filter(may_go).min_by_key(|index| self.datagrams[*index].deadline_ns());
        let index = free.or_else(oldest).unwrap_or(0);
        let datagram = &mut self.datagrams[index];
        self.given_up.displaced += datagram.fragments();
        datagram.begin(part, now_ns.saturating_add(self.timeout_ns).min(u64::MAX - 1));
        index
    }
}
