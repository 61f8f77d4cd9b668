//! `tcp-echo [KEY=VALUE ...]`: two TCP stacks on one core, joined by memory, echo single bytes (experiment `tcp-2018`, "single" cells).
//!
//! ```text
//! connections=N    connections that stand, 256 by default (6000000 takes about 4 GB)
//! order=reply      a connection sends its next byte when its last one came back (default)
//! order=robin      each byte that comes back makes the next connection in turn send
//! mode=echo        echo over connections that stand (default)
//! mode=open        connections are opened and closed, one byte each way, beside those that stand
//! mode=cycle       200,000 connections are set up, then closed, without data, again and again beside those that stand; each apart
//! preallocate=N    connections whose memory is taken at the start: 0 by default, or `all` that the run needs
//! seconds=2        time that is measured
//! batch=64         packets that a stack works on together; 1 as a control
//! prefetch=1       0 as a control
//! window=N         bytes on the way at most; connections that begin or end at a time
//! counters=0       1: all counters of both stacks, for each echo
//! echoes=N         echoes (or connections) to count instead of seconds, by a clock of its own, for an instruction counter
//! cores=N          so many pairs of shards, each pair on a thread and with a queue of its own; each thread prints its own figures
//! ```
//! It prints echoes (or connections) for a second of thread CPU time, packets and acknowledgments for each, resident bytes for each connection.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic::resume_unwind;
use std::process::ExitCode;

use linerate_benches::say;
use linerate_experiment::EchoOrder;
use linerate_ip::{AddressRange, IpConfig};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Context, Datapath, PortIndex};
use linerate_sys::clock;
use linerate_sys::perf::{Counter, Event, Scope};
use linerate_tcp::{
    ConnectOptions, Counters, ListenOptions, Shard, ShardPort, Sharded, ShardsDone, Stack, StackConfig,
};
use linerate_tester::tcp::echo::{EchoClient, EchoPhase, EchoServer, PER_ADDRESS, resident_bytes};

const PORT: PortIndex = PortIndex(0);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Addresses from which connections are opened and closed, so that ports do not run out while the last ones wait.
const OPEN_ADDRESSES: usize = 16;
/// Connections of a cycle of `mode=cycle`.
const CYCLE: usize = 200_000;
/// Rounds between two looks at the clock that the stacks go by.
const ROUNDS_PER_LOOK: u64 = 32;
/// Nanoseconds of a round by the clock of runs that count echoes.
const ROUND_NS: u64 = 32_000;
/// Echoes between two looks at the clock of the thread.
const STEP: u64 = 10_000;

struct Settings {
    connections: usize,
    robin: bool,
    opens: bool,
    cycles: bool,
    preallocate: usize,
    seconds: f64,
    echoes: u64,
    batch: usize,
    prefetch: bool,
    window: usize,
    counters: bool,
    cores: u16,
}

impl Settings {
    fn read() -> Result<Settings, String> {
        let mut settings = Settings {
            connections: 256,
            robin: false,
            opens: false,
            cycles: false,
            preallocate: 0,
            seconds: 2.0,
            echoes: u64::MAX,
            batch: 64,
            prefetch: true,
            window: 0,
            counters: false,
            cores: 1,
        };
        for argument in std::env::args().skip(1) {
            let wrong = || format!("not a setting: {argument}; the head of the source names them");
            let (key, value) = argument.split_once('=').ok_or_else(wrong)?;
            let number = value.parse::<f64>();
            match (key, value, &number) {
                ("order", "reply" | "robin", _) => settings.robin = value == "robin",
                ("mode", "echo" | "open" | "cycle", _) => {
                    (settings.opens, settings.cycles) = (value == "open", value == "cycle");
                }
                ("preallocate", "all", _) => settings.preallocate = usize::MAX,
                ("preallocate", _, Ok(number)) => settings.preallocate = *number as usize,
                ("connections", _, Ok(number)) => settings.connections = *number as usize,
                ("seconds", _, Ok(number)) => settings.seconds = *number,
                ("echoes", _, Ok(number)) => settings.echoes = *number as u64,
                ("batch", _, Ok(number)) => settings.batch = *number as usize,
                ("prefetch", _, Ok(number)) => settings.prefetch = *number != 0.0,
                ("counters", _, Ok(number)) => settings.counters = *number != 0.0,
                ("cores", _, Ok(number)) => settings.cores = *number as u16,
                ("window", _, Ok(number)) => settings.window = *number as usize,
                _ => return Err(wrong()),
            }
        }
        if settings.window == 0 {
            settings.window = if settings.cycles { 256 } else { settings.connections.clamp(1, 1024) };
        }
        if settings.preallocate == usize::MAX {
            settings.preallocate = settings.connections_max();
        }
        Ok(settings)
    }

    /// Connections that each stack has room for.
    fn connections_max(&self) -> usize {
        self.connections + if self.cycles { CYCLE } else { 0 } + 65_536
    }
}

/// Both stacks, and the batches between them.
struct Pair {
    client: Sharded<EchoClient>,
    server: Sharded<EchoServer>,
    to_server: Batch,
    to_client: Batch,
    pool: Pool,
    now_ns: u64,
    rounds: u64,
    /// Connections that were begun.
    begun: u64,
    /// Each round takes [`ROUND_NS`], so that every run does the same.
    is_counted: bool,
}

impl Pair {
    fn new(settings: &Settings) -> Result<Pair, String> {
        let output = settings.window.next_multiple_of(64) + 1024;
        let frames = 4 * output + 4096;
        let pool = Pool::new(PoolConfig { frames, frame_size: 2048 }).map_err(|error| error.to_string())?;
        let spare = if settings.opens || settings.cycles { OPEN_ADDRESSES } else { 0 };
        let addresses = (settings.connections / PER_ADDRESS + 1 + spare) as u32;
        // Each pair is the first of its kind, because that one answers ARP.
        let shard = Shard::new(0, settings.cores).ok_or("cores: 1 to 64")?;
        let config = |number: u8, first: Ipv4Addr, count: u32| {
            let range = AddressRange { first: first.into(), count, prefix_len: 15 };
            let mut config = StackConfig {
                ip: IpConfig {
                    mac: linerate_wire::MacAddress([2, 0, 0, 0, 0, number]),
                    addresses: vec![range],
                    duplicate_detection: false,
                    ipv6: false,
                    shard,
                    ..IpConfig::default()
                },
                connections_max: settings.connections_max(),
                preallocated_connections: settings.preallocate,
                time_wait_max: 65_536,
                secret: [number; 16],
                output_packets: output,
                batch: settings.batch,
                prefetch: settings.prefetch,
                partial_checksums: true,
                ..StackConfig::default()
            };
            config.send.budget_bytes = settings.connections_max() * 64 + (64 << 20);
            config
        };
        let first = Ipv4Addr::new(198, 19, 0, 1);
        let client = EchoClient::new(settings.connections);
        let text = |error: linerate_tcp::StackError| error.to_string();
        let client = Stack::new(config(1, first, addresses), &pool, client).map_err(text)?;
        let server = Stack::new(config(2, SERVER, 1), &pool, EchoServer).map_err(text)?;
        let mut client = Sharded::new(client, shard, ShardsDone::default(), &pool);
        let mut server = Sharded::new(server, shard, ShardsDone::default(), &pool);
        let bound = [client.bind(ShardPort::Port), server.bind(ShardPort::Port)];
        assert_eq!(bound, [Some(PORT); 2]);
        let now_ns = clock::thread_cpu_ns();
        let listen = ListenOptions { backlog: 65_536, nodelay: true, ..ListenOptions::default() };
        server.with(now_ns, |_, io| io.listen((SERVER, 80).into(), listen)).map_err(|error| error.to_string())?;
        let (to_server, to_client) = (Batch::new(&pool, 256), Batch::new(&pool, 256));
        let is_counted = settings.echoes != u64::MAX;
        Ok(Pair { client, server, to_server, to_client, pool, now_ns, rounds: 0, begun: 0, is_counted })
    }

    /// One round of each stack, as a worker would do it.
    fn round(&mut self) {
        // The stacks' clock is the CPU time of this thread: a core that is taken away does not count as silence of the peer.
        if self.is_counted {
            self.now_ns += ROUND_NS;
        } else if self.rounds.is_multiple_of(ROUNDS_PER_LOOK) {
            self.now_ns = clock::thread_cpu_ns();
        }
        self.rounds += 1;
        let Pair { client, server, to_server, to_client, pool, now_ns, .. } = self;
        let now_ns = *now_ns;
        let mut context = Context { now_ns, pool, ports: &mut () };
        step(client, to_client, to_server, &mut context);
        step(server, to_server, to_client, &mut context);
    }

    fn connect(&mut self, count: usize, offset: usize) {
        self.begun += count as u64;
        let remote: SocketAddr = (SERVER, 80).into();
        self.client.with(self.now_ns, |_, io| {
            for at in 0..count {
                let address = u32::from(Ipv4Addr::new(198, 19, 0, 1)) + ((offset + at) / PER_ADDRESS) as u32;
                let local = Some(IpAddr::from(Ipv4Addr::from_bits(address)));
                let options = ConnectOptions { local, nodelay: true, ..ConnectOptions::new(remote) };
                io.connect(options).expect("there is room for every connection");
            }
        });
    }

    fn counters(&mut self) -> (Counters, Counters) {
        (self.client.with(self.now_ns, |_, io| io.counters()), self.server.with(self.now_ns, |_, io| io.counters()))
    }
}

fn step(stack: &mut impl Datapath, input: &mut Batch, output: &mut Batch, context: &mut Context<'_>) {
    if !input.is_empty() {
        stack.input(PORT, input, context);
    }
    if stack.next_deadline_ns() <= context.now_ns {
        stack.tick(context);
    }
    if let Some(from) = stack.output(PORT) {
        let moved = from.move_to(output, from.len());
        stack.tx_done(PORT, moved, context.now_ns);
    }
}

fn main() -> ExitCode {
    match Settings::read().and_then(|settings| run(&settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tcp-echo: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs each pair of shards on its thread.
fn run(settings: &Settings) -> Result<(), String> {
    std::thread::scope(|scope| {
        let pair = |_| scope.spawn(|| run_pair(settings));
        let threads: Vec<_> = (0..settings.cores).map(pair).collect();
        // A thread that panicked has said why, and one that nobody reads any more says nothing.
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|end| resume_unwind(end)))
    })
}

fn run_pair(settings: &Settings) -> Result<(), String> {
    let before = resident_bytes();
    let making = clock::thread_cpu_ns();
    let mut pair = Pair::new(settings)?;
    let made = resident_bytes();
    if settings.preallocate > 0 {
        let seconds = (clock::thread_cpu_ns() - making) as f64 / 1e9;
        say!("memory of {} connections in advance: {seconds:.2} s of CPU time", settings.preallocate);
    }
    let start = clock::thread_cpu_ns();
    let mut begun = 0;
    while pair.client.app().connected < settings.connections {
        // The first one waits for the neighbour's link address; others would be lost meanwhile.
        let window = if pair.client.app().connected == 0 { 1usize } else { 1024 };
        let room = window.saturating_sub(begun - pair.client.app().connected).min(settings.connections - begun);
        pair.connect(room, begun);
        begun += room;
        pair.round();
    }
    let opening_ns = clock::thread_cpu_ns() - start;
    if settings.opens || settings.cycles {
        // The server asks for the link address of each address of the client once, and loses other answers meanwhile.
        let first = settings.connections / PER_ADDRESS + 1;
        for address in 0..OPEN_ADDRESSES {
            pair.connect(1, (first + address) * PER_ADDRESS);
            while pair.client.app().connected <= settings.connections + address {
                pair.round();
            }
        }
    }
    let standing = resident_bytes();
    say!(
        "{} connections stand after {:.2} s of CPU time: {:.2} M/s",
        settings.connections,
        opening_ns as f64 / 1e9,
        settings.connections as f64 * 1e3 / opening_ns as f64
    );
    if settings.cycles {
        return cycles(&mut pair, settings);
    }
    let order = if settings.robin { EchoOrder::RoundRobin } else { EchoOrder::Reply };
    pair.client.app_mut().phase = if settings.opens { EchoPhase::Opening } else { EchoPhase::Echoing(order) };
    let window = settings.window;
    if !settings.opens {
        pair.client.with(pair.now_ns, |app, io| (0..window).for_each(|_| app.send_next(io)));
    }
    if !pair.is_counted {
        measure(&mut pair, settings, 0.2 * settings.seconds);
    }
    let run = measure(&mut pair, settings, settings.seconds);
    run.print(settings);
    let used = resident_bytes();
    say!(
        "resident: {:.0} MB; {:.0} bytes a connection when they stood, {:.0} now (both ends; {:.0} MB before any)",
        used as f64 / 1e6,
        (standing.saturating_sub(made)) as f64 / settings.connections as f64,
        (used.saturating_sub(made)) as f64 / settings.connections as f64,
        (made - before) as f64 / 1e6,
    );
    let strays = [pair.client.shard_counters(), pair.server.shard_counters()].map(|one| one.handed_over + one.lost);
    // The answer to the question for the link address is for all.
    let most = u64::from(settings.cores) * (settings.connections / PER_ADDRESS + 2 + OPEN_ADDRESSES) as u64;
    if strays.iter().any(|strays| *strays > most) {
        return Err(format!("packets for others: {strays:?}"));
    }
    let ended = pair.client.app().lost;
    if ended > 0 { Err(format!("{ended} connections were lost")) } else { Ok(()) }
}

/// Sets up and closes connections without data, each apart, and prints what each cost.
fn cycles(pair: &mut Pair, settings: &Settings) -> Result<(), String> {
    let end = clock::thread_cpu_ns() + (settings.seconds * 1e9) as u64;
    let (mut setting_ns, mut closing_ns, mut cycles, mut echoes_left) = (0, 0, 0u64, settings.echoes);
    while clock::thread_cpu_ns() < end && echoes_left > 0 {
        let start = clock::thread_cpu_ns();
        let standing = pair.client.app().conns.len();
        let mut begun = 0;
        while pair.client.app().conns.len() < standing + CYCLE {
            let waiting = standing + begun - pair.client.app().conns.len();
            let room = (settings.window - waiting).min(CYCLE - begun);
            // A group has an address of its own, the next one another.
            let address = settings.connections / PER_ADDRESS + 1 + begun / settings.window % OPEN_ADDRESSES;
            pair.connect(room, address * PER_ADDRESS);
            begun += room;
            pair.round();
        }
        let set_up = clock::thread_cpu_ns();
        let before = pair.client.app().closed;
        let closed = |pair: &Pair| (pair.client.app().closed - before) as usize;
        let mut begun = 0;
        while closed(pair) < CYCLE {
            let room = (settings.window - (begun - closed(pair))).min(CYCLE - begun);
            pair.client.with(pair.now_ns, |app, io| {
                for conn in app.conns.drain(app.conns.len() - room..) {
                    io.close(conn);
                }
            });
            begun += room;
            pair.round();
        }
        let closed = clock::thread_cpu_ns();
        (setting_ns, closing_ns, cycles) = (setting_ns + set_up - start, closing_ns + closed - set_up, cycles + 1);
        echoes_left = echoes_left.saturating_sub(CYCLE as u64);
    }
    let rate = |ns: u64| (cycles * CYCLE as u64) as f64 * 1e3 / ns.max(1) as f64;
    say!("set up {:.3} M/s, closed {:.3} M/s of CPU time", rate(setting_ns), rate(closing_ns));
    if settings.counters {
        let (client, server) = pair.counters();
        for (name, counters) in [("client", client), ("server", server)] {
            let each = counters.each().filter(|(_, count)| *count > 0);
            let each = each.map(|(name, count)| format!("{name} {:.4}", count as f64 / (cycles * CYCLE as u64) as f64));
            say!("{name}: {}", each.collect::<Vec<_>>().join(", "));
        }
    }
    let ended = pair.client.app().lost;
    if ended > 0 { Err(format!("{ended} connections were lost")) } else { Ok(()) }
}

struct Run {
    count: u64,
    cpu_ns: u64,
    wall_ns: u64,
    rounds: u64,
    instructions: Option<u64>,
    counters: [(Counters, Counters); 2],
}

fn measure(pair: &mut Pair, settings: &Settings, seconds: f64) -> Run {
    let before = pair.counters();
    let count = |pair: &Pair| if settings.opens { pair.client.app().closed } else { pair.client.app().echoes };
    let first = count(pair);
    let instructions = Counter::open(Event::Instructions, Scope::ThisThread).ok();
    let (cpu, wall, rounds) = (clock::thread_cpu_ns(), clock::now_ns(), pair.rounds);
    let mut next = first + STEP;
    let mut last = (first, pair.rounds);
    let (mut offset, mut address) = (settings.connections / PER_ADDRESS * PER_ADDRESS, 0);
    loop {
        if settings.opens {
            let client = pair.client.app();
            let standing = (settings.connections + OPEN_ADDRESSES) as u64;
            let waiting = pair.begun - standing - client.closed - client.lost;
            let room = settings.window.saturating_sub(waiting as usize);
            pair.connect(room.min(64), offset);
            // Other addresses than those of the connections that stand, one after the other.
            let first = settings.connections / PER_ADDRESS + 1;
            address = (address + 1) % OPEN_ADDRESSES;
            offset = (first + address) * PER_ADDRESS;
        }
        pair.round();
        let done = count(pair);
        if done != last.0 {
            last = (done, pair.rounds);
        }
        assert!(pair.rounds - last.1 < 1_000_000, "nothing came back for a million rounds: {:?}", pair.counters());
        if done >= next {
            next = done + STEP;
            let over = if settings.echoes == u64::MAX {
                clock::thread_cpu_ns() - cpu > (seconds * 1e9) as u64
            } else {
                done - first >= settings.echoes
            };
            if over {
                break;
            }
        }
    }
    Run {
        count: count(pair) - first,
        cpu_ns: clock::thread_cpu_ns() - cpu,
        wall_ns: clock::now_ns() - wall,
        rounds: pair.rounds - rounds,
        instructions: instructions.and_then(|counter| counter.read().ok()).map(|reading| reading.value),
        counters: [before, pair.counters()],
    }
}

impl Run {
    fn print(&self, settings: &Settings) {
        let each = |total: u64| total as f64 / self.count as f64;
        let what = if settings.opens { "connections opened and closed" } else { "echoes" };
        say!(
            "{:.3} M {what} a second of CPU time ({:.1} ns each; {:.2} M a second by the wall), {:.1} in a round",
            self.count as f64 * 1e3 / self.cpu_ns as f64,
            self.cpu_ns as f64 / self.count as f64,
            self.count as f64 * 1e3 / self.wall_ns as f64,
            each(self.count) * self.count as f64 / self.rounds as f64,
        );
        let [(client0, server0), (client1, server1)] = &self.counters;
        let sum = |get: fn(&Counters) -> u64| get(client1) + get(server1) - get(client0) - get(server0);
        say!(
            "each: {:.3} segments, {:.3} of them acknowledgments alone, {:.5} sent again, {:.3} on the fast path",
            each(sum(|counters| counters.out_segs)),
            each(sum(|counters| counters.pure_acks_out)),
            each(sum(|counters| counters.retrans_segs)),
            each(sum(|counters| counters.fast_path)),
        );
        if settings.counters {
            for (name, [before, after]) in [("client", [client0, client1]), ("server", [server0, server1])] {
                let changed = before.each().zip(after.each()).filter(|(before, after)| before.1 != after.1);
                let each = changed.map(|((name, before), (_, after))| format!("{name} {:.4}", each(after - before)));
                say!("{name}: {}", each.collect::<Vec<_>>().join(", "));
            }
        }
        if let Some(instructions) = self.instructions {
            say!("each: {:.0} instructions", each(instructions));
        }
    }
}
