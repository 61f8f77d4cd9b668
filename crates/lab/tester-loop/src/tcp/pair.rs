//! A client's stack and a server's, each over its port: rounds of both on one core in turn, or of each on a core of its own.

use std::sync::atomic::{AtomicBool, Ordering};

use linerate_ip::IpConfig;
use linerate_port::{Drops, PortIndex, Stats};
use linerate_sys::perf::{Counter, Event, Scope};
use linerate_sys::{affinity, clock, signal};
use linerate_tcp::{App, Counters, Stack, StackConfig};
use linerate_worker::{Config, Role, Worker};

use super::{Ends, PairError};

/// What both stacks of a pair have in common.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Most connections.
    pub connections_max: usize,
    /// Connections whose memory is taken when the stacks are made.
    pub preallocated_connections: usize,
    /// Packets of a stack that wait for its port.
    pub output_packets: usize,
    /// Requests on the way at most, if that is known.
    pub window: Option<usize>,
}

impl Shape {
    /// Packets that an end with a core of its own works on before it sends: so few that the other end has some to work on meanwhile. All requests
    /// in one batch would go back and forth, and one of the cores wait at any time.
    fn batch_apart(&self) -> usize {
        let all = Config::default().batch;
        self.window.map_or(all, |window| (window / PARTS).clamp(1, all))
    }
}

/// What a drive cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Time of the wall.
    pub wall_ns: u64,
    /// Time on cores, both ends together.
    pub core_ns: u64,
    /// Cycles of both ends, where the machine counts them.
    pub cycles: Option<f64>,
}

/// An end that works in rounds.
pub(super) trait Rounds: Send {
    /// Does what can be done now, and says whether there was anything.
    fn round(&mut self, now_ns: u64) -> bool;
}

impl<A: App + Send> Rounds for Worker<Stack<A>> {
    #[inline]
    fn round(&mut self, now_ns: u64) -> bool {
        (**self).round(now_ns).moved()
    }
}

/// The two stacks.
pub struct Pair<C: App, S: App> {
    /// The client's.
    pub client: Worker<Stack<C>>,
    /// The server's.
    pub server: Worker<Stack<S>>,
    /// Core of each; `None` leaves it to the scheduler.
    cores: [Option<usize>; 2],
}

/// Packets that left and reached an end.
#[derive(Clone, Debug, Default)]
pub struct EndStats(pub [Stats; 2]);

impl EndStats {
    /// Packets that both ends sent.
    pub fn sent(&self) -> u64 {
        self.0.iter().map(|stats| stats.tx_packets).sum()
    }
}

/// Parts of the requests on the way that ends with a core each work on one after the other.
const PARTS: usize = 2;
/// Rounds without work, of an end with a core of its own, before it lets others have the core: some microseconds.
const SPIN_ROUNDS: u32 = 200;
/// Such rounds between two readings of the clock: less than a microsecond.
const CLOCK_EVERY: u32 = 8;
/// Rounds between two looks at whether a drive is over.
const LOOK_EVERY: u64 = 16;
/// A TIME-WAIT of the tester's own: it begins more connections than there are ports for a minute.
const TIME_WAIT_MS: u32 = 10;

fn worker<A: App>(
    (ends, end): (&mut Ends, usize),
    ip: IpConfig,
    (shape, batch): (Shape, usize),
    app: A,
) -> Result<Worker<Stack<A>>, PairError> {
    let secret = ip.secret;
    let mut config = StackConfig {
        ip,
        connections_max: shape.connections_max,
        preallocated_connections: shape.preallocated_connections,
        time_wait_ms: TIME_WAIT_MS,
        secret,
        output_packets: shape.output_packets,
        partial_checksums: ends.offloads,
        ..StackConfig::default()
    };
    config.send.budget_bytes = shape.connections_max * 64 + (64 << 20);
    let stack = Stack::new(config, &ends.pool, app)?;
    let (mut worker, _) = Worker::new(stack, &ends.pool, Config { batch, ..Config::default() }, Box::new(|_| {}))?;
    for port in std::mem::take(&mut ends.ports[end]) {
        worker.attach(port, &ends.pool, Role::default());
    }
    Ok(worker)
}

impl<C: App + Send, S: App + Send> Pair<C, S> {
    /// Makes both stacks over the ports of `ends`, which [`Pair::into_ends`] gives back.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn new(
        ends: &mut Ends,
        (client_ip, client): (IpConfig, C),
        (server_ip, server): (IpConfig, S),
        shape: Shape,
        cores: [Option<usize>; 2],
    ) -> Result<Pair<C, S>, PairError> {
        let batch = if are_apart(cores) { shape.batch_apart() } else { Config::default().batch };
        let client = worker((ends, 0), client_ip, (shape, batch), client)?;
        let server = worker((ends, 1), server_ip, (shape, batch), server)?;
        Ok(Pair { client, server, cores })
    }

    /// Ends both stacks and gives the ports back.
    pub fn into_ends(self, ends: &mut Ends) {
        ends.ports = [self.client.into_ports().collect(), self.server.into_ports().collect()];
    }

    /// Rounds of both stacks until `is_over` says so, which is asked on the client's thread with the time. Returns what they cost.
    ///
    /// # Errors
    /// A signal asked to stop.
    pub fn drive(
        &mut self,
        mut is_over: impl FnMut(&mut Worker<Stack<C>>, u64) -> bool + Send,
    ) -> Result<Cost, PairError> {
        drive(&mut self.client, &mut self.server, self.cores, &mut is_over)
    }

    /// Drives both until no packet has reached or left the client for a while.
    ///
    /// # Errors
    /// As [`Pair::drive`].
    pub fn settle(&mut self, quiet_ns: u64, at_most_ns: u64) -> Result<(), PairError> {
        let start_ns = clock::now_ns();
        let mut last = (0, start_ns);
        self.drive(|client, now_ns| {
            let counters = client.datapath.with(now_ns, |_, io| io.counters());
            let packets = counters.in_segs + counters.out_segs + counters.retrans_segs;
            if packets != last.0 {
                last = (packets, now_ns);
            }
            now_ns.saturating_sub(last.1) >= quiet_ns || now_ns.saturating_sub(start_ns) >= at_most_ns
        })
        .map(drop)
    }

    /// Drives both for a while: what is on its way without a timer arrives.
    ///
    /// # Errors
    /// As [`Pair::drive`].
    pub fn settle_for(&mut self, time_ns: u64) -> Result<(), PairError> {
        let start_ns = clock::now_ns();
        self.drive(|_, now_ns| now_ns.saturating_sub(start_ns) >= time_ns).map(drop)
    }

    /// Counters of both stacks.
    pub fn counters(&mut self) -> [Counters; 2] {
        let now_ns = clock::now_ns();
        [
            self.client.datapath.with(now_ns, |_, io| io.counters()),
            self.server.datapath.with(now_ns, |_, io| io.counters()),
        ]
    }

    /// Packets that the ports of both ends lost so far, by place and cause.
    ///
    /// # Errors
    /// A port cannot say.
    pub fn drops(&mut self) -> Result<Vec<Drops>, PairError> {
        Ok(self.stats()?.0.into_iter().flat_map(|stats| [stats.rx_drops, stats.tx_drops]).flatten().collect())
    }

    /// Totals of the ports of both ends.
    ///
    /// # Errors
    /// A port cannot say.
    pub fn stats(&mut self) -> Result<EndStats, PairError> {
        Ok(EndStats([stats(&mut self.client)?, stats(&mut self.server)?]))
    }
}

/// Rounds of both ends until `is_over` says so, which is asked on the client's thread with the time: in turn on one core, or each on a core
/// of its own. Returns what they cost.
///
/// # Errors
/// A signal asked to stop.
pub(super) fn drive<C: Rounds, S: Rounds>(
    client: &mut C,
    server: &mut S,
    cores: [Option<usize>; 2],
    is_over: &mut (dyn FnMut(&mut C, u64) -> bool + Send),
) -> Result<Cost, PairError> {
    let apart = are_apart(cores);
    let ended = AtomicBool::new(false);
    let mut alone = Some(server);
    let mut other = if apart { alone.take() } else { None };
    let mut of_server = || {
        let Some(server) = &mut other else { return };
        let mut idle = Idle::new(apart);
        while !ended.load(Ordering::Relaxed) {
            let moved = server.round(idle.now_ns());
            idle.after(moved);
        }
    };
    let mut of_client = || {
        let (mut rounds, mut idle) = (0u64, Idle::new(apart));
        loop {
            let now_ns = idle.now_ns();
            let mut moved = client.round(now_ns);
            if let Some(server) = &mut alone {
                moved |= server.round(now_ns);
            }
            rounds += 1;
            let looks = idle.after(moved) || rounds.is_multiple_of(LOOK_EVERY);
            if looks && (is_over(client, now_ns) || signal::stop_requested()) {
                return;
            }
        }
    };
    let cost = on_threads(cores, &mut of_client, apart.then_some(&mut of_server), &ended);
    if signal::stop_requested() { Err(PairError::Stopped) } else { Ok(cost) }
}

/// Does `first` on a thread, then says so by `ended`, by which `other`, on a thread of its own, is to end. Returns what both cost. It has no type
/// parameters: a thread is much code to compile for each work.
fn on_threads(
    [first_core, other_core]: [Option<usize>; 2],
    first: &mut (dyn FnMut() + Send),
    other: Option<&mut (dyn FnMut() + Send)>,
    ended: &AtomicBool,
) -> Cost {
    std::thread::scope(|scope| {
        let other = other.map(|other| scope.spawn(move || measured(other_core, other)));
        let first = scope.spawn(move || {
            let cost = measured(first_core, first);
            ended.store(true, Ordering::Relaxed);
            cost
        });
        let mut cost = join(first);
        if let Some(other) = other.map(join) {
            cost.core_ns += other.core_ns;
            cost.cycles = cost.cycles.zip(other.cycles).map(|(one, other)| one + other);
        }
        cost
    })
}

/// True if each end has a core of its own.
fn are_apart([client, server]: [Option<usize>; 2]) -> bool {
    client.is_some() && server.is_some() && client != server
}

fn stats<A: App>(worker: &mut Worker<Stack<A>>) -> Result<Stats, PairError> {
    let mut sum = Stats::default();
    for index in 0.. {
        let Some(port) = worker.port(PortIndex(index)) else { break };
        sum.add(port.stats()?);
    }
    Ok(sum)
}

/// The time, and what follows a round in which there was nothing to do.
struct Idle {
    /// Rounds in a row.
    rounds: u32,
    /// So many pass before others get the core.
    patient: u32,
    now_ns: u64,
}

impl Idle {
    /// An end with a core of its own waits there for the other end's answer, which comes sooner than a call of the kernel returns.
    fn new(apart: bool) -> Idle {
        Idle { rounds: 0, patient: if apart { SPIN_ROUNDS } else { 0 }, now_ns: 0 }
    }

    /// The time of the next round. While nothing comes it is read now and then only: an answer is met the sooner.
    #[inline]
    fn now_ns(&mut self) -> u64 {
        if self.rounds.is_multiple_of(CLOCK_EVERY) {
            self.now_ns = clock::now_ns();
        }
        self.now_ns
    }

    /// A round is over; true if nothing came for a while.
    #[inline]
    fn after(&mut self, moved: bool) -> bool {
        if moved {
            self.rounds = 0;
            return false;
        }
        let is_long = self.rounds >= self.patient;
        if is_long {
            std::thread::yield_now();
        }
        self.rounds = if is_long { 0 } else { self.rounds + 1 };
        is_long
    }
}

/// Does `work` on a core and says what it cost.
fn measured(core: Option<usize>, work: &mut dyn FnMut()) -> Cost {
    if let Some(core) = core {
        // Where it is refused, the scheduler chooses; the figures are no wronger for it.
        let _ = affinity::pin_to_core(core);
    }
    let cycles = Counter::open(Event::Cycles, Scope::ThisThread).ok();
    let (wall_ns, core_ns) = (clock::now_ns(), clock::thread_cpu_ns());
    work();
    Cost {
        wall_ns: clock::now_ns() - wall_ns,
        core_ns: clock::thread_cpu_ns() - core_ns,
        cycles: cycles.and_then(|counter| counter.read().ok()?.scaled()),
    }
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
