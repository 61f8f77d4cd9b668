//! The port: one read(2) or write(2) a packet.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use linerate_mem::{Batch, Pool, Scattered, Span, Written};
use linerate_port::{Caps, Drops, Interest, LinkState, Port, PortError, Readiness, Stats, complete_checksums};
use linerate_sys::netdev::Presence;
use linerate_sys::poll::{PollFor, Polled, poll};

use crate::device::Device;

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_BYTES: usize = 14;
/// Bytes by which a frame with an 802.1Q tag may be longer.
const VLAN_BYTES: usize = 4;
/// Most slots of one packet.
pub(crate) const SLOTS_MAX: usize = 128;
/// Bytes of the longest packet that the kernel hands to a TAP device, tags included.
const PACKET_LEN_MAX: usize = 65_536 + 64;
/// A sleeping reader looks this often whether the device was set down, which wakes nobody.
const SLEEP_NS_MAX: u64 = 100_000_000;
/// So many empty `receive` calls pass between two looks, for callers that never `wait`.
const EMPTY_CALLS_MAX: u32 = 1024;

/// The far end of a TAP device.
pub struct TapPort {
    caps: Caps,
    pool: Pool,
    file: File,
    device: Device,
    frame_len_max: usize,
    /// Where a packet goes on that is longer than a frame.
    spill: Box<[u8]>,
    /// A packet longer than a frame, as long as the batch or the pool has no room for it.
    long: Vec<u8>,
    stats: Stats,
    too_short: u64,
    too_long: u64,
    empty_calls: u32,
}

impl TapPort {
    pub(crate) fn new(caps: Caps, pool: &Pool, file: File, device: Device) -> TapPort {
        TapPort {
            frame_len_max: caps.frame_len_max,
            caps,
            pool: pool.clone(),
            file,
            device,
            spill: vec![0; PACKET_LEN_MAX].into(),
            long: Vec::new(),
            stats: Stats::default(),
            too_short: 0,
            too_long: 0,
            empty_calls: 0,
        }
    }

    fn check_device(&mut self) -> Result<(), PortError> {
        let (port, interface) = (self.caps.name.clone(), self.device.name().to_string());
        match self.device.presence(&self.file) {
            Presence::Up => Ok(()),
            Presence::Down => Err(PortError::Down { port, interface }),
            Presence::Gone => {
                let what = format!("TAP device {interface} was deleted");
                Err(PortError::Gone { port, what })
            }
        }
    }

    /// What a failed call means: nothing if it only has to be tried again later.
    fn failure(&mut self, operation: &'static str, error: io::Error) -> Result<(), PortError> {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM) => Ok(()),
            _ => {
                self.check_device()?;
                Err(self.caps.io_error(operation, error))
            }
        }
    }

    /// Reads packets until one is longer than a frame (it is then in `long`) or there is nothing more to do.
    fn read_run(&mut self, batch: &mut Batch) -> io::Result<()> {
        let (spill, long) = (&mut self.spill, &mut self.long);
        let (mut outcome, mut bytes) = (Ok(()), 0);
        let taken = self.pool.fill(batch, usize::MAX, |frame| {
            let room = frame.len();
            match (&self.file).read_vectored(&mut [IoSliceMut::new(frame), IoSliceMut::new(spill)]) {
                Ok(len) if len <= room => {
                    bytes += len as u64;
                    return Some(Written { len, ..Written::default() });
                }
                Ok(len) => {
                    long.extend_from_slice(frame);
                    long.extend_from_slice(&spill[..len - room]);
                }
                Err(error) => outcome = Err(error),
            }
            None
        });
        self.stats.rx_packets += taken as u64;
        self.stats.rx_bytes += bytes;
        outcome
    }

    /// Hands out the packet that was too long for a frame; false when it has to wait.
    fn hand_out_long(&mut self, batch: &mut Batch) -> bool {
        match self.pool.scatter_bytes(batch, &self.long, 0) {
            Scattered::NotNow => return false,
            Scattered::TooLong => self.too_long += 1,
            Scattered::Done => {
                self.stats.rx_packets += 1;
                self.stats.rx_bytes += self.long.len() as u64;
            }
        }
        self.long.clear();
        true
    }

    /// Sends the packet in the first `slots` slots; false when there is no room for it now.
    fn send_front(&mut self, batch: &mut Batch, slots: usize, len: usize) -> Result<bool, PortError> {
        let sent = self.write(batch, 0, slots, len)?;
        if sent {
            self.pool.free_front(batch, slots);
        }
        Ok(sent)
    }

    /// Writes the packet in `slots` slots from `at` on; false when there is no room for it now.
    fn write(&mut self, batch: &Batch, at: usize, slots: usize, len: usize) -> Result<bool, PortError> {
        let mut parts = [IoSlice::new(&[]); SLOTS_MAX];
        for (part, bytes) in parts.iter_mut().zip(batch.iter().skip(at).take(slots)) {
            *part = IoSlice::new(bytes);
        }
        if let Err(error) = (&self.file).write_vectored(&parts[..slots]) {
            return self.failure("write", error).map(|()| false);
        }
        self.stats.tx_packets += 1;
        self.stats.tx_bytes += len as u64;
        Ok(true)
    }

    /// Sends or discards the packet at the front of the batch; false when it stays for now.
    fn transmit_front(&mut self, batch: &mut Batch) -> Result<bool, PortError> {
        let Some(Span { slots, len }) = batch.span(0) else { return Ok(false) };
        if len < ETHERNET_BYTES {
            self.pool.free_front(batch, slots);
            self.too_short += 1;
            return Ok(true);
        }
        if len > self.frame_len_max || slots > SLOTS_MAX {
            self.check_len(batch, slots, len)?;
        }
        self.send_front(batch, slots, len)
    }

    #[cold]
    fn check_len(&mut self, batch: &Batch, slots: usize, len: usize) -> Result<(), PortError> {
        // The MTU may have changed.
        if let Ok(mtu) = self.device.mtu(&self.file) {
            self.frame_len_max = mtu as usize + ETHERNET_BYTES;
        }
        let tagged = batch.packet(0).get(12..14).is_some_and(|ethertype| ethertype == [0x81, 0x00]);
        let max = self.frame_len_max + if tagged { VLAN_BYTES } else { 0 };
        if len <= max && slots <= SLOTS_MAX {
            return Ok(());
        }
        Err(PortError::FrameTooLong { port: self.caps.name.clone(), len, max })
    }

    fn poll(&self, wanted: PollFor, timeout_ns: u64) -> Result<Polled, PortError> {
        poll(self.file.as_fd(), wanted, timeout_ns).map_err(|error| self.caps.io_error("poll", error))
    }
}

impl Port for TapPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        let before = self.stats.rx_packets;
        let outcome = loop {
            if !self.long.is_empty() && !self.hand_out_long(batch) {
                break Ok(());
            }
            match self.read_run(batch) {
                Ok(()) if self.long.is_empty() => break Ok(()),
                Ok(()) => {}
                Err(error) => break self.failure("read", error),
            }
        };
        let received = (self.stats.rx_packets - before) as usize;
        if received > 0 {
            // An error comes again.
            return Ok(received);
        }
        outcome?;
        self.empty_calls += 1;
        if self.empty_calls >= EMPTY_CALLS_MAX {
            self.empty_calls = 0;
            self.check_device()?;
        }
        Ok(0)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        complete_checksums(batch);
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

    fn transmit_ref(&mut self, batch: &Batch, from: usize) -> Result<usize, PortError> {
        let (mut at, mut packets) = (from, 0);
        while let Some(span) = batch.span(at) {
            let fits = span.slots <= SLOTS_MAX && (ETHERNET_BYTES..=self.frame_len_max).contains(&span.len);
            let sent = if fits { self.write(batch, at, span.slots, span.len) } else { Ok(false) };
            match sent {
                Ok(true) => (at, packets) = (at + span.slots, packets + 1),
                Ok(false) => break,
                // As above.
                Err(_) if packets > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(packets)
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        let wanted = match interest {
            Interest::Receive if !self.long.is_empty() => return Ok(Readiness::Ready),
            Interest::Receive => PollFor::Reading,
            Interest::Transmit => PollFor::Writing,
        };
        let mut left_ns = timeout_ns;
        loop {
            let step_ns = left_ns.min(SLEEP_NS_MAX);
            let before_ns = linerate_sys::clock::now_ns();
            let polled = self.poll(wanted, step_ns)?;
            if polled.ready {
                return Ok(Readiness::Ready);
            }
            self.check_device()?;
            let slept_ns = linerate_sys::clock::now_ns() - before_ns;
            left_ns = left_ns.saturating_sub(slept_ns);
            if left_ns == 0 || slept_ns < step_ns {
                // The time is over, or a signal arrived.
                return Ok(Readiness::TimedOut);
            }
        }
    }

    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        if self.long.is_empty() {
            add(self.file.as_fd());
        }
        self.long.is_empty()
    }

    fn link(&mut self) -> Result<LinkState, PortError> {
        match self.check_device() {
            Ok(()) => Ok(LinkState::Up),
            Err(PortError::Down { .. }) => Ok(LinkState::Down),
            Err(error) => Err(error),
        }
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let mut stats = self.stats.clone();
        let queue_full = self.device.dropped(&self.file);
        let name = self.device.name();
        let row = |place: String, cause: &str, packets| Drops { place, cause: cause.into(), packets };
        stats.rx_drops = vec![
            row(format!("queue of TAP device {name}"), "queue full", queue_full),
            row(self.caps.name.clone(), "longer than the batch", self.too_long),
        ];
        stats.tx_drops = vec![row(self.caps.name.clone(), "shorter than an Ethernet header", self.too_short)];
        stats.rx_drops.retain(|row| row.packets > 0);
        stats.tx_drops.retain(|row| row.packets > 0);
        Ok(stats)
    }
}
