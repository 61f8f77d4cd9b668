//! `linerate send`: streams into ports, paced and accounted for; with `--receive`, both ends of a path.

use std::process::ExitCode;
use std::time::SystemTime;

use linerate_gen::{Receiver, ReceiverConfig, Start};
use linerate_mem::Pool;
use linerate_port::PortSpec;
use linerate_ports::Usage;
use linerate_report::Timestamp;
use linerate_sys::signal;

use crate::pktgen::log;
use crate::traffic::cores::Cores;
use crate::traffic::document::SendDocument;
use crate::traffic::open::{self, open_noted};
use crate::traffic::prepare::prepare;
use crate::traffic::sending::{self, Beside, Job};
use crate::traffic::streams::{StreamFlags, Wanted, describe};
use crate::traffic::{note, text};

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
  linerate send eth1 --set ethernet.destination=02:00:00:00:00:07 --set ipv4.destination=192.0.2.1 --rate 50%
      to a router, until Ctrl-C
  linerate send eth1 eth2 --file examples/streams/mixed.toml --json
      a stream file on two ports, the result as JSON
  linerate send --show --size imix --vary vlan.id=1..4094 --layers ethernet/vlan/ipv4/udp
      the stream file that flags stand for, its first packet; nothing is sent

Sizes are bytes on the wire, FCS included: 64 is the shortest frame. Ports: `linerate ports` lists them.
Exit status: 0 everything was sent (and, with --receive, arrived); 1 something was not; 2 nothing was sent.";

/// Arguments of `linerate send`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Ports to send on, each with a thread of its own
    #[arg(value_name = "PORT", required_unless_present = "show")]
    ports: Vec<String>,
    /// Also receive on this port, in this process, and account for every packet. The other end of a pipe: is received by itself
    #[arg(long, value_name = "PORT")]
    receive: Vec<String>,
    #[command(flatten)]
    streams: StreamFlags,
    /// Most packets made and handed to a port at once [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096), help_heading = "Running")]
    batch: Option<u16>,
    /// Cores of the threads, senders first: 2,3 or 2-5, or none [default: one each if there are enough]
    #[arg(long, value_name = "LIST", help_heading = "Running")]
    cores: Option<String>,
    /// Print the stream file that the flags stand for, with what comes of it, and send nothing
    #[arg(long, help_heading = "Running")]
    show: bool,
    /// Print one JSON document (linerate.send/1) on stdout
    #[arg(long, help_heading = "Running")]
    json: bool,
    /// No progress and no notes on stderr
    #[arg(short, long, help_heading = "Running")]
    quiet: bool,
}

/// Sends. Status 1 when something that was asked for was not sent or did not arrive, 2 when it could not start.
pub fn run(args: &Args) -> ExitCode {
    match try_run(args) {
        Ok(complete) => ExitCode::from(u8::from(!complete)),
        Err(error) => {
            note(&format!("linerate send: {error}"));
            ExitCode::from(2)
        }
    }
}

fn try_run(args: &Args) -> Result<bool, String> {
    let wanted = args.streams.read()?;
    if args.show {
        show(&wanted);
        return Ok(true);
    }
    let specs = open::specs(&args.ports)?;
    let receive_specs = receive_specs(args, &specs)?;
    let threads = specs.len() + usize::from(!receive_specs.is_empty());
    let cores = Cores::choose(args.cores.as_deref(), threads)?;
    let pool = open::pool(&specs, &receive_specs, wanted.file.len_max())?;
    let beside = beside(&receive_specs, &pool, cores.of(specs.len()), args.quiet)?;
    let jobs = jobs(args, &specs, &wanted, &pool, &cores)?;
    if !args.quiet {
        introduce(&wanted, &jobs, cores.note.as_deref());
    }
    signal::catch_stop_signals().map_err(|error| format!("cannot catch signals: {error}"))?;
    let started = Timestamp::from_system(SystemTime::now());
    let (sent, received) = sending::run(jobs, beside, &pool, args.quiet)?;
    let document = SendDocument::new(&wanted.file, &sent, received.as_ref(), started, signal::stop_requested());
    if args.json {
        log::out(&serde_json::to_string_pretty(&document).map_err(|error| error.to_string())?);
    } else {
        log::out(&text::sent(&document));
    }
    Ok(document.is_complete())
}

/// The ports to receive on: those asked for, and the other ends of pipes, which nobody else can open.
fn receive_specs(args: &Args, specs: &[PortSpec]) -> Result<Vec<PortSpec>, String> {
    let mut receive = open::specs(&args.receive)?;
    for spec in specs.iter().filter(|spec| spec.backend.as_deref() == Some("pipe")) {
        let is_same = |other: &PortSpec| other.backend == spec.backend && other.target == spec.target;
        if !receive.iter().chain(specs.iter().filter(|other| !std::ptr::eq(*other, spec))).any(is_same) {
            receive.push(spec.clone());
        }
    }
    Ok(receive)
}

fn beside(specs: &[PortSpec], pool: &Pool, core: Option<usize>, quiet: bool) -> Result<Option<Beside>, String> {
    if specs.is_empty() {
        return Ok(None);
    }
    let open = |spec: &PortSpec| open_noted(spec, Usage::Receiving, pool, quiet);
    let ports = specs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let receiver = Receiver::new(ReceiverConfig { start: Start::At(0), ..ReceiverConfig::default() });
    Ok(Some(Beside { ports, receiver, core }))
}

fn jobs(args: &Args, specs: &[PortSpec], wanted: &Wanted, pool: &Pool, cores: &Cores) -> Result<Vec<Job>, String> {
    let mut jobs = Vec::with_capacity(specs.len());
    for (position, spec) in specs.iter().enumerate() {
        let port = open_noted(spec, Usage::Sending, pool, args.quiet)?;
        let prepared = prepare(&wanted.file, wanted.rate, port.caps(), position, args.batch.map(usize::from))?;
        jobs.push(Job { port, prepared, core: cores.of(position) });
    }
    Ok(jobs)
}

/// Says what is about to be sent.
fn introduce(wanted: &Wanted, jobs: &[Job], cores_note: Option<&str>) {
    for (position, entry) in wanted.file.streams.iter().enumerate() {
        describe(position, entry).iter().for_each(|line| note(line));
    }
    jobs.iter().flat_map(|job| &job.prepared.notes).for_each(|line| note(line));
    cores_note.into_iter().for_each(note);
}

fn show(wanted: &Wanted) {
    let mut text = wanted.text.trim_end().to_string();
    text.push('\n');
    for (position, entry) in wanted.file.streams.iter().enumerate() {
        describe(position, entry).iter().for_each(|line| text += &format!("\n# {line}"));
    }
    log::out(&text);
}
