//! `linerate tcp connect`: standard input to a server, and its answers to standard output, as `nc` does.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::process;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use linerate_endpoints::sockets::{Host, TcpStream};

use crate::tcp::network::NetworkArgs;
use linerate_console::note;

const EXAMPLES: &str = "\
Examples:
  linerate tcp connect 198.18.5.2:22 --port tap:lrtcp --address 198.18.5.1/24
  linerate tcp connect www.example.org 80 --port veth1 --dhcp
  printf 'GET / HTTP/1.0\\r\\n\\r\\n' | linerate tcp connect '[fd00:5::2]:80' --port veth1 --address fd00:5::1/64

Standard input that ends closes this direction; the command ends when the server has closed the other one.
Exit status: 0 done; 1 the connection broke; 2 there was no connection.";

/// What may be wrong if a host is unreachable.
const UNREACHABLE: &str = "neither it nor a gateway answers on this link, or a router does not pass packets on to it";
/// After this time the user is told that there is no answer yet.
const SAY_AFTER: Duration = Duration::from_secs(2);
/// Bytes that are carried at a time.
const PIECE: usize = 64 * 1024;

/// Arguments of `linerate tcp connect`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Address or name of the server, and its port: HOST:PORT, or HOST PORT as `nc` has it
    #[arg(value_name = "HOST:PORT", num_args = 1..=2, required = true)]
    server: Vec<String>,
    #[command(flatten)]
    network: NetworkArgs,
}

/// True when all went well.
pub fn run(args: &Args) -> Result<bool, String> {
    let mut network = args.network.network()?;
    let server = args.server.join(" ");
    let (name, port) = host_and_port(&args.server)?;
    network.names.extend(name.parse::<IpAddr>().is_err().then(|| name.clone()));
    // Several can run at a time, and nobody has to find them.
    let options = args.network.options(&format!("tcp-connect-{}", process::id()), 16)?;
    let host = Host::start(&network, options).map_err(|error| error.to_string())?;
    let ip = name.parse().ok().or_else(|| host.address_of(&name)).ok_or_else(|| format!("{name}: no address"))?;
    let stream = connect(&host, SocketAddr::new(ip, port), args).map_err(|error| match error.kind() {
        io::ErrorKind::HostUnreachable => format!("{server}: host unreachable: {UNREACHABLE}"),
        _ => format!("{server}: {error}"),
    })?;
    if !args.network.quiet {
        let local = stream.local_addr().map_err(|error| error.to_string())?;
        note(&format!("connected: {local} to {server}"));
    }
    let stream = Arc::new(stream);
    let writing = Arc::clone(&stream);
    // The thread may wait for standard input for ever; it ends with the process.
    std::thread::spawn(move || {
        if let Err((Side::From, error)) = carry(&mut io::stdin().lock(), &mut &*writing) {
            note(&format!("linerate tcp connect: standard input: {error}"));
        }
        writing.shut_down_write();
    });
    match carry(&mut &*stream, &mut io::stdout().lock()) {
        Ok(()) => {
            finish(&stream);
            Ok(true)
        }
        Err((side, error)) => {
            let place = if side == Side::From { server.as_str() } else { "standard output" };
            note(&format!("linerate tcp connect: {place}: {error}"));
            Ok(false)
        }
    }
}

/// Connects; says so if that takes its time.
fn connect(host: &Host, server: SocketAddr, args: &Args) -> io::Result<TcpStream> {
    let (ended, waits) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let is_late = waits.recv_timeout(SAY_AFTER) == Err(mpsc::RecvTimeoutError::Timeout);
            if is_late && !args.network.quiet {
                note(&format!("{}: no answer yet; trying on for up to four minutes", args.server.join(" ")));
            }
        });
        let stream = host.connect_blocking(server);
        drop(ended);
        stream
    })
}

/// The host, without the brackets of an IPv6 address, and the port, of one word or two.
fn host_and_port(words: &[String]) -> Result<(String, u16), String> {
    let wrong =
        || format!("{}: write ADDRESS:PORT, NAME:PORT or [V6]:PORT, or the port as a second word", words.join(" "));
    let (host, port, is_apart) = match words {
        [host, port] => (host.as_str(), port.as_str(), true),
        [both] => both.rsplit_once(':').map(|(host, port)| (host, port, false)).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_v6 = is_apart && host.parse::<std::net::Ipv6Addr>().is_ok();
    if host.is_empty() || (bare.is_none() && host.contains(':') && !is_v6) {
        return Err(wrong());
    }
    Ok((bare.unwrap_or(host).to_owned(), port))
}

/// The server has closed: what was written to it may still leave.
fn finish(stream: &TcpStream) {
    stream.shut_down_write();
    let _ = (&*stream).flush();
}

/// Where an error of [`carry`] comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    From,
    To,
}

/// Carries bytes until their end, each as soon as it is there.
fn carry(from: &mut impl Read, to: &mut impl Write) -> Result<(), (Side, io::Error)> {
    let mut piece = vec![0; PIECE];
    loop {
        let read = from.read(&mut piece).map_err(|error| (Side::From, error))?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&piece[..read]).and_then(|()| to.flush()).map_err(|error| (Side::To, error))?;
    }
}

#[cfg(test)]
mod tests {
    use super::host_and_port;

    #[test]
    fn a_server_is_one_word_or_two() {
        let of = |text: &str| host_and_port(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let found = |host: &str, port| Ok((host.to_owned(), port));
        assert_eq!(of("198.18.5.2:22"), found("198.18.5.2", 22));
        assert_eq!(of("198.18.5.2 22"), found("198.18.5.2", 22));
        assert_eq!(of("[fd00::2]:80"), found("fd00::2", 80));
        assert_eq!(of("fd00::2 80"), found("fd00::2", 80));
        assert_eq!(of("[fd00::2] 80"), found("fd00::2", 80));
        assert_eq!(of("www.example.org 80"), found("www.example.org", 80));
        for wrong in ["198.18.5.2", "198.18.5.2:0", "198.18.5.2 x", "fd00::2:80", ":80", " 80", "a:1 80", "a 1 2"] {
            assert!(of(wrong).unwrap_err().contains("second word"), "{wrong}");
        }
    }
}
