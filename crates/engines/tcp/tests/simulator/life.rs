//! The program of both ends: connections that live at random. Each side sends a stream that says its own length and seed in its first eight
//! bytes, so the other side can tell every wrong, missing or foreign byte.

use core::net::SocketAddr;
use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;

use linerate_tcp::{App, CloseReason, Conn, ConnectError, ConnectOptions, Io, Keepalive};

use super::numbers::Numbers;

const HEADER: usize = 8;
const KEEPALIVE: Keepalive = Keepalive { idle_ms: 30_000, interval_ms: 5_000, probes: 8 };
/// Bytes of the table that streams are cut from.
const TABLE: usize = 1 << 16;

fn table() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut numbers = Numbers::new(7);
        let once: Vec<u8> = (0..TABLE).map(|_| numbers.next() as u8).collect();
        // Twice, so that every stretch of a period can be cut from it.
        once.repeat(2)
    })
}

/// How a life goes.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Longest stream but for a few.
    pub len_max: u64,
    /// Longest stream of those few (one in a hundred).
    pub long_max: u64,
    /// Parts of a hundred that end with an abort at some byte.
    pub aborts: u64,
    /// Parts of a hundred of deliveries of which the program takes only a part, and more later.
    pub pauses: u64,
}

/// What became of the connections of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    pub begun: u64,
    pub refused_at_once: u64,
    pub connected: u64,
    pub normal: u64,
    pub reset: u64,
    pub refused: u64,
    pub timed_out: u64,
    pub unreachable: u64,
    pub aborted: u64,
    pub bytes: u64,
    pub whole_streams: u64,
}

/// One connection.
#[derive(Debug)]
struct Talk {
    seed: u32,
    len: usize,
    sent: usize,
    abort_at: Option<usize>,
    header: [u8; HEADER],
    got: usize,
    connected: bool,
    peer_closed: bool,
    closing: bool,
    waits: bool,
}

/// The program.
pub struct Life {
    numbers: Numbers,
    habits: Habits,
    /// Where the connecting end connects to, and how many times yet.
    pub remotes: Vec<SocketAddr>,
    pub left: u64,
    pub at_once: usize,
    talks: HashMap<Conn, Talk>,
    paused: VecDeque<(u64, Conn)>,
    open_at_ns: u64,
    pub ends: Ends,
}

impl Life {
    pub fn new(habits: Habits, seed: u64) -> Life {
        Life {
            numbers: Numbers::new(seed),
            habits,
            remotes: Vec::new(),
            left: 0,
            at_once: 0,
            talks: HashMap::new(),
            paused: VecDeque::new(),
            open_at_ns: 0,
            ends: Ends::default(),
        }
    }

    /// Connections that live.
    pub fn alive(&self) -> usize {
        self.talks.len()
    }

    /// Every connection, for checks.
    pub fn conns(&self) -> impl Iterator<Item = Conn> + '_ {
        self.talks.keys().copied()
    }

    pub fn is_over(&self) -> bool {
        self.left == 0 && self.talks.is_empty()
    }

    fn talk(&mut self) -> Talk {
        let habits = self.habits;
        let len_max = if self.numbers.percent(1) { habits.long_max } else { habits.len_max };
        let len = HEADER + self.numbers.below(len_max + 1) as usize;
        let abort_at = self.numbers.percent(habits.aborts).then(|| self.numbers.below(len as u64 + 1) as usize);
        let seed = self.numbers.next() as u32;
        Talk {
            seed,
            len,
            sent: 0,
            abort_at,
            header: [0; HEADER],
            got: 0,
            connected: false,
            peer_closed: false,
            closing: false,
            waits: false,
        }
    }

    fn open(&mut self, io: &mut Io<'_>) {
        while self.left > 0 && self.talks.len() < self.at_once {
            let remote = self.remotes[self.numbers.below(self.remotes.len() as u64) as usize];
            self.left -= 1;
            match io.connect(ConnectOptions::new(remote)) {
                Ok(conn) => {
                    self.ends.begun += 1;
                    let talk = self.talk();
                    assert!(
                        self.talks.insert(conn, talk).is_none(),
                        "a name of a connection that lives was given again"
                    );
                }
                Err(ConnectError::Full | ConnectError::NoPort) => {
                    self.ends.refused_at_once += 1;
                    // Another time.
                    self.open_at_ns = io.time_ns() + 10_000_000;
                    return;
                }
                Err(error) => panic!("connecting failed: {error}"),
            }
        }
        self.open_at_ns = if self.left > 0 { io.time_ns() + 5_000_000 } else { u64::MAX };
    }

    /// Sends on.
    fn push(&mut self, conn: Conn, io: &mut Io<'_>) {
        let Some(talk) = self.talks.get_mut(&conn) else { panic!("a call for a connection that has ended") };
        let end = talk.abort_at.unwrap_or(talk.len).min(talk.len);
        while talk.sent < end {
            let taken = if talk.sent < HEADER {
                let header = header(talk.seed, talk.len);
                io.send(conn, &header[talk.sent..end.min(HEADER)])
            } else {
                let from = (talk.seed as usize + talk.sent) % TABLE;
                let count = (end - talk.sent).min(TABLE);
                io.send(conn, &table()[from..from + count])
            };
            if taken == 0 {
                return;
            }
            talk.sent += taken;
        }
        if talk.closing {
            return;
        }
        talk.closing = true;
        if talk.abort_at.is_some() { io.abort(conn) } else { io.close(conn) }
    }
}

fn header(seed: u32, len: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&seed.to_be_bytes());
    header[4..].copy_from_slice(&(len as u32).to_be_bytes());
    header
}

impl Talk {
    /// Seed and length of the peer's stream, once its first bytes are known.
    fn stream(&self) -> (usize, usize) {
        let seed = u32::from_be_bytes(self.header[..4].try_into().expect("four bytes"));
        let len = u32::from_be_bytes(self.header[4..].try_into().expect("four bytes"));
        (seed as usize, len as usize)
    }
}

impl App for Life {
    fn connected(&mut self, conn: Conn, io: &mut Io<'_>) {
        self.ends.connected += 1;
        if !self.talks.contains_key(&conn) {
            let talk = self.talk();
            self.talks.insert(conn, talk);
        }
        let talk = self.talks.get_mut(&conn).expect("it was entered");
        assert!(!talk.connected, "connected twice");
        talk.connected = true;
        // A peer that is gone without a word, because its reset was lost, is found.
        io.set_keepalive(conn, Some(KEEPALIVE));
        self.push(conn, io);
    }

    fn received(&mut self, conn: Conn, data: &[u8], io: &mut Io<'_>) -> usize {
        assert!(!data.is_empty(), "no bytes were received");
        let pauses = self.numbers.percent(self.habits.pauses);
        let count = if pauses { self.numbers.below(data.len() as u64 + 1) as usize } else { data.len() };
        let Some(talk) = self.talks.get_mut(&conn) else { panic!("bytes of a connection that has ended") };
        assert!(talk.connected && !talk.peer_closed, "bytes before the connection stands or behind its end");
        let mut rest = &data[..count];
        while talk.got < HEADER && !rest.is_empty() {
            talk.header[talk.got] = rest[0];
            talk.got += 1;
            rest = &rest[1..];
        }
        if !rest.is_empty() {
            let (seed, len) = talk.stream();
            assert!(talk.got + rest.len() <= len, "more bytes than the peer sent");
            while !rest.is_empty() {
                let from = (seed + talk.got) % TABLE;
                let (now, later) = rest.split_at(rest.len().min(TABLE));
                assert!(now == &table()[from..from + now.len()], "wrong bytes at {} of {len}", talk.got);
                talk.got += now.len();
                rest = later;
            }
        }
        self.ends.bytes += count as u64;
        if count < data.len() && !talk.waits {
            talk.waits = true;
            self.paused.push_back((io.time_ns() + 20_000_000, conn));
        }
        count
    }

    fn sendable(&mut self, conn: Conn, io: &mut Io<'_>) {
        self.push(conn, io);
    }

    fn peer_closed(&mut self, conn: Conn, _: &mut Io<'_>) {
        let Some(talk) = self.talks.get_mut(&conn) else { panic!("the peer closed a connection that has ended") };
        assert!(talk.connected && !talk.peer_closed, "the peer closed twice");
        talk.peer_closed = true;
        let (_, len) = talk.stream();
        assert!(talk.got >= HEADER && talk.got == len, "the stream ended after {} of {len} bytes", talk.got);
        self.ends.whole_streams += 1;
    }

    fn closed(&mut self, conn: Conn, why: CloseReason, io: &mut Io<'_>) {
        let Some(talk) = self.talks.remove(&conn) else { panic!("a connection ended twice") };
        let ends = &mut self.ends;
        match why {
            CloseReason::Normal => {
                assert!(
                    talk.peer_closed && talk.closing && talk.sent == talk.len,
                    "a normal end before everything was said: {talk:?}"
                );
                ends.normal += 1;
            }
            CloseReason::Reset => ends.reset += 1,
            CloseReason::Refused => {
                assert!(!talk.connected, "refused after it stood");
                ends.refused += 1;
            }
            CloseReason::TimedOut => ends.timed_out += 1,
            CloseReason::Unreachable => ends.unreachable += 1,
            CloseReason::Aborted => {
                assert!(talk.abort_at.is_some(), "nobody aborted it");
                ends.aborted += 1;
            }
        }
        if self.left > 0 {
            self.open_at_ns = self.open_at_ns.min(io.time_ns() + 1_000_000);
        }
    }

    fn tick(&mut self, io: &mut Io<'_>) {
        while self.paused.front().is_some_and(|(at_ns, _)| *at_ns <= io.time_ns()) {
            let Some((_, conn)) = self.paused.pop_front() else { break };
            if let Some(talk) = self.talks.get_mut(&conn) {
                talk.waits = false;
                io.resume(conn);
            }
        }
        if self.open_at_ns <= io.time_ns() {
            self.open(io);
        }
    }

    fn next_deadline_ns(&self) -> u64 {
        let resume_ns = self.paused.front().map_or(u64::MAX, |(at_ns, _)| *at_ns);
        let open_ns = if self.left > 0 { self.open_at_ns } else { u64::MAX };
        resume_ns.min(open_ns)
    }
}
