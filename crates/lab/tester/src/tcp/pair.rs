//! A client's stack and a server's, each over its port. What packets pass of them is in `linerate_tester_loop::tcp::pair`.

use linerate_ip::IpConfig;
use linerate_mem::Pool;
use linerate_port::{Drops, Port, PortIndex, Stats};
use linerate_sys::clock;
use linerate_tcp::{App, Counters, StackConfig};
use linerate_tester_loop::tcp::pair::{Cost, End, EndConfig, PairApp, are_apart};
use linerate_worker::{Config, Role};

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

/// The two stacks.
pub struct Pair<C: PairApp> {
    /// The client's.
    pub client: End<C>,
    /// The server's.
    pub server: End<C::Server>,
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
/// A TIME-WAIT of the tester's own: it begins more connections than there are ports for a minute.
const TIME_WAIT_MS: u32 = 10;

/// The configuration of the stack of one end.
fn stack(ends: &Ends, ip: IpConfig, shape: Shape) -> StackConfig {
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
    config
}

fn attach<A: App>(end: &mut End<A>, ports: &mut Vec<Box<dyn Port>>, pool: &Pool) {
    for port in ports.drain(..) {
        end.attach(port, pool, Role::default());
    }
}

impl<C: PairApp> Pair<C> {
    /// Makes both stacks over the ports of `ends`, which [`Pair::into_ends`] gives back.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn new(
        ends: &mut Ends,
        (client_ip, client): (IpConfig, C),
        (server_ip, server): (IpConfig, C::Server),
        shape: Shape,
        cores: [Option<usize>; 2],
    ) -> Result<Pair<C>, PairError> {
        let batch = if are_apart(cores) { shape.batch_apart() } else { Config::default().batch };
        let config = |ip: IpConfig| EndConfig { stack: stack(ends, ip, shape), batch };
        let mut client = client.client(config(client_ip), &ends.pool)?;
        let mut server = C::server(server, config(server_ip), &ends.pool)?;
        let [client_ports, server_ports] = &mut ends.ports;
        attach(&mut client, client_ports, &ends.pool);
        attach(&mut server, server_ports, &ends.pool);
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
    pub fn drive(&mut self, mut is_over: impl FnMut(&mut End<C>, u64) -> bool + Send) -> Result<Cost, PairError> {
        C::drive(&mut self.client, &mut self.server, self.cores, &mut is_over)
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

fn stats<A: App>(end: &mut End<A>) -> Result<Stats, PairError> {
    let mut sum = Stats::default();
    for index in 0.. {
        let Some(port) = end.port(PortIndex(index)) else { break };
        sum.add(port.stats()?);
    }
    Ok(sum)
}
