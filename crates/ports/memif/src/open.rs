//! From a spec to a port.

use linerate_mem::Pool;
use linerate_port::{Caps, OpenError, PortSpec};

use crate::control::{self, AttachError};
use crate::options::{Options, Role};
use crate::pool::PoolMemory;
use crate::port::{MemifPort, PACKET_LEN_MAX};
use crate::transmit::SEGMENTS_MAX;

/// Opens one end of a memif interface, or with `@queue` one queue pair of it. Returns at once, whether there is a peer or not.
///
/// # Errors
/// The pool is not this port's (with `zerocopy`), the socket's path belongs to another user or to a live process, the id is taken; each with what to do.
pub fn open(mut spec: PortSpec, pool: &Pool) -> Result<MemifPort, OpenError> {
    let options = Options::take(&mut spec)?;
    let memory = PoolMemory::of(pool, &options.key);
    if options.zero_copy && memory.is_none() {
        let hint = "send, receive, pkt-gen and bridge make it; other programs copy: leave out zerocopy";
        return Err(OpenError::new(&spec, "its memory is shared with the peer, so it needs a pool made for it", hint));
    }
    let memory = memory.filter(|_| options.zero_copy);
    let seat =
        control::attach(&options, spec.queue.map(|queue| queue as u16), memory).map_err(|error| match error {
            AttachError::Path(refusal) => OpenError::new(&spec, refusal.cause, refusal.hint),
            AttachError::Taken(cause) => OpenError::new(&spec, cause, "take another id, with id=N"),
            AttachError::Io(what, error) => OpenError::new(&spec, format!("cannot {what}: {error}"), ""),
        })?;
    let caps = caps(&spec, &options);
    Ok(MemifPort::new(caps, options, seat, pool))
}

fn caps(spec: &PortSpec, options: &Options) -> Caps {
    let queues = if spec.queue.is_some() { 1 } else { usize::from(options.rings) };
    let mode = if options.interrupts { "interrupts" } else { "polling" };
    let detail = match options.key.role {
        Role::Server => format!("memif server, up to {} rings each way, {mode}", options.rings),
        Role::Client if options.zero_copy => {
            let (rings, slots) = (options.rings, 1u32 << options.log2_slots);
            format!("memif client, {rings} rings each way of {slots} slots, buffers are frames of the pool, {mode}")
        }
        Role::Client => {
            let (rings, slots, buffer) = (options.rings, 1u32 << options.log2_slots, options.buffer_bytes);
            format!("memif client, {rings} rings each way of {slots} slots, {buffer}-byte buffers, {mode}")
        }
    };
    Caps {
        name: spec.to_string(),
        backend: "memif",
        receives: true,
        transmits: true,
        frame_len_max: PACKET_LEN_MAX,
        frags_max: if options.zero_copy { SEGMENTS_MAX.min(1 << options.log2_slots) } else { SEGMENTS_MAX },
        zero_copy: options.zero_copy,
        copies: if options.zero_copy {
            "nothing is copied here; the peer can read and write all frames of this pool"
        } else {
            "this process copies each packet between the pool's frame and memory shared with the peer"
        },
        detail,
        queues,
        ..Caps::default()
    }
}
