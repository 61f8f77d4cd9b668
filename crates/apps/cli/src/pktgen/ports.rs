//! Which ports a run opens: one for each thread, by the function and the interface.
//!
//! | `-i` | sends (`tx`, `txseq`) | receives (`rx`, `rxseq`) | both (`ping`, `pong`) |
//! |---|---|---|---|
//! | `eth1` | AF_XDP queue of each thread, without a program; else AF_PACKET | AF_XDP on all queues, shared out over the threads; else AF_PACKET | AF_XDP on all queues; else AF_PACKET |
//! | `packet:eth1` | a socket for each thread | a socket for each thread, which share the flows (fanout) | one socket |
//! | `file:F` | writes | reads | - |
//! | others | as named, once for each thread | | |
//!
//! AF_XDP takes packets away from the host. So a bare name is received on by AF_PACKET if the host has routes through the
//! interface, or if there are more threads than queues.

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{OpenError, Port, PortSpec};
use linerate_sys::netdev::Netdev;

use super::options::{Function, Options};

/// What is known about the interface before it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Its queues; 1 where the driver does not tell.
    pub queues: usize,
    /// MTU in bytes.
    pub mtu: usize,
    /// The host has routes through it.
    pub in_use: bool,
}

/// One way to open the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The spec of each thread's port.
    pub specs: Vec<String>,
    /// Bytes of a frame of their pool.
    pub frame_size: usize,
}

/// Ports of a run, and the pool that they share.
pub struct Opened {
    /// One for each thread.
    pub ports: Vec<Box<dyn Port>>,
    /// Their pool.
    pub pool: Pool,
    /// Queues behind the interface.
    pub queues: usize,
    /// Why a faster way was not taken, if one was tried.
    pub notes: Vec<String>,
}

/// Frames of a pool: for a port's rings and a few bursts.
const FRAMES_BASE: usize = 8192;
const FRAMES_OF_THREAD: usize = 8192;
const FRAMES_MAX: usize = 1 << 18;
/// Bytes of all frames that larger frames may take.
const POOL_BYTES: usize = 64 << 20;

/// Opens the ports that the options ask for, the fastest way that works.
///
/// # Errors
/// The error of the last way; those before it are in its text.
pub fn open(options: &Options) -> Result<Opened, OpenError> {
    let device = device(&options.interface.spec.target);
    let mut notes: Vec<String> = Vec::new();
    let candidates = candidates(options, &device.unwrap_or_default());
    let last = candidates.len() - 1;
    for (number, candidate) in candidates.iter().enumerate() {
        match open_all(candidate, options) {
            Ok((ports, pool)) => {
                let queues = device.map_or(1, |device| device.queues).max(1);
                return Ok(Opened { ports, pool, queues, notes });
            }
            Err(mut error) if number == last => {
                if !notes.is_empty() {
                    error.cause = format!("{} ({})", error.cause, notes.join("; "));
                }
                return Err(error);
            }
            Err(error) => notes.push(error.to_string()),
        }
    }
    // There is always a candidate.
    Err(OpenError::new(&options.interface.spec, "there is no way to open it", ""))
}

fn open_all(candidate: &Candidate, options: &Options) -> Result<(Vec<Box<dyn Port>>, Pool), OpenError> {
    let pool =
        pool(candidate, options).map_err(|error| OpenError::new(&options.interface.text, error.to_string(), ""))?;
    // The last one first: an AF_XDP program has room for the queues that the first opener names.
    let open = |spec: &String| linerate_ports::open(spec, &pool);
    let mut ports = candidate.specs.iter().rev().map(open).collect::<Result<Vec<_>, _>>()?;
    ports.reverse();
    Ok((ports, pool))
}

fn pool(candidate: &Candidate, options: &Options) -> Result<Pool, linerate_mem::MapError> {
    let wanted = FRAMES_BASE + FRAMES_OF_THREAD * options.threads + 4 * options.burst * options.threads;
    let frame_size = candidate.frame_size;
    let most = if frame_size > 2048 { POOL_BYTES / frame_size } else { FRAMES_MAX };
    Pool::new(PoolConfig { frames: wanted.min(most), frame_size, headroom: 0 })
}

/// What can be learned about an interface; `None` when there is none of that name.
fn device(name: &str) -> Option<Device> {
    let device = Netdev::open(name).ok()?;
    let channels = device.channels().ok()?;
    let queues = channels.map_or(1, |channels| channels.combined.0 + channels.rx.0.max(channels.tx.0));
    let mtu = device.mtu().ok()? as usize;
    Some(Device { queues: queues.max(1) as usize, mtu, in_use: has_routes(name) })
}

/// True when the host routes IPv4 packets through the interface.
fn has_routes(name: &str) -> bool {
    let routes = std::fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
    routes.lines().skip(1).any(|line| line.split_whitespace().next() == Some(name))
}

/// The ways to open the ports, the best first.
pub fn candidates(options: &Options, device: &Device) -> Vec<Candidate> {
    let spec = &options.interface.spec;
    let specs = match spec.backend.as_deref() {
        None => bare(options, device),
        Some("xdp") => vec![xdp(options, device)],
        Some("packet") => vec![packet(options)],
        Some("file") if options.function.sends() && !has_option(spec, "write") => vec![vec![format!("{spec},write")]],
        Some(_) => vec![vec![spec.to_string(); options.threads]],
    };
    let candidate = |specs: Vec<String>| Candidate { frame_size: frame_size(&specs, options, device), specs };
    specs.into_iter().map(candidate).collect()
}

fn has_option(spec: &PortSpec, name: &str) -> bool {
    spec.options.iter().any(|(key, _)| key == name)
}

fn bare(options: &Options, device: &Device) -> Vec<Vec<String>> {
    let too_few_queues = options.threads > device.queues.max(1);
    let packet_only = too_few_queues || device.in_use && !options.function.sends();
    if packet_only { vec![packet(options)] } else { vec![xdp(options, device), packet(options)] }
}

/// Longest packet that AF_XDP moves in one frame of 4,096 bytes: 256 are the kernel's, 448 the pool's.
const XDP_ONE_FRAME: usize = 4096 - 256 - 448;

/// AF_XDP: a queue for each sender; all queues shared out over the receivers.
fn xdp(options: &Options, device: &Device) -> Vec<String> {
    let spec = &options.interface.spec;
    let name = base(spec, "xdp");
    let mut given = given_options(spec);
    if options.len.max(device.mtu + 18) > XDP_ONE_FRAME && !has_option(spec, "frags") {
        given = format!(",frags{given}");
    }
    let one_queue = |thread: usize| match spec.queue {
        Some(queue) => queue as usize,
        None => thread,
    };
    if options.function.sends() {
        let tx = if has_option(spec, "tx") { "" } else { ",tx" };
        return (0..options.threads).map(|thread| format!("{name}@{}{tx}{given}", one_queue(thread))).collect();
    }
    if spec.queue.is_some() || has_option(spec, "queues") {
        return vec![format!("{name}@{}{given}", one_queue(0)); options.threads];
    }
    let queues = device.queues.max(1);
    let share = |thread: usize| {
        let first = thread * queues / options.threads;
        let count = (thread + 1) * queues / options.threads - first;
        match count {
            0 | 1 => format!("{name}@{first}{given}"),
            _ => format!("{name}@{first},queues={count}{given}"),
        }
    };
    (0..options.threads).map(share).collect()
}

/// AF_PACKET: a socket for each thread; receivers share the flows.
fn packet(options: &Options) -> Vec<String> {
    let spec = &options.interface.spec;
    let name = base(spec, "packet");
    let mut given = given_options(spec);
    let direction = match options.function {
        Function::Tx | Function::TxSeq => "tx_only",
        Function::Rx | Function::RxSeq => "rx_only",
        Function::Ping | Function::Pong => "",
    };
    if !direction.is_empty() && !has_option(spec, "tx_only") && !has_option(spec, "rx_only") {
        given = format!(",{direction}{given}");
    }
    if options.function.receives() && options.threads > 1 && !has_option(spec, "fanout") {
        given += &format!(",fanout={}:hash", std::process::id() as u16);
    }
    let queue = match spec.queue {
        Some(queue) if !options.function.sends() => format!("@{queue}"),
        _ => String::new(),
    };
    vec![format!("{name}{queue}{given}"); options.threads]
}

/// `backend:target`, with what is special in the target escaped.
fn base(spec: &PortSpec, backend: &str) -> String {
    let mut text = format!("{backend}:");
    for letter in spec.target.chars() {
        if matches!(letter, ',' | '@' | '\\') {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

fn given_options(spec: &PortSpec) -> String {
    spec.options.iter().map(|(key, value)| format!(",{key}={value}")).collect()
}

/// Frames large enough for the longest packet in one, where the backend takes such frames.
fn frame_size(specs: &[String], options: &Options, device: &Device) -> usize {
    // The pool spreads packets over seven cache lines (448 bytes); a tag may come on top of MTU and header.
    let longest = options.len.max(device.mtu + 18);
    let wanted = (longest + 448).next_power_of_two().clamp(2048, 32_768);
    let is_xdp = specs.iter().any(|spec| spec.starts_with("xdp"));
    if is_xdp { wanted.min(4096) } else { wanted }
}

#[cfg(test)]
#[path = "ports_tests.rs"]
mod tests;
