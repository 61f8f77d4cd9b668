//! Stages 1 and 2 of the packets of a pass: what their headers say, and which control block each is probably for. They do not know the program.

use linerate_ip::{Fast4, Usual4, UsualSyn4};
use linerate_mem::{Batch, Checksum};
use linerate_wire::{Protocol, fold4};

use crate::NONE;
use crate::engine::Engine;
use crate::owners::Sieve;
use crate::tuple::Tuple;

/// What is known of a packet before it is worked on.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) hash: u64,
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) ports: u32,
    /// Where header and data of the transport lie in the frame; `end` of a usual segment is the length of its data.
    pub(crate) start: u16,
    pub(crate) end: u16,
    pub(crate) kind: Kind,
    pub(crate) tos: u8,
    pub(crate) checksum: Checksum,
    /// The control block that it is probably for, or [`NONE`].
    pub(crate) block: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A usual TCP segment over IPv4.
    Usual4,
    /// A usual SYN over IPv4.
    Syn4,
    /// A plain TCP segment over IPv4.
    Tcp4,
    /// A plain TCP segment over IPv6.
    Tcp6,
    /// Probably a usual datagram over IPv4.
    Datagram4,
    /// A plain datagram over IPv4.
    Udp4,
    /// A plain datagram over IPv6.
    Udp6,
    /// A part of a packet of several frames, not the last one.
    Frag,
    /// The last part of such a packet.
    LastFrag,
    /// Another shard's.
    Foreign,
    /// Anything else.
    Other,
}

impl Default for Arrival {
    fn default() -> Arrival {
        let (hash, src, dst, ports, start, end, tos) = (0, 0, 0, 0, 0, 0, 0);
        let (kind, checksum) = (Kind::Other, Checksum::Unknown);
        Arrival { hash, src, dst, ports, start, end, kind, tos, checksum, block: NONE }
    }
}

impl Arrival {
    /// Stage 1 of a usual segment.
    #[inline(always)]
    fn set_usual(&mut self, engine: &Engine, segment: &Usual4<'_>, len: u16) {
        self.hash = engine.hash_v4(segment.dst(), segment.src(), segment.ports().rotate_left(16));
        if engine.config.prefetch {
            engine.prefetch_bucket(self.hash);
        }
        (self.kind, self.end, self.block) = (Kind::Usual4, len, NONE);
    }

    #[inline]
    fn is_tcp(&self) -> bool {
        matches!(self.kind, Kind::Usual4 | Kind::Syn4 | Kind::Tcp4 | Kind::Tcp6)
    }
}

/// Stages 1 and 2 of packets of a batch from `from` on, as many as there are `arrivals`. They do not know the program.
#[inline(never)]
pub(crate) fn prepare(engine: &Engine, batch: &Batch, from: usize, arrivals: &mut [Arrival], has_frags: bool) {
    for (arrival, part) in arrivals.iter_mut().zip(batch.parts().skip(from)) {
        match usual_segment(engine, part.bytes, part.checksum) {
            Some((segment, len)) => arrival.set_usual(engine, &segment, len),
            None => unusual(engine, part.bytes, part.checksum, arrival),
        }
    }
    if has_frags {
        set_frags(arrivals, batch, from);
    }
    find_blocks(engine, arrivals);
}

/// As [`prepare`], among several shards, for packets that lie in one slot each.
#[inline(never)]
pub(crate) fn prepare_own(
    engine: &Engine,
    sieve: &mut Sieve<'_>,
    batch: &Batch,
    from: usize,
    arrivals: &mut [Arrival],
) {
    for (at, (arrival, part)) in arrivals.iter_mut().zip(batch.parts().skip(from)).enumerate() {
        let usual = usual_segment(engine, part.bytes, part.checksum);
        let owner = match &usual {
            Some((segment, _)) => sieve.owners.of_fold(fold4(segment.dst(), segment.src(), segment.ports())),
            None => sieve.owners.of(part.bytes),
        };
        if owner != sieve.owners.own() && !sieve.keeps(from + at, owner) {
            (arrival.kind, arrival.block) = (Kind::Foreign, NONE);
            continue;
        }
        match usual {
            Some((segment, len)) => arrival.set_usual(engine, &segment, len),
            None => unusual(engine, part.bytes, part.checksum, arrival),
        }
    }
    find_blocks(engine, arrivals);
}

/// Stage 2.
#[inline(always)]
fn find_blocks(engine: &Engine, arrivals: &mut [Arrival]) {
    let prefetch = engine.config.prefetch;
    for arrival in arrivals.iter_mut().filter(|arrival| arrival.is_tcp()) {
        arrival.block = engine.probable_block(arrival.hash, prefetch);
    }
    if prefetch && arrivals.len() > 1 {
        for arrival in arrivals.iter() {
            engine.prefetch_chunk(arrival.block);
        }
    }
}

/// A usual segment, and the length of its data.
#[inline(always)]
fn usual_segment<'a>(engine: &Engine, frame: &'a [u8], checksum: Checksum) -> Option<(Usual4<'a>, u16)> {
    let len = engine.egress.ip.usual4(frame, checksum)?;
    Some((Usual4::of(frame, len)?, len))
}

/// Stage 1 of a packet that is no usual segment.
#[inline(always)]
fn unusual(engine: &Engine, frame: &[u8], checksum: Checksum, arrival: &mut Arrival) {
    if engine.egress.ip.may_be_datagram4(frame) {
        (arrival.kind, arrival.checksum, arrival.block) = (Kind::Datagram4, checksum, NONE);
        return;
    }
    plain(engine, frame, checksum, arrival);
    if engine.config.prefetch && arrival.is_tcp() {
        engine.prefetch_bucket(arrival.hash);
    }
}

/// The kinds of packets that are in several frames, and of their parts. `arrivals` are those from packet `from` on.
#[cold]
fn set_frags(arrivals: &mut [Arrival], batch: &Batch, from: usize) {
    let mut goes_on = from > 0 && batch.more(from - 1);
    for (arrival, part) in arrivals.iter_mut().zip(batch.parts().skip(from)) {
        if part.more | goes_on {
            *arrival = Arrival { kind: if part.more { Kind::Frag } else { Kind::LastFrag }, ..Arrival::default() };
        }
        goes_on = part.more;
    }
}

/// Stage 1 of a packet that is not a usual segment.
#[inline(never)]
pub(crate) fn plain(engine: &Engine, frame: &[u8], checksum: Checksum, arrival: &mut Arrival) {
    if engine.egress.ip.is_usual_syn4(frame, checksum)
        && let Some(syn) = UsualSyn4::of(frame)
    {
        arrival.hash = engine.hash_v4(syn.dst, syn.src, syn.ports.rotate_left(16));
        (arrival.kind, arrival.block) = (Kind::Syn4, NONE);
        return;
    }
    if let Some(fast) = engine.egress.ip.fast4(frame, checksum) {
        let Fast4 { src, dst, offset: start, end, tos, protocol, .. } = fast;
        let (mut kind, mut hash, mut both) = (Kind::Udp4, 0, 0);
        if protocol == Protocol::TCP {
            both = ports(fast.payload(frame));
            (kind, hash) = (Kind::Tcp4, engine.hash_v4(dst, src, both));
        }
        *arrival = Arrival { hash, src, dst, ports: both, start, end, kind, tos, checksum, block: NONE };
        return;
    }
    *arrival = Arrival { checksum, ..Arrival::default() };
    if let Some(fast) = engine.egress.ip.fast6(frame) {
        if fast.protocol != Protocol::TCP {
            arrival.kind = Kind::Udp6;
            return;
        }
        let ports = ports(fast.payload(frame));
        let hash = engine.hash(&tuple(fast.dst, fast.src, ports, true));
        let (start, end, tos) = (fast.offset, fast.end, fast.traffic_class);
        *arrival = Arrival { hash, ports, start, end, kind: Kind::Tcp6, tos, checksum, ..Arrival::default() };
    }
}

/// Local port in the upper half, remote one in the lower, of a segment that arrived.
#[inline]
pub(crate) fn ports(payload: &[u8]) -> u32 {
    payload.first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes).rotate_left(16))
}

pub(crate) fn tuple(local: u128, remote: u128, ports: u32, v6: bool) -> Tuple {
    Tuple { local, remote, local_port: (ports >> 16) as u16, remote_port: ports as u16, v6 }
}
