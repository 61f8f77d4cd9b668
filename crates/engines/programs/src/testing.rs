//! A client for tests of servers: it sends what it was given, closes, and keeps what comes back.

use core::net::SocketAddr;

use linerate_tcp::{CloseReason, Conn};

use crate::network::{Network, Program, Remote};

pub(crate) struct Talker {
    to: SocketAddr,
    text: Vec<u8>,
    sent: usize,
    pub(crate) received: Vec<u8>,
    pub(crate) ended: Option<CloseReason>,
}

impl Talker {
    pub(crate) fn new(to: SocketAddr, text: &[u8]) -> Talker {
        Talker { to, text: text.to_vec(), sent: 0, received: Vec::new(), ended: None }
    }

    fn go_on<N: Network>(&mut self, conn: Conn, network: &mut N) {
        self.sent += network.send(conn, &self.text[self.sent..]);
        if self.sent == self.text.len() {
            network.close(conn);
        }
    }
}

impl Program for Talker {
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
        network.connect(Remote::plain(self.to), 0).map(drop).map_err(|error| error.to_string())
    }

    fn connected<N: Network>(&mut self, conn: Conn, network: &mut N) {
        self.go_on(conn, network);
    }

    fn received<N: Network>(&mut self, _: Conn, data: &[u8], _: &mut N) -> usize {
        self.received.extend_from_slice(data);
        data.len()
    }

    fn sendable<N: Network>(&mut self, conn: Conn, network: &mut N) {
        self.go_on(conn, network);
    }

    fn peer_closed<N: Network>(&mut self, conn: Conn, network: &mut N) {
        network.close(conn);
    }

    fn closed<N: Network>(&mut self, _: Conn, why: CloseReason, _: &mut N) {
        self.ended = Some(why);
    }

    fn is_done(&self) -> bool {
        self.ended.is_some()
    }
}
