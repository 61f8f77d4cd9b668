//! `linerate bridge`: joins two ports.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use linerate_gen::config::duration_ns;
use linerate_lab::run::Control;
use linerate_mem::Pool;
use linerate_port::{Caps, Monitor, MonitorAccount, Port, PortSpec, Watched};
use linerate_ports::Usage;
use linerate_report::Timestamp;
use linerate_sys::{clock, signal};

use crate::bridge::document::{BRIDGE_SCHEMA, BridgeDocument, LaneRow, MonitorRow, PortRow};
use crate::bridge::forward::forward;
use crate::bridge::lane::Lane;
use crate::pktgen::log;
use crate::traffic::cores::Cores;
use crate::traffic::document::tool;
use crate::traffic::receiving::EndedBy;
use crate::traffic::watch::{self, Manner};
use crate::traffic::{note, open};

const EXAMPLES: &str = "\
Examples:
  linerate bridge eth1 eth2
      what arrives on either leaves by the other, until Ctrl-C
  linerate bridge eth1 eth2 --one-way --duration 10s --json
  linerate bridge file:in.pcap file:out.pcapng
      copies a capture (any user); it ends with the file
  linerate bridge eth1 eth2 --monitor seen.pcapng,rx
      with a capture of what arrives on eth1
  linerate bridge -i eth1 -i eth2 -b 512 -c
      as netmap's bridge is called

Packets are handed over, not copied, where both ports use one memory. What the far port does not take waits here, and nothing
more is taken from the near one meanwhile: what that loses then is counted as missed. Interfaces take only packets for
their own address unless they are promiscuous: `ip link set eth1 promisc on`.
A file as the first port is read, as the second written. The kernel's own stack is the far side of tap:NAME.
Exit status: 0 done; 1 a port broke, or a packet is unaccounted for; 2 could not start.";

/// Arguments of `linerate bridge`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The two ports
    #[arg(value_name = "PORT", num_args = 0..=2)]
    ports: Vec<String>,
    /// A port, as netmap's bridge takes it; give it twice
    #[arg(short = 'i', value_name = "PORT")]
    interfaces: Vec<String>,
    /// Packets of one port call, at most
    #[arg(short, long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// From the first port to the second only
    #[arg(long)]
    one_way: bool,
    /// Copies every packet, also where it could be handed over
    #[arg(short, long)]
    copy: bool,
    /// Copies what passes the first port to a file or a port; with ,rx what arrives there, with ,tx what leaves there
    #[arg(short, long, value_name = "FILE|PORT[,rx|,tx]")]
    monitor: Option<String>,
    /// Waits so long before it begins, for links to come up: 2s, 500ms; a number is seconds
    #[arg(short, long, value_name = "TIME")]
    wait: Option<String>,
    /// Ends after this time: 10s, 500ms, 2m [default: at Ctrl-C, or when nothing can come any more]
    #[arg(short, long, value_name = "TIME")]
    duration: Option<String>,
    /// Core of the thread that moves packets [default: any]
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,
    /// Print one JSON document (linerate.bridge/1) on stdout
    #[arg(long)]
    json: bool,
    /// No progress and no notes on stderr
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// More about ports and batches
    #[arg(short, long)]
    verbose: bool,
}

/// Bridges. Status 1 when a port broke or a packet is unaccounted for, 2 when it could not start.
pub fn run(args: &Args) -> ExitCode {
    match try_run(args) {
        Ok(fine) => ExitCode::from(u8::from(!fine)),
        Err(error) => {
            note(&format!("linerate bridge: {error}"));
            ExitCode::from(2)
        }
    }
}

fn try_run(args: &Args) -> Result<bool, String> {
    let names: Vec<String> = args.ports.iter().chain(&args.interfaces).cloned().collect();
    let [near, far] = &open::specs(&names)?[..] else {
        let what = if args.interfaces.len() == 1 && args.ports.is_empty() {
            "one port is given; the kernel's own stack as the second is tap:NAME, with an address on it"
        } else {
            "a bridge has two ports"
        };
        return Err(what.into());
    };
    let span = |flag: &str, text: &Option<String>| {
        text.as_ref().map(|text| span_ns(text)).transpose().map_err(|error| format!("--{flag}: {error}"))
    };
    let wait_ns = span("wait", &args.wait)?;
    let duration_ns = span("duration", &args.duration)?;
    let core = args.core.map(|core| Cores::choose(Some(&core.to_string()), 1)).transpose()?;
    let mut joined = Joined::open([near, far], args)?;
    signal::catch_stop_signals().map_err(|error| format!("cannot catch signals: {error}"))?;
    if let Some(wait_ns) = wait_ns {
        clock::sleep_until_ns(clock::now_ns() + wait_ns);
    }
    let caps: Vec<Caps> = joined.ports.iter().map(|port| port.caps().clone()).collect();
    if !args.quiet {
        caps.iter().for_each(|caps| note(&format!("{} ({}; {})", caps.name, caps.detail, caps.copies)));
    }
    let started = Timestamp::from_system(SystemTime::now());
    let arrow = |lane: &Lane| format!("{} -> {}", caps[lane.from].name, caps[lane.to].name);
    let arrows: Vec<String> = joined.lanes.iter().map(arrow).collect();
    let manner = Manner { core: core.and_then(|core| core.of(0)), duration_ns, quiet: args.quiet };
    let controls: Vec<Control> = joined.lanes.iter().map(|_| Control::default()).collect();
    let (ports, lanes) = (&mut joined.ports, &mut joined.lanes);
    let (end, ended_by, took_ns) = watch::watch(manner, &arrows, &controls, || forward(ports, lanes, &controls))?;
    let ended_by = if end.error.is_some() { EndedBy::Error } else { ended_by };
    let seconds = took_ns as f64 / 1e9;
    let document = BridgeDocument {
        schema: BRIDGE_SCHEMA,
        tool: tool(),
        started,
        seconds,
        ended_by,
        core_share: end.core_ns as f64 / took_ns.max(1) as f64,
        ports: caps.iter().map(|caps| PortRow { port: caps.name.clone(), detail: caps.detail.clone() }).collect(),
        monitor: joined.watching.as_ref().map(|(name, account)| {
            MonitorRow::new(name.clone(), caps[0].name.clone(), &account.lock().unwrap_or_else(PoisonError::into_inner))
        }),
        lanes: joined.lanes.iter().map(|lane| LaneRow::new(lane, &caps, &end, seconds)).collect(),
        error: end.error.as_ref().map(ToString::to_string),
    };
    if args.json {
        log::out(&serde_json::to_string_pretty(&document).map_err(|error| error.to_string())?);
    } else {
        log::out(&document.text(args.verbose));
    }
    Ok(ended_by != EndedBy::Error && document.lanes.iter().all(|lane| lane.unexplained == 0))
}

/// A time with its unit, or a number of seconds, as netmap's tools take it.
pub(super) fn span_ns(text: &str) -> Result<u64, String> {
    let seconds = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
    if text == "0" {
        return Ok(0);
    }
    duration_ns(&if seconds { format!("{text}s") } else { text.into() }).map_err(|error| error.to_string())
}

/// Frames for copies on their way to a watcher.
const MONITOR_FRAMES: usize = 4096;

/// Two open ports and what goes between them.
struct Joined {
    ports: Vec<Box<dyn Port>>,
    lanes: Vec<Lane>,
    /// Name and account of what watches the first port.
    watching: Option<(String, Arc<Mutex<MonitorAccount>>)>,
}

/// Takes `FILE|PORT[,rx|,tx]` apart.
fn watcher(text: &str) -> (String, Watched) {
    let (name, watched) = match (text.strip_suffix(",rx"), text.strip_suffix(",tx")) {
        (Some(name), _) => (name, Watched::Received),
        (_, Some(name)) => (name, Watched::Transmitted),
        _ => (text, Watched::Both),
    };
    let is_file = !name.contains(':') && [".pcap", ".pcapng"].iter().any(|end| name.ends_with(end));
    (if is_file { format!("file:{name}") } else { name.into() }, watched)
}

impl Joined {
    fn open(specs: [&PortSpec; 2], args: &Args) -> Result<Joined, String> {
        let monitor = args.monitor.as_deref().map(watcher);
        let mut all = specs.map(PortSpec::clone).to_vec();
        all.extend(open::specs(&monitor.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>())?);
        let pools = open::pools(&all, if monitor.is_some() { MONITOR_FRAMES } else { 0 })?;
        let is_file = |spec: &PortSpec| spec.backend.as_deref() == Some("file");
        let one_way = args.one_way || specs.iter().any(|spec| is_file(spec));
        let usages = if one_way { [Usage::Receiving, Usage::Sending] } else { [Usage::Both, Usage::Both] };
        let mut ports = Vec::new();
        for ((spec, usage), pool) in specs.into_iter().zip(usages).zip(&pools) {
            ports.push(open::open_noted(spec, usage, pool, args.quiet)?);
        }
        let mut watching = None;
        if let (Some((_, watched)), Some(spec)) = (monitor, all.get(2)) {
            let watcher = open::open_noted(spec, Usage::Sending, &pools[2], args.quiet)?;
            let name = watcher.caps().name.clone();
            let port = Monitor::new(ports.remove(0), watcher, watched, &pools[2]);
            watching = Some((name, port.account()));
            ports.insert(0, Box::new(port));
        }
        let able = |from: usize, to: usize| ports[from].caps().receives && ports[to].caps().transmits;
        let mut ways = vec![(0, 1), (1, 0)];
        ways.truncate(if one_way { 1 } else { 2 });
        ways.retain(|(from, to)| able(*from, *to));
        if ways.is_empty() {
            return Err(format!("nothing can go from {} to {}", specs[0], specs[1]));
        }
        let lane = |way: &(usize, usize)| {
            let (home, away) = (&pools[way.0], &pools[way.1]);
            let same = Arc::ptr_eq(home.region(), away.region());
            let copy_into: Option<&Pool> = (args.copy || !same).then_some(away);
            Lane::new(*way, ports[way.0].caps(), home, copy_into, args.batch as usize)
        };
        let lanes = ways.iter().map(lane).collect();
        Ok(Joined { ports, lanes, watching })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_is_a_file_or_a_port() {
        assert_eq!(watcher("x.pcapng"), ("file:x.pcapng".into(), Watched::Both));
        assert_eq!(watcher("a/x.pcap,rx"), ("file:a/x.pcap".into(), Watched::Received));
        assert_eq!(watcher("shm:a,tx"), ("shm:a".into(), Watched::Transmitted));
        assert_eq!(watcher("file:x.pcap,snaplen=96,tx"), ("file:x.pcap,snaplen=96".into(), Watched::Transmitted));
    }

    #[test]
    fn a_number_is_seconds() {
        assert_eq!((span_ns("2"), span_ns("0"), span_ns("500ms")), (Ok(2_000_000_000), Ok(0), Ok(500_000_000)));
        assert!(span_ns("").is_err() && span_ns("x").is_err());
    }
}
