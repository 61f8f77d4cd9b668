//! Datagrams that two stacks send back to each other: how many cycles a second, where a cycle is a receive and a send of one end (experiment
//! `tcp-2018`, column "UDP loop").

use std::net::Ipv4Addr;

use linerate_port::Drops;
use linerate_report::UdpFound;
use linerate_sys::{clock, random};
use linerate_tcp::Io;

use super::echo::{Progress, QUIET_NS, SETTLES_MAX, account};
use super::pair::Shape;
use super::{Ends, Pair, PairError};
use linerate_testbed::cpu::CpuTimes;
use linerate_tester_loop::ports::drops_since;
use linerate_tester_loop::tcp::pair::Cost;
use linerate_tester_loop::tcp::udp_loop::Returns;

/// Datagrams on their way: two batches of a stack, so that both ends have one to work on.
pub const WINDOW: u64 = 128;
const ENDS: [(Ipv4Addr, u16); 2] = [(Ipv4Addr::new(198, 19, 0, 1), 7), (Ipv4Addr::new(198, 18, 128, 1), 7)];
const SHAPE: Shape =
    Shape { connections_max: 64, preallocated_connections: 0, output_packets: 4 * WINDOW as usize, window: None };

/// What it found.
#[derive(Debug)]
pub struct UdpOutcome {
    /// Cycles and datagrams. What they come to for each GHz is the caller's to set.
    pub found: UdpFound,
    /// Datagrams that the first end sent and received, the second's too.
    pub packets: [(u64, u64); 2],
    /// Packets that the ports lost.
    pub drops: Vec<Drops>,
    /// What the cores did.
    pub cpu: CpuTimes,
}

type Loop = Pair<Returns>;

/// Makes the test.
///
/// # Errors
/// No datagram crosses the path, or the stacks cannot be made.
pub fn run(ends: &mut Ends, duration_ns: u64, cores: [Option<usize>; 2]) -> Result<UdpOutcome, PairError> {
    let first = ends.ip(true, (ENDS[0].0, 1), random::secret()?);
    let second = ends.ip(false, (ENDS[1].0, 1), random::secret()?);
    let mut pair = Pair::new(ends, (first, Returns::default()), (second, Returns::default()), SHAPE, cores)?;
    let result = measure(&mut pair, duration_ns);
    pair.into_ends(ends);
    result
}

fn measure(pair: &mut Loop, duration_ns: u64) -> Result<UdpOutcome, PairError> {
    let (cpu_before, drops_before) = (CpuTimes::read()?, pair.drops()?);
    let now_ns = clock::now_ns();
    let open = |end: usize, io: &mut Io<'_>| {
        let socket = io.udp_open(Some(ENDS[end].into()), Some(ENDS[1 - end].into()));
        socket.map_err(|error| PairError::Program(error.to_string()))
    };
    let first = pair.client.datapath.with(now_ns, |_, io| open(0, io))?;
    let second = pair.server.datapath.with(now_ns, |_, io| open(1, io))?;
    pair.client.datapath.app_mut().socket = Some(first);
    pair.server.datapath.app_mut().socket = Some(second);
    // The first datagram finds the way there and back.
    pair.client.datapath.with(now_ns, |app, io| app.send(io));
    let mut progress = Progress::new();
    pair.drive(|end, now_ns| end.datapath.app().received > 0 || progress.is_stuck(0, now_ns))?;
    if pair.client.datapath.app().received == 0 {
        return Err(PairError::Unreachable);
    }
    pair.client.datapath.with(clock::now_ns(), |app, io| (1..WINDOW).for_each(|_| _ = app.send(io)));
    run_for(pair, duration_ns / 5)?;
    let before = cycles(pair);
    let cost = run_for(pair, duration_ns)?;
    let done = (cycles(pair) - before) as f64;
    pair.client.datapath.app_mut().goes_on = false;
    pair.server.datapath.app_mut().goes_on = false;
    settle(pair)?;
    let (client, server) = (pair.client.datapath.app(), pair.server.datapath.app());
    let packets = [(client.sent, client.received), (server.sent, server.received)];
    let (sent, received) = (client.sent + server.sent, client.received + server.received);
    let drops = drops_since(&pair.drops()?, &drops_before);
    let lost = drops.iter().map(|drops| drops.packets).sum();
    let found = UdpFound {
        per_second: done * 1e9 / cost.wall_ns.max(1) as f64,
        per_core_second: done * 1e9 / cost.core_ns.max(1) as f64,
        per_ghz: None,
        window: WINDOW,
        datagrams: account((sent, sent, received), lost, "by a port")?,
    };
    Ok(UdpOutcome { found, packets, drops, cpu: CpuTimes::read()?.since(&cpu_before) })
}

/// Waits for the datagrams that are on their way, up to [`SETTLES_MAX`] times before they are given up as lost.
fn settle(pair: &mut Loop) -> Result<(), PairError> {
    for _ in 0..SETTLES_MAX {
        pair.settle_for(QUIET_NS)?;
        let sent = pair.client.datapath.app().sent + pair.server.datapath.app().sent;
        if cycles(pair) == sent {
            break;
        }
    }
    Ok(())
}

fn cycles(pair: &Loop) -> u64 {
    pair.client.datapath.app().received + pair.server.datapath.app().received
}

fn run_for(pair: &mut Loop, duration_ns: u64) -> Result<Cost, PairError> {
    let start_ns = clock::now_ns();
    pair.drive(|_, now_ns| now_ns.saturating_sub(start_ns) >= duration_ns)
}
