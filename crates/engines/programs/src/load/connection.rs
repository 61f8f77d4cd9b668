//! A connection of a load, and the requests that are under way on it.

use std::collections::VecDeque;

use linerate_tcp::{Conn, UdpId};

use super::account::Cause;
use super::answer::Reader;

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) kind: u32,
    /// Number among all requests of the load.
    pub(super) number: u64,
    /// When it was due.
    pub(super) due_ns: u64,
    /// When it was begun.
    pub(super) begun_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The handshake is under way.
    Connecting,
    /// It stands.
    Open,
    /// This side has closed, or aborted.
    Closing,
    /// It failed, and its place is kept free for a moment, so that a server that refuses is not asked in a loop.
    Pausing,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) conn: Conn,
    /// Its socket, over UDP.
    pub(super) socket: Option<UdpId>,
    pub(super) target: u32,
    pub(super) phase: Phase,
    /// When it was due.
    pub(super) due_ns: u64,
    /// When it was begun, or when its phase began.
    pub(super) since_ns: u64,
    /// Requests that it may still begin.
    pub(super) left: u64,
    /// Requests under way, oldest first.
    pub(super) requests: VecDeque<InFlight>,
    /// The last so many of them are not sent, or not whole.
    pub(super) unsent: u32,
    /// Bytes sent of the first of those.
    pub(super) sent: u32,
    pub(super) reader: Reader,
    /// Why this side ended it; `None` if it is closed in order.
    pub(super) cause: Option<Cause>,
    /// It is in the list of those that wait for a request.
    pub(super) is_idle: bool,
    /// End of the pause before the next request.
    pub(super) think_until_ns: u64,
    /// Time of its earliest entry among the timers; `u64::MAX` if there is none.
    pub(super) armed_ns: u64,
}

impl Connection {
    pub(super) fn new(target: u32, due_ns: u64, now_ns: u64, left: u64) -> Connection {
        Connection {
            conn: Conn { index: u32::MAX, generation: 0 },
            socket: None,
            target,
            phase: Phase::Connecting,
            due_ns,
            since_ns: now_ns,
            left,
            requests: VecDeque::new(),
            unsent: 0,
            sent: 0,
            reader: Reader::default(),
            cause: None,
            is_idle: false,
            think_until_ns: 0,
            armed_ns: u64::MAX,
        }
    }
}
