//! `linerate switch ctl`: queries and reconfigures a running switch over its control socket.

use std::collections::BTreeMap;
use std::process::ExitCode;

use linerate_control::{
    Command as CommonRequest, Connection, ControlError, PortConfig, SettingValue, Settings, split_setting,
};
use linerate_switch::config::{MacConfig, MirrorConfig, NAME_DEFAULT, PROGRAM};
use linerate_switch::document;
use linerate_switch::document::MacsDocument;
use linerate_switch::request::{Request, What};
use serde_json::{Value, json};

use super::ctl::{self, read};
use crate::switch::text;
use linerate_console::print;

const COMMAND: &str = "linerate switch ctl";

const EXAMPLES: &str = "\
Examples:
  linerate switch ctl show ports              what goes in and out where
  linerate switch ctl show drops --json       the same for machines
  linerate switch ctl --name vale0 show macs  the switch behind vale0:... names
  linerate switch ctl add-port x=tap:x access=10 isolated=yes
  linerate switch ctl set x.access=default x.trunk=10,20-30
  linerate switch ctl set ageing=60s table-size=64k
  linerate switch ctl add-mirror from=x,to=file:x.pcapng

Exit status: 0 done; 1 refused by the switch; 2 there is no such switch.";

/// Arguments of `linerate switch ctl`.
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
        what: Table,
    },
    /// Opens a port
    AddPort {
        /// NAME=SPEC, or SPEC
        port: String,
        /// Its settings
        #[arg(value_name = "KEY=VALUE")]
        settings: Vec<String>,
    },
    /// Closes a port
    RemovePort {
        /// Its name
        port: String,
    },
    /// Changes settings of ports, or of the switch: ageing, table-size
    Set {
        /// Settings; the value default takes one back
        #[arg(value_name = "[PORT.]KEY=VALUE", required = true)]
        settings: Vec<String>,
    },
    /// Adds an address that stays at a port
    AddMac {
        /// The address, the port, and possibly the VLAN
        #[arg(value_name = "MAC=PORT[,vlan=N]")]
        mac: String,
    },
    /// Forgets an address
    RemoveMac {
        /// The address
        mac: String,
        /// Its VLAN
        #[arg(long, value_name = "N")]
        vlan: Option<u16>,
    },
    /// Forgets all learned addresses, or those of a port
    FlushMacs {
        /// The port
        port: Option<String>,
    },
    /// Copies packets to a port, or to one that is opened for it
    AddMirror {
        /// from=PORT[,direction=ingress|egress], vlan=N, or src=, dst=, proto=, sport=, dport=; then ,to=PORT|SPEC
        words: String,
    },
    /// Ends a mirror
    RemoveMirror {
        /// Its number, from show mirrors
        mirror: u32,
    },
    /// Ends the switch
    Stop,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Table {
    /// Ports: state, counters, settings
    Ports,
    /// Addresses
    Macs,
    /// The account of all packets, the MAC table, the worker
    Stats,
    /// What was lost, by port and reason
    Drops,
    /// Packets by VLAN
    Vlans,
    /// Time in the switch, by pair of ports
    Latency,
    /// Mirrors
    Mirrors,
}

/// Runs the command.
pub fn run(args: &Args) -> ExitCode {
    let requests = match requests(&args.command) {
        Ok(requests) => requests,
        Err(problem) => return ctl::complain(COMMAND, &problem, 2),
    };
    ctl::connected(COMMAND, (PROGRAM, &args.name), |mut connection| match &args.command {
        Command::Show { what } => show(&mut connection, what.what(), args.json),
        _ => requests.iter().try_for_each(|request| ctl::answer(&mut connection, request, args.json)),
    })
}

/// The requests of a command that does not show a table.
fn requests(command: &Command) -> Result<Vec<Value>, String> {
    let say = |error: linerate_switch::config::ConfigError| error.to_string();
    let request = match command {
        Command::Show { .. } => return Ok(Vec::new()),
        Command::Set { settings } => return set(settings),
        Command::AddPort { port, settings } => {
            let port = PortConfig::parse(port)?;
            common(CommonRequest::AddPort {
                name: Some(port.name()),
                spec: port.spec,
                settings: ctl::settings(settings, "access=10")?,
            })
        }
        Command::RemovePort { port } => common(CommonRequest::RemovePort { port: port.clone() }),
        Command::Stop => common(CommonRequest::Stop {}),
        Command::AddMac { mac } => {
            let MacConfig { mac, port, vlan } = MacConfig::parse(mac).map_err(say)?;
            own(Request::AddMac { mac, port, vlan })
        }
        Command::RemoveMac { mac, vlan } => own(Request::RemoveMac { mac: mac.clone(), vlan: *vlan }),
        Command::FlushMacs { port } => own(Request::FlushMacs { port: port.clone() }),
        Command::AddMirror { words } => own(Request::AddMirror { mirror: MirrorConfig::parse(words).map_err(say)? }),
        Command::RemoveMirror { mirror } => own(Request::RemoveMirror { mirror: *mirror }),
    };
    Ok(vec![request])
}

fn common(request: CommonRequest) -> Value {
    json!(request)
}

fn own(request: Request) -> Value {
    json!(request)
}

/// All changes of a port, or of the switch, are one request: they are possible only together, or not at all.
fn set(settings: &[String]) -> Result<Vec<Value>, String> {
    let mut changes: BTreeMap<Option<String>, Settings> = BTreeMap::new();
    for setting in settings {
        let (port, key, value) = match setting.split_once('=') {
            Some((key, value)) if !key.contains('.') => (None, key.to_owned(), SettingValue(value.to_owned())),
            _ => {
                let (port, key, value) = split_setting(setting).map_err(|error| error.to_string())?;
                (Some(port), key, value)
            }
        };
        changes.entry(port).or_default().insert(key, value);
    }
    Ok(changes.into_iter().map(|(port, settings)| common(CommonRequest::Set { port, settings })).collect())
}

fn show(connection: &mut Connection, what: What, as_json: bool) -> Result<(), ControlError> {
    if what == What::Macs {
        return show_macs(connection, as_json);
    }
    let value = connection.ask(&Request::Show { what, after: None })?;
    print(&if as_json { value.to_string() } else { shown(what, value)? });
    Ok(())
}

fn shown(what: What, value: Value) -> Result<String, ControlError> {
    Ok(match what {
        What::Ports => text::ports(&read::<Vec<document::PortDocument>>(value)?),
        What::Stats => text::stats(&read(value)?),
        What::Drops => text::drops(&read::<Vec<document::DropDocument>>(value)?),
        What::Vlans => text::vlans(&read::<Vec<document::VlanDocument>>(value)?),
        What::Latency => text::latency(&read::<Vec<document::LatencyDocument>>(value)?),
        What::Mirrors => text::mirrors(&read::<Vec<document::MirrorDocument>>(value)?),
        What::Macs => String::new(),
    })
}

fn show_macs(connection: &mut Connection, as_json: bool) -> Result<(), ControlError> {
    let all = ctl::parts(|after| {
        let part: MacsDocument = connection.ask_for(&Request::Show { what: What::Macs, after })?;
        Ok((part.macs, part.next))
    })?;
    print(&if as_json { json!({ "macs": all }).to_string() } else { text::macs(&all) });
    Ok(())
}

impl Table {
    fn what(self) -> What {
        match self {
            Table::Ports => What::Ports,
            Table::Macs => What::Macs,
            Table::Stats => What::Stats,
            Table::Drops => What::Drops,
            Table::Vlans => What::Vlans,
            Table::Latency => What::Latency,
            Table::Mirrors => What::Mirrors,
        }
    }
}
