//! `linerate send`: streams into ports, paced and accounted for; with `--receive`, both ends of a path.

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::SystemTime;

use linerate_gen::{CatchUp, ReceiverConfig, Speed, Start};
use linerate_mem::Pool;
use linerate_port::{Direction, FarSide, Port, PortSpec};
use linerate_report::Timestamp;
use linerate_streams::StreamFile;
use linerate_sys::signal;
use linerate_wire::MacAddress;

use super::status;
use linerate_console::cores::Cores;
use linerate_console::note;
use linerate_console::open::{self, Division, open_divided};
use linerate_console::print;
use linerate_traffic::document::SendDocument;
use linerate_traffic::neighbours::{Neighbours, Own};
use linerate_traffic::prepare::{Place, Prepared, offload_to, prepare};
use linerate_traffic::receiving::Share;
use linerate_traffic::replay::{ReplayFlags, ReplayRequest};
use linerate_traffic::sending::{self, Job, Work};
use linerate_traffic::streams::{StreamFlags, Wanted, describe};
use linerate_traffic::text;

const EXAMPLES: &str = "\
Examples, the first three for any user:
  linerate send pipe:a --rate 1Mpps --duration 3s
      both ends of a link inside this process: sent, delivered, lost, latency
  linerate send null: --flows 10000 --duration 3s
      as fast as this machine makes packets
  linerate send file:out.pcapng --size imix --count 1000
      packets into a capture file, to look at
  linerate send veth0 --receive veth1 --rate 500kpps --duration 10s
      through a path whose both ends are here, with the account of every packet
  linerate send eth1 --gateway 192.0.2.1 --set ipv4.source=192.0.2.7 --set ipv4.destination=10.0.0.1
      to a router, whose Ethernet address is asked for, until Ctrl-C; who asks for 192.0.2.7, or pings it, is answered
  linerate send eth1 eth2 --file examples/streams/mixed.toml --json
      a stream file on two ports, the result as JSON
  linerate send eth1 --replay trace.pcap --speed 2x --loops 10
      a capture, twice as fast as it was recorded, ten times
  linerate send --dry-run --size 128 --vary vlan.id=1..4094 --layers ethernet/vlan/ipv4/udp
      the stream file that flags stand for, its first packet; nothing is sent

Sizes are bytes on the wire, FCS included: 64 is the shortest frame. Ports: `linerate ports` lists them.
Exit status: 0 everything was sent (and, with --receive, arrived); 1 something was not; 2 nothing was sent.";

/// Arguments of `linerate send`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Ports to send on, each with a thread of its own, or several (--cores, --queues)
    #[arg(value_name = "PORT", required_unless_present = "dry_run")]
    ports: Vec<String>,
    /// Also receive on this port, in this process, and account for every packet. The other end of a pipe: is received by itself
    #[arg(long, value_name = "PORT")]
    receive: Vec<String>,
    /// Send to this router or host: its Ethernet address is asked for by ARP or neighbour discovery, and takes the place of
    /// ethernet.destination. Implies --answer
    #[arg(long, value_name = "ADDRESS", conflicts_with = "replay")]
    gateway: Option<IpAddr>,
    /// Answer ARP, neighbour discovery and pings for the addresses that the streams come from
    #[arg(long, conflicts_with = "replay")]
    answer: bool,
    #[command(flatten)]
    streams: StreamFlags,
    #[command(flatten)]
    replay: ReplayFlags,
    /// Most packets made and handed to a port at once [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096), help_heading = "Running")]
    batch: Option<u16>,
    /// How late packets catch up: burst sends them at once, so that the mean rate holds; smooth sends them at 1.1 times the
    /// rate at most, so that a pause of this machine is no burst for the path
    #[arg(long, value_enum, value_name = "HOW", default_value = "burst", help_heading = "Running")]
    catch_up: CatchUpFlag,
    /// Makes packets here even where the port could make them itself (xdplive:)
    #[arg(long, help_heading = "Running")]
    no_tx_generator: bool,
    /// Cores of the threads, senders first: 2,3 or 2-5, or none [default: one each that no other Linerate
    /// uses, if there are enough]. Each port gets as many threads as there are cores for it, each with a queue and flows of its own
    #[arg(long, value_name = "LIST", help_heading = "Running")]
    cores: Option<String>,
    /// Queues of each port to send on, each by a thread that has its own part of flows, rate and count [default: as many as --cores gives a port, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Running")]
    queues: Option<u32>,
    /// Print the stream file that the flags stand for, with what comes of it, or what a replay would send, and send nothing
    #[arg(long, help_heading = "Running")]
    dry_run: bool,
    /// Print one JSON document (linerate.send/1) on stdout
    #[arg(long, help_heading = "Running")]
    json: bool,
    /// No progress and no notes on stderr
    #[arg(short, long, help_heading = "Running")]
    quiet: bool,
}

/// The values of `--catch-up`.
#[derive(Clone, Copy, clap::ValueEnum)]
enum CatchUpFlag {
    /// Send late packets at once.
    Burst,
    /// Send late packets at 1.1 times the rate at most.
    Smooth,
}

impl Args {
    fn catch_up(&self) -> CatchUp {
        match self.catch_up {
            CatchUpFlag::Burst => CatchUp::Burst,
            CatchUpFlag::Smooth => CatchUp::Smooth,
        }
    }
}

/// Sends. Status 1 when something that was asked for was not sent or did not arrive, 2 when it could not start.
pub fn run(args: &Args) -> ExitCode {
    status::of("linerate send", try_run(args))
}

fn try_run(args: &Args) -> Result<bool, String> {
    let what = What::read(args)?;
    if args.dry_run {
        what.show()?;
        return Ok(true);
    }
    let specs = open::specs(&args.ports)?;
    let receive_specs = receive_specs(args, &specs)?;
    let receivers = usize::from(!receive_specs.is_empty());
    let division = division(args, specs.len(), receivers)?;
    let senders = specs.len() * division.threads;
    let cores = Cores::choose(args.cores.as_deref(), senders + receivers)?;
    let pool = what.pool((&specs, division), &receive_specs)?;
    let beside = beside(&receive_specs, &pool, cores.of(senders), args.quiet)?;
    let tell = |line: &str| {
        if !args.quiet {
            note(line)
        }
    };
    what.introduce().iter().chain(&cores.note).for_each(|line| tell(line));
    let (mut jobs, mut neighbours) = (Vec::with_capacity(specs.len()), Vec::new());
    for (position, spec) in specs.iter().enumerate() {
        let (threads, asked, notes) = what.jobs(args, spec, (position, division), &pool)?;
        notes.iter().for_each(|line| tell(line));
        jobs.extend(threads);
        neighbours.extend(asked);
    }
    jobs.iter_mut().enumerate().for_each(|(thread, job)| job.core = cores.of(thread));
    signal::catch_stop_signals().map_err(|error| format!("cannot catch signals: {error}"))?;
    let started = Timestamp::from_system(SystemTime::now());
    let (sent, received) = sending::run(jobs, neighbours, beside, &pool, args.quiet)?;
    let interrupted = signal::stop_requested();
    let document = SendDocument::new(what.streams(), what.replay(), &sent, received.as_ref(), started, interrupted);
    if args.json {
        print(&serde_json::to_string_pretty(&document).map_err(|error| error.to_string())?);
    } else {
        print(&text::sent(&document));
    }
    Ok(document.is_complete())
}

/// The threads of each port. One that sends has one queue.
fn division(args: &Args, ports: usize, receivers: usize) -> Result<Division, String> {
    let division = Division::of(args.cores.as_deref(), args.queues, ports, receivers)?;
    let threads = division.threads;
    if args.queues.is_some_and(|queues| queues as usize != threads) {
        let (queues, wanted) = (args.queues.unwrap_or(1), args.queues.unwrap_or(1) as usize * ports + receivers);
        return Err(format!(
            "--queues {queues}: each queue has a thread, so name {wanted} cores with --cores, or none"
        ));
    }
    if args.replay.replay.is_some() && threads > 1 {
        return Err("--replay: packets of a capture leave in their order, by one queue of each port; name one core for each port".into());
    }
    Ok(division)
}

/// The jobs of a port's threads, who answers for its streams, and what a user should know.
type Jobs = (Vec<Job>, Option<Neighbours>, Vec<String>);

/// What is sent.
enum What {
    Streams(Box<Wanted>),
    Replay(Box<ReplayRequest>),
}

impl What {
    fn read(args: &Args) -> Result<What, String> {
        let (load, rate) = args.streams.load_alone()?;
        match args.replay.request(&load, rate, args.batch.map(usize::from), args.catch_up())? {
            Some(request) => Ok(What::Replay(Box::new(request))),
            None => Ok(What::Streams(Box::new(args.streams.read()?))),
        }
    }

    fn streams(&self) -> Option<&StreamFile> {
        match self {
            What::Streams(wanted) => Some(&wanted.file),
            What::Replay(_) => None,
        }
    }

    fn replay(&self) -> Option<String> {
        match self {
            What::Streams(_) => None,
            What::Replay(request) => Some(request.words.clone()),
        }
    }

    /// Says what is about to be sent.
    fn introduce(&self) -> Vec<String> {
        match self {
            What::Streams(wanted) => {
                wanted.file.streams.iter().enumerate().flat_map(|(at, entry)| describe(at, entry)).collect()
            }
            What::Replay(request) => vec![request.words.clone()],
        }
    }

    fn show(&self) -> Result<(), String> {
        let wanted = match self {
            What::Streams(wanted) => wanted,
            What::Replay(request) => {
                print(&request.intention()?.join("\n"));
                return Ok(());
            }
        };
        let comments: String = self.introduce().iter().map(|line| format!("\n# {line}")).collect();
        print(&format!("{}\n{comments}", wanted.text.trim_end()));
        Ok(())
    }

    fn pool(&self, senders: (&[PortSpec], Division), receivers: &[PortSpec]) -> Result<Pool, String> {
        let one = Division::default();
        match self {
            What::Streams(wanted) => open::pool(senders, (receivers, one), wanted.file.len_max()),
            // Packets are as long as the ports allow; the source needs frames as a receiver does.
            What::Replay(request) => {
                let receivers: Vec<PortSpec> = receivers.iter().chain([&request.source]).cloned().collect();
                open::pool(senders, (&receivers, one), linerate_ports::len_max(senders.0))
            }
        }
    }

    /// The jobs of the threads of one port, and what a user should know about them.
    fn jobs(
        &self,
        args: &Args,
        spec: &PortSpec,
        (position, division): (usize, Division),
        pool: &Pool,
    ) -> Result<Jobs, String> {
        let queues = open_divided(spec, Direction::Transmit, division, pool, args.quiet)?;
        // A thread sends on the first of its queues.
        let ports: Vec<Box<dyn Port>> = queues.into_iter().filter_map(|own| own.into_iter().next()).collect();
        match self {
            What::Replay(request) => {
                let rate_pps = match request.plan.speed {
                    Speed::Rate { rate_pps, .. } => Some(rate_pps),
                    _ => None,
                };
                let job = |port| {
                    let work = Work::Replay { plan: request.plan, source: request.open_source(pool)? };
                    Ok(Job { position, port, work, rate_pps, ids: vec![None], core: None, later_ns: 0 })
                };
                Ok((ports.into_iter().map(job).collect::<Result<_, String>>()?, None, Vec::new()))
            }
            What::Streams(wanted) => {
                let mac = ports.first().and_then(|port| port.caps().mac);
                let (neighbours, gateway) = neighbours(args, spec, &wanted.file, mac)?;
                let mut notes = Vec::new();
                if let (Some(address), Some(mac)) = (args.gateway, gateway) {
                    notes.push(format!("{spec}: {address} is at {mac}"));
                }
                let threads = ports.len();
                let job = |(thread, port)| {
                    let place = Place { port: position, thread, threads };
                    stream_job(args, wanted, place, port, gateway, &mut notes)
                };
                let jobs = ports.into_iter().enumerate().map(job).collect::<Result<_, String>>()?;
                Ok((jobs, neighbours, notes))
            }
        }
    }
}

/// The job of a thread that sends streams.
fn stream_job(
    args: &Args,
    wanted: &Wanted,
    place: Place,
    mut port: Box<dyn Port>,
    gateway: Option<MacAddress>,
    notes: &mut Vec<String>,
) -> Result<Job, String> {
    let batch = args.batch.map(usize::from);
    let mut prepared = prepare(&wanted.file, wanted.rate, port.caps(), place, batch, gateway)?;
    prepared.plan.schedule.catch_up = args.catch_up();
    let Prepared { plan, ids, rate_pps, later_ns, notes: more } = prepared;
    notes.extend(more);
    let offloaded = if args.no_tx_generator { Ok(false) } else { offload_to(&mut *port, &plan) };
    let offloaded = offloaded.unwrap_or_else(|why| {
        notes.push(why);
        false
    });
    let work = if offloaded {
        Work::Offloaded { schedule: plan.schedule, packet_len: wanted.file.len_max() }
    } else {
        Work::Streams(plan)
    };
    Ok(Job { position: place.port, port, work, rate_pps, ids, core: None, later_ns })
}

/// Who answers for the streams of a port, and the Ethernet address of its gateway, where these are asked for.
fn neighbours(
    args: &Args,
    spec: &PortSpec,
    file: &StreamFile,
    mac: Option<[u8; 6]>,
) -> Result<(Option<Neighbours>, Option<MacAddress>), String> {
    if args.gateway.is_none() && !args.answer {
        return Ok((None, None));
    }
    if linerate_ports::far_side(spec) != FarSide::Interface {
        return Err(format!("{spec}: a gateway is asked for, and questions are answered, on interfaces only"));
    }
    let own = Own::of(file, mac).map_err(|error| format!("{spec}: {error}"))?;
    let mut neighbours = Neighbours::open(&spec.target, &own, args.gateway)?;
    let gateway = args.gateway.map(|gateway| neighbours.resolve(gateway)).transpose()?;
    Ok((Some(neighbours), gateway))
}

/// The ports to receive on: those asked for, and the other ends of pipes, which nobody else can open.
fn receive_specs(args: &Args, specs: &[PortSpec]) -> Result<Vec<PortSpec>, String> {
    let mut receive = open::specs(&args.receive)?;
    for spec in specs.iter().filter(|spec| linerate_ports::far_side(spec) == FarSide::Process) {
        let is_same = |other: &PortSpec| other.backend == spec.backend && other.target == spec.target;
        if !receive.iter().chain(specs.iter().filter(|other| !std::ptr::eq(*other, spec))).any(is_same) {
            receive.push(spec.clone());
        }
    }
    Ok(receive)
}

fn beside(specs: &[PortSpec], pool: &Pool, core: Option<usize>, quiet: bool) -> Result<Option<Share>, String> {
    if specs.is_empty() {
        return Ok(None);
    }
    let config = ReceiverConfig { start: Start::At(0), ..ReceiverConfig::default() };
    let shares = Share::open(specs, Division::default(), pool, quiet, |_| config)?;
    Ok(shares.into_iter().next().map(|share| Share { core, ..share }))
}
