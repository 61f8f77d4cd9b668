//! TLS under a program: [`Tls`] is a program that runs another one over TLS 1.2 and 1.3 (rustls), by the same calls.
//!
//! ```text
//! session.rs   one connection
//! layer.rs     the network as the program under TLS sees it: what it sends is encrypted
//! mod.rs       what arrives is decrypted and handed over
//! ```
//! Connections that ask for no TLS pass through. Back pressure passes through as well: of bytes that the program does not take at most a
//! record is decrypted and kept, and the others stay in the stack. The end of the peer's direction is told by `close_notify` or by FIN, whichever comes
//! first; HTTP tells by its own framing whether an answer is whole.

mod layer;
mod session;

use std::io::BufRead;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use linerate_programs::{Either, Network, Program, Reports, TlsDocument};
use linerate_tcp::{CloseReason, Conn, ErrorKind, UdpId};
use rustls::{ClientConfig, ServerConfig};

use self::layer::{Layer, Secured};

/// A program over TLS, or without: what is known when it starts.
pub type MaybeTls<P> = Either<P, Tls<P>>;

/// A program over TLS.
pub struct Tls<P> {
    program: P,
    layer: Layer,
    /// Decrypted bytes on their way to the program.
    scratch: Vec<u8>,
}

impl<P> Tls<P> {
    /// All connections that `program` accepts are under TLS.
    pub fn server(program: P, config: Arc<ServerConfig>) -> Tls<P> {
        Tls { program, layer: Layer::new(Some(config), None), scratch: Vec::new() }
    }

    /// Connections that `program` begins are under TLS if it asks for that.
    pub fn client(program: P, config: Arc<ClientConfig>) -> Tls<P> {
        Tls { program, layer: Layer::new(None, Some(config)), scratch: Vec::new() }
    }
}

impl<P: Program> Tls<P> {
    /// The program, and the network that it sees.
    fn over<'a, N: Network>(&'a mut self, network: &'a mut N) -> (&'a mut P, Secured<'a, N>) {
        (&mut self.program, Secured { layer: &mut self.layer, network })
    }

    /// Hands over what is decrypted; false if the program does not take it all now, or the session is over.
    fn deliver<N: Network>(&mut self, number: u32, network: &mut N) -> bool {
        loop {
            let Some(session) = self.layer.sessions.get_mut(number) else { return false };
            if session.paused || session.failed {
                return false;
            }
            let conn = session.conn;
            let mut piece = std::mem::take(&mut self.scratch);
            piece.clear();
            if session.kept.is_empty() {
                if let Some(tls) = &mut session.tls {
                    let mut reader = tls.reader();
                    // Nothing there is an error, too; the end is looked at in `finish`.
                    piece.extend_from_slice(reader.fill_buf().unwrap_or_default());
                    reader.consume(piece.len());
                }
            } else {
                std::mem::swap(&mut piece, &mut session.kept);
            }
            if piece.is_empty() {
                self.scratch = piece;
                return true;
            }
            // `resume` may come in this very call.
            session.paused = true;
            let (program, mut secured) = self.over(network);
            let taken = program.received(conn, &piece, &mut secured).min(piece.len());
            let Some(session) = self.layer.sessions.get_mut(number) else { return false };
            if taken == piece.len() {
                session.paused = false;
            } else {
                session.kept.extend_from_slice(&piece[taken..]);
            }
            self.scratch = piece;
        }
    }

    /// Takes what arrived: the handshake, and then data. Returns the bytes taken.
    fn decrypt<N: Network>(&mut self, number: u32, data: &[u8], network: &mut N) -> usize {
        let (mut rest, conn) = (data, self.layer.sessions.get(number).map(|session| session.conn));
        let Some(conn) = conn else { return data.len() };
        while self.deliver(number, network) && !rest.is_empty() {
            let Some(session) = self.layer.sessions.get_mut(number) else { return data.len() };
            let Some(tls) = &mut session.tls else { return data.len() };
            match tls.read_tls(&mut rest) {
                // Bytes after `close_notify`.
                Ok(0) => return data.len(),
                Ok(_) => {}
                Err(error) => {
                    self.layer.fail(number, &error.to_string(), network);
                    return data.len();
                }
            }
            match tls.process_new_packets() {
                Ok(state) => session.close_notify |= state.peer_has_closed(),
                Err(error) => {
                    self.layer.fail(number, &error.to_string(), network);
                    return data.len();
                }
            }
            let is_new = !session.known && !tls.is_handshaking();
            session.known |= is_new;
            session.flush(network);
            self.tell_of_room(number, network);
            if is_new {
                self.layer.document.handshakes += 1;
                let (program, mut secured) = self.over(network);
                program.connected(conn, &mut secured);
            }
        }
        match self.layer.sessions.get_mut(number) {
            Some(session) if !session.failed => {
                session.holds_up = !rest.is_empty();
                data.len() - rest.len()
            }
            _ => data.len(),
        }
    }

    /// Tells the program that there is room again after a send that was cut short.
    fn tell_of_room<N: Network>(&mut self, number: u32, network: &mut N) {
        let Some(session) = self.layer.sessions.get_mut(number) else { return };
        if session.has_room_again() {
            let conn = session.conn;
            let (program, mut secured) = self.over(network);
            program.sendable(conn, &mut secured);
        }
    }

    /// Tells the program of the peer's end, once it has everything before it.
    fn finish<N: Network>(&mut self, number: u32, network: &mut N) {
        let Some(session) = self.layer.sessions.get_mut(number) else { return };
        let has_ended = session.fin || session.close_notify;
        if !has_ended || session.end_told || session.failed || !session.kept.is_empty() || session.holds_up {
            return;
        }
        if !session.known {
            self.layer.fail(number, "the peer closed the connection during the handshake", network);
            return;
        }
        session.end_told = true;
        let conn = session.conn;
        let (program, mut secured) = self.over(network);
        program.peer_closed(conn, &mut secured);
    }

    /// Does what the program asked for in the call before.
    fn settle<N: Network>(&mut self, network: &mut N) {
        while let Some(number) = self.layer.resumed.pop() {
            if !self.deliver(number, network) {
                continue;
            }
            if let Some(session) = self.layer.sessions.get_mut(number)
                && std::mem::take(&mut session.holds_up)
            {
                network.resume(session.conn);
            }
            self.finish(number, network);
        }
    }
}

impl<P: Program> Program for Tls<P> {
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
        let (program, mut secured) = self.over(network);
        program.start(&mut secured)?;
        self.settle(network);
        Ok(())
    }

    fn connected<N: Network>(&mut self, conn: Conn, network: &mut N) {
        if self.layer.begin(conn, network) {
            let (program, mut secured) = self.over(network);
            program.connected(conn, &mut secured);
        }
        self.settle(network);
    }

    fn received<N: Network>(&mut self, conn: Conn, data: &[u8], network: &mut N) -> usize {
        let Some(number) = self.layer.number(conn, network) else { return data.len() };
        let is_tls = self.layer.sessions.get(number).is_some_and(|session| session.tls.is_some());
        let taken = if is_tls {
            let taken = self.decrypt(number, data, network);
            self.finish(number, network);
            taken
        } else {
            let (program, mut secured) = self.over(network);
            program.received(conn, data, &mut secured)
        };
        self.settle(network);
        taken
    }

    fn sendable<N: Network>(&mut self, conn: Conn, network: &mut N) {
        let Some(number) = self.layer.number(conn, network) else { return };
        if let Some(session) = self.layer.sessions.get_mut(number) {
            session.flush(network);
        }
        self.tell_of_room(number, network);
        self.settle(network);
    }

    fn peer_closed<N: Network>(&mut self, conn: Conn, network: &mut N) {
        let Some(number) = self.layer.number(conn, network) else { return };
        let Some(session) = self.layer.sessions.get_mut(number) else { return };
        // The stack tells it after everything else was taken.
        (session.fin, session.holds_up) = (true, false);
        self.finish(number, network);
        self.settle(network);
    }

    fn closed<N: Network>(&mut self, conn: Conn, why: CloseReason, network: &mut N) {
        let Some(number) = self.layer.number(conn, network) else { return };
        let Some(session) = self.layer.sessions.get_mut(number) else { return };
        if session.is_expected() {
            let why = session.reason(why);
            let (program, mut secured) = self.over(network);
            program.closed(conn, why, &mut secured);
        } else if !session.failed {
            self.layer.document.fail("the connection ended during the handshake");
        }
        self.layer.sessions.remove(number);
        self.settle(network);
    }

    fn datagram<N: Network>(&mut self, socket: UdpId, from: SocketAddr, to: SocketAddr, data: &[u8], network: &mut N) {
        let (program, mut secured) = self.over(network);
        program.datagram(socket, from, to, data, &mut secured);
        self.settle(network);
    }

    fn undelivered<N: Network>(&mut self, socket: UdpId, why: ErrorKind, network: &mut N) {
        let (program, mut secured) = self.over(network);
        program.undelivered(socket, why, &mut secured);
        self.settle(network);
    }

    fn resolved(&mut self, name: &str, address: IpAddr) {
        self.program.resolved(name, address);
    }

    fn tick<N: Network>(&mut self, network: &mut N) {
        self.layer.give_up(network);
        if network.time_ns() >= self.program.next_deadline_ns() {
            let (program, mut secured) = self.over(network);
            program.tick(&mut secured);
        }
        self.settle(network);
    }

    fn next_deadline_ns(&self) -> u64 {
        self.program.next_deadline_ns().min(self.layer.next_deadline_ns())
    }

    fn stop<N: Network>(&mut self, network: &mut N) {
        let (program, mut secured) = self.over(network);
        program.stop(&mut secured);
        self.settle(network);
    }

    fn is_done(&self) -> bool {
        self.program.is_done()
    }
}

impl<P: Reports> Reports for Tls<P> {
    type Document = P::Document;
    type Reading = P::Reading;
    const SCHEMA: &'static str = P::SCHEMA;
    const SAVES_CPU: bool = P::SAVES_CPU;
    const ONLY_LISTENS: bool = P::ONLY_LISTENS;

    fn reading(&self, now_ns: u64) -> P::Reading {
        self.program.reading(now_ns)
    }

    fn document(readings: &[P::Reading]) -> P::Document {
        P::document(readings)
    }

    fn tls(&self) -> Option<TlsDocument> {
        Some(self.layer.document.clone())
    }
}
