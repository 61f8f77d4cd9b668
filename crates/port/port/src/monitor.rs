//! A port that is watched: what passes is copied to a second port.
//!
//! ```text
//! program  --- transmit --->  watched port      copies of what it took, and of what it returned,
//!          <--- receive ----                    go to the watcher; those that it does not take are counted
//! ```
//! The watched port loses nothing by it and waits for nobody: a copy that finds no free frame, or that the watcher does not take
//! at once, is lost, and counted. A watcher that copies what it sends (a file, a tap, a memif) is shown what the port returned,
//! which costs no copy besides that; else, and for what the port took, each packet is copied once.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linerate_mem::{Batch, Pool};

use crate::{Caps, Drops, Interest, LinkState, Port, PortError, Readiness, Stats, TxGenerator};

/// What of a port is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// What it returned.
    Received,
    /// What it took.
    Transmitted,
    /// Both, in the order in which it happened.
    Both,
}

/// Packets of a watcher: `seen = shown + taken + no_frame + refused`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorCounts {
    /// Packets that passed, in the direction that is watched.
    pub seen: u64,
    /// Packets that the watcher sent from where they lay: without a copy for it.
    pub shown: u64,
    /// Copies that the watcher took.
    pub taken: u64,
    /// Packets for whose copy there was no free frame, or no room.
    pub no_frame: u64,
    /// Copies that the watcher did not take at once.
    pub refused: u64,
}

/// The account of a watcher, for whoever gave the port away: as of the last call of the port's `stats`.
#[derive(Clone, Debug, Default)]
pub struct MonitorAccount {
    /// What became of the copies.
    pub counts: MonitorCounts,
    /// The watcher's totals, and what did not get there: `counts.seen = tx_packets + tx_drops`.
    pub stats: Stats,
}

/// A watched port. It is a port as the one that it wraps.
pub struct Monitor {
    port: Box<dyn Port>,
    /// `None` while nobody watches.
    watcher: Option<Box<dyn Port>>,
    switch: WatchSwitch,
    watched: Watched,
    /// Frames for copies.
    pool: Pool,
    copies: Batch,
    /// Slots of each of them.
    made: Vec<usize>,
    counts: MonitorCounts,
    account: Arc<Mutex<MonitorAccount>>,
    /// What broke the watcher; nothing is copied any more.
    failure: Option<String>,
}

/// Slots of copies that go to the watcher at once, at most: as many as the tools' largest batch has.
const COPIES: usize = 4096;

impl Monitor {
    /// Watches `port` by `watcher`, which is open on `pool`.
    pub fn new(port: Box<dyn Port>, watcher: Box<dyn Port>, watched: Watched, pool: &Pool) -> Monitor {
        Monitor { watcher: Some(watcher), ..Monitor::switched(port, watched, pool) }
    }

    /// A port that nobody watches until its [`WatchSwitch`] says so.
    pub fn switched(port: Box<dyn Port>, watched: Watched, pool: &Pool) -> Monitor {
        let copies = Batch::with_times(pool, COPIES);
        let (made, counts) = (Vec::with_capacity(COPIES), MonitorCounts::default());
        let (account, switch) = Default::default();
        Monitor {
            port,
            watcher: None,
            switch,
            watched,
            pool: pool.clone(),
            copies,
            made,
            counts,
            account,
            failure: None,
        }
    }

    /// Begins and ends the watching after the port has been given away.
    pub fn switch(&self) -> WatchSwitch {
        self.switch.clone()
    }

    /// What became of the copies.
    pub fn counts(&self) -> MonitorCounts {
        self.counts
    }

    /// Where the account can be read after the port has been given away.
    pub fn account(&self) -> Arc<Mutex<MonitorAccount>> {
        Arc::clone(&self.account)
    }

    /// Completes what the watcher holds, and reads its totals with what did not get there.
    ///
    /// # Errors
    /// As its `stats`; what broke it earlier shows as the cause of the losses.
    pub fn watcher_stats(&mut self) -> Result<Stats, PortError> {
        let Some(watcher) = &mut self.watcher else { return Ok(Stats::default()) };
        if let Err(error) = watcher.flush() {
            self.failure.get_or_insert(error.to_string());
        }
        let mut stats = watcher.stats()?;
        let place = format!("monitor of {}", self.port.caps().name);
        let refused = self.failure.clone().unwrap_or_else(|| "the watcher did not take it at once".into());
        for (cause, packets) in
            [("no free frame for a copy".into(), self.counts.no_frame), (refused, self.counts.refused)]
        {
            if packets > 0 {
                stats.tx_drops.push(Drops { place: place.clone(), cause, packets });
            }
        }
        Ok(stats)
    }

    /// Lets the watcher send packets from where they lie. Returns how many it sent, and the slot behind them.
    fn transmit_ref(&mut self, batch: &Batch, from: usize) -> (usize, usize) {
        let Some(watcher) = self.watcher.as_mut().filter(|_| self.failure.is_none()) else { return (0, from) };
        if batch.has_partial_checksums(from) {
            return (0, from);
        }
        let shown = watcher.transmit_ref(batch, from).unwrap_or_else(|error| {
            if !matches!(error, PortError::Down { .. }) {
                self.failure = Some(error.to_string());
            }
            0
        });
        self.counts.seen += shown as u64;
        self.counts.shown += shown as u64;
        let behind = (0..shown).fold(from, |at, _| at + batch.span(at).map_or(0, |span| span.slots));
        (shown, behind)
    }

    /// Copies the packets of the batch from slot `from` on, and notes how many slots each copy has: 0, if there is none.
    fn copy(&mut self, batch: &Batch, from: usize) {
        self.made.clear();
        let mut at = from;
        while let Some(span) = batch.span(at) {
            let held = self.copies.len();
            let copied = self.failure.is_none() && self.pool.copy(batch, at, &mut self.copies);
            self.made.push(if copied { self.copies.len() - held } else { 0 });
            at += span.slots;
        }
    }

    /// The first `passed` of the packets that were copied have passed: their copies go to the watcher, the others are forgotten.
    fn settle(&mut self, passed: usize) {
        let (passed, others) = self.made.split_at(passed.min(self.made.len()));
        self.pool.free_back(&mut self.copies, others.iter().sum());
        let without = passed.iter().filter(|slots| **slots == 0).count() as u64;
        self.counts.seen += passed.len() as u64;
        match self.failure {
            None => self.counts.no_frame += without,
            Some(_) => self.counts.refused += without,
        }
        let Some(watcher) = self.watcher.as_mut().filter(|_| !self.copies.is_empty()) else { return };
        let before = self.copies.totals().packets;
        if let Err(error) = watcher.transmit(&mut self.copies) {
            // A packet that is too long for the watcher is one that it does not take; anything else breaks it.
            if !matches!(error, PortError::FrameTooLong { .. } | PortError::Down { .. }) {
                self.failure = Some(error.to_string());
            }
        }
        let left = self.copies.totals().packets;
        self.counts.taken += before - left;
        self.counts.refused += left;
        self.pool.free(&mut self.copies);
    }

    /// Does what the switch was told.
    #[cold]
    fn obey(&mut self) {
        let switch = self.switch.clone();
        let mut state = switch.state();
        switch.0.is_told.store(false, Ordering::Relaxed);
        let Some(order) = state.order.take() else { return };
        if self.watcher.is_some() {
            let stats = self.watcher_stats().unwrap_or_default();
            state.ended = Some(MonitorAccount { counts: self.counts, stats });
        }
        (self.watcher, self.counts, self.failure) = (None, MonitorCounts::default(), None);
        if let Order::Begin(watcher) = order {
            self.watcher = Some(watcher);
        }
    }
}

/// Begins and ends the watching of a port, from any thread. The port does as it was told when it is flushed.
#[derive(Clone, Default)]
pub struct WatchSwitch(Arc<Switch>);

#[derive(Default)]
struct Switch {
    is_told: AtomicBool,
    state: Mutex<SwitchState>,
}

#[derive(Default)]
struct SwitchState {
    order: Option<Order>,
    /// The account of the watching that ended last.
    ended: Option<MonitorAccount>,
}

enum Order {
    Begin(Box<dyn Port>),
    End,
}

impl WatchSwitch {
    /// Lets `watcher`, which is open on the pool of the monitor, watch from now on.
    pub fn begin(&self, watcher: Box<dyn Port>) {
        self.tell(Order::Begin(watcher));
    }

    /// Ends the watching: the watcher is closed.
    pub fn end(&self) {
        self.tell(Order::End);
    }

    /// Takes back what the port has not done yet; true if there was something.
    pub fn withdraw(&self) -> bool {
        self.state().order.take().is_some()
    }

    /// The account of the watching that ended last, once.
    pub fn take_account(&self) -> Option<MonitorAccount> {
        self.state().ended.take()
    }

    fn tell(&self, order: Order) {
        self.state().order = Some(order);
        self.0.is_told.store(true, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, SwitchState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port for Monitor {
    fn caps(&self) -> &Caps {
        self.port.caps()
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let held = batch.len();
        let received = self.port.receive(batch)?;
        if received > 0 && self.watcher.is_some() && self.watched != Watched::Transmitted {
            let (shown, at) = self.transmit_ref(batch, held);
            self.copy(batch, at);
            self.settle(received - shown);
        }
        Ok(received)
    }

    /// Copies are made before the port takes the packets: their frames are gone after that.
    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        if self.watched == Watched::Received || self.watcher.is_none() {
            return self.port.transmit(batch);
        }
        let before = batch.totals().packets;
        self.copy(batch, 0);
        let result = self.port.transmit(batch);
        self.settle((before - batch.totals().packets) as usize);
        result
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        if self.switch.0.is_told.load(Ordering::Relaxed) {
            self.obey();
        }
        if let Some(watcher) = self.watcher.as_mut().filter(|_| self.failure.is_none())
            && let Err(error) = watcher.flush()
            && !matches!(error, PortError::Down { .. })
        {
            self.failure = Some(error.to_string());
        }
        self.port.flush()
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        self.port.wait(interest, timeout_ns)
    }

    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        self.port.arm_wakeup(add)
    }

    fn next_deadline_ns(&self) -> Option<u64> {
        let watcher = self.watcher.as_ref().and_then(|watcher| watcher.next_deadline_ns());
        self.port.next_deadline_ns().into_iter().chain(watcher).min()
    }

    fn rx_occupancy(&self) -> Option<(u64, u64)> {
        self.port.rx_occupancy()
    }

    fn link(&mut self) -> Result<LinkState, PortError> {
        self.port.link()
    }

    fn current_frame_len_max(&mut self) -> usize {
        self.port.current_frame_len_max()
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let stats = self.watcher_stats()?;
        *self.account.lock().unwrap_or_else(PoisonError::into_inner) = MonitorAccount { counts: self.counts, stats };
        self.port.stats()
    }

    fn queue_stats(&mut self) -> Result<Vec<Stats>, PortError> {
        self.port.queue_stats()
    }

    fn tx_generator(&mut self) -> Option<&mut dyn TxGenerator> {
        // Packets that the port makes by itself do not pass here.
        match self.watched {
            Watched::Received => self.port.tx_generator(),
            Watched::Transmitted | Watched::Both => None,
        }
    }
}
