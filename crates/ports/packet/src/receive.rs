//! The receiving side of the port: packets out of the ring, one copied into one frame if it can be, and those that cannot.

use std::os::fd::AsFd;

use linerate_mem::{Batch, Checksum, Written};
use linerate_port::{LongPacket, PortError, Readiness, Unfinished, VnetHeader};
use linerate_sys::clock;
use linerate_sys::poll::{PollFor, poll};

use crate::port::PacketPort;
use crate::ring::{BlockRing, PacketInRing, TAG_AT, corrupt};
use crate::sys::Socket;

/// So many empty `receive` calls pass between two looks at the interface, for callers that spin and never `wait`.
const EMPTY_CALLS_MAX: u32 = 4096;
/// Kernels before 6.18 hand blocks over at ticks of their timer, up to 10 ms apart.
pub(crate) const TIMER_TICK_NS: u64 = 10_000_000;

/// A socket that receives, its ring, and the packet that is being handed out in parts.
pub(crate) struct Receiver {
    /// Dropped before the socket is closed; each keeps what it needs alive by itself.
    pub(crate) ring: BlockRing,
    pub(crate) socket: Socket,
    long: LongPacket,
}

impl Receiver {
    pub(crate) fn new(socket: Socket, ring: BlockRing) -> Receiver {
        Receiver { ring, socket, long: LongPacket::new() }
    }

    /// True if `receive` may find a packet.
    #[inline]
    pub(crate) fn ready(&self) -> bool {
        !self.long.is_empty() || self.ring.ready()
    }

    /// True if nothing is left of a packet that is handed out in parts: the socket tells of what is in the ring only.
    #[inline]
    pub(crate) fn sleeps(&self) -> bool {
        self.long.is_empty()
    }
}

/// What ended a run of packets.
enum Run {
    /// There is no packet, no room, or no frame.
    Done,
    /// A packet that is not one frame as it is.
    Long,
}

impl PacketPort {
    #[inline]
    pub(crate) fn receive_packets(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        if !self.receiver.as_ref().is_some_and(Receiver::ready) {
            return self.nothing_received().map(|()| 0);
        }
        let clock_offset_ns = clock::realtime_ahead_ns();
        let before = self.stats.rx_packets;
        while self.hand_out_long(batch) {
            match self.receive_run(batch, clock_offset_ns) {
                // What was received before the error is handed over first; the error comes again.
                Err(error) if self.stats.rx_packets == before => return Err(error),
                Ok(Run::Long) => self.take_long(clock_offset_ns),
                _ => break,
            }
        }
        Ok((self.stats.rx_packets - before) as usize)
    }

    /// Copies packets into the batch while there are any that fit into one frame.
    #[inline]
    fn receive_run(&mut self, batch: &mut Batch, clock_offset_ns: u64) -> Result<Run, PortError> {
        let Some(Receiver { ring, .. }) = &mut self.receiver else { return Ok(Run::Done) };
        let mut end = Ok(Run::Done);
        let mut bytes = 0;
        let taken = self.pool.fill(batch, usize::MAX, |frame| {
            let packet = match ring.front() {
                Ok(packet) => packet?,
                Err(what) => {
                    end = Err(corrupt(&self.caps.name, what));
                    return None;
                }
            };
            let len = packet.len();
            let copied = if len > frame.len() { None } else { copy_whole(ring, &packet, &mut frame[..len]) };
            let Some(checksum) = copied else {
                end = Ok(Run::Long);
                return None;
            };
            ring.advance(&packet);
            bytes += len as u64;
            Some(Written { len, time_ns: packet.time_ns.wrapping_sub(clock_offset_ns), checksum })
        });
        self.stats.rx_packets += taken as u64;
        self.stats.rx_bytes += bytes;
        end
    }

    /// Takes the packet at the front out of the ring, to be handed out in parts, or counts it as lost.
    #[inline]
    #[cold]
    fn take_long(&mut self, clock_offset_ns: u64) {
        let Some(Receiver { ring, socket, long }) = &mut self.receiver else { return };
        let Ok(Some(packet)) = ring.front() else { return };
        let time_ns = packet.time_ns.wrapping_sub(clock_offset_ns);
        if let Err(loss) = load(long, ring, socket, &packet, time_ns) {
            self.losses.count(loss);
        }
        ring.advance(&packet);
    }

    /// True when nothing of a long packet is left.
    #[inline]
    fn hand_out_long(&mut self, batch: &mut Batch) -> bool {
        match &mut self.receiver {
            Some(Receiver { long, .. }) if !long.is_empty() => {
                long.hand_out(&mut self.pool, batch, &mut self.stats, &mut self.losses.too_long)
            }
            _ => true,
        }
    }

    /// Nothing was received. Now and then, and while the interface is known to be down, that is looked into.
    #[inline]
    fn nothing_received(&mut self) -> Result<(), PortError> {
        self.empty_calls += 1;
        if self.down || self.empty_calls >= EMPTY_CALLS_MAX {
            self.empty_calls = 0;
            self.check_receiving()?;
        }
        Ok(())
    }

    /// As [`PacketPort::check_device`], but no error before the kernel had the time to hand over the block that it was
    /// filling: what came before the interface went is still received.
    #[cold]
    fn check_receiving(&mut self) -> Result<(), PortError> {
        let Err(error) = self.check_device() else {
            self.drained = false;
            return Ok(());
        };
        if let Some(receiver) = self.receiver.as_ref().filter(|_| !self.drained) {
            clock::sleep_until_ns(clock::now_ns() + 2 * receiver.ring.retire_ns + TIMER_TICK_NS);
            self.drained = true;
            if receiver.ready() {
                return Ok(());
            }
        }
        Err(error)
    }

    #[inline]
    pub(crate) fn wait_to_receive(&mut self, timeout_ns: u64) -> Result<Readiness, PortError> {
        let ready = |receiver: &Option<Receiver>| receiver.as_ref().is_some_and(Receiver::ready);
        if self.receiver.is_none() {
            return Ok(Readiness::Closed);
        }
        if ready(&self.receiver) {
            return Ok(Readiness::Ready);
        }
        if self.down {
            self.check_receiving()?;
        }
        let pause_ns = self.receiver.as_mut().map_or(0, |receiver| receiver.ring.take_pause_ns()).min(timeout_ns);
        if pause_ns > 0 {
            clock::sleep_until_ns(clock::now_ns() + pause_ns);
        }
        let Some(receiver) = self.receiver.as_ref().filter(|receiver| !receiver.ready()) else {
            return Ok(Readiness::Ready);
        };
        let polled = poll(receiver.socket.as_fd(), PollFor::Reading, timeout_ns - pause_ns);
        let polled = polled.map_err(|error| self.caps.io_error("poll", error))?;
        if polled.failed && !ready(&self.receiver) {
            self.check_receiving()?;
        }
        Ok(if polled.ready || ready(&self.receiver) { Readiness::Ready } else { Readiness::TimedOut })
    }
}

/// Copies a packet, and says what is known about its checksum; `None` if it is not one packet as it lies in the ring.
#[inline]
fn copy_whole(ring: &BlockRing, packet: &PacketInRing, to: &mut [u8]) -> Option<Checksum> {
    if packet.truncated || packet.is_partial() && ring.offload(packet).is_merged() {
        return None;
    }
    ring.copy(packet, 0, to);
    if packet.is_partial() {
        return ring.offload(packet).checksum(to);
    }
    Some(if packet.is_verified() { Checksum::Verified } else { Checksum::Unknown })
}

/// Why a packet of the ring is not handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The ring has only its beginning.
    Truncated,
    /// It is merged of several, in a way that is not known here.
    NotCut,
    /// It has a partial checksum of a kind that is not known here.
    NotCompleted,
}

/// Takes a packet over from the ring, or from the socket where the ring has only its beginning.
#[inline]
fn load(
    long: &mut LongPacket,
    ring: &BlockRing,
    socket: &Socket,
    packet: &PacketInRing,
    time_ns: u64,
) -> Result<(), Loss> {
    let bytes = long.bytes_mut();
    let (len, note) = if !packet.truncated && packet.len() <= bytes.len() {
        ring.copy(packet, 0, &mut bytes[..packet.len()]);
        (packet.len(), ring.offload(packet))
    } else if packet.has_copy() {
        load_copy(bytes, socket, packet).ok_or(Loss::Truncated)?
    } else {
        return Err(Loss::Truncated);
    };
    long.begin(len, &note, time_ns).map_err(|why| match why {
        Unfinished::NotCut => Loss::NotCut,
        Unfinished::NotCompleted => Loss::NotCompleted,
    })
}

/// Reads the whole packet, which the kernel keeps beside the ring, and puts its VLAN tag back.
#[inline]
fn load_copy(bytes: &mut [u8], socket: &Socket, packet: &PacketInRing) -> Option<(usize, VnetHeader)> {
    let tag = packet.tag.as_ref().map_or(&[][..], |tag| tag);
    let len_max = bytes.len();
    let (addresses, rest) = bytes.split_at_mut(TAG_AT);
    let (inserted, rest) = rest.split_at_mut(tag.len());
    let mut note = [0; VnetHeader::BYTES];
    let len = socket.receive_copy(&mut [&mut note, addresses, rest]).ok()?.checked_sub(VnetHeader::BYTES)?;
    inserted.copy_from_slice(tag);
    let whole = TAG_AT + tag.len() + len.checked_sub(TAG_AT)?;
    (whole == packet.original_len() && whole <= len_max).then(|| (whole, VnetHeader::parse(note, tag.len())))
}
