//! The port: batches in and out of libpcap.

use std::io;

use linerate_mem::{Batch, Pool, Span, Totals};
use linerate_port::{Caps, Drops, Interest, LinkState, Port, PortError, Readiness, Stats, complete_checksums};
use linerate_sys::clock;
use linerate_sys::poll::{PollFor, poll};

use crate::device::{Device, ETHERNET_BYTES};
use crate::receive::Receiver;
use crate::sys::{Handle, PcapError};

/// Most slots of one packet.
pub(crate) const SLOTS_MAX: usize = 128;
/// So many empty `receive` calls pass between two looks at the interface, for callers that spin and never `wait`.
const EMPTY_CALLS_MAX: u32 = 4096;
/// Sleep after the driver refused a packet: nothing tells when its ring has room.
const DRIVER_NAP_NS: u64 = 20_000;
/// Kernels before 6.18 hand blocks over at ticks of their timer, up to 10 ms apart.
const TIMER_TICK_NS: u64 = 10_000_000;

/// An interface through libpcap.
pub struct PcapPort {
    caps: Caps,
    pool: Pool,
    device: Device,
    handle: Handle,
    receiver: Receiver,
    /// A packet of several slots in one piece, as libpcap wants it.
    joined: Vec<u8>,
    sent: Totals,
    too_short: u64,
    buffer_full: Count,
    interface_dropped: Count,
    timeout_ns: u64,
    empty_calls: u32,
    driver_full: bool,
    /// The interface was away for long enough that all which came before has been handed over.
    drained: bool,
    /// libpcap's last answer was an error, though the interface was in order.
    failed: bool,
}

/// A 32-bit counter that goes round, as one of 64 bits.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    last: u32,
    total: u64,
}

impl Count {
    fn update(&mut self, now: u32) {
        self.total += u64::from(now.wrapping_sub(self.last));
        self.last = now;
    }
}

impl PcapPort {
    pub(crate) fn new(caps: Caps, pool: &Pool, device: Device, handle: Handle, timeout_ns: u64) -> PcapPort {
        PcapPort {
            caps,
            pool: pool.clone(),
            device,
            handle,
            receiver: Receiver::default(),
            joined: Vec::new(),
            sent: Totals::default(),
            too_short: 0,
            buffer_full: Count::default(),
            interface_dropped: Count::default(),
            timeout_ns,
            empty_calls: 0,
            driver_full: false,
            drained: false,
            failed: false,
        }
    }

    /// Asks libpcap for packets; an error of libpcap's becomes one only if the interface is in order.
    fn fill(&mut self, batch: &mut Batch) -> Result<Result<(), PcapError>, PortError> {
        let clock_offset_ns = clock::realtime_ahead_ns();
        let (handle, longest) = (&mut self.handle, self.device.frame_len_max);
        let outcome = self.receiver.receive(handle, &mut self.pool, batch, clock_offset_ns, longest);
        if outcome.is_err() {
            self.device.check(&self.caps.name)?;
        }
        Ok(outcome)
    }

    /// Looks at the interface now and then, for callers that spin and never `wait`.
    fn looks_gone(&mut self) -> bool {
        self.empty_calls += 1;
        if self.empty_calls < EMPTY_CALLS_MAX {
            return false;
        }
        self.empty_calls = 0;
        self.device.check(&self.caps.name).is_err()
    }

    /// True when the interface has just gone, and after the time in which libpcap gets what came before.
    #[cold]
    fn has_just_gone(&mut self) -> bool {
        if std::mem::replace(&mut self.drained, true) {
            return false;
        }
        clock::sleep_until_ns(clock::now_ns() + 2 * self.timeout_ns + TIMER_TICK_NS);
        true
    }

    /// Sends or discards the packet at the front of the batch; false when it stays for now.
    fn transmit_front(&mut self, batch: &mut Batch) -> Result<bool, PortError> {
        let Some(Span { slots, len }) = batch.span(0) else { return Ok(false) };
        if len < ETHERNET_BYTES {
            self.pool.free_front(batch, slots);
            self.too_short += 1;
            return Ok(true);
        }
        if slots > SLOTS_MAX {
            let max = self.device.frame_len_max;
            return Err(PortError::FrameTooLong { port: self.caps.name.clone(), len, max });
        }
        if len > self.device.frame_len_max {
            self.device.check_len(&self.caps.name, batch.packet(0), len)?;
        }
        let outcome = if slots == 1 {
            self.handle.inject(batch.packet(0))
        } else {
            self.joined.resize(len, 0);
            batch.reader(0, slots).read(&mut self.joined);
            self.handle.inject(&self.joined)
        };
        if let Err(error) = outcome {
            return self.refused(batch, len, error).map(|()| false);
        }
        self.pool.free_front(batch, slots);
        self.sent.packets += 1;
        self.sent.bytes += len as u64;
        Ok(true)
    }

    /// What an errno of sending means: nothing if it only has to be tried again later.
    #[cold]
    fn refused(&mut self, batch: &Batch, len: usize, error: io::Error) -> Result<(), PortError> {
        match error.raw_os_error() {
            Some(libc::EAGAIN) => Ok(()),
            Some(libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => {
                self.driver_full = true;
                Ok(())
            }
            Some(libc::EMSGSIZE) => {
                self.device.check_len(&self.caps.name, batch.packet(0), len)?;
                Err(self.caps.io_error("pcap_inject", error))
            }
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                self.driver_full = true;
                self.device.check(&self.caps.name)
            }
            _ => Err(self.caps.io_error("pcap_inject", error)),
        }
    }

    fn poll(&mut self, wanted: PollFor, timeout_ns: u64) -> Result<Readiness, PortError> {
        let Some(fd) = self.handle.fd() else {
            clock::sleep_until_ns(clock::now_ns() + timeout_ns.min(self.timeout_ns));
            return Ok(Readiness::Ready);
        };
        let polled = poll(fd, wanted, timeout_ns).map_err(|error| self.caps.io_error("poll", error))?;
        if (polled.failed || !polled.ready)
            && let Err(error) = self.device.check(&self.caps.name)
        {
            let last_try = wanted == PollFor::Reading && self.has_just_gone();
            return if last_try { Ok(Readiness::Ready) } else { Err(error) };
        }
        Ok(if polled.ready || polled.failed { Readiness::Ready } else { Readiness::TimedOut })
    }
}

impl Port for PcapPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        let before = self.receiver.totals.packets;
        let mut outcome = self.fill(batch);
        if self.receiver.totals.packets == before && (outcome.is_err() || self.looks_gone()) && self.has_just_gone() {
            outcome = self.fill(batch);
        }
        let received = (self.receiver.totals.packets - before) as usize;
        if received > 0 {
            // An error comes again.
            self.drained = false;
            return Ok(received);
        }
        match outcome? {
            // One that libpcap remembered from before the interface came back: the next call is in order.
            Err(_) if !std::mem::replace(&mut self.failed, true) => Ok(0),
            Err(error) => Err(self.caps.io_error(error.operation, io::Error::other(error.text))),
            Ok(()) => {
                self.failed = false;
                if self.drained {
                    self.device.check(&self.caps.name)?;
                    self.drained = false;
                }
                Ok(0)
            }
        }
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        complete_checksums(batch);
        self.driver_full = false;
        let mut taken = 0;
        while !batch.is_empty() {
            match self.transmit_front(batch) {
                Ok(true) => taken += 1,
                Ok(false) => break,
                // What was sent before the error is reported first; the error comes again.
                Err(_) if taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        match interest {
            Interest::Receive if self.receiver.ready() => Ok(Readiness::Ready),
            Interest::Receive => self.poll(PollFor::Reading, timeout_ns),
            Interest::Transmit if std::mem::take(&mut self.driver_full) => {
                clock::sleep_until_ns(clock::now_ns() + DRIVER_NAP_NS.min(timeout_ns));
                Ok(Readiness::Ready)
            }
            Interest::Transmit => self.poll(PollFor::Writing, timeout_ns),
        }
    }

    fn link(&mut self) -> Result<LinkState, PortError> {
        match self.device.check(&self.caps.name) {
            Ok(()) if self.device.has_carrier() => Ok(LinkState::Up),
            Ok(()) | Err(PortError::Down { .. }) => Ok(LinkState::Down),
            Err(error) => Err(error),
        }
    }

    fn current_frame_len_max(&mut self) -> usize {
        self.device.reread_mtu();
        self.device.frame_len_max
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        // Of an interface that is gone the last counts stand.
        if let Ok((buffer_full, interface_dropped)) = self.handle.drops() {
            self.buffer_full.update(buffer_full);
            self.interface_dropped.update(interface_dropped);
        }
        let row = |place: String, cause: &str, packets| Drops { place, cause: cause.into(), packets };
        let ring = format!("libpcap buffer of {}", self.device.name());
        let mut stats = Stats {
            rx_packets: self.receiver.totals.packets,
            rx_bytes: self.receiver.totals.bytes,
            tx_packets: self.sent.packets,
            tx_bytes: self.sent.bytes,
            rx_drops: vec![
                row(ring.clone(), "buffer full", self.buffer_full.total),
                row(
                    format!("interface {}", self.device.name()),
                    "dropped by the interface",
                    self.interface_dropped.total,
                ),
                row(ring.clone(), "cut short", self.receiver.truncated),
                row(ring, "longer than the batch", self.receiver.too_long),
            ],
            tx_drops: vec![row(self.caps.name.clone(), "shorter than an Ethernet header", self.too_short)],
            ..Stats::default()
        };
        stats.rx_drops.retain(|row| row.packets > 0);
        stats.tx_drops.retain(|row| row.packets > 0);
        Ok(stats)
    }
}
