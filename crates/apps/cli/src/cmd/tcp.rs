//! `linerate tcp`: programs over Linerate's own TCP stack.

use std::process::ExitCode;

use super::{status, tcp_connect, tcp_ctl, tcp_load, tcp_serve};

const EXAMPLES: &str = "\
Examples:
  linerate tcp serve http --port tap:lrtcp --address 198.18.5.1/24 --root site
      a web server in user space; `ip addr add 198.18.5.2/24 dev lrtcp; curl http://198.18.5.1/`
  linerate tcp load http://198.18.5.1/ --port xdp:veth1 --address 198.18.5.3/24 -c 100 --rate 20k -d 30s
      20,000 requests a second over 100 connections, latency from the time that each was due, an account of every request
  linerate tcp ctl show connections       the connections of the server that runs, as `ss -ti` has them

docs/tcp.md tells the rest.";

/// Arguments of `linerate tcp`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Serve echo, discard, chargen or HTTP
    Serve(Box<tcp_serve::Args>),
    /// Carry standard input to a server, and its answers to standard output
    Connect(Box<tcp_connect::Args>),
    /// Load a server with connections and requests, and account for each
    Load(Box<tcp_load::Args>),
    /// Query a running server or load, or end it
    Ctl(tcp_ctl::Args),
}

/// Runs the program, or talks to one.
pub fn run(args: &Args) -> ExitCode {
    let (name, done) = match &args.command {
        Command::Serve(args) => ("serve", tcp_serve::run(args)),
        Command::Connect(args) => ("connect", tcp_connect::run(args)),
        Command::Load(args) => ("load", tcp_load::run(args)),
        Command::Ctl(args) => return tcp_ctl::run(args),
    };
    status::of(&format!("linerate tcp {name}"), done)
}
