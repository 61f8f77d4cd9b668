//! `linerate lb`: spreads one port over several.

use std::process::ExitCode;

use linerate_bridge::frame::{Frame, MovingArgs, exit};
use linerate_bridge::lb::document::LbDocument;
use linerate_bridge::lb::run::{Lb, Plan};
use linerate_worker::Control;

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
    let plan = Plan {
        input: &args.input,
        outputs: &args.output,
        pipes: &args.pipes,
        extra: args.extra as usize,
        batch: args.moving.batch as usize,
        quiet: args.moving.quiet,
    };
    let mut lb = Lb::open(&plan, &control[0])?;
    frame.begin(lb.caps.iter())?;
    let moved = frame.run(&[format!("{} ->", lb.caps[0].name)], &control, || lb.run(&control[0]))?;
    let run = moved.run(moved.end.core_ns, moved.end.error.as_ref());
    let document = LbDocument::new(lb.datapath(), &moved.end, &lb.caps, run);
    frame.show(&document, || document.text())?;
    Ok(document.run.error.is_none() && document.unexplained == 0)
}
