//! `linerate tcp connect`: standard input to a server, and its answers to standard output, as `nc` does.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::process;
use std::sync::Arc;

use linerate_endpoints::sockets::{Host, TcpStream};

use crate::tcp::network::NetworkArgs;
use crate::traffic::note;

const EXAMPLES: &str = "\
Examples:
  linerate tcp connect 198.18.5.2:22 --port tap:lrtcp --address 198.18.5.1/24
  printf 'GET / HTTP/1.0\\r\\n\\r\\n' | linerate tcp connect '[fd00:5::2]:80' --port veth1 --address fd00:5::1/64

Standard input that ends closes this direction; the command ends when the server has closed the other one.
Exit status: 0 done; 1 the connection broke; 2 there was no connection.";

/// Bytes that are carried at a time.
const PIECE: usize = 64 * 1024;

/// Arguments of `linerate tcp connect`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Address and port of the server
    #[arg(value_name = "ADDRESS:PORT")]
    server: SocketAddr,
    #[command(flatten)]
    network: NetworkArgs,
}

/// True when all went well.
pub fn run(args: &Args) -> Result<bool, String> {
    let network = args.network.network()?;
    // Several can run at a time, and nobody has to find them.
    let options = args.network.options(&format!("tcp-connect-{}", process::id()), 16)?;
    let host = Host::start(&network, options).map_err(|error| error.to_string())?;
    let stream = host.connect_blocking(args.server).map_err(|error| format!("{}: {error}", args.server))?;
    if !args.network.quiet {
        let local = stream.local_addr().map_err(|error| error.to_string())?;
        note(&format!("connected: {local} to {}", args.server));
    }
    let stream = Arc::new(stream);
    let writing = Arc::clone(&stream);
    // The thread may wait for standard input for ever; it ends with the process.
    std::thread::spawn(move || {
        let _ = carry(&mut io::stdin().lock(), &mut &*writing);
        writing.shut_down_write();
    });
    match carry(&mut &*stream, &mut io::stdout().lock()) {
        Ok(()) => {
            finish(&stream);
            Ok(true)
        }
        Err(error) => {
            note(&format!("linerate tcp connect: {}: {error}", args.server));
            Ok(false)
        }
    }
}

/// The server has closed: what was written to it may still leave.
fn finish(stream: &TcpStream) {
    stream.shut_down_write();
    let _ = (&*stream).flush();
}

/// Carries bytes until their end, each as soon as it is there.
fn carry(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let read = from.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&piece[..read])?;
        to.flush()?;
    }
}
