//! `linerate ofswitch`: the OpenFlow switch, and `linerate ofswitch ctl`, which talks to a running one.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use linerate_control::{SettingValue, StartError};
use linerate_ofswitch::{Config, Options, Running};
use linerate_sys::signal;
use linerate_units::duration_ns;

use crate::ofswitch::text;
use crate::running::{self, print_json};
use linerate_console::note;

use super::{ofswitch_ctl, status};

const EXAMPLES: &str = "\
Examples:
  linerate ofswitch --port 1=veth0 --port 2=veth1 --controller tcp:127.0.0.1:6653
      two interfaces under a controller, for example os-ken's or ovs-testcontroller; Ctrl-C prints the account of all packets
  linerate ofswitch --port 1=veth0 --port 2=veth1 --flows start.flows
      no controller: the entries of a file, a line each, as in: table=0,priority=10,in_port=1,actions=output:2
  linerate ofswitch --port 1=memif:/run/a --port 2=vhost:/run/b --port LOCAL=tap:of0 --listen ptcp:6634:127.0.0.1 --cores 1
      ports to a VPP or DPDK program, to a virtual machine and to this host; `ovs-ofctl -O OpenFlow13 show tcp:127.0.0.1:6634`
  linerate ofswitch --port 1=eth1 --port 2=eth2 --controller ssl:10.0.0.1:6653 --private-key sw.key --certificate sw.pem --ca-cert ca.pem
      an encrypted channel; both sides show certificates
  linerate ofswitch --port 1=tap:a --port 2=tap:b --flows start.flows --steer --cores 0,1
      each core has a port of one queue, and packets of both go through the tables of both, flow by flow
  linerate ofswitch ctl show flow              also: table, flowcache, interface, bridge-domains, controller, group, meter, port, queue; --json
  linerate ofswitch ctl add-flow priority=5,tcp,tcp_dst=80,actions=output:2
  linerate ofswitch ctl trace in_port=1,tcp,nw_dst=10.0.0.1,tcp_dst=80
      through which entries this packet would go, and why

A port is any of `linerate ports`; the number before = is its OpenFlow number. Settings of a port (--set PORT.KEY=VALUE, or a file's [[port]]):
  tunnel-id=N            value of the field TUNNEL_ID for packets from this port, for a port that is the end of a tunnel
  physical=N             value of IN_PHY_PORT: the port below a tunnel's
  speed=10Gbit/s         rate that is reported, and of which rates of queues are a share [default: 10Gbit/s]

Without a controller that is connected, --fail-mode secure keeps the entries in force (what matches none is dropped), and standalone
forwards like a learning switch. Connections to --listen addresses do not count for this. docs/ofswitch.md tells the rest.
Exit status: 0 done; 1 a port broke and did not come back, or the account does not balance; 2 could not start.";

/// Arguments of `linerate ofswitch`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// A port of the switch with its OpenFlow number, 1 to 4294967040, or LOCAL
    #[arg(short, long = "port", value_name = "NUMBER=SPEC")]
    ports: Vec<String>,
    /// A setting of a port, see below
    #[arg(short, long = "set", value_name = "PORT.KEY=VALUE")]
    settings: Vec<String>,
    /// A controller to connect to: tcp:HOST[:PORT] or ssl:HOST[:PORT]; ,aux=N adds auxiliary connections, ,udp-aux=N such by UDP
    #[arg(short, long = "controller", value_name = "TARGET")]
    controllers: Vec<String>,
    /// An address at which controllers and ovs-ofctl may connect: ptcp:PORT[:IP] or pssl:PORT[:IP]
    #[arg(short, long = "listen", value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Flow entries, groups and meters that are there from the start: a file in ovs-ofctl's syntax, or of `ctl save`
    #[arg(long, value_name = "FILE")]
    flows: Option<PathBuf>,
    /// A TOML file with the same words; flags come on top
    #[arg(short = 'f', long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Name of the switch, and of its sockets [default: ofswitch]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Datapath ID, up to 16 hexadecimal digits [default: made of the name]
    #[arg(long, value_name = "HEX")]
    dpid: Option<String>,
    /// Without a controller: secure or standalone [default: secure]
    #[arg(long, value_name = "MODE")]
    fail_mode: Option<String>,
    /// IP fragments: normal, drop or reassemble [default: normal]
    #[arg(long, value_name = "WAY")]
    fragments: Option<String>,
    /// CPU cores to pin workers to, one worker for each: 1, 1,2 or 0-3 [default: one worker, not pinned]
    #[arg(long, value_name = "LIST")]
    cores: Option<String>,
    /// Queue pairs of each port, divided among the workers of --cores: what arrives by a queue goes through the tables on its worker, and leaves
    /// by that worker's queues of the other port, flows in order. Not with [[queue]]s [default: what the port opens by itself, for one worker]
    #[arg(long, value_name = "N")]
    queues: Option<NonZeroU32>,
    /// What arrives at a port of fewer queues than there are workers (tap, pipe, most veths) goes through the tables of all workers of --cores, flow by
    /// flow: the worker that has the port hands it over, flows in order. Worth it where a decision takes more than some 250 ns
    #[arg(long)]
    steer: bool,
    /// Most entries of each flow table [default: 1000000]
    #[arg(long, value_name = "N")]
    table_size: Option<u32>,
    /// Most packet-ins a second for each controller [default: no limit]
    #[arg(long, value_name = "N")]
    packet_in_rate: Option<u64>,
    /// Private key for ssl: and pssl:, in PEM
    #[arg(long, value_name = "FILE")]
    private_key: Option<PathBuf>,
    /// Certificate of the switch, in PEM
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Certificates of the authorities that sign controllers' certificates, in PEM
    #[arg(long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
    /// Most ports at a time; memory is set aside for them [default: those given, and 8]
    #[arg(long, value_name = "N")]
    ports_max: Option<usize>,
    /// Longest packet in bytes without FCS [default: that of the interfaces given, or 1526]
    #[arg(long, value_name = "BYTES")]
    frame_len_max: Option<usize>,
    /// End after this time: 10s, 500ms, 2m [default: at Ctrl-C]
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Print a JSON document (linerate.ofswitch/1) on stdout each second, and one at the end
    #[arg(long)]
    json: bool,
    /// No progress and no notes on stderr, no account at the end
    #[arg(short, long)]
    quiet: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Query and change a running switch
    Ctl(ofswitch_ctl::Args),
}

/// Runs the switch, or talks to one.
pub fn run(args: &Args) -> ExitCode {
    if let Some(Command::Ctl(args)) = &args.command {
        return ofswitch_ctl::run(args);
    }
    status::of("linerate ofswitch", switch(args))
}

/// True when all went well.
fn switch(args: &Args) -> Result<bool, String> {
    let config = config(args)?;
    let run_ns =
        args.duration.as_deref().map(duration_ns).transpose().map_err(|error| format!("--duration: {error}"))?;
    signal::catch_stop_signals().map_err(|error| error.to_string())?;
    let quiet = args.quiet;
    let on_event = Arc::new(move |line: &str| {
        if !quiet {
            note(line)
        }
    });
    let running = linerate_ofswitch::start(&config, Options { folder: None, on_event });
    let running = running.map_err(|error: StartError| error.to_string())?;
    if !quiet {
        announce(&running);
    }
    running::wait_for_end(
        run_ns,
        || running.has_ended(),
        |timeout_ns| running.sleep(timeout_ns),
        || {
            if args.json
                && let Ok(snapshot) = running.snapshot()
            {
                print_json(&snapshot);
            }
        },
    );
    let ended = running.stop().map_err(|error| error.to_string())?;
    if args.json {
        print_json(&ended.snapshot);
    } else if !quiet {
        linerate_console::print(&text::account(&ended.snapshot));
        if ended.snapshot.workers.len() > 1 {
            linerate_console::print(&text::workers(&ended.snapshot));
        }
    }
    if ended.frames_missing > 0 {
        note(&format!("{} frames did not come back; this is a bug of a port", ended.frames_missing));
    }
    Ok(ended.snapshot.totals.unbalanced.is_none() && ended.frames_missing == 0 && !ended.port_lost)
}

fn announce(running: &Running) {
    let dir = running.dir();
    note(&format!("OpenFlow switch {:?} is running; its control socket is {}", dir.name(), dir.control().display()));
    for address in running.listening() {
        note(&format!("controllers may connect to {address}"));
    }
}

/// The file, then the flags.
fn config(args: &Args) -> Result<Config, String> {
    let mut config = running::configuration(args.config.as_deref(), Config::parse)?;
    for port in &args.ports {
        config.add_port(port).map_err(|error| error.to_string())?;
    }
    for setting in &args.settings {
        config.set(setting).map_err(|error| error.to_string())?;
    }
    config.controllers.extend(args.controllers.iter().cloned());
    config.listen.extend(args.listen.iter().cloned());
    if let Some(list) = &args.cores {
        config.cores = linerate_console::cores::list_of(list)?;
    }
    config.queue_pairs = args.queues.or(config.queue_pairs);
    config.steer |= args.steer;
    config.name = args.name.clone().or(config.name);
    config.dpid = args.dpid.clone().map(SettingValue).or(config.dpid);
    config.fail_mode = args.fail_mode.clone().or(config.fail_mode);
    config.fragments = args.fragments.clone().or(config.fragments);
    config.flows = args.flows.clone().or(config.flows);
    config.table_size = args.table_size.or(config.table_size);
    config.packet_in_rate = args.packet_in_rate.or(config.packet_in_rate);
    config.private_key = args.private_key.clone().or(config.private_key);
    config.certificate = args.certificate.clone().or(config.certificate);
    config.ca_cert = args.ca_cert.clone().or(config.ca_cert);
    config.ports_max = args.ports_max.or(config.ports_max);
    config.frame_len_max = args.frame_len_max.or(config.frame_len_max);
    Ok(config)
}
