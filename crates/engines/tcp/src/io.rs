//! What a program may ask of the stack.

use core::net::{IpAddr, SocketAddr};

use linerate_ip::{BindError, Ip, Output, SendError, Udp, UdpId};

use crate::engine::{Engine, Event};
use crate::receive::Settings;
use crate::{
    CloseReason, Conn, ConnectError, ConnectOptions, Counters, Flags, Info, Keepalive, ListenError, ListenOptions,
    Listener, send,
};

/// The stack, as a program sees it during a callback or [`crate::Stack::with`].
pub struct Io<'a> {
    engine: &'a mut Engine,
}

impl<'a> Io<'a> {
    pub(crate) fn new(engine: &'a mut Engine) -> Io<'a> {
        Io { engine }
    }

    /// Time of this round in nanoseconds.
    #[inline]
    pub fn time_ns(&self) -> u64 {
        self.engine.now.ns
    }

    /// Begins a connection. `connected` or `closed` follows.
    ///
    /// # Errors
    /// The addresses are wrong or in use, or the stack is full.
    pub fn connect(&mut self, options: ConnectOptions) -> Result<Conn, ConnectError> {
        self.engine.connect(&options)
    }

    /// Accepts connections to `address` (the unspecified address stands for all of the stack's).
    ///
    /// # Errors
    /// The address is in use or not one of this stack.
    pub fn listen(&mut self, address: SocketAddr, options: ListenOptions) -> Result<Listener, ListenError> {
        let ip = address.ip();
        let is_known = |known: IpAddr| known == ip;
        // An address that is still being probed for may be listened on.
        if !ip.is_unspecified() && !self.engine.egress.ip.addresses().any(|(known, ..)| is_known(known)) {
            return Err(ListenError::NotLocal);
        }
        self.engine.listeners.add(address, options)
    }

    /// Accepts nothing more; connections that stand stay.
    pub fn stop_listening(&mut self, listener: Listener) {
        self.engine.listeners.remove(listener);
    }

    /// Sends bytes, and returns how many were taken. If these are not all, `sendable` follows when there is room again.
    #[inline]
    pub fn send(&mut self, conn: Conn, bytes: &[u8]) -> usize {
        self.engine.write(conn, bytes)
    }

    /// Sends urgent bytes (RFC 9293 section 3.8.5), and returns how many were taken, as [`Io::send`]. The peer is told that urgent bytes are on the
    /// way up to the last of them, before they fit into its window. RFC 6093 advises new protocols against urgent data.
    pub fn send_urgent(&mut self, conn: Conn, bytes: &[u8]) -> usize {
        match self.engine.index_of(conn) {
            Some(index) => self.engine.write_urgent(index, bytes),
            None => 0,
        }
    }

    /// Asks for the memory of a connection that the program will send on soon: some ten calls ahead.
    #[inline]
    pub fn prefetch(&self, conn: Conn) {
        if self.engine.config.prefetch {
            self.engine.tcbs.prefetch(conn.index);
        }
    }

    /// Bytes that [`Io::send`] would take now.
    pub fn send_room(&self, conn: Conn) -> usize {
        let Some(index) = self.engine.index_of(conn) else { return 0 };
        let tcb = &self.engine.tcbs[index];
        if tcb.flags.any(Flags::FIN_QUEUED | Flags::FIN_SENT) { 0 } else { send::room(tcb, &self.engine.send) }
    }

    /// Closes this direction after the bytes that were sent; bytes may still be received. `closed` follows when both directions are closed.
    pub fn close(&mut self, conn: Conn) {
        if let Some(index) = self.engine.index_of(conn) {
            self.engine.close(index);
        }
    }

    /// Ends the connection at once with RST. `closed` follows with `Aborted`.
    pub fn abort(&mut self, conn: Conn) {
        if let Some(index) = self.engine.index_of(conn) {
            self.engine.abort(index, CloseReason::Aborted);
        }
    }

    /// Offers bytes again that `received` did not take.
    pub fn resume(&mut self, conn: Conn) {
        if let Some(index) =
            self.engine.index_of(conn).filter(|index| self.engine.tcbs[*index].flags.has(Flags::PAUSED))
        {
            self.engine.events.push_back(Event::Resume(index));
        }
    }

    /// The program's word of a connection. It can still be read in `closed`.
    #[inline]
    pub fn token(&self, conn: Conn) -> u64 {
        self.engine.tcbs.get(conn.index).filter(|tcb| tcb.generation == conn.generation).map_or(0, |tcb| tcb.token)
    }

    /// Sets the program's word of a connection.
    #[inline]
    pub fn set_token(&mut self, conn: Conn, token: u64) {
        if let Some(index) = self.engine.index_of(conn) {
            self.engine.tcbs[index].token = token;
        }
    }

    /// Sends small segments at once (true), or by Nagle's algorithm.
    pub fn set_nodelay(&mut self, conn: Conn, nodelay: bool) {
        if let Some(index) = self.engine.index_of(conn) {
            self.engine.tcbs[index].flags.put(Flags::NODELAY, nodelay);
            self.engine.touch(index);
        }
    }

    /// Sets when a silent peer is probed; `None`, as at first: never.
    pub fn set_keepalive(&mut self, conn: Conn, keepalive: Option<Keepalive>) {
        if let Some(index) = self.engine.index_of(conn) {
            self.engine.set_keepalive(index, keepalive);
        }
    }

    /// Sets the differentiated services code point of the connection's segments (RFC 2474), of which the low six bits count; 0 at first. False
    /// if the connection has ended, or there is no memory to keep it.
    pub fn set_dscp(&mut self, conn: Conn, dscp: u8) -> bool {
        self.set(conn, |settings| settings.dscp = dscp & 63)
    }

    /// Sets the time to live, or hop limit, of the connection's segments, at least 1; 64 at first. False as for [`Io::set_dscp`].
    pub fn set_hop_limit(&mut self, conn: Conn, hop_limit: u8) -> bool {
        self.set(conn, |settings| settings.hop_limit = hop_limit.max(1))
    }

    /// Sets how long a peer may leave segments, or probes of its window, without an answer before the connection ends (R2 of RFC 9293), in
    /// milliseconds; `None`, as at first: as the stack's configuration has it. Also for the SYN. False as for [`Io::set_dscp`].
    pub fn set_user_timeout(&mut self, conn: Conn, timeout_ms: Option<u32>) -> bool {
        self.set(conn, |settings| settings.user_timeout_ms = timeout_ms)
    }

    fn set(&mut self, conn: Conn, change: impl FnOnce(&mut Settings)) -> bool {
        self.engine.index_of(conn).is_some_and(|index| self.engine.set(index, change))
    }

    /// Opens a UDP socket: bound to `local`, or to a port that is free, and connected to `remote` if there is one.
    ///
    /// # Errors
    /// The address or port is in use, not one of this stack, or there is no way to `remote`.
    pub fn udp_open(&mut self, local: Option<SocketAddr>, remote: Option<SocketAddr>) -> Result<UdpId, BindError> {
        self.engine.egress.udp_open(local, remote, self.engine.now)
    }

    /// Sends a datagram by a socket: to `to` if the socket is not connected, from the address `from` if it is bound to all.
    ///
    /// # Errors
    /// There is no way, or no room; the socket is closed.
    #[inline]
    pub fn udp_send(
        &mut self,
        socket: UdpId,
        from: Option<IpAddr>,
        to: Option<SocketAddr>,
        data: &[u8],
    ) -> Result<(), SendError> {
        self.engine.egress.udp_send(socket, from, to, data, self.engine.now)
    }

    /// Closes a UDP socket.
    pub fn udp_close(&mut self, socket: UdpId) {
        self.engine.egress.udp.close(socket);
    }

    /// Calls `work` with the layer below, for what sends datagrams of its own, as a resolver does.
    pub fn with_udp<R>(&mut self, work: impl FnOnce(&mut Udp, &mut Ip, &mut Output<'_>) -> R) -> R {
        self.engine.egress.with_udp(self.engine.now, work)
    }

    /// Counts of datagrams.
    pub fn udp_counters(&self) -> linerate_ip::UdpCounters {
        *self.engine.egress.udp.counters()
    }

    /// Counts of frames: what became of each that came in.
    pub fn frame_counters(&self) -> linerate_ip::Counters {
        self.engine.egress.ip.counters()
    }

    /// What is known of a connection; `None` if it has ended.
    pub fn info(&self, conn: Conn) -> Option<Info> {
        self.engine.index_of(conn).map(|index| self.engine.info(index))
    }

    /// Counters of the stack.
    pub fn counters(&self) -> Counters {
        self.engine.counters
    }

    /// Counters of the send sides: retransmissions by cause, recoveries, probes.
    pub fn send_counters(&self) -> send::SendCounters {
        *self.engine.send.counters()
    }

    /// What the send side knows of a connection; `None` if it has ended.
    pub fn send_info(&self, conn: Conn) -> Option<send::SendInfo> {
        let index = self.engine.index_of(conn)?;
        Some(send::info(&self.engine.tcbs[index], &self.engine.send))
    }

    /// Connections that there are, without those in TIME-WAIT.
    pub fn connections(&self) -> usize {
        self.engine.connections()
    }

    /// Connections in TIME-WAIT.
    pub fn time_waits(&self) -> usize {
        self.engine.time_waits.len()
    }

    /// Bytes kept for sending and for receiving.
    pub fn memory_bytes(&self) -> (usize, usize) {
        (self.engine.send.used_bytes(), self.engine.receive.used_bytes())
    }

    /// The connection with index `index`, from 0 on, for listings; `None` if there is none with this index.
    pub fn connection_at(&self, index: u32) -> Option<Conn> {
        self.engine.connection_at(index)
    }

    /// Indexes of connections are below this number.
    pub fn connection_indexes(&self) -> u32 {
        self.engine.tcbs.high_water() as u32
    }

    /// The layer below: its addresses, counters, events.
    pub fn ip(&mut self) -> &mut Ip {
        self.engine.egress.ip_mut()
    }
}
