//! The side of the stack's thread: carries bytes between connections and lines.

use std::collections::VecDeque;
use std::sync::Arc;

use linerate_programs::{Network, Program, Reports, Table};
use linerate_tcp::{CloseReason, Conn};
use serde::{Deserialize, Serialize};

use super::line::{Command, Line, LineState, Mailbox, Queue};

/// Connections that wait to be accepted, at most; more are reset.
const ACCEPTED_MAX: usize = 4096;
/// The word of connections that a listener accepted and that have no line yet.
const LISTENER: u64 = 1 << 32;

/// The program under sockets.
pub struct Sockets {
    mailbox: Arc<Mailbox>,
    lines: Table<(Conn, Arc<Line>)>,
    listeners: Vec<Arc<Queue>>,
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
        Sockets { mailbox, lines: Table::default(), listeners: Vec::new(), accepted: 0, connected: 0 }
    }

    fn line<N: Network>(&self, conn: Conn, network: &N) -> Option<(u32, Arc<Line>)> {
        let number = (network.token(conn) as u32).wrapping_sub(1);
        let (known, line) = self.lines.get(number)?;
        (*known == conn).then(|| (number, Arc::clone(line)))
    }

    fn obey<N: Network>(&mut self, command: Command, network: &mut N) {
        match command {
            Command::Connect(remote, line) => {
                let nowhere = Conn { index: u32::MAX, generation: 0 };
                let number = self.lines.insert((nowhere, Arc::clone(&line)));
                match network.connect(remote, None, u64::from(number) + 1) {
                    Ok(conn) => {
                        self.connected += 1;
                        if let Some((known, _)) = self.lines.get_mut(number) {
                            *known = conn;
                        }
                        line.lock().number = Some(number);
                    }
                    Err(error) => {
                        self.lines.remove(number);
                        let mut state = line.lock();
                        state.refused = Some(error);
                        state.wake_reader();
                    }
                }
            }
            Command::Listen(address, queue) => {
                let begun = network.listen(address, LISTENER + self.listeners.len() as u64);
                let mut state = queue.lock();
                state.begun = Some(begun.map(drop));
                state.wake();
                drop(state);
                if begun.is_ok() {
                    self.listeners.push(queue);
                }
            }
            Command::Look(number) => {
                let Some((conn, line)) = self.lines.get(number) else { return };
                let (conn, line) = (*conn, Arc::clone(line));
                carry(conn, &mut line.lock(), network);
            }
        }
    }
}

/// Does what a stream wants of its connection.
fn carry<N: Network>(conn: Conn, state: &mut LineState, network: &mut N) {
    if state.ended.is_some() || state.addresses.is_none() {
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
    if state.paused && state.incoming_room() > 0 {
        state.paused = false;
        network.resume(conn);
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
            carry(conn, &mut state, network);
            return;
        }
        let Some(queue) = self.listeners.get((word - LISTENER) as usize).map(Arc::clone) else { return };
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
            carry(conn, &mut line.lock(), network);
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
    }

    fn next_deadline_ns(&self) -> u64 {
        if self.mailbox.has_mail() { 0 } else { u64::MAX }
    }
}

impl Reports for Sockets {
    type Document = SocketsDocument;
    const SCHEMA: &'static str = "linerate.tcp-sockets/1";

    fn document(&self, _: u64) -> SocketsDocument {
        SocketsDocument { accepted: self.accepted, connected: self.connected, open: self.lines.len() as u64 }
    }
}

impl Drop for Sockets {
    /// Nobody waits any more.
    fn drop(&mut self) {
        for (_, line) in self.lines.iter() {
            let mut state = line.lock();
            state.ended = state.ended.or(Some(CloseReason::Aborted));
            state.wake_reader();
            state.wake_writer();
        }
        for queue in &self.listeners {
            let mut state = queue.lock();
            (state.ended, state.accepted) = (true, VecDeque::new());
            state.wake();
        }
    }
}
