//! `linerate ofswitch ctl`: queries and changes a running OpenFlow switch over its control socket.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use linerate_control::{Command as CommonRequest, Connection, ControlError, PortConfig, split_setting};
use linerate_ofswitch::config::{NAME_DEFAULT, PROGRAM};
use linerate_ofswitch::document::{BridgeDocument, FlowDocument, Part, PortDocument};
use linerate_ofswitch::request::{Change, Request, What};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::ctl::{self, read};
use crate::ofswitch::text;
use linerate_console::note;
use linerate_console::print;

const COMMAND: &str = "linerate ofswitch ctl";

const EXAMPLES: &str = "\
Examples:
  linerate ofswitch ctl show flow                    all entries with their counters, as Lagopus lists them
  linerate ofswitch ctl show interface 1 --json      one port, for machines
  linerate ofswitch ctl add-flow table=0,priority=10,ip,nw_dst=10.0.0.0/8,actions=dec_ttl,output:2
  linerate ofswitch ctl add-flow --file start.flows  a file with an entry a line
  linerate ofswitch ctl mod-flows --strict priority=10,ip,nw_dst=10.0.0.0/8,actions=drop
  linerate ofswitch ctl del-flows table=0,out_port=2
  linerate ofswitch ctl add-group group_id=1,type=select,bucket=output:1,bucket=output:2
  linerate ofswitch ctl add-meter meter=1,kbps,bands=type=drop,rate=1000
  linerate ofswitch ctl trace in_port=1,tcp,nw_dst=10.0.0.1,tcp_dst=80
  linerate ofswitch ctl save state.flows             meters, groups and entries; `restore` and --flows read them
  linerate ofswitch ctl add-port 3=tap:x

Flows, groups and meters are in the syntax of ovs-ofctl(8).
Exit status: 0 done; 1 refused by the switch; 2 there is no such switch.";

/// Arguments of `linerate ofswitch ctl`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of the switch
    #[arg(long, value_name = "NAME", default_value = NAME_DEFAULT, global = true)]
    name: String,
    /// Print what the switch answered, as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Shows a table
    Show {
        /// Which
        #[arg(value_enum)]
        what: Listing,
        /// Of interface and port: only this one, by number or name
        #[arg(value_name = "all|PORT")]
        only: Option<String>,
    },
    /// Adds flow entries, or replaces those with the same table, priority and match
    AddFlow(Flows),
    /// Changes the instructions of the entries that match
    ModFlows {
        #[command(flatten)]
        flows: Flows,
        /// Only the entry with exactly this match and priority
        #[arg(long)]
        strict: bool,
    },
    /// Removes the entries that match; all, if nothing is given
    DelFlows {
        /// The match; also table=, cookie=, out_port= and out_group=
        flow: Option<String>,
        /// Only the entry with exactly this match and priority
        #[arg(long)]
        strict: bool,
    },
    /// Adds a group
    AddGroup {
        /// group_id=N,type=all|select|indirect|ff,bucket=ACTIONS,...
        group: String,
    },
    /// Replaces a group's type and buckets
    ModGroup {
        /// As of add-group
        group: String,
    },
    /// Removes a group, and the entries that use it; all groups, if nothing is given
    DelGroups {
        /// group_id=N
        group: Option<String>,
    },
    /// Adds a meter
    AddMeter {
        /// meter=N,kbps|pktps[,burst][,stats],bands=type=drop,rate=N,...
        meter: String,
    },
    /// Replaces a meter's bands
    ModMeter {
        /// As of add-meter
        meter: String,
    },
    /// Removes a meter, and the entries that use it; all meters, if nothing is given
    DelMeters {
        /// meter=N
        meter: Option<String>,
    },
    /// Writes meters, groups and flow entries into a file
    Save {
        /// The file; - for stdout
        file: PathBuf,
    },
    /// Adds the meters, groups and flow entries of a file, in place of those of the same number, or match and priority
    Restore {
        /// The file
        file: PathBuf,
    },
    /// Walks a packet through tables, groups and meters, and says what would happen to it and why; nothing is sent or counted
    Trace {
        /// Fields as ovs-ofctl writes them, the bytes in hex, or a capture file, whose packets are walked one by one
        packet: String,
        /// The port by which it arrives [default: in_port= of the fields, or 1]
        #[arg(long, value_name = "PORT")]
        in_port: Option<String>,
    },
    /// Lists what was lost, by reason
    Drops,
    /// Lists times in the switch, by egress port
    Latency,
    /// Opens a port
    AddPort {
        /// NUMBER=SPEC
        port: String,
        /// Its settings: speed, physical, tunnel-id
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Closes a port
    RemovePort {
        /// Its number, or LOCAL
        port: String,
    },
    /// Changes settings of ports
    Set {
        /// Settings; the value default takes one back
        #[arg(value_name = "PORT.KEY=VALUE", required = true)]
        settings: Vec<String>,
    },
    /// Ends the switch
    Stop,
}

#[derive(clap::Args)]
struct Flows {
    /// The entry: match, priority=, table=, timeouts, and actions=
    #[arg(required_unless_present = "file")]
    flow: Option<String>,
    /// A file with an entry a line; empty lines and what follows # are skipped
    #[arg(long, value_name = "FILE", conflicts_with = "flow")]
    file: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Listing {
    /// Flow entries with their counters
    Flow,
    /// Flow tables: entries, lookups, matches
    Table,
    /// The caches of the workers
    Flowcache,
    /// Ports as devices: state, counters
    Interface,
    /// The switch: datapath ID, capabilities, fail mode, ports
    BridgeDomains,
    /// Connections to controllers
    Controller,
    /// Groups
    Group,
    /// Meters
    Meter,
    /// Ports in a table
    Port,
    /// Queues
    Queue,
    /// The account of all packets, the cache, the workers
    Stats,
}

/// Runs the command.
pub fn run(args: &Args) -> ExitCode {
    let requests = match requests(&args.command) {
        Ok(requests) => requests,
        Err(problem) => return ctl::complain(COMMAND, &problem, 2),
    };
    ctl::connected(COMMAND, (PROGRAM, &args.name), |connection| {
        let mut shell = Shell { connection, name: args.name.clone(), json: args.json };
        match &args.command {
            Command::Show { what, only } => shell.show(what.what(), only.as_deref()),
            Command::Drops => shell.show(What::Drops, None),
            Command::Latency => shell.show(What::Latency, None),
            Command::Save { file } => shell.save(file),
            Command::Trace { .. } => requests.iter().try_for_each(|request| shell.trace(request)),
            _ => requests.iter().try_for_each(|request| ctl::answer(&mut shell.connection, request, args.json)),
        }
    })
}

/// Bytes of lines in one request, so that it stays below the longest.
const LINES_BYTES: usize = 48 << 10;

/// The requests of a command that changes something.
fn requests(command: &Command) -> Result<Vec<Value>, String> {
    let one = |text: &Option<String>| text.clone().unwrap_or_default();
    let strict = |strict: bool, yes: Change, no: Change| if strict { yes } else { no };
    let group = |action, group: &str| vec![json!(Request::Group { action, group: group.into() })];
    let meter = |action, meter: &str| vec![json!(Request::Meter { action, meter: meter.into() })];
    Ok(match command {
        Command::Show { .. } | Command::Drops | Command::Latency | Command::Save { .. } => Vec::new(),
        Command::Trace { packet, in_port } => traces(packet, in_port.as_deref())?,
        Command::AddFlow(flows) => flow_requests(Change::Add, flows)?,
        Command::ModFlows { flows, strict: wanted } => {
            flow_requests(strict(*wanted, Change::ModifyStrict, Change::Modify), flows)?
        }
        Command::DelFlows { flow, strict: wanted } => {
            let action = strict(*wanted, Change::DeleteStrict, Change::Delete);
            vec![json!(Request::Flow { action, flows: vec![one(flow)] })]
        }
        Command::AddGroup { group: text } => group(Change::Add, text),
        Command::ModGroup { group: text } => group(Change::Modify, text),
        Command::DelGroups { group: text } => group(Change::Delete, &one(text)),
        Command::AddMeter { meter: text } => meter(Change::Add, text),
        Command::ModMeter { meter: text } => meter(Change::Modify, text),
        Command::DelMeters { meter: text } => meter(Change::Delete, &one(text)),
        Command::Restore { file } => {
            let parts = in_parts(lines(file)?);
            parts.into_iter().map(|lines| json!(Request::Restore { lines })).collect()
        }
        Command::AddPort { port, settings } => {
            let port = PortConfig::parse(port)?;
            let settings = ctl::settings(settings, "speed=1G")?;
            vec![json!(CommonRequest::AddPort { name: Some(port.name()), spec: port.spec, settings })]
        }
        Command::RemovePort { port } => vec![json!(CommonRequest::RemovePort { port: port.clone() })],
        Command::Set { settings } => settings.iter().map(|text| set(text)).collect::<Result<_, _>>()?,
        Command::Stop => vec![json!(CommonRequest::Stop {})],
    })
}

fn flow_requests(action: Change, flows: &Flows) -> Result<Vec<Value>, String> {
    let all = match (&flows.flow, &flows.file) {
        (Some(flow), _) => vec![flow.clone()],
        (None, Some(file)) => lines(file)?,
        (None, None) => Vec::new(),
    };
    Ok(in_parts(all).into_iter().map(|flows| json!(Request::Flow { action, flows })).collect())
}

/// Most packets of a capture file that are walked.
const TRACES_MAX: usize = 100;

/// A request for each packet.
fn traces(packet: &str, in_port: Option<&str>) -> Result<Vec<Value>, String> {
    let request = |packet: String| json!(Request::Trace { packet, in_port: in_port.map(str::to_owned) });
    let is_hex =
        packet.len() >= 28 && packet.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b' ' | b':'));
    if is_hex {
        return Ok(vec![request(format!("hex:{packet}"))]);
    }
    if packet.contains('=') || !Path::new(packet).exists() {
        return Ok(vec![request(packet.into())]);
    }
    let mut reader = linerate_reader::input::open(packet)?;
    let mut requests = Vec::new();
    while requests.len() < TRACES_MAX && reader.next().map_err(|error| format!("{packet}: {error}"))?.is_some() {
        let digits: String = reader.packet().iter().map(|byte| format!("{byte:02x}")).collect();
        requests.push(request(format!("hex:{digits}")));
    }
    if requests.is_empty() { Err(format!("{packet} holds no packet")) } else { Ok(requests) }
}

/// Lines of a file, without comments and empty ones.
fn lines(file: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    Ok(lines.filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// As many lines in a request as fit.
fn in_parts(lines: Vec<String>) -> Vec<Vec<String>> {
    let mut parts: Vec<Vec<String>> = Vec::new();
    let mut bytes = LINES_BYTES;
    for line in lines {
        bytes += line.len() + 3;
        if bytes > LINES_BYTES {
            parts.push(Vec::new());
            bytes = line.len() + 3;
        }
        if let Some(part) = parts.last_mut() {
            part.push(line);
        }
    }
    parts
}

fn set(text: &str) -> Result<Value, String> {
    let (port, key, value) = split_setting(text)?;
    Ok(json!(CommonRequest::Set { port: Some(port), settings: [(key, value)].into() }))
}

/// A connection to a switch, and how answers are printed.
struct Shell {
    connection: Connection,
    name: String,
    json: bool,
}

impl Shell {
    fn trace(&mut self, request: &Value) -> Result<(), ControlError> {
        let value = self.connection.ask(request)?;
        print(&if self.json { value.to_string() } else { text::trace(&read(value)?) });
        Ok(())
    }

    fn ask<T: DeserializeOwned>(&mut self, what: What, after: Option<u64>) -> Result<T, ControlError> {
        self.connection.ask_for(&Request::Show { what, after })
    }

    /// All parts of a long document.
    fn parts<T: DeserializeOwned>(&mut self, what: What) -> Result<Vec<T>, ControlError> {
        ctl::parts(|after| {
            let part: Part<T> = self.ask(what, after)?;
            Ok((part.items, part.next))
        })
    }

    fn show(&mut self, what: What, only: Option<&str>) -> Result<(), ControlError> {
        let name = self.name.clone();
        let only = only.filter(|only| *only != "all");
        if self.json {
            let value = match what {
                What::Flow => json!({ "flows": self.parts::<Value>(What::Flow)? }),
                What::Interface | What::Port => json!(self.ports(what, only)?),
                _ => self.ask(what, None)?,
            };
            print(&value.to_string());
            return Ok(());
        }
        print(&match what {
            What::Flow => text::flows(&name, &self.parts::<FlowDocument>(what)?),
            What::Table => text::tables(&name, &self.ask::<Vec<_>>(what, None)?),
            What::Flowcache => text::flowcache(&name, &self.ask(what, None)?),
            What::Interface => text::interfaces(&self.ports(what, only)?),
            What::Port => text::ports(&self.ports(what, only)?),
            What::BridgeDomains => text::bridge(&self.ask(what, None)?),
            What::Controller => {
                let bridge: BridgeDocument = self.ask(What::BridgeDomains, None)?;
                text::controllers(&bridge.dpid, &self.ask::<Vec<_>>(what, None)?)
            }
            What::Group => text::groups(&name, &self.ask::<Vec<_>>(what, None)?),
            What::Meter => text::meters(&name, &self.ask::<Vec<_>>(what, None)?),
            What::Queue => text::queues(&self.ask::<Vec<_>>(what, None)?),
            What::Stats => text::stats(&self.ask(what, None)?),
            What::Drops => text::drops(&self.ask::<Vec<_>>(what, None)?),
            What::Latency => text::latency(&self.ask::<Vec<_>>(what, None)?),
            What::State => self.parts::<String>(what)?.join("\n"),
        });
        Ok(())
    }

    /// Ports, or the one with this number or name.
    fn ports(&mut self, what: What, only: Option<&str>) -> Result<Vec<PortDocument>, ControlError> {
        let all: Vec<PortDocument> = self.ask(what, None)?;
        let Some(only) = only else { return Ok(all) };
        let names: Vec<String> = all.iter().map(|port| port.name.clone()).collect();
        let found: Vec<_> = all.into_iter().filter(|port| port.name == only || port.counters.of_name == only).collect();
        if found.is_empty() {
            return Err(ControlError::new(
                format!("there is no port {only}"),
                format!("there are {}", names.join(", ")),
            ));
        }
        Ok(found)
    }

    fn save(&mut self, file: &Path) -> Result<(), ControlError> {
        let lines = self.parts::<String>(What::State)?;
        if file == Path::new("-") {
            print(&lines.join("\n"));
            return Ok(());
        }
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        std::fs::write(file, text).map_err(|error| ControlError::new(format!("{}: {error}", file.display()), ""))?;
        note(&format!("{} lines in {}", lines.len(), file.display()));
        Ok(())
    }
}

impl Listing {
    fn what(self) -> What {
        match self {
            Listing::Flow => What::Flow,
            Listing::Table => What::Table,
            Listing::Flowcache => What::Flowcache,
            Listing::Interface => What::Interface,
            Listing::BridgeDomains => What::BridgeDomains,
            Listing::Controller => What::Controller,
            Listing::Group => What::Group,
            Listing::Meter => What::Meter,
            Listing::Port => What::Port,
            Listing::Queue => What::Queue,
            Listing::Stats => What::Stats,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_go_in_several_requests() {
        let lines: Vec<String> = (0..10_000).map(|number| format!("priority={number},actions=drop")).collect();
        let parts = in_parts(lines.clone());
        assert!(parts.len() > 1 && parts.concat() == lines);
        for part in parts {
            let request = linerate_control::request_line(&Request::Flow { action: Change::Add, flows: part });
            assert!(request.len() < linerate_control::REQUEST_LEN_MAX);
        }
    }
}
