//! The port: one ring pair, its totals, and what it says when the interface is gone.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use linerate_mem::{Batch, Pool};
use linerate_port::{
    Caps, Drops, GeneratorRun, GeneratorStream, Interest, LinkState, Port, PortError, Readiness, RxCounter, Stats,
    TxGenerator, complete_checksums,
};
use linerate_sys::clock;
use linerate_sys::netdev::{Netdev, Presence};
use linerate_sys::poll::{PollFor, poll};
use linerate_sys::promiscuous::Promiscuous;

use crate::abi::FRAGMENTS_MAX;
use crate::fault::{Corrupt, Fault};
use crate::receive::Receiver;
use crate::ring::Taker;
use crate::sys::{Control, let_wakers_finish};
use crate::transmit::Sender;

/// A batch of fewer packets is handed over at once.
const LARGE_BATCH: usize = 32;
/// Packets of one call of the generator: some milliseconds of work.
const PACKETS_PER_RUN: u64 = 1 << 16;
/// A sleeper asks after the interface this often.
pub(crate) const CHECK_NS: u64 = 50_000_000;

/// What a port keeps as long as it is open, beside its rings.
pub(crate) struct Held {
    /// Promiscuous mode, for all ports of the device.
    pub _promiscuous: Option<Arc<Promiscuous>>,
    /// The interface, and its index; `None` for a port that stands on none.
    pub interface: Option<(Netdev, u32)>,
}

/// The port of one ring pair.
pub struct NetmapPort {
    pub(crate) caps: Caps,
    pub(crate) receiver: Option<Receiver>,
    pub(crate) sender: Option<Sender>,
    pub(crate) pool: Pool,
    pub(crate) control: Control,
    pub(crate) held: Held,
    /// The caller sleeps on the descriptor, which syncs.
    pub(crate) sleeps: bool,
    /// The thread that counts or repeats packets lets its far end finish.
    pub(crate) patient: bool,
    /// What somebody wrote that closed the port.
    pub(crate) corrupt: Option<String>,
    /// Why what is in the ring was not sent, as of the last sync.
    pub(crate) lost: Option<&'static str>,
}

impl NetmapPort {
    #[inline]
    fn check(&self, batch: &Batch) -> Result<(), PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        match self.corrupt {
            None => Ok(()),
            Some(_) => self.check_sound(),
        }
    }

    #[cold]
    pub(crate) fn check_sound(&self) -> Result<(), PortError> {
        match &self.corrupt {
            None => Ok(()),
            Some(what) => Err(PortError::PeerCorrupt { port: self.caps.name.clone(), what: what.clone() }),
        }
    }

    /// A sync of an interface that is down would sleep until it is up, and no signal would end that (`nm_kr_tryget` of netmap_kern.h).
    #[inline]
    pub(crate) fn check_up(&self) -> Result<(), Fault> {
        match &self.held.interface {
            Some((device, _)) if !device.is_up().unwrap_or(false) => Err(Fault::NotUp),
            _ => Ok(()),
        }
    }

    /// Gives read slots back and takes over what has arrived.
    #[inline]
    fn sync_receive(&mut self) -> Result<(), Fault> {
        self.check_up()?;
        let Some(side) = &mut self.receiver else { return Ok(()) };
        side.gave_back = false;
        self.control.sync_receive().map_err(|source| Fault::of("NIOCRXSYNC", source))?;
        Ok(side.ring.look()?)
    }

    /// Hands filled slots over and takes over what was sent.
    #[inline]
    fn sync_transmit(&mut self) -> Result<(), Fault> {
        self.check_up()?;
        self.sync_transmit_unchecked()
    }

    /// As [`NetmapPort::sync_transmit`], of an interface that was up a moment ago.
    #[inline]
    fn sync_transmit_unchecked(&mut self) -> Result<(), Fault> {
        let Some(side) = &mut self.sender else { return Ok(()) };
        self.control.sync_transmit().map_err(|source| Fault::of("NIOCTXSYNC", source))?;
        side.unsynced = 0;
        self.lost = None;
        Ok(side.ring.look()?)
    }

    #[inline]
    fn try_receive(&mut self, batch: &mut Batch) -> Result<usize, Fault> {
        let Some(side) = &mut self.receiver else { return Ok(0) };
        if batch.room() == 0 {
            return Ok(0);
        }
        let mut packets = 0;
        if side.ring.available() > 0 {
            packets = side.receive(batch, &mut self.pool)?;
        }
        if packets == 0 {
            // A sleep of the caller has synced.
            side.ring.look()?;
            if side.ring.available() == 0 {
                side.release_all();
                self.sync_receive()?;
            }
            if let Some(side) = self.receiver.as_mut().filter(|side| side.ring.available() > 0) {
                packets = side.receive(batch, &mut self.pool)?;
            }
        }
        if let Some(side) = self.receiver.as_mut().filter(|side| side.must_sync(self.sleeps)) {
            if side.ring.available() == 0 {
                side.release_all();
            }
            self.sync_receive()?;
        }
        Ok(packets)
    }

    #[inline]
    fn try_transmit(&mut self, batch: &mut Batch) -> Result<usize, Fault> {
        let mut taken = 0;
        loop {
            let Some(side) = &mut self.sender else { return Ok(taken) };
            match side.transmit(batch, &mut self.pool) {
                Ok(packets) => taken += packets,
                Err(Fault::TooLong(_)) if taken > 0 => break,
                Err(fault) => return Err(fault),
            }
            if batch.is_empty() {
                break;
            }
            // The ring is full until its reader had a turn. The caller's sleep hands the packets over, or its next call.
            if side.taker == Taker::Reader && taken > 0 && side.unsynced > 0 {
                return Ok(taken);
            }
            let before = side.ring.available();
            self.sync_transmit()?;
            if self.sender.as_ref().is_none_or(|side| side.ring.available() <= before) {
                break;
            }
        }
        let wanted = self
            .sender
            .as_ref()
            .is_some_and(|side| side.unsynced >= side.slots_per_sync() || side.unsynced > 0 && taken < LARGE_BATCH);
        if wanted {
            self.sync_transmit()?;
        }
        Ok(taken)
    }

    /// Sends the loaded packet up to `packets` times and returns how often: fewer if the ring stays full for some time. It looks at the
    /// interface once, since a look costs as much as a sync.
    fn repeat(&mut self, packets: u64) -> Result<Option<u64>, PortError> {
        self.check_up().map_err(|fault| self.broken(fault))?;
        if self.sender.as_ref().is_some_and(|side| side.taker == Taker::Reader) {
            self.let_far_end_finish();
        }
        let mut made = 0;
        loop {
            let Some(side) = &mut self.sender else { return Ok(None) };
            match side.repeat(packets - made) {
                Ok(Some(put)) => made += put,
                Ok(None) => return Ok(None),
                Err(corrupt) => return Err(self.broken(corrupt.into())),
            }
            if made == packets {
                return Ok(Some(made));
            }
            // What a reader gives back is waited for, and a sleep syncs.
            if side.taker != Taker::Reader {
                self.sync_transmit_unchecked().map_err(|fault| self.broken(fault))?;
            }
            let full = |port: &NetmapPort| port.sender.as_ref().is_none_or(|side| side.ring.available() == 0);
            if full(self) {
                self.sleep(Interest::Transmit, CHECK_NS)?;
                if full(self) {
                    return Ok(Some(made));
                }
            }
        }
    }

    /// A far end that waits for this one loses nothing if it fills, or empties, the whole ring first, and each call of the kernel then
    /// moves more packets. It is said once.
    #[inline]
    pub(crate) fn let_far_end_finish(&mut self) {
        if !self.patient {
            self.patient = true;
            let_wakers_finish();
        }
    }

    /// Whether the last sync left what the caller waits for; the sleep that follows otherwise syncs.
    fn is_ready(&mut self, interest: Interest) -> Result<bool, Corrupt> {
        let ring = match interest {
            Interest::Receive => self.receiver.as_mut().map(|side| &mut side.ring),
            Interest::Transmit => self.sender.as_mut().filter(|side| side.unsynced == 0).map(|side| &mut side.ring),
        };
        let Some(ring) = ring else { return Ok(false) };
        ring.look()?;
        Ok(ring.available() > 0)
    }

    /// What the interface is doing; `Up` for a port that stands on none.
    fn presence(&self) -> Presence {
        match &self.held.interface {
            Some((device, index)) => device.presence(*index),
            None => Presence::Up,
        }
    }

    /// Whether the interface is gone or down.
    fn check_interface(&self) -> Result<(), PortError> {
        let port = || self.caps.name.clone();
        match (self.presence(), &self.held.interface) {
            (Presence::Gone, Some((device, _))) => {
                Err(PortError::Gone { port: port(), what: format!("interface {} was deleted", device.name()) })
            }
            (Presence::Down, Some((device, _))) => {
                Err(PortError::Down { port: port(), interface: device.name().into() })
            }
            _ => Ok(()),
        }
    }

    #[cold]
    pub(crate) fn broken(&mut self, fault: Fault) -> PortError {
        let port = self.caps.name.clone();
        match fault {
            Fault::Corrupt(what) => {
                self.corrupt = Some(what.clone());
                PortError::PeerCorrupt { port, what }
            }
            Fault::TooLong(len) => PortError::FrameTooLong { port, len, max: self.caps.frame_len_max },
            Fault::Gone => {
                self.lost = Some("interface gone");
                PortError::Gone { port, what: "netmap gave the port up".into() }
            }
            Fault::NotUp => {
                let error = self.check_interface().err();
                self.lost = Some(if matches!(error, Some(PortError::Gone { .. })) {
                    "interface gone"
                } else {
                    "interface down"
                });
                // It may have come up again meanwhile.
                error.unwrap_or_else(|| {
                    let interface = self.held.interface.as_ref().map(|(device, _)| device.name().to_string());
                    PortError::Down { port, interface: interface.unwrap_or_default() }
                })
            }
            // A ring that netmap stopped says EIO: its interface is down, or on its way out.
            Fault::Io { operation, source } => match self.check_interface() {
                Err(error) => error,
                Ok(()) => PortError::Io { port, operation, source },
            },
        }
    }

    #[cold]
    fn not_repeated(&self, what: &str) -> PortError {
        PortError::Unsupported { port: self.caps.name.clone(), what: what.into() }
    }

    /// Sleeps for at most this long; false if nothing came.
    pub(crate) fn sleep(&mut self, interest: Interest, nap_ns: u64) -> Result<bool, PortError> {
        let wanted = match interest {
            Interest::Receive => PollFor::Reading,
            Interest::Transmit => PollFor::Writing,
        };
        let polled = poll(self.control.as_fd(), wanted, nap_ns).map_err(|source| self.caps.io_error("poll", source))?;
        if polled.failed {
            self.check_interface()?;
        }
        // The kernel synced.
        match interest {
            Interest::Receive => self.receiver.iter_mut().for_each(|side| side.gave_back = false),
            Interest::Transmit if polled.failed => {}
            Interest::Transmit => {
                self.sender.iter_mut().for_each(|side| side.unsynced = 0);
                self.lost = None;
            }
        }
        let looked =
            [self.receiver.as_mut().map(|side| &mut side.ring), self.sender.as_mut().map(|side| &mut side.ring)]
                .into_iter()
                .flatten()
                .try_for_each(|ring| ring.look());
        looked.map_err(|corrupt| self.broken(corrupt.into()))?;
        Ok(polled.ready)
    }
}

impl Port for NetmapPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.check(batch)?;
        self.try_receive(batch).map_err(|fault| self.broken(fault))
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.check(batch)?;
        complete_checksums(batch);
        self.try_transmit(batch).map_err(|fault| self.broken(fault))
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        self.check_sound()?;
        let idle = self.sender.as_ref().is_none_or(|side| side.ring.pending() == 0);
        if !idle {
            self.sync_transmit().map_err(|fault| self.broken(fault))?;
        }
        Ok(self.sender.as_ref().map_or(0, |side| side.pending().packets as usize))
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        self.check_sound()?;
        if interest == Interest::Receive && self.receiver.is_none() {
            return Ok(Readiness::Closed);
        }
        let mut left_ns = timeout_ns;
        loop {
            if self.is_ready(interest).map_err(|corrupt| self.broken(corrupt.into()))? {
                return Ok(Readiness::Ready);
            }
            self.check_up().map_err(|fault| self.broken(fault))?;
            let (before_ns, nap_ns) = (clock::now_ns(), left_ns.min(CHECK_NS));
            if self.sleep(interest, nap_ns)?
                && self.is_ready(interest).map_err(|corrupt| self.broken(corrupt.into()))?
            {
                return Ok(Readiness::Ready);
            }
            let slept_ns = clock::now_ns().saturating_sub(before_ns);
            left_ns = left_ns.saturating_sub(slept_ns.max(1));
            // A sleep that a signal ended is not continued.
            if left_ns == 0 || slept_ns < nap_ns {
                return Ok(Readiness::TimedOut);
            }
        }
    }

    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        if self.corrupt.is_some() || self.receiver.is_none() || self.check_up().is_err() {
            return false;
        }
        self.sleeps = true;
        add(self.control.as_fd());
        true
    }

    fn rx_occupancy(&self) -> Option<(u64, u64)> {
        let memory = &self.receiver.as_ref()?.ring.memory;
        let bytes = |slots: u32| u64::from(slots) * memory.buffer_bytes() as u64;
        Some((bytes(self.receiver.as_ref()?.ring.available()), bytes(memory.slots() - 1)))
    }

    fn link(&mut self) -> Result<LinkState, PortError> {
        self.check_sound()?;
        match self.check_interface() {
            Ok(()) => {}
            Err(PortError::Down { .. }) => return Ok(LinkState::Down),
            Err(error) => return Err(error),
        }
        let running = self.held.interface.as_ref().is_none_or(|(device, _)| device.is_running().unwrap_or(false));
        Ok(if running { LinkState::Up } else { LinkState::Down })
    }

    fn tx_generator(&mut self) -> Option<&mut dyn TxGenerator> {
        self.sender.is_some().then_some(self as &mut dyn TxGenerator)
    }

    fn rx_counter(&mut self) -> Option<&mut dyn RxCounter> {
        self.receiver.is_some().then_some(self as &mut dyn RxCounter)
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let row = |cause: &str, packets| Drops { place: self.caps.name.clone(), cause: cause.into(), packets };
        let mut stats = Stats::default();
        if let Some(side) = &self.receiver {
            (stats.rx_packets, stats.rx_bytes) = (side.totals.packets, side.totals.bytes);
            stats.rx_drops = vec![
                row("longer than a batch takes", side.totals.too_long),
                row("packet without a byte", side.totals.empty),
            ];
        }
        if let Some(side) = &self.sender {
            let sent = side.sent();
            (stats.tx_packets, stats.tx_bytes) = (sent.packets, sent.bytes);
            stats.tx_drops = vec![row("packet without a byte", side.empty)];
            stats.tx_drops.extend(self.lost.map(|cause| row(cause, side.pending().packets)));
        }
        stats.rx_drops.retain(|row| row.packets > 0);
        stats.tx_drops.retain(|row| row.packets > 0);
        Ok(stats)
    }
}

impl TxGenerator for NetmapPort {
    /// Takes streams whose packets are all alike and have no rate.
    fn load(&mut self, stream: &GeneratorStream) -> Result<(), PortError> {
        let alike = stream.rules.is_empty() && stream.signature.is_none() && stream.gap_ns_fixed == 0;
        let loaded = self.sender.as_mut().is_some_and(|side| alike && side.load(&stream.template));
        let what = "it repeats packets of one slot that are all alike, at full rate and without zerocopy";
        if loaded { Ok(()) } else { Err(self.not_repeated(what)) }
    }

    fn run(&mut self, packets: u64) -> Result<GeneratorRun, PortError> {
        self.check_sound()?;
        let made = self.repeat(packets)?.ok_or_else(|| self.not_repeated("no stream was loaded"))?;
        Ok(GeneratorRun { made, sent: made })
    }

    fn packets_per_run(&self) -> u64 {
        PACKETS_PER_RUN
    }

    fn is_shortcut(&self) -> bool {
        true
    }
}

impl Drop for NetmapPort {
    /// What is in the ring is sent, as far as the far side has room for it. Slots that were read are given back where a sender may wait for
    /// them, as netmap's own pkt-gen does before it ends.
    fn drop(&mut self) {
        if self.corrupt.is_some() {
            return;
        }
        if self.sender.as_ref().is_some_and(|side| side.unsynced > 0) {
            let _ = self.sync_transmit();
        }
        if let Some(side) = self.receiver.as_mut().filter(|side| side.sender_waits) {
            side.release_all();
            let _ = self.sync_receive();
        }
    }
}

/// Most frames of the pool in one packet: they are copied into as many slots as it needs.
pub(crate) const FRAGS_MAX: usize = FRAGMENTS_MAX;
