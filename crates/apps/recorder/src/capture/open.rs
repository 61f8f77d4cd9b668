//! From what `-i` says to rings.

use linerate_filter::Program;
use linerate_pcapng::InterfaceHead;
use linerate_port::{OpenOptions, PortSpec, RxRing};
use linerate_ports::capture::{CaptureOptions, RingCapture, Spread};
use linerate_ports::{Access, FilterCompiler, FilterPlace, PoolPlan, compile_filter};
use linerate_sys::affinity::allowed_cores;
use linerate_sys::counters::{CounterReader, Counters};
use linerate_sys::netdev::{self, Netdev};
use linerate_units::show::count;

use super::timestamps::{Clock, TimestampSource};
use linerate_console::open;
use linerate_recorder_loop::batch::{Batches, Timestamps};
use linerate_recorder_loop::ring::Ring;
use linerate_recorder_loop::thread::Source;

/// The kernel hands over a block that is not full after this many milliseconds: each is a wake-up, so at 8 ms they were most of what a
/// capture of few packets cost.
const RETIRE_MS: u32 = 50;
/// Frames of a pool beside those of a ring: batches, and what a pool keeps at hand for each thread.
const FRAMES_SPARE: usize = 4096;
/// Most rings of a port; also what bounds a driver's word on its queues.
pub const RINGS_MAX: usize = 256;
/// Which packets of an interface are captured, as tcpdump's -Q says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CaptureDirection {
    /// Those that this host receives.
    In,
    /// Those that it sends.
    Out,
    /// Both.
    Inout,
}

impl CaptureDirection {
    fn receives(self) -> bool {
        self != CaptureDirection::Out
    }

    fn sends(self) -> bool {
        self != CaptureDirection::In
    }

    fn words(self) -> &'static str {
        match self {
            CaptureDirection::In => "received",
            CaptureDirection::Out => "sent",
            CaptureDirection::Inout => "received and sent",
        }
    }
}

/// How all ports are to be captured.
#[derive(Clone, Debug)]
pub struct CaptureRequest {
    /// Bytes of a port's rings together.
    pub ring_bytes: u64,
    /// How many.
    pub rings: Rings,
    /// Take packets for other hardware addresses, too.
    pub promiscuous: bool,
    /// Which packets; `None` = both directions of an interface, what other ports receive.
    pub direction: Option<CaptureDirection>,
    /// Whose clock timestamps packets, where there is a choice.
    pub timestamps: TimestampSource,
    /// In tcpdump's language.
    pub filter: Option<String>,
    /// Bytes kept of each packet.
    pub snaplen: u32,
}

/// How many rings a port is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rings {
    /// One for each receive queue of the interface, as far as there are cores.
    Auto,
    /// One for each receive queue, which packets go to by queue.
    Queues,
    /// So many, which packets go to by flow.
    Number(usize),
}

/// A port that is open, and nobody reads yet.
pub struct Opened {
    /// What the file says of it.
    pub head: InterfaceHead,
    /// Its rings.
    pub sources: Vec<Box<dyn Source>>,
    /// Room in one ring, where that is known.
    pub room: Option<RxRing>,
    /// What the interface itself counts; `None` for other kinds of ports.
    pub interface: Option<Interface>,
    /// What timestamps its packets, as long as it is held.
    pub timestamps: Clock,
    /// For people: what is captured, and how.
    pub note: String,
}

/// The interface's own counts since before its rings were opened.
pub struct Interface {
    reader: CounterReader,
    before: Counters,
    direction: CaptureDirection,
}

impl Interface {
    fn open(name: &str, direction: CaptureDirection) -> Option<Interface> {
        let mut reader = CounterReader::open(name).ok()?;
        let before = reader.read().ok()?;
        Some(Interface { reader, before, direction })
    }

    /// Packets that the interface received, or sent, or both, as they are captured, and packets that it dropped on the way in; `None` if it
    /// is gone, or its driver has set the counts back.
    pub fn received_and_dropped(&mut self) -> Option<(u64, u64)> {
        let since = self.reader.read().ok()?.since(&self.before)?;
        let counted = |is_captured: bool, packets: u64| if is_captured { packets } else { 0 };
        let (received, sent) = (self.direction.receives(), self.direction.sends());
        let packets = counted(received, since.rx_packets) + counted(sent, since.tx_packets);
        Some((packets, counted(received, since.rx_dropped)))
    }
}

/// Opens what `name` stands for: an interface (a ring of AF_PACKET), or a port in the grammar of `linerate_port::PortSpec`.
///
/// # Errors
/// What is missing, and what to do; a filter that means nothing.
pub fn open_port(name: &str, request: &CaptureRequest) -> Result<Opened, String> {
    // An interface may be called what looks like a port.
    if Netdev::open(name).is_ok() {
        return interface(name, name, request);
    }
    let spec = open::specs(&[name.to_string()])?.remove(0);
    if spec.backend.is_none() {
        return interface(name, name, request);
    }
    // Its own ring is what is looked at without a copy.
    if linerate_ports::is_packet_socket(&spec) && spec.finish(&[]).is_ok() {
        return interface(name, &spec.target, request);
    }
    port(name, &spec, request)
}

/// The name that stands for all interfaces.
const ANY: &str = "any";
/// The least ring of one of all interfaces.
const ANY_RING_BYTES_MIN: u64 = 1 << 20;

/// Whether all interfaces are asked for.
pub fn is_any(names: &[String]) -> bool {
    names.iter().any(|name| name == ANY) && Netdev::open(ANY).is_err()
}

/// The ports that names stand for, where `any` is every interface that is up and carries Ethernet frames. These have one ring each, and share
/// the bytes of the request's rings.
///
/// # Errors
/// The system does not tell its interfaces, or none is up.
pub fn expand_any(names: &[String], request: &mut CaptureRequest) -> Result<Vec<String>, String> {
    if !is_any(names) {
        return Ok(names.to_vec());
    }
    let present = netdev::names().map_err(|error| format!("-i {ANY}: cannot list the interfaces: {error}"))?;
    let mut all: Vec<String> = names.iter().filter(|name| *name != ANY).cloned().collect();
    let others = all.len();
    for name in present {
        if !all.contains(&name) && Netdev::open(&name).is_ok_and(|device| carries_frames(&device)) {
            all.push(name);
        }
    }
    let count = all.len() - others;
    if count == 0 {
        return Err(format!("-i {ANY}: no Ethernet interface is up here; `ip link` lists the interfaces"));
    }
    request.ring_bytes = (request.ring_bytes / count as u64).max(ANY_RING_BYTES_MIN);
    if request.rings == Rings::Auto {
        request.rings = Rings::Number(1);
    }
    Ok(all)
}

/// Interfaces that have come up since `known` was made, of those that `any` stands for; they are known from then on.
pub(super) fn newcomers(known: &mut Vec<String>) -> Vec<String> {
    let is_new = |name: &String| Netdev::open(name).is_ok_and(|device| carries_frames(&device));
    let new: Vec<String> =
        netdev::names().unwrap_or_default().into_iter().filter(|name| !known.contains(name) && is_new(name)).collect();
    known.extend(new.iter().cloned());
    new
}

fn carries_frames(device: &Netdev) -> bool {
    let is_ethernet = |kind| [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK].contains(&kind);
    device.hardware_type().is_ok_and(is_ethernet) && device.is_up().unwrap_or(false)
}

/// What is captured of an interface. The loopback interface shows each packet twice, when it is sent and when it is received; one is enough
/// unless somebody asks.
fn direction_of(device: &str, asked: Option<CaptureDirection>) -> CaptureDirection {
    let is_loopback = || {
        let kind = Netdev::open(device).and_then(|device| device.hardware_type());
        kind.is_ok_and(|kind| kind == libc::ARPHRD_LOOPBACK)
    };
    match asked {
        Some(direction) => direction,
        None if is_loopback() => CaptureDirection::In,
        None => CaptureDirection::Inout,
    }
}

fn interface(name: &str, device: &str, request: &CaptureRequest) -> Result<Opened, String> {
    let direction = direction_of(device, request.direction);
    let (rings, spread) = match request.rings {
        Rings::Auto => (queues(device).min(allowed_cores().len().max(1)), Spread::Flows),
        Rings::Queues => (queues(device), Spread::Queues),
        Rings::Number(number) => (number, Spread::Flows),
    };
    let program = match &request.filter {
        None => (Program::everything(request.snaplen), ""),
        Some(text) => {
            let (program, compiler) = compile_filter(text, FilterPlace::Socket(device), request.snaplen)?;
            (program, filter_words(compiler, true))
        }
    };
    let filter = match direction {
        CaptureDirection::Out => program.0.for_sent().map_err(|error| format!("--filter: {error}"))?,
        CaptureDirection::In | CaptureDirection::Inout => program.0,
    };
    let timestamps = Clock::choose(device, request.timestamps)?;
    let options = CaptureOptions {
        ring_bytes: request.ring_bytes / rings as u64,
        retire_ms: RETIRE_MS,
        promiscuous: request.promiscuous,
        outgoing: direction.sends(),
        hardware_timestamps: timestamps.is_nic(),
        filter,
    };
    // Before the first packet: then no more are offered than were received.
    let interface = Interface::open(device, direction);
    let captures = RingCapture::open_rings(device, &options, rings, spread).map_err(|error| error.to_string())?;
    let whose = direction.words();
    let (ring_bytes, mac) = captures.first().map_or((0, None), |ring| (ring.level_bytes().1, ring.mac()));
    let note = match timestamps.fallback_reason() {
        Some(why) => format!("; timestamps by the kernel, since {why}"),
        None => String::new(),
    };
    let rings_words = match (rings, spread) {
        (1, _) => format!("a ring of {} bytes", count(ring_bytes)),
        (_, Spread::Flows) => format!("{rings} rings of {} bytes each, by flow", count(ring_bytes)),
        (_, Spread::Queues) => format!("{rings} rings of {} bytes each, by receive queue", count(ring_bytes)),
    };
    let (outgoing, hardware_timestamps) = (direction.sends(), timestamps.is_nic());
    let source = |ring| Box::new(Ring { ring, outgoing, hardware_timestamps }) as Box<dyn Source>;
    Ok(Opened {
        head: InterfaceHead {
            name: device.into(),
            filter: request.filter.clone().unwrap_or_default(),
            comment: format!("timestamps: {timestamps}; captured: packets {whose}"),
            mac,
            snaplen: request.snaplen,
            ..InterfaceHead::default()
        },
        sources: captures.into_iter().map(source).collect(),
        room: Some(RxRing::of_packet_ring(ring_bytes)),
        interface,
        timestamps,
        note: format!("capturing on {name}: packets {whose}, {rings_words}{}{note}", program.1),
    })
}

/// Who made the filter, and who runs it.
fn filter_words(compiler: FilterCompiler, in_kernel: bool) -> &'static str {
    match (compiler, in_kernel) {
        (FilterCompiler::Libpcap, true) => "; the kernel runs the filter, which libpcap compiled",
        (FilterCompiler::Libpcap, false) => "; this process runs the filter, which libpcap compiled",
        (FilterCompiler::Subset, true) => "; the kernel runs the filter, which Linerate compiled",
        (FilterCompiler::Subset, false) => "; this process runs the filter, which Linerate compiled",
    }
}

/// Receive queues of an interface, where its driver tells; else 1.
fn queues(device: &str) -> usize {
    let channels = Netdev::open(device).and_then(|device| device.channels()).ok().flatten();
    channels.map_or(1, |channels| (channels.rx.0 + channels.combined.0) as usize).clamp(1, RINGS_MAX)
}

fn port(name: &str, spec: &PortSpec, request: &CaptureRequest) -> Result<Opened, String> {
    if request.timestamps == TimestampSource::Nic {
        return Err(format!(
            "{name}: only an interface's own ring (-i IF) has timestamps of the NIC; leave --timestamps nic out"
        ));
    }
    if request.direction.is_some_and(CaptureDirection::sends) {
        return Err(format!(
            "{name}: only an interface's own ring (-i IF) shows what this host sends; leave --direction out"
        ));
    }
    if spec.options.filter.is_some() && request.filter.is_some() {
        return Err(format!("{spec} has a filter; leave --filter out"));
    }
    let options = OpenOptions {
        promiscuous: (!request.promiscuous).then_some(false),
        ring_bytes: Some(request.ring_bytes),
        filter: request.filter.clone(),
        threads: threads(spec, request.rings),
        ..OpenOptions::receive()
    };
    let plan = PoolPlan { ports: &[(spec, &options)], len_max: 0, extra: FRAMES_SPARE };
    let pool = linerate_ports::pool(&plan).map_err(|error| error.to_string())?;
    let device = linerate_ports::open_device(spec, &options, &pool).map_err(|error| error.to_string())?.device;
    let filter = match request.filter.as_ref().filter(|_| !device.caps().filters) {
        None => None,
        Some(text) => Some(compile_filter(text, FilterPlace::WholePackets, request.snaplen)?),
    };
    let words = match (&filter, &request.filter) {
        (Some((_, compiler)), _) => filter_words(*compiler, false),
        (None, Some(_)) => "; the filter is libpcap's own",
        (None, None) => "",
    };
    let filter = filter.map(|(program, _)| program);
    let (mut sources, mut shown) = (Vec::<Box<dyn Source>>::new(), None);
    for port in linerate_ports::share_out(device, options.threads.unwrap_or(1)) {
        let caps = port.caps().clone();
        let batches = Batches::new(port, pool.clone(), filter.clone(), request.snaplen);
        shown = Some((batches.timestamps(), caps.rx_ring, caps));
        sources.push(Box::new(batches));
    }
    let Some((timestamps, room, caps)) = shown else { return Err(format!("{name}: no queue")) };
    let clock = match timestamps {
        Timestamps::None => "when a batch was taken out of the port, CLOCK_REALTIME",
        Timestamps::Arrival => "the port's, when a packet arrived, moved to CLOCK_REALTIME",
        Timestamps::Recorded => "those of the file",
    };
    let several = if sources.len() > 1 { format!("{} rings, each: ", sources.len()) } else { String::new() };
    Ok(Opened {
        head: InterfaceHead {
            name: name.into(),
            description: caps.detail.clone(),
            filter: request.filter.clone().unwrap_or_default(),
            comment: format!("timestamps: {clock}; captured: packets received"),
            mac: caps.mac,
            speed_bps: caps.link_bps,
            snaplen: request.snaplen,
            ..InterfaceHead::default()
        },
        sources,
        room,
        interface: None,
        timestamps: Clock::default(),
        note: format!("capturing on {name}: packets received; {several}{}{words}", caps.detail),
    })
}

/// How many threads read a port. An interface whose queues are sockets of their own has one for each queue, as far as there are cores.
fn threads(spec: &PortSpec, rings: Rings) -> Option<usize> {
    let all = linerate_ports::access(spec) == Some(Access::Exclusive) && !spec.wrote("@") && !spec.wrote("queues");
    match rings {
        Rings::Number(number) => Some(number),
        Rings::Auto if all => Some(queues(&spec.target).min(allowed_cores().len().max(1))),
        Rings::Queues if all => Some(queues(&spec.target)),
        Rings::Auto | Rings::Queues => None,
    }
}
