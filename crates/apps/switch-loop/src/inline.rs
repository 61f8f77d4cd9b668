//! A switch between the threads of one process: whoever sends runs it, for as long as its batch takes; no thread is the
//! switch's own.
//!
//! ```text
//! sender's thread                                                                         receiver's thread
//! InlinePort::transmit -> lock -> Switch::forward -> rings of the receiving ports -> unlock    InlinePort::receive <- ring
//! ```
//! The lock is taken once a batch by the sender and never by a receiver that finds something. A ring that is full loses what
//! does not fit, counted as `egress-full`: a reader that is slow or gone holds up nobody. Ports share the switch's pool and hand
//! slots over; an isolated port has a pool of its own and copies at its edge, so its packets are in memory that no other port
//! can touch.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linerate_l2::{
    ConfigError, DropCounts, DropReason, PortCounters, PortIndex, PortSettings, SettingsError, Switch, SwitchConfig,
};
use linerate_mem::{Batch, Pool, SlotReceiver, SlotSender, slot_ring};
use linerate_port::{Caps, Datapath, Drops, Interest, Port, PortError, Readiness, Stats};

/// One of so many batches is timed for [`Switch::latency`], because an exact reading of the clock takes a quarter of the time that a
/// packet needs from one port to another.
const TIMED_EVERY: u32 = 16;

/// Slots of a port's ring unless it asks for more.
const RING_DEFAULT: usize = 1024;

/// Where a switch gets the time from, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The exact time, for rate limits and for batches that are timed.
    pub exact: fn() -> u64,
    /// The same, up to a few milliseconds late: for ageing, which is all that most batches need.
    pub recent: fn() -> u64,
}

impl Clocks {
    /// One clock for both.
    pub fn one(clock: fn() -> u64) -> Clocks {
        Clocks { exact: clock, recent: clock }
    }
}

/// The switch; clones are the same one.
#[derive(Clone)]
pub struct InlineSwitch {
    shared: Arc<Shared>,
}

struct Shared {
    core: Mutex<Core>,
    clocks: Clocks,
}

struct Core {
    switch: Switch,
    /// [`SwitchConfig::queue_slots`].
    queue_slots: usize,
    pool: Pool,
    /// By port index.
    ends: Vec<Option<End>>,
    attached: u64,
    /// Batches that went through; the first one is the last before the count turns over, so it is timed.
    batches: u32,
}

/// The switch's side of a port.
struct End {
    /// Whose it is: numbers of ports are used again.
    owner: u64,
    ring: SlotSender,
    bell: Arc<Condvar>,
    sleeping: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic of another thread cannot leave the core half changed in a way that is unsound; its account may be off.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InlineSwitch {
    /// A switch without ports, on `pool`. The time is asked for once for each batch, and again for each sixteenth one, whose
    /// way through the switch is in [`Switch::latency`].
    pub fn new(config: SwitchConfig, pool: &Pool, clocks: Clocks) -> Result<InlineSwitch, ConfigError> {
        let queue_slots = config.queue_slots;
        let switch = Switch::new(config, pool)?;
        let core = Core { switch, queue_slots, pool: pool.clone(), ends: Vec::new(), attached: 0, batches: u32::MAX };
        Ok(InlineSwitch { shared: Arc::new(Shared { core: Mutex::new(core), clocks }) })
    }

    /// A new port that shares the switch's pool. It is there until it is dropped.
    pub fn attach(&self, name: &str) -> Result<InlinePort, SettingsError> {
        self.attach_with(name, PortSettings::default(), RING_DEFAULT)
    }

    /// As [`InlineSwitch::attach`], with settings and a ring of at least `ring_slots` for what waits to be received.
    pub fn attach_with(
        &self,
        name: &str,
        settings: PortSettings,
        ring_slots: usize,
    ) -> Result<InlinePort, SettingsError> {
        self.open(name, settings, ring_slots, None)
    }

    /// As [`InlineSwitch::attach_with`], with packets in `own_pool`: they are copied where they enter and leave the switch.
    pub fn attach_isolated(
        &self,
        name: &str,
        settings: PortSettings,
        ring_slots: usize,
        own_pool: &Pool,
    ) -> Result<InlinePort, SettingsError> {
        self.open(name, settings, ring_slots, Some(own_pool))
    }

    /// Runs `use_it` on the switch itself, while nobody sends: settings, mirrors, tables, counters. A port that it removes is
    /// gone for its owner, too.
    pub fn with<T>(&self, use_it: impl FnOnce(&mut Switch) -> T) -> T {
        let mut core = self.shared.lock();
        let core = &mut *core;
        let result = use_it(&mut core.switch);
        for (index, end) in core.ends.iter_mut().enumerate() {
            if core.switch.settings(PortIndex(index as u16)).is_none() {
                *end = None;
            }
        }
        result
    }

    fn open(
        &self,
        name: &str,
        settings: PortSettings,
        ring_slots: usize,
        own_pool: Option<&Pool>,
    ) -> Result<InlinePort, SettingsError> {
        let mut core = self.shared.lock();
        let queue_slots = core.queue_slots;
        let (sender, receiver) = slot_ring(&core.pool, ring_slots.max(1), 0);
        let frags_max = queue_slots.min(sender.capacity());
        let frame_len_max = settings.frame_len_max.min(usize::from(u16::MAX));
        let index = core.switch.add_port(settings)?;
        core.attached += 1;
        let (owner, bell) = (core.attached, Arc::new(Condvar::new()));
        let end = End { owner, ring: sender, bell: Arc::clone(&bell), sleeping: false };
        let place = usize::from(index.0);
        if core.ends.len() <= place {
            core.ends.resize_with(place + 1, || None);
        }
        core.ends[place] = Some(end);
        let caps = Caps {
            name: format!("inline:{name}"),
            backend: "inline",
            receives: true,
            transmits: true,
            frame_len_max,
            frags_max,
            zero_copy: own_pool.is_none(),
            copies: if own_pool.is_none() {
                "floods and mirrors are copied"
            } else {
                "each packet is copied once each way"
            },
            detail: format!("port {index} of a switch in this process, ring of {ring_slots} slots"),
            async_tx: true,
            ..Caps::default()
        };
        let edge = own_pool.map(|own| Edge { own: own.clone(), inbox: Batch::new(&core.pool, EDGE_SLOTS) });
        Ok(InlinePort {
            staged: Batch::new(&core.pool, queue_slots),
            pool: core.pool.clone(),
            shared: Arc::clone(&self.shared),
            index,
            owner,
            ring: receiver,
            bell,
            edge,
            caps,
            received: (0, 0),
            last: PortCounters::default(),
        })
    }
}

/// Slots that an isolated port takes out of its ring at once.
const EDGE_SLOTS: usize = 64;

/// The parts that only an isolated port has.
struct Edge {
    own: Pool,
    /// Received, and not copied yet.
    inbox: Batch,
}

/// A port of an [`InlineSwitch`].
///
/// A packet that `transmit` took counts as sent if the switch queued or flooded it; else it is among the drops, with the switch's reason.
/// Packets that did not fit into this port's ring are among its receive drops.
pub struct InlinePort {
    shared: Arc<Shared>,
    index: PortIndex,
    owner: u64,
    ring: SlotReceiver,
    bell: Arc<Condvar>,
    /// A handle on the switch's pool.
    pool: Pool,
    /// A part of a batch that goes alone.
    staged: Batch,
    edge: Option<Edge>,
    caps: Caps,
    /// Packets and bytes.
    received: (u64, u64),
    /// The totals when they were asked for last.
    last: PortCounters,
}

impl InlinePort {
    /// The pool of the packets that this port takes and gives.
    pub fn pool(&self) -> &Pool {
        self.edge.as_ref().map_or(&self.pool, |edge| &edge.own)
    }

    /// Number of the port in its switch.
    pub fn index(&self) -> PortIndex {
        self.index
    }

    fn gone(&self) -> PortError {
        PortError::Gone { port: self.caps.name.clone(), what: "the port was removed from its switch".into() }
    }

    /// The rare batches: packets of several slots, packets to be copied, packets that are too long. A few at a time are put
    /// aside and forwarded.
    #[cold]
    fn transmit_in_parts(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let mut taken = 0;
        loop {
            let (packets, too_long) = self.stage(batch);
            if packets == 0 {
                return match too_long {
                    Some(len) => {
                        Err(PortError::FrameTooLong { port: self.caps.name.clone(), len, max: self.caps.frame_len_max })
                    }
                    None => Ok(taken),
                };
            }
            let mut core = self.shared.lock();
            if !core.forward(self.index, self.owner, &mut self.staged, self.shared.clocks) {
                drop(core);
                let lost = self.staged.len();
                self.pool.free_front(&mut self.staged, lost);
                return Err(self.gone());
            }
            taken += packets;
        }
    }

    /// Moves or copies packets from the front of the batch to `staged`; returns how many, and the length of the next one if
    /// that is too long.
    fn stage(&mut self, batch: &mut Batch) -> (usize, Option<usize>) {
        let mut packets = 0;
        while let Some(span) = batch.span(0) {
            if span.len > self.caps.frame_len_max || span.slots > self.caps.frags_max {
                return (packets, Some(span.len));
            }
            match &mut self.edge {
                None if span.slots > self.staged.room() => break,
                None => {
                    batch.move_to(&mut self.staged, span.slots);
                }
                // No frame, or no room: the rest stays for later.
                Some(_) if !self.pool.copy(batch, 0, &mut self.staged) => break,
                Some(edge) => edge.own.free_front(batch, span.slots),
            }
            packets += 1;
        }
        (packets, None)
    }

    /// Copies packets that came in into packets of the port's own pool.
    #[cold]
    fn receive_copies(&mut self, batch: &mut Batch) -> usize {
        let Some(edge) = &mut self.edge else { return 0 };
        let mut packets = 0;
        loop {
            if edge.inbox.is_empty() && self.ring.receive(&mut edge.inbox) == 0 {
                return packets;
            }
            let Some(span) = edge.inbox.span(0) else { return packets };
            if !edge.own.copy(&edge.inbox, 0, batch) {
                return packets;
            }
            self.pool.free_front(&mut edge.inbox, span.slots);
            packets += 1;
        }
    }

    fn has_something(&mut self) -> bool {
        self.edge.as_ref().is_some_and(|edge| !edge.inbox.is_empty()) || self.ring.available() > 0
    }
}

impl Core {
    /// Lets a batch go through the switch and into the rings; false, and nothing has happened, when the port is gone.
    #[inline]
    fn forward(&mut self, port: PortIndex, owner: u64, batch: &mut Batch, clocks: Clocks) -> bool {
        if !matches!(self.ends.get(usize::from(port.0)), Some(Some(end)) if end.owner == owner) {
            return false;
        }
        self.batches = self.batches.wrapping_add(1);
        let timed = self.batches.is_multiple_of(TIMED_EVERY);
        let clock = if timed || self.switch.is_limited(port) { clocks.exact } else { clocks.recent };
        self.switch.forward(port, batch, &mut self.pool, clock());
        let now_ns = timed.then(clocks.exact);
        let mut next = self.switch.next_waiting(0);
        while let Some(port) = next {
            self.deliver(port, now_ns);
            next = self.switch.next_waiting(port.0 + 1);
        }
        true
    }

    /// Moves packets that wait for a port into its ring; packets that do not fit are lost.
    #[inline]
    fn deliver(&mut self, port: PortIndex, now_ns: Option<u64>) {
        let Some(Some(end)) = self.ends.get_mut(usize::from(port.0)) else {
            self.switch.discard(port, DropReason::EgressFull, &mut self.pool);
            return;
        };
        let waiting = self.switch.waiting(port);
        let Some(batch) = self.switch.output(port) else { return };
        let slots = if waiting == batch.len() as u64 { batch.len() } else { whole(batch, end.ring.room()) };
        end.ring.send_front(batch, slots);
        let left = if batch.is_empty() { 0 } else { batch.totals().packets };
        self.switch.tx_done_at(port, (waiting - left) as usize, now_ns);
        if left > 0 {
            self.switch.discard(port, DropReason::EgressFull, &mut self.pool);
        }
        if std::mem::take(&mut end.sleeping) {
            end.bell.notify_one();
        }
    }
}

/// Slots of the whole packets at the front of a batch that fit into `room` slots.
#[cold]
fn whole(batch: &Batch, room: usize) -> usize {
    let mut slots = 0;
    while let Some(span) = batch.span(slots).filter(|span| slots + span.slots <= room) {
        slots += span.slots;
    }
    slots
}

impl Port for InlinePort {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, self.pool())?;
        let held = batch.len();
        if self.edge.is_some() {
            self.receive_copies(batch);
        } else if self.ring.receive(batch) == 0 {
            return Ok(0);
        }
        let came = batch.totals_after(held);
        self.received.0 += came.packets;
        self.received.1 += came.bytes;
        Ok(came.packets as usize)
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, self.pool())?;
        let count = batch.len();
        let len_max = self.caps.frame_len_max;
        let all_fit = self.pool.region().frame_size() <= len_max || batch.iter().all(|packet| packet.len() <= len_max);
        if self.edge.is_some() || !all_fit || batch.totals().packets != count as u64 {
            return self.transmit_in_parts(batch);
        }
        let mut core = self.shared.lock();
        if !core.forward(self.index, self.owner, batch, self.shared.clocks) {
            drop(core);
            return Err(self.gone());
        }
        Ok(count)
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        if interest == Interest::Transmit || self.has_something() {
            return Ok(Readiness::Ready);
        }
        if timeout_ns == 0 {
            return Ok(Readiness::TimedOut);
        }
        let shared = Arc::clone(&self.shared);
        let (place, owner, bell) = (usize::from(self.index.0), self.owner, Arc::clone(&self.bell));
        let mut gone = false;
        // Who puts something into the ring has the lock, so nothing can come between the look and the sleep.
        let nothing_yet = |core: &mut Core| {
            match core.ends.get_mut(place) {
                Some(Some(end)) if end.owner == owner => end.sleeping = true,
                _ => gone = true,
            }
            !gone && !self.has_something()
        };
        let timeout = Duration::from_nanos(timeout_ns);
        let waited = bell.wait_timeout_while(shared.lock(), timeout, nothing_yet);
        let timed_out = waited.unwrap_or_else(PoisonError::into_inner).1.timed_out();
        if gone {
            return Err(self.gone());
        }
        Ok(if timed_out && !self.has_something() { Readiness::TimedOut } else { Readiness::Ready })
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let core = self.shared.lock();
        let owned = matches!(core.ends.get(usize::from(self.index.0)), Some(Some(end)) if end.owner == self.owner);
        let now = core.switch.port_counters(self.index).filter(|_| owned).copied();
        drop(core);
        self.last = now.unwrap_or(self.last);
        let counters = &self.last;
        Ok(Stats {
            rx_packets: self.received.0,
            rx_bytes: self.received.1,
            tx_packets: counters.unicast + counters.flooded,
            tx_bytes: counters.received_bytes - counters.dropped_bytes,
            rx_drops: drops(&self.caps.name, &counters.refused)
                .chain(drops(&self.caps.name, &counters.discarded))
                .collect(),
            tx_drops: drops("switch", &counters.dropped).collect(),
            ..Stats::default()
        })
    }
}

fn drops(place: &str, counts: &DropCounts) -> impl Iterator<Item = Drops> {
    counts.iter().map(move |(reason, packets)| Drops { place: place.into(), cause: reason.name().into(), packets })
}

impl Drop for InlinePort {
    fn drop(&mut self) {
        let mut core = self.shared.lock();
        let core = &mut *core;
        let place = usize::from(self.index.0);
        if let Some(end) =
            core.ends.get_mut(place).filter(|end| end.as_ref().is_some_and(|end| end.owner == self.owner))
        {
            *end = None;
            core.switch.remove_port(self.index, &mut core.pool);
        }
        core.pool.flush();
    }
}
