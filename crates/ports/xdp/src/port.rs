//! The port: one queue pair of the interface, its totals, and what it says when the interface is gone.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use linerate_mem::Batch;
use linerate_port::{Caps, Interest, LinkState, Port, PortError, Readiness, Stats, complete_checksums};

use crate::attach::Attachment;
use crate::fault::Fault;
use crate::key::Key;
use crate::queue::Queue;
use crate::transmit::{Limits, Refusal};
use linerate_sys::clock;
use linerate_sys::held::Held as HeldSetting;
use linerate_sys::napi::Deferral;
use linerate_sys::netdev::Netdev;
use linerate_sys::poll::{PollFor, poll};
use linerate_sys::promiscuous::Promiscuous;

/// The AF_XDP socket on one queue of an interface.
pub struct XdpPort {
    /// Only held, with the ports of the other queues. Dropped first: nothing is redirected any more when the socket closes.
    _held: Held,
    queue: Queue,
    caps: Caps,
    device: Netdev,
    /// Calls of `transmit` since the last look at the MTU.
    mtu_calls: u32,
    frags: bool,
    /// Packets received since the last `wait`.
    since_wait: usize,
    /// Calls of `receive` in a row that found nothing.
    idle_calls: u32,
    state: State,
}

/// The program, the mode, the RSS key and the deferral of the interface, as long as a port needs them.
type Held = (Option<Arc<Attachment>>, Option<Arc<Promiscuous>>, Option<Arc<HeldSetting<Key>>>, Option<Arc<Deferral>>);

/// What the kernel last said about the port.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Sound,
    /// The interface is down; it may come up again.
    Down,
    Gone,
    /// The kernel (or whoever writes to the rings) wrote what cannot be. Nothing is read from the rings any more.
    Corrupt(String),
}

/// A spinning receiver asks after the interface once in this many fruitless calls: some hundred times a second.
const IDLE_CALLS_PER_CHECK: u32 = 1 << 16;

/// A sender looks at the MTU once in this many calls: one that became smaller tells nobody, and on a veth the kernel then
/// drops what is longer.
const CALLS_PER_MTU: u32 = 256;

/// A sleeper asks after the interface this often.
const CHECK_NS: u64 = 50_000_000;

/// A receiver that found so many packets since it last waited is a busy one. It naps before it lets the kernel wake it: to
/// wake a thread on another core costs the core that receives some microseconds each time, and in a nap of 50 to 100
/// microseconds (the kernel adds its timer slack) a ring of 8,192 does not fill.
const BUSY_PACKETS: usize = 64;

/// While the kernel cannot take what is in the transmit ring, it is asked again this often.
const NAP_NS: u64 = 50_000;

impl Port for XdpPort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.check_batch(batch)?;
        let packets = match self.queue.receive(batch) {
            Ok(packets) => packets,
            Err(fault) => return Err(self.broken(fault)),
        };
        if packets > 0 {
            self.since_wait += packets;
            self.idle_calls = 0;
        } else {
            self.idle_calls += 1;
            if self.idle_calls >= IDLE_CALLS_PER_CHECK {
                self.check_interface()?;
            }
        }
        Ok(packets)
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.check_batch(batch)?;
        complete_checksums(batch);
        self.mtu_calls += 1;
        if self.mtu_calls >= CALLS_PER_MTU {
            self.reread_mtu();
        }
        let mut packets = 0;
        loop {
            match self.queue.transmit(batch) {
                Ok((count, None)) => {
                    self.recovered();
                    return Ok(packets + count);
                }
                Ok((count, Some(Refusal::Long { .. }))) if self.reread_mtu() => packets += count,
                Ok((_, Some(refusal))) => return Err(self.refused(refusal)),
                Err(fault) => return Err(self.broken(fault)),
            }
        }
    }

    /// Each packet has a frame, or several; so many of them as the kernel is lent.
    fn rx_occupancy(&self) -> Option<(u64, u64)> {
        let (waiting, lent) = self.queue.receive.as_ref()?.level();
        let bytes = |frames: u32| u64::from(frames) * self.queue.loans.frame_bytes();
        Some((bytes(waiting), bytes(lent)))
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        self.check_sound()?;
        match self.queue.flush() {
            Ok(packets) => {
                self.recovered();
                Ok(packets as usize)
            }
            Err(fault) => Err(self.broken(fault)),
        }
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        self.check_sound()?;
        if interest == Interest::Receive && !self.caps.receives {
            return Ok(Readiness::Closed);
        }
        let deadline_ns = clock::now_ns().saturating_add(timeout_ns);
        let mut busy = interest == Interest::Receive && std::mem::take(&mut self.since_wait) >= BUSY_PACKETS;
        loop {
            if self.make_ready(interest).map_err(|fault| self.broken(fault))? {
                return Ok(Readiness::Ready);
            }
            if std::mem::take(&mut busy) {
                clock::sleep_until_ns(deadline_ns.min(clock::now_ns() + NAP_NS));
                continue;
            }
            self.check_interface()?;
            let left_ns = deadline_ns.saturating_sub(clock::now_ns());
            if left_ns == 0 {
                return Ok(Readiness::TimedOut);
            }
            if !self.sleep(interest, left_ns).map_err(|fault| self.broken(fault))? {
                return Ok(Readiness::TimedOut);
            }
        }
    }

    /// As `wait`: nothing is slept on while there is something to send, because `poll` would send it unaccounted for.
    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        let sending = self.queue.transmit.as_ref().is_some_and(|side| side.has_unsent());
        let ready = self.state != State::Sound || sending || self.make_ready(Interest::Receive).unwrap_or(true);
        if !ready {
            add(self.queue.socket.as_fd());
        }
        !ready
    }

    fn link(&mut self) -> Result<LinkState, PortError> {
        self.check_sound()?;
        match self.check_interface() {
            Ok(()) if self.device.is_running().unwrap_or(false) => Ok(LinkState::Up),
            Ok(()) | Err(PortError::Down { .. }) => Ok(LinkState::Down),
            Err(error) => Err(error),
        }
    }

    fn current_frame_len_max(&mut self) -> usize {
        self.reread_mtu();
        self.caps.frame_len_max
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let mut stats = Stats::default();
        let lost = match self.state {
            State::Sound => None,
            State::Down => Some("interface down"),
            State::Gone => Some("interface gone"),
            State::Corrupt(_) => Some("port closed"),
        };
        let queue = &mut self.queue;
        queue.read_counters();
        let place = format!("AF_XDP socket of {}@{}", self.device.name(), queue.number);
        if let Some(side) = &queue.receive {
            stats.rx_packets = side.totals.packets;
            stats.rx_bytes = side.totals.bytes;
            stats.rx_drops = queue.receive_drops(&place, self.frags);
        }
        if let Some(side) = &queue.transmit {
            let totals = side.totals;
            stats.tx_packets = totals.completed.saturating_sub(totals.refused);
            stats.tx_bytes = totals.completed_bytes.saturating_sub(totals.refused_bytes);
            stats.tx_drops = queue.transmit_drops(&place, lost.map(|cause| (cause, queue.pending())));
        }
        Ok(stats)
    }
}

impl XdpPort {
    pub(crate) fn new(held: Held, queue: Queue, caps: Caps, device: Netdev, frags: bool) -> XdpPort {
        XdpPort {
            _held: held,
            queue,
            caps,
            device,
            mtu_calls: 0,
            frags,
            since_wait: 0,
            idle_calls: 0,
            state: State::Sound,
        }
    }

    /// True if the device uses the frames; false if the kernel copies each packet.
    pub fn is_zero_copy(&self) -> bool {
        self.queue.zero_copy
    }

    pub(crate) fn name(&self) -> String {
        self.caps.name.clone()
    }

    #[inline]
    fn check_batch(&self, batch: &Batch) -> Result<(), PortError> {
        if !self.queue.loans.is_of(batch) {
            return Err(PortError::ForeignPool { port: self.caps.name.clone() });
        }
        if self.state != State::Sound { self.check_sound() } else { Ok(()) }
    }

    /// Looks whether the MTU has changed, and returns true if so.
    #[cold]
    fn reread_mtu(&mut self) -> bool {
        self.mtu_calls = 0;
        let (Ok(mtu), Some(side)) = (self.device.mtu(), &mut self.queue.transmit) else { return false };
        let frame_len_max = Limits::frame_len_max(mtu as usize, side.limits.frags_max, self.queue.loans.region());
        side.limits.frame_len_max = frame_len_max;
        std::mem::replace(&mut self.caps.frame_len_max, frame_len_max) != frame_len_max
    }

    /// A port whose memory was written to wrongly, or whose interface is gone, stays broken; the others may have recovered.
    #[cold]
    fn check_sound(&self) -> Result<(), PortError> {
        match &self.state {
            State::Corrupt(what) => Err(self.error(Fault::Corrupt(what.clone()))),
            State::Gone => Err(self.error(Fault::Gone)),
            State::Sound | State::Down => Ok(()),
        }
    }

    /// Asks the kernel after the interface.
    fn check_interface(&mut self) -> Result<(), PortError> {
        self.idle_calls = 0;
        match self.queue.check_interface() {
            Ok(()) => {
                self.recovered();
                Ok(())
            }
            Err(fault) => Err(self.broken(fault)),
        }
    }

    /// Notes that the kernel works with the interface again.
    #[inline]
    fn recovered(&mut self) {
        if self.state == State::Down {
            self.state = State::Sound;
        }
    }

    /// Does what is needed before a sleep, and says whether none is.
    fn make_ready(&mut self, interest: Interest) -> Result<bool, Fault> {
        self.queue.flush()?;
        if interest == Interest::Transmit {
            return match &mut self.queue.transmit {
                Some(side) => Ok(side.has_room()?),
                None => Ok(false),
            };
        }
        let queue = &mut self.queue;
        let Some(side) = &mut queue.receive else { return Ok(false) };
        side.refill(&mut queue.loans, &queue.socket)?;
        side.is_ready()
    }

    /// Sleeps a while; false when a signal ended it.
    ///
    /// `poll` on a socket in copy mode also sends, without a word about packets that the driver refuses. So it is only
    /// called when there is nothing to send; until then the sleep is a short one.
    fn sleep(&mut self, interest: Interest, left_ns: u64) -> Result<bool, Fault> {
        let sending = self.queue.transmit.as_ref().is_some_and(|side| side.has_unsent());
        let (writing, zero_copy) = (interest == Interest::Transmit, self.queue.zero_copy);
        if (sending || writing) && !zero_copy {
            clock::sleep_until_ns(clock::now_ns() + NAP_NS.min(left_ns));
            return Ok(true);
        }
        let before_ns = clock::now_ns();
        let nap_ns = left_ns.min(CHECK_NS);
        let wanted = if writing { PollFor::Writing } else { PollFor::Reading };
        let polled = poll(self.queue.socket.as_fd(), wanted, nap_ns)
            .map_err(|source| Fault::Io { operation: "wait for packets", source })?;
        Ok(polled.ready || polled.failed || clock::now_ns().saturating_sub(before_ns) >= nap_ns)
    }

    #[cold]
    fn broken(&mut self, fault: Fault) -> PortError {
        match &fault {
            Fault::Corrupt(what) => self.state = State::Corrupt(what.clone()),
            Fault::Down => self.state = State::Down,
            Fault::Gone => self.state = State::Gone,
            Fault::Io { .. } => {}
        }
        self.error(fault)
    }

    fn error(&self, fault: Fault) -> PortError {
        let port = self.caps.name.clone();
        match fault {
            Fault::Corrupt(what) => PortError::PeerCorrupt { port, what },
            Fault::Down => PortError::Down { port, interface: self.device.name().into() },
            Fault::Gone => PortError::Gone { port, what: format!("interface {} was deleted", self.device.name()) },
            Fault::Io { operation, source } => PortError::Io { port, operation, source },
        }
    }

    #[cold]
    fn refused(&self, refusal: Refusal) -> PortError {
        let port = self.caps.name.clone();
        match refusal {
            Refusal::Long { len } => PortError::FrameTooLong { port, len, max: self.caps.frame_len_max },
            Refusal::Segments { segments: _, len } if self.caps.frags_max == 1 => {
                PortError::FrameTooLong { port, len, max: self.caps.frame_len_max }
            }
            Refusal::Segments { segments, len: _ } => {
                let max = self.caps.frags_max;
                PortError::Unsupported { port, what: format!("a packet over {segments} frames; {max} are possible") }
            }
            Refusal::Short { len } => {
                let what = format!("a packet of {len} bytes, or a part without bytes, is no Ethernet frame");
                PortError::Unsupported { port, what }
            }
        }
    }
}
