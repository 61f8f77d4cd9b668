//! The port: batches in and out of the socket.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use linerate_mem::{Batch, Pool};
use linerate_port::{Caps, Drops, Interest, LinkState, Port, PortError, Readiness, Stats, complete_checksums};
use linerate_sys::clock;
use linerate_sys::napi::Deferral;
use linerate_sys::poll::{PollFor, poll};

use crate::device::Device;
use crate::receive::Receiver;
use crate::ring::RingLosses;
use crate::senders::Senders;
use crate::sys::{Messages, Socket};
use crate::transmit::{self, Refusal, Stop, next_run, refusal, slots_of};

/// Sleep after the driver refused a packet: nothing tells when its ring has room, and it drains within tens of microseconds.
const DRIVER_NAP_NS: u64 = 20_000;
/// Answers that turned out to be out of date (the interface was down, the MTU another) that one `transmit` puts up with.
const TRIES_MAX: u32 = 4;

/// AF_PACKET sockets on an interface: one that receives, and one or two that send.
pub struct PacketPort {
    pub(crate) caps: Caps,
    pub(crate) pool: Pool,
    device: Device,
    /// `None` with `tx_only`.
    pub(crate) receiver: Option<Receiver>,
    /// `None` with `rx_only`.
    senders: Option<Senders>,
    /// The last packets went by the socket with notes.
    notes: bool,
    messages: Messages,
    /// The sockets send through the queueing discipline.
    through_qdisc: bool,
    pub(crate) stats: Stats,
    pub(crate) losses: RingLosses,
    too_short: u64,
    /// Packets that the driver refused; `None` when they are to be sent again.
    refused: Option<u64>,
    pub(crate) empty_calls: u32,
    /// The interface was down or gone when last looked at.
    pub(crate) down: bool,
    /// It was so long enough for the kernel to have handed over all that came before.
    pub(crate) drained: bool,
    /// The driver refused the last packet.
    driver_full: bool,
    /// Of the interface, as long as a port needs it.
    _deferral: Option<Arc<Deferral>>,
}

impl PacketPort {
    /// From now on a packet that the driver refuses is lost instead of being sent again.
    pub(crate) fn drop_refused(&mut self) {
        self.refused = Some(0);
    }

    /// The sockets were opened to send through the queueing discipline.
    pub(crate) fn goes_through_qdisc(&mut self) {
        self.through_qdisc = true;
    }

    /// Keeps the interface as it is now for as long as the port.
    pub(crate) fn hold(&mut self, deferral: Option<Arc<Deferral>>) {
        self._deferral = deferral;
    }

    /// The socket that receives, if there is one.
    pub(crate) fn receiving_socket(&self) -> Option<&Socket> {
        self.receiver.as_ref().map(|receiver| &receiver.socket)
    }

    pub(crate) fn new(
        caps: Caps,
        pool: &Pool,
        device: Device,
        senders: Option<Senders>,
        receiver: Option<Receiver>,
    ) -> PacketPort {
        PacketPort {
            caps,
            pool: pool.clone(),
            device,
            receiver,
            senders,
            notes: false,
            messages: Messages::new(),
            through_qdisc: false,
            stats: Stats::default(),
            losses: RingLosses::default(),
            too_short: 0,
            refused: None,
            empty_calls: 0,
            down: false,
            drained: false,
            driver_full: false,
            _deferral: None,
        }
    }

    /// Times that the receive ring was full, since the port was opened; each may have cost many packets.
    pub fn freezes(&mut self) -> u64 {
        self.collect_losses();
        self.losses.freezes
    }

    /// An error if the interface is down or gone, or if the socket has a pending one that is about something else.
    #[cold]
    pub(crate) fn check_device(&mut self) -> Result<(), PortError> {
        let socket = self
            .receiver
            .as_ref()
            .map(|receiver| &receiver.socket)
            .or(self.senders.as_ref().map(|senders| senders.socket(false)));
        let pending = socket.map_or(Ok(None), Socket::take_error);
        let pending = pending.map_err(|error| self.caps.io_error("reading the socket's error", error))?;
        let trouble = self.device.trouble(&self.caps.name);
        self.down = trouble.is_some();
        match (trouble, pending) {
            (Some(trouble), _) => Err(trouble),
            (None, Some(error)) if refusal(&error) == Refusal::Other => {
                Err(self.caps.io_error("AF_PACKET socket", error))
            }
            (None, _) => Ok(()),
        }
    }

    fn collect_losses(&mut self) {
        let Some(receiver) = &self.receiver else { return };
        if let Ok(counts) = receiver.socket.take_counts() {
            self.losses.ring_full += counts.drops;
            self.losses.freezes += counts.freezes;
        }
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
        let Some(senders) = &self.senders else { return Ok(Step::Full) };
        self.notes = senders.offload() && batch.has_partial_checksums(0);
        let error = match self.messages.send(senders.socket(self.notes), batch, run.slots, self.notes) {
            Ok(sent) => return Ok(self.sent(batch, run, sent)),
            Err(error) => error,
        };
        match refusal(&error) {
            Refusal::BufferFull => Ok(Step::Full),
            // Past the qdisc the kernel cuts nothing (__dev_direct_xmit in net/core/dev.c): if the interface does not, the packet is dropped.
            Refusal::DriverFull if self.messages.first_is_merged() && !self.through_qdisc => {
                self.through_qdisc = true;
                senders.go_through_qdisc().map_err(|error| self.caps.io_error("setsockopt", error))?;
                Ok(Step::Again)
            }
            Refusal::DriverFull if self.refused.is_some() && error.raw_os_error() == Some(libc::ENOBUFS) => {
                self.pool.free_front(batch, slots_of(batch, 1));
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
                _ => Err(self.caps.io_error("sendmmsg", error)),
            },
            Refusal::Other => Err(self.caps.io_error("sendmmsg", error)),
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
        self.pool.free_front(batch, slots);
        self.stats.tx_packets += totals.packets;
        self.stats.tx_bytes += totals.bytes;
        Step::Took(sent)
    }

    /// The packet at the front cannot go as it is.
    #[inline]
    #[cold]
    fn clear_front(&mut self, batch: &mut Batch, stop: Stop) -> Result<Step, PortError> {
        match stop {
            Stop::Incomplete => Ok(Step::Full),
            Stop::TooShort { slots } => {
                self.pool.free_front(batch, slots);
                self.too_short += 1;
                Ok(Step::Took(1))
            }
            Stop::TooLong { len, max } => match self.device.reread_mtu() {
                Ok(true) => Ok(Step::Again),
                Ok(false) => Err(PortError::FrameTooLong { port: self.caps.name.clone(), len, max }),
                Err(error) => {
                    self.check_device()?;
                    Err(self.caps.io_error("reading the MTU", error))
                }
            },
        }
    }

    #[inline]
    fn wait_to_transmit(&mut self, timeout_ns: u64) -> Result<Readiness, PortError> {
        if std::mem::take(&mut self.driver_full) {
            clock::sleep_until_ns(clock::now_ns() + DRIVER_NAP_NS.min(timeout_ns));
            return Ok(Readiness::Ready);
        }
        let Some(senders) = &self.senders else { return Ok(Readiness::Closed) };
        let polled = poll(senders.socket(self.notes).as_fd(), PollFor::Writing, timeout_ns);
        let polled = polled.map_err(|error| self.caps.io_error("poll", error))?;
        if polled.failed {
            self.check_device()?;
        }
        Ok(if polled.ready { Readiness::Ready } else { Readiness::TimedOut })
    }
}

impl Port for PacketPort {
    #[inline]
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        self.receive_packets(batch)
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        let Some(offload) = self.senders.as_ref().map(Senders::offload) else {
            let what = "opened to receive only, so it does not send".into();
            return Err(PortError::Unsupported { port: self.caps.name.clone(), what });
        };
        if !offload {
            complete_checksums(batch);
        }
        self.driver_full = false;
        let (mut taken, mut tries) = (0, 0);
        while !batch.is_empty() {
            let run = next_run(batch, self.device.frame_len_max, offload);
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

    #[inline]
    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        match interest {
            Interest::Receive => self.wait_to_receive(timeout_ns),
            Interest::Transmit => self.wait_to_transmit(timeout_ns),
        }
    }

    #[inline]
    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        // An interface that is down is looked at again by `receive`; its socket would show an error all the time.
        match &self.receiver {
            Some(receiver) if !self.down && receiver.sleeps() => {
                add(receiver.socket.as_fd());
                true
            }
            _ => false,
        }
    }

    fn rx_occupancy(&self) -> Option<(u64, u64)> {
        self.receiver.as_ref().map(|receiver| receiver.ring.level_bytes())
    }

    fn link(&mut self) -> Result<LinkState, PortError> {
        match self.check_device() {
            Ok(()) if self.device.has_carrier() => Ok(LinkState::Up),
            Ok(()) | Err(PortError::Down { .. }) => Ok(LinkState::Down),
            Err(error) => Err(error),
        }
    }

    fn current_frame_len_max(&mut self) -> usize {
        // An interface that cannot be asked takes what it took before.
        let _ = self.device.reread_mtu();
        self.device.frame_len_max
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
