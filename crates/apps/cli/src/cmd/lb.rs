//! `linerate lb`: spreads one port over several.

use std::process::ExitCode;
use std::sync::Arc;

use linerate_bridge::frame::{Frame, MovingArgs, ProgressLane, exit};
use linerate_bridge::lb::document::{LbDocument, input_name};
use linerate_bridge::lb::run::{Lb, Plan};
use linerate_console::cores::{Cores, list_of};
use linerate_console::note;
use linerate_worker::Control;

const EXAMPLES: &str = "\
Examples:
  linerate lb -i eth1 -o eth2 -o eth3
      half of the flows to each; both directions of a flow to the same
  linerate lb -i file:in.pcap -p 'file:out-{}.pcapng:4'
      splits a capture by flow (any user)
  linerate lb -i eth1 -p ids:4 -p log:1
      every packet to one of ids}0 to ids}3, and a copy of it to log}0
  linerate lb -i xdp:eth1 --queues 2 --cores 2-4 -p ids:3
      two cores take a queue of eth1 each, and three cores send to one port each

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
    /// Workers, each on one of these cores, as 2,3 or 2-5; outputs are divided among them in turn, packets for one of another worker cross
    /// by a ring, without their timestamps [default: one worker]
    #[arg(long, value_name = "LIST", conflicts_with = "core")]
    cores: Option<String>,
    /// Queues of the input, each served by one of the first workers. An input of one queue has one worker, which spreads the flows over outputs
    /// of all workers [default: what the port opens by itself, by the first]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    queues: Option<u32>,
    /// Packets (frames) that may wait in a worker, over all outputs; then the longest queue loses its oldest
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
    let workers = match args.cores.as_deref() {
        None | Some("none") => 1,
        Some(list) => list_of(list)?.len(),
    };
    let cores = args.cores.as_deref().map(|list| Cores::choose(Some(list), workers)).transpose()?;
    cores.iter().filter_map(|cores| cores.note.as_deref()).filter(|_| !args.moving.quiet).for_each(note);
    let controls: Vec<Control> = (0..workers).map(|_| Control::default()).collect();
    let plan = Plan {
        input: &args.input,
        queues: args.queues,
        workers,
        outputs: &args.output,
        pipes: &args.pipes,
        extra: args.extra as usize,
        batch: args.moving.batch as usize,
        quiet: args.moving.quiet,
    };
    let lb = Lb::open(&plan, &controls)?;
    let caps = (lb.inputs.clone(), lb.outputs.clone());
    frame.begin(caps.0.iter().chain(&caps.1))?;
    let input = input_name(&caps.0);
    let name =
        |worker: usize| if workers == 1 { format!("{input} ->") } else { format!("{input} by worker {worker} ->") };
    let lane = |(worker, control): (usize, &Control)| ProgressLane {
        name: name(worker),
        meters: vec![Arc::clone(&control.meter)],
    };
    let lanes: Vec<ProgressLane> = controls.iter().enumerate().map(lane).collect();
    let moved = frame.run(&lanes, &controls, || lb.run(&controls, cores.as_ref()))?;
    let core_ns = moved.end.workers.iter().map(|worker| worker.core_ns).sum();
    let run = moved.run(core_ns, moved.end.error.as_ref());
    let document = LbDocument::new(&moved.end, (&caps.0, &caps.1), cores.as_ref(), run);
    frame.warn(document.uneven());
    frame.show(&document, || document.text())?;
    Ok(document.run.error.is_none() && document.unexplained == 0)
}
