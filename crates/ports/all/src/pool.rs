//! The memory of ports: how many frames, how large, and whose.

use std::sync::Arc;

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{Direction, OpenError, OpenOptions, PortSpec};
use linerate_sys::netdev::Netdev;

use crate::backend::of;
use crate::entry::MakePool;
use crate::open::impaired;

/// Bytes of an Ethernet header and of three VLAN tags, which come on top of an MTU: two that a host sends, and one that a switch
/// adds for a tunnel.
pub const HEADERS: usize = 26;

/// Frames for the rings and batches of a port that sends, and of one that receives (an AF_XDP fill ring holds 8,192).
const FRAMES_TX: usize = 4096;
const FRAMES_RX: usize = 12_288;
/// Memory of the frames of one thread, unless a ring was asked for that needs more; larger frames are fewer.
const BYTES_MAX: usize = 64 << 20;
const FRAMES_MIN: usize = 1024;
/// Bytes that a pool keeps in front of packets, at most, to spread them over cache lines.
const SPREAD: usize = 448;
/// Bytes of the largest frame, and of the largest one that AF_XDP takes; longer packets go over several.
const FRAME_BYTES_MAX: usize = 32_768;
const PAGE_BYTES: usize = 4096;

/// Longest packet in bytes, without FCS, that one frame holds.
pub const FRAME_LEN_MAX: usize = FRAME_BYTES_MAX - SPREAD;

/// What a pool is for.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolPlan<'a> {
    /// The ports that are opened on it, and how.
    pub ports: &'a [(&'a PortSpec, &'a OpenOptions)],
    /// Longest packet in bytes, without FCS; 0 for the longest that the interfaces among the ports carry.
    pub len_max: usize,
    /// Frames beside those of the ports: for packets that wait in the program.
    pub extra: usize,
}

/// Longest packet in bytes, without FCS, that the interfaces among these ports carry; that of Ethernet where there is none.
pub fn len_max<'a>(specs: impl IntoIterator<Item = &'a PortSpec>) -> usize {
    specs.into_iter().filter_map(mtu).map(|mtu| mtu + HEADERS).fold(1500 + HEADERS, usize::max)
}

/// The MTU that the name gives, or else that of the interface.
fn mtu(spec: &PortSpec) -> Option<usize> {
    let given = spec.own.iter().find(|(key, _)| key == "mtu").and_then(|(_, mtu)| mtu.parse().ok());
    given.or_else(|| Netdev::open(&spec.target).ok()?.mtu().ok().map(|mtu| mtu as usize))
}

/// Bytes of a frame that holds packets of `len_max` bytes, as far as these ports take such frames.
pub fn frame_bytes<'a>(specs: impl IntoIterator<Item = &'a PortSpec>, len_max: usize) -> usize {
    let pages = |spec: &PortSpec| spec.backend.is_none() || of(spec).is_some_and(|entry| entry.lends_frames);
    let most = if specs.into_iter().any(pages) { PAGE_BYTES } else { FRAME_BYTES_MAX };
    (len_max + SPREAD).next_power_of_two().clamp(2048, most)
}

/// The frames of a pool for these ports.
pub fn pool_config(plan: &PoolPlan<'_>) -> PoolConfig {
    let specs = || plan.ports.iter().map(|(spec, _)| *spec);
    let longest = if plan.len_max == 0 { len_max(specs()) } else { plan.len_max };
    let frame_size = frame_bytes(specs(), longest);
    let threads = plan.ports.iter().filter_map(|(_, options)| options.threads).max().unwrap_or(1);
    let wanted: usize = plan.ports.iter().map(|(spec, options)| frames(&spec.completed(options))).sum();
    let lent: usize = plan.ports.iter().map(|(spec, options)| lent(&spec.completed(options), frame_size)).sum();
    let most = (BYTES_MAX * threads / frame_size).max(FRAMES_MIN);
    let waiting: usize = plan.ports.iter().map(|(spec, options)| held(&spec.completed(options))).sum();
    PoolConfig { frames: wanted.clamp(FRAMES_MIN, most).max(lent) + waiting + plan.extra, frame_size }
}

/// Frames of a device whose rings have the usual size.
fn frames(spec: &PortSpec) -> usize {
    let each = match spec.options.direction.unwrap_or(Direction::Both) {
        Direction::Transmit => FRAMES_TX,
        Direction::Receive => FRAMES_RX,
        Direction::Both => FRAMES_TX + FRAMES_RX,
    };
    each * spec.options.ports()
}

/// Frames that a receive ring of a given size needs: the port lends half of a pool's frames to the kernel.
fn lent(spec: &PortSpec, frame_size: usize) -> usize {
    const ENTRIES_MAX: usize = 1 << 20;
    if !spec.options.receives() || !of(spec).is_some_and(|entry| entry.lends_frames) {
        return 0;
    }
    let entries = spec.own.iter().find(|(key, _)| key == "ring").and_then(|(_, entries)| entries.parse().ok());
    let entries = entries.map(|entries: usize| entries.saturating_mul(spec.options.queues.unwrap_or(1) as usize));
    let entries = entries.or(spec.options.ring_bytes.map(|bytes| bytes as usize / frame_size));
    entries.map_or(0, |entries| 2 * entries.min(ENTRIES_MAX) + FRAMES_TX)
}

/// Frames in which packets wait that the port delays. A mistake in its words shows when it is opened.
fn held(spec: &PortSpec) -> usize {
    impaired(spec).map_or(0, |(_, impairments)| impairments.frames() * spec.options.ports())
}

/// One pool for these ports.
///
/// # Errors
/// The memory cannot be had, or two of the ports have memory of their own.
pub fn pool(plan: &PoolPlan<'_>) -> Result<Pool, OpenError> {
    let config = pool_config(plan);
    let mut own: Vec<PortSpec> = plan.ports.iter().map(|(spec, options)| spec.completed(options)).collect();
    own.retain(|spec| own_memory(spec).is_some());
    own.dedup_by(|one, other| one.to_string() == other.to_string());
    match &own[..] {
        [] => plain(plan, config),
        [spec] => pool_for(spec, config).transpose().unwrap_or_else(|| plain(plan, config)),
        [first, others @ ..] => {
            let make = |spec: &PortSpec| pool_for(spec, config).transpose().unwrap_or_else(|| plain(plan, config));
            let pool = make(first)?;
            for other in others {
                // Ports of one memory area of netmap have the same pool.
                let shares = first.backend == other.backend && Arc::ptr_eq(make(other)?.region(), pool.region());
                if !shares {
                    let cause = format!("{first} and it each have memory of their own");
                    return Err(OpenError::new(other, cause, "`linerate bridge` joins them"));
                }
            }
            Ok(pool)
        }
    }
}

/// A pool for each of these ports, which packets go between: that of a port whose memory is its own, and one for all others,
/// which is the first such port's, if there is one, so that packets are handed over.
///
/// # Errors
/// The memory cannot be had.
pub fn pools(plan: &PoolPlan<'_>) -> Result<Vec<Pool>, OpenError> {
    let config = pool_config(plan);
    let own = plan.ports.iter().map(|(spec, options)| pool_for(&spec.completed(options), config));
    let own = own.collect::<Result<Vec<_>, _>>()?;
    let common = match own.iter().flatten().next() {
        Some(pool) => pool.clone(),
        None => plain(plan, config)?,
    };
    Ok(own.into_iter().map(|pool| pool.unwrap_or_else(|| common.clone())).collect())
}

fn plain(plan: &PoolPlan<'_>, config: PoolConfig) -> Result<Pool, OpenError> {
    let names: Vec<String> = plan.ports.iter().map(|(spec, _)| spec.to_string()).collect();
    Pool::new(config).map_err(|error| OpenError::new(names.join(", "), error.to_string(), ""))
}

/// The pool that a port must be opened on, where its memory is its own (`shm:`, `memif:` with `zerocopy`): with the frames of
/// `config`, or the one that is there already. `None`: any pool will do.
fn pool_for(spec: &PortSpec, config: PoolConfig) -> Result<Option<Pool>, OpenError> {
    let (spec, _) = impaired(spec)?;
    own_memory(&spec).map(|make| make(&spec, config)).transpose()
}

/// What makes the pool of a port whose memory is its own.
fn own_memory(spec: &PortSpec) -> Option<MakePool> {
    let (has_own_memory, make) = of(spec)?.pool?;
    has_own_memory(spec).then_some(make)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(texts: &[&str], options: &OpenOptions, len_max: usize) -> PoolConfig {
        let specs: Vec<PortSpec> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let ports: Vec<_> = specs.iter().map(|spec| (spec, options)).collect();
        pool_config(&PoolPlan { ports: &ports, len_max, extra: 0 })
    }

    #[test]
    fn which_ports_need_a_pool_of_their_own() {
        let own = |text: &str| own_memory(&text.parse().unwrap()).is_some();
        assert!(own("shm:/a") && own("memif:/a,role=client,zerocopy"));
        assert!(!own("memif:/a,role=client") && !own("memif:/a,zerocopy=no") && !own("null:") && !own("eth0"));
    }

    #[test]
    fn pools_stay_small() {
        let (both, transmit) = (OpenOptions::default(), OpenOptions::transmit());
        for (ports, options, len_max) in [(1, &transmit, 60), (1, &both, 60), (8, &both, 60), (2, &both, 65_000)] {
            let made = config(&vec!["null:"; ports], options, len_max);
            assert!(made.frames * made.frame_size <= BYTES_MAX && made.frames >= FRAMES_MIN, "{made:?}");
        }
        assert_eq!(config(&["null:"], &OpenOptions::receive(), 60).frames, FRAMES_RX);
        let threads = OpenOptions { threads: Some(8), ..OpenOptions::receive() };
        assert_eq!(config(&["null:"], &threads, 60).frames, 8 * FRAMES_RX);
    }

    #[test]
    fn frames_hold_the_longest_packet_or_what_the_backend_takes() {
        let size = |text: &str, len_max| config(&[text], &OpenOptions::default(), len_max).frame_size;
        assert_eq!((size("none", 1522), size("none", 9022), size("xdp:none", 9022)), (2048, 4096, 4096));
        assert_eq!((size("packet:none", 9022), size("null:", 65_535)), (16_384, 32_768));
        assert_eq!((size("tap:linerate-none,mtu=9000", 0), size("null:", 0)), (16_384, 2048));
    }

    #[test]
    fn a_ring_of_frames_gets_the_frames_that_it_asks_for() {
        let asked = OpenOptions { ring_bytes: Some(256 << 20), ..OpenOptions::receive() };
        assert_eq!(config(&["xdp:none"], &asked, 60).frames, (2 << 17) + FRAMES_TX);
        assert_eq!(config(&["packet:none"], &asked, 60).frames, FRAMES_RX);
        assert_eq!(config(&["xdp:none,ring=65536"], &OpenOptions::receive(), 60).frames, (2 << 16) + FRAMES_TX);
    }
}
