//! From a spec to a port.

use linerate_mem::Pool;
use linerate_port::{Caps, Device, FarSide, OpenError, PortSpec};

use crate::control::{self, AttachError};
use crate::link::PACKET_LEN_MAX;
use crate::options::{Options, Role};
use crate::pool::PoolMemory;
use crate::port::MemifPort;
use crate::transmit::SEGMENTS_MAX;

/// Opens one end of a memif interface, with a port for each of its queue pairs, or with `@queue` for that one. Returns at once, whether there is a peer or not.
///
/// # Errors
/// The pool is not this port's (with `zerocopy`), the socket's path belongs to another user or to a live process, the id is taken; each with what to do.
pub fn open(mut spec: PortSpec, pool: &Pool) -> Result<Device<MemifPort>, OpenError> {
    let options = Options::take(&mut spec)?;
    let memory = PoolMemory::of(pool, &options.key);
    if options.zero_copy && memory.is_none() {
        let hint = "send, receive, pkt-gen and bridge make it; other programs copy: leave out zerocopy";
        return Err(OpenError::new(&spec, "its memory is shared with the peer, so it needs a pool made for it", hint));
    }
    let memory = memory.filter(|_| options.zero_copy);
    let port = |queue: u16| {
        let handoff = control::attach(&options, queue, memory.clone()).map_err(|error| refused(&spec, error))?;
        Ok(MemifPort::new(caps(&spec, &options, queue), options.clone(), handoff, pool))
    };
    let first = port(options.queues.start)?;
    Ok(Device::new(spec.to_string(), first, options.queues.clone().skip(1).map(port).collect::<Result<_, _>>()?))
}

fn refused(spec: &PortSpec, error: AttachError) -> OpenError {
    match error {
        AttachError::Path(refusal) => OpenError::new(spec, refusal.cause, refusal.hint),
        AttachError::Taken(cause) => OpenError::new(spec, cause, "take another id, with id=N"),
        AttachError::Io(what, error) => OpenError::new(spec, format!("cannot {what}: {error}"), ""),
    }
}

fn caps(spec: &PortSpec, options: &Options, queue: u16) -> Caps {
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
        name: if options.queues.len() > 1 { spec.at_queue(queue.into()) } else { spec.to_string() },
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
        far_side: FarSide::Peer,
        survives_peers: options.next_peer,
        ..Caps::default()
    }
}
