//! Which ports a run opens: one for each thread, by the function and the interface.
//!
//! | `-i` | one thread | more threads |
//! |---|---|---|
//! | `eth1` | what `linerate_ports` finds best for the function | senders: AF_XDP queue I for thread I; receivers: all queues shared out over the threads; as `packet:eth1` if there are fewer queues than threads, or if the host needs the packets |
//! | `xdp:eth1` | all queues to receive, the first one to send | as above |
//! | `packet:eth1` | one socket | a socket each; those of receivers share the flows (fanout) |
//! | `file:F` | written by senders, read by receivers | refused |
//! | others | as named | as named, once for each thread |

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{OpenError, Port, PortSpec};
use linerate_ports::{Usage, open_for, pool_for};
use linerate_sys::netdev::{self, Netdev};

use super::options::Options;

/// What is known about the interface before it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Its queues; 1 where the driver does not tell.
    pub queues: usize,
    /// MTU in bytes.
    pub mtu: usize,
    /// The host has an address there.
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
    /// Which way was chosen and why, where there was a choice.
    pub notes: Vec<String>,
}

/// Frames of a pool: for a port's rings and a few bursts.
const FRAMES_BASE: usize = 8192;
const FRAMES_OF_THREAD: usize = 8192;
const FRAMES_MAX: usize = 1 << 18;
/// Bytes of all frames together where they are larger than usual.
const POOL_BYTES: usize = 64 << 20;

/// Opens the ports that the options ask for, the fastest way that works.
///
/// # Errors
/// The error of the last way; those before it are in its text.
pub fn open(options: &Options) -> Result<Opened, OpenError> {
    let device = device(&options.interface.spec.target);
    let queues = device.map_or(1, |device| device.queues);
    let mut refused: Vec<String> = Vec::new();
    let mut last = None;
    for candidate in candidates(options, &device.unwrap_or_default()) {
        match open_all(&candidate, options) {
            Ok((ports, pool, choices)) => {
                return Ok(Opened { ports, pool, queues, notes: [refused, choices].concat() });
            }
            Err(error) => {
                refused.push(error.to_string());
                last = Some(error);
            }
        }
    }
    refused.pop();
    let mut error = last.unwrap_or_else(|| OpenError::new(&options.interface.text, "there is no way to open it", ""));
    if !refused.is_empty() {
        error.cause = format!("{} ({})", error.cause, refused.join("; "));
    }
    Err(error)
}

type OpenedAll = (Vec<Box<dyn Port>>, Pool, Vec<String>);

fn open_all(candidate: &Candidate, options: &Options) -> Result<OpenedAll, OpenError> {
    let pool = pool(candidate, options)?;
    let usage = usage(options);
    let (mut ports, mut choices) = (Vec::new(), Vec::new());
    // The last one first: an AF_XDP program has room for the queues that the first opener names.
    for spec in candidate.specs.iter().rev() {
        let opened = open_for(spec, &pool, usage)?;
        ports.push(opened.port);
        choices.extend(opened.choice);
    }
    ports.reverse();
    Ok((ports, pool, choices))
}

/// What the ports are for. Round trips are true only where a packet is seen when it comes.
fn usage(options: &Options) -> Usage {
    match options.function {
        function if function.sends() => Usage::Sending,
        function if function.receives() => Usage::Receiving,
        _ => Usage::LowLatency,
    }
}

fn pool(candidate: &Candidate, options: &Options) -> Result<Pool, OpenError> {
    let wanted = FRAMES_BASE + (FRAMES_OF_THREAD + 4 * options.burst) * options.threads;
    let frame_size = candidate.frame_size;
    let most = if frame_size > 2048 { POOL_BYTES / frame_size } else { FRAMES_MAX };
    let config = PoolConfig { frames: wanted.min(most), frame_size };
    if let Some(spec) = candidate.specs.first()
        && let Some(own) = pool_for(spec, config)?
    {
        return Ok(own);
    }
    Pool::new(config).map_err(|error| OpenError::new(&options.interface.text, error.to_string(), ""))
}

/// What can be learned about an interface; `None` when there is none of that name.
fn device(name: &str) -> Option<Device> {
    let device = Netdev::open(name).ok()?;
    let channels = device.channels().ok()?;
    let queues = channels.map_or(1, |channels| channels.combined.0 + channels.rx.0.max(channels.tx.0));
    let mtu = device.mtu().ok()? as usize;
    let in_use = netdev::addresses(name).is_ok_and(|addresses| !addresses.is_empty());
    Some(Device { queues: queues.max(1) as usize, mtu, in_use })
}

/// The ways to open the ports, the best first.
pub fn candidates(options: &Options, device: &Device) -> Vec<Candidate> {
    let spec = &options.interface.spec;
    let specs = match spec.backend.as_deref() {
        None if options.threads > 1 => several(options, device),
        Some("xdp") => vec![xdp(options, device, "")],
        Some("packet") => vec![packet(options)],
        Some("file") if options.function.sends() && !has_option(spec, "write") => vec![vec![format!("{spec},write")]],
        _ => vec![vec![spec.to_string(); options.threads]],
    };
    let candidate = |specs: Vec<String>| Candidate { frame_size: frame_size(options, device), specs };
    specs.into_iter().map(candidate).collect()
}

fn has_option(spec: &PortSpec, name: &str) -> bool {
    spec.options.iter().any(|(key, _)| key == name)
}

/// A bare name for several threads. AF_XDP takes packets away from the host, and only a driver's own is worth that.
fn several(options: &Options, device: &Device) -> Vec<Vec<String>> {
    let too_few_queues = options.threads > device.queues;
    let receives = !options.function.sends();
    if too_few_queues || device.in_use && receives {
        return vec![packet(options)];
    }
    vec![xdp(options, device, if receives { ",native" } else { "" }), packet(options)]
}

/// AF_XDP: a queue for each sender; all queues shared out over the receivers.
fn xdp(options: &Options, device: &Device, mode: &str) -> Vec<String> {
    let spec = &options.interface.spec;
    let name = base(spec, "xdp");
    let mut given = format!("{mode}{}", given_options(spec));
    if options.len.max(device.mtu + 18) > XDP_ONE_FRAME && !has_option(spec, "frags") {
        given += ",frags";
    }
    if spec.queue.is_some() || has_option(spec, "queues") {
        let queue = spec.queue.unwrap_or(0);
        return vec![format!("{name}@{queue}{given}"); options.threads];
    }
    if options.function.sends() {
        return (0..options.threads).map(|thread| format!("{name}@{thread}{given}")).collect();
    }
    let share = |thread: usize| {
        let queues = device.queues.max(1);
        let first = thread * queues / options.threads;
        let count = (thread + 1) * queues / options.threads - first;
        match count {
            0 | 1 => format!("{name}@{first}{given}"),
            _ => format!("{name}@{first},queues={count}{given}"),
        }
    };
    (0..options.threads).map(share).collect()
}

/// Longest packet that AF_XDP moves in one frame of 4,096 bytes: 256 are the kernel's, 448 the pool's.
const XDP_ONE_FRAME: usize = 4096 - 256 - 448;

/// AF_PACKET: a socket for each thread; receivers share the flows.
fn packet(options: &Options) -> Vec<String> {
    let spec = &options.interface.spec;
    let name = base(spec, "packet");
    let mut given = given_options(spec);
    if options.function.receives() && options.threads > 1 && !has_option(spec, "fanout") {
        given += &format!(",fanout={}:hash", std::process::id() as u16);
    }
    let queue = spec.queue.map_or(String::new(), |queue| format!("@{queue}"));
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

/// Frames large enough for the longest packet in one; on interfaces at most what AF_XDP takes, longer packets then take
/// several.
fn frame_size(options: &Options, device: &Device) -> usize {
    // The pool spreads packets over seven cache lines (448 bytes); two tags may come on top of MTU and header.
    let longest = options.len.max(device.mtu + 22);
    let wanted = (longest + 448).next_power_of_two().clamp(2048, 32_768);
    let may_be_xdp = matches!(options.interface.backend(), None | Some("xdp" | "xdplive"));
    if may_be_xdp { wanted.min(4096) } else { wanted }
}

#[cfg(test)]
#[path = "ports_tests.rs"]
mod tests;
