//! The stack: a datapath of one port, with the program on top.
//!
//! A batch is worked on in passes of at most 64 packets, each in three stages, so that memory arrives while others are worked on:
//! ```text
//! 1  headers are read, connections hashed    buckets are asked for
//! 2  tags are compared                       both lines of the control blocks are asked for
//! 3  segments are worked on                  the oldest chunk of the one after next is asked for
//! ```
//! At the end, every connection that was touched sends what it has: one acknowledgment for all its segments in the batch.

use linerate_ip::{Fast4, Inbound, Usual4, UsualSyn4};
use linerate_mem::{Batch, Checksum, Pool};
use linerate_port::{Context, Datapath, PortIndex};
use linerate_wire::Protocol;

use crate::arrival::{Arrival, Kind, plain, ports, prepare, prepare_own, tuple};
use crate::arrive::{self, Plain};
use crate::engine::{Engine, IS_TIME_WAIT};
use crate::owners::Sieve;
use crate::segment::Segment;
use crate::tuple::Tuple;
use crate::{App, Io, NONE, Seq, StackConfig, StackError, State};

/// Packets of a pass.
const PASS: usize = 64;

/// One shard: connections, and the program over them. It serves one port, number 0.
pub struct Stack<A: App> {
    engine: Engine,
    app: A,
    arrivals: Box<[Arrival; PASS]>,
    /// The block that the last segment that came alone belonged to: the next one probably belongs to it, too.
    last: u32,
}

impl<A: App> Stack<A> {
    /// A stack that sends frames of `pool`, the pool of its port.
    ///
    /// # Errors
    /// There is no memory for so many connections, or the configuration makes no sense.
    pub fn new(config: StackConfig, pool: &Pool, app: A) -> Result<Stack<A>, StackError> {
        let (engine, arrivals) = (Engine::new(config, pool.clone())?, Box::new([Arrival::default(); PASS]));
        Ok(Stack { engine, app, arrivals, last: NONE })
    }

    /// Calls `work` with the program and the stack, from outside a round. What it sends leaves with the next `output`.
    pub fn with<R>(&mut self, now_ns: u64, work: impl FnOnce(&mut A, &mut Io<'_>) -> R) -> R {
        self.engine.set_now(now_ns);
        let result = work(&mut self.app, &mut Io::new(&mut self.engine));
        self.finish();
        result
    }

    /// The program.
    pub fn app(&self) -> &A {
        &self.app
    }

    /// The program, to change.
    pub fn app_mut(&mut self) -> &mut A {
        &mut self.app
    }

    /// Packets that the output takes beside those that wait.
    #[inline]
    pub(crate) fn output_room(&self) -> usize {
        self.engine.egress.output.room()
    }

    /// Packets of somebody else that are to leave with the stack's own; as many as [`Stack::output_room`] says.
    #[inline]
    pub(crate) fn relay(&mut self, batch: &mut Batch, count: usize) -> usize {
        batch.move_to(&mut self.engine.egress.output, count)
    }

    /// Works on the packets of a batch that are this shard's, and notes the others in the sieve. No packet lies in several slots. The batch stays
    /// as it is; [`Stack::end`] is to follow.
    pub(crate) fn sift(&mut self, sieve: &mut Sieve<'_>, batch: &Batch, context: &Context<'_>) {
        self.engine.set_now(context.now_ns);
        let mut from = 0;
        while from < batch.len() {
            let count = (batch.len() - from).min(self.engine.config.batch);
            prepare_own(&self.engine, sieve, batch, from, &mut self.arrivals[..count]);
            self.work(batch, from, count);
            from += count;
        }
    }

    /// Frees what is left of a batch that was worked on, and sends what connections have.
    pub(crate) fn end(&mut self, batch: &mut Batch, context: &mut Context<'_>) {
        self.engine.egress.free(batch, context.pool);
        self.finish();
    }

    /// Tells the program what happened, and sends what connections have.
    fn finish(&mut self) {
        self.tell();
        self.engine.flush();
        // Connections may have ended while they sent.
        self.tell();
    }

    #[inline]
    fn tell(&mut self) {
        if !self.engine.events.is_empty() {
            arrive::tell(&mut self.engine, &mut self.app);
        }
    }
}

impl<A: App> Datapath for Stack<A> {
    fn input(&mut self, _: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        self.engine.set_now(context.now_ns);
        if batch.len() != 1 || !self.lone(batch) {
            self.passes(batch);
        }
        self.engine.egress.free(batch, context.pool);
        self.finish();
    }

    fn output(&mut self, _: PortIndex) -> Option<&mut Batch> {
        if self.engine.has_touched() {
            self.finish();
        }
        Some(&mut self.engine.egress.output)
    }

    fn tx_done(&mut self, _: PortIndex, _: usize, _: u64) {}

    fn waiting(&self, _: PortIndex) -> u64 {
        self.engine.egress.output.len() as u64
    }

    fn too_long(&mut self, _: PortIndex, _: usize, context: &mut Context<'_>) {
        context.pool.free_front(&mut self.engine.egress.output, 1);
    }

    fn removed(&mut self, _: PortIndex, context: &mut Context<'_>) {
        context.pool.free(&mut self.engine.egress.output);
        self.engine.owing.clear();
    }

    fn next_deadline_ns(&self) -> u64 {
        self.engine.next_deadline_ns().min(self.app.next_deadline_ns())
    }

    fn tick(&mut self, context: &mut Context<'_>) {
        self.engine.set_now(context.now_ns);
        self.engine.run_timers();
        if self.app.next_deadline_ns() <= context.now_ns {
            self.app.tick(&mut Io::new(&mut self.engine));
        }
        self.finish();
    }

    /// The port takes nothing: its peers find out by themselves how connections ended.
    fn stuck(&mut self, _: PortIndex, _: &mut Context<'_>) {
        self.engine.owing.clear();
    }

    /// True if the program is done, and no connection that ended owes an acknowledgment: the peer would wait for it and call the connection lost.
    fn is_done(&self) -> bool {
        self.app.is_done() && self.engine.owing.is_empty()
    }
}

impl<A: App> Stack<A> {
    /// All stages of a usual segment that came alone: nothing is asked for ahead, because it is needed at once. False, and nothing has happened,
    /// if it is not usual.
    #[inline]
    fn lone(&mut self, batch: &Batch) -> bool {
        let Stack { engine, app, last, .. } = self;
        let (frame, checksum) = (batch.packet(0), batch.checksum(0));
        let Some(len) = engine.egress.ip.usual4(frame, checksum).filter(|_| !batch.more(0)) else { return false };
        let Some(segment) = Usual4::of(frame, len) else { return false };
        let count = match engine.usual_connection(*last, &segment) {
            Some(index) if expected(engine, app, index, &segment) => 1,
            _ => u64::from(of_another(engine, app, last, frame, len, checksum)),
        };
        engine.counters.in_segs += count;
        engine.egress.ip.count_fast(count, 0);
        true
    }

    /// All stages of all packets, in as many passes as it takes. It is no part of the way of a segment that came alone, whose registers it needs.
    #[inline(never)]
    fn passes(&mut self, batch: &Batch) {
        let (mut from, has_frags) = (0, batch.has_frags());
        while from < batch.len() {
            if !has_frags && self.engine.egress.ip.may_be_datagram4(batch.packet(from)) {
                from += arrive::datagram::usual4_run(&mut self.engine, &mut self.app, batch, from);
            }
            let count = (batch.len() - from).min(self.engine.config.batch);
            if count > 0 {
                self.pass(batch, from, count, has_frags);
            }
            from += count;
        }
    }

    /// All stages of `count` packets of `batch` from `from` on. `has_frags` is [`Batch::has_frags`].
    fn pass(&mut self, batch: &Batch, from: usize, count: usize, has_frags: bool) {
        prepare(&self.engine, batch, from, &mut self.arrivals[..count], has_frags);
        self.work(batch, from, count);
    }

    /// Stage 3 of `count` packets of `batch` from `from` on.
    fn work(&mut self, batch: &Batch, from: usize, count: usize) {
        let Stack { engine, app, arrivals, .. } = self;
        let arrivals = &arrivals[..count];
        let (mut tcp_count, mut udp_count) = (0, 0);
        for (at, (arrival, frame)) in arrivals.iter().zip(batch.iter().skip(from)).enumerate() {
            if arrival.kind == Kind::Usual4 && usual(engine, app, arrival, frame) {
                tcp_count += 1;
            } else if arrival.kind == Kind::Datagram4 && arrive::datagram::usual4(engine, app, frame, arrival.checksum)
            {
                udp_count += 1;
            } else {
                let (tcp, udp) = less_usual_kind(engine, app, arrival, frame, batch.checksum(from + at));
                (tcp_count, udp_count) = (tcp_count + tcp, udp_count + udp);
            }
        }
        engine.counters.in_segs += tcp_count;
        engine.egress.ip.count_fast(tcp_count, udp_count);
    }
}

/// All stages of a usual segment that came alone, and that the connection of the last such segment does not take as it is. False as for [`less_usual`].
#[inline(never)]
fn of_another<A: App>(
    engine: &mut Engine,
    app: &mut A,
    last: &mut u32,
    frame: &[u8],
    len: u16,
    checksum: Checksum,
) -> bool {
    let Some(segment) = Usual4::of(frame, len) else { return false };
    let hash = engine.hash_v4(segment.dst(), segment.src(), segment.ports().rotate_left(16));
    let block = engine.probable_block(hash, false);
    *last = block;
    let arrival = Arrival { hash, end: len, kind: Kind::Usual4, block, ..Arrival::default() };
    usual(engine, app, &arrival, frame) || less_usual(engine, app, &arrival, frame, checksum)
}

/// Stage 3 of a usual TCP segment: nearly always it belongs to the connection whose tag it has, and is the one that is expected next.
/// Otherwise false, and nothing has happened. It is no part of the loop, whose registers it needs.
#[inline(never)]
fn usual<A: App>(engine: &mut Engine, app: &mut A, arrival: &Arrival, frame: &[u8]) -> bool {
    let Some(segment) = Usual4::of(frame, arrival.end) else { return false };
    match engine.usual_connection(arrival.block, &segment) {
        Some(index) => expected(engine, app, index, &segment),
        None => false,
    }
}

/// A usual segment of connection `index`, if it is one that is expected next; else false, and nothing has happened.
#[inline(always)]
fn expected<A: App>(engine: &mut Engine, app: &mut A, index: u32, segment: &Usual4<'_>) -> bool {
    (engine.tcbs[index].state == State::Established && arrive::answer_path(engine, app, index, &plain_of(segment)))
        // A copy, so that the segment need not be in memory where none is made.
        || expected_otherwise(engine, app, index, &{ *segment })
}

#[inline(never)]
fn expected_otherwise<A: App>(engine: &mut Engine, app: &mut A, index: u32, segment: &Usual4<'_>) -> bool {
    let plain = plain_of(segment);
    arrive::fast_path(engine, app, index, &plain) || arrive::brief_path(engine, app, index, &plain)
}

/// Stage 3 of a packet that [`usual`] does not take; how many segments and datagrams are to be counted.
#[inline(never)]
fn less_usual_kind<A: App>(
    engine: &mut Engine,
    app: &mut A,
    arrival: &Arrival,
    frame: &[u8],
    checksum: Checksum,
) -> (u64, u64) {
    match arrival.kind {
        Kind::Usual4 => return (u64::from(less_usual(engine, app, arrival, frame, checksum)), 0),
        Kind::Syn4 => {
            syn(engine, app, arrival, frame);
            return (1, 0);
        }
        Kind::Tcp4 | Kind::Tcp6 => {
            tcp(engine, app, arrival, frame);
            return (1, 0);
        }
        Kind::Datagram4 => {
            let mut plainer = Arrival::default();
            plain(engine, frame, checksum, &mut plainer);
            return less_usual_kind(engine, app, &plainer, frame, checksum);
        }
        Kind::Udp4 | Kind::Udp6 => {
            udp(engine, app, arrival, frame);
            return (0, 1);
        }
        Kind::Other => other(engine, app, frame, checksum),
        // Packets of several frames are longer than the MTU of a stack, which fits into one.
        Kind::Frag | Kind::Foreign => {}
        Kind::LastFrag => engine.counters.in_errs += 1,
    }
    (0, 0)
}

#[inline(always)]
fn plain_of<'a>(segment: &Usual4<'a>) -> Plain<'a> {
    Plain {
        seq: Seq(segment.seq()),
        ack: Seq(segment.ack()),
        flags: segment.flags(),
        window: segment.window(),
        timestamps: Some(segment.timestamps()),
        data: segment.data,
    }
}

/// A segment with usual headers that no shorter way takes; false if its source address is none that another host can have.
#[inline(never)]
fn less_usual<A: App>(engine: &mut Engine, app: &mut A, arrival: &Arrival, frame: &[u8], checksum: Checksum) -> bool {
    let Some(usual) = Usual4::of(frame, arrival.end) else { return false };
    let found = engine.usual_connection(arrival.block, &usual);
    if !engine.egress.ip.may_send4(usual.src()) {
        other(engine, app, frame, checksum);
        return false;
    }
    let (local, remote, ports) = (usual.dst(), usual.src(), usual.ports().rotate_left(16));
    let segment = Segment {
        src_port: ports as u16,
        dst_port: (ports >> 16) as u16,
        seq: Seq(usual.seq()),
        ack: Seq(usual.ack()),
        flags: usual.flags(),
        window: usual.window(),
        urgent: usual.urgent(),
        timestamps: Some(usual.timestamps()),
        options: &[],
        data: usual.data,
        ecn: usual.ecn(),
    };
    let tuple = tuple(local.into(), remote.into(), ports, false);
    if found.is_some() {
        arrive::segment(engine, app, &tuple, found, &segment);
    } else {
        let found = engine.find_v4(arrival.hash, local, remote, ports);
        any(engine, app, &tuple, found, &segment);
    }
    true
}

/// A segment whose connection was looked for: the fast path, or the long way.
fn any<A: App>(engine: &mut Engine, app: &mut A, tuple: &Tuple, found: Option<u32>, segment: &Segment<'_>) {
    if let Some(index) = found.filter(|value| value & IS_TIME_WAIT == 0)
        && arrive::fast_segment(engine, app, index, segment)
    {
        return;
    }
    arrive::segment(engine, app, tuple, found, segment);
}

/// Stage 3 of a usual SYN, which no connection that stands expects.
#[inline(never)]
fn syn(engine: &mut Engine, app: &mut dyn App, arrival: &Arrival, frame: &[u8]) {
    let Some(usual) = UsualSyn4::of(frame) else { return };
    let (local, remote, ports) = (usual.dst, usual.src, usual.ports.rotate_left(16));
    let segment = Segment {
        src_port: ports as u16,
        dst_port: (ports >> 16) as u16,
        seq: Seq(usual.seq),
        ack: Seq(usual.ack),
        flags: usual.flags,
        window: usual.window,
        // There is no urgent byte without the flag.
        urgent: 0,
        timestamps: Some(usual.timestamps),
        options: usual.options,
        data: &[],
        ecn: usual.ecn,
    };
    let found = engine.find_v4(arrival.hash, local, remote, ports);
    arrive::segment(engine, app, &tuple(local.into(), remote.into(), ports, false), found, &segment);
}

/// Stage 3 of a plain TCP segment.
#[inline(never)]
fn tcp<A: App>(engine: &mut Engine, app: &mut A, arrival: &Arrival, frame: &[u8]) {
    let checksum = arrival.checksum;
    let Some(payload) = frame.get(usize::from(arrival.start)..usize::from(arrival.end)) else { return };
    if arrival.kind == Kind::Tcp6 {
        let Some(fast) = engine.egress.ip.fast6(frame) else { return };
        let tuple = tuple(fast.dst, fast.src, arrival.ports, true);
        segment(engine, app, &tuple, payload, arrival.tos & 3, checksum, Some(arrival.hash));
        return;
    }
    let Arrival { hash, src, dst, ports, .. } = *arrival;
    if checksum == Checksum::Unknown {
        let pseudo = tuple(dst.into(), src.into(), ports, false).pseudo_sum(payload.len());
        if !pseudo.add_slice(payload).is_valid() {
            engine.counters.in_errs += 1;
            return;
        }
    }
    let Some(parsed) = Segment::parse(payload, arrival.tos & 3) else {
        engine.counters.in_errs += 1;
        return;
    };
    let found = engine.find_v4(hash, dst, src, ports);
    any(engine, app, &tuple(dst.into(), src.into(), ports, false), found, &parsed);
}

/// Stage 3 of a plain datagram.
#[inline]
fn udp<A: App>(engine: &mut Engine, app: &mut A, arrival: &Arrival, frame: &[u8]) {
    let Arrival { src, dst, start: offset, end, tos, checksum, .. } = *arrival;
    if arrival.kind == Kind::Udp4 {
        let fast = Fast4 { src, dst, offset, end, protocol: Protocol::UDP, tos, ttl: 0 };
        arrive::datagram::plain4(engine, app, &fast, frame, checksum);
    } else if let Some(fast) = engine.egress.ip.fast6(frame) {
        arrive::datagram::plain6(engine, app, &fast, frame, checksum);
    }
}

/// A packet that is not plain: everything goes by the layer below.
#[cold]
fn other<A: App>(engine: &mut Engine, app: &mut A, frame: &[u8], checksum: Checksum) {
    match engine.egress.receive(frame, checksum, engine.now) {
        Inbound::Tcp(packet) => {
            let mut scratch = std::mem::take(&mut engine.datagram);
            scratch.clear();
            scratch.extend_from_slice(engine.egress.ip.payload(&packet, frame));
            let ports = ports(&scratch);
            let ends = Tuple::new((packet.dst, (ports >> 16) as u16).into(), (packet.src, ports as u16).into());
            engine.counters.in_segs += 1;
            segment(engine, app, &ends, &scratch, packet.ecn, Checksum::Verified, None);
            engine.datagram = scratch;
        }
        Inbound::Udp(packet) => arrive::datagram::packet(engine, app, &packet, frame),
        Inbound::Error(error) => engine.icmp_error(&error),
        Inbound::Handled | Inbound::Dropped(_) => {}
    }
}

/// Header and data of a segment of any family.
fn segment<A: App>(
    engine: &mut Engine,
    app: &mut A,
    tuple: &Tuple,
    payload: &[u8],
    ecn: u8,
    checksum: Checksum,
    hash: Option<u64>,
) {
    let parsed = match checksum {
        Checksum::Unknown if !tuple.pseudo_sum(payload.len()).add_slice(payload).is_valid() => None,
        _ => Segment::parse(payload, ecn),
    };
    let Some(parsed) = parsed else {
        engine.counters.in_errs += 1;
        return;
    };
    let found = engine.find_hashed(hash.unwrap_or_else(|| engine.hash(tuple)), tuple);
    any(engine, app, tuple, found, &parsed);
}
