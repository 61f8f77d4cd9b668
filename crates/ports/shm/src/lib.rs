//! `shm:SOCKET` - a link between two processes of this user. Slots change hands; nothing is copied.
//!
//! ```text
//! shm:/run/user/1000/a              both sides write the same; the first makes the memory, the second joins
//! shm:a,ring=4096                   slots of each direction (the first one's count): 1,024
//! shm:a,once                        ends when the other side ends; without it, the next one is waited for
//! ```
//! How it differs from `memif:`: both ends are Linerate, they share **one** region of frames, and every frame is in exactly one
//! of the two processes; a packet that passes on to a third port of that process is not copied either. memif's two ends each
//! have memory of their own, may be of any make (VPP, DPDK), and somebody copies.
//!
//! So the memory comes first: [`pool`] joins the socket and gives the pool, [`open`] the port on it. All ports of the process
//! that exchange slots with it are opened on that pool. Each side keeps to about half of the frames and gives back what it has
//! beyond that.
//!
//! **A peer can break its own link only.** Which frames are here is kept in private memory (`linerate_mem::OwnershipTable`); a frame that
//! the peer hands over twice, or does not have, a packet outside its frame, an index that cannot be: the link is cut and the
//! port says `PeerCorrupt`. It can write into any frame of this region while it is mapped, so use one link (and one pool) for
//! each peer that may not see the others' packets.
//!
//! ```text
//! layout.rs    the shared memory      link.rs    how the two processes find each other
//! ring.rs      one end of a ring      port.rs    the port               sys.rs    system calls
//! port/        frames.rs: what goes from side to side         peer.rs: whether the other side is there
//! ```

mod layout;
mod link;
mod port;
mod ring;
mod sys;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{Device, OpenError, PortSpec};

use layout::{RING_MAX, Shape};
use link::{Joined, Link};
pub use port::ShmPort;

/// Slots of each direction unless `ring=` says otherwise.
const RING_DEFAULT: u32 = 1024;
const OPTIONS: &[&str] = &["once", "ring"];

/// Options of a spec.
struct Options {
    ring: u32,
    once: bool,
}

fn options(mut spec: PortSpec) -> Result<Options, OpenError> {
    let named = spec.clone();
    let refuse = |problem: String| OpenError::new(&named, problem, "");
    let ring = spec.take_number("ring", 2, u64::from(RING_MAX)).map_err(|error| refuse(error.problem))?;
    let once = spec.take_flag("once").map_err(|error| refuse(error.problem))?;
    spec.finish(OPTIONS).map_err(|error| refuse(error.problem))?;
    if spec.target.is_empty() {
        return Err(OpenError::new(&named, "a link needs the path of a socket", "try shm:/tmp/a"));
    }
    let ring = ring.map_or(RING_DEFAULT, |ring| (ring as u32).next_power_of_two());
    Ok(Options { ring, once })
}

/// The pool of link `spec.target`: a new one, with `config`'s frames for each side, or the one of the process that is there
/// already, whatever `config` says.
///
/// # Errors
/// The socket cannot be made or is somebody else's, both sides are in use, or there is no memory.
pub fn pool(spec: &PortSpec, config: PoolConfig) -> Result<Pool, OpenError> {
    let Options { ring, .. } = options(spec.clone())?;
    let frames = u32::try_from(config.frames * 2).unwrap_or(u32::MAX);
    let frame_size = u32::try_from(config.frame_size).unwrap_or(0);
    let wanted = Shape { ring, frames, frame_size };
    if !wanted.is_possible() {
        return Err(OpenError::new(spec, format!("no memory has {frames} frames of {frame_size} bytes"), ""));
    }
    let refuse = |(cause, hint): link::Refusal| OpenError::new(spec, cause, hint);
    let Joined { memory, first, link } = link::join(Path::new(&spec.target), wanted).map_err(refuse)?;
    let shape = link.shape;
    sys::pool(std::os::fd::AsFd::as_fd(&memory), shape, first, link)
        .map_err(|error| OpenError::new(spec, error.to_string(), ""))
}

/// Opens this process's side of link `spec.target` on the pool that [`pool`] gave for it.
///
/// # Errors
/// The pool is another one, or its side has a port, or had one.
pub fn open(spec: PortSpec, pool: &Pool) -> Result<Device<ShmPort>, OpenError> {
    let Options { once, .. } = options(spec.clone())?;
    let link = pool.region().companion().and_then(|companion| companion.downcast_ref::<Arc<Link>>());
    let Some(link) = link.filter(|link| !link.is_inside()) else {
        let hint = "its memory is shared with the other process, so the pool must be made for it";
        return Err(OpenError::new(&spec, "this pool is of another memory", hint));
    };
    if link.opened[link.side].swap(true, Ordering::AcqRel) {
        return Err(OpenError::new(&spec, "this side of the link has been opened before", "use another socket"));
    }
    ShmPort::new(&spec.to_string(), pool, Arc::clone(link), link.side, 0, once)
        .map(Device::of)
        .ok_or_else(|| OpenError::new(&spec, "this pool is of another memory", ""))
}

/// A pool on shared memory whose both sides are in this process, for [`pair_from`].
///
/// # Errors
/// In words.
pub fn pool_inside(config: PoolConfig, ring: usize) -> Result<Pool, String> {
    let ring = u32::try_from(ring).unwrap_or(u32::MAX).clamp(2, RING_MAX).next_power_of_two();
    let shape = Shape { ring, frames: config.frames as u32, frame_size: config.frame_size as u32 };
    if !shape.is_possible() {
        return Err(format!("{config:?} is not possible"));
    }
    let memory = sys::sealed_memory(shape.bytes()).map_err(|error| error.to_string())?;
    let link = link::inside(&memory, shape).map_err(|error| error.to_string())?;
    sys::pool(std::os::fd::AsFd::as_fd(&memory), shape, true, link).map_err(|error| error.to_string())
}

/// Both sides of the link inside this process that `pool` was made for, with ring indices that start at `start` (tests put the
/// wrap there); `None` with another pool.
pub fn pair_from(pool: &Pool, start: u32) -> Option<(ShmPort, ShmPort)> {
    let link = pool.region().companion()?.downcast_ref::<Arc<Link>>().filter(|link| link.is_inside())?;
    if link.opened[0].swap(true, Ordering::AcqRel) {
        return None;
    }
    let side = |side| ShmPort::new("shm:inside", pool, Arc::clone(link), side, start, true);
    Some((side(0)?, side(1)?))
}
