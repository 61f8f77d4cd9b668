//! `linerate lb`: spreads one port over several.

use std::process::ExitCode;
use std::sync::Arc;

use linerate_mem::Pool;
use linerate_port::{Port, PortSpec};
use linerate_ports::Usage;
use linerate_worker::Control;

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
    let mut balancer = open(args)?;
    let ports = std::iter::once(&balancer.input).chain(balancer.outputs.iter().map(|output| &output.port));
    frame.begin(ports.map(|port| port.caps()))?;
    let (names, controls) = ([format!("{} ->", balancer.input.caps().name)], [Control::default()]);
    let moved = frame.run(&names, &controls, || balancer.run(&controls[0]))?;
    let run = moved.run(moved.end.core_ns, moved.end.error.as_ref());
    let document = LbDocument::new(&balancer, &moved.end, run);
    frame.show(&document, || document.text())?;
    Ok(document.run.error.is_none() && document.unexplained == 0)
}

fn open(args: &Args) -> Result<Balancer, String> {
    let groups = groups(&args.output, &args.pipes, &args.input)?;
    let input = open::specs(std::slice::from_ref(&args.input))?;
    let outputs = open::specs(&groups.concat())?;
    let (extra, batch) = (args.extra as usize, args.moving.batch as usize);
    let pools = open::pools(&[input.clone(), outputs.clone()].concat(), extra)?;
    let pool = &pools[0];
    let near = open::open_noted(&input[0], Usage::Receiving, pool, args.moving.quiet)?;
    // Room for the longest packet.
    let slots = near.caps().frame_len_max.div_ceil(pool.packet_len_max().max(1)).min(near.caps().frags_max);
    let batch = batch.max(slots);
    let output = |(spec, away): (&PortSpec, &Pool)| -> Result<Output, String> {
        let port: Box<dyn Port> = open::open_noted(spec, Usage::Sending, away, args.moving.quiet)?;
        let same = Arc::ptr_eq(away.region(), pool.region());
        Ok(Output::new(port, pool, (!same).then_some(away), extra + 2 * batch, batch))
    };
    let outputs = outputs.iter().zip(&pools[1..]).map(output).collect::<Result<Vec<_>, _>>()?;
    Ok(Balancer::new(near, outputs, groups.iter().map(Vec::len).collect(), pool, extra, batch))
}
