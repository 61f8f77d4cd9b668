//! Which connection, and which request, begins when.

use core::net::SocketAddr;

use linerate_load::{Gaps, Pacing, Scheme, Target};

use super::client::{Client, Stage, TargetState};
use super::connection::{Connection, InFlight, Phase};
use super::random;
use super::schedule::Timetable;
use crate::network::{Network, Remote};

/// Handshakes under way at a time, unless connections are due by a schedule: more would only fill the server's backlog.
const CONNECTING_MAX: u32 = 512;
/// A connection that failed is begun again after this time.
const PAUSE_NS: u64 = 100_000_000;
/// The first connection to a target is waited for, for so long.
const FIRST_NS: u64 = 200_000_000;
/// Connections that are closing, beside those that are open, at most.
const CLOSING_MAX: usize = 65_536;

impl Client {
    /// Begins the load.
    pub(super) fn begin<N: Network>(&mut self, network: &mut N) {
        let now_ns = network.time_ns();
        self.stage = Stage::Running;
        (self.start_ns, self.end_ns) = (now_ns, now_ns.saturating_add(self.plan.duration_ns));
        let plan = &self.plan;
        for (at, target) in plan.targets.iter().enumerate() {
            let timetable = match &plan.pacing {
                Pacing::Closed => None,
                Pacing::Requests(rate) | Pacing::Connections(rate) => Some(Timetable::new(
                    &rate.scaled(target.share),
                    plan.gaps,
                    plan.seed.wrapping_add(at as u64),
                    now_ns,
                    self.end_ns,
                )),
            };
            self.targets.push(TargetState {
                timetable,
                idle: Default::default(),
                open: 0,
                wanted: plan.connections_of(at),
                not_before_ns: now_ns,
                is_tried: false,
            });
        }
        self.fill(network);
    }

    /// Begins the connections that are wanted now.
    pub(super) fn fill<N: Network>(&mut self, network: &mut N) {
        if self.stage != Stage::Running {
            return;
        }
        let now_ns = network.time_ns();
        for at in 0..self.targets.len() {
            while let Some(due_ns) = self.connection_due(at, now_ns) {
                self.connect(at, due_ns, network);
            }
        }
    }

    /// True if one more connection can be begun to a target that wants one.
    pub(super) fn has_room_to_connect(&self) -> bool {
        let by_schedule = matches!(self.plan.pacing, Pacing::Connections(_));
        let open: usize = self.targets.iter().map(|target| target.open as usize).sum();
        self.connections.len() - open < CLOSING_MAX
            && (by_schedule || self.connecting < CONNECTING_MAX)
            && self.counted_requests() < self.plan.requests_max
    }

    /// Requests that count for the number after which no more are begun: connections that were never made count for one each, and so do those
    /// that are being made, which would be left without a request otherwise.
    fn counted_requests(&self) -> u64 {
        self.meters.requests.begun.saturating_add(self.unmade + u64::from(self.connecting))
    }

    /// Time at which the next connection to a target is due, if that has come and there is room for it.
    fn connection_due(&mut self, at: usize, now_ns: u64) -> Option<u64> {
        let by_schedule = matches!(self.plan.pacing, Pacing::Connections(_));
        let has_room = self.has_room_to_connect();
        let target = &mut self.targets[at];
        let may = has_room && target.open < target.wanted && target.not_before_ns <= now_ns;
        match &mut target.timetable {
            _ if !may => None,
            Some(timetable) if by_schedule => timetable.take(now_ns),
            _ => {
                // The first ones are spread over the ramp.
                if self.plan.ramp_up_ns > 0 && now_ns < self.start_ns + self.plan.ramp_up_ns {
                    let gap_ns = self.plan.ramp_up_ns / u64::from(target.wanted);
                    target.not_before_ns = self.start_ns + gap_ns * u64::from(target.open + 1);
                }
                Some(now_ns)
            }
        }
    }

    fn connect<N: Network>(&mut self, at: usize, due_ns: u64, network: &mut N) {
        let now_ns = network.time_ns();
        let Target { address, scheme, .. } = &self.plan.targets[at];
        let (address, scheme) = (*address, *scheme);
        let sources = &self.plan.sources;
        let source = (0..sources.len()).find_map(|_| {
            let source = sources[self.next_source % sources.len()];
            self.next_source = self.next_source.wrapping_add(1);
            (source.is_ipv4() == address.is_ipv4()).then_some(source)
        });
        self.meters.connections.intended += 1;
        let number =
            self.connections.insert(Connection::new(at as u32, due_ns, now_ns, self.plan.requests_per_connection));
        if scheme == Scheme::Udp {
            let source = source.map(|source| SocketAddr::new(source, 0));
            if let Err(error) = self.open_socket(number, source, address, network) {
                self.cannot_connect(at, number, &error.to_string(), now_ns);
            }
            return;
        }
        let tls = scheme.is_tls().then_some(self.plan.targets[at].name.as_str());
        match network.connect(Remote { address, local: source, tls }, u64::from(number) + 1) {
            Ok(conn) => {
                self.meters.connections.begin();
                self.connecting += 1;
                let target = &mut self.targets[at];
                target.open += 1;
                if !std::mem::replace(&mut target.is_tried, true) {
                    target.not_before_ns = now_ns + FIRST_NS;
                }
                if let Some(connection) = self.connections.get_mut(number) {
                    connection.conn = conn;
                }
                self.arm(number, now_ns + self.plan.connect_timeout_ns);
            }
            Err(error) => self.cannot_connect(at, number, &error.to_string(), now_ns),
        }
    }

    /// A connection was not begun.
    fn cannot_connect(&mut self, at: usize, number: u32, why: &str, now_ns: u64) {
        *self.meters.refusals.entry(why.to_owned()).or_default() += 1;
        self.connections.remove(number);
        // Connections that end free what is missing.
        self.targets[at].not_before_ns = now_ns + PAUSE_NS / 10;
    }

    /// An answer came on a connection: others may follow it to its target at once.
    pub(super) fn reached(&mut self, number: u32, now_ns: u64) {
        let Some(connection) = self.connections.get(number) else { return };
        let target = &mut self.targets[connection.target as usize];
        if target.not_before_ns == connection.since_ns + FIRST_NS {
            target.not_before_ns = now_ns;
        }
    }

    /// A connection failed: its place is kept for a moment.
    pub(super) fn pause(&mut self, number: u32, target: usize, now_ns: u64) {
        let Some(connection) = self.connections.get_mut(number) else { return };
        (connection.phase, connection.since_ns) = (Phase::Pausing, now_ns);
        self.targets[target].open += 1;
        self.arm(number, now_ns + PAUSE_NS);
    }

    /// Does the next thing on a connection that stands: begins as many requests as it may, or closes it.
    pub(super) fn go_on<N: Network>(&mut self, number: u32, network: &mut N) {
        let now_ns = network.time_ns();
        loop {
            let Some(connection) =
                self.connections.get_mut(number).filter(|connection| connection.phase == Phase::Open)
            else {
                return;
            };
            // A connection that was due in time makes its requests, also if its handshake came to its end later.
            let by_schedule = matches!(self.plan.pacing, Pacing::Connections(_));
            let is_late = self.stage != Stage::Running && !(by_schedule && self.stage == Stage::Draining);
            let is_over = connection.left == 0 || is_late || self.meters.requests.begun >= self.plan.requests_max;
            if is_over {
                if connection.requests.is_empty() {
                    self.close(number, network);
                    self.fill(network);
                }
                return;
            }
            if connection.requests.len() >= self.plan.pipeline as usize || now_ns < connection.think_until_ns {
                return;
            }
            let target = &mut self.targets[connection.target as usize];
            let due_ns = match (&self.plan.pacing, &mut target.timetable) {
                (Pacing::Requests(_), Some(timetable)) => timetable.take(now_ns),
                // The first request of a connection is due when the connection is.
                (Pacing::Connections(_), _) if connection.left == self.plan.requests_per_connection => {
                    Some(connection.due_ns)
                }
                _ => Some(now_ns),
            };
            match due_ns {
                Some(due_ns) => self.request(number, due_ns, network),
                None => {
                    if !std::mem::replace(&mut connection.is_idle, true) {
                        target.idle.push_back(number);
                    }
                    return;
                }
            }
        }
    }

    /// Gives requests that are due to connections that wait for them.
    pub(super) fn hand_out<N: Network>(&mut self, network: &mut N) {
        if !matches!(self.plan.pacing, Pacing::Requests(_)) {
            return;
        }
        let now_ns = network.time_ns();
        for at in 0..self.targets.len() {
            while self.targets[at]
                .timetable
                .as_ref()
                .and_then(Timetable::next_ns)
                .is_some_and(|due_ns| due_ns <= now_ns)
                && let Some(number) = self.targets[at].idle.pop_front()
            {
                if let Some(connection) = self.connections.get_mut(number).filter(|connection| connection.is_idle) {
                    connection.is_idle = false;
                    self.go_on_once(number, network);
                }
            }
        }
    }

    /// One request for a connection that was idle, which goes to the end of the list if it can take another one.
    fn go_on_once<N: Network>(&mut self, number: u32, network: &mut N) {
        let now_ns = network.time_ns();
        let Some(connection) = self.connections.get_mut(number).filter(|connection| connection.phase == Phase::Open)
        else {
            return;
        };
        let pipeline = self.plan.pipeline as usize;
        // It may have begun requests, or its last one, after it came to the list.
        if connection.requests.len() >= pipeline || connection.left == 0 || now_ns < connection.think_until_ns {
            return;
        }
        let target = &mut self.targets[connection.target as usize];
        if let Some(due_ns) = target.timetable.as_mut().and_then(|timetable| timetable.take(now_ns)) {
            if connection.requests.len() + 1 < pipeline && connection.left > 1 {
                connection.is_idle = true;
                target.idle.push_back(number);
            }
            self.request(number, due_ns, network);
        }
    }

    /// Begins a request.
    fn request<N: Network>(&mut self, number: u32, due_ns: u64, network: &mut N) {
        let now_ns = network.time_ns();
        let Some(connection) = self.connections.get_mut(number) else { return };
        let kinds = &self.plan.targets[connection.target as usize].kinds;
        let kind = match &kinds[..] {
            [(kind, _)] => *kind,
            kinds => {
                let point = random::unit(&mut self.random);
                kinds[kinds.partition_point(|(_, sum)| *sum < point).min(kinds.len() - 1)].0
            }
        };
        let begun = self.meters.requests.begun;
        connection.requests.push_back(InFlight { kind, number: begun, due_ns, begun_ns: now_ns });
        connection.unsent += 1;
        connection.left -= 1;
        if !matches!(self.plan.pacing, Pacing::Requests(_)) {
            self.meters.requests.intended += 1;
        }
        self.meters.requests.begin();
        self.arm(number, now_ns + self.plan.timeout_ns);
        self.push(number, network);
    }

    /// Sends what is not sent of the requests of a connection, as far as there is room.
    pub(super) fn push<N: Network>(&mut self, number: u32, network: &mut N) {
        let Client { connections, plan, meters, .. } = self;
        let Some(connection) = connections.get_mut(number) else { return };
        if let Some(socket) = connection.socket {
            return self.push_datagram(number, socket, network);
        }
        while connection.unsent > 0 {
            let at = connection.requests.len() - connection.unsent as usize;
            let bytes = &plan.kinds[connection.requests[at].kind as usize].bytes;
            let sent = network.send(connection.conn, &bytes[connection.sent as usize..]);
            meters.tx_bytes += sent as u64;
            connection.sent += sent as u32;
            if (connection.sent as usize) < bytes.len() {
                return;
            }
            connection.unsent -= 1;
            connection.sent = 0;
        }
    }

    /// Closes a connection in order.
    pub(super) fn close<N: Network>(&mut self, number: u32, network: &mut N) {
        if self.end_socket(number, None, network) {
            return;
        }
        let Some(connection) = self.connections.get_mut(number) else { return };
        let conn = connection.conn;
        self.leave(number, network.time_ns());
        network.close(conn);
    }

    /// An answer came: the pause before the next request begins.
    pub(super) fn think(&mut self, number: u32, now_ns: u64) {
        if self.plan.think_ns == 0 {
            return;
        }
        let think_ns = match self.plan.gaps {
            Gaps::Constant => self.plan.think_ns,
            Gaps::Poisson => (-random::unit(&mut self.random).ln() * self.plan.think_ns as f64) as u64,
        };
        if let Some(connection) = self.connections.get_mut(number) {
            connection.think_until_ns = now_ns + think_ns;
            let until_ns = connection.think_until_ns;
            self.arm(number, until_ns);
        }
    }
}
