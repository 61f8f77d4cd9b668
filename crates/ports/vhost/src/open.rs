//! From a spec to a device and its port.

use std::sync::Arc;

use linerate_mem::Pool;
use linerate_port::{Caps, Device, FarSide, OpenError, PortSpec};

use crate::device::Shared;
use crate::options::Options;
use crate::port::{SLOTS_MAX, VhostPort};
use crate::serve::{Role, Server};
use crate::socket::ServerSocket;

/// Bytes of an Ethernet header and of one 802.1Q tag.
const OVERHEAD_BYTES: usize = 14 + 4;

/// Opens the device that `spec` names; front-ends may come at any time from then on.
///
/// # Errors
/// No socket can be made at the path, or the options mean nothing; each with what to do.
pub fn open(spec: PortSpec, pool: &Pool) -> Result<Device<VhostPort>, OpenError> {
    let text = spec.to_string();
    let options = Options::read(spec)?;
    let role = if options.client {
        Role::Client(options.path.clone())
    } else {
        let refused = |refusal: crate::socket::Refusal| OpenError::new(&text, refusal.cause, refusal.hint);
        Role::Server(ServerSocket::open(&options.path, options.mode).map_err(refused)?)
    };
    let detail = detail(&options);
    let failed = |error: std::io::Error| OpenError::new(&text, format!("setting up the device: {error}"), "");
    let shared = Arc::new(Shared::new(options.queue_pairs).map_err(failed)?);
    let server = Server::start(&shared, role, options.queue_pairs).map_err(failed)?;
    let caps = Caps {
        name: text.clone(),
        backend: "vhost",
        receives: true,
        transmits: true,
        frame_len_max: options.mtu + OVERHEAD_BYTES,
        frags_max: SLOTS_MAX,
        copies: "each packet is copied once, between the guest's buffers and the pool's frames",
        detail,
        far_side: FarSide::Peer,
        ..Caps::default()
    };
    Ok(Device::of(VhostPort::new(caps, pool, shared, server)))
}

fn detail(options: &Options) -> String {
    let path = options.path.display();
    let end = if options.client {
        format!("connects to the front-end at {path}")
    } else {
        format!("listens at {path}, mode {:04o}", options.mode)
    };
    let pairs = options.queue_pairs;
    let plural = if pairs == 1 { "" } else { "s" };
    format!("vhost-user device, {end}, {pairs} queue pair{plural}, split rings, MTU {}", options.mtu)
}
