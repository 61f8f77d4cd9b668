//! Everything of a stack but the program: connections, tables, timers, memory, and what programs may do to connections.

mod answer;
mod connect;
mod emit;
mod end;
mod fresh;
mod icmp;
mod query;
mod reply;
mod silence;
mod syn;
mod timers;
mod window;

pub(crate) use connect::Beginning;
pub(crate) use syn::syn_options;

use std::cell::Cell;
use std::collections::VecDeque;

use linerate_ip::{ErrorKind, UdpId, Usual4};
use linerate_mem::Pool;
use linerate_slab::{Fifo, PopulateError, Slab, TagTable, Wheel};

use crate::cookie::Cookies;
use crate::egress::Egress;
use crate::hash::{Key, TableKey};
use crate::listen::Listeners;
use crate::ports::Ports;
use crate::receive::ReceiveMemory;
use crate::send::{self, SendMemory};
use crate::time_wait::{Record, TimeWaits};
use crate::tuple::Tuple;
use crate::{CloseReason, Conn, Counters, Flags, NONE, Now, SoftError, StackConfig, StackError, State, Tcb};

/// Bit of a value of the table: it names a TIME-WAIT record, not a control block.
pub(crate) const IS_TIME_WAIT: u32 = 1 << 31;

/// Least capacity of the timer wheel. Entries of deadlines that moved to an earlier tick stay until theirs, so it needs more entries than
/// there are blocks.
const WHEEL_ENTRIES_MIN: usize = 1 << 25;
/// Short segments that are not acknowledged, and TIME-WAIT records, of preallocated connections, at most.
const BUSY_MAX: usize = 65_536;

/// Something that the program is to be told when it can be called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The connection ended; its block is freed when the program knows.
    Closed(u32, CloseReason),
    /// There is room again after a write that was cut short.
    Sendable(u32),
    /// The program asked for bytes that it did not take before.
    Resume(u32),
    /// Something is wrong that does not end the connection.
    SoftError(Conn, SoftError),
    /// A datagram of this socket did not arrive, as ICMP says.
    Undelivered(UdpId, ErrorKind),
}

/// Connections, tables, timers and memory of a stack.
pub(crate) struct Engine {
    pub(crate) config: StackConfig,
    pub(crate) counters: Counters,
    pub(crate) now: Now,
    pub(crate) egress: Egress,
    pub(crate) tcbs: Slab<Tcb>,
    /// Local and remote addresses of IPv6 connections.
    pairs: Slab<[u128; 2]>,
    table: TagTable,
    table_key: TableKey,
    isn_key: Key,
    pub(crate) send: SendMemory,
    pub(crate) receive: ReceiveMemory,
    pub(crate) time_waits: TimeWaits,
    pub(crate) listeners: Listeners,
    pub(crate) cookies: Cookies,
    ports: Ports,
    fresh: fresh::Fresh,
    wheel: Wheel,
    silence: silence::Silence,
    acks: Fifo<DelayedAck>,
    /// When the first of these is due, or earlier, in nanoseconds; [`timers::UNKNOWN`] if that has to be found out.
    due_ns: Cell<u64>,
    /// Connections that may have something to send; each has the flag `TOUCHED`.
    pub(crate) touched: Vec<u32>,
    /// Connections in TIME-WAIT whose last acknowledgment waits for a frame or for room.
    pub(crate) owing: VecDeque<(Tuple, Record)>,
    supply: emit::Supply,
    pub(crate) events: VecDeque<Event>,
    /// Where bytes lie while the program looks at them.
    pub(crate) scratch: Vec<u8>,
    /// Where a segment lies that came in fragments.
    pub(crate) datagram: Vec<u8>,
    /// Generation of the connection that was begun last.
    serial: u32,
    /// Largest segment that this side takes: from the MTU, without options.
    pub(crate) mss4: u16,
    pub(crate) mss6: u16,
    /// Shift of the windows of this side.
    pub(crate) window_shift: u8,
}

impl Engine {
    pub(crate) fn new(mut config: StackConfig, pool: Pool) -> Result<Engine, StackError> {
        check(&config)?;
        config.send.connections_max = config.connections_max;
        let (connections, time_waits) = (config.connections_max, config.time_wait_max);
        let window_shift = (0..14).find(|shift| 65_535 << shift >= config.receive_window_max).unwrap_or(14);
        let egress = Egress::new(&config, pool)?;
        let mut engine = Engine {
            counters: Counters::default(),
            now: Now::default(),
            tcbs: Slab::new(connections)?,
            pairs: Slab::new(connections + time_waits)?,
            table: TagTable::new(connections + time_waits)?,
            table_key: TableKey::derive(config.secret, 1),
            isn_key: Key::derive(config.secret, 2),
            send: SendMemory::new(config.send.clone())?,
            receive: ReceiveMemory::new(connections, config.receive_budget_bytes)?,
            time_waits: TimeWaits::new(time_waits)?,
            listeners: Listeners::default(),
            cookies: Cookies::new(config.secret),
            ports: Ports::new(config.secret),
            fresh: fresh::Fresh::new(),
            wheel: Wheel::new(WHEEL_ENTRIES_MIN.max(8 * connections), 0)?,
            silence: silence::Silence::default(),
            acks: Fifo::new(2 * connections)?,
            due_ns: Cell::new(timers::UNKNOWN),
            touched: Vec::with_capacity(1024),
            owing: VecDeque::new(),
            supply: emit::Supply::default(),
            events: VecDeque::with_capacity(256),
            scratch: Vec::with_capacity(2048),
            datagram: Vec::new(),
            serial: 0,
            mss4: egress.mtu().saturating_sub(40).max(48),
            mss6: egress.mtu().saturating_sub(60).max(48),
            window_shift,
            egress,
            config,
        };
        match engine.config.preallocated_connections {
            0 => {}
            connections => {
                let refused = |source| StackError::Preallocate { connections, source };
                engine.preallocate(connections).map_err(refused)?;
            }
        }
        Ok(engine)
    }

    /// Takes the memory of so many connections now: blocks, the table, an entry of the wheel and one more for an earlier deadline, a delayed
    /// acknowledgment; and of those that begin, send or end at the same time, [`BUSY_MAX`] at most, a short segment and a TIME-WAIT record.
    fn preallocate(&mut self, connections: usize) -> Result<(), PopulateError> {
        self.tcbs.populate(connections)?;
        if self.config.ip.ipv6 {
            self.pairs.populate(connections)?;
        }
        self.table.populate()?;
        self.wheel.populate(2 * connections)?;
        self.acks.populate(connections)?;
        self.send.populate(connections.min(BUSY_MAX))?;
        self.time_waits.populate(connections.min(BUSY_MAX))
    }

    /// Begins a call into the stack.
    #[inline]
    pub(crate) fn set_now(&mut self, now_ns: u64) {
        self.now = Now::new(now_ns);
        // The clock of a host may have run for weeks when the stack is made, or while no connection stood.
        self.wheel.restart(self.now.tick);
    }

    /// Index of a connection that stands; `None` if it has ended.
    #[inline]
    pub(crate) fn index_of(&self, conn: Conn) -> Option<u32> {
        let tcb = self.tcbs.get(conn.index)?;
        (tcb.generation == conn.generation && tcb.state != State::Closed).then_some(conn.index)
    }

    /// The name of a connection.
    #[inline]
    pub(crate) fn conn(&self, index: u32) -> Conn {
        Conn { index, generation: self.tcbs[index].generation }
    }

    /// Addresses and ports of a connection.
    #[inline]
    pub(crate) fn tuple(&self, index: u32) -> Tuple {
        tuple_of(&self.tcbs[index], &self.pairs)
    }

    /// Hash of an IPv4 connection in the table.
    #[inline]
    pub(crate) fn hash_v4(&self, local: u32, remote: u32, ports: u32) -> u64 {
        self.table_key.v4(local, remote, ports)
    }

    /// Hash of a connection in the table.
    pub(crate) fn hash(&self, tuple: &Tuple) -> u64 {
        self.table_key.tuple(tuple)
    }

    /// Hash of a connection that stands, in the table.
    #[inline]
    fn hash_of(&self, index: u32) -> u64 {
        let tcb = &self.tcbs[index];
        if tcb.flags.has(Flags::V6) {
            return self.hash(&self.tuple(index));
        }
        self.hash_v4(tcb.local, tcb.remote, u32::from(tcb.local_port) << 16 | u32::from(tcb.remote_port))
    }

    /// Asks for the bucket of a hash.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, hash: u64) {
        self.table.prefetch(hash);
    }

    /// Index of the block that a lookup will probably find, or [`NONE`]. It, or the record of TIME-WAIT, is asked for if `prefetch` says so.
    #[inline]
    pub(crate) fn probable_block(&self, hash: u64, prefetch: bool) -> u32 {
        let Some(value) = self.table.candidate(hash) else { return NONE };
        if value & IS_TIME_WAIT != 0 {
            if prefetch {
                self.time_waits.prefetch(value & !IS_TIME_WAIT);
            }
            return NONE;
        }
        if prefetch {
            self.tcbs.prefetch(value);
        }
        value
    }

    /// Asks for the oldest chunk of a connection whose block is in the cache.
    #[inline]
    pub(crate) fn prefetch_chunk(&self, index: u32) {
        if let Some(tcb) = self.tcbs.get(index) {
            self.send.prefetch(tcb);
        }
    }

    /// `index`, if it is that of the connection of a usual segment.
    #[inline]
    pub(crate) fn usual_connection(&self, index: u32, segment: &Usual4<'_>) -> Option<u32> {
        let tcb = self.tcbs.get(index)?;
        // As the two lie in the block, so that they are one word.
        let ports = u32::from(tcb.local_port) << 16 | u32::from(tcb.remote_port);
        let ports = ports ^ segment.ports().rotate_left(16);
        let addresses = u64::from(tcb.local) << 32 | u64::from(tcb.remote);
        let is_same = (addresses == segment.addresses().rotate_left(32)) & (ports == 0);
        (is_same & !tcb.flags.has(Flags::V6)).then_some(index)
    }

    /// Finds the connection or TIME-WAIT record of an IPv4 segment.
    #[inline]
    pub(crate) fn find_v4(&self, hash: u64, local: u32, remote: u32, ports: u32) -> Option<u32> {
        self.table.find(hash, |value| {
            if value & IS_TIME_WAIT != 0 {
                return self.time_waits.is_v4(value & !IS_TIME_WAIT, local, remote, ports);
            }
            let tcb = &self.tcbs[value];
            let tcb_ports = u32::from(tcb.local_port) << 16 | u32::from(tcb.remote_port);
            (tcb.remote == remote) & (tcb.local == local) & (tcb_ports == ports) & !tcb.flags.has(Flags::V6)
        })
    }

    /// Finds the connection or TIME-WAIT record of a tuple.
    pub(crate) fn find(&self, tuple: &Tuple) -> Option<u32> {
        self.find_hashed(self.hash(tuple), tuple)
    }

    /// As [`Engine::find`], if the hash is known.
    pub(crate) fn find_hashed(&self, hash: u64, tuple: &Tuple) -> Option<u32> {
        if !tuple.v6 {
            return self.find_v4(hash, tuple.local as u32, tuple.remote as u32, tuple.ports());
        }
        self.table.find(hash, |value| {
            if value & IS_TIME_WAIT != 0 {
                let record = self.time_waits.get(value & !IS_TIME_WAIT);
                let pair = record.pair.and_then(|pair| self.pairs.get(pair));
                return pair == Some(&[tuple.local, tuple.remote]) && record.ports() == tuple.ports();
            }
            self.tcbs[value].flags.has(Flags::V6) && self.tuple(value) == *tuple
        })
    }

    /// Puts a connection into the list of those that may have something to send.
    #[inline]
    pub(crate) fn touch(&mut self, index: u32) {
        self.tcbs[index].touch(index, &mut self.touched);
    }

    /// True if connections wait for a frame or for room in the output.
    #[inline]
    pub(crate) fn has_touched(&self) -> bool {
        !self.touched.is_empty() | !self.owing.is_empty()
    }

    /// Bytes to send; returns how many were taken.
    #[inline]
    pub(crate) fn write(&mut self, conn: Conn, bytes: &[u8]) -> usize {
        const OTHER: Flags = Flags(Flags::ACK_AT_ONCE.0 | Flags::FIN_QUEUED.0 | Flags::FIN_SENT.0);
        let Engine { tcbs, send, touched, .. } = self;
        let Some(tcb) = tcbs.get_mut(conn.index) else { return 0 };
        let is_other = (tcb.generation != conn.generation) | tcb.flags.any(OTHER);
        // A list that is full is not made longer here: after a call that does not return at once, everything would have to be at hand.
        if is_other | (touched.len() == touched.capacity()) || !send::takes_small(tcb, send, bytes.len()) {
            return self.write_to(conn, bytes);
        }
        tcb.touch(conn.index, touched);
        send::write_small(tcb, send, bytes);
        bytes.len()
    }

    #[inline(never)]
    fn write_to(&mut self, conn: Conn, bytes: &[u8]) -> usize {
        self.index_of(conn).map_or(0, |index| self.write_any(index, bytes))
    }

    #[inline]
    fn write_any(&mut self, index: u32, bytes: &[u8]) -> usize {
        let tcb = &mut self.tcbs[index];
        // The program answers within the delay after all, so the next acknowledgment waits for its data again.
        if tcb.flags.has(Flags::ACK_AT_ONCE) && (tcb.ack_due.wrapping_sub(self.now.tick as u16) as i16) > 0 {
            tcb.flags.clear(Flags::ACK_AT_ONCE);
        }
        if tcb.flags.any(Flags::FIN_QUEUED | Flags::FIN_SENT) || bytes.is_empty() {
            return 0;
        }
        let taken = send::write(tcb, &mut self.send, bytes, self.now);
        self.touch(index);
        taken
    }

    /// As [`Engine::write`], of urgent bytes: the urgent pointer points behind the last of those that were taken.
    pub(crate) fn write_urgent(&mut self, index: u32, bytes: &[u8]) -> usize {
        let tcb = &mut self.tcbs[index];
        if self.receive.record(&mut tcb.recv).is_none() {
            return 0;
        }
        let taken = self.write_any(index, bytes);
        let tcb = &mut self.tcbs[index];
        if let Some(record) = self.receive.get_mut(tcb.recv).filter(|_| taken > 0) {
            // A SYN that is not acknowledged is in the queue, too.
            record.urgent = Some(tcb.snd_una + tcb.queued);
            // The peer is told at once, also if its window is closed (RFC 9293 section 3.8.5).
            if tcb.is_synchronized() {
                tcb.flags.set(Flags::ACK_NOW);
            }
        }
        self.receive.clean(&mut tcb.recv, self.now.tick);
        taken
    }

    /// Tells the program of something that does not end the connection.
    pub(crate) fn soft_error(&mut self, index: u32, error: SoftError) {
        if self.tcbs[index].flags.has(Flags::KNOWN) {
            let conn = self.conn(index);
            self.events.push_back(Event::SoftError(conn, error));
        }
    }

    /// The secrets that connections need below the table: initial sequence number and offset of the timestamps' clock (RFC 6528,
    /// RFC 7323 section 5.4). They are the same for the same addresses and ports, but for the time in the first.
    pub(crate) fn start_numbers(&self, tuple: &Tuple) -> (u32, u32) {
        let hash = if tuple.v6 {
            self.isn_key.tuple(tuple)
        } else {
            self.isn_key.v4(tuple.local as u32, tuple.remote as u32, tuple.ports())
        };
        // A clock of 4 microseconds, as RFC 6528 has it.
        let clock = (self.now.ns / 4_000) as u32;
        (clock.wrapping_add(hash as u32), (hash >> 32) as u32)
    }
}

/// Entry of the queue of delayed acknowledgments.
#[derive(Clone, Copy, Debug)]
struct DelayedAck {
    index: u32,
    /// Low 16 bits of the generation.
    generation: u16,
    /// Low 16 bits of the tick.
    due: u16,
}

/// Addresses and ports of a connection.
#[inline]
fn tuple_of(tcb: &Tcb, pairs: &Slab<[u128; 2]>) -> Tuple {
    let v6 = tcb.flags.has(Flags::V6);
    let [local, remote] = if v6 { pairs[tcb.remote] } else { [tcb.local.into(), tcb.remote.into()] };
    Tuple { local, remote, local_port: tcb.local_port, remote_port: tcb.remote_port, v6 }
}

fn check(config: &StackConfig) -> Result<(), StackError> {
    let in_range = |what, value: usize, min: usize, max: usize| match (min..=max).contains(&value) {
        true => Ok(()),
        false => Err(StackError::Range { what, min, max }),
    };
    in_range("connections_max", config.connections_max, 1, 1 << 28)?;
    in_range("preallocated_connections", config.preallocated_connections, 0, config.connections_max)?;
    in_range("time_wait_max", config.time_wait_max, 1, 1 << 28)?;
    in_range("output_packets", config.output_packets, 1, 1 << 20)?;
    in_range("batch", config.batch, 1, 64)?;
    in_range("ack_delay_ms", config.ack_delay_ms as usize, 0, 499)?;
    in_range("receive_window_max", config.receive_window_max as usize, 2048, 1 << 30)?;
    in_range("receive_budget_bytes", config.receive_budget_bytes, 1 << 16, 1 << 42)
}
