//! `linerate switch`: the software switch, and `linerate switch ctl`, which talks to a running one.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;

use linerate_control::SettingValue;
use linerate_switch::config::{Config, MacConfig, MirrorConfig};
use linerate_switch::{Options, StartError};
use linerate_sys::signal;
use linerate_units::duration_ns;

use crate::running::{self, print_json};
use crate::switch::progress::{Form, Progress};
use crate::switch::text;
use linerate_console::note;

use super::{status, switch_ctl};

const EXAMPLES: &str = "\
Examples:
  linerate switch --port a=tap:lab-a --port b=tap:lab-b
      two TAP devices on one switch; Ctrl-C prints the account of all packets
  linerate switch --port veth0 --port veth2 --set veth0.access=10 --set veth2.trunk=10,20-30 --mirror from=veth0,to=file:copy.pcapng
      VLANs, and a copy of what one port sends and gets
  linerate switch --name lab --port up=eth1 --port vm=vhost:/run/vm.sock --port vpp=memif:/run/vpp.sock --cores 1
      an interface, a virtual machine and a VPP or DPDK program (memif), on a core of its own
  linerate switch --port a=eth1 --port b=eth2 --port c=vhost:/run/c.sock --cores 0,1
      on two cores, which serve the ports in turn (a and c, b) and have one MAC table
  linerate switch --port a=eth1 --port b=eth2 --queues 4 --cores 0-3
      four queue pairs of each port, each with a core, and one MAC table
  linerate switch --port a=tap:a --port b=tap:b --steer --cores 0,1
      each core has a port of one queue, and both decide on the packets of both
  linerate switch ctl --name lab show ports           also: macs, stats, drops, vlans, latency, mirrors; --json
  linerate switch ctl --name lab add-port x=tap:x access=10
  linerate pkt-gen -i vale0:a -f rx & linerate pkt-gen -i vale0:b -f tx
      the names of netmap's VALE: the switch vale0 is found, or started for as long as it is used

A port is any of `linerate ports`. Settings of a port (--set PORT.KEY=VALUE, or the words of a file's [[port]]):
  access=VLAN            in one VLAN, packets without tags
  trunk=all|10,20-30     packets with the tags of these VLANs
  native=VLAN|none       of a trunk: VLAN of packets without tag
  qinq=VLAN              all packets, tags and all, in this VLAN
  ethertype=0x88a8       of a trunk: service tags
  isolated=yes           nothing to other isolated ports
  learning=no            learn no addresses here
  monitor=yes            gets the copies of mirrors only
  rate=10M               ingress limit, bit/s
  rate-packets=10k       ingress limit, packets/s
  storm-broadcast=1k     limit of flooded packets, packets/s; also storm-multicast, storm-unknown

docs/switch.md tells what happens to a packet, and describes the control socket.
Exit status: 0 done; 1 a port broke and did not come back, or the account does not balance; 2 could not start.";

/// Arguments of `linerate switch`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// A port of the switch; its name is taken from the spec if there is none
    #[arg(short, long = "port", value_name = "[NAME=]SPEC")]
    ports: Vec<String>,
    /// A setting of a port, see below
    #[arg(short, long = "set", value_name = "PORT.KEY=VALUE")]
    settings: Vec<String>,
    /// Copies packets to a port, or to one that is opened for it: from=PORT[,direction=ingress|egress], vlan=N, or src=, dst=, proto=, sport=,
    /// dport=; then ,to=PORT|SPEC
    #[arg(short, long = "mirror", value_name = "WORDS")]
    mirrors: Vec<String>,
    /// An address that stays at a port
    #[arg(long = "mac", value_name = "MAC=PORT[,vlan=N]")]
    macs: Vec<String>,
    /// A TOML file with the same words; flags come on top
    #[arg(short = 'f', long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Name of the switch, and of its sockets [default: switch]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// CPU cores to pin workers to, one worker for each: 1, 1,2 or 0-3. Each port is served by one of them, unless --queues says otherwise
    /// [default: one worker, not pinned]
    #[arg(long, value_name = "LIST")]
    cores: Option<String>,
    /// Queue pairs of each port, divided among the workers of --cores: what arrives by a queue is decided on by its worker, and leaves by that
    /// worker's queues of the other port, flows in order [default: what the port opens by itself, for one worker]
    #[arg(long, value_name = "N")]
    queues: Option<NonZeroU32>,
    /// What arrives at a port of fewer queues than there are workers (tap, pipe, most veths) is decided on by all workers of --cores, flow by
    /// flow: the worker that has the port hands it over, flows in order. Worth it where a decision takes more than some 250 ns
    #[arg(long)]
    steer: bool,
    /// Addresses that the MAC table holds, up to 1048576 [default: 8192]
    #[arg(long, value_name = "N")]
    table_size: Option<usize>,
    /// How long an address is kept that sends nothing [default: 300s]
    #[arg(long, value_name = "TIME")]
    ageing: Option<String>,
    /// Most ports at a time; memory is set aside for them [default: those given, and 8]
    #[arg(long, value_name = "N")]
    ports_max: Option<usize>,
    /// Longest packet in bytes without FCS [default: that of the interfaces given, or 1526]
    #[arg(long, value_name = "BYTES")]
    frame_len_max: Option<usize>,
    /// End after this time: 10s, 500ms, 2m [default: at Ctrl-C]
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// End when there was no port and no client for this time; a port that waits for a deleted interface to come back is none
    #[arg(long, value_name = "TIME")]
    idle_exit: Option<String>,
    /// Print a JSON document (linerate.switch/1) on stdout each second, and one at the end
    #[arg(long)]
    json: bool,
    /// No progress and no notes on stderr, no account at the end
    #[arg(short, long)]
    quiet: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Query and reconfigure a running switch
    Ctl(switch_ctl::Args),
}

/// Runs the switch, or talks to one.
pub fn run(args: &Args) -> ExitCode {
    if let Some(Command::Ctl(args)) = &args.command {
        return switch_ctl::run(args);
    }
    status::of("linerate switch", switch(args))
}

/// True when all went well.
fn switch(args: &Args) -> Result<bool, String> {
    let config = config(args)?;
    let time = |flag: &str, text: &Option<String>| {
        text.as_deref().map(duration_ns).transpose().map_err(|error| format!("--{flag}: {error}"))
    };
    let (run_ns, idle_exit_ns) = (time("duration", &args.duration)?, time("idle-exit", &args.idle_exit)?);
    signal::catch_stop_signals().map_err(|error| error.to_string())?;
    let quiet = args.quiet;
    let on_event = Box::new(move |line: &str| {
        if !quiet {
            note(line)
        }
    });
    let running = linerate_switch::start(&config, Options { folder: None, idle_exit_ns, on_event });
    let running = running.map_err(|error: StartError| error.to_string())?;
    if !quiet {
        note(&format!(
            "switch {:?} is running; its control socket is {}",
            running.dir().name(),
            running.dir().control().display()
        ));
    }
    let mut progress = Progress::new(form(args));
    running::wait_for_end(
        run_ns,
        || running.has_ended(),
        |timeout_ns| running.sleep(timeout_ns),
        || {
            if progress.wanted()
                && let Ok(snapshot) = running.snapshot()
            {
                progress.show(snapshot);
            }
        },
    );
    progress.end_line();
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
    let balances = ended.snapshot.totals.unbalanced.is_none();
    Ok(balances && ended.frames_missing == 0 && !ended.port_lost)
}

fn form(args: &Args) -> Form {
    match (args.json, args.quiet) {
        (true, _) => Form::Json,
        (false, true) => Form::Quiet,
        (false, false) => Form::Lines,
    }
}

/// The file, then the flags.
fn config(args: &Args) -> Result<Config, String> {
    let mut config = running::configuration(args.config.as_deref(), Config::parse)?;
    let say = |error: linerate_switch::config::ConfigError| error.to_string();
    for port in &args.ports {
        config.add_port(port).map_err(say)?;
    }
    for setting in &args.settings {
        config.set(setting).map_err(say)?;
    }
    for mac in &args.macs {
        config.macs.push(MacConfig::parse(mac).map_err(say)?);
    }
    for mirror in &args.mirrors {
        config.mirrors.push(MirrorConfig::parse(mirror).map_err(say)?);
    }
    config.name = args.name.clone().or(config.name);
    if let Some(list) = &args.cores {
        config.cores = linerate_console::cores::list_of(list)?;
    }
    config.queues = args.queues.or(config.queues);
    config.steer |= args.steer;
    config.table_size = args.table_size.or(config.table_size);
    config.ageing = args.ageing.clone().map(SettingValue).or(config.ageing);
    config.ports_max = args.ports_max.or(config.ports_max);
    config.frame_len_max = args.frame_len_max.or(config.frame_len_max);
    Ok(config)
}
