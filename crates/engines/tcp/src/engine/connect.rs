//! Connections that begin: by `connect`, or by a SYN that a listener takes.

use linerate_ip::{HopId, NoRoute};

use super::timers::UNKNOWN;
use super::{Engine, IS_TIME_WAIT};
use crate::cookie::Agreed;
use crate::time::NEVER;
use crate::tuple::Tuple;
use crate::{CloseReason, Conn, ConnectError, ConnectOptions, Flags, Seq, State, Tcb, send};

/// Milliseconds in TIME-WAIT after which addresses and ports may be connected from again.
const REUSE_AFTER_MS: u32 = 1_000;
/// Whose bucket is asked for when a port is chosen: that of the port that so many connections to the same destination later is tried first.
const PORTS_AHEAD: u32 = 8;

/// What is known when a block is made.
pub(crate) struct Beginning {
    pub(crate) tuple: Tuple,
    pub(crate) hop: HopId,
    pub(crate) state: State,
    pub(crate) flags: Flags,
    /// Initial sequence number of this side; that of [`Engine::start_numbers`] if there is none.
    pub(crate) iss: Option<Seq>,
    pub(crate) token: u64,
}

impl Engine {
    /// Begins a connection.
    pub(crate) fn connect(&mut self, options: &ConnectOptions) -> Result<Conn, ConnectError> {
        let remote = options.remote;
        let is_other_family = options.local.is_some_and(|local| local.is_ipv4() != remote.is_ipv4());
        if remote.port() == 0 || is_other_family || !self.egress.ip.is_host(remote.ip()) {
            return Err(ConnectError::BadAddress);
        }
        let (hop, local) = self.egress.hop(options.local, remote.ip(), self.now).map_err(|error| match error {
            NoRoute::NotOurs => ConnectError::NotLocal,
            NoRoute::Destination => ConnectError::BadAddress,
            NoRoute::NoAddress | NoRoute::NoGateway | NoRoute::NeighboursFull => ConnectError::NoRoute,
        })?;
        let mut tuple = Tuple::new((local, options.local_port).into(), remote);
        let mut iss = None;
        if options.local_port == 0 {
            tuple.local_port = self.choose_port(&tuple)?;
        } else if let Some(value) = self.find(&tuple) {
            iss = Some(self.reuse(value).ok_or(ConnectError::InUse)?);
        }
        let mut flags = Flags::KNOWN | Flags::TIMESTAMPS | Flags::SACK | Flags::WINDOW_SCALE;
        flags.put(Flags::NODELAY, options.nodelay);
        flags.put(Flags::ECN, self.config.ecn);
        let beginning = Beginning { tuple, hop, state: State::SynSent, flags, iss, token: options.token };
        let index = self.begin(beginning).ok_or(ConnectError::Full)?;
        if !send::open(&mut self.tcbs[index], &mut self.send) {
            self.tcbs[index].flags.clear(Flags::KNOWN);
            self.end(index, CloseReason::Aborted);
            return Err(ConnectError::Full);
        }
        self.counters.active_opens += 1;
        self.touch(index);
        Ok(self.conn(index))
    }

    /// Forgets the TIME-WAIT record that `value` of the table names, and returns the first number of the next connection of these addresses and
    /// ports; `None` if they are in use. Timestamps tell segments of both connections apart (RFC 6191 section 2, for the side that connects),
    /// a second after the last one of the old connection at the earliest.
    fn reuse(&mut self, value: u32) -> Option<Seq> {
        if value & IS_TIME_WAIT == 0 {
            return None;
        }
        let place = value & !IS_TIME_WAIT;
        let record = *self.time_waits.get(place);
        let waited_ms = self.config.time_wait_ms.saturating_sub(record.until.wrapping_sub(self.now.tick));
        if !record.timestamps || waited_ms < REUSE_AFTER_MS {
            return None;
        }
        let iss = record.next_start(self.start_numbers(&self.tuple_of_record(place)).0);
        self.forget(place);
        self.counters.time_wait_recycled += 1;
        Some(iss)
    }

    fn choose_port(&mut self, tuple: &Tuple) -> Result<u16, ConnectError> {
        let mut candidates = self.ports.candidates(tuple);
        let shard = self.config.ip.shard;
        let free = candidates.find(|port| {
            let tuple = Tuple { local_port: *port, ..*tuple };
            // Answers are to reach this shard.
            (shard.of() == 1 || shard.owner(tuple.fold()) == shard.number()) && self.find(&tuple).is_none()
        });
        if self.config.prefetch && !tuple.v6 {
            let ports = u32::from(candidates.later(PORTS_AHEAD)) << 16 | u32::from(tuple.remote_port);
            self.prefetch_bucket(self.hash_v4(tuple.local as u32, tuple.remote as u32, ports));
        }
        self.ports.taken(&candidates);
        free.ok_or(ConnectError::NoPort)
    }

    /// Makes a block and enters it into the table; `None` if either is full.
    pub(crate) fn begin(&mut self, beginning: Beginning) -> Option<u32> {
        let Beginning { tuple, hop, state, mut flags, iss, token } = beginning;
        let (isn, ts_offset) = self.start_numbers(&tuple);
        let iss = iss.unwrap_or(Seq(isn));
        let mut remote = tuple.remote as u32;
        if tuple.v6 {
            let Some(pair) = self.pairs.insert([tuple.local, tuple.remote]) else {
                self.counters.table_full += 1;
                return None;
            };
            remote = pair;
            flags.set(Flags::V6);
        }
        if self.silence.begin(self.now) {
            self.due_ns.set(UNKNOWN);
        }
        self.serial = self.serial.wrapping_add(1);
        let tcb = Tcb {
            remote,
            local: tuple.local as u32,
            remote_port: tuple.remote_port,
            local_port: tuple.local_port,
            flags,
            state,
            generation: self.serial,
            filed: self.tcbs.vacant().map_or(NEVER, |last| last.filed),
            snd_una: iss,
            snd_nxt: iss,
            ts_offset,
            hop,
            token,
            mss: if tuple.v6 { 1220.min(self.mss6) } else { 536.min(self.mss4) },
            ..Tcb::default()
        };
        let hash = self.hash(&tuple);
        let inserted = self.tcbs.insert(tcb);
        if let Some(index) = inserted {
            if self.table.insert(hash, index) {
                return inserted;
            }
            self.tcbs[index].state = State::Closed;
            self.free(index);
        }
        if tuple.v6 {
            self.pairs.remove(remote);
        }
        self.counters.table_full += 1;
        None
    }

    /// Notes what both sides agreed on: MSS (as far as the path takes it), options, scales. `irs` is the peer's initial number.
    pub(crate) fn agree(&mut self, index: u32, irs: Seq, agreed: &Agreed) {
        let tuple = self.tuple(index);
        let header = if tuple.v6 { 60 } else { 40 };
        let path = self.egress.ip.path_mtu(tuple.remote_ip()).saturating_sub(header);
        let without_path = agreed.mss.min(if tuple.v6 { self.mss6 } else { self.mss4 });
        let share = self.receive.free_bytes() / 2;
        let window = share.min(self.config.receive_window_max as usize).clamp(2048, usize::from(u16::MAX)) as u32;
        let tcb = &mut self.tcbs[index];
        tcb.flags.put(Flags::SACK, agreed.sack);
        tcb.flags.put(Flags::TIMESTAMPS, agreed.timestamps);
        tcb.flags.put(Flags::WINDOW_SCALE, agreed.window_scale.is_some());
        tcb.flags.put(Flags::ECN, agreed.ecn);
        tcb.scales = agreed.window_scale.map_or(0, |scale| scale | self.window_shift << 4);
        tcb.mss = agreed.mss.min(path).max(48);
        if without_path > tcb.mss {
            send::mtu_is_known(tcb, &mut self.send, without_path);
        }
        tcb.rcv_nxt = irs + 1;
        tcb.ack_sent = tcb.rcv_nxt;
        tcb.rcv_edge = tcb.rcv_nxt + window;
    }
}
