//! The port: one readv(2) or writev(2) a packet.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use linerate_mem::{Batch, Pool, Scattered, Span, Written};
use linerate_port::{
    Caps, Drops, Interest, Port, PortError, Readiness, Stats, TUNNEL_KEY_BYTES, checksum_of, complete_checksums,
};
use linerate_sys::poll::{PollFor, poll};
use linerate_wire::Segments;

use crate::encapsulation::{Encapsulation, HEADER_BYTES_MAX, Refused};
use crate::sys;

/// Most slots of one packet.
pub(crate) const FRAGS_MAX: usize = 64;
/// Bytes of an Ethernet header.
const ETHERNET_BYTES: usize = 14;
/// Bytes of two VLAN tags, which come on top of an MTU.
const TAGS_BYTES: usize = 8;
/// Bytes of the longest IP packet.
const IP_BYTES_MAX: usize = 65_535;
/// Packets that one call reads, those of others included.
const READS_MAX: usize = 256;

/// The end of a tunnel.
pub struct TunnelPort {
    caps: Caps,
    pool: Pool,
    socket: File,
    /// Keeps the UDP port.
    _reserved: Option<OwnedFd>,
    encapsulation: Encapsulation,
    /// Where a packet goes on that is longer than a frame.
    spill: Box<[u8]>,
    /// An inner packet that is longer than a frame or than the MTU, as long as the batch or the pool has no room for it.
    long: Vec<u8>,
    /// The part of it that is handed out next.
    next: Range<usize>,
    /// What cuts it, if it is several in one: a kernel on this host hands over what it left to a network card to cut.
    segments: Option<Segments>,
    stats: Stats,
    malformed: u64,
    too_long: u64,
    too_short: u64,
    unsendable: u64,
}

/// What a read found.
enum ReadResult {
    Packet,
    /// A packet that is not for this port, or broken.
    Nothing,
    /// A packet that waits in `long`.
    Long,
    /// The socket is empty, or there is no room.
    End,
}

impl TunnelPort {
    pub(crate) fn new(
        caps: Caps,
        pool: &Pool,
        socket: File,
        reserved: Option<OwnedFd>,
        encapsulation: Encapsulation,
    ) -> TunnelPort {
        TunnelPort {
            caps,
            pool: pool.clone(),
            socket,
            _reserved: reserved,
            encapsulation,
            spill: vec![0; IP_BYTES_MAX].into(),
            long: Vec::new(),
            next: 0..0,
            segments: None,
            stats: Stats::default(),
            malformed: 0,
            too_long: 0,
            too_short: 0,
            unsendable: 0,
        }
    }

    /// Reads one packet into a frame of the batch.
    fn read(&mut self, batch: &mut Batch) -> io::Result<ReadResult> {
        let most = self.caps.frame_len_max + TAGS_BYTES;
        let TunnelPort { pool, socket, encapsulation, spill, long, malformed, .. } = self;
        let (mut outcome, mut start, prefix) = (Ok(ReadResult::End), 0, encapsulation.prefix_bytes());
        let mut unwrap = |packet: &mut [u8]| match encapsulation.unwrap(packet) {
            Ok(start) => Some(start),
            Err(why) => {
                *malformed += u64::from(why == Refused::Malformed);
                None
            }
        };
        let filled = pool.fill(batch, 1, |frame| {
            let room = frame.len();
            match (&*socket).read_vectored(&mut [IoSliceMut::new(frame), IoSliceMut::new(spill)]) {
                Ok(len) if len <= room => {
                    outcome = Ok(ReadResult::Nothing);
                    start = unwrap(&mut frame[..len])?;
                    if len - start > most {
                        long.extend_from_slice(&frame[start..len]);
                        (outcome, start) = (Ok(ReadResult::Long), 0);
                        return None;
                    }
                    // A peer on the same host may have left it to a network card that is not there.
                    let inner = frame.get(start + prefix..len).unwrap_or_default();
                    return Some(Written { len, checksum: checksum_of(inner), ..Written::default() });
                }
                Ok(len) => {
                    long.extend_from_slice(frame);
                    long.extend_from_slice(&spill[..len - room]);
                    outcome = Ok(ReadResult::Nothing);
                    match unwrap(long) {
                        Some(start) => {
                            long.drain(..start);
                            outcome = Ok(ReadResult::Long);
                        }
                        None => long.clear(),
                    }
                }
                Err(error) => outcome = Err(error),
            }
            None
        });
        if filled == 1 {
            batch.adj(batch.len() - 1, start);
            self.stats.rx_packets += 1;
            self.stats.rx_bytes += batch.packet(batch.len() - 1).len() as u64;
            return Ok(ReadResult::Packet);
        }
        if let Ok(ReadResult::Long) = outcome {
            self.begin_long();
        }
        outcome
    }

    /// Begins to hand out a long packet. One of TCP that is longer than the tunnel's MTU is several in one, and is cut; where does not
    /// matter to TCP.
    fn begin_long(&mut self) {
        self.next = 0..self.long.len();
        if self.long.len() > self.caps.frame_len_max + TAGS_BYTES {
            let prefix = self.encapsulation.prefix_bytes();
            let inner = self.long.get(prefix..).unwrap_or_default();
            // The longest packet has a VLAN tag, for which the port behind may have no room.
            let most = self.caps.frame_len_max.saturating_sub(prefix + TAGS_BYTES / 2);
            self.segments = Segments::fitting(inner, most);
            if self.segments.is_some() {
                self.next = self.next_segment();
            }
        }
    }

    /// The next part of a packet that is cut, with the key that is in front of the whole; an empty one if there is none.
    fn next_segment(&mut self) -> Range<usize> {
        let prefix = self.encapsulation.prefix_bytes();
        let (Some(segments), Some((key, inner))) = (&mut self.segments, self.long.split_at_mut_checked(prefix)) else {
            return 0..0;
        };
        let mut kept = [0; TUNNEL_KEY_BYTES];
        kept[..prefix].copy_from_slice(key);
        let Some(range) = segments.next(inner) else { return 0..0 };
        // It takes the place of data of the segment before.
        self.long[range.start..range.start + prefix].copy_from_slice(&kept[..prefix]);
        range.start..range.end + prefix
    }

    /// Hands out what is in `long`; false when it has to wait.
    fn hand_out_long(&mut self, batch: &mut Batch) -> bool {
        while !self.next.is_empty() {
            let part = &self.long[self.next.clone()];
            match self.pool.scatter_bytes(batch, part, 0) {
                Scattered::NotNow => return false,
                Scattered::TooLong => self.too_long += 1,
                Scattered::Done => {
                    self.stats.rx_packets += 1;
                    self.stats.rx_bytes += part.len() as u64;
                }
            }
            self.next = self.next_segment();
        }
        self.segments = None;
        self.long.clear();
        true
    }

    /// Sends, or discards and counts, the packet in `slots` slots from `at` on; false when there is no room for it now.
    fn send(&mut self, batch: &Batch, at: usize, span: Span) -> Result<bool, PortError> {
        let prefix = self.encapsulation.prefix_bytes();
        let first = batch.packet(at);
        if span.len < prefix + ETHERNET_BYTES || first.len() < prefix {
            self.too_short += 1;
            return Ok(true);
        }
        let mut header = [0; HEADER_BYTES_MAX];
        let len = self.encapsulation.wrap(first, span.len, &mut header);
        let mut parts = [IoSlice::new(&[]); FRAGS_MAX + 1];
        parts[0] = IoSlice::new(&header[..len]);
        for (part, bytes) in parts[1..].iter_mut().zip(batch.iter().skip(at).take(span.slots)) {
            *part = IoSlice::new(bytes);
        }
        parts[1] = IoSlice::new(&first[prefix..]);
        // The first call may return an error that the packet before it met on its way.
        for _ in 0..2 {
            let Err(error) = (&self.socket).write_vectored(&parts[..=span.slots]) else {
                self.stats.tx_packets += 1;
                self.stats.tx_bytes += span.len as u64;
                return Ok(true);
            };
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM) => return Ok(false),
                Some(code) if is_of_the_network(code) => {}
                _ => return Err(self.caps.io_error("write", error)),
            }
        }
        self.unsendable += 1;
        Ok(true)
    }
}

/// True for what routes, firewalls and far hosts answer: the socket works on.
fn is_of_the_network(code: i32) -> bool {
    matches!(
        code,
        libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::ECONNREFUSED
            | libc::ENETDOWN
            | libc::EHOSTDOWN
            | libc::EPERM
            | libc::EACCES
            | libc::EPROTO
            | libc::ENOPROTOOPT
            | libc::EMSGSIZE
            | libc::EINVAL
    )
}

impl Port for TunnelPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        let before = self.stats.rx_packets;
        for _ in 0..READS_MAX {
            if !self.long.is_empty() && !self.hand_out_long(batch) {
                break;
            }
            match self.read(batch) {
                Ok(ReadResult::Packet | ReadResult::Nothing | ReadResult::Long) => {}
                Ok(ReadResult::End) => break,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    Some(libc::EINTR) => {}
                    Some(code) if is_of_the_network(code) => {}
                    // What came before is handed out first; the error comes again.
                    _ if self.stats.rx_packets > before => break,
                    _ => return Err(self.caps.io_error("read", error)),
                },
            }
        }
        Ok((self.stats.rx_packets - before) as usize)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        complete_checksums(batch);
        let mut taken = 0;
        while let Some(span) = batch.span(0) {
            if span.len > self.caps.frame_len_max || span.slots > FRAGS_MAX {
                if taken > 0 {
                    break;
                }
                let (port, max) = (self.caps.name.clone(), self.caps.frame_len_max);
                return Err(PortError::FrameTooLong { port, len: span.len, max });
            }
            match self.send(batch, 0, span) {
                Ok(true) => self.pool.free_front(batch, span.slots),
                Ok(false) => break,
                // What was sent before the error is reported first; the error comes again.
                Err(_) if taken > 0 => break,
                Err(error) => return Err(error),
            }
            taken += 1;
        }
        Ok(taken)
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        let wanted = match interest {
            Interest::Receive if !self.long.is_empty() => return Ok(Readiness::Ready),
            Interest::Receive => PollFor::Reading,
            Interest::Transmit => PollFor::Writing,
        };
        let polled =
            poll(self.socket.as_fd(), wanted, timeout_ns).map_err(|error| self.caps.io_error("poll", error))?;
        Ok(if polled.ready || polled.failed { Readiness::Ready } else { Readiness::TimedOut })
    }

    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        if self.long.is_empty() {
            add(self.socket.as_fd());
        }
        self.long.is_empty()
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let mut stats = self.stats.clone();
        let queue_full = sys::dropped(&self.socket).map_err(|error| self.caps.io_error("read counters", error))?;
        let row = |cause: &str, packets| Drops { place: self.caps.name.clone(), cause: cause.into(), packets };
        stats.rx_drops = vec![
            row("queue of the socket full", queue_full),
            row("malformed outer header", self.malformed),
            row("longer than the batch", self.too_long),
        ];
        stats.tx_drops = vec![
            row("shorter than an Ethernet header", self.too_short),
            row("no route, or refused by a firewall or the far host", self.unsendable),
        ];
        stats.rx_drops.retain(|row| row.packets > 0);
        stats.tx_drops.retain(|row| row.packets > 0);
        Ok(stats)
    }
}
