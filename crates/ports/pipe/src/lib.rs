//! `pipe:NAME` - an in-process link between two threads. Slots change hands; nothing is copied and nothing is read.
//!
//! ```text
//!   side A   --- ring of slots --->   side B        each side: one sender, one receiver
//!            <-- ring of slots ----                 frees go to the shared pool, by the magazine
//! ```
//! The first to open a name in a process gets side A, the second side B; a third is refused. Both must use one pool.
//! A packet of several slots is sent and received as a whole; it has to fit into the ring.
//! When a side is dropped, the other still receives what was sent, then [`Readiness::Closed`]; what it sends from then on is
//! lost, and is counted as such.
#![forbid(unsafe_code)]

mod wakeup;

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use linerate_mem::{Batch, Pool, SlotReceiver, SlotSender, Totals, slot_ring};
use linerate_port::{
    Caps, Device, Drops, FarSide, Fitting, Interest, OpenError, Port, PortError, PortSpec, Readiness, Stats,
};
use wakeup::{Notifier, Wakeup};

/// Slots of a ring unless `ring=` says otherwise. Small enough to stay in a cache with its frames' first lines.
pub const RING_DEFAULT: usize = 1024;

/// One side of a pipe.
pub struct PipePort {
    pool: Pool,
    sender: SlotSender,
    /// Behind the sender, whose end it tells of when both are dropped.
    notifier: Notifier,
    receiver: SlotReceiver,
    wakeup: Arc<Wakeup>,
    caps: Caps,
    stats: Stats,
    lost_to_dead_peer: u64,
    /// Slots of the packet that did not fit; waiting for less room than that would be in vain.
    room_wanted: usize,
    /// The last member: it is dropped after the rings have closed.
    name: Name,
}

/// Name under which the other side may still wait for its opener; empty if none can.
#[derive(Default)]
struct Name(String);

impl Drop for Name {
    /// A side that nobody opened goes with the other one, and what is in its ring back to the pool.
    fn drop(&mut self) {
        if self.0.is_empty() {
            return;
        }
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        let is_alone = waiting.get(&self.0).is_some_and(|side| !side.receiver.peer_alive());
        let side = if is_alone { waiting.remove(&self.0) } else { None };
        drop(waiting);
        drop(side);
    }
}

/// Longest packet in bytes: what a slot's length field can say.
const FRAME_LEN_MAX: usize = u16::MAX as usize;

/// Sides B that wait for their opener, by name.
static WAITING: LazyLock<Mutex<HashMap<String, PipePort>>> = LazyLock::new(Mutex::default);

/// Opens one side of pipe `spec.target`. Options: `ring=N` slots of each direction (the first opener's counts).
///
/// # Errors
/// A name is missing, an option is unknown, or the other side was opened on another pool.
pub fn open(spec: PortSpec, pool: &Pool) -> Result<Device<PipePort>, OpenError> {
    side(spec, pool).map(Device::of)
}

fn side(mut spec: PortSpec, pool: &Pool) -> Result<PipePort, OpenError> {
    let refuse = |spec: &PortSpec, cause: String, hint: &str| OpenError::new(spec, cause, hint);
    let ring = spec.take_number("ring", 2, 1 << 20).map_err(|error| refuse(&spec, error.problem, ""))?;
    spec.finish(&["ring"]).map_err(|error| refuse(&spec, error.problem, ""))?;
    if spec.target.is_empty() {
        return Err(refuse(&spec, "a pipe needs a name".into(), "try pipe:a"));
    }
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    match waiting.remove(&spec.target) {
        // A side B whose A is gone was never opened: the name is free again.
        Some(side) if side.receiver.peer_alive() => {
            if !std::sync::Arc::ptr_eq(side.pool.region(), pool.region()) {
                waiting.insert(spec.target.clone(), side);
                return Err(refuse(&spec, "the other side uses another pool".into(), "open both sides on one pool"));
            }
            Ok(side)
        }
        _ => {
            let (mut first, second) = pair(&spec.target, pool, ring.map_or(RING_DEFAULT, |ring| ring as usize));
            first.name = Name(spec.target.clone());
            waiting.insert(spec.target, second);
            Ok(first)
        }
    }
}

/// Both sides of a new pipe with `notify` slots in each direction, without a place in the list of names.
pub fn pair(name: &str, pool: &Pool, ring: usize) -> (PipePort, PipePort) {
    pair_from(name, pool, ring, 0)
}

/// As [`pair`], with ring indices that start at `start` (tests put the wrap there).
pub fn pair_from(name: &str, pool: &Pool, ring: usize, start: u32) -> (PipePort, PipePort) {
    let (a_sender, b_receiver) = slot_ring(pool, ring, start);
    let (b_sender, a_receiver) = slot_ring(pool, ring, start);
    let (a_wakeup, b_wakeup) = (Arc::new(Wakeup::new()), Arc::new(Wakeup::new()));
    let (a_notifier, b_notifier) = (Notifier(Arc::clone(&b_wakeup)), Notifier(Arc::clone(&a_wakeup)));
    (
        PipePort::new(name, pool, (a_sender, a_notifier), (a_receiver, a_wakeup)),
        PipePort::new(name, pool, (b_sender, b_notifier), (b_receiver, b_wakeup)),
    )
}

impl PipePort {
    fn new(
        name: &str,
        pool: &Pool,
        (sender, notifier): (SlotSender, Notifier),
        (receiver, wakeup): (SlotReceiver, Arc<Wakeup>),
    ) -> PipePort {
        let caps = Caps {
            name: format!("pipe:{name}"),
            backend: "pipe",
            receives: true,
            transmits: true,
            frame_len_max: FRAME_LEN_MAX,
            frags_max: sender.capacity(),
            zero_copy: true,
            copies: "nothing is copied",
            detail: "in-process link between threads".into(),
            far_side: FarSide::Process,
            ..Caps::default()
        };
        let pool = pool.clone();
        let stats = Stats::default();
        PipePort {
            pool,
            sender,
            notifier,
            receiver,
            wakeup,
            caps,
            stats,
            lost_to_dead_peer: 0,
            room_wanted: 1,
            name: Name::default(),
        }
    }
}

impl Port for PipePort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        let held = batch.len();
        if self.receiver.receive(batch) == 0 {
            return Ok(0);
        }
        let received = batch.totals_after(held);
        self.stats.rx_packets += received.packets;
        self.stats.rx_bytes += received.bytes;
        Ok(received.packets as usize)
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        let before = batch.totals();
        if before.packets != batch.len() as u64 {
            return self.transmit_long(batch);
        }
        if !self.sender.peer_alive() {
            return Ok(self.lose(batch, before));
        }
        if self.sender.send(batch) == 0 {
            self.room_wanted = 1;
            return Ok(0);
        }
        self.notifier.notify();
        Ok(self.count_sent(before, batch.totals()))
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        let mut left_ns = timeout_ns;
        loop {
            let (ready, alive) = match interest {
                Interest::Receive => {
                    let alive = self.receiver.peer_alive();
                    (self.receiver.available() > 0, alive)
                }
                Interest::Transmit => (self.sender.room() >= self.room_wanted || !self.sender.peer_alive(), true),
            };
            match (ready, alive) {
                (true, _) => return Ok(Readiness::Ready),
                (false, false) => return Ok(Readiness::Closed),
                (false, true) if left_ns == 0 => return Ok(Readiness::TimedOut),
                (false, true) => {}
            }
            let nap_ns = left_ns.min(NAP_NS);
            std::thread::sleep(Duration::from_nanos(nap_ns));
            left_ns -= nap_ns;
        }
    }

    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        self.wakeup.arm().map(add).is_some()
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let mut stats = self.stats.clone();
        if self.lost_to_dead_peer > 0 {
            stats.tx_drops.push(Drops {
                place: self.caps.name.clone(),
                cause: "the other side is gone".into(),
                packets: self.lost_to_dead_peer,
            });
        }
        Ok(stats)
    }
}

/// A side that waits by itself looks again this often.
const NAP_NS: u64 = 50_000;

impl PipePort {
    #[inline]
    fn count_sent(&mut self, before: Totals, after: Totals) -> usize {
        let packets = before.packets - after.packets;
        self.stats.tx_packets += packets;
        self.stats.tx_bytes += before.bytes - after.bytes;
        packets as usize
    }

    #[cold]
    fn lose(&mut self, batch: &mut Batch, totals: Totals) -> usize {
        self.pool.free(batch);
        self.lost_to_dead_peer += totals.packets;
        totals.packets as usize
    }

    /// The batch holds packets of several slots: sends those that fit as a whole, up to one that is too long.
    #[cold]
    fn transmit_long(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let alive = self.sender.peer_alive();
        let room = if alive { self.sender.room() } else { usize::MAX };
        let fitting = Fitting::new(batch, room, FRAME_LEN_MAX, self.caps.frags_max);
        self.room_wanted = fitting.room_wanted;
        let before = batch.totals();
        if fitting.slots > 0 && alive {
            self.sender.send_front(batch, fitting.slots);
            self.notifier.notify();
            self.count_sent(before, batch.totals());
        } else if fitting.slots > 0 {
            self.pool.free_front(batch, fitting.slots);
            self.lost_to_dead_peer += fitting.packets as u64;
        }
        match fitting.too_long {
            Some(len) => Err(PortError::FrameTooLong { port: self.caps.name.clone(), len, max: FRAME_LEN_MAX }),
            None => Ok(fitting.packets),
        }
    }
}
