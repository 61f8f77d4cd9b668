//! What a program may ask of the stack.

use core::net::SocketAddr;

use crate::engine::Engine;
use crate::{Conn, ConnectError, ConnectOptions, Counters, Info, ListenError, ListenOptions, Listener};

/// The stack, as a program sees it during a callback or [`crate::Stack::with`].
pub struct Io<'a> {
    engine: &'a mut Engine,
}

impl<'a> Io<'a> {
    pub(crate) fn new(engine: &'a mut Engine) -> Io<'a> {
        Io { engine }
    }

    /// Time of this round in nanoseconds.
    pub fn time_ns(&self) -> u64 {
        self.engine.now.ns
    }

    /// Begins a connection. `connected` or `closed` follows.
    ///
    /// # Errors
    /// The addresses are wrong or in use, or the stack is full.
    pub fn connect(&mut self, options: ConnectOptions) -> Result<Conn, ConnectError> {
        let _ = options;
        Err(ConnectError::NoRoute)
    }

    /// Accepts connections to `address` (the unspecified address stands for all of the stack's).
    ///
    /// # Errors
    /// The address is in use or not one of this stack.
    pub fn listen(&mut self, address: SocketAddr, options: ListenOptions) -> Result<Listener, ListenError> {
        let _ = (address, options);
        Err(ListenError::NotLocal)
    }

    /// Accepts nothing more; connections that stand stay.
    pub fn stop_listening(&mut self, listener: Listener) {
        let _ = listener;
    }

    /// Sends bytes, and returns how many were taken. If these are not all, `sendable` follows when there is room again.
    pub fn send(&mut self, conn: Conn, bytes: &[u8]) -> usize {
        let _ = (conn, bytes);
        0
    }

    /// Bytes that [`Io::send`] would take now.
    pub fn send_room(&self, conn: Conn) -> usize {
        let _ = conn;
        0
    }

    /// Closes this direction after the bytes that were sent; bytes may still be received. `closed` follows when both directions are closed.
    pub fn close(&mut self, conn: Conn) {
        let _ = conn;
    }

    /// Ends the connection at once with RST. `closed` follows with `Aborted`.
    pub fn abort(&mut self, conn: Conn) {
        let _ = conn;
    }

    /// Offers bytes again that `received` did not take.
    pub fn resume(&mut self, conn: Conn) {
        let _ = conn;
    }

    /// The program's word of a connection; 0 if it has ended.
    pub fn token(&self, conn: Conn) -> u64 {
        let _ = conn;
        0
    }

    /// Sets the program's word of a connection.
    pub fn set_token(&mut self, conn: Conn, token: u64) {
        let _ = (conn, token);
    }

    /// Sends small segments at once (true), or by Nagle's algorithm.
    pub fn set_nodelay(&mut self, conn: Conn, nodelay: bool) {
        let _ = (conn, nodelay);
    }

    /// Probes a peer that was silent for `idle_ms` every `interval_ms`, and ends the connection after `probes` without an answer;
    /// `None` ends that.
    pub fn set_keepalive(&mut self, conn: Conn, keepalive: Option<Keepalive>) {
        let _ = (conn, keepalive);
    }

    /// What is known of a connection; `None` if it has ended.
    pub fn info(&self, conn: Conn) -> Option<Info> {
        let _ = conn;
        None
    }

    /// Counters of the stack.
    pub fn counters(&self) -> Counters {
        self.engine.counters
    }

    /// Connections that there are, without those in TIME-WAIT.
    pub fn connections(&self) -> usize {
        0
    }

    /// The connection with index `index` (from 0 to the most that there ever were), for listings.
    pub fn connection_at(&self, index: u32) -> Option<Conn> {
        let _ = index;
        None
    }
}

/// When a silent peer is probed (RFC 9293 section 3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe, in milliseconds.
    pub idle_ms: u32,
    /// Time between probes, in milliseconds.
    pub interval_ms: u32,
    /// Probes without an answer after which the connection ends.
    pub probes: u32,
}
