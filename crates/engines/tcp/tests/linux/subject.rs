//! The kernel's TCP behind a TAP device as the subject of scenarios, with the sockets of its program.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::Port;
use linerate_port_tap::TapPort;
use linerate_sys::clock;
use linerate_sys::netns::NetNs;
use linerate_tcpscript::{Call, EndReason, Endpoints, Event, Scenario, Subject};

/// How late what the kernel sends may be seen on a machine that others use.
const LATENESS_NS: u64 = 60_000_000;
/// Time between two looks at the device.
const LOOK: Duration = Duration::from_micros(200);
/// How long a thread that connects may take to tell that it has.
const TELL: Duration = Duration::from_millis(5);

/// The program's side of a connection.
#[derive(Default)]
struct Known {
    stream: Option<TcpStream>,
    /// A thread that connects.
    connecting: Option<Receiver<std::io::Result<TcpStream>>>,
    events: VecDeque<Event>,
    /// Bytes that the program still takes; `None`: all.
    takes: Option<usize>,
    unsent: Vec<u8>,
    sent_total: u64,
    closes: bool,
    nodelay: bool,
    /// Nothing more can be read.
    is_over: bool,
}

/// The kernel's stack in a namespace.
pub struct Linux {
    namespace: NetNs,
    port: TapPort,
    pool: Pool,
    input: Batch,
    frames: VecDeque<Vec<u8>>,
    listeners: Vec<TcpListener>,
    known: HashMap<SocketAddr, Known>,
    takes: Option<usize>,
}

impl Linux {
    /// A namespace with a TAP device that has the addresses of scenarios.
    pub fn new(scenario: &Scenario) -> Result<Linux, String> {
        let text = |error: std::io::Error| error.to_string();
        let namespace = NetNs::anonymous().map_err(text)?;
        let pool = Pool::new(PoolConfig { frames: 2048, frame_size: 2048 }).map_err(|error| error.to_string())?;
        let opened =
            namespace.run(|| linerate_port_tap::open("tap:tap0,no_offload".parse().unwrap(), &pool)).map_err(text)?;
        let port = opened.map_err(|error| error.to_string())?.into_port();
        let input = Batch::new(&pool, 64);
        let linux = Linux {
            namespace,
            port,
            pool,
            input,
            frames: VecDeque::new(),
            listeners: Vec::new(),
            known: HashMap::new(),
            takes: None,
        };
        let mtu = scenario.settings.iter().find(|(name, _)| name == "mtu").map_or("1500", |(_, value)| value);
        // Below this MTU a device has no IPv6.
        let is_v4_only = mtu.parse().is_ok_and(|mtu: u16| mtu < 1280);
        for arguments in [
            &format!("link set tap0 address 02:00:00:00:00:01 mtu {mtu} up")[..],
            "address add 192.0.2.1/24 dev tap0",
            "-6 address add 2001:db8::1/64 dev tap0 nodad",
            "neighbour replace 192.0.2.2 lladdr 02:00:00:00:00:02 dev tap0",
            "neighbour replace 2001:db8::2 lladdr 02:00:00:00:00:02 dev tap0",
            "route replace 192.0.2.0/24 dev tap0 congctl cubic",
            "-6 route replace 2001:db8::/64 dev tap0 congctl cubic",
        ] {
            let mut ip = Command::new("ip");
            ip.args(arguments.split_whitespace()).stdin(Stdio::null());
            let output = linux.namespace.run(move || ip.output()).map_err(text)?.map_err(text)?;
            let is_for_v6 = arguments.contains("2001:");
            let may_fail = is_v4_only && is_for_v6;
            if !output.status.success() && !may_fail {
                return Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr)));
            }
        }
        Ok(linux)
    }

    /// Takes in what the kernel sent.
    fn look(&mut self) {
        while self.port.receive(&mut self.input).is_ok_and(|count| count > 0) {
            self.frames.extend((0..self.input.len()).map(|index| self.input.packet(index).to_vec()));
            self.pool.free(&mut self.input);
        }
    }

    /// The program's turn: accepts, reads, writes.
    fn work(&mut self) {
        for listener in &self.listeners {
            while let Ok((stream, remote)) = listener.accept() {
                let known = self.known.entry(remote).or_default();
                *known = Known { takes: self.takes, ..Known::default() };
                known.connected(stream);
            }
        }
        self.known.values_mut().for_each(Known::work);
    }

    fn start_connect(&self, to: SocketAddr) -> Result<Receiver<std::io::Result<TcpStream>>, String> {
        let namespace = self.namespace.try_clone().map_err(|error| error.to_string())?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let result = namespace.run(|| TcpStream::connect(to)).and_then(|result| result);
            // The scenario may be over.
            let _ = sender.send(result);
        });
        Ok(receiver)
    }
}

impl Known {
    fn connected(&mut self, stream: TcpStream) {
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(self.nodelay).unwrap();
        self.stream = Some(stream);
        self.events.push_back(Event::Connected);
    }

    fn end(&mut self, error: &std::io::Error) {
        let reason = match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => EndReason::Reset,
            ErrorKind::ConnectionRefused => EndReason::Refused,
            ErrorKind::TimedOut => EndReason::TimedOut,
            _ => EndReason::Unreachable,
        };
        self.events.push_back(Event::Closed(reason));
        (self.is_over, self.stream) = (true, None);
    }

    fn work(&mut self) {
        if let Some(connecting) = &self.connecting {
            match connecting.recv_timeout(TELL) {
                Ok(Ok(stream)) => self.connected(stream),
                Ok(Err(error)) => self.end(&error),
                Err(_) => return,
            }
            self.connecting = None;
        }
        self.read();
        self.write();
        // Behind the end of the stream only this tells of a reset; before it, it tells of what ends nothing, too.
        let ended = self.stream.as_ref().filter(|_| self.is_over);
        if let Some(error) = ended.and_then(|stream| stream.take_error().ok().flatten()) {
            self.end(&error);
        }
    }

    fn read(&mut self) {
        let mut bytes = [0; 65_536];
        while let Some(stream) = self.stream.as_mut().filter(|_| !self.is_over && self.takes != Some(0)) {
            let most = self.takes.unwrap_or(bytes.len()).min(bytes.len());
            match stream.read(&mut bytes[..most]) {
                Ok(0) => {
                    self.is_over = true;
                    self.events.push_back(Event::PeerClosed);
                }
                Ok(len) => {
                    if let Some(left) = &mut self.takes {
                        *left -= len;
                    }
                    self.events.push_back(Event::Received(bytes[..len].to_vec()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => self.end(&error),
            }
        }
    }

    fn write(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        while !self.unsent.is_empty() {
            match stream.write(&self.unsent) {
                Ok(len) => drop(self.unsent.drain(..len)),
                Err(_) => return,
            }
        }
        if std::mem::take(&mut self.closes) {
            // The peer may have reset the connection.
            let _ = stream.shutdown(Shutdown::Write);
        }
    }
}

impl Subject for Linux {
    fn time_ns(&self) -> u64 {
        clock::now_ns()
    }

    fn next_frame(&mut self, until_ns: u64) -> Option<Vec<u8>> {
        loop {
            self.look();
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            if clock::now_ns() >= until_ns {
                return None;
            }
            self.work();
            std::thread::sleep(LOOK);
        }
    }

    fn deliver(&mut self, frames: &[Vec<u8>]) {
        let mut batch = Batch::new(&self.pool, frames.len());
        for (index, frame) in frames.iter().enumerate() {
            assert_eq!(self.pool.alloc(&mut batch, 1, frame.len()), 1);
            batch.packet_mut(index).copy_from_slice(frame);
        }
        while !batch.is_empty() && self.port.transmit(&mut batch).is_ok() {}
        self.work();
    }

    fn call(&mut self, endpoints: &Endpoints, call: &Call) -> Result<(), String> {
        self.work();
        let remote = SocketAddr::new(endpoints.remote, endpoints.remote_port);
        match call {
            Call::Listen(_) => {
                let local = SocketAddr::new(endpoints.local, endpoints.local_port);
                let bound = self.namespace.run(move || TcpListener::bind(local)).and_then(|bound| bound);
                let listener = bound.map_err(|error| error.to_string())?;
                listener.set_nonblocking(true).map_err(|error| error.to_string())?;
                self.listeners.push(listener);
                return Ok(());
            }
            Call::Connect(_) => {
                let connecting = Some(self.start_connect(remote)?);
                self.known.insert(remote, Known { connecting, takes: self.takes, ..Known::default() });
                return Ok(());
            }
            _ => {}
        }
        let known = self.known.entry(remote).or_default();
        match call {
            Call::Send(count) => {
                let places = known.sent_total..known.sent_total + *count as u64;
                known.unsent.extend(places.map(linerate_tcpscript::stream_byte));
                known.sent_total += *count as u64;
            }
            Call::SendBytes(bytes) => {
                known.unsent.extend(bytes);
                known.sent_total += bytes.len() as u64;
            }
            Call::Close => known.closes = true,
            Call::Take(count) => (known.takes, self.takes) = (*count, *count),
            Call::Set(name, value) if name == "nodelay" => {
                known.nodelay = value == "on";
                let set = known.stream.as_ref().map_or(Ok(()), |stream| stream.set_nodelay(known.nodelay));
                set.map_err(|error| error.to_string())?;
            }
            other => return Err(format!("sockets cannot do this: {other:?}")),
        }
        self.work();
        Ok(())
    }

    fn event(&mut self, endpoints: &Endpoints) -> Option<Event> {
        self.work();
        let remote: IpAddr = endpoints.remote;
        self.known.get_mut(&SocketAddr::new(remote, endpoints.remote_port))?.events.pop_front()
    }

    fn value(&mut self, _: &Endpoints, name: &str) -> Result<String, String> {
        Err(format!("sockets do not tell {name}"))
    }

    fn lateness_ns(&self) -> u64 {
        LATENESS_NS
    }

    fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }
}
