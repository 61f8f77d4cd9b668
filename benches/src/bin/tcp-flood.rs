//! `tcp-flood [KEY=VALUE ...]`: a SYN flood against an echo server: what is left of the rate of connections that stand, and do new ones get in.
//!
//! ```text
//! connections=1024   connections that stand
//! pps=1000000        SYN segments of the flood a second
//! kind=random        their addresses and ports; or `ports`, one address and all ports in turn, or `same`, one tuple
//! load=0.5           what the clients ask for, as a part of what the server can do
//! opens=2000         connections that the clients open and close again, a second
//! seconds=2          time of each of the two runs, without and with the flood
//! ```
//! One thread plays all sides, but time is that of the server's core alone: packets come at their rates for each second of CPU time that the server
//! takes or is idle, into a ring of 4,096 packets; what finds it full is lost. So the rates are those of a server that has a core of its own. The
//! clients' link passes 14.88 M packets a second; a connection asks again when it has its answer, at the rate that is asked for.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use linerate_benches::say;
use linerate_ip::{AddressRange, IpConfig};
use linerate_mem::{Batch, Checksum, Pool, PoolConfig};
use linerate_port::{Context, Datapath, PortIndex};
use linerate_sys::clock;
use linerate_tcp::{App, CloseReason, Conn, ConnectOptions, Counters, Io, ListenOptions, Stack, StackConfig};
use linerate_wire::{MacAddress, Sum};

const PORT: PortIndex = PortIndex(0);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The client, and the gateway to the addresses of the flood.
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const MACS: [MacAddress; 2] = [MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2])];
/// Time between two arrivals of packets, in nanoseconds of the server's core.
const SLICE_NS: u64 = 50_000;
/// Packets that wait for the server at most.
const RING: usize = 4096;
/// Packets of the clients in a slice at most: 10 Gbit/s of the shortest.
const LINK: usize = 744;
/// Packets that the server takes at a time, as a worker does.
const BURST: usize = 64;

struct Settings {
    connections: usize,
    pps: f64,
    kind: String,
    load: f64,
    opens: f64,
    seconds: f64,
}

impl Settings {
    fn read() -> Result<Settings, String> {
        let mut settings =
            Settings { connections: 1024, pps: 1e6, kind: "random".into(), load: 0.5, opens: 2000.0, seconds: 2.0 };
        for argument in std::env::args().skip(1) {
            let wrong = || format!("not a setting: {argument}; the head of the source names them");
            let (key, value) = argument.split_once('=').ok_or_else(wrong)?;
            match (key, value, value.parse::<f64>()) {
                ("kind", "random" | "ports" | "same", _) => settings.kind = value.into(),
                ("connections", _, Ok(number)) => settings.connections = number as usize,
                ("pps", _, Ok(number)) => settings.pps = number,
                ("load", _, Ok(number)) => settings.load = number,
                ("opens", _, Ok(number)) => settings.opens = number,
                ("seconds", _, Ok(number)) => settings.seconds = number,
                _ => return Err(wrong()),
            }
        }
        Ok(settings)
    }
}

/// Sends back what it receives.
struct Echo;

impl App for Echo {
    fn connected(&mut self, _: Conn, _: &mut Io<'_>) {}

    fn received(&mut self, conn: Conn, data: &[u8], io: &mut Io<'_>) -> usize {
        io.send(conn, data)
    }

    fn peer_closed(&mut self, conn: Conn, io: &mut Io<'_>) {
        io.close(conn);
    }

    fn closed(&mut self, _: Conn, _: CloseReason, _: &mut Io<'_>) {}
}

/// Words of connections: one that comes and goes; one that stands, and has its answer, or waits for it.
const PASSING: u64 = 0;
const CALM: u64 = 1;
const WAITING: u64 = 2;

/// The clients: those that stand, and those that come and go.
#[derive(Default)]
struct Clients {
    standing: Vec<Conn>,
    next: usize,
    echoes: u64,
    opened: u64,
    failed: u64,
    /// Each echo makes its connection send again.
    closed_loop: bool,
}

impl Clients {
    /// Connections that have their answers ask again, in turn, `count` at most.
    fn ask(&mut self, count: usize, io: &mut Io<'_>) {
        let mut left = count;
        for _ in 0..self.standing.len() {
            if left == 0 {
                return;
            }
            self.next = (self.next + 1) % self.standing.len();
            let conn = self.standing[self.next];
            if io.token(conn) == CALM && io.send(conn, b"x") == 1 {
                io.set_token(conn, WAITING);
                left -= 1;
            }
        }
    }
}

impl App for Clients {
    fn connected(&mut self, conn: Conn, io: &mut Io<'_>) {
        if io.token(conn) == CALM {
            self.standing.push(conn);
        } else {
            self.opened += 1;
            io.close(conn);
        }
    }

    fn received(&mut self, conn: Conn, data: &[u8], io: &mut Io<'_>) -> usize {
        self.echoes += data.len() as u64;
        if self.closed_loop {
            io.send(conn, data);
        } else {
            io.set_token(conn, CALM);
        }
        data.len()
    }

    fn peer_closed(&mut self, _: Conn, _: &mut Io<'_>) {}

    fn closed(&mut self, _: Conn, why: CloseReason, _: &mut Io<'_>) {
        self.failed += u64::from(why != CloseReason::Normal);
    }
}

/// The SYN segments of the flood.
struct Flood {
    kind: String,
    state: u64,
    count: u64,
}

impl Flood {
    fn write(&mut self, frame: &mut [u8]) {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.count += 1;
        let (address, port) = match self.kind.as_str() {
            "random" => (0x0a00_0000 | (self.state as u32) >> 8, (self.state >> 48) as u16 | 1024),
            "ports" => (0x0a01_0203, 1024 + (self.count % 64_000) as u16),
            _ => (0x0a01_0203, 1024),
        };
        frame[..6].copy_from_slice(&MACS[0].0);
        frame[6..12].copy_from_slice(&MACS[1].0);
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..26].copy_from_slice(&[0x45, 0, 0, 44, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame[26..30].copy_from_slice(&u32::to_be_bytes(address));
        frame[30..34].copy_from_slice(&SERVER.octets());
        let checksum = Sum::new().add_slice(&frame[14..34]).finish();
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame[36..38].copy_from_slice(&80_u16.to_be_bytes());
        frame[38..42].copy_from_slice(&((self.state >> 16) as u32).to_be_bytes());
        frame[42..58].copy_from_slice(&[0, 0, 0, 0, 0x60, 2, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 5, 0xb4]);
        let pseudo = Sum::new().add_slice(&frame[26..34]).add_u16(6).add_u16(24);
        let checksum = pseudo.add_slice(&frame[34..58]).finish();
        frame[50..52].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Packets that are due by a rate.
struct Rate {
    per_ns: f64,
    owed: f64,
}

impl Rate {
    fn new(per_second: f64) -> Rate {
        Rate { per_ns: per_second / 1e9, owed: 0.0 }
    }

    fn due(&mut self, elapsed_ns: u64) -> usize {
        self.owed += self.per_ns * elapsed_ns as f64;
        let due = self.owed as usize;
        self.owed -= due as f64;
        due
    }
}

struct World {
    clients: Stack<Clients>,
    server: Stack<Echo>,
    ring: Batch,
    burst: Batch,
    back: Batch,
    pool: Pool,
    flood: Flood,
    /// Time of the server's core.
    now_ns: u64,
    busy_ns: u64,
    lost: u64,
}

impl World {
    fn new(settings: &Settings) -> Result<World, String> {
        let pool = Pool::new(PoolConfig { frames: 1 << 16, frame_size: 2048 }).map_err(|error| error.to_string())?;
        let config = |number: usize, address: Ipv4Addr| StackConfig {
            ip: IpConfig {
                mac: MACS[number],
                addresses: vec![AddressRange { first: address.into(), count: 1, prefix_len: 24 }],
                gateways: if number == 0 { vec![CLIENT.into()] } else { Vec::new() },
                duplicate_detection: false,
                ipv6: false,
                ..IpConfig::default()
            },
            secret: [number as u8 + 1; 16],
            output_packets: RING,
            ..StackConfig::default()
        };
        let text = |error: linerate_tcp::StackError| error.to_string();
        let mut server = Stack::new(config(0, SERVER), &pool, Echo).map_err(text)?;
        let clients = Stack::new(config(1, CLIENT), &pool, Clients::default()).map_err(text)?;
        let now_ns = 1_000_000_000;
        let listen = ListenOptions { nodelay: true, ..ListenOptions::default() };
        server.with(now_ns, |_, io| io.listen((SERVER, 80).into(), listen)).map_err(|error| error.to_string())?;
        let batch = |len| Batch::new(&pool, len);
        let (ring, burst, back) = (batch(RING), batch(BURST), batch(2 * RING));
        let flood = Flood { kind: settings.kind.clone(), state: 0x9e37_79b9_7f4a_7c15, count: 0 };
        Ok(World { clients, server, ring, burst, back, pool, flood, now_ns, busy_ns: 0, lost: 0 })
    }

    fn connect(&mut self, count: usize, token: u64) {
        let remote: SocketAddr = (SERVER, 80).into();
        self.clients.with(self.now_ns, |_, io| {
            for _ in 0..count {
                // Without a port that is free, the connection counts as one that did not get in.
                let _ = io.connect(ConnectOptions { nodelay: true, token, ..ConnectOptions::new(remote) });
            }
        });
    }

    /// Packets arrive, and the server works until it has none or the slice is over. Returns the time that passed.
    fn slice(&mut self, requests: usize, floods: usize) -> u64 {
        self.clients.with(self.now_ns, |app, io| app.ask(requests, io));
        self.floods(floods / 2);
        let World { clients, ring, back, pool, now_ns, lost, .. } = self;
        let mut context = Context { now_ns: *now_ns, pool, ports: &mut () };
        clients.input(PORT, back, &mut context);
        if clients.next_deadline_ns() <= *now_ns {
            clients.tick(&mut context);
        }
        if let Some(out) = clients.output(PORT) {
            let count = out.len().min(LINK);
            let moved = out.move_to(ring, count);
            *lost += (count - moved) as u64;
            context.pool.free_front(out, count - moved);
            clients.tx_done(PORT, count, *now_ns);
        }
        self.floods(floods - floods / 2);
        let spent_ns = self.serve();
        self.busy_ns += spent_ns;
        let passed_ns = spent_ns.max(SLICE_NS);
        self.now_ns += passed_ns;
        passed_ns
    }

    fn floods(&mut self, count: usize) {
        let first = self.ring.len();
        let made = self.pool.alloc(&mut self.ring, count.min(RING - first), 58);
        self.lost += (count - made) as u64;
        for index in first..first + made {
            self.flood.write(self.ring.packet_mut(index));
            self.ring.set_checksum(index, Checksum::Unknown);
        }
    }

    /// The server's core.
    fn serve(&mut self) -> u64 {
        let World { server, ring, burst, back, pool, now_ns, .. } = self;
        let start_ns = clock::thread_cpu_ns();
        loop {
            let spent_ns = clock::thread_cpu_ns() - start_ns;
            if ring.is_empty() || spent_ns >= SLICE_NS {
                return spent_ns;
            }
            let mut context = Context { now_ns: *now_ns + spent_ns, pool, ports: &mut () };
            ring.move_to(burst, BURST);
            server.input(PORT, burst, &mut context);
            if server.next_deadline_ns() <= context.now_ns {
                server.tick(&mut context);
            }
            if let Some(out) = server.output(PORT) {
                let count = out.len();
                out.move_to(back, count);
                context.pool.free(out);
                server.tx_done(PORT, count, context.now_ns);
            }
        }
    }

    fn counters(&mut self) -> Counters {
        self.server.with(self.now_ns, |_, io| io.counters())
    }

    /// Runs for `seconds` of the server's time. Requests, connections and SYN segments of the flood come at these rates a second.
    fn run(&mut self, seconds: f64, requests: f64, opens: f64, pps: f64) -> Result<Run, String> {
        let (counters, lost, busy_ns, begin_ns) = (self.counters(), self.lost, self.busy_ns, self.now_ns);
        let app = self.clients.app();
        let (echoes, opened, failed) = (app.echoes, app.opened, app.failed);
        let (mut requests, mut opens, mut flood) = (Rate::new(requests), Rate::new(opens), Rate::new(pps));
        let (mut passed_ns, mut begun) = (SLICE_NS, 0);
        while self.now_ns - begin_ns < (seconds * 1e9) as u64 {
            let due = opens.due(passed_ns);
            begun += due as u64;
            self.connect(due, PASSING);
            passed_ns = self.slice(requests.due(passed_ns), flood.due(passed_ns));
        }
        let (after, app) = (self.counters(), self.clients.app());
        let seconds = (self.now_ns - begin_ns) as f64 / 1e9;
        Ok(Run {
            echoes: (app.echoes - echoes) as f64 / seconds,
            busy: (self.busy_ns - busy_ns) as f64 / 1e9 / seconds,
            begun,
            opened: app.opened - opened,
            failed: app.failed - failed,
            cookies: (
                after.syncookies_sent - counters.syncookies_sent,
                after.syncookies_recv - counters.syncookies_recv,
            ),
            lost: self.lost - lost,
        })
    }
}

/// What a run showed.
struct Run {
    echoes: f64,
    busy: f64,
    begun: u64,
    opened: u64,
    failed: u64,
    cookies: (u64, u64),
    lost: u64,
}

impl Run {
    fn print(&self, name: &str) {
        let Run { echoes, busy, begun, opened, failed, cookies: (sent, came), lost } = self;
        say!(
            "{name}: {:.3} M echoes/s, server busy for {:.0} % of its core; {opened} of {begun} connections opened, {failed} failed; \
             {sent} cookies sent, {came} came back; {lost} packets found the ring full",
            echoes / 1e6,
            busy * 100.0,
        );
    }
}

fn main() -> ExitCode {
    match Settings::read().and_then(|settings| run(&settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tcp-flood: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(settings: &Settings) -> Result<(), String> {
    let mut world = World::new(settings)?;
    world.connect(settings.connections, CALM);
    for _ in 0..100_000 {
        if world.clients.app().standing.len() == settings.connections {
            break;
        }
        world.slice(0, 0);
    }
    let standing = world.clients.app().standing.len();
    if standing != settings.connections {
        return Err(format!("{standing} of {} connections were opened", settings.connections));
    }
    world.clients.app_mut().closed_loop = true;
    world.slice(settings.connections, 0);
    let all = world.run(0.5 * settings.seconds, 0.0, 0.0, 0.0)?;
    let capacity = all.echoes / all.busy;
    say!("capacity: {:.3} M echoes/s of the server's core", capacity / 1e6);
    world.clients.app_mut().closed_loop = false;
    world.run(0.1, 0.0, 0.0, 0.0)?;
    let requests = settings.load * capacity;
    let calm = world.run(settings.seconds, requests, settings.opens, 0.0)?;
    calm.print("without the flood");
    let flooded = world.run(settings.seconds, requests, settings.opens, settings.pps)?;
    flooded.print(&format!("{:.2} M SYN/s, {}", settings.pps / 1e6, settings.kind));
    say!(
        "established connections keep {:.3} of their rate; {:.3} of the new ones got in",
        flooded.echoes / calm.echoes,
        flooded.opened as f64 / flooded.begun as f64
    );
    Ok(())
}
