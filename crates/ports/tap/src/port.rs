//! The port: one read(2) or write(2) a packet.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use linerate_mem::{Batch, Pool, Span, Written};
use linerate_port::{
    Caps, Drops, Interest, LinkState, LongPacket, Port, PortError, Readiness, Stats, Unfinished, VnetHeader,
    complete_checksums, merge_at,
};
use linerate_sys::netdev::Presence;
use linerate_sys::poll::{PollFor, Polled, poll};
use linerate_wire::Merge;

use crate::device::Device;

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET_BYTES: usize = 14;
/// Bytes by which a frame with an 802.1Q tag may be longer.
const VLAN_BYTES: usize = 4;
/// Most slots of one packet.
pub(crate) const SLOTS_MAX: usize = 128;
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
    /// Where packets are read to, and stay while they are handed out in parts.
    long: LongPacket,
    /// Checksums and the cutting of segments are left to the kernel.
    offload: bool,
    stats: Stats,
    too_short: u64,
    too_long: u64,
    /// Merged or with a partial checksum in a way that is not known here.
    unknown: u64,
    empty_calls: u32,
}

impl TapPort {
    pub(crate) fn new(caps: Caps, pool: &Pool, file: File, device: Device, offload: bool) -> TapPort {
        TapPort {
            frame_len_max: caps.frame_len_max,
            caps,
            pool: pool.clone(),
            file,
            device,
            long: LongPacket::new(),
            offload,
            stats: Stats::default(),
            too_short: 0,
            too_long: 0,
            unknown: 0,
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

    /// Reads packets until one does not go into one frame as it is (it is then in `long`) or there is nothing more to do.
    fn read_run(&mut self, batch: &mut Batch) -> io::Result<()> {
        let TapPort { file, long, too_long, unknown, .. } = self;
        let (mut outcome, mut bytes) = (Ok(()), 0);
        let taken = self.pool.fill(batch, usize::MAX, |frame| {
            let (len, note) = match read_packet(file, long.note_and_bytes_mut()) {
                Ok(read) => read,
                Err(error) => {
                    outcome = Err(error);
                    return None;
                }
            };
            if len <= frame.len() && !note.is_merged() {
                let packet = &mut long.bytes_mut()[..len];
                let Some(checksum) = note.checksum(packet) else {
                    *unknown += 1;
                    return None;
                };
                frame[..len].copy_from_slice(packet);
                bytes += len as u64;
                return Some(Written { len, checksum, ..Written::default() });
            }
            if len > LongPacket::LEN_MAX {
                *too_long += 1;
            } else if let Err(Unfinished::NotCut | Unfinished::NotCompleted) = long.begin(len, &note, 0) {
                *unknown += 1;
            }
            None
        });
        self.stats.rx_packets += taken as u64;
        self.stats.rx_bytes += bytes;
        outcome
    }

    /// Hands out the packet that is in parts; false when something is left of it.
    fn hand_out_long(&mut self, batch: &mut Batch) -> bool {
        self.long.hand_out(&mut self.pool, batch, &mut self.stats, &mut self.too_long)
    }

    /// Writes the packet in `slots` slots from `at` on; false when there is no room for it now.
    fn write(&mut self, batch: &Batch, at: usize, span: Span, note: VnetHeader) -> Result<bool, PortError> {
        let note = note.to_bytes();
        let mut parts = [IoSlice::new(&[]); SLOTS_MAX + 2];
        parts[0] = IoSlice::new(&note);
        for (part, bytes) in parts[1..].iter_mut().zip(batch.iter().skip(at).take(span.slots)) {
            *part = IoSlice::new(bytes);
        }
        let sent = self.write_parts(&parts[..=span.slots])?;
        if sent {
            self.stats.tx_packets += 1;
            self.stats.tx_bytes += span.len as u64;
        }
        Ok(sent)
    }

    /// Writes one packet; false when there is no room for it now.
    fn write_parts(&mut self, parts: &[IoSlice<'_>]) -> Result<bool, PortError> {
        // A packet is written as a whole, or not at all.
        if let Err(error) = (&self.file).write_vectored(parts) {
            return self.failure("write", error).map(|()| false);
        }
        Ok(true)
    }

    /// Sends or discards the packet at the front of the batch, or several as one; returns how many left, 0 when it stays for now.
    fn transmit_front(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let Some(span) = batch.span(0) else { return Ok(0) };
        if span.len < ETHERNET_BYTES {
            self.pool.free_front(batch, span.slots);
            self.too_short += 1;
            return Ok(1);
        }
        if span.len > self.frame_len_max || span.slots > SLOTS_MAX {
            self.check_len(batch, span.slots, span.len)?;
        }
        if let Some(merge) = merge_at(batch, 0, SLOTS_MAX) {
            return self.transmit_merged(batch, merge);
        }
        let note = VnetHeader::of_packet(batch, 0);
        let sent = self.write(batch, 0, span, note)?;
        if sent {
            self.pool.free_front(batch, span.slots);
        }
        Ok(usize::from(sent))
    }

    /// Sends the segments at the front as one packet; returns how many they are, or 0.
    fn transmit_merged(&mut self, batch: &mut Batch, mut merge: Merge) -> Result<usize, PortError> {
        let (note, segments, data_len) = (VnetHeader::of_merged(&merge).to_bytes(), merge.segments(), merge.data_len());
        let headers = merge.finish();
        let mut parts = [IoSlice::new(&[]); SLOTS_MAX + 2];
        (parts[0], parts[1]) = (IoSlice::new(&note), IoSlice::new(headers));
        for (part, bytes) in parts[2..].iter_mut().zip(batch.iter().take(segments)) {
            *part = IoSlice::new(&bytes[headers.len()..]);
        }
        if !self.write_parts(&parts[..segments + 2])? {
            return Ok(0);
        }
        self.stats.tx_packets += segments as u64;
        self.stats.tx_bytes += (segments * headers.len() + data_len) as u64;
        self.pool.free_front(batch, segments);
        Ok(segments)
    }

    /// Asks for the MTU, which may have changed.
    fn reread_mtu(&mut self) {
        if let Ok(mtu) = self.device.mtu(&self.file) {
            self.frame_len_max = mtu as usize + ETHERNET_BYTES;
        }
    }

    #[cold]
    fn check_len(&mut self, batch: &Batch, slots: usize, len: usize) -> Result<(), PortError> {
        self.reread_mtu();
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

/// Reads a note and the packet behind it, in one piece, because a list of pieces costs the kernel a part of each call. The length of the packet may
/// be more than there was room for.
fn read_packet(mut file: &File, to: &mut [u8]) -> io::Result<(usize, VnetHeader)> {
    let len = file.read(to)?;
    let note = to.first_chunk().copied().unwrap_or_default();
    Ok((len.saturating_sub(VnetHeader::BYTES), VnetHeader::parse(note, 0)))
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
        if !self.offload {
            complete_checksums(batch);
        }
        let mut taken = 0;
        while !batch.is_empty() {
            match self.transmit_front(batch) {
                Ok(0) => break,
                Ok(packets) => taken += packets,
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
            let sent = if fits { self.write(batch, at, span, VnetHeader::default()) } else { Ok(false) };
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

    fn current_frame_len_max(&mut self) -> usize {
        self.reread_mtu();
        self.frame_len_max
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let mut stats = self.stats.clone();
        let queue_full = self.device.dropped(&self.file);
        let name = self.device.name();
        let row = |place: String, cause: &str, packets| Drops { place, cause: cause.into(), packets };
        stats.rx_drops = vec![
            row(format!("queue of TAP device {name}"), "queue full", queue_full),
            row(self.caps.name.clone(), "longer than the batch", self.too_long),
            row(self.caps.name.clone(), "left to a network card in a way that is not known", self.unknown),
        ];
        stats.tx_drops = vec![row(self.caps.name.clone(), "shorter than an Ethernet header", self.too_short)];
        stats.rx_drops.retain(|row| row.packets > 0);
        stats.tx_drops.retain(|row| row.packets > 0);
        Ok(stats)
    }
}
