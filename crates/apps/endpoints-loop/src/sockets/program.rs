//! The side of the stack's thread: carries bytes between connections and lines.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use linerate_programs::{Network, Program, Remote, Reports, Table};
use linerate_tcp::{CloseReason, Conn, Listener};
use serde::{Deserialize, Serialize};

use super::line::{Command, Line, LineState, Mailbox, Queue};

/// Connections that wait to be accepted, at most; more are reset.
const ACCEPTED_MAX: usize = 4096;
/// The word of connections that a listener accepted and that have no line yet.
const LISTENER: u64 = 1 << 32;
/// A connection whose stream is gone may take so long to end: its peer may never close its own direction.
const ORPHAN_NS: u64 = 60_000_000_000;

/// The program under sockets.
pub struct Sockets {
    mailbox: Arc<Mailbox>,
    lines: Table<(Conn, Arc<Line>)>,
    /// By their words, of which none is used twice.
    listeners: HashMap<u64, (Listener, Arc<Queue>)>,
    next_listener: u64,
    /// Connections without a stream, and when each is given up.
    orphans: VecDeque<(u64, Conn)>,
    accepted: u64,
    connected: u64,
}

/// What it tells of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketsDocument {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were begun.
    pub connected: u64,
    /// Streams that have not ended.
    pub open: u64,
}

impl Sockets {
    pub(super) fn new(mailbox: Arc<Mailbox>) -> Sockets {
        Sockets {
            mailbox,
            lines: Table::default(),
            listeners: HashMap::new(),
            next_listener: LISTENER,
            orphans: VecDeque::new(),
            accepted: 0,
            connected: 0,
        }
    }

    fn line<N: Network>(&self, conn: Conn, network: &N) -> Option<(u32, Arc<Line>)> {
        let number = (network.token(conn) as u32).wrapping_sub(1);
        let (known, line) = self.lines.get(number)?;
        (*known == conn).then(|| (number, Arc::clone(line)))
    }

    fn obey<N: Network>(&mut self, command: Command, network: &mut N) {
        match command {
            Command::Connect(remote, line) => self.connect(remote, &line, network),
            Command::Listen(address, queue) => {
                let begun = network.listen(address, self.next_listener);
                let mut state = queue.lock();
                state.begun = Some(begun.map(drop));
                state.wake();
                drop(state);
                if let Ok(listener) = begun {
                    self.listeners.insert(self.next_listener, (listener, queue));
                    self.next_listener += 1;
                }
            }
            Command::StopListening(queue) => {
                let found = self.listeners.iter().find(|(_, (_, known))| Arc::ptr_eq(known, &queue));
                if let Some((word, (listener, _))) = found.map(|(word, entry)| (*word, entry.clone())) {
                    network.stop_listening(listener);
                    self.listeners.remove(&word);
                }
            }
            Command::Look(number) => {
                let Some((conn, line)) = self.lines.get(number) else { return };
                let (conn, line) = (*conn, Arc::clone(line));
                self.carry(conn, &mut line.lock(), network);
            }
        }
    }

    /// Nobody waits any more for connections.
    fn end(&mut self) {
        self.mailbox.close();
        for (_, (_, queue)) in self.listeners.drain() {
            let mut state = queue.lock();
            (state.ended, state.accepted) = (true, VecDeque::new());
            state.wake();
        }
    }

    fn connect<N: Network>(&mut self, remote: SocketAddr, line: &Arc<Line>, network: &mut N) {
        let mut state = line.lock();
        if state.dropped {
            return;
        }
        let nowhere = Conn { index: u32::MAX, generation: 0 };
        let number = self.lines.insert((nowhere, Arc::clone(line)));
        match network.connect(Remote::plain(remote), u64::from(number) + 1) {
            Ok(conn) => {
                self.connected += 1;
                if let Some((known, _)) = self.lines.get_mut(number) {
                    *known = conn;
                }
                state.number = Some(number);
            }
            Err(error) => {
                self.lines.remove(number);
                state.refused = Some(error);
                state.wake_reader();
            }
        }
    }

    /// Does what a stream wants of its connection.
    fn carry<N: Network>(&mut self, conn: Conn, state: &mut LineState, network: &mut N) {
        if state.ended.is_some() {
            return;
        }
        if state.addresses.is_none() {
            if state.dropped {
                network.abort(conn);
            }
            return;
        }
        while !state.outgoing.is_empty() {
            let (front, _) = state.outgoing.as_slices();
            let (len, sent) = (front.len(), network.send(conn, front));
            state.outgoing.drain(..sent);
            if sent < len {
                break;
            }
        }
        state.wake_writer();
        if state.outgoing.is_empty() && (state.shut_down || state.dropped) {
            network.close(conn);
        }
        if state.dropped && !std::mem::replace(&mut state.orphaned, true) {
            self.orphans.push_back((network.time_ns() + ORPHAN_NS, conn));
        }
        if state.paused && state.incoming_room() > 0 {
            state.paused = false;
            network.resume(conn);
        }
    }
}

impl Program for Sockets {
    fn start<N: Network>(&mut self, _: &mut N) -> Result<(), String> {
        Ok(())
    }

    fn connected<N: Network>(&mut self, conn: Conn, network: &mut N) {
        let word = network.token(conn);
        let addresses = network.addresses(conn);
        if word < LISTENER {
            let Some((_, line)) = self.line(conn, network) else { return };
            let mut state = line.lock();
            state.addresses = addresses;
            state.wake_reader();
            self.carry(conn, &mut state, network);
            return;
        }
        let Some(queue) = self.listeners.get(&word).map(|(_, queue)| Arc::clone(queue)) else {
            // Its listener is gone.
            network.abort(conn);
            return;
        };
        let mut accepted = queue.lock();
        if accepted.dropped || accepted.accepted.len() >= ACCEPTED_MAX {
            network.abort(conn);
            return;
        }
        let line = Arc::new(Line::default());
        let number = self.lines.insert((conn, Arc::clone(&line)));
        network.set_token(conn, u64::from(number) + 1);
        let mut state = line.lock();
        (state.number, state.addresses) = (Some(number), addresses);
        drop(state);
        self.accepted += 1;
        accepted.accepted.push_back(line);
        accepted.wake();
    }

    fn received<N: Network>(&mut self, conn: Conn, data: &[u8], network: &mut N) -> usize {
        let Some((_, line)) = self.line(conn, network) else { return data.len() };
        let mut state = line.lock();
        let taken = data.len().min(state.incoming_room());
        if !state.dropped {
            state.incoming.extend(&data[..taken]);
        }
        state.paused = taken < data.len();
        state.wake_reader();
        taken
    }

    fn sendable<N: Network>(&mut self, conn: Conn, network: &mut N) {
        if let Some((_, line)) = self.line(conn, network) {
            self.carry(conn, &mut line.lock(), network);
        }
    }

    fn peer_closed<N: Network>(&mut self, conn: Conn, network: &mut N) {
        let Some((_, line)) = self.line(conn, network) else { return };
        let mut state = line.lock();
        state.peer_closed = true;
        state.wake_reader();
    }

    fn closed<N: Network>(&mut self, conn: Conn, why: CloseReason, network: &mut N) {
        let Some((number, line)) = self.line(conn, network) else { return };
        self.lines.remove(number);
        let mut state = line.lock();
        state.ended = Some(why);
        state.wake_reader();
        state.wake_writer();
    }

    fn tick<N: Network>(&mut self, network: &mut N) {
        for command in self.mailbox.take() {
            self.obey(command, network);
        }
        let now_ns = network.time_ns();
        while let Some((_, conn)) = self.orphans.pop_front_if(|(due_ns, _)| *due_ns <= now_ns) {
            network.abort(conn);
        }
    }

    fn stop<N: Network>(&mut self, _: &mut N) {
        self.end();
    }

    fn next_deadline_ns(&self) -> u64 {
        let orphan_ns = self.orphans.front().map_or(u64::MAX, |(due_ns, _)| *due_ns);
        if self.mailbox.has_mail() { 0 } else { orphan_ns }
    }
}

impl Reports for Sockets {
    type Document = SocketsDocument;
    type Reading = SocketsDocument;
    const SCHEMA: &'static str = "linerate.tcp-sockets/1";
    const SAVES_CPU: bool = false;

    fn reading(&self, _: u64) -> SocketsDocument {
        SocketsDocument { accepted: self.accepted, connected: self.connected, open: self.lines.len() as u64 }
    }

    fn document(readings: &[SocketsDocument]) -> SocketsDocument {
        let sum = |count: fn(&SocketsDocument) -> u64| readings.iter().map(count).sum();
        SocketsDocument {
            accepted: sum(|one| one.accepted),
            connected: sum(|one| one.connected),
            open: sum(|one| one.open),
        }
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.end();
        for (_, line) in self.lines.iter() {
            let mut state = line.lock();
            state.ended = state.ended.or(Some(CloseReason::Aborted));
            state.wake_reader();
            state.wake_writer();
        }
    }
}
