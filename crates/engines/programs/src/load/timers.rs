//! What happens because time passes: requests that are due, time-outs, pauses, the end.

use std::cmp::Reverse;

use linerate_load::Pacing;

use super::account::Cause;
use super::client::{Client, Stage};
use super::connection::Phase;
use super::schedule::Timetable;
use crate::network::Network;

/// Connections that are told of the end in one call.
const TOLD_AT_ONCE: u32 = 256;
/// How long a connection that was aborted may take to end.
const ABORT_NS: u64 = 200_000_000;

impl Client {
    /// Sees to it that a connection is looked at by `deadline_ns`.
    #[inline]
    pub(super) fn arm(&mut self, number: u32, deadline_ns: u64) {
        if let Some(connection) = self.connections.get_mut(number)
            && deadline_ns < connection.armed_ns
        {
            connection.armed_ns = deadline_ns;
            self.timers.push(Reverse((deadline_ns, number)));
        }
    }

    /// Does everything that is due.
    pub(super) fn work<N: Network>(&mut self, network: &mut N) {
        let now_ns = network.time_ns();
        self.hand_out(network);
        while let Some(Reverse((due_ns, number))) = self.timers.peek().copied()
            && due_ns <= now_ns
        {
            self.timers.pop();
            if let Some(connection) = self.connections.get_mut(number).filter(|one| one.armed_ns == due_ns) {
                connection.armed_ns = u64::MAX;
                self.look(number, network);
            }
        }
        self.fill(network);
        let is_counted = self.meters.requests.begun.saturating_add(self.unmade) >= self.plan.requests_max;
        if self.stage == Stage::Running && (now_ns >= self.end_ns || is_counted) {
            self.end_running(now_ns, is_counted);
        }
        if matches!(self.stage, Stage::Draining | Stage::Aborting) {
            self.wind_up(network);
        }
    }

    /// Looks at a connection whose time has come.
    fn look<N: Network>(&mut self, number: u32, network: &mut N) {
        let now_ns = network.time_ns();
        let Some(connection) = self.connections.get(number) else { return };
        let since_ns = connection.since_ns;
        match connection.phase {
            Phase::Connecting => {
                let deadline_ns = since_ns + self.plan.connect_timeout_ns;
                if now_ns < deadline_ns {
                    self.arm(number, deadline_ns);
                } else {
                    self.fail(number, Cause::TimedOut, network);
                }
            }
            Phase::Closing => {
                let (deadline_ns, conn) = (since_ns + self.plan.timeout_ns, connection.conn);
                if now_ns < deadline_ns {
                    self.arm(number, deadline_ns);
                } else {
                    network.abort(conn);
                }
            }
            Phase::Pausing => {
                self.targets[connection.target as usize].open -= 1;
                self.connections.remove(number);
            }
            Phase::Open => {
                let oldest_ns = connection.requests.front().map(|request| request.begun_ns + self.plan.timeout_ns);
                if oldest_ns.is_some_and(|oldest_ns| oldest_ns <= now_ns) {
                    self.fail(number, Cause::TimedOut, network);
                    return;
                }
                let think_ns = Some(connection.think_until_ns).filter(|until_ns| *until_ns > now_ns);
                if let Some(next_ns) = oldest_ns.into_iter().chain(think_ns).min() {
                    self.arm(number, next_ns);
                }
                // A datagram that found no room may find it now.
                self.push(number, network);
                self.go_on(number, network);
            }
        }
    }

    /// Nothing is begun any more.
    fn end_running(&mut self, now_ns: u64, is_counted: bool) {
        (self.stage, self.ended_ns) = (Stage::Draining, now_ns.min(self.end_ns));
        let by_requests = matches!(self.plan.pacing, Pacing::Requests(_));
        let by_connections = matches!(self.plan.pacing, Pacing::Connections(_));
        for timetable in self.targets.iter_mut().filter_map(|target| target.timetable.as_mut()) {
            let begun = timetable.taken();
            // Arrivals after the last one that was wanted are not missing.
            let never = if is_counted { 0 } else { timetable.close(now_ns) };
            self.meters.requests.intended += if by_requests { begun + never } else { 0 };
            self.meters.connections.intended += if by_connections { never } else { 0 };
        }
        // Whoever asked for a number of requests, and not for a time, wants each to have all its time.
        let drain_ns = if is_counted { self.plan.drain_ns.max(self.plan.timeout_ns) } else { self.plan.drain_ns };
        self.end_ns = now_ns.saturating_add(drain_ns);
        self.told = 0;
    }

    /// Closes connections without requests, later aborts all, a number of them at a time.
    fn wind_up<N: Network>(&mut self, network: &mut N) {
        let now_ns = network.time_ns();
        if now_ns >= self.drained_ns() {
            if self.stage == Stage::Aborting {
                self.write_off();
                return;
            }
            (self.stage, self.end_ns, self.told) = (Stage::Aborting, now_ns + ABORT_NS, 0);
        }
        let last = (self.told + TOLD_AT_ONCE).min(self.connections.end());
        for number in self.told..last {
            let Some(connection) = self.connections.get(number) else { continue };
            match (self.stage, connection.phase) {
                (_, Phase::Pausing) => drop(self.connections.remove(number)),
                (Stage::Aborting, Phase::Closing) => network.abort(connection.conn),
                (Stage::Aborting, _) => self.fail(number, Cause::Unfinished, network),
                (_, Phase::Open) => self.go_on(number, network),
                // A connection that comes to stand is closed then.
                (_, Phase::Connecting | Phase::Closing) => {}
            }
        }
        self.told = last;
        if self.connections.is_empty() {
            self.stage = Stage::Done;
        }
    }

    /// When the present stage of the end is over, if no connection ends before: once all are closing, servers need not be waited for as long as
    /// answers are.
    fn drained_ns(&self) -> u64 {
        let all_close = self.told == self.connections.end() && self.targets.iter().all(|target| target.open == 0);
        if self.stage != Stage::Draining || !all_close || !self.sockets.is_empty() {
            return self.end_ns;
        }
        let handshake_ns = self.meters.handshakes.max_ns().unwrap_or(0);
        let wait_ns = self.plan.close_wait_ns.saturating_add(2 * handshake_ns);
        self.end_ns.min(self.closed_ns.saturating_add(wait_ns))
    }

    /// Those that did not even end after an abort are in the account, too.
    fn write_off(&mut self) {
        for number in 0..self.connections.end() {
            self.lose_requests(number, Cause::Unfinished);
            if self.connections.remove(number).is_some_and(|connection| connection.phase != Phase::Pausing) {
                self.meters.connections.lose(Cause::Unfinished, 1);
            }
        }
        self.stage = Stage::Done;
    }

    /// Time at which there is something to do.
    pub(super) fn next_ns(&self) -> u64 {
        let timer_ns = self.timers.peek().map_or(u64::MAX, |Reverse((due_ns, _))| *due_ns);
        let stage_ns = match self.stage {
            Stage::New | Stage::Done => u64::MAX,
            Stage::Draining | Stage::Aborting if self.told < self.connections.end() || self.connections.is_empty() => 0,
            Stage::Running if self.meters.requests.begun >= self.plan.requests_max => 0,
            Stage::Running => self.end_ns,
            Stage::Draining | Stage::Aborting => self.drained_ns(),
        };
        let running = self.stage == Stage::Running;
        let by_connections = matches!(self.plan.pacing, Pacing::Connections(_));
        let due_ns = self.targets.iter().filter(|_| running).map(|target| {
            let next_ns = target.timetable.as_ref().and_then(Timetable::next_ns);
            let connect_ns = if target.open < target.wanted { target.not_before_ns } else { u64::MAX };
            match next_ns {
                Some(next_ns) if by_connections => next_ns.max(connect_ns),
                None if by_connections => u64::MAX,
                Some(next_ns) if !target.idle.is_empty() => next_ns.min(self.waiting_ns(connect_ns)),
                _ => self.waiting_ns(connect_ns),
            }
        });
        due_ns.fold(timer_ns.min(stage_ns), u64::min)
    }

    /// When the next connection can be begun, if none is due by a schedule: not while as many handshakes as may be are under way.
    fn waiting_ns(&self, connect_ns: u64) -> u64 {
        if self.has_room_to_connect() { connect_ns } else { u64::MAX }
    }
}
