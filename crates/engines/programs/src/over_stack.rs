//! A program over the stack, and the names that are looked up for it.

use core::net::{IpAddr, SocketAddr};

use linerate_tcp::{App, CloseReason, Conn, Datagram, ErrorKind, Io, ResolveError, ResolveId, Resolver, UdpId};

use crate::network::Program;

/// A program over the stack.
pub struct OverStack<P> {
    /// The program.
    pub program: P,
    /// Looks names up, if there are any to look up.
    names: Option<Resolver>,
}

impl<P> OverStack<P> {
    /// A program without names.
    pub fn new(program: P) -> OverStack<P> {
        OverStack { program, names: None }
    }

    /// Begins to look names up by asking `servers`; [`OverStack::next_answer`] has the addresses, by the numbers that are returned.
    ///
    /// # Errors
    /// One of the names is none, there are more than 64, or no server is given.
    pub fn look_up(
        &mut self,
        names: &[String],
        servers: &[IpAddr],
        secret: [u8; 16],
        now_ns: u64,
    ) -> Result<Vec<ResolveId>, ResolveError> {
        let resolver = self.names.insert(Resolver::new(servers, secret));
        names.iter().map(|name| resolver.resolve(name, now_ns)).collect()
    }

    /// The oldest lookup that is done.
    pub fn next_answer(&mut self) -> Option<(ResolveId, Result<Vec<IpAddr>, ResolveError>)> {
        self.names.as_mut()?.next_answer()
    }
}

impl<P: Program> App for OverStack<P> {
    fn connected(&mut self, conn: Conn, io: &mut Io<'_>) {
        self.program.connected(conn, io);
    }

    fn received(&mut self, conn: Conn, data: &[u8], io: &mut Io<'_>) -> usize {
        self.program.received(conn, data, io)
    }

    fn sendable(&mut self, conn: Conn, io: &mut Io<'_>) {
        self.program.sendable(conn, io);
    }

    fn peer_closed(&mut self, conn: Conn, io: &mut Io<'_>) {
        self.program.peer_closed(conn, io);
    }

    fn closed(&mut self, conn: Conn, why: CloseReason, io: &mut Io<'_>) {
        self.program.closed(conn, why, io);
    }

    fn datagram(&mut self, socket: UdpId, from: SocketAddr, to: SocketAddr, data: &[u8], io: &mut Io<'_>) {
        match &mut self.names {
            Some(resolver) if resolver.owns(socket) => {
                let datagram = Datagram { socket, from, to, data: 0..data.len() };
                io.with_udp(|udp, _, out| resolver.receive(&datagram, data, udp, out.now_ns));
            }
            _ => self.program.datagram(socket, from, to, data, io),
        }
    }

    fn undelivered(&mut self, socket: UdpId, why: ErrorKind, io: &mut Io<'_>) {
        self.program.undelivered(socket, why, io);
    }

    fn tick(&mut self, io: &mut Io<'_>) {
        if let Some(resolver) = &mut self.names
            && resolver.next_deadline_ns() <= io.time_ns()
        {
            io.with_udp(|udp, ip, out| resolver.tick(udp, ip, out));
        }
        if self.program.next_deadline_ns() <= io.time_ns() {
            self.program.tick(io);
        }
    }

    fn next_deadline_ns(&self) -> u64 {
        let names_ns = self.names.as_ref().map_or(u64::MAX, Resolver::next_deadline_ns);
        self.program.next_deadline_ns().min(names_ns)
    }

    fn is_done(&self) -> bool {
        self.program.is_done()
    }
}
