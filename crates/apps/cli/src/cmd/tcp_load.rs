//! `linerate tcp load`: the stateful load generator.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use linerate_endpoints::document::Snapshot;
use linerate_endpoints::tls::{self, MaybeTls, Tls, Trust};
use linerate_endpoints::{AdaptiveDeferral, NetworkConfig, Options};
use linerate_programs::Either;
use linerate_programs::load::{Client, Config, LoadDocument, Pacing, Plan, RequestConfig, Text};
use linerate_sys::signal;

use crate::tcp::network::NetworkArgs;
use crate::tcp::text;
use crate::tcp::watch::{Watching, watch};

const EXAMPLES: &str = "\
Examples:
  linerate tcp load http://198.18.5.1/ --port tap:lrload --address 198.18.5.3/24 -c 100 -d 10s
      closed loop: each of 100 connections asks again when it has its answer
  linerate tcp load http://198.18.5.1/ --port veth1 --address 198.18.5.3/24 -c 200 --rate 1k..50k@60s --poisson
      open loop: a rate that ramps; what is late shows as latency
  linerate tcp load http://198.18.5.1/ --port veth1 --address 198.18.5.3-198.18.5.99/24 --connection-rate 100k
      new connections, one request each, from 97 addresses in turn
  linerate tcp load tcp://198.18.5.1:7 --port xdp:veth1 --address 198.18.5.3/24 --request 1k --think 10ms
      1,000 bytes there, the same back; compared
  linerate tcp load udp://198.18.5.1:7 --port veth1 --address 198.18.5.3/24 -c 64 --rate 100k --timeout 1s
      a datagram there and one back, each connection a socket with one request under way
  linerate tcp load https://198.18.5.1/ --insecure --port veth1 --address 198.18.5.3/24 -c 100 -k 10
      over TLS, 10 requests a connection; a whole handshake for each
  linerate tcp load http://www.example.org/ --dhcp --port veth1 --rate 10
      address, gateway and name servers by DHCP
  linerate tcp load tcp://198.18.5.1:7 --port memif:/run/m.sock,role=client,queues=2 --address 198.18.5.3/24 -c 1k --cores 2,3
      a stack on each of two cores, with half of the connections each
  linerate tcp load http://198.18.5.1/ --port packet:eth1,defer=500 --address 198.18.5.3/24 -c 1k --rate 100k -d 10s
      the interface collects packets for 500 us before anybody is woken: more requests for a core, and up to 500 us more for each answer
  linerate tcp load --config mix.toml --port veth1 --address 198.18.5.3/24
      several kinds of requests by weight; docs/tcp.md has the words

Exit status: 0 done, and every request was answered with a status below 400; 1 not so, or an account does not balance; 2 could not start.";

/// Arguments of `linerate tcp load`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// http://HOST[:PORT]/PATH, https://..., tcp://HOST:PORT, tls://..., udp://..., a host by address or name; several are a mix of equal weights
    #[arg(value_name = "URL")]
    urls: Vec<String>,
    /// Connections at a time [default: 1; with --connection-rate, as many as it takes]
    #[arg(short, long, value_name = "N")]
    connections: Option<String>,
    /// Requests per second: 10k, or 1k..10k@30s,10k; without it, each connection loops
    #[arg(short, long, value_name = "RATE")]
    rate: Option<String>,
    /// Connections per second, in the same words
    #[arg(long, value_name = "RATE", conflicts_with = "rate")]
    connection_rate: Option<String>,
    /// Exponential gaps and pauses (a Poisson process)
    #[arg(long)]
    poisson: bool,
    /// Requests of a connection; 1 closes each after its answer [default: any number; with --connection-rate, 1]
    #[arg(short = 'k', long, value_name = "N")]
    requests_per_connection: Option<String>,
    /// Requests under way on a connection [default: 1]
    #[arg(long, value_name = "N")]
    pipeline: Option<String>,
    /// Pause between an answer and the next request [default: 0s]
    #[arg(long, value_name = "TIME")]
    think: Option<String>,
    /// Longest time of an answer [default: 10s]
    #[arg(short, long, value_name = "TIME")]
    timeout: Option<String>,
    /// Longest time of a handshake [default: --timeout]
    #[arg(long, value_name = "TIME")]
    connect_timeout: Option<String>,
    /// Time over which the first connections are begun [default: 0s]
    #[arg(long, value_name = "TIME")]
    ramp_up: Option<String>,
    /// Time at the beginning that rates and latency leave out [default: 0s]
    #[arg(long, value_name = "TIME")]
    warmup: Option<String>,
    /// Time in which requests are begun [default: 10s; with --count, no limit]
    #[arg(short, long, value_name = "TIME")]
    duration: Option<String>,
    /// Requests after which no more are begun; a connection that cannot be made counts for one
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<String>,
    /// HTTP method [default: GET, or POST with a body]
    #[arg(short = 'X', long, value_name = "METHOD")]
    method: Option<String>,
    /// HTTP header field
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Body of the request
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    body: Option<String>,
    /// Body of the request, from a file
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// tcp, tls, udp: bytes of a request [default: 64]
    #[arg(long, value_name = "BYTES")]
    request: Option<String>,
    /// tcp, tls, udp: bytes of an answer [default: the request itself]
    #[arg(long, value_name = "BYTES")]
    response: Option<String>,
    /// HTTP: statuses that are right; an answer with another is a wrong one
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    expect_status: Vec<u16>,
    /// HTTP: bytes of the body of each answer
    #[arg(long, value_name = "BYTES")]
    expect_bytes: Option<String>,
    /// HTTP: a file that the body of each answer is compared with
    #[arg(long, value_name = "FILE")]
    expect_file: Option<PathBuf>,
    /// TLS: a file with the certificates, in PEM, of the authorities that are trusted [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// TLS: accept every certificate
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// A file with a URL a line: a mix of equal weights
    #[arg(long, value_name = "FILE")]
    urls_from: Option<PathBuf>,
    /// A TOML file with the same words, and [[request]] tables; flags come on top
    #[arg(short = 'f', long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Leave it to the interface how long it collects packets before it wakes anybody [default: in a closed loop without pauses, a tenth of the time that
    /// an answer takes, at most 500 us; `packet:IF,defer=US` sets a time]
    #[arg(long)]
    no_defer: bool,
    /// Start of the pseudo-random numbers [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    network: NetworkArgs,
}

/// True when all went well.
pub fn run(args: &Args) -> Result<bool, String> {
    let mut network = args.network.network()?;
    let mut plan = config(args)?.plan()?;
    network.names = plan.names();
    // With several addresses, connections come from each in turn.
    plan.sources = network.all_addresses().collect();
    let options = args.network.options("tcp-load", connections(&plan))?;
    signal::catch_stop_signals().map_err(|error| error.to_string())?;
    // What a closed loop without pauses measures is what its server can do.
    let measures_capacity = plan.pacing == Pacing::Closed && plan.think_ns == 0;
    let deferral = if measures_capacity && !args.no_defer { AdaptiveDeferral::of(&network.port) } else { None };
    let has_tls = plan.targets.iter().any(|target| target.scheme.is_tls());
    let plans = plan.divided(args.network.shards()?).map_err(|error| format!("--cores: {error}"))?;
    let clients: Vec<Client> = plans.into_iter().map(|plan| Client::new(Arc::new(plan))).collect();
    if !has_tls {
        return load(clients.into_iter().map(Either::Left).collect(), &network, options, deferral, args);
    }
    let trust = match &args.ca {
        _ if args.insecure => Trust::Everybody,
        Some(path) => Trust::File(path.clone()),
        None => Trust::System,
    };
    let config = tls::client_config(&trust).map_err(|error| error.to_string())?;
    let secured = |client| Either::Right(Tls::client(client, Arc::clone(&config)));
    load(clients.into_iter().map(secured).collect(), &network, options, deferral, args)
}

fn load(
    clients: Vec<MaybeTls<Client>>,
    network: &NetworkConfig,
    options: Options,
    deferral: Option<AdaptiveDeferral>,
    args: &Args,
) -> Result<bool, String> {
    let running = linerate_endpoints::start_load(clients, network, options).map_err(|error| error.to_string())?;
    let deferral = deferral.map(RefCell::new);
    let look = |snapshot: &mut Snapshot<LoadDocument>| {
        let Some(deferral) = &deferral else { return };
        let (mut deferral, load) = (deferral.borrow_mut(), &snapshot.program);
        if !load.done {
            deferral.adapt(snapshot.seconds, load.requests.completed, load.requests.open);
        }
        snapshot.deferred_us = deferral.longest_us();
    };
    let watching = Watching {
        duration_ns: None,
        stops_by_itself: true,
        json: args.network.json,
        quiet: args.network.quiet,
        line: &text::load_line,
        look: Some(&look),
    };
    let ended = watch(running, &watching)?;
    if !args.network.json && !args.network.quiet {
        linerate_console::out(&text::load(&ended.snapshot));
    }
    Ok(ended.snapshot.program.is_well() && ended.frames_missing == 0 && !ended.port_lost)
}

/// Connections that the stack is made for: those that are open, and those that are closing meanwhile.
fn connections(plan: &Plan) -> usize {
    const LEAST: usize = 65_536;
    const UNLIMITED: usize = 1 << 20;
    (plan.connections as usize).min(UNLIMITED.max(plan.connections as usize / 8)) + LEAST
}

/// The file, then the flags.
fn config(args: &Args) -> Result<Config, String> {
    let read = |path: &PathBuf| std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let mut config = match &args.config {
        Some(path) => Config::parse(&read(path)?).map_err(|error| format!("{}: {error}", path.display()))?,
        None => Config::default(),
    };
    let text = |flag: &Option<String>, from_file: Option<Text>| flag.clone().map(Text::Text).or(from_file);
    config.connections = text(&args.connections, config.connections);
    config.rate = text(&args.rate, config.rate);
    config.connection_rate = text(&args.connection_rate, config.connection_rate);
    config.poisson |= args.poisson;
    config.requests_per_connection = text(&args.requests_per_connection, config.requests_per_connection);
    config.pipeline = text(&args.pipeline, config.pipeline);
    config.count = text(&args.count, config.count);
    config.think = args.think.clone().or(config.think);
    config.timeout = args.timeout.clone().or(config.timeout);
    config.connect_timeout = args.connect_timeout.clone().or(config.connect_timeout);
    config.ramp_up = args.ramp_up.clone().or(config.ramp_up);
    config.warmup = args.warmup.clone().or(config.warmup);
    config.duration = args.duration.clone().or(config.duration);
    config.seed = args.seed.or(config.seed);
    let mut urls = args.urls.clone();
    if let Some(path) = &args.urls_from {
        let lines = read(path)?;
        urls.extend(
            lines.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned),
        );
    }
    config.requests.extend(urls.into_iter().map(|url| request(args, url)));
    Ok(config)
}

fn request(args: &Args, url: String) -> RequestConfig {
    RequestConfig {
        url,
        method: args.method.clone(),
        headers: args.headers.clone(),
        body: args.body.clone(),
        body_file: args.body_file.clone(),
        request: args.request.clone().map(Text::Text),
        response: args.response.clone().map(Text::Text),
        expect_status: args.expect_status.clone(),
        expect_bytes: args.expect_bytes.clone().map(Text::Text),
        expect_file: args.expect_file.clone(),
        ..RequestConfig::default()
    }
}
