//! What packets pass of the test of datagrams: an end that sends back what arrives.

use std::net::SocketAddr;

use linerate_ip::UdpId;
use linerate_tcp::{App, CloseReason, Conn, Io};

/// Sends back what arrives.
pub struct Returns {
    /// The socket that it has.
    pub socket: Option<UdpId>,
    /// Whether datagrams are sent back; else they end here.
    pub goes_on: bool,
    /// Datagrams that arrived.
    pub received: u64,
    /// Datagrams that were sent.
    pub sent: u64,
}

impl Default for Returns {
    /// Without a socket.
    fn default() -> Returns {
        Returns { socket: None, goes_on: true, received: 0, sent: 0 }
    }
}

impl Returns {
    /// Sends a datagram; false if that is not possible now.
    pub fn send(&mut self, io: &mut Io<'_>) -> bool {
        let sent = self.socket.is_some_and(|socket| io.udp_send(socket, None, None, b"x").is_ok());
        self.sent += u64::from(sent);
        sent
    }
}

impl App for Returns {
    fn connected(&mut self, _: Conn, _: &mut Io<'_>) {}

    fn received(&mut self, _: Conn, data: &[u8], _: &mut Io<'_>) -> usize {
        data.len()
    }

    fn peer_closed(&mut self, _: Conn, _: &mut Io<'_>) {}

    fn closed(&mut self, _: Conn, _: CloseReason, _: &mut Io<'_>) {}

    #[inline]
    fn datagram(&mut self, _: UdpId, _: SocketAddr, _: SocketAddr, _: &[u8], io: &mut Io<'_>) {
        self.received += 1;
        if self.goes_on {
            self.send(io);
        }
    }
}
