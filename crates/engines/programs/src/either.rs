//! One of two programs, chosen when it starts.
//!
//! The stack, its worker and its control are compiled for each type of program that they run. A command that runs one of several programs names
//! one type by this, so that they are compiled once for all of them; a comparison for each call is what it costs.

use core::net::{IpAddr, SocketAddr};

use linerate_tcp::{CloseReason, Conn, ErrorKind, UdpId};

use crate::network::{Network, Program};
use crate::reports::Reports;
use crate::tls::TlsDocument;

/// One of two programs.
pub enum Either<A, B> {
    /// The first one.
    Left(A),
    /// The second one.
    Right(B),
}

/// The same call of whichever it is.
macro_rules! both {
    ($either:expr, $program:ident => $call:expr) => {
        match $either {
            Either::Left($program) => $call,
            Either::Right($program) => $call,
        }
    };
}

impl<A: Program, B: Program> Program for Either<A, B> {
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
        both!(self, program => program.start(network))
    }

    fn connected<N: Network>(&mut self, conn: Conn, network: &mut N) {
        both!(self, program => program.connected(conn, network));
    }

    fn received<N: Network>(&mut self, conn: Conn, data: &[u8], network: &mut N) -> usize {
        both!(self, program => program.received(conn, data, network))
    }

    fn sendable<N: Network>(&mut self, conn: Conn, network: &mut N) {
        both!(self, program => program.sendable(conn, network));
    }

    fn peer_closed<N: Network>(&mut self, conn: Conn, network: &mut N) {
        both!(self, program => program.peer_closed(conn, network));
    }

    fn closed<N: Network>(&mut self, conn: Conn, why: CloseReason, network: &mut N) {
        both!(self, program => program.closed(conn, why, network));
    }

    fn datagram<N: Network>(&mut self, socket: UdpId, from: SocketAddr, to: SocketAddr, data: &[u8], network: &mut N) {
        both!(self, program => program.datagram(socket, from, to, data, network));
    }

    fn undelivered<N: Network>(&mut self, socket: UdpId, why: ErrorKind, network: &mut N) {
        both!(self, program => program.undelivered(socket, why, network));
    }

    fn resolved(&mut self, name: &str, address: IpAddr) {
        both!(self, program => program.resolved(name, address));
    }

    fn tick<N: Network>(&mut self, network: &mut N) {
        both!(self, program => program.tick(network));
    }

    fn next_deadline_ns(&self) -> u64 {
        both!(self, program => program.next_deadline_ns())
    }

    fn stop<N: Network>(&mut self, network: &mut N) {
        both!(self, program => program.stop(network));
    }

    fn is_done(&self) -> bool {
        both!(self, program => program.is_done())
    }
}

impl<A: Reports, B: Reports<Document = A::Document, Reading = A::Reading>> Reports for Either<A, B> {
    type Document = A::Document;
    type Reading = A::Reading;
    const SCHEMA: &'static str = A::SCHEMA;
    const SAVES_CPU: bool = A::SAVES_CPU && B::SAVES_CPU;
    const ONLY_LISTENS: bool = A::ONLY_LISTENS && B::ONLY_LISTENS;

    fn reading(&self, now_ns: u64) -> A::Reading {
        both!(self, program => program.reading(now_ns))
    }

    fn document(readings: &[A::Reading]) -> A::Document {
        A::document(readings)
    }

    fn tls(&self) -> Option<TlsDocument> {
        both!(self, program => program.tls())
    }
}
