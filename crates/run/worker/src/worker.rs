//! A worker: what it owns, and one round of moving packets.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use linerate_mem::{Batch, Pool};
use linerate_port::{Context, Datapath, PortError, PortIndex};
use linerate_sys::clock;

use crate::idle::{Eagerness, SLEEP_NS};
use crate::job::{Handle, JOBS_MAX, Job};
use crate::notifier::{Notifier, Wakeup, notifier};
use crate::ports::{Attached, Ending, Event, PortLoss, Ports};
use crate::rest::Rest;
use crate::shares::Shares;

/// Packets wait for a port that takes none for so long before the datapath is told, and is told again.
const STUCK_NS: u64 = 1_000_000_000;
/// Rounds between two calls of every port's `flush` while packets keep coming; before a pause it is called in any case.
const FLUSH_EVERY: u64 = 1024;

/// How a worker works.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Slots of the batch of one `receive`: enough to share the costs of a round, few enough to take turns. The longest packet fits.
    pub batch: usize,
    /// Received packets carry the timestamps of ports that have some.
    pub timestamps: bool,
    /// What it does in the first moment after a packet.
    pub eagerness: Eagerness,
    /// What follows when a port is lost.
    pub port_loss: PortLoss,
    /// How long it goes on receiving packets that have arrived before the end, in nanoseconds; 0: it receives no more. Time for which the
    /// thread has no core is not counted, neither here nor in `drain_output_ns`.
    pub drain_input_ns: u64,
    /// How long packets that wait in outputs may still leave at the end, and as long again ports may complete what they took.
    pub drain_output_ns: u64,
    /// Longest sleep while nothing comes, in nanoseconds. A worker that nobody wakes for a signal to the process, or that looks for itself
    /// whether the far sides of its ports are there, sleeps for 50 ms, which is the default. One that sleeps for longer at last does so
    /// after sleeps of 50 ms and more; with a port that is down or about to go it does not.
    pub sleep_max_ns: u64,
    /// Nanoseconds of a clock that goes on while ports are called: by it ports share the worker's time.
    pub clock: fn() -> u64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            batch: 64,
            timestamps: false,
            eagerness: Eagerness::default(),
            port_loss: PortLoss::default(),
            drain_input_ns: 0,
            drain_output_ns: 1_000_000_000,
            sleep_max_ns: SLEEP_NS,
            clock: clock::now_ns,
        }
    }
}

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Slots that the datapath was given.
    pub received: usize,
    /// Packets that ports took.
    pub sent: usize,
}

impl Round {
    /// True if packets moved.
    #[inline]
    pub fn moved(&self) -> bool {
        self.received + self.sent > 0
    }
}

/// Totals of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    /// Rounds so far.
    pub rounds: u64,
    /// Rounds that moved packets.
    pub busy: u64,
    /// Time of those, in nanoseconds; with [`Eagerness::Polls`] only of those that another one followed without a sleep.
    pub busy_ns: u64,
    /// Sleeps on descriptors.
    pub sleeps: u64,
}

/// Serves ports for a datapath, on the thread that calls [`Worker::run`].
pub struct Worker<D> {
    pub(crate) served: Served<D>,
    pub(crate) jobs: Receiver<Job<D>>,
}

/// The ports of a worker, and the datapath that they are served for. A worker is one, with jobs from outside.
///
/// The methods that packets pass are compiled for each datapath. All others are those of `Served<dyn Datapath>`, which are compiled once: a loop for
/// each datapath is a second of the program's build.
pub struct Served<D: ?Sized> {
    /// Totals.
    pub turns: Turns,
    pub(crate) config: Config,
    pub(crate) ports: Ports,
    pub(crate) shares: Shares,
    pub(crate) rest: Rest,
    /// The pools of the ports, each once.
    pub(crate) homes: Vec<Home>,
    pub(crate) on_event: Box<dyn FnMut(Event) + Send>,
    pub(crate) notifier: Notifier,
    pub(crate) wakeup: Wakeup,
    /// When ports are asked for their links next, if the datapath follows them, or for their MTU, if one took a packet for too long; `u64::MAX`
    /// otherwise.
    pub(crate) links_due_ns: u64,
    /// The datapath follows links.
    pub(crate) follows_links: bool,
    /// The port that is asked first then.
    pub(crate) links_next: usize,
    /// What broke a port and ends the run.
    pub(crate) error: Option<PortError>,
    /// No packet will come any more, and none waits.
    pub(crate) exhausted: bool,
    /// What decides about packets.
    pub datapath: D,
}

/// A pool, and the batch that packets of its region are received into.
pub(crate) struct Home {
    pub(crate) pool: Pool,
    arrived: Batch,
}

impl<D: Datapath> Worker<D> {
    /// A worker without ports. `pool` is the pool of [`Datapath::tick`]. `on_event` is called on the worker's thread.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new(
        datapath: D,
        pool: &Pool,
        config: Config,
        on_event: Box<dyn FnMut(Event) + Send>,
    ) -> io::Result<(Worker<D>, Handle<D>)> {
        let (notifier, wakeup) = notifier()?;
        let (sender, jobs) = sync_channel(JOBS_MAX);
        let handle = Handle::new(sender, notifier.clone());
        let follows_links = datapath.follows_links();
        let links_due_ns = if follows_links { 0 } else { u64::MAX };
        let mut served = Served {
            turns: Turns::default(),
            config,
            ports: Ports::default(),
            shares: Shares::new(config.clock),
            rest: Rest::default(),
            homes: Vec::new(),
            on_event,
            notifier,
            wakeup,
            links_due_ns,
            follows_links,
            links_next: 0,
            error: None,
            exhausted: false,
            datapath,
        };
        served.erased().home(pool);
        Ok((Worker { served, jobs }, handle))
    }

    /// The datapath alone.
    pub fn into_datapath(self) -> D {
        self.served.datapath
    }
}

impl<D> Deref for Worker<D> {
    type Target = Served<D>;

    #[inline]
    fn deref(&self) -> &Served<D> {
        &self.served
    }
}

impl<D> DerefMut for Worker<D> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Served<D> {
        &mut self.served
    }
}

impl<D: Datapath> Served<D> {
    /// The same, for all that no packet passes.
    #[inline]
    pub(crate) fn erased(&mut self) -> &mut Served<dyn Datapath + '_> {
        self
    }

    /// Serves every port once: packets that have arrived go through the datapath, then each port gets what is for it.
    #[inline]
    pub fn round(&mut self, now_ns: u64) -> Round {
        // A port alone has all of the time.
        if self.ports.0.len() > 1 {
            self.shares.begin(now_ns, self.ports.accounts());
            self.erased().wake_ports();
        }
        let received = self.receive(now_ns);
        if now_ns >= self.links_due_ns {
            self.erased().check_links(now_ns);
        }
        if now_ns >= self.datapath.next_deadline_ns() {
            self.erased().tick(now_ns);
        }
        let round = Round { received, sent: self.transmit(now_ns) };
        self.turns.rounds += 1;
        self.turns.busy += u64::from(round.moved());
        if self.turns.rounds.is_multiple_of(FLUSH_EVERY) {
            self.erased().flush(now_ns);
        }
        round
    }

    /// A round in which no port waits for its share.
    pub(crate) fn round_of_all(&mut self, now_ns: u64) -> Round {
        self.shares.off = true;
        let round = self.round(now_ns);
        self.shares.off = false;
        round
    }

    /// The worker's handle of the pool that it was made with.
    pub fn pool(&self) -> &Pool {
        // `Worker::new` made the first one.
        &self.homes[0].pool
    }

    #[inline]
    fn receive(&mut self, now_ns: u64) -> usize {
        if let Some(start_ns) = self.shares.start() {
            return self.receive_shares(start_ns, now_ns);
        }
        (0..self.ports.0.len()).map(|place| self.receive_from(PortIndex(place as u16), now_ns)).sum()
    }

    /// Receives from each port that did not have more than its share of the time.
    fn receive_shares(&mut self, start_ns: u64, now_ns: u64) -> usize {
        let (mut received, mut since_ns) = (0, start_ns);
        for place in 0..self.ports.0.len() {
            let index = PortIndex(place as u16);
            let ahead = |attached: &mut Attached| attached.is_served() && self.shares.is_ahead(attached.received);
            if self.ports.get_mut(index).is_some_and(ahead) {
                continue;
            }
            let slots = self.receive_from(index, now_ns);
            received += slots;
            if let Some(attached) = self.ports.get_mut(index) {
                let full = slots >= self.config.batch / 2;
                since_ns = self.shares.charge_received(&mut attached.received, since_ns, full);
            }
        }
        received
    }

    /// Receives once from a port; returns how many slots the datapath was given.
    #[inline]
    pub(crate) fn receive_from(&mut self, index: PortIndex, now_ns: u64) -> usize {
        let Some(attached) = self.ports.get_mut(index) else { return 0 };
        if !attached.is_looked_at() {
            return self.erased().attend(index, now_ns);
        }
        if attached.hands_on
            && let passed @ 1.. = self.pass(index)
        {
            return passed;
        }
        let Served { datapath, ports, homes, rest, .. } = self;
        let Some(attached) = ports.get_mut(index) else { return 0 };
        let Some(Home { pool, arrived }) = homes.get_mut(attached.pool) else { return 0 };
        let outcome = attached.port.receive(arrived);
        let (ending, received) = (attached.ending, arrived.len());
        if received == 0 {
            rest.nothing_came(index, attached);
        } else {
            attached.quiet = 0;
            let context = &mut Context { now_ns, pool, ports };
            match outcome {
                Ok(packets) => datapath.input_counted(index, arrived, packets, context),
                Err(_) => datapath.input(index, arrived, context),
            }
            if !arrived.is_empty() {
                self.erased().hold(index);
            }
        }
        match outcome {
            Ok(0) if ending != Ending::No => self.erased().end_port(index, now_ns),
            Ok(_) => {}
            Err(error) => self.erased().failed(index, error, now_ns),
        }
        received
    }

    /// Lets a port hand packets on to the one that they leave by, if the datapath does not want to see them; returns how many.
    fn pass(&mut self, index: PortIndex) -> usize {
        let Some(to) = self.datapath.passes_to(index) else { return 0 };
        let Some((near, far)) = self.ports.two_mut(index, to) else { return 0 };
        if !far.usable {
            return 0;
        }
        let packets = near.port.hand_on(&mut *far.port);
        if packets > 0 {
            near.quiet = 0;
            far.unflushed = true;
            far.stuck_since_ns = 0;
            self.datapath.passed(index, to, packets);
        }
        packets
    }

    #[inline]
    pub(crate) fn transmit(&mut self, now_ns: u64) -> usize {
        let (mut sent, mut sent_ns) = (0, 0);
        let mut since_ns = self.shares.start();
        for place in 0..self.ports.0.len() {
            let Some(Some(attached)) = self.ports.0.get_mut(place) else { continue };
            let index = PortIndex(place as u16);
            let Some(batch) = self.datapath.output(index).filter(|batch| !batch.is_empty()) else { continue };
            if !attached.usable {
                self.erased().stuck(index, now_ns);
                continue;
            }
            if since_ns.is_some() && self.shares.is_ahead(attached.sent) {
                continue;
            }
            let outcome = attached.port.transmit(batch);
            if let Some(since_ns) = &mut since_ns {
                let packets = *outcome.as_ref().unwrap_or(&0);
                *since_ns = self.shares.charge_sent(&mut attached.sent, *since_ns, packets);
            }
            match outcome {
                Ok(0) => self.erased().stuck(index, now_ns),
                Ok(taken) => {
                    // The time at which packets leave is read once a round.
                    if sent_ns == 0 && self.datapath.wants_tx_time() {
                        sent_ns = clock::now_ns();
                    }
                    attached.unflushed = true;
                    attached.stuck_since_ns = 0;
                    self.datapath.tx_done(index, taken, sent_ns);
                    sent += taken;
                }
                Err(error) => sent += self.erased().refused(index, error, now_ns),
            }
        }
        sent
    }
}

impl Served<dyn Datapath + '_> {
    /// Keeps what the datapath left in the batch; both are empty alike at other times.
    #[cold]
    fn hold(&mut self, index: PortIndex) {
        let Some(attached) = self.ports.get_mut(index) else { return };
        if let Some(home) = self.homes.get_mut(attached.pool) {
            std::mem::swap(&mut home.arrived, &mut attached.held);
        }
    }

    /// Gives the datapath again what it left; returns how many slots it took this time.
    pub(crate) fn offer_again(&mut self, index: PortIndex, now_ns: u64) -> usize {
        let Served { datapath, ports, homes, .. } = self;
        let Some(attached) = ports.get_mut(index) else { return 0 };
        let Some(Home { pool, arrived }) = homes.get_mut(attached.pool) else { return 0 };
        if attached.held.is_empty() {
            return 0;
        }
        std::mem::swap(arrived, &mut attached.held);
        let before = arrived.len();
        datapath.input(index, arrived, &mut Context { now_ns, pool, ports });
        let taken = before - arrived.len();
        if taken < before {
            self.hold(index);
        }
        taken
    }

    #[cold]
    fn tick(&mut self, now_ns: u64) {
        let Served { datapath, ports, homes, .. } = self;
        if let Some(home) = homes.first_mut() {
            datapath.tick(&mut Context { now_ns, pool: &mut home.pool, ports });
        }
    }

    /// Packets wait for a port that took none in this round.
    #[cold]
    fn stuck(&mut self, index: PortIndex, now_ns: u64) {
        let Some(attached) = self.ports.get_mut(index) else { return };
        if attached.stuck_since_ns == 0 {
            (attached.stuck_since_ns, attached.stuck_told_ns) = (now_ns, now_ns);
        } else if now_ns.saturating_sub(attached.stuck_told_ns) > STUCK_NS {
            attached.stuck_told_ns = now_ns;
            self.tell_datapath(index, now_ns, |datapath, context| datapath.stuck(index, context));
        }
    }

    /// A port returned an error; it may have taken packets before. Returns how many.
    #[cold]
    fn refused(&mut self, index: PortIndex, error: PortError, now_ns: u64) -> usize {
        let left = self.datapath.output(index).map_or(0, |batch| batch.totals().packets);
        let taken = self.datapath.waiting(index).saturating_sub(left) as usize;
        if taken > 0 {
            let now_ns = if self.datapath.wants_tx_time() { clock::now_ns() } else { 0 };
            self.datapath.tx_done(index, taken, now_ns);
        }
        if let Some(attached) = self.ports.get_mut(index) {
            attached.unflushed |= taken > 0;
        }
        match error {
            PortError::FrameTooLong { max, .. } => {
                self.tell_datapath(index, now_ns, |datapath, context| datapath.too_long(index, max, context));
                self.ask_again_for_len_max(index, max, now_ns);
                // The packets behind it get their turn.
                taken.max(1)
            }
            error => {
                self.failed(index, error, now_ns);
                taken
            }
        }
    }

    /// True if packets wait for a port that may take them.
    pub(crate) fn waits(&mut self) -> bool {
        let Served { datapath, ports, .. } = self;
        ports.iter_mut().any(|(index, attached)| attached.usable && datapath.waiting(index) > 0)
    }

    #[cold]
    fn flush(&mut self, now_ns: u64) {
        let mut failed = None;
        for (index, attached) in self.ports.iter_mut() {
            failed = attached.flush().err().map(|error| (index, error)).or(failed);
        }
        if let Some((index, error)) = failed {
            self.failed(index, error, now_ns);
        }
    }

    /// The place of a pool in the worker's list.
    pub(crate) fn home(&mut self, pool: &Pool) -> usize {
        let known = self.homes.iter().position(|home| Arc::ptr_eq(home.pool.region(), pool.region()));
        known.unwrap_or_else(|| {
            self.homes.push(Home { pool: pool.clone(), arrived: self.batch(pool) });
            self.homes.len() - 1
        })
    }

    /// An empty batch for received packets of `pool`.
    pub(crate) fn batch(&self, pool: &Pool) -> Batch {
        let Config { batch, timestamps, .. } = self.config;
        if timestamps { Batch::with_times(pool, batch) } else { Batch::new(pool, batch) }
    }
}
