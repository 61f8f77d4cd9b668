//! What a load measures while it runs.

use std::collections::BTreeMap;

use linerate_measure::{CoarseHistogram, Histogram};

use super::account::Tally;

/// Kinds of requests that have a histogram each; the others are only counted.
const KINDS_TIMED: usize = 64;

/// Counts and times of a load.
#[derive(Clone, Debug)]
pub struct Meters {
    /// Connections.
    pub connections: Tally,
    /// Requests.
    pub requests: Tally,
    /// HTTP statuses.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of requests that the stack took.
    pub tx_bytes: u64,
    /// Bytes of answers.
    pub rx_bytes: u64,
    /// Those that came after the warm-up and before the end.
    pub measured_rx_bytes: u64,
    /// Datagrams that answer no request under way: copies, or nobody asked.
    pub strays: u64,
    /// Connections that were begun without success, by what the stack said.
    pub refusals: BTreeMap<String, u64>,
    /// From the time a request was due to the last byte of its answer, after the warm-up.
    pub latency: Histogram,
    /// From the time a connection was due to the end of its handshake, after the warm-up.
    pub handshakes: Histogram,
    /// Answers after the warm-up and before the end.
    pub answered: u64,
    /// By kind of request.
    pub kinds: Vec<KindMeters>,
    /// The first wrong answer.
    pub first_wrong: Option<FirstWrong>,
}

/// The first wrong answer of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstWrong {
    /// When it came, by the clock of the load.
    pub at_ns: u64,
    /// What was wrong with it, in words.
    pub what: String,
}

/// Counts and times of a kind of request.
#[derive(Clone, Debug, Default)]
pub struct KindMeters {
    /// Requests that were answered.
    pub completed: u64,
    /// Requests with an answer of status 400 or more, or that were lost.
    pub errors: u64,
    /// As [`Meters::latency`].
    pub latency: Option<CoarseHistogram>,
}

impl Meters {
    pub(super) fn new(kinds: usize) -> Meters {
        let timed = 2..=KINDS_TIMED;
        let kind =
            KindMeters { latency: timed.contains(&kinds).then(CoarseHistogram::default), ..KindMeters::default() };
        Meters {
            connections: Tally::default(),
            requests: Tally::default(),
            statuses: BTreeMap::new(),
            tx_bytes: 0,
            rx_bytes: 0,
            measured_rx_bytes: 0,
            strays: 0,
            refusals: BTreeMap::new(),
            latency: Histogram::default(),
            handshakes: Histogram::default(),
            answered: 0,
            kinds: vec![kind; kinds],
            first_wrong: None,
        }
    }

    /// Adds what another core measured of the same kinds of requests.
    pub(super) fn add(&mut self, other: &Meters) {
        for (status, answers) in &other.statuses {
            *self.statuses.entry(*status).or_default() += answers;
        }
        for (why, times) in &other.refusals {
            *self.refusals.entry(why.clone()).or_default() += times;
        }
        let firsts = [self.first_wrong.take(), other.first_wrong.clone()];
        self.first_wrong = firsts.into_iter().flatten().min_by_key(|first| first.at_ns);
        self.tx_bytes += other.tx_bytes;
        self.rx_bytes += other.rx_bytes;
        self.measured_rx_bytes += other.measured_rx_bytes;
        self.strays += other.strays;
        self.answered += other.answered;
        self.latency.merge(&other.latency);
        self.handshakes.merge(&other.handshakes);
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.completed += theirs.completed;
            mine.errors += theirs.errors;
            if let (Some(mine), Some(theirs)) = (&mut mine.latency, &theirs.latency) {
                mine.merge(theirs);
            }
        }
    }

    /// Requests with a status of 400 or more.
    pub fn errors(&self) -> u64 {
        self.statuses.range(400..).map(|(_, count)| count).sum()
    }
}
