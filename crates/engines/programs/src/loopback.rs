//! Two programs joined without a stack, for tests: connections are queues of bytes, and the time is a number.
//!
//! It keeps the promises of [`Network`], in small pieces: at most `piece` bytes a delivery, at most `room` bytes on the way in a direction. So
//! programs meet partial sends, bytes that come in halves, and calls in every order.

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

use linerate_tcp::{BindError, CloseReason, Conn, ConnectError, ErrorKind, ListenError, Listener, SendError, UdpId};

use crate::network::{Network, Program, Remote};

/// What happens to connections that are begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// They are accepted if there is a listener, else refused.
    Fair,
    /// Nothing answers.
    Silent,
}

/// One end of a connection.
#[derive(Default)]
struct End {
    token: u64,
    /// Bytes on the way to this end.
    incoming: VecDeque<u8>,
    /// The other end closed after them.
    fin: bool,
    fin_told: bool,
    /// This end closed.
    closed: bool,
    /// This end did not take all that it was offered.
    paused: bool,
    /// A send of this end was cut short.
    blocked: bool,
    /// This end was told that the connection stands.
    known: bool,
    /// The last call is owed.
    ending: Option<CloseReason>,
    ended: bool,
}

/// A connection: the end of the client and that of the server.
struct Link {
    ends: [End; 2],
    remote: SocketAddr,
    established: bool,
}

/// A UDP socket: the side that has it, its own address, the other end.
type Socket = (usize, SocketAddr, Option<SocketAddr>);

/// The state that both sides share.
pub(crate) struct State {
    pub(crate) now_ns: u64,
    pub(crate) piece: usize,
    pub(crate) room: usize,
    pub(crate) weather: Weather,
    links: Vec<Link>,
    listeners: Vec<(u16, u64)>,
    /// Connections that were begun.
    pub(crate) begun: usize,
    /// UDP sockets by number; `None` when closed.
    sockets: Vec<Option<Socket>>,
    /// Datagrams under way: side of the sender, from, to, data.
    datagrams: VecDeque<(usize, SocketAddr, SocketAddr, Vec<u8>)>,
    /// What happens to the datagrams of the server, in turn: how many copies arrive.
    pub(crate) copies: Vec<usize>,
    answers: usize,
}

impl State {
    /// The socket of a side at a port.
    fn socket_at(&self, side: usize, port: u16) -> Option<UdpId> {
        let is_it = |socket: &Option<Socket>| socket.is_some_and(|(owner, own, _)| owner == side && own.port() == port);
        let index = self.sockets.iter().position(is_it)?;
        Some(UdpId { index: index as u32, generation: 0 })
    }
}

/// The network as one side sees it.
struct Side<'a> {
    state: &'a mut State,
    side: usize,
}

impl Side<'_> {
    fn end(&mut self, conn: Conn) -> Option<&mut End> {
        let end = &mut self.state.links.get_mut(conn.index as usize)?.ends[self.side];
        (!end.ended).then_some(end)
    }
}

impl Network for Side<'_> {
    fn time_ns(&self) -> u64 {
        self.state.now_ns
    }

    fn connect(&mut self, to: Remote<'_>, token: u64) -> Result<Conn, ConnectError> {
        let index = self.state.links.len() as u32;
        let mut link = Link { ends: Default::default(), remote: to.address, established: false };
        link.ends[self.side].token = token;
        link.ends[1 - self.side].ended = true;
        self.state.links.push(link);
        self.state.begun += 1;
        Ok(Conn { index, generation: 0 })
    }

    fn listen(&mut self, address: SocketAddr, token: u64) -> Result<Listener, ListenError> {
        self.state.listeners.push((address.port(), token));
        Ok(Listener(address.port().into()))
    }

    fn stop_listening(&mut self, listener: Listener) {
        self.state.listeners.retain(|(port, _)| u32::from(*port) != listener.0);
    }

    fn send(&mut self, conn: Conn, bytes: &[u8]) -> usize {
        let (side, room) = (self.side, self.state.room);
        if self.end(conn).is_none_or(|end| end.closed || end.ending.is_some()) {
            return 0;
        }
        let ends = &mut self.state.links[conn.index as usize].ends;
        let taken = bytes.len().min(room.saturating_sub(ends[1 - side].incoming.len()));
        ends[1 - side].incoming.extend(&bytes[..taken]);
        ends[side].blocked |= taken < bytes.len();
        taken
    }

    fn close(&mut self, conn: Conn) {
        let side = self.side;
        if let Some(end) = self.end(conn) {
            end.closed = true;
            self.state.links[conn.index as usize].ends[1 - side].fin = true;
        }
    }

    fn abort(&mut self, conn: Conn) {
        let side = self.side;
        if let Some(end) = self.end(conn) {
            end.ending = Some(CloseReason::Aborted);
            let other = &mut self.state.links[conn.index as usize].ends[1 - side];
            if !other.ended {
                other.incoming.clear();
                other.ending = other.ending.or(Some(CloseReason::Reset));
            }
        }
    }

    fn resume(&mut self, conn: Conn) {
        if let Some(end) = self.end(conn) {
            end.paused = false;
        }
    }

    fn token(&self, conn: Conn) -> u64 {
        self.state.links.get(conn.index as usize).map_or(0, |link| link.ends[self.side].token)
    }

    fn set_token(&mut self, conn: Conn, token: u64) {
        if let Some(end) = self.end(conn) {
            end.token = token;
        }
    }

    fn addresses(&self, conn: Conn) -> Option<(SocketAddr, SocketAddr)> {
        let remote = self.state.links.get(conn.index as usize)?.remote;
        Some((remote, remote))
    }

    fn udp_open(&mut self, local: Option<SocketAddr>, remote: Option<SocketAddr>) -> Result<UdpId, BindError> {
        let index = self.state.sockets.len() as u32;
        let own = SocketAddr::from(([198, 18, 5, 2], 30_000 + index as u16));
        self.state.sockets.push(Some((self.side, local.filter(|local| local.port() != 0).unwrap_or(own), remote)));
        Ok(UdpId { index, generation: 0 })
    }

    fn udp_send(
        &mut self,
        socket: UdpId,
        from: Option<IpAddr>,
        to: Option<SocketAddr>,
        data: &[u8],
    ) -> Result<(), SendError> {
        let Side { state, side } = self;
        let Some((_, local, remote)) = state.sockets[socket.index as usize] else { return Err(SendError::Closed) };
        let from = SocketAddr::new(from.unwrap_or(local.ip()), local.port());
        let to = remote.or(to).ok_or(SendError::NotConnected)?;
        let copies = if *side == 1 { state.copies[state.answers % state.copies.len()] } else { 1 };
        state.answers += *side;
        state.datagrams.extend((0..copies).map(|_| (*side, from, to, data.to_vec())));
        Ok(())
    }

    fn udp_close(&mut self, socket: UdpId) {
        self.state.sockets[socket.index as usize] = None;
    }
}

/// A client and a server.
pub(crate) struct Loopback<C, S> {
    pub(crate) client: C,
    pub(crate) server: S,
    pub(crate) state: State,
}

impl<C: Program, S: Program> Loopback<C, S> {
    /// Starts both.
    pub(crate) fn new(client: C, server: S) -> Loopback<C, S> {
        let state = State {
            now_ns: 1_000_000_000,
            piece: 1400,
            room: 64 * 1024,
            weather: Weather::Fair,
            links: Vec::new(),
            listeners: Vec::new(),
            begun: 0,
            sockets: Vec::new(),
            datagrams: VecDeque::new(),
            copies: vec![1],
            answers: 0,
        };
        Loopback { client, server, state }
    }

    /// The first calls.
    pub(crate) fn start(&mut self) {
        self.server.start(&mut Side { state: &mut self.state, side: 1 }).unwrap();
        self.client.start(&mut Side { state: &mut self.state, side: 0 }).unwrap();
    }

    /// Until the client is done or `end_ns` has passed. Each round takes at least `round_ns`.
    pub(crate) fn run(&mut self, round_ns: u64, end_ns: u64) {
        let last_ns = self.state.now_ns + end_ns;
        while !self.client.is_done() && self.state.now_ns < last_ns {
            if self.round() == 0 {
                let next_ns = self.client.next_deadline_ns().min(self.server.next_deadline_ns());
                self.state.now_ns = next_ns.clamp(self.state.now_ns, last_ns);
            }
            self.state.now_ns += round_ns;
        }
        // The server hears of what the client did last.
        while self.client.is_done() && self.round() > 0 {}
    }

    /// Resets every connection that stands, as a server that is killed.
    pub(crate) fn reset_all(&mut self) {
        for link in &mut self.state.links {
            for end in &mut link.ends {
                if !end.ended {
                    end.incoming.clear();
                    end.ending = Some(CloseReason::Reset);
                }
            }
        }
    }

    /// Connections of the client that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.state.links.iter().filter(|link| !link.ends[0].ended).count()
    }

    /// Delivers once on each connection; returns the number of calls.
    fn round(&mut self) -> usize {
        let mut calls = 0;
        for at in 0..self.state.links.len() {
            calls += self.establish(at);
            calls += deliver(&mut self.server, &mut self.state, at, 1);
            calls += deliver(&mut self.client, &mut self.state, at, 0);
        }
        calls += self.carry();
        let now_ns = self.state.now_ns;
        if now_ns >= self.client.next_deadline_ns() {
            self.client.tick(&mut Side { state: &mut self.state, side: 0 });
            calls += 1;
        }
        if now_ns >= self.server.next_deadline_ns() {
            self.server.tick(&mut Side { state: &mut self.state, side: 1 });
            calls += 1;
        }
        calls
    }

    /// Delivers the datagrams that are under way.
    fn carry(&mut self) -> usize {
        let under_way = std::mem::take(&mut self.state.datagrams);
        let calls = under_way.len();
        for (sender, from, to, data) in under_way {
            let side = 1 - sender;
            let state = &mut self.state;
            match (state.socket_at(side, to.port()), side) {
                (Some(socket), 1) => self.server.datagram(socket, from, to, &data, &mut Side { state, side }),
                (Some(socket), _) => self.client.datagram(socket, from, to, &data, &mut Side { state, side }),
                // Nobody is there, and the client hears of it if it is still there itself.
                (None, 1) => {
                    if let Some(socket) = state.socket_at(sender, from.port()) {
                        self.client.undelivered(socket, ErrorKind::PortUnreachable, &mut Side { state, side: sender });
                    }
                }
                (None, _) => {}
            }
        }
        calls
    }

    fn establish(&mut self, at: usize) -> usize {
        let State { links, listeners, weather, .. } = &mut self.state;
        let link = &mut links[at];
        if link.established || link.ends[0].ended || link.ends[0].ending.is_some() || *weather == Weather::Silent {
            return 0;
        }
        link.established = true;
        let Some((_, token)) = listeners.iter().find(|(port, _)| *port == link.remote.port()) else {
            link.ends[0].ending = Some(CloseReason::Refused);
            return 1;
        };
        (link.ends[1].ended, link.ends[1].token) = (false, *token);
        let conn = Conn { index: at as u32, generation: 0 };
        for (side, end) in link.ends.iter_mut().enumerate() {
            end.known = side <= 1;
        }
        self.server.connected(conn, &mut Side { state: &mut self.state, side: 1 });
        self.client.connected(conn, &mut Side { state: &mut self.state, side: 0 });
        1
    }
}

/// Hands one side what is due for it.
fn deliver<P: Program>(program: &mut P, state: &mut State, at: usize, side: usize) -> usize {
    let conn = Conn { index: at as u32, generation: 0 };
    let (piece, room) = (state.piece, state.room);
    let link = &mut state.links[at];
    if link.ends[side].ended {
        return 0;
    }
    if let Some(why) = link.ends[side].ending {
        program.closed(conn, why, &mut Side { state, side });
        state.links[at].ends[side].ended = true;
        return 1;
    }
    if !link.ends[side].known {
        return 0;
    }
    let mut calls = 0;
    let end = &mut link.ends[side];
    if !end.incoming.is_empty() && !end.paused {
        let data: Vec<u8> = end.incoming.iter().take(piece).copied().collect();
        // A call for the rest comes only after `resume`, which the program may make in this very call.
        end.paused = true;
        let taken = program.received(conn, &data, &mut Side { state, side });
        assert!(taken <= data.len());
        let end = &mut state.links[at].ends[side];
        if end.ending.is_none() {
            end.incoming.drain(..taken);
        }
        end.paused &= taken < data.len();
        calls += 1;
    }
    let ends = &mut state.links[at].ends;
    if ends[side].blocked && ends[1 - side].incoming.len() < room && !ends[side].closed {
        ends[side].blocked = false;
        program.sendable(conn, &mut Side { state, side });
        calls += 1;
    }
    let end = &mut state.links[at].ends[side];
    if end.fin && end.incoming.is_empty() && !end.fin_told && end.ending.is_none() {
        end.fin_told = true;
        program.peer_closed(conn, &mut Side { state, side });
        calls += 1;
    }
    let ends = &mut state.links[at].ends;
    if ends[side].closed && ends[side].fin_told && ends[side].ending.is_none() {
        ends[side].ending = Some(CloseReason::Normal);
        calls += 1;
    }
    calls
}
