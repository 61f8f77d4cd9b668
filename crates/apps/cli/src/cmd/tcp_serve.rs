//! `linerate tcp serve`: echo, discard, chargen and HTTP over the TCP stack.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use linerate_endpoints::NetworkConfig;
use linerate_endpoints::tls::{self, MaybeTls, Tls};
use linerate_programs::Either;
use linerate_programs::serve::{Addresses, AnyServer, Chargen, Discard, Echo, HttpServer, Site};
use linerate_sys::{clock, signal};
use linerate_units::bytes;

use crate::tcp::network::{NetworkArgs, duration};
use crate::tcp::text;
use crate::tcp::watch::{Watching, watch};
use linerate_console::note;

const EXAMPLES: &str = "\
Examples:
  linerate tcp serve echo --port tap:lrtcp --address 198.18.5.1/24
  linerate tcp serve http --port veth1 --address 198.18.5.1/24 --address fd00:5::1/64 --body 1k --listen 8080
  linerate tcp serve http --tls --port tap:lrtcp --address 198.18.5.1/24; then curl -k https://198.18.5.1/
  linerate tcp serve http --port memif:/run/vpp.sock --address 10.1.0.2/24 --gateway 10.1.0.1 --root site
  linerate tcp serve http --cores 2,3 --port xdp:eth1,queues=2 --address 198.18.5.1/24    a stack on each of two cores

Give this host's kernel another address in the same network, on the other side of the port:
  ip addr add 198.18.5.2/24 dev lrtcp
`linerate tcp ctl show connections` lists the connections. Ctrl-C resets them and prints what was served.
Exit status: 0 done; 1 the port broke; 2 could not start.";

/// Connections of a server that was not told.
const CONNECTIONS_MAX: usize = 65_536;

/// Arguments of `linerate tcp serve`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What to serve
    #[arg(value_enum)]
    service: Service,
    /// Port, or address and port, to listen at; can be given several times [default: 7, 9, 19, 80, with TLS 443, of all addresses]
    #[arg(short, long = "listen", value_name = "[ADDRESS:]PORT")]
    listen: Vec<String>,
    /// http: answer every request with so many bytes [default: 18]
    #[arg(long, value_name = "BYTES", conflicts_with = "root")]
    body: Option<String>,
    /// http: serve the files of this folder, which are read once at the start
    #[arg(long, value_name = "FOLDER")]
    root: Option<PathBuf>,
    /// TLS under the service: with --cert and --key, or with a certificate made at the start that signs itself
    #[arg(long)]
    tls: bool,
    /// Certificate for TLS, with those of intermediate authorities, in PEM
    #[arg(long, value_name = "FILE", requires = "tls", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// End after this time: 10s, 500ms, 2m [default: at Ctrl-C]
    #[arg(short, long, value_name = "TIME")]
    duration: Option<String>,
    #[command(flatten)]
    network: NetworkArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Service {
    /// Send back what arrives, over TCP and UDP (RFC 862)
    Echo,
    /// HTTP/1.1: keep-alive and pipelining, one answer or the files of a folder
    Http,
    /// Take what arrives, over TCP and UDP (RFC 863)
    Discard,
    /// Send lines of text until the client closes, or a datagram for each datagram (RFC 864)
    Chargen,
}

/// True when all went well.
pub fn run(args: &Args) -> Result<bool, String> {
    if args.service != Service::Http && (args.body.is_some() || args.root.is_some()) {
        return Err("--body and --root are for http".into());
    }
    let network = args.network.network()?;
    let addresses = addresses(args, &network)?;
    match args.service {
        Service::Echo => serve(&|| Echo::new(small(addresses.clone(), args)).into(), &network, args),
        Service::Discard => serve(&|| Discard::new(small(addresses.clone(), args)).into(), &network, args),
        Service::Chargen => serve(&|| Chargen::new(small(addresses.clone(), args)).into(), &network, args),
        Service::Http => {
            let len = args.body.as_deref().map_or(Ok(18), bytes).map_err(|error| format!("--body: {error}"))?;
            let site = match &args.root {
                Some(root) => Site::read(root).map_err(|error| format!("--root: {error}"))?,
                None if len > 1 << 30 => return Err("--body: more than 1 GiB".into()),
                None => Site::of_len(len as usize),
            };
            let epoch_ns = clock::realtime_ns().saturating_sub(clock::now_ns());
            serve(&|| HttpServer::new(addresses.clone(), site.clone(), epoch_ns).into(), &network, args)
        }
    }
}

/// Runs a server that `make` makes on each core.
fn serve(make: &dyn Fn() -> AnyServer, network: &NetworkConfig, args: &Args) -> Result<bool, String> {
    let servers: Vec<AnyServer> = (0..args.network.shards()?).map(|_| make()).collect();
    if !args.tls {
        return run_servers(servers.into_iter().map(Either::Left).collect(), network, args);
    }
    let config = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => tls::server_config(cert, key),
        _ => tls::self_signed(network.all_addresses()),
    };
    let config = config.map_err(|error| format!("--tls: {error}"))?;
    let secured = |server| Either::Right(Tls::server(server, Arc::clone(&config)));
    run_servers(servers.into_iter().map(secured).collect(), network, args)
}

fn run_servers(servers: Vec<MaybeTls<AnyServer>>, network: &NetworkConfig, args: &Args) -> Result<bool, String> {
    let duration_ns = duration(args.duration.as_deref())?;
    let options = args.network.options("tcp-serve", CONNECTIONS_MAX)?;
    signal::catch_stop_signals().map_err(|error| error.to_string())?;
    let running = linerate_endpoints::start_server(servers, network, options).map_err(|error| error.to_string())?;
    if !args.network.quiet {
        let given = running.given_addresses().iter().map(|(address, bits)| format!("{address}/{bits}"));
        let own: Vec<String> = network.addresses.iter().map(ToString::to_string).chain(given).collect();
        note(&format!("{} serves at {}; Ctrl-C ends it", running.dir().name(), own.join(", ")));
    }
    let watching = Watching {
        duration_ns,
        stops_by_itself: false,
        json: args.network.json,
        quiet: args.network.quiet,
        line: &text::serve_line,
        look: None,
    };
    let ended = watch(running, &watching)?;
    if !args.network.json && !args.network.quiet {
        linerate_console::out(&text::serve(&ended.snapshot));
    }
    Ok(ended.frames_missing == 0 && !ended.port_lost)
}

/// The small services take datagrams, too, unless they are under TLS.
fn small(tcp: Vec<SocketAddr>, args: &Args) -> Addresses {
    let udp = if args.tls { Vec::new() } else { tcp.clone() };
    Addresses { tcp, udp }
}

/// Where to listen.
fn addresses(args: &Args, network: &NetworkConfig) -> Result<Vec<SocketAddr>, String> {
    let everywhere = |port: u16| {
        let v4 = network.dhcp || network.addresses.iter().any(|range| range.first.is_ipv4());
        let v6 = network.slaac || network.addresses.iter().any(|range| range.first.is_ipv6());
        let v4 = v4.then_some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        v4.into_iter()
            .chain(v6.then_some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)))
            .map(move |address| SocketAddr::new(address, port))
    };
    if args.listen.is_empty() {
        let port = match args.service {
            Service::Echo => 7,
            Service::Discard => 9,
            Service::Chargen => 19,
            Service::Http if args.tls => 443,
            Service::Http => 80,
        };
        return Ok(everywhere(port).collect());
    }
    let mut all = Vec::new();
    for text in &args.listen {
        match (text.parse::<u16>(), text.parse::<SocketAddr>()) {
            (Ok(port), _) if port > 0 => all.extend(everywhere(port)),
            (_, Ok(address)) if address.port() > 0 => all.push(address),
            _ => return Err(format!("--listen: {text} is neither a port (1 to 65535) nor ADDRESS:PORT")),
        }
    }
    Ok(all)
}
