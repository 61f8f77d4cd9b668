//! `linerate bridge`: joins two ports.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use linerate_impair::{Impairments, Settings};
use linerate_port::{Direction, FarSide, Monitor, MonitorAccount, OpenOptions, PortSpec, Watched};
use linerate_worker::{Control, Meter};

use linerate_bridge::bridge::document::{BRIDGE_SCHEMA, BridgeDocument, LaneRow, MonitorRow, Names, PortRow};
use linerate_bridge::bridge::forward::{Layout, Plan, Side};
use linerate_bridge::frame::{Frame, MovingArgs, ProgressLane, exit};
use linerate_console::cores::{Cores, list_of};
use linerate_console::{note, open};

const EXAMPLES: &str = "\
Examples:
  linerate bridge eth1 eth2
      what arrives on either leaves by the other, until Ctrl-C
  linerate bridge eth1 eth2 --one-way --duration 10s --json
  linerate bridge file:in.pcap file:out.pcapng
      copies a capture (any user); it ends with the file
  linerate bridge eth1 eth2 --monitor seen.pcapng,rx
      with a capture of what arrives on eth1
  linerate bridge eth1 eth2 --cores 2,3
      with a core for each port
  linerate bridge eth1 eth2 --queues 4 --cores 2-5
      four queue pairs of each port, each with a core; what arrives by queue 2 of eth1 leaves by queue 2 of eth2
  linerate bridge eth1 eth2 --impair 'delay 10ms 2ms loss 0.1% limit 10k'
      as a path with a round trip of 20 ms and some loss, the same in every run
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
    /// From the first port to the second only
    #[arg(long)]
    one_way: bool,
    /// Copies every packet, also where it could be handed over
    #[arg(short, long)]
    copy: bool,
    /// Copies what passes the first port to a file or a port; with ,rx what arrives there, with ,tx what leaves there
    #[arg(short, long, value_name = "FILE|PORT[,rx|,tx]", conflicts_with = "queues")]
    monitor: Option<String>,
    /// One worker for each port, on these two cores, as 0,1 (none: where the kernel puts them); packets cross by rings, without
    /// their timestamps, so a file gets the time of writing. With --queues: so many workers, each with some queue pairs [default:
    /// one worker for everything]
    #[arg(long, value_name = "LIST", conflicts_with = "core")]
    cores: Option<String>,
    /// Queue pairs of each port; what arrives by a queue leaves by the queue of the same number, or, where the other port has
    /// fewer, by that of the remainder, so flows stay in order. A port of one queue has one worker, because what a bridge does to
    /// a packet costs less than steering it to another core [default: what the port opens by itself]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), conflicts_with_all = ["impair", "impair_forward", "impair_reverse"])]
    queues: Option<u32>,
    /// Impair the packets of both directions, each by itself, in the words of tc-netem(8): 'loss 1% delay 10ms 2ms rate 100Mbit/s'
    /// (docs/impair.md); what is lost shows as dropped, with its cause
    #[arg(long, value_name = "WORDS", conflicts_with_all = ["impair_forward", "impair_reverse"])]
    impair: Option<Settings>,
    /// Impair the packets from the first port to the second
    #[arg(long, value_name = "WORDS")]
    impair_forward: Option<Settings>,
    /// Impair the packets from the second port to the first
    #[arg(long, value_name = "WORDS")]
    impair_reverse: Option<Settings>,
    /// More about ports and batches
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
    #[command(flatten)]
    moving: MovingArgs,
}

/// Bridges. Status 1 when a port broke or a packet is unaccounted for, 2 when it could not start.
pub fn run(args: &Args) -> ExitCode {
    exit("bridge", try_run(args))
}

fn try_run(args: &Args) -> Result<bool, String> {
    let names: Vec<String> = args.ports.iter().chain(&args.interfaces).cloned().collect();
    let [near, far] = &open::specs(&names)?[..] else {
        let what = if args.interfaces.len() == 1 && args.ports.is_empty() {
            "one port is given; the kernel's own stack as the second is tap:NAME, with an address on it"
        } else {
            "a bridge has two ports: linerate bridge PORT PORT, as in `linerate bridge eth1 eth2`; `linerate ports` lists what a port can be"
        };
        return Err(what.into());
    };
    let frame = Frame::new(&args.moving)?;
    let layout = args.layout()?;
    let joined = Joined::open([near, far], args, layout)?;
    let workers = joined.plan.workers();
    let cores = args.cores.as_deref().map(|list| Cores::choose(Some(list), workers)).transpose()?;
    cores.iter().filter_map(|cores| cores.note.as_deref()).filter(|_| !args.moving.quiet).for_each(note);
    let sides = &joined.plan.sides;
    frame.begin(sides.iter().flat_map(|side| &side.queues).map(|queue| queue.caps()))?;
    frame.warn(args.queues.into_iter().flat_map(|queues| fewer(sides, queues as usize)));
    let ports: Vec<PortRow> = sides.iter().map(port_row).collect();
    let names: Vec<String> = ports.iter().map(|row| row.port.clone()).collect();
    let ways = joined.plan.ways.clone();
    let zero_copy: Vec<bool> = ways.iter().map(|way| !joined.plan.copies(*way)).collect();
    let controls: Vec<Control> = (0..workers).map(|_| Control::default()).collect();
    let bridge = joined.plan.ready()?;
    let lane = |((from, to), meters): (&(usize, usize), &Vec<Arc<Meter>>)| ProgressLane {
        name: format!("{} -> {}", names[*from], names[*to]),
        meters: meters.clone(),
    };
    let lanes: Vec<ProgressLane> = ways.iter().zip(&bridge.meters).map(lane).collect();
    let moved = frame.run(&lanes, &controls, || bridge.run(&controls, cores.as_ref()))?;
    let end = &moved.end;
    let run = moved.run(end.core_ns.iter().sum(), end.error.as_ref());
    let known = Names { ports: &names, cores: cores.as_ref() };
    let lanes = end.lanes.iter().zip(zero_copy);
    let document = BridgeDocument {
        schema: BRIDGE_SCHEMA,
        monitor: joined.watching.as_ref().map(|(name, account)| {
            MonitorRow::new(name.clone(), names[0].clone(), &account.lock().unwrap_or_else(PoisonError::into_inner))
        }),
        lanes: lanes.map(|(lane, zero_copy)| LaneRow::new(lane, zero_copy, &known, end, run.seconds)).collect(),
        cores: known.core_rows(end),
        ports,
        run,
    };
    frame.warn(document.uneven());
    frame.show(&document, || document.text(args.verbose))?;
    Ok(document.run.error.is_none() && document.lanes.iter().all(|lane| lane.sent.unexplained == 0))
}

/// A port in the document. One of several queues is described by its first.
fn port_row(side: &Side) -> PortRow {
    let detail = side.queues.first().map(|queue| queue.caps().detail.clone()).unwrap_or_default();
    let detail = match side.queues.len() {
        0 | 1 => detail,
        queues => format!("{queues} queues, each: {detail}"),
    };
    PortRow { port: side.name.clone(), detail }
}

/// What to know of ports that have fewer queues than were asked for.
fn fewer(sides: &[Side], queues: usize) -> Vec<String> {
    let few = sides.iter().filter(|side| side.queues.len() < queues);
    let line = |side: &Side| match side.queues.len() {
        1 => format!("{} has one queue: all packets leave by it", side.name),
        count => format!("{} has {count} queues", side.name),
    };
    few.map(line).collect()
}

impl Args {
    /// Which worker has which queue.
    fn layout(&self) -> Result<Layout, String> {
        let Some(list) = self.cores.as_deref() else { return Ok(Layout::One) };
        let Some(queues) = self.queues.map(|queues| queues as usize) else { return Ok(Layout::PerPort) };
        match list {
            "none" => Ok(Layout::PerQueue(queues)),
            list => match list_of(list)?.len() {
                workers if workers > queues => Err(format!(
                    "--cores {list}: {workers} workers for {queues} queue pairs; a queue pair has one worker"
                )),
                workers => Ok(Layout::PerQueue(workers)),
            },
        }
    }

    /// What is done to packets that leave by the first port, and by the second. One seed makes different sequences for them.
    fn leaving(&self, one_way: bool) -> Result<[Impairments; 2], String> {
        if one_way && self.impair_reverse.is_some() {
            return Err("--impair-reverse: packets go from the first port to the second only".into());
        }
        let other_seed = |both: &Settings| Settings { seed: both.seed.wrapping_add(1), ..both.clone() };
        let reverse = self.impair_reverse.clone().or_else(|| self.impair.as_ref().filter(|_| !one_way).map(other_seed));
        let forward = self.impair_forward.clone().or_else(|| self.impair.clone());
        Ok([reverse, forward].map(|tx| Impairments { rx: None, tx }))
    }
}

/// Frames for copies on their way to a watcher.
const MONITOR_FRAMES: usize = 4096;
/// Frames for packets in rings between workers, for each queue pair.
const RING_FRAMES: usize = 2048;

/// Two open ports and what goes between them.
struct Joined {
    plan: Plan,
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
    (if is_file { linerate_ports::file(name).to_string() } else { name.into() }, watched)
}

impl Joined {
    fn open(specs: [&PortSpec; 2], args: &Args, layout: Layout) -> Result<Joined, String> {
        let monitor = args.monitor.as_deref().map(watcher);
        let watchers = open::specs(&monitor.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>())?;
        let is_file = |spec: &&PortSpec| linerate_ports::far_side(spec) == FarSide::File;
        let one_way = args.one_way || specs.iter().any(is_file);
        let leaving = args.leaving(one_way)?;
        let waiting: usize = leaving.iter().map(Impairments::frames).sum();
        let directions =
            if one_way { [Direction::Receive, Direction::Transmit] } else { [Direction::Both, Direction::Both] };
        // Those at both ends wait for what the bridge holds.
        let options = directions.map(|direction| OpenOptions {
            direction: Some(direction),
            queues: args.queues,
            ..OpenOptions::low_latency()
        });
        let mut all: Vec<_> = specs.into_iter().zip(&options).collect();
        let both = OpenOptions::default();
        all.extend(watchers.iter().map(|spec| (spec, &both)));
        let rings = args.queues.map_or(0, |queues| queues as usize * RING_FRAMES);
        let pools = open::pools_with(&all, waiting + rings + if monitor.is_some() { MONITOR_FRAMES } else { 0 })?;
        // What is done to all packets of a port is done at one port.
        let whole = monitor.is_some() || leaving.iter().any(|one| one.rx.is_some() || one.tx.is_some());
        let mut sides = Vec::new();
        for ((spec, options), (pool, impairments)) in specs.into_iter().zip(&options).zip(pools.iter().zip(&leaving)) {
            let opened = open::open_device_noted(spec, options, pool, args.moving.quiet)?;
            let name = opened.name().to_owned();
            let mut queues = if whole { vec![linerate_ports::merge(opened)] } else { opened.into_ports() };
            if whole {
                let wrapped = queues.into_iter().map(|port| impairments.wrap(port, pool));
                queues = wrapped.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
            }
            sides.push(Side { name, queues, pool: pool.clone() });
        }
        let mut watching = None;
        if let (Some((_, watched)), Some(spec)) = (monitor, watchers.first()) {
            let watcher = open::open_noted(spec, Direction::Transmit, &pools[2], args.moving.quiet)?;
            let name = watcher.caps().name.clone();
            let port = Monitor::new(sides[0].queues.remove(0), watcher, watched, &pools[2]);
            watching = Some((name, port.account()));
            sides[0].queues.insert(0, Box::new(port));
        }
        let able = |from: usize, to: usize| {
            let caps = |side: usize| sides[side].queues.first().map(|queue| queue.caps());
            caps(from).is_some_and(|caps| caps.receives) && caps(to).is_some_and(|caps| caps.transmits)
        };
        let mut ways = vec![(0, 1), (1, 0)];
        ways.truncate(if one_way { 1 } else { 2 });
        ways.retain(|(from, to)| able(*from, *to));
        if ways.is_empty() {
            return Err(format!("nothing can go from {} to {}", specs[0], specs[1]));
        }
        let plan = Plan { sides, ways, copies: args.copy, batch: args.moving.batch as usize, layout };
        Ok(Joined { plan, watching })
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
}
