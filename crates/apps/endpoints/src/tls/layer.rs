//! The network as a program under TLS sees it.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use linerate_programs::{Network, Remote, Table, TlsDocument};
use linerate_tcp::{BindError, Conn, ConnectError, ListenError, Listener, SendError, UdpId};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

use super::session::Session;

/// The word of connections that a listener accepted and that have no session yet; the number of the listener's word stands below.
const LISTENER: u64 = 1 << 32;
/// A connection that failed has so long to take the alert that says why.
const ALERT_NS: u64 = 1_000_000_000;

/// The state of TLS over all connections.
pub(super) struct Layer {
    server: Option<Arc<ServerConfig>>,
    client: Option<Arc<ClientConfig>>,
    /// By the word that the stack has, less one.
    pub(super) sessions: Table<Session>,
    /// Words of the program's listeners.
    listeners: Vec<u64>,
    /// Sessions whose program asked for the bytes that it did not take.
    pub(super) resumed: Vec<u32>,
    /// Connections that failed, and when they are reset.
    failed: VecDeque<(u64, Conn)>,
    pub(super) document: TlsDocument,
}

impl Layer {
    pub(super) fn new(server: Option<Arc<ServerConfig>>, client: Option<Arc<ClientConfig>>) -> Layer {
        Layer {
            server,
            client,
            sessions: Table::default(),
            listeners: Vec::new(),
            resumed: Vec::new(),
            failed: VecDeque::new(),
            document: TlsDocument::default(),
        }
    }

    /// Number of the session that `conn` has.
    pub(super) fn number<N: Network>(&self, conn: Conn, network: &N) -> Option<u32> {
        let number = (network.token(conn) as u32).wrapping_sub(1);
        self.sessions.get(number).is_some_and(|session| session.conn == conn).then_some(number)
    }

    /// A connection of TCP stands. True if the program's stands with it.
    pub(super) fn begin<N: Network>(&mut self, conn: Conn, network: &mut N) -> bool {
        let word = network.token(conn);
        let (number, tls) = if word >= LISTENER {
            let token = self.listeners.get((word - LISTENER) as usize).copied().unwrap_or(0);
            let number = self.sessions.insert(Session::new(conn, token, false));
            network.set_token(conn, u64::from(number) + 1);
            (number, self.server.clone().map(|config| ServerConnection::new(config).map(rustls::Connection::from)))
        } else {
            let Some(number) = self.number(conn, network) else { return false };
            let name = self.sessions.get_mut(number).and_then(|session| session.server_name.take());
            let config = self.client.clone();
            let tls = name.zip(config).map(|(name, config)| ClientConnection::new(config, name));
            (number, tls.map(|tls| tls.map(rustls::Connection::from)))
        };
        let Some(session) = self.sessions.get_mut(number) else { return false };
        match tls {
            None => {
                session.known = true;
                true
            }
            Some(Ok(tls)) => {
                session.tls = Some(Box::new(tls));
                session.flush(network);
                false
            }
            Some(Err(error)) => {
                self.fail(number, &error.to_string(), network);
                false
            }
        }
    }

    /// TLS does not go on with a connection. The alert that says why leaves before it is closed.
    pub(super) fn fail<N: Network>(&mut self, number: u32, error: &str, network: &mut N) {
        let Some(session) = self.sessions.get_mut(number).filter(|session| !session.failed) else { return };
        self.document.fail(error);
        session.failed = true;
        session.closing = true;
        session.kept = Vec::new();
        session.flush(network);
        self.failed.push_back((network.time_ns() + ALERT_NS, session.conn));
    }

    /// Resets those that failed and whose peer did not close.
    pub(super) fn give_up<N: Network>(&mut self, network: &mut N) {
        let now_ns = network.time_ns();
        while let Some((_, conn)) = self.failed.pop_front_if(|(due_ns, _)| *due_ns <= now_ns) {
            network.abort(conn);
        }
    }

    pub(super) fn next_deadline_ns(&self) -> u64 {
        self.failed.front().map_or(u64::MAX, |(due_ns, _)| *due_ns)
    }
}

/// The network of a program under TLS.
pub(super) struct Secured<'a, N> {
    pub(super) layer: &'a mut Layer,
    pub(super) network: &'a mut N,
}

impl<N: Network> Secured<'_, N> {
    fn session(&mut self, conn: Conn) -> Option<(u32, &mut Session, &mut N)> {
        let number = self.layer.number(conn, self.network)?;
        Some((number, self.layer.sessions.get_mut(number)?, self.network))
    }
}

impl<N: Network> Network for Secured<'_, N> {
    fn time_ns(&self) -> u64 {
        self.network.time_ns()
    }

    fn connect(&mut self, to: Remote<'_>, token: u64) -> Result<Conn, ConnectError> {
        let mut session = Session::new(Conn { index: u32::MAX, generation: 0 }, token, true);
        if let Some(name) = to.tls {
            let name = ServerName::try_from(name.to_owned());
            session.server_name = Some(name.unwrap_or_else(|_| ServerName::IpAddress(to.address.ip().into())));
        }
        let number = self.layer.sessions.insert(session);
        let begun = self.network.connect(Remote { tls: None, ..to }, u64::from(number) + 1);
        match begun {
            Ok(conn) => {
                if let Some(session) = self.layer.sessions.get_mut(number) {
                    session.conn = conn;
                }
            }
            Err(_) => drop(self.layer.sessions.remove(number)),
        }
        begun
    }

    fn has_tls(&self) -> bool {
        self.layer.client.is_some()
    }

    fn tls_failed(&self, conn: Conn) -> bool {
        let number = self.layer.number(conn, self.network);
        number.and_then(|number| self.layer.sessions.get(number)).is_some_and(|session| session.failed)
    }

    fn listen(&mut self, address: SocketAddr, token: u64) -> Result<Listener, ListenError> {
        self.layer.listeners.push(token);
        self.network.listen(address, LISTENER + self.layer.listeners.len() as u64 - 1)
    }

    fn stop_listening(&mut self, listener: Listener) {
        self.network.stop_listening(listener);
    }

    fn send(&mut self, conn: Conn, bytes: &[u8]) -> usize {
        match self.session(conn) {
            Some((_, session, network)) if session.tls.is_none() => network.send(conn, bytes),
            Some((_, session, network)) if session.known && !session.closing => session.encrypt(bytes, network),
            _ => 0,
        }
    }

    fn close(&mut self, conn: Conn) {
        let Some((_, session, network)) = self.session(conn) else { return };
        match &mut session.tls {
            Some(tls) if !session.closing => {
                tls.send_close_notify();
                session.closing = true;
                session.flush(network);
            }
            Some(_) => {}
            None => network.close(conn),
        }
    }

    fn abort(&mut self, conn: Conn) {
        self.network.abort(conn);
    }

    fn resume(&mut self, conn: Conn) {
        let Some((number, session, network)) = self.session(conn) else { return };
        if session.tls.is_none() {
            network.resume(conn);
        } else if std::mem::take(&mut session.paused) {
            self.layer.resumed.push(number);
        }
    }

    fn token(&self, conn: Conn) -> u64 {
        let number = self.layer.number(conn, self.network);
        number.and_then(|number| self.layer.sessions.get(number)).map_or(0, |session| session.token)
    }

    fn set_token(&mut self, conn: Conn, token: u64) {
        if let Some((_, session, _)) = self.session(conn) {
            session.token = token;
        }
    }

    fn addresses(&self, conn: Conn) -> Option<(SocketAddr, SocketAddr)> {
        self.network.addresses(conn)
    }

    // Datagrams pass through.

    fn udp_open(&mut self, local: Option<SocketAddr>, remote: Option<SocketAddr>) -> Result<UdpId, BindError> {
        self.network.udp_open(local, remote)
    }

    fn udp_send(
        &mut self,
        socket: UdpId,
        from: Option<IpAddr>,
        to: Option<SocketAddr>,
        data: &[u8],
    ) -> Result<(), SendError> {
        self.network.udp_send(socket, from, to, data)
    }

    fn udp_close(&mut self, socket: UdpId) {
        self.network.udp_close(socket);
    }
}
