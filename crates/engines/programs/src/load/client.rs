//! The load generator as a program over the stack.
//!
//! ```text
//! begin.rs      which connection and which request begin when           timers.rs   time-outs, pauses, the end
//! client.rs     what the network tells: connected, received, closed     connection.rs answer.rs meters.rs: their parts
//! ```
//! Nothing here is stored by arrival: a request that is due and finds no free connection stays in the schedule, and is begun, with the time at
//! which it was due, as soon as there is one. So its latency includes the wait, and an overload takes no memory.

use core::net::{IpAddr, SocketAddr};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use linerate_load::{Answer, Plan};
use linerate_tcp::{CloseReason, Conn, ErrorKind, UdpId};

use super::account::{Account, Cause};
use super::answer::Whole;
use super::connection::{Connection, Phase};
use super::meters::{FirstWrong, Meters};
use super::schedule::Timetable;
use super::wrong::Wrong;
use crate::network::{Network, Program};
use crate::table::Table;

/// A load that runs.
pub struct Client {
    pub(super) plan: Arc<Plan>,
    pub(super) meters: Meters,
    pub(super) connections: Table<Connection>,
    /// Connections over UDP, by their sockets.
    pub(super) sockets: HashMap<UdpId, u32>,
    /// A datagram that is put together.
    pub(super) scratch: Vec<u8>,
    pub(super) targets: Vec<TargetState>,
    /// (time, number of a connection), the earliest first; at most one is not out of date for each connection.
    pub(super) timers: BinaryHeap<Reverse<(u64, u32)>>,
    pub(super) stage: Stage,
    pub(super) start_ns: u64,
    /// When nothing is begun any more, then when what is left is aborted.
    pub(super) end_ns: u64,
    /// When nothing was begun any more.
    pub(super) ended_ns: u64,
    pub(super) random: u64,
    pub(super) next_source: usize,
    /// Handshakes under way.
    pub(super) connecting: u32,
    /// When a connection was closed or ended last.
    pub(super) closed_ns: u64,
    /// At the end: the connections before this number were told.
    pub(super) told: u32,
    /// Connections that were never made: they count for the number of requests after which the load ends.
    pub(super) unmade: u64,
}

/// What is known of a target.
pub(super) struct TargetState {
    /// When requests, or connections, are due.
    pub(super) timetable: Option<Timetable>,
    /// Connections that wait for a request; some may have ended meanwhile.
    pub(super) idle: VecDeque<u32>,
    /// Connections that were begun and are not closing.
    pub(super) open: u32,
    /// Connections at a time.
    pub(super) wanted: u32,
    /// No connection is begun before this time.
    pub(super) not_before_ns: u64,
    /// A connection was begun. The others wait until it has an answer, because it finds the way: of packets that wait for a neighbour's
    /// address all but one are lost.
    pub(super) is_tried: bool,
}

/// How far a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It has not begun.
    New,
    /// Requests are begun.
    Running,
    /// Requests under way are waited for.
    Draining,
    /// Everything is aborted.
    Aborting,
    /// Nothing is left.
    Done,
}

impl Client {
    /// A load that begins with the first call.
    pub fn new(plan: Arc<Plan>) -> Client {
        Client {
            meters: Meters::new(plan.kinds.len()),
            connections: Table::default(),
            sockets: HashMap::new(),
            scratch: Vec::new(),
            targets: Vec::new(),
            timers: BinaryHeap::new(),
            stage: Stage::New,
            start_ns: 0,
            end_ns: u64::MAX,
            ended_ns: 0,
            random: plan.seed,
            next_source: 0,
            connecting: 0,
            closed_ns: 0,
            told: 0,
            unmade: 0,
            plan,
        }
    }

    /// What it measured so far.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Nanoseconds in which it was measured until `now_ns`: from the end of the warm-up until nothing was begun any more.
    pub fn measured_ns(&self, now_ns: u64) -> u64 {
        let last_ns = if self.stage > Stage::Running { self.ended_ns } else { now_ns };
        last_ns.saturating_sub(self.start_ns.saturating_add(self.plan.warmup_ns))
    }

    /// The accounts of connections and of requests.
    pub fn accounts(&self) -> (Account, Account) {
        let open = self.connections.iter().filter(|connection| connection.phase != Phase::Pausing).count();
        let requests: usize = self.connections.iter().map(|connection| connection.requests.len()).sum();
        let mut tally = self.meters.requests;
        if self.stage == Stage::Running {
            // The schedule is counted when it has ended.
            tally.intended = tally.intended.max(tally.begun);
        }
        (Account::new(&self.meters.connections, open as u64), Account::new(&tally, requests as u64))
    }

    /// Number of the connection that `conn` is.
    fn number<N: Network>(&self, conn: Conn, network: &N) -> Option<u32> {
        let number = (network.token(conn) as u32).wrapping_sub(1);
        self.connections.get(number).is_some_and(|connection| connection.conn == conn).then_some(number)
    }

    /// An answer came to its end, with the last byte of `data`.
    pub(super) fn answered<N: Network>(&mut self, number: u32, whole: Whole, data: &[u8], network: &mut N) {
        let now_ns = network.time_ns();
        let Client { connections, meters, plan, start_ns, stage, .. } = self;
        let Some(connection) = connections.get_mut(number) else { return };
        let Some(request) = connection.requests.pop_front() else { return };
        let kind = &mut meters.kinds[request.kind as usize];
        if let Some(wrong) = whole.wrong {
            meters.requests.lose(Cause::WrongAnswer, 1);
            kind.errors += 1;
            let asked = plan.kinds.get(request.kind as usize);
            meters.first_wrong.get_or_insert_with(|| FirstWrong { at_ns: now_ns, what: wrong.describe(asked, data) });
        } else {
            meters.requests.complete();
            kind.completed += 1;
        }
        if whole.status > 0 {
            *meters.statuses.entry(whole.status).or_default() += 1;
            kind.errors += u64::from(whole.status >= 400 && whole.wrong.is_none());
        }
        if request.due_ns >= *start_ns + plan.warmup_ns && whole.wrong.is_none() {
            let latency_ns = now_ns.saturating_sub(request.due_ns);
            meters.latency.record(latency_ns);
            if let Some(latency) = &mut kind.latency {
                latency.record(latency_ns);
            }
            meters.answered += u64::from(*stage == Stage::Running);
        }
        if !whole.keep_alive {
            connection.left = 0;
        }
        self.think(number, now_ns);
        self.go_on(number, network);
    }

    /// Counts bytes of answers.
    pub(super) fn count_received(&mut self, data: &[u8], now_ns: u64) {
        let bytes = data.len() as u64;
        self.meters.rx_bytes += bytes;
        if self.stage == Stage::Running && now_ns >= self.start_ns + self.plan.warmup_ns {
            self.meters.measured_rx_bytes += bytes;
        }
    }

    /// Ends a connection at once, because what came is no answer, which was found in `data`.
    fn refuse<N: Network>(&mut self, number: u32, wrong: Wrong, data: &[u8], network: &mut N) {
        if self.meters.first_wrong.is_none() {
            let Some(connection) = self.connections.get(number) else { return };
            let asked = connection.requests.front().and_then(|request| self.plan.kinds.get(request.kind as usize));
            let what = wrong.describe(asked, connection.reader.shown(data));
            self.meters.first_wrong = Some(FirstWrong { at_ns: network.time_ns(), what });
        }
        self.fail(number, Cause::WrongAnswer, network);
    }

    /// Ends a connection at once, because of `cause`.
    pub(super) fn fail<N: Network>(&mut self, number: u32, cause: Cause, network: &mut N) {
        if self.end_socket(number, Some(cause), network) {
            return;
        }
        let Some(connection) = self.connections.get_mut(number) else { return };
        let conn = connection.conn;
        connection.cause = Some(cause);
        self.leave(number, network.time_ns());
        self.lose_requests(number, cause);
        network.abort(conn);
    }

    /// Counts the requests under way on a connection as lost.
    pub(super) fn lose_requests(&mut self, number: u32, cause: Cause) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        for request in connection.requests.drain(..) {
            self.meters.kinds[request.kind as usize].errors += 1;
            self.meters.requests.lose(cause, 1);
        }
        connection.unsent = 0;
        connection.reader.reset();
    }

    /// A connection is one of those that are closing.
    pub(super) fn leave(&mut self, number: u32, now_ns: u64) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        match connection.phase {
            Phase::Closing => return,
            Phase::Connecting => {
                self.connecting -= 1;
                self.unmade += 1;
            }
            Phase::Open | Phase::Pausing => {}
        }
        (connection.phase, connection.since_ns) = (Phase::Closing, now_ns);
        self.closed_ns = now_ns;
        self.targets[connection.target as usize].open -= 1;
        self.arm(number, now_ns + self.plan.timeout_ns);
    }
}

impl Program for Client {
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
        if self.plan.targets.iter().any(|target| target.scheme.is_tls()) && !network.has_tls() {
            return Err("there is no TLS under this load".into());
        }
        if let Some(name) = self.plan.names().first() {
            return Err(format!("{name} was not looked up"));
        }
        self.begin(network);
        Ok(())
    }

    fn connected<N: Network>(&mut self, conn: Conn, network: &mut N) {
        let Some(number) = self.number(conn, network) else { return };
        let now_ns = network.time_ns();
        let Some(connection) = self.connections.get_mut(number) else { return };
        if connection.phase != Phase::Connecting {
            return;
        }
        connection.phase = Phase::Open;
        self.connecting -= 1;
        self.reached(number, now_ns);
        let Some(connection) = self.connections.get_mut(number) else { return };
        if connection.due_ns >= self.start_ns + self.plan.warmup_ns {
            self.meters.handshakes.record(now_ns.saturating_sub(connection.due_ns));
        }
        self.go_on(number, network);
        self.fill(network);
    }

    fn received<N: Network>(&mut self, conn: Conn, data: &[u8], network: &mut N) -> usize {
        let Some(number) = self.number(conn, network) else { return data.len() };
        self.count_received(data, network.time_ns());
        let mut rest = data;
        while !rest.is_empty() {
            let Some(connection) =
                self.connections.get_mut(number).filter(|connection| connection.phase == Phase::Open)
            else {
                break;
            };
            let Some(request) = connection.requests.front() else {
                self.refuse(number, Wrong::Unasked, rest, network);
                break;
            };
            match connection.reader.read(rest, &self.plan.kinds[request.kind as usize]) {
                Ok((taken, whole)) => {
                    let read;
                    (read, rest) = rest.split_at(taken);
                    let Some(whole) = whole else { continue };
                    let answer = &self.plan.kinds[request.kind as usize].answer;
                    let is_rest_asked_for = connection.requests.len() > 1 || matches!(answer, Answer::Bytes(_));
                    self.answered(number, whole, read, network);
                    let is_open = |one: &Connection| one.phase == Phase::Open;
                    if !rest.is_empty() && !is_rest_asked_for && self.connections.get(number).is_some_and(is_open) {
                        // What came with an answer is none to the request that this let begin.
                        self.refuse(number, Wrong::Unasked, rest, network);
                        break;
                    }
                }
                Err(wrong) => {
                    self.refuse(number, wrong, rest, network);
                    break;
                }
            }
        }
        data.len()
    }

    fn sendable<N: Network>(&mut self, conn: Conn, network: &mut N) {
        if let Some(number) = self.number(conn, network) {
            self.push(number, network);
        }
    }

    fn peer_closed<N: Network>(&mut self, conn: Conn, network: &mut N) {
        let Some(number) = self.number(conn, network) else { return };
        let Some(connection) = self.connections.get_mut(number).filter(|connection| connection.phase == Phase::Open)
        else {
            return;
        };
        connection.left = 0;
        let whole = match connection.requests.front() {
            Some(request) => connection.reader.peer_closed(&self.plan.kinds[request.kind as usize]),
            None => Ok(None),
        };
        match whole {
            Ok(Some(whole)) => self.answered(number, whole, &[], network),
            Ok(None) => {}
            Err(wrong) => return self.refuse(number, wrong, &[], network),
        }
        self.lose_requests(number, Cause::Closed);
        self.close(number, network);
        self.fill(network);
    }

    fn closed<N: Network>(&mut self, conn: Conn, why: CloseReason, network: &mut N) {
        let Some(number) = self.number(conn, network) else { return };
        let now_ns = network.time_ns();
        let Some(connection) = self.connections.get_mut(number) else { return };
        let was_connecting = connection.phase == Phase::Connecting;
        let was_closing = connection.phase == Phase::Closing;
        let given = connection.cause;
        let target = connection.target as usize;
        self.reached(number, now_ns);
        let tls = network.tls_failed(conn).then_some(Cause::Tls);
        let cause = given.or(tls).or(match why {
            CloseReason::Normal => None,
            CloseReason::Reset => Some(Cause::Reset),
            CloseReason::Refused => Some(Cause::Refused),
            CloseReason::TimedOut => Some(Cause::TimedOut),
            CloseReason::Unreachable => Some(Cause::Unreachable),
            // This side has closed, and the other side does not.
            CloseReason::Aborted if self.stage == Stage::Running => Some(Cause::TimedOut),
            CloseReason::Aborted if was_closing => Some(Cause::Unclosed),
            CloseReason::Aborted => Some(Cause::Unfinished),
        });
        match cause {
            Some(cause) => self.meters.connections.lose(cause, 1),
            None => self.meters.connections.complete(),
        }
        self.lose_requests(number, cause.unwrap_or(Cause::Closed));
        self.leave(number, now_ns);
        self.closed_ns = now_ns;
        if was_connecting && self.stage == Stage::Running {
            self.pause(number, target, now_ns);
        } else {
            self.connections.remove(number);
        }
        self.fill(network);
    }

    fn datagram<N: Network>(&mut self, socket: UdpId, _: SocketAddr, _: SocketAddr, data: &[u8], network: &mut N) {
        self.answer_of(socket, data, network);
    }

    fn undelivered<N: Network>(&mut self, socket: UdpId, why: ErrorKind, network: &mut N) {
        self.refused(socket, why, network);
    }

    fn resolved(&mut self, name: &str, address: IpAddr) {
        let plan = Arc::make_mut(&mut self.plan);
        for target in plan.targets.iter_mut().filter(|target| target.address.ip().is_unspecified()) {
            if target.name == name {
                target.address.set_ip(address);
            }
        }
    }

    fn tick<N: Network>(&mut self, network: &mut N) {
        self.work(network);
    }

    fn next_deadline_ns(&self) -> u64 {
        self.next_ns()
    }

    fn stop<N: Network>(&mut self, network: &mut N) {
        let now_ns = network.time_ns();
        if self.stage == Stage::Running {
            self.end_ns = self.end_ns.min(now_ns);
        }
        self.work(network);
    }

    fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }
}
