//! An ideal receiver: it keeps what arrives out of order, reports it by SACK with duplicates first (RFC 2018, RFC 2883), delays
//! acknowledgments as RFC 5681 allows, and checks every byte.

use crate::Seq;

/// What the receiver does.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverConfig {
    pub sack: bool,
    pub duplicate_sack: bool,
    pub timestamps: bool,
    /// Milliseconds; 0 acknowledges each segment at once.
    pub ack_delay_ms: u64,
    pub window: u32,
    /// A window that was announced is taken back, although nobody should.
    pub takes_back: bool,
}

impl Default for ReceiverConfig {
    fn default() -> ReceiverConfig {
        ReceiverConfig {
            sack: true,
            duplicate_sack: true,
            timestamps: true,
            ack_delay_ms: 40,
            window: 16 << 20,
            takes_back: false,
        }
    }
}

/// A segment on the path.
#[derive(Clone, Debug)]
pub struct Segment {
    pub seq: Seq,
    pub data: Vec<u8>,
    pub syn: bool,
    pub fin: bool,
    pub cwr: bool,
    /// Congestion experienced.
    pub ce: bool,
    /// Tick at which it was sent.
    pub tick: u32,
    pub retransmission: bool,
}

impl Segment {
    pub fn span(&self) -> u32 {
        self.data.len() as u32 + u32::from(self.syn) + u32::from(self.fin)
    }
}

/// An acknowledgment on the way back.
#[derive(Clone, Debug)]
pub struct Reply {
    pub ack: Seq,
    pub window: u32,
    pub sack: Vec<(Seq, Seq)>,
    pub ts_echo: Option<u32>,
    pub ece: bool,
}

pub struct Receiver {
    pub config: ReceiverConfig,
    /// Next number that is expected.
    pub next: Seq,
    /// Bytes in order so far: the place in the stream.
    pub bytes: u64,
    pub fin: bool,
    /// Segments that brought nothing new.
    pub duplicates: u64,
    ranges: Vec<(Seq, Seq)>,
    ts_recent: u32,
    /// Segments that wait for an acknowledgment, and when it is due.
    waiting: u32,
    pub due_ns: Option<u64>,
    ece: bool,
    iss: Seq,
    /// Right edge of the window.
    edge: Seq,
}

/// Byte `place` of the stream.
pub fn pattern(place: u64) -> u8 {
    (place ^ place >> 8 ^ place >> 17) as u8
}

impl Receiver {
    pub fn new(config: ReceiverConfig, iss: Seq) -> Receiver {
        Receiver {
            config,
            next: iss,
            bytes: 0,
            fin: false,
            duplicates: 0,
            ranges: Vec::new(),
            ts_recent: 0,
            waiting: 0,
            due_ns: None,
            ece: false,
            iss,
            edge: iss + config.window.max(1),
        }
    }

    /// Takes a segment; an acknowledgment may be the answer.
    pub fn receive(&mut self, segment: &Segment, now_ns: u64) -> Option<Reply> {
        let (from, to) = (segment.seq, segment.seq + segment.span());
        if segment.ce {
            self.ece = true;
        } else if segment.cwr {
            self.ece = false;
        }
        if from.at_most(self.next) {
            self.ts_recent = segment.tick;
        }
        self.check(segment);
        if from == to {
            // A probe of the window.
            return Some(self.reply(None));
        }
        let is_old =
            to.at_most(self.next) || self.ranges.iter().any(|range| range.0.at_most(from) && to.at_most(range.1));
        if is_old {
            self.duplicates += 1;
            return Some(self.reply(Some((from, to))));
        }
        if to.after(self.edge) {
            return Some(self.reply(None));
        }
        self.fin |= segment.fin;
        let in_order = from.at_most(self.next) && self.ranges.is_empty();
        self.insert(from.max(self.next), to);
        if !in_order || self.config.ack_delay_ms == 0 || segment.fin || segment.syn {
            return Some(self.reply(None));
        }
        self.waiting += 1;
        if self.waiting >= 2 {
            return Some(self.reply(None));
        }
        self.due_ns.get_or_insert(now_ns + self.config.ack_delay_ms * 1_000_000);
        None
    }

    /// The delayed acknowledgment.
    pub fn delayed(&mut self) -> Reply {
        self.reply(None)
    }

    /// Drops what is not in order.
    pub fn forget(&mut self) {
        self.ranges.clear();
    }

    fn insert(&mut self, from: Seq, to: Seq) {
        // The newest range comes first.
        self.ranges.insert(0, (from, to));
        let mut place = 1;
        while place < self.ranges.len() {
            let (first, other) = (self.ranges[0], self.ranges[place]);
            if other.0.at_most(first.1) && first.0.at_most(other.1) {
                self.ranges[0] = (first.0.min(other.0), first.1.max(other.1));
                self.ranges.remove(place);
                place = 1;
            } else {
                place += 1;
            }
        }
        if self.ranges[0].0.at_most(self.next) {
            let end = self.ranges.remove(0).1;
            self.bytes += u64::from(end - self.next);
            self.next = end;
        }
    }

    fn reply(&mut self, duplicate: Option<(Seq, Seq)>) -> Reply {
        (self.waiting, self.due_ns) = (0, None);
        let edge = self.next + self.config.window;
        self.edge = if self.config.takes_back { edge } else { self.edge.max(edge) };
        let mut sack = Vec::new();
        if self.config.sack {
            if self.config.duplicate_sack {
                sack.extend(duplicate);
            }
            let most = if self.config.timestamps { 3 } else { 4 };
            sack.extend(self.ranges.iter().copied().take(most - sack.len()));
        }
        Reply {
            ack: self.next,
            window: self.edge - self.next,
            sack,
            ts_echo: self.config.timestamps.then_some(self.ts_recent),
            ece: self.ece,
        }
    }

    /// Every byte is the one of its place.
    fn check(&self, segment: &Segment) {
        let first = segment.seq + u32::from(segment.syn);
        // The data begin behind the SYN.
        let base = u64::from(first - (self.iss + 1));
        let wraps = (self.bytes.saturating_sub(1)) & !0xffff_ffff;
        for candidate in [wraps, wraps + (1 << 32), wraps.saturating_sub(1 << 32)] {
            if segment.data.iter().enumerate().all(|(place, byte)| *byte == pattern(candidate + base + place as u64)) {
                return;
            }
        }
        panic!("the bytes from {:?} on are not those that were written", segment.seq);
    }
}
