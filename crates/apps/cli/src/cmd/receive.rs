//! `linerate receive`: what arrives on ports, counted by stream.

use std::process::ExitCode;
use std::time::SystemTime;

use linerate_gen::{ReceiverConfig, Start, WINDOW_DEFAULT};
use linerate_port::{Caps, FarSide};
use linerate_report::Timestamp;
use linerate_sys::signal;
use linerate_units::{count, positive_duration_ns};
use linerate_worker::Control;

use super::status;
use linerate_console::cores::Cores;
use linerate_console::note;
use linerate_console::open::{self, Division};
use linerate_console::print;
use linerate_console::tool;
use linerate_console::watch::{EndedBy, Ends, WatchOptions, watch};
use linerate_traffic::document::{RECEIVE_SCHEMA, ReceiveDocument, ReceivedAll};
use linerate_traffic::progress::{self, Snapshot};
use linerate_traffic::receiving::{Share, receive_all};
use linerate_traffic::text;

const EXAMPLES: &str = "\
Examples:
  linerate receive veth1
      counts until Ctrl-C; `linerate send veth0` on the other side makes the packets
  linerate receive eth2 --expect 1000000 --duration 20s --json
      ends at a million packets, or after 20 s with status 1
  linerate receive eth2 --idle-exit 1s
      ends a second after the last packet
  linerate receive file:capture.pcapng
      what a capture of signed packets says about loss and order (any user)

Delivered are distinct packets, lost those whose numbers are missing, reordered (RFC 4737) those that came after a higher
number. Latency is from the scheduled departure, so a sender that falls behind does not hide it; sender and receiver must
share a clock, that is, run on one host. A pipe: lies inside one process: `linerate send pipe:a` sends and receives.
Exit status: 0 done; 1 fewer packets than expected, or a port broke; 2 could not start.";

/// Arguments of `linerate receive`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Ports to receive on; streams may be spread over them
    #[arg(value_name = "PORT", required = true)]
    ports: Vec<String>,
    /// Ends when so many packets have arrived, of any kind
    #[arg(short = 'n', long, value_name = "N", value_parser = count)]
    expect: Option<u64>,
    /// Ends after this time: 10s, 500ms, 2m [default: at Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = positive_duration_ns)]
    duration: Option<u64>,
    /// Ends when packets have arrived and then none for this long
    #[arg(short = 'W', long, value_name = "TIME", value_parser = positive_duration_ns)]
    idle_exit: Option<u64>,
    /// Packets missing before the first one seen of a stream are lost, too: the sender starts after this receiver
    #[arg(long)]
    from_start: bool,
    /// Numbers back for which late packets are told from duplicates
    #[arg(long, value_name = "N", default_value_t = WINDOW_DEFAULT, value_parser = clap::value_parser!(u64).range(64..=1 << 28))]
    window: u64,
    /// Cores of the receiving threads, as 2,3 or 2-5, or none [default: the last ones that no other Linerate uses]. The queues of each port
    /// are divided among as many threads as there are cores
    #[arg(long, value_name = "LIST")]
    cores: Option<String>,
    /// Queues of each port to receive from, each by a thread of its own unless --cores names fewer cores; a port of one queue has one thread,
    /// because checking a packet costs less than steering it to another core [default: those that the port has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    queues: Option<u32>,
    /// Print one JSON document (linerate.receive/1) on stdout
    #[arg(long)]
    json: bool,
    /// No progress and no notes on stderr
    #[arg(short, long)]
    quiet: bool,
}

/// Receives. Status 1 when fewer packets arrived than expected or a port broke, 2 when it could not start.
pub fn run(args: &Args) -> ExitCode {
    status::of("linerate receive", try_run(args))
}

fn try_run(args: &Args) -> Result<bool, String> {
    let ends = Ends { expected: args.expect, duration_ns: args.duration, idle_ns: args.idle_exit };
    let specs = open::specs(&args.ports)?;
    if let Some(pipe) = specs.iter().find(|spec| linerate_ports::far_side(spec) == FarSide::Process) {
        return Err(format!(
            "{pipe} lies inside one process, so nothing can arrive here; `linerate send {pipe}` sends and receives"
        ));
    }
    let division = Division::of(args.cores.as_deref(), args.queues, 1, 0)?;
    let cores = Cores::choose(args.cores.as_deref(), division.threads)?;
    cores.note.iter().filter(|_| !args.quiet).for_each(|line| note(line));
    let pool = open::pool((&[], division), (&specs, division), 0)?;
    let mut shares = Share::open(&specs, division, &pool, args.quiet, |caps| config(args, caps))?;
    shares.iter_mut().enumerate().for_each(|(thread, share)| share.core = cores.of(thread));
    signal::catch_stop_signals().map_err(|error| format!("cannot catch signals: {error}"))?;
    let started = Timestamp::from_system(SystemTime::now());
    if !args.quiet {
        let ports = shares.iter().flat_map(|share| &share.ports);
        ports.for_each(|port| note(&format!("receiving on {} ({})", port.caps().name, port.caps().detail)));
    }
    let controls: Vec<Control> = shares.iter().map(|_| Control::default()).collect();
    let mut before = Snapshot::default();
    let mut line = |seconds| {
        let received = Snapshot::sum(controls.iter().map(|control| control.meter.read()));
        let now = Snapshot { sent: None, received: Some(received), queues_divide: controls.len() > 1 };
        let line = progress::line(&before, &now, seconds);
        before = now;
        line
    };
    let options = WatchOptions { core: None, ends, quiet: args.quiet };
    let (received, ended_by, took_ns) = watch(options, &controls, &mut line, || receive_all(shares, &pool, &controls))?;
    let received = ReceivedAll::new(&received?, None);
    let document = ReceiveDocument {
        schema: RECEIVE_SCHEMA,
        tool: tool(),
        started,
        seconds: took_ns as f64 / 1e9,
        ended_by: if received.error.is_some() { EndedBy::Error } else { ended_by },
        expected: args.expect,
        received,
    };
    document.received.uneven().iter().filter(|_| !args.quiet).for_each(|line| note(line));
    if args.json {
        print(&serde_json::to_string_pretty(&document).map_err(|error| error.to_string())?);
    } else {
        print(&text::counted(&document));
    }
    let enough = args.expect.is_none_or(|expected| document.received.packets >= expected);
    Ok(enough && document.ended_by != EndedBy::Error)
}

/// A capture's times are not those of this host's clock.
fn config(args: &Args, ports: &[Caps]) -> ReceiverConfig {
    let captured = ports.iter().any(|caps| caps.far_side == FarSide::File);
    let start = if args.from_start { Start::At(0) } else { Start::FirstSeen };
    ReceiverConfig { start, window: args.window, streams: None, same_clock: !captured }
}
