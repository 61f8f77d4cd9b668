//! The port: its queue pair, its totals, and what it does while nobody is at the other end.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use linerate_mem::{Batch, Pool};
use linerate_port::{
    Caps, Drops, Interest, LinkState, Port, PortError, Readiness, RxCounter, Stats, complete_checksums,
};
use linerate_sys::clock;
use linerate_sys::poll::PollSet;

use crate::control;
use crate::handoff::QueueHandoff;
use crate::link::PACKET_LEN_MAX;
use crate::options::Options;
use crate::receive::{Corrupt, Received, Store};
use crate::sides::{Receiver, Sender};
use crate::transmit::{Sent, Stop};

/// Where nobody rings, a sleeper looks again this often.
const NAP_NS: u64 = 50_000;

/// Where the peer rings, a sleeper looks again after so long all the same: DPDK looks at whether it has to ring before its index
/// is out for sure.
const NAP_ARMED_NS: u64 = 10_000_000;
/// A peer that saw the armed flag notifies of all that it does afterwards, so each further look comes after twice the time, up to this.
const NAP_ARMED_MAX_NS: u64 = 1_000_000_000;

/// What a peer did that took away memory.
const MEMORY_LOST: &str = "a smaller size to its shared memory, which is cut short";

/// One end of a queue pair of a memif interface.
pub struct MemifPort {
    pub(crate) caps: Caps,
    pub(crate) options: Options,
    handoff: Arc<QueueHandoff>,
    /// The delivery that the rings are of.
    epoch: u64,
    /// Number of the connection; 0 while there is none.
    connection: u64,
    pub(crate) receiver: Option<Receiver>,
    /// The ring of the peer before, as long as there are packets in it: what it sent before it went arrives.
    pub(crate) remains: Option<Receiver>,
    /// Packets in such rings that were not asked for before the peer after it went as well.
    pub(crate) left: u64,
    transmitter: Option<Sender>,
    pool: Pool,
    pub(crate) received: Received,
    sent: Sent,
    /// Peers were asked to ring.
    pub(crate) armed: bool,
    /// Packets came since then: the next look at the ring asks peers to ring no longer.
    woken: bool,
    /// What a peer wrote that closed the port.
    fault: Option<String>,
    /// When a caller that sleeps by itself looks again though nobody rings, and how long after the look before; 0 while peers are not asked to
    /// ring.
    look_at_ns: u64,
    nap_ns: u64,
    /// Kept from one sleep to the next.
    sleeping: PollSet,
}

impl MemifPort {
    pub(crate) fn new(caps: Caps, options: Options, handoff: Arc<QueueHandoff>, pool: &Pool) -> MemifPort {
        MemifPort {
            caps,
            options,
            handoff,
            epoch: 0,
            connection: 0,
            receiver: None,
            remains: None,
            left: 0,
            transmitter: None,
            pool: pool.clone(),
            received: Received::default(),
            sent: Sent::default(),
            armed: false,
            woken: false,
            fault: None,
            look_at_ns: 0,
            nap_ns: 0,
            sleeping: PollSet::default(),
        }
    }

    /// True while a peer is at the other end.
    ///
    /// # Errors
    /// A peer closed the port by what it wrote.
    pub fn is_connected(&mut self) -> Result<bool, PortError> {
        self.refresh()?;
        Ok(self.connection != 0)
    }

    /// Takes over the rings of a new connection, or notices that one ended.
    #[inline]
    fn refresh(&mut self) -> Result<(), PortError> {
        self.refresh_unless(false)
    }

    /// The same; with `receiving` only as far as no packets are left behind that the next calls of `receive` can take.
    #[inline]
    pub(crate) fn refresh_unless(&mut self, receiving: bool) -> Result<(), PortError> {
        if self.handoff.epoch() != self.epoch || self.fault.is_some() {
            return self.take_over(receiving);
        }
        Ok(())
    }

    #[cold]
    fn take_over(&mut self, receiving: bool) -> Result<(), PortError> {
        if let Some(what) = &self.fault {
            return Err(PortError::PeerCorrupt { port: self.caps.name.clone(), what: what.clone() });
        }
        let rings = self.options.rings;
        while !(receiving && self.remains.is_some() && self.receiver.is_some()) {
            let Some((number, delivery)) = self.handoff.collect() else { break };
            self.epoch = number;
            self.connection = delivery.connection;
            if let Some(mut receiver) = self.receiver.take() {
                receiver.freeze();
                self.left += self.remains.replace(receiver).map_or(0, |mut before| before.waiting());
            }
            (self.armed, self.woken) = (false, false);
            self.receiver = delivery.pair.receive.map(|end| Receiver::new(end, &mut self.pool, rings));
            self.transmitter = delivery.pair.transmit.map(|end| Sender::new(end, &self.pool, rings));
        }
        Ok(())
    }

    /// Ends the connection with a peer that broke the protocol, and with it the port, unless it waits for the next peer.
    #[cold]
    pub(crate) fn broken(&mut self, corrupt: Corrupt) -> PortError {
        let lost = self.receiver.as_ref().is_some_and(Receiver::is_lost)
            || self.transmitter.as_ref().is_some_and(Sender::is_lost);
        // Zeros in the place of rings look wrong in other ways, too.
        let Corrupt(what) = if lost { Corrupt(MEMORY_LOST.into()) } else { corrupt };
        control::end(&self.options.key, self.connection, &format!("You wrote {what}"), !self.options.next_peer);
        (self.receiver, self.transmitter, self.connection) = (None, None, 0);
        if !self.options.next_peer {
            self.fault = Some(what.clone());
        }
        PortError::PeerCorrupt { port: self.caps.name.clone(), what }
    }

    /// Notices memory that the peer took away.
    #[inline]
    pub(crate) fn check_memory(lost: bool) -> Result<(), Corrupt> {
        if lost { Err(Corrupt(MEMORY_LOST.into())) } else { Ok(()) }
    }

    /// Takes what a peer sent that is gone. If it is nothing, or nonsense, its ring goes, too.
    #[inline]
    #[cold]
    fn receive_remains(&mut self, batch: &mut Batch) -> usize {
        let mut store = Store { pool: &mut self.pool, totals: &mut self.received };
        let packets = self.remains.as_mut().map_or(0, |side| side.receive(batch, &mut store).unwrap_or(0));
        if packets == 0 && batch.room() > 0 && store.pool.available() > 0 {
            self.left += self.remains.take().map_or(0, |mut side| side.waiting());
        }
        packets
    }

    /// Puts frames that the peer is done with back into the pool: all of them, or only if there are many.
    #[inline]
    pub(crate) fn take_back(&mut self, all: bool) -> Result<(), Corrupt> {
        match &mut self.transmitter {
            Some(side) => side.take_back(&mut self.pool, all),
            None => Ok(()),
        }
    }

    /// The same as [`MemifPort::receive_all`] while peers are asked to ring. The first packets after a silence go ahead of all that
    /// then is to be done, which takes system calls; bells are silenced, and looked behind, once nothing is found.
    #[inline]
    #[cold]
    fn receive_armed(&mut self, batch: &mut Batch) -> Result<usize, Corrupt> {
        if self.woken {
            self.enable_interrupts(false);
            return self.receive_all(batch);
        }
        let mut packets = self.receive_all(batch)?;
        if packets == 0 {
            self.silence();
            packets = self.receive_all(batch)?;
        }
        self.woken = packets > 0;
        Ok(packets)
    }

    #[inline]
    fn receive_all(&mut self, batch: &mut Batch) -> Result<usize, Corrupt> {
        if self.remains.is_some() {
            let packets = self.receive_remains(batch);
            if packets > 0 {
                return Ok(packets);
            }
        }
        let mut store = Store { pool: &mut self.pool, totals: &mut self.received };
        let Some(side) = &mut self.receiver else { return Ok(0) };
        MemifPort::check_memory(side.is_lost())?;
        side.receive(batch, &mut store)
    }

    /// Asks the peer to ring, or no longer to.
    #[inline]
    pub(crate) fn enable_interrupts(&mut self, wanted: bool) {
        self.woken = false;
        if self.armed == wanted {
            return;
        }
        if let Some(side) = &self.receiver {
            side.enable_interrupts(wanted);
        }
        self.armed = wanted;
        (self.look_at_ns, self.nap_ns) = (0, 0);
        // What was put in before the peer saw the flag is seen by the look that follows.
        fence(Ordering::SeqCst);
        self.silence();
    }

    /// Takes away the ringing for what came so far: the caller looks at the rings after that.
    #[inline]
    fn silence(&mut self) {
        self.receiver.iter().filter_map(Receiver::bell).for_each(|bell| bell.silence());
        if !self.armed {
            return;
        }
        let now_ns = clock::now_ns();
        if now_ns >= self.look_at_ns {
            self.nap_ns = (2 * self.nap_ns).clamp(NAP_ARMED_NS, NAP_ARMED_MAX_NS);
            self.look_at_ns = now_ns + self.nap_ns;
        }
    }

    #[inline]
    fn is_ready(&mut self, interest: Interest) -> Result<bool, Corrupt> {
        if interest == Interest::Transmit {
            let Some(side) = &mut self.transmitter else { return Ok(false) };
            MemifPort::check_memory(side.is_lost())?;
            return side.has_room(&mut self.pool);
        }
        self.take_back(true)?;
        if self.remains.as_mut().is_some_and(|side| side.waiting() > 0) {
            return Ok(true);
        }
        if let Some(side) = &mut self.receiver {
            MemifPort::check_memory(side.is_lost())?;
            if side.look()? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sleeps for a while: until the peer rings (where it does), or a peer comes or goes. False when a signal ended it.
    #[inline]
    fn sleep(&mut self, left_ns: u64) -> Result<bool, PortError> {
        let connected = self.connection != 0;
        let nap_ns = match (connected, self.armed) {
            (false, _) => left_ns,
            (true, true) => left_ns.min(NAP_ARMED_NS),
            (true, false) => left_ns.min(NAP_NS),
        };
        let armed = self.receiver.iter().filter(|_| self.armed).filter_map(Receiver::bell).map(|bell| &**bell);
        self.sleeping.clear();
        for bell in armed.chain([&self.handoff.changed]) {
            self.sleeping.add(bell.as_fd(), true, false);
        }
        let before_ns = clock::now_ns();
        let woken = self.sleeping.wait(nap_ns).map_err(|source| {
            let port = self.caps.name.clone();
            PortError::Io { port, operation: "wait for the peer", source }
        })?;
        Ok(woken > 0 || clock::now_ns().saturating_sub(before_ns) >= nap_ns)
    }
}

impl Port for MemifPort {
    #[inline]
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        self.refresh_unless(true)?;
        let received = match self.take_back(false) {
            Ok(()) if self.armed => self.receive_armed(batch),
            Ok(()) => self.receive_all(batch),
            Err(corrupt) => Err(corrupt),
        };
        received.map_err(|corrupt| self.broken(corrupt))
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        self.refresh()?;
        complete_checksums(batch);
        let Some(side) = &mut self.transmitter else { return Ok(0) };
        if let Err(corrupt) = MemifPort::check_memory(side.is_lost()) {
            return Err(self.broken(corrupt));
        }
        match side.transmit(batch, &mut self.pool, &mut self.sent) {
            (taken, None) => Ok(taken),
            (taken, Some(Stop::Corrupt(_))) if taken > 0 => Ok(taken),
            (_, Some(Stop::Corrupt(corrupt))) => Err(self.broken(corrupt)),
            (_, Some(Stop::Long(len))) => {
                Err(PortError::FrameTooLong { port: self.caps.name.clone(), len, max: PACKET_LEN_MAX })
            }
        }
    }

    #[inline]
    fn transmit_ref(&mut self, batch: &Batch, from: usize) -> Result<usize, PortError> {
        let Some(side) = &mut self.transmitter else { return Ok(0) };
        let shown =
            MemifPort::check_memory(side.is_lost()).and_then(|()| side.transmit_ref(batch, from, &mut self.sent));
        shown.map_err(|corrupt| self.broken(corrupt))
    }

    #[inline]
    fn flush(&mut self) -> Result<usize, PortError> {
        self.refresh_unless(true)?;
        self.take_back(true).map_err(|corrupt| self.broken(corrupt))?;
        Ok(0)
    }

    #[inline]
    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        let deadline_ns = clock::now_ns().saturating_add(timeout_ns);
        loop {
            self.refresh_unless(interest == Interest::Receive)?;
            if self.is_ready(interest).map_err(|corrupt| self.broken(corrupt))? {
                return Ok(Readiness::Ready);
            }
            let left_ns = deadline_ns.saturating_sub(clock::now_ns());
            if left_ns == 0 {
                return Ok(Readiness::TimedOut);
            }
            if interest == Interest::Receive && self.options.interrupts && !self.armed && self.receiver.is_some() {
                self.enable_interrupts(true);
                continue;
            }
            let awake = self.sleep(left_ns);
            self.enable_interrupts(false);
            if !awake? {
                return Ok(Readiness::TimedOut);
            }
        }
    }

    #[inline]
    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        // A port that is broken has nothing to wait for but the next call, which says so.
        if self.refresh_unless(true).is_err() || self.connection != 0 && !self.options.interrupts {
            return false;
        }
        if self.connection != 0 {
            self.receiver.iter().filter_map(Receiver::bell).for_each(|bell| add(bell.as_fd()));
            self.enable_interrupts(true);
        }
        add(self.handoff.changed.as_fd());
        true
    }

    /// While peers are asked to ring, the time of the next look at the ring.
    #[inline]
    fn next_deadline_ns(&self) -> Option<u64> {
        self.armed.then_some(self.look_at_ns)
    }

    /// Not where frames are lent to the peer: those that it filled are to be had.
    #[inline]
    fn rx_counter(&mut self) -> Option<&mut dyn RxCounter> {
        (!self.options.zero_copy).then_some(self)
    }

    /// Up while a peer is there that made a ring of this queue pair.
    fn link(&mut self) -> Result<LinkState, PortError> {
        self.refresh_unless(true)?;
        let rings = self.connection != 0 && (self.receiver.is_some() || self.transmitter.is_some());
        Ok(if rings { LinkState::Up } else { LinkState::Down })
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let row = |cause: &str, packets| Drops { place: self.caps.name.clone(), cause: cause.into(), packets };
        let mut stats = Stats {
            rx_packets: self.received.packets,
            rx_bytes: self.received.bytes,
            tx_packets: self.sent.packets,
            tx_bytes: self.sent.bytes,
            rx_drops: vec![
                row("longer than the batch", self.received.unfit),
                row("packet without a byte", self.received.empty),
                row("not fetched before the next peer went", self.left),
            ],
            tx_drops: vec![
                row("longer than the ring's buffers", self.sent.unfit),
                row("packet without a byte", self.sent.empty),
            ],
            ..Stats::default()
        };
        stats.rx_drops.retain(|row| row.packets > 0);
        stats.tx_drops.retain(|row| row.packets > 0);
        Ok(stats)
    }
}

impl Drop for MemifPort {
    fn drop(&mut self) {
        control::detach(&self.options.key, &self.handoff);
    }
}
