//! A load as it is carried out: checked numbers, requests as bytes. `config.rs` makes one of flags and files.

use core::net::{IpAddr, SocketAddr};

use crate::rate::{Gaps, Rate};
use crate::url::Scheme;

/// Bytes of the number that a datagram begins with, so that its answer is known.
pub const NUMBER_LEN: usize = 8;

/// A load.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The servers.
    pub targets: Vec<Target>,
    /// The kinds of requests.
    pub kinds: Vec<Kind>,
    /// What begins requests.
    pub pacing: Pacing,
    /// How arrivals and pauses are spread.
    pub gaps: Gaps,
    /// Connections at a time, over all targets.
    pub connections: u32,
    /// Time over which the first connections are begun.
    pub ramp_up_ns: u64,
    /// Requests under way on a connection, at most.
    pub pipeline: u32,
    /// Requests of a connection; `u64::MAX` for any number.
    pub requests_per_connection: u64,
    /// Pause of a connection between an answer and the next request.
    pub think_ns: u64,
    /// An answer takes at most so long.
    pub timeout_ns: u64,
    /// A handshake takes at most so long.
    pub connect_timeout_ns: u64,
    /// Requests that are due in this time count for the account, and not for rates and latency.
    pub warmup_ns: u64,
    /// Time in which requests are begun.
    pub duration_ns: u64,
    /// Requests after which no more are begun; `u64::MAX` for any number. A connection that cannot be made counts for one, so that a load ends
    /// if its server refuses all.
    pub requests_max: u64,
    /// After the end requests under way may still be answered for so long.
    pub drain_ns: u64,
    /// Once all requests are answered or lost, servers have so long after the last connection that ended, and twice the longest handshake, to
    /// close their side of the others.
    pub close_wait_ns: u64,
    /// Addresses that connections come from, in turn; if there are none, the stack chooses.
    pub sources: Vec<IpAddr>,
    /// Start of the pseudo-random numbers.
    pub seed: u64,
}

/// What begins requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Pacing {
    /// Each connection begins the next request when it has the answer to the one before (closed loop).
    Closed,
    /// Requests are due by a schedule, and go to a connection that is free (open loop).
    Requests(Rate),
    /// Connections are due by a schedule, and each makes its requests (open loop).
    Connections(Rate),
}

/// A server.
#[derive(Clone, Debug)]
pub struct Target {
    /// The protocol.
    pub scheme: Scheme,
    /// Where it is.
    pub address: SocketAddr,
    /// Its name, or its address in words. The address is unspecified until the name is resolved.
    pub name: String,
    /// Its kinds of requests, with the sum of the weights up to each, so that the last one is 1.
    pub kinds: Vec<(u32, f64)>,
    /// Its share of all requests.
    pub share: f64,
}

/// A kind of request.
#[derive(Clone, Debug)]
pub struct Kind {
    /// For reports.
    pub name: String,
    /// The request, as it is sent.
    pub bytes: Vec<u8>,
    /// The answer.
    pub answer: Answer,
    /// Its first 8 bytes are replaced by a number, and the answer has the same (UDP).
    pub is_numbered: bool,
}

/// How an answer ends, and what it is to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// An HTTP response.
    Http(Expected),
    /// So many bytes, whatever they are.
    Bytes(u64),
    /// The bytes of the request.
    Echo,
}

/// What a response is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// It answers a HEAD request: it has no body.
    pub to_head: bool,
    /// Its status is one of these; if there are none, each is accepted, and those from 400 on are counted as errors.
    pub statuses: Vec<u16>,
    /// Bytes of its body.
    pub body_len: Option<u64>,
    /// Its body.
    pub body: Option<Vec<u8>>,
}

impl Kind {
    /// Bytes of content that an answer has to have, if that is known.
    pub fn content_len(&self) -> Option<u64> {
        match &self.answer {
            Answer::Http(expected) => expected.body.as_ref().map(|body| body.len() as u64).or(expected.body_len),
            Answer::Bytes(len) => Some(*len),
            Answer::Echo => Some(self.bytes.len() as u64),
        }
    }
}

impl Plan {
    /// Names of servers whose addresses are to be found (`Program::resolved` in `linerate-programs`).
    pub fn names(&self) -> Vec<String> {
        let unknown = self.targets.iter().filter(|target| target.address.ip().is_unspecified());
        let mut names: Vec<String> = unknown.map(|target| target.name.clone()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The plans of `cores` loads that make this one together: connections, rates and the number of requests are divided.
    ///
    /// # Errors
    /// There are fewer connections, or requests, than cores.
    pub fn divided(&self, cores: usize) -> Result<Vec<Plan>, String> {
        let least = (self.connections as u64 / self.targets.len().max(1) as u64).min(self.requests_max);
        if cores == 0 || (cores as u64) > least.max(1) {
            return Err(format!(
                "{cores} cores have no connection and no request each; raise connections, or name fewer cores"
            ));
        }
        let part = |whole: u64, at: usize| {
            let (cores, at) = (cores as u64, at as u64);
            whole / cores + u64::from(at < whole % cores)
        };
        let share = 1.0 / cores as f64;
        let plan = |at: usize| Plan {
            pacing: match &self.pacing {
                Pacing::Closed => Pacing::Closed,
                Pacing::Requests(rate) => Pacing::Requests(rate.scaled(share)),
                Pacing::Connections(rate) => Pacing::Connections(rate.scaled(share)),
            },
            connections: part(self.connections.into(), at) as u32,
            requests_max: if self.requests_max == u64::MAX { u64::MAX } else { part(self.requests_max, at) },
            // Random numbers of one core have nothing to do with those of another.
            seed: self.seed.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            ..self.clone()
        };
        Ok((0..cores).map(plan).collect())
    }

    /// Connections at a time to a target.
    pub fn connections_of(&self, target: usize) -> u32 {
        let share = |upto: usize| {
            let sum: f64 = self.targets[..upto].iter().map(|target| target.share).sum();
            (sum * f64::from(self.connections)).round() as u32
        };
        // What is left of one more than of the ones before is at least one connection.
        (share(target + 1) - share(target)).max(1)
    }
}
