//! What a program implements: callbacks on the thread of the stack.

use core::net::SocketAddr;

use linerate_ip::{ErrorKind, UdpId};

use crate::{CloseReason, Conn, Io, SoftError};

/// A program over the stack. The stack calls it while it works on a batch; nothing here may wait.
pub trait App {
    /// A connection stands, by `connect` or by a listener; [`Io::info`] says which, and the addresses.
    fn connected(&mut self, conn: Conn, io: &mut Io<'_>);

    /// Bytes arrived in order. Returns how many the program took. The rest is kept, counts against the window, and is offered again
    /// after [`Io::resume`].
    fn received(&mut self, conn: Conn, data: &[u8], io: &mut Io<'_>) -> usize;

    /// The peer marked bytes as urgent: the next `ahead` bytes that arrive, counted from those that were received in order before this call.
    /// They are handed over in line with all others.
    fn urgent(&mut self, conn: Conn, ahead: u32, io: &mut Io<'_>) {
        let _ = (conn, ahead, io);
    }

    /// Something is wrong that does not end the connection: routers complain, or the peer does not answer. Programs need not do anything.
    fn soft_error(&mut self, conn: Conn, error: SoftError, io: &mut Io<'_>) {
        let _ = (conn, error, io);
    }

    /// There is room again after a send that was cut short.
    fn sendable(&mut self, conn: Conn, io: &mut Io<'_>) {
        let _ = (conn, io);
    }

    /// The peer closed its direction; all its bytes were handed over before.
    fn peer_closed(&mut self, conn: Conn, io: &mut Io<'_>);

    /// The connection ended. This is the last call for it.
    fn closed(&mut self, conn: Conn, why: CloseReason, io: &mut Io<'_>);

    /// A datagram arrived at `to`, one of the stack's addresses; an answer leaves from there ([`Io::udp_send`]).
    fn datagram(&mut self, socket: UdpId, from: SocketAddr, to: SocketAddr, data: &[u8], io: &mut Io<'_>) {
        let _ = (socket, from, to, data, io);
    }

    /// A router, or the other host, says that a datagram of the socket was not delivered. Anybody can say so, and a lost datagram says nothing.
    fn undelivered(&mut self, socket: UdpId, why: ErrorKind, io: &mut Io<'_>) {
        let _ = (socket, why, io);
    }

    /// Called once a round if [`App::next_deadline_ns`] has come.
    fn tick(&mut self, io: &mut Io<'_>) {
        let _ = io;
    }

    /// Time at which [`App::tick`] is due, in nanoseconds of the worker's clock.
    fn next_deadline_ns(&self) -> u64 {
        u64::MAX
    }

    /// True if the program has nothing left to do; the worker then ends.
    fn is_done(&self) -> bool {
        false
    }
}
