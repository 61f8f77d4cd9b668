//! Body of the fuzz target `http`: any bytes as what a client sends to the HTTP server, and as what a server answers to a load. Also run by the
//! tests of `linerate-programs`.
//!
//! The first byte is the length of the pieces in which the rest arrives. Bytes that arrive in pieces mean what they mean in one piece.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use linerate_programs::load::{Client, Config};
use linerate_programs::serve::{HttpServer, Server, Site};
use linerate_programs::{Network, Program, Remote};
use linerate_tcp::{BindError, CloseReason, Conn, ConnectError, ListenError, Listener, SendError, UdpId};

/// A network that takes everything, and keeps what was sent on the first connection.
#[derive(Default)]
struct Wire {
    tokens: Vec<u64>,
    sent: Vec<u8>,
    closed: bool,
    aborted: bool,
}

const FIRST: Conn = Conn { index: 0, generation: 0 };

impl Network for Wire {
    fn time_ns(&self) -> u64 {
        1_000_000_000
    }

    fn connect(&mut self, _: Remote<'_>, token: u64) -> Result<Conn, ConnectError> {
        self.tokens.push(token);
        Ok(Conn { index: self.tokens.len() as u32 - 1, generation: 0 })
    }

    fn listen(&mut self, _: SocketAddr, _: u64) -> Result<Listener, ListenError> {
        Ok(Listener(0))
    }

    fn stop_listening(&mut self, _: Listener) {}

    fn send(&mut self, conn: Conn, bytes: &[u8]) -> usize {
        if conn == FIRST {
            self.sent.extend_from_slice(bytes);
        }
        bytes.len()
    }

    fn close(&mut self, conn: Conn) {
        self.closed |= conn == FIRST;
    }

    fn abort(&mut self, conn: Conn) {
        self.aborted |= conn == FIRST;
    }

    fn resume(&mut self, _: Conn) {}

    fn token(&self, conn: Conn) -> u64 {
        self.tokens.get(conn.index as usize).copied().unwrap_or(0)
    }

    fn set_token(&mut self, conn: Conn, token: u64) {
        if let Some(place) = self.tokens.get_mut(conn.index as usize) {
            *place = token;
        }
    }

    fn addresses(&self, _: Conn) -> Option<(SocketAddr, SocketAddr)> {
        None
    }

    fn udp_open(&mut self, _: Option<SocketAddr>, _: Option<SocketAddr>) -> Result<UdpId, BindError> {
        Err(BindError::TooMany)
    }

    fn udp_send(&mut self, _: UdpId, _: Option<IpAddr>, _: Option<SocketAddr>, _: &[u8]) -> Result<(), SendError> {
        Err(SendError::Closed)
    }

    fn udp_close(&mut self, _: UdpId) {}
}

/// Feeds both sides, in one piece and in pieces.
pub fn run(data: &[u8]) {
    let Some((piece, bytes)) = data.split_first() else { return };
    let piece = usize::from(*piece).max(1);
    let whole = bytes.len().max(1);
    assert_eq!(serve(bytes, whole), serve(bytes, piece), "the server, in pieces of {piece}");
    assert_eq!(load(bytes, whole), load(bytes, piece), "the load, in pieces of {piece}");
}

/// What the server answers, whether it closes, its requests and its errors.
fn serve(bytes: &[u8], piece: usize) -> (Vec<u8>, bool, u64, u64) {
    let mut wire = Wire { tokens: vec![0], ..Wire::default() };
    let mut server = HttpServer::new(Vec::new(), Site::of_len(3), 0);
    server.connected(FIRST, &mut wire);
    for piece in bytes.chunks(piece) {
        assert_eq!(server.received(FIRST, piece, &mut wire), piece.len(), "the server waits for room that it has");
    }
    server.peer_closed(FIRST, &mut wire);
    server.closed(FIRST, CloseReason::Normal, &mut wire);
    let served = server.served();
    assert!(served.requests >= served.errors && !wire.aborted);
    (wire.sent, wire.closed, served.requests, served.errors)
}

/// What the load asked, how it ended the connection, answers by status, and answers that are right and wrong.
type Loaded = (Vec<u8>, bool, bool, Vec<(u16, u64)>, u64, u64);

fn load(bytes: &[u8], piece: usize) -> Loaded {
    const TEXT: &str = "pipeline = 2\ncount = 6\n[[request]]\nurl = \"http://1.2.3.4/\"\nexpect-bytes = 3\n\
        [[request]]\nurl = \"http://1.2.3.4/\"\nmethod = \"HEAD\"\n";
    let plan = Config::parse(TEXT).and_then(|config| config.plan()).expect("a load");
    let (mut wire, mut client) = (Wire::default(), Client::new(Arc::new(plan)));
    client.start(&mut wire).expect("a start");
    client.connected(FIRST, &mut wire);
    for piece in bytes.chunks(piece) {
        if !wire.aborted {
            assert_eq!(client.received(FIRST, piece, &mut wire), piece.len());
        }
    }
    if !wire.aborted {
        client.peer_closed(FIRST, &mut wire);
    }
    let why = if wire.aborted { CloseReason::Aborted } else { CloseReason::Normal };
    client.closed(FIRST, why, &mut wire);
    let (connections, requests) = client.accounts();
    assert!(connections.balances() && requests.balances(), "{connections:?}\n{requests:?}");
    let meters = client.meters();
    let statuses = meters.statuses.iter().map(|(status, count)| (*status, *count)).collect();
    let completed = meters.kinds.iter().map(|kind| kind.completed).sum();
    let errors = meters.kinds.iter().map(|kind| kind.errors).sum();
    (wire.sent, wire.closed, wire.aborted, statuses, completed, errors)
}
