//! `linerate tcp ctl`: queries a running `linerate tcp` program over its control socket, or ends it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use linerate_control::{Command as CommonRequest, Connection, ControlError, read_reply};
use linerate_endpoints::PROGRAM;
use linerate_endpoints::connections;
use linerate_endpoints::document::{CaptureDocument, ConnectionsDocument};
use linerate_endpoints::request::{Request, What};

use super::ctl::{self, read};
use crate::tcp::text;
use linerate_console::out;

const EXAMPLES: &str = "\
Examples:
  linerate tcp ctl show connections                as `ss -ti` has them
  linerate tcp ctl --name tcp-load show counters   as `nstat` has them
  linerate tcp ctl show stats                      a JSON document: the program, its port, its worker
  linerate tcp ctl capture frames.pcapng           writes all frames from now on, until:
  linerate tcp ctl capture --stop
  linerate tcp ctl stop

Exit status: 0 done; 1 refused by the program; 2 there is no such program.";

/// Arguments of `linerate tcp ctl`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Name of the program: tcp-serve, tcp-load, or as it was given
    #[arg(long, value_name = "NAME", default_value = "tcp-serve", global = true)]
    name: String,
    /// Print what the program answered, as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show a table
    Show {
        /// Which
        #[arg(value_enum)]
        what: Table,
    },
    /// Write all frames of the stack to a file from now on
    Capture {
        /// The file, which is made anew: pcapng, or pcap by its name
        #[arg(required_unless_present = "stop", conflicts_with = "stop", value_name = "FILE")]
        file: Option<PathBuf>,
        /// End the capture, and print how many frames it has
        #[arg(long)]
        stop: bool,
    },
    /// End the program
    Stop,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Table {
    /// Connections, with their windows, times and queues
    Connections,
    /// Counters of the stack
    Counters,
    /// The program, its port and its worker, as JSON
    Stats,
}

/// Runs the command.
pub fn run(args: &Args) -> ExitCode {
    ctl::connected("linerate tcp ctl", (PROGRAM, &args.name), |mut connection| answer(&mut connection, args))
}

fn answer(connection: &mut Connection, args: &Args) -> Result<(), ControlError> {
    let show = |what| Request::Show { what, after: None };
    match &args.command {
        Command::Stop => drop(connection.ask(&CommonRequest::Stop {})?),
        Command::Capture { file, .. } => {
            // The program may run in another folder.
            let absolute = file.as_ref().map(std::path::absolute).transpose();
            let file = absolute.map_err(|error| ControlError::new(format!("the file: {error}"), ""))?;
            let begins = file.is_some();
            let value = connection.ask(&Request::Capture { file })?;
            let capture: CaptureDocument = read(value.clone())?;
            out(&if args.json { value.to_string() } else { text::capture(&capture, begins) });
        }
        Command::Show { what: Table::Connections } => {
            let part = |after| {
                let line = connection.ask_line(&Request::Show { what: What::Connections, after })?;
                let part = match connections::read_reply(&line) {
                    Some(part) => part,
                    None => read_reply::<ConnectionsDocument>(&line)?,
                };
                Ok((part.connections, part.next))
            };
            if args.json {
                let all = connections::list_text(&ctl::parts(part)?);
                out(&format!("{{\"connections\":{all}}}"));
            } else if out(&text::connections_head()) {
                ctl::each_part(part, |part| part.is_empty() || out(&text::connections(&part)))?;
            }
        }
        Command::Show { what: Table::Counters } => {
            let value = connection.ask(&show(What::Counters))?;
            let counters: BTreeMap<String, u64> = read(value.clone())?;
            out(&if args.json { value.to_string() } else { text::counters(&counters) });
        }
        Command::Show { what: Table::Stats } => drop(out(&connection.ask(&show(What::Stats))?.to_string())),
    }
    Ok(())
}
