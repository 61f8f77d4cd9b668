//! The port: batches in and out of the socket.

use std::os::fd::{AsFd, BorrowedFd};

use linerate_mem::{Batch, Pool, Written};
use linerate_port::{Caps, Drops, Interest, Port, PortError, Readiness, Stats};
use linerate_sys::clock;
use linerate_sys::poll::{PollFor, poll};

use crate::device::Device;
use crate::ring::{BlockRing, RingLosses, corrupt};
use crate::sys::{Messages, Socket};
use crate::transmit::{self, Refusal, Stop, next_run, refusal, slots_of};

/// So many empty `receive` calls pass between two looks at the interface, for callers that spin and never `wait`.
const EMPTY_CALLS_MAX: u32 = 4096;
/// Kernels before 6.18 hand blocks over at ticks of their timer, up to 10 ms apart.
const TIMER_TICK_NS: u64 = 10_000_000;
/// Sleep after the driver refused a packet: nothing tells when its ring has room, and it drains within tens of microseconds.
const DRIVER_NAP_NS: u64 = 20_000;
/// Answers that turned out to be out of date (the interface was down, the MTU another) that one `transmit` puts up with.
const TRIES_MAX: u32 = 4;

/// An AF_PACKET socket.
pub struct PacketPort {
    caps: Caps,
    pool: Pool,
    device: Device,
    /// Dropped before the socket is closed; each keeps what it needs alive by itself.
    ring: Option<BlockRing>,
    socket: Socket,
    messages: Messages,
    stats: Stats,
    losses: RingLosses,
    too_short: u64,
    /// Packets that the driver refused; `None` when they are to be sent again.
    refused: Option<u64>,
    empty_calls: u32,
    /// The interface was down or gone when last looked at.
    down: bool,
    /// It was so long enough for the kernel to have handed over all that came before.
    drained: bool,
    /// The driver refused the last packet.
    driver_full: bool,
}

impl PacketPort {
    /// From now on a packet that the driver refuses is lost instead of being sent again.
    pub(crate) fn drop_refused(&mut self) {
        self.refused = Some(0);
    }

    pub(crate) fn new(caps: Caps, pool: &Pool, device: Device, socket: Socket, ring: Option<BlockRing>) -> PacketPort {
        PacketPort {
            caps,
            pool: pool.clone(),
            device,
            ring,
            socket,
            messages: Messages::new(),
            stats: Stats::default(),
            losses: RingLosses::default(),
            too_short: 0,
            refused: None,
            empty_calls: 0,
            down: false,
            drained: false,
            driver_full: false,
        }
    }

    /// Times that the receive ring was full, since the port was opened; each may have cost many packets.
    pub fn freezes(&mut self) -> u64 {
        self.collect_losses();
        self.losses.freezes
    }

    fn check_pool(&self, batch: &Batch) -> Result<(), PortError> {
        if batch.is_of(self.pool.region()) {
            return Ok(());
        }
        Err(PortError::ForeignPool { port: self.caps.name.clone() })
    }

    fn io_error(&self, operation: &'static str, source: std::io::Error) -> PortError {
        PortError::Io { port: self.caps.name.clone(), operation, source }
    }

    /// An error if the interface is down or gone, or if the socket has a pending one that is about something else.
    #[cold]
    fn check_device(&mut self) -> Result<(), PortError> {
        let pending = self.socket.take_error().map_err(|error| self.io_error("reading the socket's error", error))?;
        let trouble = self.device.trouble(&self.caps.name);
        self.down = trouble.is_some();
        match (trouble, pending) {
            (Some(trouble), _) => Err(trouble),
            (None, Some(error)) if refusal(&error) == Refusal::Other => Err(self.io_error("AF_PACKET socket", error)),
            (None, _) => Ok(()),
        }
    }

    fn collect_losses(&mut self) {
        if self.ring.is_none() {
            return;
        }
        if let Ok(counts) = self.socket.take_counts() {
            self.losses.ring_full += counts.drops;
            self.losses.freezes += counts.freezes;
        }
    }
}

/// What ended a run of packets.
enum Run {
    /// There is no packet, no room, or no frame.
    Done,
    /// A packet that does not fit into one frame.
    Long,
}

/// Receiving.
impl PacketPort {
    /// Copies packets into the batch while there are any that fit into one frame.
    #[inline]
    fn receive_run(&mut self, batch: &mut Batch, clock_offset_ns: u64) -> Result<Run, PortError> {
        let Some(ring) = &mut self.ring else { return Ok(Run::Done) };
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
            if len > frame.len() || packet.truncated {
                end = Ok(Run::Long);
                return None;
            }
            ring.copy(&packet, 0, &mut frame[..len]);
            ring.advance(&packet);
            bytes += len as u64;
            Some(Written { len, time_ns: packet.time_ns.wrapping_sub(clock_offset_ns) })
        });
        self.stats.rx_packets += taken as u64;
        self.stats.rx_bytes += bytes;
        end
    }

    /// The packet at the front does not fit into one frame, or the ring has only its beginning. Returns false when it has to
    /// wait for room or frames.
    #[cold]
    fn receive_long(&mut self, batch: &mut Batch, clock_offset_ns: u64) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        let Ok(Some(packet)) = ring.front() else { return false };
        let frame_len = self.pool.packet_len_max().max(1);
        let slots = packet.len().div_ceil(frame_len);
        if packet.truncated {
            self.losses.truncated += 1;
        } else if slots > batch.capacity() || slots > self.pool.region().frames() as usize {
            self.losses.too_long += 1;
        } else {
            if slots > batch.room() {
                return false;
            }
            let mut parts = Batch::with_times(&self.pool, slots);
            if self.pool.take(&mut parts, slots, frame_len) < slots {
                self.pool.put(&mut parts);
                return false;
            }
            for index in 0..slots {
                let start = index * frame_len;
                parts.set_len(index, (packet.len() - start).min(frame_len));
                parts.set_more(index, index + 1 < slots);
                ring.copy(&packet, start, parts.packet_mut(index));
                parts.set_time_ns(index, packet.time_ns.wrapping_sub(clock_offset_ns));
            }
            parts.move_to(batch, slots);
            self.stats.rx_packets += 1;
            self.stats.rx_bytes += packet.len() as u64;
        }
        ring.advance(&packet);
        true
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
        if let Some(ring) = self.ring.as_ref().filter(|_| !self.drained) {
            clock::sleep_until_ns(clock::now_ns() + 2 * ring.retire_ns + TIMER_TICK_NS);
            self.drained = true;
            if ring.ready() {
                return Ok(());
            }
        }
        Err(error)
    }
}

/// What one step of a `transmit` did.
enum Step {
    /// So many packets left the batch.
    Took(usize),
    /// Nothing, but the next try may.
    Again,
    /// Nothing goes now.
    Full,
}

/// Transmitting.
impl PacketPort {
    /// Sends what goes into one call.
    #[inline]
    fn send_run(&mut self, batch: &mut Batch, run: transmit::Run) -> Result<Step, PortError> {
        let error = match self.messages.send(&self.socket, batch, run.slots) {
            Ok(sent) => return Ok(self.sent(batch, run, sent)),
            Err(error) => error,
        };
        match refusal(&error) {
            Refusal::BufferFull => Ok(Step::Full),
            Refusal::DriverFull if self.refused.is_some() && error.raw_os_error() == Some(libc::ENOBUFS) => {
                self.pool.put_front(batch, slots_of(batch, 1));
                self.refused = self.refused.map(|packets| packets + 1);
                Ok(Step::Took(1))
            }
            Refusal::DriverFull => {
                self.driver_full = true;
                Ok(Step::Full)
            }
            Refusal::Device => self.check_device().map(|()| Step::Again),
            Refusal::TooLong => match self.device.reread_mtu() {
                Ok(true) => Ok(Step::Again),
                _ => Err(self.io_error("sendmmsg", error)),
            },
            Refusal::Other => Err(self.io_error("sendmmsg", error)),
        }
    }

    #[inline]
    fn sent(&mut self, batch: &mut Batch, run: transmit::Run, sent: usize) -> Step {
        let (slots, totals) = if sent as u64 == run.totals.packets {
            (run.slots, run.totals)
        } else {
            let slots = slots_of(batch, sent);
            (slots, batch.totals_of(slots))
        };
        self.pool.put_front(batch, slots);
        self.stats.tx_packets += totals.packets;
        self.stats.tx_bytes += totals.bytes;
        Step::Took(sent)
    }

    /// The packet at the front cannot go as it is.
    #[cold]
    fn clear_front(&mut self, batch: &mut Batch, stop: Stop) -> Result<Step, PortError> {
        match stop {
            Stop::Incomplete => Ok(Step::Full),
            Stop::TooShort { slots } => {
                self.pool.put_front(batch, slots);
                self.too_short += 1;
                Ok(Step::Took(1))
            }
            Stop::TooLong { len, max } => match self.device.reread_mtu() {
                Ok(true) => Ok(Step::Again),
                Ok(false) => Err(PortError::FrameTooLong { port: self.caps.name.clone(), len, max }),
                Err(error) => {
                    self.check_device()?;
                    Err(self.io_error("reading the MTU", error))
                }
            },
        }
    }

    fn wait_to_receive(&mut self, timeout_ns: u64) -> Result<Readiness, PortError> {
        let ready = |ring: &Option<BlockRing>| ring.as_ref().is_some_and(BlockRing::ready);
        if self.ring.is_none() {
            return Ok(Readiness::Ended);
        }
        if ready(&self.ring) {
            return Ok(Readiness::Ready);
        }
        if self.down {
            self.check_receiving()?;
        }
        let pause_ns = self.ring.as_mut().map_or(0, BlockRing::take_pause_ns).min(timeout_ns);
        if pause_ns > 0 {
            clock::sleep_until_ns(clock::now_ns() + pause_ns);
        }
        if ready(&self.ring) {
            return Ok(Readiness::Ready);
        }
        let polled = poll(self.socket.as_fd(), PollFor::Reading, timeout_ns - pause_ns);
        let polled = polled.map_err(|error| self.io_error("poll", error))?;
        if polled.failed && !ready(&self.ring) {
            self.check_receiving()?;
        }
        Ok(if polled.ready || ready(&self.ring) { Readiness::Ready } else { Readiness::TimedOut })
    }

    fn wait_to_transmit(&mut self, timeout_ns: u64) -> Result<Readiness, PortError> {
        if std::mem::take(&mut self.driver_full) {
            clock::sleep_until_ns(clock::now_ns() + DRIVER_NAP_NS.min(timeout_ns));
            return Ok(Readiness::Ready);
        }
        let polled = poll(self.socket.as_fd(), PollFor::Writing, timeout_ns);
        let polled = polled.map_err(|error| self.io_error("poll", error))?;
        if polled.failed {
            self.check_device()?;
        }
        Ok(if polled.ready { Readiness::Ready } else { Readiness::TimedOut })
    }
}

impl Port for PacketPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.check_pool(batch)?;
        if !self.ring.as_ref().is_some_and(BlockRing::ready) {
            return self.nothing_received().map(|()| 0);
        }
        let clock_offset_ns = clock::realtime_ahead_ns();
        let before = self.stats.rx_packets;
        loop {
            match self.receive_run(batch, clock_offset_ns) {
                // What was received before the error is handed over first; the error comes again.
                Err(error) if self.stats.rx_packets == before => return Err(error),
                Ok(Run::Long) if self.receive_long(batch, clock_offset_ns) => {}
                _ => return Ok((self.stats.rx_packets - before) as usize),
            }
        }
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.check_pool(batch)?;
        if !self.caps.transmits {
            let what = "opened with rx_only, so it does not send".into();
            return Err(PortError::Unsupported { port: self.caps.name.clone(), what });
        }
        self.driver_full = false;
        let (mut taken, mut tries) = (0, 0);
        while !batch.is_empty() {
            let run = next_run(batch, self.device.frame_len_max);
            let step = match run.stop {
                Some(stop) if run.slots == 0 => self.clear_front(batch, stop),
                _ => self.send_run(batch, run),
            };
            match step {
                Ok(Step::Took(packets)) => taken += packets,
                Ok(Step::Again) if tries < TRIES_MAX => tries += 1,
                Ok(Step::Again | Step::Full) => break,
                // What was sent before the error is reported first; the error comes again.
                Err(_) if taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        match interest {
            Interest::Receive => self.wait_to_receive(timeout_ns),
            Interest::Transmit => self.wait_to_transmit(timeout_ns),
        }
    }

    fn sleep_on(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        // An interface that is down is looked at again by `receive`; its socket would show an error all the time.
        let sleeps = self.ring.is_some() && !self.down;
        if sleeps {
            add(self.socket.as_fd());
        }
        sleeps
    }

    fn receive_level_bytes(&self) -> Option<(u64, u64)> {
        self.ring.as_ref().map(BlockRing::level_bytes)
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        self.collect_losses();
        let mut stats = self.stats.clone();
        stats.rx_drops = self.losses.rows(self.device.name());
        if self.too_short > 0 {
            stats.tx_drops.push(Drops {
                place: format!("AF_PACKET socket on {}", self.device.name()),
                cause: "shorter than an Ethernet header".into(),
                packets: self.too_short,
            });
        }
        if let Some(packets) = self.refused.filter(|packets| *packets > 0) {
            let place = self.device.name().to_owned();
            stats.tx_drops.push(Drops { place, cause: "refused by the driver: ring full".into(), packets });
        }
        Ok(stats)
    }
}
