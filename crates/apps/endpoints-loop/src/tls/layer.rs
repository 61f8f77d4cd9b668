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
/// A client has so long for its part of the handshake, so that those that never end do not pile up.
const HANDSHAKE_NS: u64 = 10_000_000_000;
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
    /// Connections that were accepted, and when their handshake is to be done. Those that are done stay until they are in front.
    accepted: VecDeque<(u64, Conn)>,
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
            accepted: VecDeque::new(),
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
            if self.server.is_some() {
                self.expect_handshake(conn, network);
            }
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

    /// Notes when the handshake of a new connection is to be done.
    fn expect_handshake<N: Network>(&mut self, conn: Conn, network: &N) {
        while self.accepted.front().is_some_and(|(_, conn)| !self.is_in_handshake(*conn, network)) {
            self.accepted.pop_front();
        }
        self.accepted.push_back((network.time_ns() + HANDSHAKE_NS, conn));
    }

    fn is_in_handshake<N: Network>(&self, conn: Conn, network: &N) -> bool {
        let session = self.number(conn, network).and_then(|number| self.sessions.get(number));
        session.is_some_and(|session| !session.known && !session.failed)
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

    /// Ends handshakes that took too long, and resets connections that failed and whose peer did not close.
    pub(super) fn give_up<N: Network>(&mut self, network: &mut N) {
        let now_ns = network.time_ns();
        while let Some((_, conn)) = self.accepted.pop_front_if(|(due_ns, _)| *due_ns <= now_ns) {
            if self.is_in_handshake(conn, network)
                && let Some(number) = self.number(conn, network)
            {
                self.fail(number, "the handshake took more than 10 s", network);
            }
        }
        while let Some((_, conn)) = self.failed.pop_front_if(|(due_ns, _)| *due_ns <= now_ns) {
            network.abort(conn);
        }
    }

    pub(super) fn next_deadline_ns(&self) -> u64 {
        let first = |queue: &VecDeque<(u64, Conn)>| queue.front().map_or(u64::MAX, |(due_ns, _)| *due_ns);
        first(&self.failed).min(first(&self.accepted))
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rustls::crypto::ring::default_provider;
    use rustls::pki_types::PrivatePkcs8KeyDer;

    use super::*;

    const S: u64 = 1_000_000_000;

    /// Connections by number, with their words; what is sent goes nowhere.
    #[derive(Default)]
    struct Stack {
        now_ns: u64,
        words: BTreeMap<u32, u64>,
        closed: Vec<u32>,
        aborted: Vec<u32>,
    }

    impl Network for Stack {
        fn time_ns(&self) -> u64 {
            self.now_ns
        }

        fn connect(&mut self, _: Remote<'_>, _: u64) -> Result<Conn, ConnectError> {
            unimplemented!("the server accepts")
        }

        fn listen(&mut self, _: SocketAddr, _: u64) -> Result<Listener, ListenError> {
            unimplemented!("connections come by themselves")
        }

        fn stop_listening(&mut self, _: Listener) {}

        fn send(&mut self, _: Conn, bytes: &[u8]) -> usize {
            bytes.len()
        }

        fn close(&mut self, conn: Conn) {
            self.closed.push(conn.index);
        }

        fn abort(&mut self, conn: Conn) {
            self.aborted.push(conn.index);
        }

        fn resume(&mut self, _: Conn) {}

        fn token(&self, conn: Conn) -> u64 {
            self.words.get(&conn.index).copied().unwrap_or(LISTENER)
        }

        fn set_token(&mut self, conn: Conn, token: u64) {
            self.words.insert(conn.index, token);
        }

        fn addresses(&self, _: Conn) -> Option<(SocketAddr, SocketAddr)> {
            None
        }

        fn udp_open(&mut self, _: Option<SocketAddr>, _: Option<SocketAddr>) -> Result<UdpId, BindError> {
            unimplemented!("no datagrams")
        }

        fn udp_send(&mut self, _: UdpId, _: Option<IpAddr>, _: Option<SocketAddr>, _: &[u8]) -> Result<(), SendError> {
            unimplemented!("no datagrams")
        }

        fn udp_close(&mut self, _: UdpId) {}
    }

    #[test]
    fn handshakes_that_never_end_are_given_up() {
        let made = rcgen::generate_simple_self_signed(["198.18.5.1".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let (mut layer, mut stack) = (Layer::new(Some(Arc::new(config)), None), Stack::default());
        layer.listeners.push(7);
        for index in 0..3 {
            stack.now_ns = u64::from(index) * S;
            assert!(!layer.begin(Conn { index, generation: 0 }, &mut stack), "its handshake is to come");
        }
        // The second one is done.
        let done = layer.number(Conn { index: 1, generation: 0 }, &stack).unwrap();
        layer.sessions.get_mut(done).unwrap().known = true;
        assert_eq!(layer.next_deadline_ns(), 10 * S);
        stack.now_ns = 11 * S;
        layer.give_up(&mut stack);
        assert_eq!((&stack.closed[..], stack.aborted.len()), (&[0][..], 0));
        stack.now_ns = 12 * S;
        layer.give_up(&mut stack);
        assert_eq!((&stack.closed[..], &stack.aborted[..]), (&[0, 2][..], &[0][..]));
        stack.now_ns = 60 * S;
        layer.give_up(&mut stack);
        assert_eq!((&stack.closed[..], &stack.aborted[..]), (&[0, 2][..], &[0, 2][..]));
        assert_eq!(layer.next_deadline_ns(), u64::MAX);
        assert_eq!(layer.document.failed, 2);
        // A queue of connections that are done is not kept.
        for index in 10..1000 {
            layer.begin(Conn { index, generation: 0 }, &mut stack);
            let number = layer.number(Conn { index, generation: 0 }, &stack).unwrap();
            layer.sessions.get_mut(number).unwrap().known = true;
        }
        assert_eq!(layer.accepted.len(), 1);
    }
}
