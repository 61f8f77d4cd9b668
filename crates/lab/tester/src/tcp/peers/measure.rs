//! The echo test over two ends of any stack.

use linerate_experiment::{EchoOrder, EchoStack};
use linerate_report::{EchoPoint, EchoesFound};
use linerate_sys::clock;

use crate::tcp::PairError;
use crate::tcp::echo::{AT_A_TIME, EchoOutcome, EchoSpec, Progress, QUIET_NS, WINDOW_MAX, account};
use linerate_testbed::cpu::CpuTimes;
use linerate_tester_loop::tcp::pair::Cost;
use linerate_tester_loop::tcp::peers::{Client, End, Segments, drive_peers};

pub(super) fn measure(
    client: &mut dyn Client,
    server: &mut dyn End,
    (stack, spec): (EchoStack, &EchoSpec<'_>),
) -> Result<EchoOutcome, PairError> {
    let cpu_before = CpuTimes::read()?;
    let wanted = spec.connections;
    let set_up = step(client, server, spec, |client| {
        let connected = client.counts().0;
        (connected, wanted, (|client, count| client.open(count)) as fn(&mut dyn Client, usize))
    })?;
    let mut points = Vec::new();
    for order in spec.orders {
        points.push(echo(client, server, *order, spec)?);
    }
    let torn_down = step(client, server, spec, |client| {
        let closed = client.counts().1;
        (closed, wanted, (|client, count| client.close(count)) as fn(&mut dyn Client, usize))
    })?;
    rounds_for(client, server, spec, QUIET_NS)?;
    let (sent, received) = (client.segments()?, server.segments()?);
    let (connected, closed) = client.counts();
    let each = |cost: Cost| wanted as f64 * 1e9 / cost.core_ns.max(1) as f64;
    let counts = (wanted as u64, connected as u64, closed as u64);
    let found = EchoesFound {
        stack: stack.name().to_owned(),
        connections: wanted as u64,
        preallocated_connections: 0,
        connection_account: account(counts, 0, "")?,
        set_up_per_core_second: each(set_up),
        torn_down_per_core_second: each(torn_down),
        bytes_per_connection: None,
        resident_bytes: None,
        points,
    };
    Ok(EchoOutcome {
        found,
        packets: [(sent.sent, sent.received), (received.sent, received.received)],
        drops: Vec::new(),
        cpu: CpuTimes::read()?.since(&cpu_before),
        notes: Vec::new(),
    })
}

fn check(client: &mut dyn Client, server: &mut dyn End) -> Result<(), PairError> {
    client.failed().or_else(|| server.failed()).map_or(Ok(()), Err)
}

/// Drives both ends until as many connections as wanted came to a state, so many on their way to it at a time.
fn step(
    client: &mut dyn Client,
    server: &mut dyn End,
    spec: &EchoSpec<'_>,
    state: impl Fn(&mut dyn Client) -> (usize, usize, fn(&mut dyn Client, usize)) + Sync,
) -> Result<Cost, PairError> {
    let (mut begun, mut progress) = (0, Progress::new());
    let cost = drive_peers(client, server, spec.cores, &mut |client, now_ns| {
        let (done, wanted, begin) = state(client);
        // The first one waits for the neighbour's link address; others would be lost meanwhile.
        let most = if done == 0 { 1 } else { AT_A_TIME };
        let room = most.saturating_sub(begun - done.min(begun)).min(wanted - begun);
        if room > 0 {
            begin(client, room);
            begun += room;
        }
        done >= wanted || client.has_failed() || progress.is_stuck(done as u64, now_ns)
    })?;
    check(client, server)?;
    let (done, wanted, _) = state(client);
    if done >= wanted { Ok(cost) } else { Err(PairError::Short(done, wanted)) }
}

fn rounds_for(
    client: &mut dyn Client,
    server: &mut dyn End,
    spec: &EchoSpec<'_>,
    time_ns: u64,
) -> Result<Cost, PairError> {
    let start_ns = clock::now_ns();
    let mut is_over =
        |client: &mut dyn Client, now_ns: u64| now_ns.saturating_sub(start_ns) >= time_ns || client.has_failed();
    let cost = drive_peers(client, server, spec.cores, &mut is_over)?;
    check(client, server)?;
    Ok(cost)
}

fn echo(
    client: &mut dyn Client,
    server: &mut dyn End,
    order: EchoOrder,
    spec: &EchoSpec<'_>,
) -> Result<EchoPoint, PairError> {
    let turns = client.turns();
    turns.order = Some(order);
    let (sent, came) = (turns.sent, turns.echoes);
    for _ in 0..spec.connections.clamp(1, WINDOW_MAX) {
        let conn = client.turns().in_turn();
        client.send(conn);
    }
    rounds_for(client, server, spec, spec.duration_ns / 5)?;
    let (echoes, before) = (client.turns().echoes, [client.segments()?, server.segments()?]);
    let cost = rounds_for(client, server, spec, spec.duration_ns)?;
    let (echoes, after) = (client.turns().echoes - echoes, [client.segments()?, server.segments()?]);
    client.turns().order = None;
    let mut progress = Progress::new();
    drive_peers(client, server, spec.cores, &mut |client, now_ns| {
        let turns = client.turns();
        turns.sent == turns.echoes || progress.is_stuck(turns.echoes, now_ns) || client.has_failed()
    })?;
    check(client, server)?;
    let end = client.segments()?.again + server.segments()?.again;
    let turns = client.turns();
    let (sent, came) = (turns.sent - sent, turns.echoes - came);
    let segments: u64 = after.iter().zip(&before).map(|(after, before)| after.sent - before.sent).sum();
    let again = |segments: &[Segments]| segments.iter().map(|one| one.again).sum::<u64>();
    let each = |total: f64| total / echoes as f64;
    Ok(EchoPoint {
        order: order.word().to_owned(),
        per_second: echoes as f64 * 1e9 / cost.wall_ns.max(1) as f64,
        per_core_second: echoes as f64 * 1e9 / cost.core_ns.max(1) as f64,
        per_ghz: None,
        echoes: account((sent, sent, came), 0, "")?,
        cycles_per_echo: cost.cycles.map(|cycles| cycles / echoes as f64).filter(|cycles| cycles.is_finite()),
        segments_per_echo: each(segments as f64),
        // A byte there and a byte back; the rest has no data. At the edges of the time a few bytes are on their way.
        acks_per_echo: each(
            (segments as f64 - 2.0 * echoes as f64 - again(&after).saturating_sub(again(&before)) as f64).max(0.0),
        ),
        retransmitted: end.saturating_sub(again(&before)),
        connections_lost: 0,
    })
}
