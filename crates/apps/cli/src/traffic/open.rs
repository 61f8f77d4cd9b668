//! From port names to open ports on one pool.

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{OpenError, Port, PortSpec};
use linerate_ports::{Opened, Usage};
use linerate_switch::vale;
use linerate_sys::netdev::Netdev;

/// Frames for a sender's rings and batches, and for a receiver's (an AF_XDP fill ring holds 8,192).
const FRAMES_SENDER: usize = 4096;
const FRAMES_RECEIVER: usize = 12_288;
/// Memory of the pool, so that the process stays under 100 MB; larger frames are fewer.
const POOL_BYTES_MAX: usize = 64 << 20;
/// Bytes that a pool keeps in front of packets, at most, to spread them over cache lines.
const SPREAD: usize = 448;
/// Header and two VLAN tags on top of an MTU.
const HEADERS: usize = 22;

/// Takes port names apart. Names of the form `valeS:P` are attached to their switch, so each is to be opened once.
///
/// # Errors
/// The first name that is none, or whose switch cannot be had.
pub fn specs(names: &[String]) -> Result<Vec<PortSpec>, String> {
    let spec = |name: &String| {
        let name = attached(name).map_err(|error| error.to_string())?;
        name.parse::<PortSpec>().map_err(|error| error.to_string())
    };
    names.iter().map(spec).collect()
}

/// The port that a name stands for: `valeS:P` becomes a memif port of the switch valeS, which is started if need be.
///
/// # Errors
/// The switch cannot be had, or the port is in use.
pub fn attached(name: &str) -> Result<String, OpenError> {
    let program = std::env::current_exe().unwrap_or_else(|_| "linerate".into());
    vale::resolve(name, &program)
}

/// Longest packet in bytes (without FCS) that the interfaces among these ports carry; that of Ethernet where there is none.
pub fn len_max(specs: &[PortSpec]) -> usize {
    let mtus = specs.iter().filter_map(|spec| Netdev::open(&spec.target).and_then(|device| device.mtu()).ok());
    mtus.map(|mtu| mtu as usize + HEADERS).fold(1500 + HEADERS, usize::max)
}

/// A pool for these ports, with frames that hold packets of `len_max` bytes (without FCS) where that is possible.
///
/// # Errors
/// The memory cannot be had.
pub fn pool(senders: &[PortSpec], receivers: &[PortSpec], len_max: usize) -> Result<Pool, String> {
    pool_with(senders, receivers, len_max, 0)
}

/// As [`pool`], with `extra` frames more, for packets that wait in the program.
///
/// # Errors
/// The memory cannot be had, or two of the ports have memory of their own.
pub fn pool_with(senders: &[PortSpec], receivers: &[PortSpec], len_max: usize, extra: usize) -> Result<Pool, String> {
    let config = config(senders, receivers, len_max, extra);
    let mut own: Vec<&PortSpec> = senders.iter().chain(receivers).filter(|spec| has_own_memory(spec)).collect();
    own.dedup();
    match own[..] {
        [] => Pool::new(config).map_err(|error| error.to_string()),
        [spec] => own_pool(spec, config),
        [first, second, ..] => {
            Err(format!("{first} and {second} each have memory of their own; `linerate bridge` joins them"))
        }
    }
}

/// A pool for each of these ports, which packets go between: that of a port whose memory is its own, and one for all others,
/// which is the first such port's, if there is one, so that packets are handed over.
///
/// # Errors
/// The memory cannot be had.
pub fn pools(specs: &[PortSpec], extra: usize) -> Result<Vec<Pool>, String> {
    let config = config(specs, specs, 0, extra);
    let mut pools = Vec::new();
    for spec in specs {
        pools.push(if has_own_memory(spec) { Some(own_pool(spec, config)?) } else { None });
    }
    let common = match pools.iter().flatten().next() {
        Some(pool) => pool.clone(),
        None => Pool::new(config).map_err(|error| error.to_string())?,
    };
    Ok(pools.into_iter().map(|pool| pool.unwrap_or_else(|| common.clone())).collect())
}

fn has_own_memory(spec: &PortSpec) -> bool {
    linerate_ports::has_own_memory(spec)
}

fn own_pool(spec: &PortSpec, config: PoolConfig) -> Result<Pool, String> {
    let made = linerate_ports::pool_for(&spec.to_string(), config).map_err(|error| error.to_string())?;
    made.ok_or_else(|| format!("{spec} has no memory of its own"))
}

fn config(senders: &[PortSpec], receivers: &[PortSpec], len_max: usize, extra: usize) -> PoolConfig {
    let longest = len_max.max(if receivers.is_empty() { 0 } else { self::len_max(receivers) });
    let specs: Vec<&PortSpec> = senders.iter().chain(receivers).collect();
    let frame_size = frame_bytes_for(&specs, longest);
    let wanted = FRAMES_SENDER * senders.len() + FRAMES_RECEIVER * receivers.len();
    let frames = wanted.clamp(1024, (POOL_BYTES_MAX / frame_size).max(1024)) + extra;
    let frames = frames + specs.iter().map(|spec| linerate_ports::frames_held(spec)).sum::<usize>();
    PoolConfig { frames, frame_size }
}

/// Bytes of a frame that holds any packet of this port, where that is possible.
pub fn frame_bytes(spec: &PortSpec) -> usize {
    frame_bytes_for(&[spec], len_max(std::slice::from_ref(spec)))
}

fn frame_bytes_for(specs: &[&PortSpec], longest: usize) -> usize {
    // AF_XDP takes frames of a page at most; longer packets go over several.
    let is_xdp = |spec: &&PortSpec| matches!(spec.backend.as_deref(), None | Some("xdp"));
    let most = if specs.iter().any(is_xdp) { 4096 } else { 32_768 };
    (longest + SPREAD).next_power_of_two().clamp(2048, most)
}

/// Opens a port for one direction; what the other one would need is not set up. For both, it may turn out to go one way only.
///
/// # Errors
/// As the backend; also when the port does not go in the one direction.
pub fn open(spec: &PortSpec, usage: Usage, pool: &Pool) -> Result<Opened, OpenError> {
    let text = spec.to_string();
    // Whoever sends to a file writes it.
    let writes = spec.backend.as_deref() == Some("file") && !spec.options.iter().any(|(key, _)| key == "write");
    let text = if writes && usage == Usage::Sending { format!("{text},write") } else { text };
    let opened = linerate_ports::open_for(&text, pool, usage)?;
    let caps = opened.port.caps();
    let (able, verb) = match usage {
        Usage::Sending => (caps.transmits, "send"),
        Usage::Receiving | Usage::LowLatency => (caps.receives, "receive"),
        Usage::Both => (true, ""),
    };
    if able { Ok(opened) } else { Err(OpenError::new(spec, format!("this kind of port cannot {verb}"), "")) }
}

/// As [`open`], and says on stderr which backend a bare interface got.
///
/// # Errors
/// As [`open`], in words.
pub fn open_noted(spec: &PortSpec, usage: Usage, pool: &Pool, quiet: bool) -> Result<Box<dyn Port>, String> {
    let opened = open(spec, usage, pool).map_err(|error| error.to_string())?;
    if let Some(choice) = opened.choice.filter(|_| !quiet) {
        super::note(&choice);
    }
    Ok(opened.port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_sent_to_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pcap");
        let spec: PortSpec = format!("file:{}", path.display()).parse().unwrap();
        let pool = pool(std::slice::from_ref(&spec), &[], 60).unwrap();
        assert!(open(&spec, Usage::Receiving, &pool).is_err(), "there is none yet");
        assert!(open(&spec, Usage::Sending, &pool).unwrap().port.caps().transmits);
        assert!(path.exists());
    }

    #[test]
    fn pools_stay_small() {
        let ports = |count: usize| vec!["null:".parse::<PortSpec>().unwrap(); count];
        for (senders, receivers, len_max) in [(1, 0, 60), (1, 1, 60), (8, 8, 60), (1, 1, 9014), (2, 0, 65_000)] {
            let pool = pool(&ports(senders), &ports(receivers), len_max).unwrap();
            let bytes = pool.region().frames() as usize * pool.region().frame_size();
            assert!(bytes <= POOL_BYTES_MAX, "{bytes}");
        }
    }

    #[test]
    fn a_port_that_cannot_is_refused_in_words() {
        let pool = pool(&["null:".parse().unwrap()], &[], 60).unwrap();
        let error = open(&"null:".parse().unwrap(), Usage::Receiving, &pool).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "cannot open null:: this kind of port cannot receive");
    }
}
