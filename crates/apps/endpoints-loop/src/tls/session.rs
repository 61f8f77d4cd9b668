//! A connection under TLS, or one that passes through.

use std::io::{self, Write};

use linerate_programs::Network;
use linerate_tcp::{CloseReason, Conn};
use rustls::Connection;
use rustls::pki_types::ServerName;

/// A connection.
pub(super) struct Session {
    pub(super) conn: Conn,
    /// The program's word.
    pub(super) token: u64,
    /// Its server, until the client's part of TLS begins.
    pub(super) server_name: Option<ServerName<'static>>,
    pub(super) tls: Option<Box<Connection>>,
    /// This side began it.
    pub(super) is_client: bool,
    /// The program was told that it stands.
    pub(super) known: bool,
    /// The program did not take all bytes, and has not asked for the others.
    pub(super) paused: bool,
    /// Decrypted bytes that the program did not take.
    pub(super) kept: Vec<u8>,
    /// Bytes wait in the stack until the program takes those before.
    pub(super) holds_up: bool,
    /// The program's last send was cut short.
    pub(super) blocked: bool,
    /// The program closed; FIN follows when everything is sent.
    pub(super) closing: bool,
    /// The peer's `close_notify`.
    pub(super) close_notify: bool,
    /// FIN of the peer.
    pub(super) fin: bool,
    /// The program was told of the peer's end.
    pub(super) end_told: bool,
    /// TLS ended it.
    pub(super) failed: bool,
}

impl Session {
    pub(super) fn new(conn: Conn, token: u64, is_client: bool) -> Session {
        Session {
            conn,
            token,
            server_name: None,
            tls: None,
            is_client,
            known: false,
            paused: false,
            kept: Vec::new(),
            holds_up: false,
            blocked: false,
            closing: false,
            close_notify: false,
            fin: false,
            end_told: false,
            failed: false,
        }
    }

    /// True if the program is to be told of the end: it knows the connection.
    pub(super) fn is_expected(&self) -> bool {
        self.is_client || self.known || self.tls.is_none()
    }

    /// Why it ended, as the program is to see it.
    pub(super) fn reason(&self, why: CloseReason) -> CloseReason {
        match why {
            CloseReason::Normal if self.failed => CloseReason::Aborted,
            // Both sides had said that nothing follows. A peer that is gone by then answers our `close_notify` with a reset.
            CloseReason::Reset if self.closing && self.close_notify && !self.failed => CloseReason::Normal,
            _ => why,
        }
    }

    /// Encrypts bytes and sends what there is room for; returns how many were taken.
    pub(super) fn encrypt<N: Network>(&mut self, bytes: &[u8], network: &mut N) -> usize {
        let mut taken = 0;
        while taken < bytes.len() {
            let Some(tls) = &mut self.tls else { break };
            // It takes as much as its buffer has room for.
            let written = tls.writer().write(&bytes[taken..]).unwrap_or(0);
            self.flush(network);
            if written == 0 {
                break;
            }
            taken += written;
        }
        self.blocked |= taken < bytes.len();
        taken
    }

    /// Sends what is encrypted, and FIN after it if the program closed.
    pub(super) fn flush<N: Network>(&mut self, network: &mut N) {
        let conn = self.conn;
        let Some(tls) = &mut self.tls else { return };
        while tls.wants_write() && tls.write_tls(&mut Outgoing { conn, network }).is_ok_and(|sent| sent > 0) {}
        if !tls.wants_write() && self.closing {
            network.close(conn);
        }
    }

    /// True, once, if the program waits for room that there is now.
    pub(super) fn has_room_again(&mut self) -> bool {
        let has_room = self.tls.as_ref().is_none_or(|tls| !tls.wants_write());
        has_room && (self.tls.is_none() || std::mem::take(&mut self.blocked))
    }
}

/// The stack as rustls sees it.
struct Outgoing<'a, N> {
    conn: Conn,
    network: &'a mut N,
}

impl<N: Network> Write for Outgoing<'_, N> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.network.send(self.conn, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
