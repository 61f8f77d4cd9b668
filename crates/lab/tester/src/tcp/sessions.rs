//! A trial of connections and requests: a load generator at the client's end, an echo server at the other, and the accounts of both, with
//! the ledger of their packets below.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use linerate_experiment::FlowSpec;
use linerate_port::Stats;
use linerate_programs::OverStack;
use linerate_programs::load::{
    Account as LoadAccount, Answer, Client, Gaps, Kind, Pacing, Piece, Plan, Rate, Scheme, Target,
};
use linerate_programs::serve::{Addresses, Echo};
use linerate_report::{Counted, Loss, SessionAccount, SessionLoss, SessionPoint};
use linerate_sys::{clock, random};
use linerate_tcp::{App, ConnectOptions, Counters, State};

use super::pair::{EndStats, Shape};
use super::{Ends, Pair, PairError};
use crate::{Cores, Delays, Phases};
use linerate_ledger::attribution::PortRows;
use linerate_ledger::counters::CounterSources;
use linerate_ledger::ledger::{self, Ledger};
use linerate_testbed::cpu::CpuTimes;
use linerate_testbed::switches::SwitchSource;
use linerate_tester_loop::tcp::pair::{End, start_client, start_server};

/// Port of the server.
const SERVICE: u16 = 7;
/// How long the first connection may take, which finds the way.
const PROBE_NS: u64 = 3_000_000_000;
/// No packet for so long, and a load is at its end.
const QUIET_NS: u64 = 20_000_000;
/// How often the path is read, at most, until its ends send nothing more.
const RESTS_MAX: usize = 8;
/// Connections that end, beside those that stand.
const SPARE: usize = 131_072;
/// Packets of a stack that wait for its port.
const OUTPUT_PACKETS: usize = 2048;
/// Servers are asked at so many addresses at most.
const TARGETS_MAX: u64 = 256;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SessionLoad {
    /// So many connections begun a second; each makes one request.
    ConnectionsPerSecond(f64),
    /// So many connections at a time; each makes one request and stays.
    Concurrent(u32),
    /// So many requests a second, over connections that stand.
    RequestsPerSecond(f64, u32),
    /// As many connections with one request each as so many at a time can do one after the other.
    ConnectionLoop(u32),
    /// As many requests as so many connections can do one after the other.
    RequestLoop(u32),
}

/// A trial to make.
#[derive(Clone, Copy, Debug)]
pub struct SessionSpec<'a> {
    /// What is asked for.
    pub load: SessionLoad,
    /// For how long.
    pub duration_ns: u64,
    /// Bytes of a request.
    pub bytes: u64,
    /// Longest time of a handshake, and of an answer.
    pub timeout_ns: u64,
    /// The addresses: connections come from all of its sources, to all of its destinations.
    pub flows: &'a FlowSpec,
    /// Where the stacks run: `generator`, `receiver`.
    pub cores: Cores,
    /// When the path counts as at rest.
    pub phases: Phases,
}

/// What became of it.
#[derive(Debug)]
pub struct SessionOutcome {
    /// What became of connections, requests and packets. Its load is the caller's to set.
    pub point: SessionPoint,
    /// Where the packets went.
    pub ledger: Ledger,
    /// What the cores did.
    pub cpu: CpuTimes,
    /// For a reader.
    pub notes: Vec<String>,
}

/// Makes a trial. `before_load` is called when the way is known and before anything is counted.
///
/// # Errors
/// The device carries nothing, or an account cannot be closed.
pub fn run(
    ends: &mut Ends,
    sources: Option<&mut CounterSources>,
    switch: Option<&SwitchSource>,
    spec: &SessionSpec<'_>,
    before_load: &mut dyn FnMut() -> Result<(), PairError>,
) -> Result<SessionOutcome, PairError> {
    let mut pair = pair(ends, spec)?;
    let result = trial(&mut pair, (sources, switch), spec, before_load);
    pair.into_ends(ends);
    result
}

type Sessions = Pair<OverStack<Client>>;

fn pair(ends: &mut Ends, spec: &SessionSpec<'_>) -> Result<Sessions, PairError> {
    let flows = spec.flows;
    let plan = Arc::new(plan(spec));
    let standing = match spec.load {
        SessionLoad::ConnectionsPerSecond(rate) => (rate * spec.timeout_ns as f64 / 1e9) as usize,
        SessionLoad::Concurrent(count)
        | SessionLoad::RequestsPerSecond(_, count)
        | SessionLoad::ConnectionLoop(count)
        | SessionLoad::RequestLoop(count) => count as usize,
    };
    let shape = Shape {
        connections_max: standing + SPARE,
        preallocated_connections: 0,
        output_packets: OUTPUT_PACKETS,
        window: None,
    };
    let range = |first, count: u64| (first, u32::try_from(count).unwrap_or(u32::MAX));
    let client_ip = ends.ip(true, range(flows.source, flows.sources), random::secret()?);
    let server_ip = ends.ip(false, range(flows.destination, flows.destinations), random::secret()?);
    let tcp = vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), SERVICE)];
    let server = Echo::new(Addresses { tcp, udp: Vec::new() });
    let cores = [spec.cores.generator, spec.cores.receiver];
    Pair::new(ends, (client_ip, OverStack::new(Client::new(plan))), (server_ip, OverStack::new(server)), shape, cores)
}

/// The nth address of a range of the experiment, which checked that there are so many.
fn nth(first: Ipv4Addr, at: u64) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(first.to_bits().saturating_add(at as u32)))
}

fn constant(rate: f64) -> Rate {
    Rate(vec![Piece { from: rate, to: rate, duration_ns: None }])
}

fn plan(spec: &SessionSpec<'_>) -> Plan {
    let (pacing, connections, requests_per_connection, think_ns) = match spec.load {
        SessionLoad::ConnectionsPerSecond(rate) => (Pacing::Connections(constant(rate)), u32::MAX >> 8, 1, 0),
        SessionLoad::Concurrent(count) => (Pacing::Closed, count, u64::MAX, spec.duration_ns.saturating_mul(2)),
        SessionLoad::RequestsPerSecond(rate, count) => (Pacing::Requests(constant(rate)), count, u64::MAX, 0),
        SessionLoad::ConnectionLoop(count) => (Pacing::Closed, count, 1, 0),
        SessionLoad::RequestLoop(count) => (Pacing::Closed, count, u64::MAX, 0),
    };
    let targets = spec.flows.destinations.min(TARGETS_MAX).min(u64::from(connections)).max(1);
    let target = |at| {
        let address = SocketAddr::new(nth(spec.flows.destination, at), SERVICE);
        let (name, share) = (address.ip().to_string(), 1.0 / targets as f64);
        Target { scheme: Scheme::Tcp, address, name, kinds: vec![(0, 1.0)], share }
    };
    let bytes = (0..spec.bytes).map(|at| (at % 251) as u8).collect();
    Plan {
        targets: (0..targets).map(target).collect(),
        kinds: vec![Kind { name: "echo".into(), bytes, answer: Answer::Echo, is_numbered: false }],
        pacing,
        gaps: Gaps::Constant,
        connections,
        ramp_up_ns: 0,
        pipeline: 1,
        requests_per_connection,
        think_ns,
        timeout_ns: spec.timeout_ns,
        connect_timeout_ns: spec.timeout_ns,
        warmup_ns: 0,
        duration_ns: spec.duration_ns,
        requests_max: u64::MAX,
        drain_ns: spec.timeout_ns,
        close_wait_ns: spec.timeout_ns,
        sources: (0..spec.flows.sources).map(|at| nth(spec.flows.source, at)).collect(),
        seed: 1,
    }
}

fn trial(
    pair: &mut Sessions,
    (mut sources, switch): (Option<&mut CounterSources>, Option<&SwitchSource>),
    spec: &SessionSpec<'_>,
    before_load: &mut dyn FnMut() -> Result<(), PairError>,
) -> Result<SessionOutcome, PairError> {
    let started = start_server(&mut pair.server, clock::now_ns());
    started.map_err(PairError::Program)?;
    find_the_way(pair, spec)?;
    before_load()?;
    let phases = &spec.phases;
    let quiet = std::time::Duration::from_nanos(phases.drain_ns);
    let at_most = std::time::Duration::from_nanos(phases.drain_max_ns);
    let before = sources.as_deref_mut().map(|sources| sources.snapshot_at_rest(quiet, at_most)).transpose()?;
    let switch_before = switch.map(|switch| switch.read_at_rest(quiet, at_most)).transpose()?;
    let (counters_before, stats_before) = (pair.counters(), pair.stats()?);
    let cpu_before = CpuTimes::read()?;
    let start_ns = clock::now_ns();
    let begun = start_client(&mut pair.client, start_ns);
    begun.map_err(PairError::Program)?;
    // The load generator ends by itself; what does not end then is a fault, and shows as unexplained.
    let give_up_ns = start_ns.saturating_add(spec.duration_ns).saturating_add(4 * spec.timeout_ns + 10_000_000_000);
    pair.drive(|client, now_ns| client.datapath.app().is_done() || now_ns >= give_up_ns)?;
    let cpu = CpuTimes::read()?.since(&cpu_before);
    let (mut point, mut notes) = found(pair);
    let (read, is_over) = read_at_rest(
        || {
            // Each time, because what was on its way meanwhile may have begun connections.
            end_all(&mut pair.client);
            end_all(&mut pair.server);
            pair.settle(QUIET_NS, phases.drain_max_ns)?;
            Ok(pair.stats()?.sent())
        },
        || {
            let path = sources.as_deref_mut().map(|sources| sources.snapshot_at_rest(quiet, at_most)).transpose()?;
            let switch = switch.map(|switch| switch.read_at_rest(quiet, at_most)).transpose()?;
            Ok((path, switch))
        },
    )?;
    let (after, switch_after) = read;
    let (counters, stats) = (pair.counters(), pair.stats()?);
    let difference = after.as_ref().zip(before.as_ref()).map(|(after, before)| after.0.since(&before.0));
    let moved = switch_after.zip(switch_before).map(|(after, before)| after.0.since(&before.0));
    let ends = ends_of(&stats_before, &stats);
    let [(forward, forward_rows), (backward, backward_rows)] = &ends;
    let (forward, backward) = ((forward, forward_rows), (backward, backward_rows));
    let ledger = match &moved {
        Some(moved) => ledger::close_over_memory(forward, Some(backward), moved)?,
        None => ledger::close_ways(forward, Some(backward), difference.as_ref())?,
    };
    if !is_over || [before, after].iter().flatten().any(|(_, is_quiet)| !is_quiet) {
        notes.push("the path did not come to rest: packets were still under way, or others than the trial's moved its counters".into());
    }
    let sent_again = |counters: &[Counters; 2]| counters.iter().map(|counters| counters.retrans_segs).sum::<u64>();
    point.retransmitted = sent_again(&counters) - sent_again(&counters_before);
    point.packets_lost = ledger.account.lost().iter().filter(|loss| loss.packets > 0).cloned().collect();
    point.packets_unexplained = ledger.account.unexplained();
    Ok(SessionOutcome { point, ledger, cpu, notes })
}

/// What the load generator counted, without what is of packets, and what it has to say.
fn found(pair: &mut Sessions) -> (SessionPoint, Vec<String>) {
    let client = &pair.client.datapath.app().program;
    let (connections, requests) = client.accounts();
    let meters = client.meters();
    let notes = meters.refusals.iter().map(|(why, count)| format!("{count} connections not begun: {why}")).collect();
    let point = SessionPoint {
        load: 0.0,
        connections: account(&connections),
        requests: account(&requests),
        answered_per_second: meters.answered as f64 * 1e9 / client.measured_ns(clock::now_ns()).max(1) as f64,
        handshake: Delays::of_thread(&meters.handshakes).latency(),
        answer: Delays::of_thread(&meters.latency).latency(),
        retransmitted: 0,
        packets_lost: Vec::new(),
        packets_unexplained: 0,
    };
    (point, notes)
}

/// Reads the counters of a path whose ends `settle`, each time by saying how many packets they have sent so far. What the kernel had let go of
/// is in the ports by then; it is taken out after the path is read, and packets that waited for a port's ring leave then, or answers do. The
/// path is then read again, up to [`RESTS_MAX`] times. False with it if the ends went on sending.
fn read_at_rest<T>(
    mut settle: impl FnMut() -> Result<u64, PairError>,
    mut read: impl FnMut() -> Result<T, PairError>,
) -> Result<(T, bool), PairError> {
    let mut sent = settle()?;
    let mut reads = 0;
    loop {
        let counters = read()?;
        let sent_before = std::mem::replace(&mut sent, settle()?);
        reads += 1;
        if sent == sent_before || reads == RESTS_MAX {
            return Ok((counters, sent == sent_before));
        }
    }
}

/// One connection, which both stacks learn their neighbours by: else the first packets of a load would wait for answers to ARP.
fn find_the_way(pair: &mut Sessions, spec: &SessionSpec<'_>) -> Result<(), PairError> {
    let remote = SocketAddr::new(nth(spec.flows.destination, 0), SERVICE);
    let start_ns = clock::now_ns();
    let options = ConnectOptions { local: Some(nth(spec.flows.source, 0)), ..ConnectOptions::new(remote) };
    let conn = pair.client.datapath.with(start_ns, |_, io| io.connect(options));
    let conn = conn.map_err(|error| PairError::Program(error.to_string()))?;
    let mut stands = false;
    pair.drive(|client, now_ns| {
        let info = client.datapath.with(now_ns, |_, io| io.info(conn));
        stands = info.is_some_and(|info| info.state == State::Established);
        stands || now_ns.saturating_sub(start_ns) >= PROBE_NS
    })?;
    if !stands {
        return Err(PairError::Unreachable);
    }
    pair.client.datapath.with(clock::now_ns(), |_, io| io.abort(conn));
    pair.settle(QUIET_NS, PROBE_NS)
}

/// Ends the connections of an end that are left: those that the other one does not know of, because its last packets were lost, would be sent
/// again for minutes, and the path would not come to rest.
fn end_all<A: App>(end: &mut End<A>) {
    end.datapath.with(clock::now_ns(), |_, io| {
        for index in 0..io.connection_indexes() {
            if let Some(conn) = io.connection_at(index) {
                io.abort(conn);
            }
        }
    });
}

/// Each direction by the counts of the ports at its ends.
fn ends_of(before: &EndStats, after: &EndStats) -> [(ledger::Ends, PortRows); 2] {
    let [client, server] = [0, 1].map(|end| (&before.0[end], &after.0[end]));
    let way = |(from_before, from): (&Stats, &Stats), (to_before, to): (&Stats, &Stats)| {
        let sent = from.tx_packets - from_before.tx_packets;
        let received = to.rx_packets - to_before.rx_packets;
        let counted = Counted { intended: sent, sent, delivered: received, ..Counted::default() };
        let rows = |drops: &[linerate_port::Drops], before: &[linerate_port::Drops]| -> Vec<Loss> {
            let since = linerate_tester_loop::ports::drops_since(drops, before);
            since.into_iter().map(|drops| Loss::new(drops.place, drops.cause, drops.packets)).collect()
        };
        let rows = PortRows {
            generator: rows(&from.tx_drops, &from_before.tx_drops),
            receiver: rows(&to.rx_drops, &to_before.rx_drops),
            ..PortRows::default()
        };
        (ledger::Ends { counted, received }, rows)
    };
    [way(client, server), way(server, client)]
}

fn account(account: &LoadAccount) -> SessionAccount {
    let lost = account.lost.iter().map(|loss| SessionLoss { cause: loss.cause.name().into(), count: loss.count });
    let counts = (account.intended.max(account.begun), account.begun, account.completed);
    // The larger of the two is not less than the second.
    SessionAccount::new(counts, lost.collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path is read, so many packets having been sent then, after ends that send on as `sent` says.
    fn read(sent: &[u64]) -> (u64, bool, usize) {
        let (last, mut at, mut reads) = (std::cell::Cell::new(0), sent.iter(), 0);
        let settle = || {
            last.set(at.next().copied().unwrap_or(last.get()));
            Ok(last.get())
        };
        let (read, is_over) = read_at_rest(settle, || {
            reads += 1;
            Ok(last.get())
        })
        .expect("nothing fails");
        (read, is_over, reads)
    }

    #[test]
    fn a_path_is_read_again_when_its_ends_have_sent_since() {
        assert_eq!(read(&[7_277, 7_277]), (7_277, true, 1));
        assert_eq!(read(&[7_277, 7_486]), (7_486, true, 2));
        let ever: Vec<u64> = (0..100).collect();
        assert_eq!(read(&ever), (RESTS_MAX as u64 - 1, false, RESTS_MAX));
    }
}
