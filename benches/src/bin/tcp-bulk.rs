//! One end of a bulk transfer by TCP, over the kernel's stack or Linerate's; benches/tcp-bulk.sh runs them.
//!
//! ```text
//! tcp-bulk kernel send REMOTE SECONDS              connects, sends for so long, waits until the peer closed
//! tcp-bulk kernel receive LOCAL                    takes one connection, checks every byte
//! tcp-bulk PORT ADDRESS/LEN send REMOTE SECONDS    the same over Linerate's stack on a port
//! tcp-bulk PORT ADDRESS/LEN receive LOCAL
//! ```
//! Prints the bytes, the seconds from the first one to the end, and the goodput in Mbit/s; with `LINERATE_COUNTERS=1` the stack's counters, too.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use linerate_benches::say;
use linerate_endpoints::{NetworkConfig, Options, StackOptions};
use linerate_programs::{Network, Program, Remote, Reports};
use linerate_sys::clock;
use linerate_tcp::{CloseReason, Conn};

/// The stream repeats after so many bytes, a prime, so that a shift by segments or pages does not go unseen.
const PERIOD: usize = 65_521;
/// Bytes of one call.
const PIECE: usize = 65_536;

/// Bytes of the stream: a slice of `PIECE` bytes from any place below `PERIOD`.
fn stream() -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    let period: Vec<u8> = (0..PERIOD).map(|_| next()).collect();
    period.iter().cycle().take(PERIOD + PIECE).copied().collect()
}

/// A place in the stream.
struct Stream {
    bytes: Vec<u8>,
    place: u64,
}

impl Stream {
    fn new() -> Stream {
        Stream { bytes: stream(), place: 0 }
    }

    /// The next bytes.
    fn piece(&self) -> &[u8] {
        let at = (self.place % PERIOD as u64) as usize;
        &self.bytes[at..at + PIECE]
    }

    fn check(&mut self, data: &[u8]) -> Result<(), String> {
        for part in data.chunks(PIECE) {
            if *part != self.piece()[..part.len()] {
                return Err(format!("wrong bytes after {} right ones", self.place));
            }
            self.place += part.len() as u64;
        }
        Ok(())
    }
}

/// How a transfer went.
fn result(bytes: u64, seconds: f64) -> String {
    format!("{bytes} bytes {seconds:.3} s {:.1} Mbit/s", bytes as f64 * 8e-6 / seconds)
}

fn kernel_send(remote: SocketAddr, seconds: f64) -> Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut socket = TcpStream::connect(remote).map_err(text)?;
    let mut stream = Stream::new();
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < seconds {
        stream.place += socket.write(stream.piece()).map_err(text)? as u64;
    }
    socket.shutdown(std::net::Shutdown::Write).map_err(text)?;
    socket.read(&mut [0; 1]).map_err(text)?;
    Ok(result(stream.place, begun.elapsed().as_secs_f64()))
}

fn kernel_receive(local: SocketAddr) -> Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    let listener = TcpListener::bind(local).map_err(text)?;
    eprintln!("ready");
    let (mut socket, _) = listener.accept().map_err(text)?;
    let (mut stream, mut buffer, mut begun) = (Stream::new(), vec![0; PIECE], None);
    loop {
        let len = socket.read(&mut buffer).map_err(text)?;
        let begun = begun.get_or_insert_with(Instant::now);
        if len == 0 {
            return Ok(result(stream.place, begun.elapsed().as_secs_f64()));
        }
        stream.check(&buffer[..len])?;
    }
}

/// The program over Linerate's stack.
struct Bulk {
    remote: Option<SocketAddr>,
    local: Option<SocketAddr>,
    seconds: f64,
    stream: Stream,
    begun_ns: u64,
    end: Option<Result<String, String>>,
    /// The connection is over, so that the peer knows of the end, too.
    is_over: bool,
}

impl Bulk {
    fn fill<N: Network>(&mut self, conn: Conn, network: &mut N) {
        if (network.time_ns() - self.begun_ns) as f64 * 1e-9 >= self.seconds {
            network.close(conn);
            return;
        }
        loop {
            let sent = network.send(conn, self.stream.piece());
            self.stream.place += sent as u64;
            if sent < PIECE {
                return;
            }
        }
    }

    fn finish(&mut self, now_ns: u64) {
        let seconds = now_ns.saturating_sub(self.begun_ns) as f64 * 1e-9;
        self.end.get_or_insert_with(|| Ok(result(self.stream.place, seconds)));
    }
}

impl Program for Bulk {
    fn start<N: Network>(&mut self, network: &mut N) -> Result<(), String> {
        if let Some(remote) = self.remote {
            network.connect(Remote::plain(remote), 0).map_err(|error| error.to_string())?;
        }
        if let Some(local) = self.local {
            network.listen(local, 0).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn connected<N: Network>(&mut self, conn: Conn, network: &mut N) {
        self.begun_ns = network.time_ns();
        if self.remote.is_some() {
            self.fill(conn, network);
        }
    }

    fn received<N: Network>(&mut self, conn: Conn, data: &[u8], network: &mut N) -> usize {
        if self.stream.place == 0 {
            self.begun_ns = network.time_ns();
        }
        if let Err(wrong) = self.stream.check(data) {
            self.end = Some(Err(wrong));
            network.abort(conn);
        }
        data.len()
    }

    fn sendable<N: Network>(&mut self, conn: Conn, network: &mut N) {
        self.fill(conn, network);
    }

    fn peer_closed<N: Network>(&mut self, conn: Conn, network: &mut N) {
        self.finish(network.time_ns());
        network.close(conn);
    }

    fn closed<N: Network>(&mut self, _: Conn, why: CloseReason, network: &mut N) {
        self.is_over = true;
        match why {
            CloseReason::Normal => self.finish(network.time_ns()),
            why => {
                self.end.get_or_insert_with(|| Err(format!("the connection ended: {why:?}")));
            }
        }
    }
}

impl Reports for Bulk {
    type Document = Option<Result<String, String>>;
    type Reading = Self::Document;
    const SCHEMA: &'static str = "linerate.tcp-bulk/1";
    const SAVES_CPU: bool = false;

    fn reading(&self, _: u64) -> Self::Document {
        self.end.clone().filter(|_| self.is_over)
    }

    fn document(readings: &[Self::Document]) -> Self::Document {
        readings.iter().flatten().next().cloned()
    }
}

fn own_stack(port: &str, address: &str, bulk: Bulk) -> Result<String, String> {
    let network = NetworkConfig {
        port: port.into(),
        addresses: vec![address.parse().map_err(|error| format!("{address}: {error}"))?],
        no_duplicate_detection: true,
        ..NetworkConfig::default()
    };
    let options = Options {
        name: format!("tcp-bulk-{}", std::process::id()),
        folder: None,
        cores: Vec::new(),
        stack: StackOptions { connections_max: 1024, preallocated_connections: 0 },
        capture: None,
        on_event: Box::new(|event| eprintln!("{event}")),
    };
    let running = linerate_endpoints::start(bulk, &network, options).map_err(|error| error.to_string())?;
    eprintln!("ready");
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let snapshot = running.snapshot().map_err(|error| error.to_string())?;
        let Some(end) = snapshot.program else { continue };
        if std::env::var_os("LINERATE_COUNTERS").is_some() {
            eprintln!("{:?} {:?} {:?}", snapshot.counters, snapshot.retransmissions, snapshot.packets);
        }
        // The last acknowledgment leaves before the connections are reset.
        std::thread::sleep(Duration::from_millis(100));
        running.stop().map_err(|error| error.to_string())?;
        return end;
    }
}

fn run(arguments: &[&str]) -> Result<String, String> {
    let at = |text: &str| text.parse::<SocketAddr>().map_err(|error| format!("{text}: {error}"));
    let time = |text: &str| text.parse::<f64>().map_err(|error| format!("{text}: {error}"));
    let bulk = |remote, local, seconds| Bulk {
        remote,
        local,
        seconds,
        stream: Stream::new(),
        begun_ns: clock::now_ns(),
        end: None,
        is_over: false,
    };
    match arguments {
        ["kernel", "send", remote, seconds] => kernel_send(at(remote)?, time(seconds)?),
        ["kernel", "receive", local] => kernel_receive(at(local)?),
        [port, address, "send", remote, seconds] => {
            own_stack(port, address, bulk(Some(at(remote)?), None, time(seconds)?))
        }
        [port, address, "receive", local] => own_stack(port, address, bulk(None, Some(at(local)?), 0.0)),
        _ => Err("the head of the source says how it is called".into()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(line) => {
            say!("{line}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("tcp-bulk: {problem}");
            ExitCode::FAILURE
        }
    }
}
