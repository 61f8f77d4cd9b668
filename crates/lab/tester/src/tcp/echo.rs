//! Echoes of single bytes over connections that stand: how many a second, and what setting up, standing and closing cost (experiment
//! `tcp-2018`).

use std::net::{Ipv4Addr, SocketAddr};

use linerate_experiment::{EchoOrder, EchoStack};
use linerate_port::Drops;
use linerate_report::{EchoPoint, EchoesFound, SessionAccount, SessionLoss};
use linerate_sys::{clock, random};
use linerate_tcp::{Counters, ListenOptions};

use super::pair::Shape;
use super::{Ends, Pair, PairError};
use linerate_testbed::cpu::CpuTimes;
use linerate_tester_loop::ports::drops_since;
use linerate_tester_loop::tcp::pair::Cost;

pub use linerate_tester_loop::tcp::echo::{EchoClient, EchoPhase, EchoServer, PER_ADDRESS};

/// Address and port of the server, and the first address of the client.
const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(198, 18, 128, 1), 7);
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);
/// Handshakes, and closing connections, at a time: so few that what they need stays in a core's own cache.
pub(super) const AT_A_TIME: usize = 256;
/// Bytes on the way at most: more than a stack takes in one round gain nothing.
pub(super) const WINDOW_MAX: usize = 1024;
/// Without progress for so long, a part of the test has failed.
pub(super) const STUCK_NS: u64 = 5_000_000_000;
/// Connections that were closed and whose other end is not, beside those that stand.
const SPARE: usize = 65_536;
/// No packet for so long, and both ends are at rest.
pub(super) const QUIET_NS: u64 = 20_000_000;
/// How often [`QUIET_NS`] is waited, at most, for packets that are on their way: a second. A switch between the ends may have to wait for a core.
pub(super) const SETTLES_MAX: u32 = 50;
/// Resident memory of fewer connections is lost in that of the packets, which is the same for any number of them.
const BYTES_TOLD_FROM: usize = 1_000_000;

/// A test to make.
#[derive(Clone, Copy, Debug)]
pub struct EchoSpec<'a> {
    /// Connections that stand.
    pub connections: usize,
    /// Which one sends next, one after the other.
    pub orders: &'a [EchoOrder],
    /// Time of each order.
    pub duration_ns: u64,
    /// Cores of client and server.
    pub cores: [Option<usize>; 2],
}

/// What it found.
#[derive(Debug)]
pub struct EchoOutcome {
    /// Connections and echoes. What these come to for each GHz is the caller's to set.
    pub found: EchoesFound,
    /// Segments that the client sent and received, the server's too. The kernel sends packets of its own on interfaces, which do not count.
    pub packets: [(u64, u64); 2],
    /// Packets that the ports lost.
    pub drops: Vec<Drops>,
    /// What the cores did.
    pub cpu: CpuTimes,
    /// What a reader has to know beside the figures.
    pub notes: Vec<String>,
}

type Echoes = Pair<EchoClient>;

/// Makes the test.
///
/// # Errors
/// Connections do not come to stand, or stop answering.
pub fn run(ends: &mut Ends, spec: &EchoSpec<'_>) -> Result<EchoOutcome, PairError> {
    let before = resident_bytes();
    let client_ip = ends.ip(true, (CLIENT, (spec.connections / PER_ADDRESS + 1) as u32), random::secret()?);
    let server_ip = ends.ip(false, (SERVER.0, 1), random::secret()?);
    let window = Some(spec.connections.clamp(1, WINDOW_MAX));
    let shape = Shape {
        connections_max: spec.connections + SPARE,
        preallocated_connections: spec.connections,
        output_packets: 2 * WINDOW_MAX,
        window,
    };
    let client = EchoClient::new(spec.connections);
    let mut pair = Pair::new(ends, (client_ip, client), (server_ip, EchoServer), shape, spec.cores)?;
    let result = measure(&mut pair, spec, before);
    pair.into_ends(ends);
    result
}

fn measure(pair: &mut Echoes, spec: &EchoSpec<'_>, resident_before: usize) -> Result<EchoOutcome, PairError> {
    let listen = ListenOptions { backlog: 65_536, nodelay: true, ..ListenOptions::default() };
    let listening = pair.server.datapath.with(clock::now_ns(), |_, io| io.listen(SERVER.into(), listen));
    listening.map_err(|error| PairError::Program(error.to_string()))?;
    let (cpu_before, drops_before) = (CpuTimes::read()?, pair.drops()?);
    let set_up = set_up(pair, spec.connections)?;
    let standing = resident_bytes().saturating_sub(resident_before);
    let mut points = Vec::new();
    for order in spec.orders {
        points.push(echo(pair, *order, spec)?);
    }
    let resident = resident_bytes();
    let torn_down = tear_down(pair, spec.connections)?;
    let drops = settle(pair, &drops_before)?;
    let packets = packets(pair);
    let each = |cost: Cost| spec.connections as f64 * 1e9 / cost.core_ns.max(1) as f64;
    let app = pair.client.datapath.app();
    let counts = (spec.connections as u64, app.connected as u64, app.closed);
    let connection_account = account(counts, app.lost, "ended before they were closed")?;
    let bytes_per_connection = standing as f64 / spec.connections as f64;
    let found = EchoesFound {
        stack: EchoStack::Linerate.name().to_owned(),
        connections: spec.connections as u64,
        preallocated_connections: spec.connections as u64,
        connection_account,
        set_up_per_core_second: each(set_up),
        torn_down_per_core_second: each(torn_down),
        bytes_per_connection: (spec.connections >= BYTES_TOLD_FROM).then_some(bytes_per_connection),
        resident_bytes: Some(resident as u64),
        points,
    };
    Ok(EchoOutcome { found, packets, drops, cpu: CpuTimes::read()?.since(&cpu_before), notes: Vec::new() })
}

/// Waits for the last segments, which are on their way when the last connection has ended, up to [`SETTLES_MAX`] times for those that neither
/// arrived nor were lost by a port. Returns what ports lost.
fn settle(pair: &mut Echoes, drops_before: &[Drops]) -> Result<Vec<Drops>, PairError> {
    let mut settled = 0;
    loop {
        pair.settle(QUIET_NS, STUCK_NS)?;
        settled += 1;
        let drops = drops_since(&pair.drops()?, drops_before);
        let [client, server] = packets(pair);
        let lost = drops.iter().map(|drops| drops.packets).sum::<u64>();
        if client.0 + server.0 <= client.1 + server.1 + lost || settled == SETTLES_MAX {
            return Ok(drops);
        }
    }
}

/// Segments that each end sent and received.
fn packets(pair: &mut Echoes) -> [(u64, u64); 2] {
    pair.counters().map(|counters| (counters.out_segs + counters.retrans_segs, counters.in_segs))
}

/// The account of connections or bytes: `(intended, begun, completed)`, of those that are neither up to `lost` were lost to a known cause.
pub(super) fn account(
    (intended, begun, completed): (u64, u64, u64),
    lost: u64,
    cause: &str,
) -> Result<SessionAccount, PairError> {
    let count = lost.min(begun.saturating_sub(completed));
    let lost = (count > 0).then(|| SessionLoss { cause: cause.to_owned(), count });
    SessionAccount::new((intended, begun, completed), lost.into_iter().collect())
        .map_err(|error| PairError::Program(error.to_string()))
}

/// Tells whether a count has grown lately.
pub(super) struct Progress {
    last: u64,
    since_ns: u64,
}

impl Progress {
    pub(super) fn new() -> Progress {
        Progress { last: 0, since_ns: clock::now_ns() }
    }

    pub(super) fn is_stuck(&mut self, count: u64, now_ns: u64) -> bool {
        if count != self.last {
            (self.last, self.since_ns) = (count, now_ns);
        }
        now_ns.saturating_sub(self.since_ns) >= STUCK_NS
    }
}

fn set_up(pair: &mut Echoes, wanted: usize) -> Result<Cost, PairError> {
    let remote: SocketAddr = SERVER.into();
    let (mut begun, mut progress) = (0, Progress::new());
    let cost = pair.drive(|client, now_ns| {
        let connected = client.datapath.app().connected;
        // The first one waits for the neighbour's link address; others would be lost meanwhile.
        let window = if connected == 0 { 1usize } else { AT_A_TIME };
        let room = window.saturating_sub(begun - connected).min(wanted - begun);
        let numbers = begun..begun + room;
        begun += client.datapath.with(now_ns, |_, io| EchoClient::connect(io, numbers, CLIENT, remote));
        connected == wanted || progress.is_stuck(connected as u64, now_ns)
    })?;
    let connected = pair.client.datapath.app().connected;
    if connected == wanted { Ok(cost) } else { Err(PairError::Short(connected, wanted)) }
}

fn echo(pair: &mut Echoes, order: EchoOrder, spec: &EchoSpec<'_>) -> Result<EchoPoint, PairError> {
    let window = spec.connections.clamp(1, WINDOW_MAX);
    let client = pair.client.datapath.app_mut();
    client.phase = EchoPhase::Echoing(order);
    let (sent, came, lost_before) = (client.sent, client.echoes, client.lost);
    pair.client.datapath.with(clock::now_ns(), |app, io| (0..window).for_each(|_| app.send_next(io)));
    run_for(pair, spec.duration_ns / 5)?;
    let (before, echoes, lost) = (pair.counters(), pair.client.datapath.app().echoes, pair.client.datapath.app().lost);
    let cost = run_for(pair, spec.duration_ns)?;
    let after = pair.counters();
    let app = pair.client.datapath.app_mut();
    let (echoes, lost) = (app.echoes - echoes, app.lost - lost);
    app.phase = EchoPhase::Standing;
    let mut progress = Progress::new();
    pair.drive(|client, now_ns| {
        let app = client.datapath.app();
        app.in_flight == 0 || progress.is_stuck(app.echoes, now_ns)
    })?;
    // What did not come back now never will.
    let app = pair.client.datapath.app_mut();
    app.in_flight = 0;
    // A connection has a byte on its way at most.
    let (sent, came, ended) = (app.sent - sent, app.echoes - came, app.lost - lost_before);
    let account = account((sent, sent, came), ended, "their connection ended")?;
    let sum = |get: fn(&Counters) -> u64| {
        after.iter().map(get).sum::<u64>().saturating_sub(before.iter().map(get).sum::<u64>())
    };
    let each = |total: u64| total as f64 / echoes as f64;
    Ok(EchoPoint {
        order: order.word().to_owned(),
        per_second: echoes as f64 * 1e9 / cost.wall_ns.max(1) as f64,
        per_core_second: echoes as f64 * 1e9 / cost.core_ns.max(1) as f64,
        per_ghz: None,
        echoes: account,
        cycles_per_echo: cost.cycles.map(|cycles| cycles / echoes as f64).filter(|cycles| cycles.is_finite()),
        segments_per_echo: each(sum(|counters| counters.out_segs)),
        acks_per_echo: each(sum(|counters| counters.pure_acks_out)),
        retransmitted: sum(|counters| counters.retrans_segs),
        connections_lost: lost,
    })
}

fn run_for(pair: &mut Echoes, duration_ns: u64) -> Result<Cost, PairError> {
    let start_ns = clock::now_ns();
    pair.drive(|_, now_ns| now_ns.saturating_sub(start_ns) >= duration_ns)
}

fn tear_down(pair: &mut Echoes, wanted: usize) -> Result<Cost, PairError> {
    let (mut begun, mut progress) = (0, Progress::new());
    let cost = pair.drive(|client, now_ns| {
        let app = client.datapath.app();
        let ended = (app.closed + app.lost) as usize;
        let room = AT_A_TIME.saturating_sub(begun - ended.min(begun)).min(wanted - begun);
        client.datapath.with(now_ns, |app, io| app.close(io, begun..begun + room));
        begun += room;
        ended >= wanted || progress.is_stuck(ended as u64, now_ns)
    })?;
    let app = pair.client.datapath.app();
    let ended = (app.closed + app.lost) as usize;
    if ended >= wanted { Ok(cost) } else { Err(PairError::Short(ended, wanted)) }
}

/// Resident memory of this process, with the huge pages of packet memory and tables, which Linux counts apart.
pub fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<usize>().ok().map(|kib| kib << 10)
    };
    bytes("VmRSS:").unwrap_or(0) + bytes("HugetlbPages:").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use linerate_impair::Impairments;
    use linerate_testbed::dut::Path;

    use super::*;

    /// What stands between the ends may keep a packet for longer than both are quiet: a switch whose core is away.
    #[test]
    fn packets_that_are_late_are_waited_for() {
        let mut ends = Ends::open(&Path::InProcess, "packet", 1500).unwrap();
        let late = Some("delay 60ms".parse().unwrap());
        let port = ends.ports[1].remove(0);
        let port = Impairments { rx: late.clone(), tx: late }.wrap(port, &ends.pool).unwrap();
        ends.ports[1].insert(0, port);
        let orders = [EchoOrder::Reply];
        let spec = EchoSpec { connections: 1, orders: &orders, duration_ns: 300_000_000, cores: [None; 2] };
        let outcome = run(&mut ends, &spec).unwrap();
        let [client, server] = outcome.packets;
        assert_eq!((client.0 + server.0, outcome.drops.len()), (client.1 + server.1, 0), "{outcome:?}");
        assert!(outcome.found.points[0].echoes.completed() > 0, "{outcome:?}");
    }
}
