//! `linerate lb`: spreads one port over several.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use linerate_lab::run::Control;
use linerate_mem::Pool;
use linerate_port::{Port, PortSpec};
use linerate_ports::Usage;
use linerate_report::Timestamp;
use linerate_sys::{clock, signal};

use super::bridge::span_ns;
use crate::lb::balance::Balancer;
use crate::lb::document::{Facts, LbDocument};
use crate::lb::groups::groups;
use crate::lb::output::Output;
use crate::pktgen::log;
use crate::traffic::cores::Cores;
use crate::traffic::document::tool;
use crate::traffic::receiving::EndedBy;
use crate::traffic::watch::{self, Manner};
use crate::traffic::{note, open};

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
    /// Packets taken from the input at once, at most
    #[arg(short, long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// Waits so long before it begins, for links to come up: 2s, 500ms; a number is seconds
    #[arg(short, long, value_name = "TIME")]
    wait: Option<String>,
    /// Ends after this time: 10s, 500ms, 2m [default: at Ctrl-C, or when nothing can come any more]
    #[arg(short, long, value_name = "TIME")]
    duration: Option<String>,
    /// Core of the thread that moves packets [default: any]
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,
    /// Print one JSON document (linerate.lb/1) on stdout
    #[arg(long)]
    json: bool,
    /// No progress and no notes on stderr
    #[arg(short, long)]
    quiet: bool,
}

/// Balances. Status 1 when a port broke or a packet is unaccounted for, 2 when it could not start.
pub fn run(args: &Args) -> ExitCode {
    match try_run(args) {
        Ok(fine) => ExitCode::from(u8::from(!fine)),
        Err(error) => {
            note(&format!("linerate lb: {error}"));
            ExitCode::from(2)
        }
    }
}

fn try_run(args: &Args) -> Result<bool, String> {
    let span = |flag: &str, text: &Option<String>| {
        text.as_ref().map(|text| span_ns(text)).transpose().map_err(|error| format!("--{flag}: {error}"))
    };
    let (wait_ns, duration_ns) = (span("wait", &args.wait)?, span("duration", &args.duration)?);
    let core = args.core.map(|core| Cores::choose(Some(&core.to_string()), 1)).transpose()?;
    let mut balancer = open(args)?;
    signal::catch_stop_signals().map_err(|error| format!("cannot catch signals: {error}"))?;
    if let Some(wait_ns) = wait_ns {
        clock::sleep_until_ns(clock::now_ns() + wait_ns);
    }
    if !args.quiet {
        let ports = std::iter::once(&balancer.input).chain(balancer.outputs.iter().map(|output| &output.port));
        ports.for_each(|port| note(&format!("{} ({}; {})", port.caps().name, port.caps().detail, port.caps().copies)));
    }
    let started = Timestamp::from_system(SystemTime::now());
    let manner = Manner { core: core.and_then(|core| core.of(0)), duration_ns, quiet: args.quiet };
    let (names, controls) = ([format!("{} ->", balancer.input.caps().name)], [Control::default()]);
    let (end, ended_by, took_ns) = watch::watch(manner, &names, &controls, || balancer.run(&controls[0]))?;
    let ended_by = if end.error.is_some() { EndedBy::Error } else { ended_by };
    let document = LbDocument::new(&balancer, &end, Facts { started, took_ns, ended_by, tool: tool() });
    if args.json {
        log::out(&serde_json::to_string_pretty(&document).map_err(|error| error.to_string())?);
    } else {
        log::out(&document.text());
    }
    Ok(ended_by != EndedBy::Error && document.unexplained == 0)
}

fn open(args: &Args) -> Result<Balancer, String> {
    let groups = groups(&args.output, &args.pipes, &args.input)?;
    let input = open::specs(std::slice::from_ref(&args.input))?;
    let outputs = open::specs(&groups.concat())?;
    let (extra, batch) = (args.extra as usize, args.batch as usize);
    let pools = open::pools(&[input.clone(), outputs.clone()].concat(), extra)?;
    let pool = &pools[0];
    let near = open::open_noted(&input[0], Usage::Receiving, pool, args.quiet)?;
    // Room for the longest packet.
    let slots = near.caps().frame_len_max.div_ceil(pool.packet_len_max().max(1)).min(near.caps().segments_max);
    let batch = batch.max(slots);
    let output = |(spec, away): (&PortSpec, &Pool)| -> Result<Output, String> {
        let port: Box<dyn Port> = open::open_noted(spec, Usage::Sending, away, args.quiet)?;
        let same = Arc::ptr_eq(away.region(), pool.region());
        Ok(Output::new(port, pool, (!same).then_some(away), extra + 2 * batch, batch))
    };
    let outputs = outputs.iter().zip(&pools[1..]).map(output).collect::<Result<Vec<_>, _>>()?;
    Ok(Balancer::new(near, outputs, groups.iter().map(Vec::len).collect(), pool, extra, batch))
}
