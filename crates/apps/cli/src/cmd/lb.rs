//! `linerate lb`: spreads one port over several.

use std::process::ExitCode;
use std::sync::Arc;

use linerate_mem::Pool;
use linerate_port::{Caps, Direction};
use linerate_worker::{Config, Control, Role, Worker};

use crate::lb::balance::Balancer;
use crate::lb::document::LbDocument;
use crate::lb::groups::groups;
use crate::lb::output::Output;
use crate::moving::frame::{Frame, MovingArgs, exit};
use crate::traffic::open;

const EXAMPLES: &str = "\
Examples:
  linerate lb -i eth1 -o eth2 -o eth3
      half of the flows to each; both directions of a flow to the same
  linerate lb -i file:in.pcap -p 'file:out-{}.pcapng:4'
      splits a capture by flow (any user)
  linerate lb -i eth1 -p ids:4 -p log:1
      every packet to one of ids}0 to ids}3, and a copy of it to log}0

IP packets go by addresses, protocol and ports, fragments without the ports; others by their MAC addresses.
Exit status: 0 done; 1 a port broke, or a packet is unaccounted for; 2 could not start.";

/// Arguments of `linerate lb`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Port that packets come from
    #[arg(short, long, value_name = "PORT")]
    input: String,
    /// Port that packets go to; together they are the first group
    #[arg(short, long, value_name = "PORT")]
    output: Vec<String>,
    /// A further group, which gets every packet too: COUNT ports by number; {} in NAME stands for it, else }0, }1 ... follow
    #[arg(short, long, value_name = "[NAME:]COUNT")]
    pipes: Vec<String>,
    /// Packets (frames) that may wait, over all outputs; then the longest queue loses its oldest
    #[arg(short = 'B', long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    extra: u32,
    #[command(flatten)]
    moving: MovingArgs,
}

/// Balances. Status 1 when a port broke or a packet is unaccounted for, 2 when it could not start.
pub fn run(args: &Args) -> ExitCode {
    exit("lb", try_run(args))
}

fn try_run(args: &Args) -> Result<bool, String> {
    let frame = Frame::new(&args.moving)?;
    let control = [Control::default()];
    let (mut worker, caps) = open(args, &control[0])?;
    frame.begin(caps.iter())?;
    let moved = frame.run(&[format!("{} ->", caps[0].name)], &control, || worker.run(&control[0]))?;
    let run = moved.run(moved.end.core_ns, moved.end.error.as_ref());
    let document = LbDocument::new(&worker.datapath, &moved.end, &caps, run);
    frame.show(&document, || document.text())?;
    Ok(document.run.error.is_none() && document.unexplained == 0)
}

/// The worker, and the facts about its ports.
fn open(args: &Args, control: &Control) -> Result<(Worker<Balancer>, Vec<Caps>), String> {
    let groups = groups(&args.output, &args.pipes, &args.input)?;
    let input = open::specs(std::slice::from_ref(&args.input))?;
    let specs = [input, open::specs(&groups.concat())?].concat();
    let (extra, batch) = (args.extra as usize, args.moving.batch as usize);
    let pools = open::pools(&specs, extra)?;
    let mut ports = Vec::new();
    for (number, (spec, pool)) in specs.iter().zip(&pools).enumerate() {
        let usage = if number == 0 { Direction::Receive } else { Direction::Transmit };
        ports.push(open::open_noted(spec, usage, pool, args.moving.quiet)?);
    }
    let caps: Vec<Caps> = ports.iter().map(|port| port.caps().clone()).collect();
    let pool = &pools[0];
    // Room for the longest packet.
    let slots = caps[0].frame_len_max.div_ceil(pool.packet_len_max().max(1)).min(caps[0].frags_max).max(batch);
    let output = |away: &Pool| Output::new(away, !Arc::ptr_eq(away.region(), pool.region()), extra + 2 * slots);
    let balancer = Balancer {
        outputs: pools[1..].iter().map(output).collect(),
        groups: groups.iter().map(Vec::len).collect(),
        extra,
        received: 0,
        meter: Arc::clone(&control.meter),
    };
    let config = Config { batch: slots, timestamps: true, ..Config::default() };
    let worker = Worker::new(balancer, pool, config, Box::new(|_| ()));
    let (mut worker, _) = worker.map_err(|error| format!("a descriptor to wake the worker: {error}"))?;
    for (number, (port, pool)) in ports.into_iter().zip(&pools).enumerate() {
        worker.attach(port, pool, Role { receives: number == 0, ..Role::default() });
    }
    Ok((worker, caps))
}
