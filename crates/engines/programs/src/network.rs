//! Between a program and the stack: what a program is, and what it may ask for.
//!
//! [`Program`] and [`Network`] are `linerate_tcp::App` and `linerate_tcp::Io` with the network as a type parameter. So a program runs over the
//! stack ([`OverStack`](crate::OverStack)), and over two queues of bytes in tests (`loopback.rs`), and each combination is compiled by itself:
//! there is no dynamic call.

use core::net::{IpAddr, SocketAddr};

use linerate_tcp::{
    BindError, CloseReason, Conn, ConnectError, ConnectOptions, ErrorKind, Io, ListenError, ListenOptions, Listener,
    SendError, UdpId,
};

/// What a program may ask of the stack. Each call does nothing for a connection that has ended.
pub trait Network {
    /// Time of this round in nanoseconds.
    fn time_ns(&self) -> u64;

    /// Begins a connection whose word is `token`. `connected` (under TLS, after its handshake) or `closed` follows.
    ///
    /// # Errors
    /// The addresses are wrong, all local ports are in use, or the stack is full.
    fn connect(&mut self, to: Remote<'_>, token: u64) -> Result<Conn, ConnectError>;

    /// True if connections can be under TLS.
    fn has_tls(&self) -> bool {
        false
    }

    /// True if TLS ended the connection: its certificate is not trusted, or the peer does not speak it.
    fn tls_failed(&self, conn: Conn) -> bool {
        let _ = conn;
        false
    }

    /// Accepts connections at `address`; the unspecified address stands for all of the stack's. Their word is `token`.
    ///
    /// # Errors
    /// The address is in use or not one of the stack.
    fn listen(&mut self, address: SocketAddr, token: u64) -> Result<Listener, ListenError>;

    /// Accepts nothing more there; connections that stand stay.
    fn stop_listening(&mut self, listener: Listener);

    /// Sends bytes, and returns how many were taken. If these are not all, `sendable` follows when there is room again.
    fn send(&mut self, conn: Conn, bytes: &[u8]) -> usize;

    /// Closes this direction after the bytes that were sent.
    fn close(&mut self, conn: Conn);

    /// Ends the connection at once with RST. `closed` follows.
    fn abort(&mut self, conn: Conn);

    /// Offers bytes again that `received` did not take.
    fn resume(&mut self, conn: Conn);

    /// The program's word of a connection; 0 if it has ended.
    fn token(&self, conn: Conn) -> u64;

    /// Sets the program's word of a connection.
    fn set_token(&mut self, conn: Conn, token: u64);

    /// Local and remote address of a connection; `None` if it has ended.
    fn addresses(&self, conn: Conn) -> Option<(SocketAddr, SocketAddr)>;

    /// Opens a UDP socket at `local`, or at a port that is free, for datagrams to and from `remote`, or anybody.
    ///
    /// # Errors
    /// The address or port is in use or not one of the stack, there is no way to `remote`, or there are too many sockets.
    fn udp_open(&mut self, local: Option<SocketAddr>, remote: Option<SocketAddr>) -> Result<UdpId, BindError>;

    /// Sends a datagram: to `to` if the socket is for anybody, from the address `from` if it is at all addresses.
    ///
    /// # Errors
    /// There is no way, or no room now; the socket is closed.
    fn udp_send(
        &mut self,
        socket: UdpId,
        from: Option<IpAddr>,
        to: Option<SocketAddr>,
        data: &[u8],
    ) -> Result<(), SendError>;

    /// Closes a UDP socket.
    fn udp_close(&mut self, socket: UdpId);
}

/// Where a connection goes.
#[derive(Clone, Copy, Debug)]
pub struct Remote<'a> {
    /// The server.
    pub address: SocketAddr,
    /// Own address; the stack chooses if there is none.
    pub local: Option<IpAddr>,
    /// Name of the server, for a connection under TLS ([`Network::has_tls`]).
    pub tls: Option<&'a str>,
}

impl Remote<'_> {
    /// A connection without TLS, from any address.
    pub fn plain(address: SocketAddr) -> Remote<'static> {
        Remote { address, local: None, tls: None }
    }
}

/// A program: callbacks on the thread of the stack, of which none may wait.
pub trait Program {
    /// The first call.
    ///
    /// # Errors
    /// The program cannot do its work, in words.
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String>;

    /// A connection stands, by `connect` or by a listener.
    fn connected<N: Network>(&mut self, conn: Conn, network: &mut N);

    /// Bytes arrived in order. Returns how many the program took; the rest is offered again after [`Network::resume`].
    fn received<N: Network>(&mut self, conn: Conn, data: &[u8], network: &mut N) -> usize;

    /// There is room again after a send that was cut short.
    fn sendable<N: Network>(&mut self, conn: Conn, network: &mut N);

    /// The peer closed its direction; all its bytes were handed over before.
    fn peer_closed<N: Network>(&mut self, conn: Conn, network: &mut N);

    /// The connection ended. This is the last call for it; its word can still be read.
    fn closed<N: Network>(&mut self, conn: Conn, why: CloseReason, network: &mut N);

    /// A datagram arrived at `to`, one of the stack's addresses.
    fn datagram<N: Network>(&mut self, socket: UdpId, from: SocketAddr, to: SocketAddr, data: &[u8], network: &mut N) {
        let _ = (socket, from, to, data, network);
    }

    /// Somebody says by ICMP that a datagram of this socket was not delivered.
    fn undelivered<N: Network>(&mut self, socket: UdpId, why: ErrorKind, network: &mut N) {
        let _ = (socket, why, network);
    }

    /// The address of a name that the user gave, before the first call.
    fn resolved(&mut self, name: &str, address: IpAddr) {
        let _ = (name, address);
    }

    /// Called if [`Program::next_deadline_ns`] has come.
    fn tick<N: Network>(&mut self, network: &mut N) {
        let _ = network;
    }

    /// Time at which `tick` is due; `u64::MAX` if there is none.
    fn next_deadline_ns(&self) -> u64 {
        u64::MAX
    }

    /// Begins nothing more, so that it comes to its end soon: the user asked for that.
    fn stop<N: Network>(&mut self, network: &mut N) {
        let _ = network;
    }

    /// True if there is nothing left to do.
    fn is_done(&self) -> bool {
        false
    }
}

impl Network for Io<'_> {
    fn time_ns(&self) -> u64 {
        self.time_ns()
    }

    fn connect(&mut self, to: Remote<'_>, token: u64) -> Result<Conn, ConnectError> {
        let options = ConnectOptions { local: to.local, token, nodelay: true, ..ConnectOptions::new(to.address) };
        Io::connect(self, options)
    }

    fn listen(&mut self, address: SocketAddr, token: u64) -> Result<Listener, ListenError> {
        Io::listen(self, address, ListenOptions { nodelay: true, token, ..ListenOptions::default() })
    }

    fn stop_listening(&mut self, listener: Listener) {
        Io::stop_listening(self, listener);
    }

    fn send(&mut self, conn: Conn, bytes: &[u8]) -> usize {
        Io::send(self, conn, bytes)
    }

    fn close(&mut self, conn: Conn) {
        Io::close(self, conn);
    }

    fn abort(&mut self, conn: Conn) {
        Io::abort(self, conn);
    }

    fn resume(&mut self, conn: Conn) {
        Io::resume(self, conn);
    }

    fn token(&self, conn: Conn) -> u64 {
        Io::token(self, conn)
    }

    fn set_token(&mut self, conn: Conn, token: u64) {
        Io::set_token(self, conn, token);
    }

    fn addresses(&self, conn: Conn) -> Option<(SocketAddr, SocketAddr)> {
        Io::info(self, conn).map(|info| (info.local, info.remote))
    }

    fn udp_open(&mut self, local: Option<SocketAddr>, remote: Option<SocketAddr>) -> Result<UdpId, BindError> {
        Io::udp_open(self, local, remote)
    }

    fn udp_send(
        &mut self,
        socket: UdpId,
        from: Option<IpAddr>,
        to: Option<SocketAddr>,
        data: &[u8],
    ) -> Result<(), SendError> {
        Io::udp_send(self, socket, from, to, data)
    }

    fn udp_close(&mut self, socket: UdpId) {
        Io::udp_close(self, socket);
    }
}
