//! The program of scenarios: it notes what it is told, and takes and sends what the scenario says.

use core::net::SocketAddr;
use std::collections::{HashMap, VecDeque};

use linerate_tcp::{App, CloseReason, Conn, Io, SoftError};
use linerate_tcpscript::{self as script, EndReason, Event};

/// What the program knows of the connection with a remote address and port.
#[derive(Debug, Default)]
pub struct Known {
    pub conn: Option<Conn>,
    pub events: VecDeque<Event>,
    /// Bytes that it still takes; `None`: all.
    pub takes: Option<usize>,
    /// Bytes that the stack had no room for.
    pub unsent: VecDeque<u8>,
    /// Bytes that the scenario sent in all.
    pub sent_total: u64,
    /// The program closes when all is sent.
    pub closes: bool,
}

/// The program.
#[derive(Debug, Default)]
pub struct Program {
    pub known: HashMap<SocketAddr, Known>,
    remote: HashMap<Conn, SocketAddr>,
    /// What new connections take; `None`: all.
    pub takes: Option<usize>,
    /// Calls for connections that had ended, which may never be.
    pub stale_calls: u32,
}

impl Program {
    /// Notes a connection that this side began.
    pub fn began(&mut self, conn: Conn, remote: SocketAddr) {
        self.remote.insert(conn, remote);
        *self.known.entry(remote).or_default() = Known { conn: Some(conn), takes: self.takes, ..Known::default() };
    }

    pub fn known(&mut self, remote: SocketAddr) -> &mut Known {
        self.known.entry(remote).or_default()
    }

    fn of(&mut self, conn: Conn) -> &mut Known {
        let Some(remote) = self.remote.get(&conn) else {
            self.stale_calls += 1;
            return self.known.entry(SocketAddr::from(([0, 0, 0, 0], 0))).or_default();
        };
        self.known.entry(*remote).or_default()
    }

    /// Sends what there is room for.
    pub fn push(&mut self, conn: Conn, io: &mut Io<'_>) {
        let known = self.of(conn);
        let sent = io.send(conn, known.unsent.make_contiguous());
        known.unsent.drain(..sent);
        if known.closes && known.unsent.is_empty() {
            known.closes = false;
            io.close(conn);
        }
    }
}

impl App for Program {
    fn connected(&mut self, conn: Conn, io: &mut Io<'_>) {
        let remote = io.info(conn).expect("a connection that stands has an account").remote;
        if !self.remote.contains_key(&conn) {
            self.began(conn, remote);
        }
        self.of(conn).events.push_back(Event::Connected);
    }

    fn received(&mut self, conn: Conn, data: &[u8], _: &mut Io<'_>) -> usize {
        let known = self.of(conn);
        let count = known.takes.map_or(data.len(), |left| left.min(data.len()));
        if let Some(left) = &mut known.takes {
            *left -= count;
        }
        if count > 0 {
            known.events.push_back(Event::Received(data[..count].to_vec()));
        }
        count
    }

    fn urgent(&mut self, conn: Conn, ahead: u32, _: &mut Io<'_>) {
        self.of(conn).events.push_back(Event::Urgent(ahead));
    }

    fn soft_error(&mut self, conn: Conn, error: SoftError, _: &mut Io<'_>) {
        let error = match error {
            SoftError::NoAnswer => script::SoftError::NoAnswer,
            SoftError::Unreachable => script::SoftError::Unreachable,
            SoftError::TimeExceeded => script::SoftError::TimeExceeded,
            SoftError::ParameterProblem => script::SoftError::ParameterProblem,
        };
        self.of(conn).events.push_back(Event::SoftError(error));
    }

    fn sendable(&mut self, conn: Conn, io: &mut Io<'_>) {
        self.of(conn).events.push_back(Event::Sendable);
        self.push(conn, io);
    }

    fn peer_closed(&mut self, conn: Conn, _: &mut Io<'_>) {
        self.of(conn).events.push_back(Event::PeerClosed);
    }

    fn closed(&mut self, conn: Conn, why: CloseReason, _: &mut Io<'_>) {
        let reason = match why {
            CloseReason::Normal => EndReason::Normal,
            CloseReason::Reset => EndReason::Reset,
            CloseReason::Refused => EndReason::Refused,
            CloseReason::TimedOut => EndReason::TimedOut,
            CloseReason::Unreachable => EndReason::Unreachable,
            CloseReason::Aborted => EndReason::Aborted,
        };
        let known = self.of(conn);
        known.events.push_back(Event::Closed(reason));
        if known.conn == Some(conn) {
            known.conn = None;
        }
        self.remote.remove(&conn);
    }
}
