//! From what `-i` says to rings.

use linerate_capture::holds_ns;
use linerate_filter::Program;
use linerate_mem::{Pool, PoolConfig};
use linerate_pcapng::InterfaceHead;
use linerate_port::PortSpec;
use linerate_ports::capture::{CaptureOptions, RingCapture, Spread};
use linerate_ports::{FilterPlace, Usage, compile_filter};
use linerate_report::units::count;
use linerate_sys::affinity::allowed_cores;
use linerate_sys::counters::{CounterReader, Counters};
use linerate_sys::netdev::Netdev;

use super::batch::{Batches, Stamps};
use super::ring::Ring;
use super::stamps::{Clock, Stamper};
use super::thread::Source;
use crate::traffic::open;

/// The kernel hands over a block that is not full after this many milliseconds.
const RETIRE_MS: u32 = 8;
/// Frames of a pool beside those of a ring: batches, and what a pool keeps at hand for each thread.
const FRAMES_SPARE: usize = 4096;
/// Most rings of a port; also what bounds a driver's word on its queues.
pub const RINGS_MAX: usize = 256;
/// What `buffer=` of `pcap:` takes, and `ring=` of `xdp:`.
const PCAP_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 30;
const XDP_ENTRIES: std::ops::RangeInclusive<u64> = 64..=1 << 20;

/// How all ports are to be captured.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Bytes of a port's rings together.
    pub ring_bytes: u64,
    /// How many.
    pub rings: Rings,
    /// Take packets for other hardware addresses, too.
    pub promiscuous: bool,
    /// Capture what this host sends, too.
    pub outgoing: bool,
    /// Whose clock stamps packets, where there is a choice.
    pub stamps: Stamper,
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
    pub room: Option<Room>,
    /// What the interface itself counts; `None` for other kinds of ports.
    pub interface: Option<Interface>,
    /// What stamps its packets, as long as it is held.
    pub stamps: Clock,
    /// For people: what is captured, and how.
    pub note: String,
}

/// The interface's own counts since before its rings were opened.
pub struct Interface {
    reader: CounterReader,
    before: Counters,
    outgoing: bool,
}

impl Interface {
    fn open(name: &str, outgoing: bool) -> Option<Interface> {
        let mut reader = CounterReader::open(name).ok()?;
        let before = reader.read().ok()?;
        Some(Interface { reader, before, outgoing })
    }

    /// Packets that the interface received (and sent, where these are captured), and packets that it dropped on the way in; `None` when it
    /// is gone, or its driver has set the counts back.
    pub fn received_and_dropped(&mut self) -> Option<(u64, u64)> {
        let since = self.reader.read().ok()?.since(&self.before)?;
        let sent = if self.outgoing { since.tx_packets } else { 0 };
        Some((since.rx_packets + sent, since.rx_dropped))
    }
}

/// Room in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// All of it, in bytes.
    pub bytes: u64,
    /// Bytes that a packet takes beside its own.
    beside: u64,
    /// Bytes that a packet takes at most; those of a frame, where each packet takes a whole one, are `beside` it.
    packet_max: u64,
}

impl Room {
    /// In the ring of an AF_PACKET socket, version 3. tpacket_rcv() of net/packet/af_packet.c: the packet begins at
    /// TPACKET_ALIGN(48 + 20 + 16) - 14 = 82 behind the start of its header, and the next header is at a multiple of 8.
    fn of_ring(bytes: u64) -> Room {
        Room { bytes, beside: 86, packet_max: u64::MAX }
    }

    /// Of frames, one for each packet.
    fn of_frames(frames: u64, frame_bytes: u64) -> Room {
        Room { bytes: frames * frame_bytes, beside: frame_bytes, packet_max: 0 }
    }

    /// How long `rings` of them hold what comes at this rate if nobody reads, in nanoseconds; `None` when nothing comes.
    pub fn holds_ns(&self, rings: u64, pps: f64, bytes_ps: f64, snaplen: u32) -> Option<u64> {
        let packet = (bytes_ps / pps.max(1e-9)).min(self.packet_max as f64).min(f64::from(snaplen));
        holds_ns(self.bytes * rings, pps * (packet + self.beside as f64))
    }
}

/// Opens what `name` stands for: an interface (a ring of AF_PACKET), or a port in the grammar of `linerate_port::PortSpec`.
///
/// # Errors
/// What is missing, and what to do; a filter that means nothing.
pub fn open_port(name: &str, wishes: &Wishes) -> Result<Opened, String> {
    // An interface may be called what looks like a port.
    if Netdev::open(name).is_ok() {
        return interface(name, name, wishes);
    }
    let spec = open::specs(&[name.to_string()])?.remove(0);
    match spec.backend.as_deref() {
        None => interface(name, name, wishes),
        Some("packet") if spec.queue.is_none() && spec.options.is_empty() => interface(name, &spec.target, wishes),
        Some(_) => port(name, spec, wishes),
    }
}

fn interface(name: &str, device: &str, wishes: &Wishes) -> Result<Opened, String> {
    let (rings, spread) = match wishes.rings {
        Rings::Auto => (queues(device).min(allowed_cores().len().max(1)), Spread::Flows),
        Rings::Queues => (queues(device), Spread::Queues),
        Rings::Number(number) => (number, Spread::Flows),
    };
    let stamps = Clock::choose(device, wishes.stamps)?;
    let options = CaptureOptions {
        ring_bytes: wishes.ring_bytes / rings as u64,
        retire_ms: RETIRE_MS,
        promiscuous: wishes.promiscuous,
        outgoing: wishes.outgoing,
        hardware_stamps: stamps.is_nic(),
        filter: match &wishes.filter {
            None => Program::everything(wishes.snaplen),
            Some(text) => compile_filter(text, FilterPlace::Socket(device), wishes.snaplen)?.0,
        },
    };
    // Before the first packet: then no more are offered than were received.
    let interface = Interface::open(device, wishes.outgoing);
    let captures = RingCapture::open_rings(device, &options, rings, spread).map_err(|error| error.to_string())?;
    let whose = if wishes.outgoing { "received and sent" } else { "received" };
    let (ring_bytes, mac) = captures.first().map_or((0, None), |ring| (ring.level_bytes().1, ring.mac()));
    let note = match stamps.why_not() {
        Some(why) => format!("; stamps by the kernel, since {why}"),
        None => String::new(),
    };
    let rings_words = match (rings, spread) {
        (1, _) => format!("a ring of {} bytes", count(ring_bytes)),
        (_, Spread::Flows) => format!("{rings} rings of {} bytes each, by flow", count(ring_bytes)),
        (_, Spread::Queues) => format!("{rings} rings of {} bytes each, by receive queue", count(ring_bytes)),
    };
    let (outgoing, hardware_stamps) = (wishes.outgoing, stamps.is_nic());
    let source = |ring| Box::new(Ring { ring, outgoing, hardware_stamps }) as Box<dyn Source>;
    Ok(Opened {
        head: InterfaceHead {
            name: device.into(),
            filter: wishes.filter.clone().unwrap_or_default(),
            comment: format!("time stamps: {stamps}; captured: packets {whose}"),
            mac,
            snaplen: wishes.snaplen,
            ..InterfaceHead::default()
        },
        sources: captures.into_iter().map(source).collect(),
        room: Some(Room::of_ring(ring_bytes)),
        interface,
        stamps,
        note: format!("capturing on {name}: packets {whose}, {rings_words}{note}"),
    })
}

/// Receive queues of an interface, where its driver tells; else 1.
fn queues(device: &str) -> usize {
    let channels = Netdev::open(device).and_then(|device| device.channels()).ok().flatten();
    channels.map_or(1, |channels| (channels.rx.0 + channels.combined.0) as usize).clamp(1, RINGS_MAX)
}

fn port(name: &str, spec: PortSpec, wishes: &Wishes) -> Result<Opened, String> {
    if wishes.stamps == Stamper::Nic {
        return Err(format!(
            "{name}: only an interface's own ring (-i IF) has stamps of the NIC; leave --stamps nic out"
        ));
    }
    if wishes.outgoing {
        return Err(format!(
            "{name}: only an interface's own ring (-i IF) shows what this host sends; leave --outgoing out"
        ));
    }
    let filter = match &wishes.filter {
        None => None,
        Some(text) => Some(compile_filter(text, FilterPlace::WholePackets, wishes.snaplen)?.0),
    };
    let specs = sockets(&spec, wishes)?;
    let (mut sources, mut shown) = (Vec::<Box<dyn Source>>::new(), None);
    // The first of an interface's AF_XDP sockets makes room for the highest queue.
    for spec in specs.iter().rev() {
        let adapted = adapt(spec, wishes, specs.len() as u64)?;
        let opened = open::open(&adapted.spec, Usage::Receiving, &adapted.pool).map_err(|error| error.to_string())?;
        let caps = opened.port.caps().clone();
        let batches = Batches::new(opened.port, adapted.pool, filter.clone(), wishes.snaplen);
        shown = Some((caps, batches.stamps(), adapted.room));
        sources.insert(0, Box::new(batches));
    }
    let Some((caps, stamps, room)) = shown else { return Err(format!("{name}: no queue")) };
    let clock = match stamps {
        Stamps::None => "when a batch was taken out of the port, CLOCK_REALTIME",
        Stamps::Arrival => "the port's, when a packet arrived, moved to CLOCK_REALTIME",
        Stamps::Recorded => "those of the file",
    };
    let several = if sources.len() > 1 { format!("{} rings, each: ", sources.len()) } else { String::new() };
    Ok(Opened {
        head: InterfaceHead {
            name: name.into(),
            description: caps.detail.clone(),
            filter: wishes.filter.clone().unwrap_or_default(),
            comment: format!("time stamps: {clock}; captured: packets received"),
            mac: caps.mac,
            speed_bps: caps.link_bps,
            snaplen: wishes.snaplen,
            ..InterfaceHead::default()
        },
        sources,
        room,
        interface: None,
        stamps: Clock::default(),
        note: format!("capturing on {name}: packets received; {several}{}", caps.detail),
    })
}

/// The sockets for a port: for `xdp:IF` without a queue, one for each, or for each of as many shares of them as there are to be rings.
fn sockets(spec: &PortSpec, wishes: &Wishes) -> Result<Vec<PortSpec>, String> {
    let shared = spec.queue.is_none() && !spec.options.iter().any(|(key, _)| key == "queues");
    if spec.backend.as_deref() != Some("xdp") || !shared {
        return match wishes.rings {
            Rings::Number(2..) => {
                Err(format!("{spec} has one ring; --rings is for interfaces, and xdp:IF without a queue"))
            }
            _ => Ok(vec![spec.clone()]),
        };
    }
    let queues = queues(&spec.target);
    let rings = match wishes.rings {
        Rings::Auto => queues.min(allowed_cores().len().max(1)),
        Rings::Queues => queues,
        Rings::Number(number) if number <= queues => number,
        Rings::Number(number) => {
            return Err(format!(
                "{spec}: {number} rings, but {} has {queues} receive queues, of which each ring needs one",
                spec.target
            ));
        }
    };
    if queues == 1 {
        return Ok(vec![spec.clone()]);
    }
    // The name up to its options, escaped as the user wrote it.
    let text = spec.to_string();
    let mut backslash = false;
    let comma = text.find(|letter| {
        let found = letter == ',' && !backslash;
        backslash = letter == '\\' && !backslash;
        found
    });
    let (name, options) = text.split_at(comma.unwrap_or(text.len()));
    let share = |ring: usize| {
        let (first, next) = (ring * queues / rings, (ring + 1) * queues / rings);
        let text = format!("{name}@{first}{options},queues={}", next - first);
        text.parse().map_err(|error: linerate_port::SpecError| error.to_string())
    };
    (0..rings).map(share).collect()
}

/// A port's name with what is asked for, and the pool for it.
struct Adapted {
    spec: PortSpec,
    pool: Pool,
    room: Option<Room>,
}

/// Adds what the user asked for to the port's name, where that kind of port knows it and the name does not say it already.
fn adapt(spec: &PortSpec, wishes: &Wishes, rings: u64) -> Result<Adapted, String> {
    let mut text = spec.to_string();
    let given = |key: &str| spec.options.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
    let backend = spec.backend.as_deref().unwrap_or_default();
    if matches!(backend, "packet" | "xdp" | "pcap") && !wishes.promiscuous && given("promisc").is_none() {
        text += ",promisc=no";
    }
    let frame_bytes = open::frame_bytes(spec) as u64;
    let (mut room, mut extra) = (None, FRAMES_SPARE);
    match (backend, given("ring"), given("buffer")) {
        ("pcap", _, None) => {
            let bytes = wishes.ring_bytes.clamp(*PCAP_BYTES.start(), *PCAP_BYTES.end());
            text += &format!(",buffer={bytes}");
            room = Some(Room::of_ring(bytes));
        }
        ("packet", None, _) => {
            text += &format!(",ring={}", wishes.ring_bytes);
            room = Some(Room::of_ring(wishes.ring_bytes));
        }
        ("pcap", _, Some(bytes)) | ("packet", Some(bytes), _) => room = bytes.parse().ok().map(Room::of_ring),
        ("xdp", written, _) => {
            let entries = match written.as_deref().map(str::parse::<u64>) {
                None => {
                    let entries =
                        (wishes.ring_bytes / rings / frame_bytes).clamp(*XDP_ENTRIES.start(), *XDP_ENTRIES.end());
                    text += &format!(",ring={}", 1u64 << entries.ilog2());
                    1 << entries.ilog2()
                }
                // What is no number is the port's to complain about.
                Some(number) => number.unwrap_or(*XDP_ENTRIES.start()).min(*XDP_ENTRIES.end()),
            };
            room = Some(Room::of_frames(entries, frame_bytes));
            // The port lends half of the pool's frames to the kernel.
            extra += 2 * entries as usize;
        }
        _ => {}
    }
    let spec: PortSpec = text.parse().map_err(|error: linerate_port::SpecError| error.to_string())?;
    let config = PoolConfig { frames: FRAMES_SPARE + extra, frame_size: frame_bytes as usize, headroom: 0 };
    let pool = match linerate_ports::pool_for(&text, config).map_err(|error| error.to_string())? {
        Some(own) => own,
        None => Pool::new(config).map_err(|error| format!("{spec}: {error}"))?,
    };
    Ok(Adapted { spec, pool, room })
}
