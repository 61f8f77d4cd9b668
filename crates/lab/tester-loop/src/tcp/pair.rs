//! A client's end and a server's, each over its port: rounds of both on one core in turn, or of each on a core of its own.

use std::sync::atomic::{AtomicBool, Ordering};

use linerate_mem::Pool;
use linerate_programs::load::Client;
use linerate_programs::serve::Echo;
use linerate_programs::{OverStack, Program};
use linerate_sys::perf::{Counter, Event, Scope};
use linerate_sys::{affinity, clock, signal};
use linerate_tcp::{App, Stack, StackConfig};
use linerate_worker::{Config, Worker};

use super::PairError;
use super::echo::{EchoClient, EchoServer};
use super::udp_loop::Returns;

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
pub trait Rounds: Send {
    /// Does what can be done now; returns how many packets moved, in and out; 1 for some, where nobody counts them.
    fn round(&mut self, now_ns: u64) -> usize;
}

impl<A: App + Send> Rounds for End<A> {
    #[inline]
    fn round(&mut self, now_ns: u64) -> usize {
        let round = (**self).round(now_ns);
        round.received + round.sent
    }
}

/// A stack with a program over it, and the ports that it is served for.
pub type End<A> = Worker<Stack<A>>;

/// Says whether a drive is over. It is asked on the client's thread, with the time.
pub type IsOver<'a, C> = dyn FnMut(&mut C, u64) -> bool + Send + 'a;

/// A client's program, and the server's. What is compiled for each program, which is the stack and the rounds of its end, is compiled in this
/// crate, to run fast; what else is done with a pair is compiled where it is asked for.
pub trait PairApp: App + Send + Sized {
    /// The program at the other end.
    type Server: App + Send;

    /// The client's end, without ports.
    ///
    /// # Errors
    /// There is no memory for it.
    fn client(self, config: EndConfig, pool: &Pool) -> Result<End<Self>, PairError>;

    /// The server's end, without ports.
    ///
    /// # Errors
    /// There is no memory for it.
    fn server(server: Self::Server, config: EndConfig, pool: &Pool) -> Result<End<Self::Server>, PairError>;

    /// Rounds of both ends, each on its core, until `is_over` says so. Returns what they cost.
    ///
    /// # Errors
    /// A signal asked to stop.
    fn drive(
        client: &mut End<Self>,
        server: &mut End<Self::Server>,
        cores: [Option<usize>; 2],
        is_over: &mut IsOver<'_, End<Self>>,
    ) -> Result<Cost, PairError>;
}

/// How an end is made.
pub struct EndConfig {
    /// Of its stack.
    pub stack: StackConfig,
    /// Packets that it works on together.
    pub batch: usize,
}

macro_rules! pairs {
    ($($client:ty => $server:ty,)*) => {$(
        impl PairApp for $client {
            type Server = $server;

            fn client(self, config: EndConfig, pool: &Pool) -> Result<End<$client>, PairError> {
                end(self, config, pool)
            }

            fn server(server: $server, config: EndConfig, pool: &Pool) -> Result<End<$server>, PairError> {
                end(server, config, pool)
            }

            fn drive(
                client: &mut End<$client>,
                server: &mut End<$server>,
                cores: [Option<usize>; 2],
                is_over: &mut IsOver<'_, End<$client>>,
            ) -> Result<Cost, PairError> {
                drive(client, server, cores, is_over)
            }
        }
    )*};
}

pairs! {
    OverStack<Client> => OverStack<Echo>,
    EchoClient => EchoServer,
    Returns => Returns,
}

/// Starts the load generator.
///
/// # Errors
/// What it cannot begin with.
pub fn start_client(end: &mut End<OverStack<Client>>, now_ns: u64) -> Result<(), String> {
    end.datapath.with(now_ns, |app, io| app.program.start(io))
}

/// Starts the server of its requests.
///
/// # Errors
/// What it cannot begin with.
pub fn start_server(end: &mut End<OverStack<Echo>>, now_ns: u64) -> Result<(), String> {
    end.datapath.with(now_ns, |app, io| app.program.start(io))
}

fn end<A: App>(app: A, config: EndConfig, pool: &Pool) -> Result<End<A>, PairError> {
    let stack = Stack::new(config.stack, pool, app)?;
    let (end, _) = Worker::new(stack, pool, Config { batch: config.batch, ..Config::default() }, Box::new(|_| {}))?;
    Ok(end)
}

/// Rounds without work, of an end with a core of its own, before it lets others have the core: some microseconds.
const SPIN_ROUNDS: u32 = 200;
/// Such rounds between two readings of the clock: less than a microsecond.
const CLOCK_EVERY: u32 = 8;
/// Packets between two readings of the clock while some keep coming, in and out of both ends, where these share a core: half a microsecond. A reading
/// takes a sixth of the time of an echo over one connection.
const PACKETS_MAX: usize = 16;
/// Rounds between two looks at whether a drive is over.
const LOOK_EVERY: u64 = 16;

/// Rounds of both ends until `is_over` says so, which is asked on the client's thread with the time: in turn on one core, or each on a core
/// of its own. Returns what they cost.
///
/// # Errors
/// A signal asked to stop.
pub(super) fn drive<C: Rounds + ?Sized, S: Rounds + ?Sized>(
    client: &mut C,
    server: &mut S,
    cores: [Option<usize>; 2],
    is_over: &mut IsOver<'_, C>,
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
                moved += server.round(now_ns);
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
pub fn are_apart([client, server]: [Option<usize>; 2]) -> bool {
    client.is_some() && server.is_some() && client != server
}

/// The time, and what follows a round in which there was nothing to do.
struct Idle {
    /// Rounds in a row.
    rounds: u32,
    /// So many pass before others get the core.
    patient: u32,
    /// Packets that move before the clock is read again.
    packets_max: usize,
    /// Packets that moved since it was read.
    moved: usize,
    now_ns: u64,
}

impl Idle {
    /// An end with a core of its own waits there for the other end's answer, which comes sooner than a call of the kernel returns.
    fn new(apart: bool) -> Idle {
        let (patient, packets_max) = if apart { (SPIN_ROUNDS, 1) } else { (0, PACKETS_MAX) };
        Idle { rounds: 0, patient, packets_max, moved: packets_max, now_ns: 0 }
    }

    /// The time of the next round, read now and then: an answer is met the sooner.
    #[inline]
    fn now_ns(&mut self) -> u64 {
        let is_due =
            if self.rounds == 0 { self.moved >= self.packets_max } else { self.rounds.is_multiple_of(CLOCK_EVERY) };
        if is_due {
            self.moved = 0;
            self.now_ns = clock::now_ns();
        }
        self.now_ns
    }

    /// A round is over in which so many packets moved; true if nothing came for a while.
    #[inline]
    fn after(&mut self, moved: usize) -> bool {
        if moved > 0 {
            self.rounds = 0;
            self.moved += moved;
            return false;
        }
        let is_long = self.rounds >= self.patient;
        if is_long {
            std::thread::yield_now();
            self.moved = self.packets_max;
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
