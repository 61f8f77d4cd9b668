//! What becomes of ports and rings at a forwarder with the steering between workers in front of it.

use linerate_control::{ControlError, Handoff};
use linerate_ofswitch_loop::SteeredForwarder;
use linerate_openflow::PortNumber;
use linerate_pipeline::BindingKind;
use linerate_port::{PortIndex, TUNNEL_KEY_BYTES};

/// Adds a port of the worker.
///
/// # Errors
/// The switch has no such port.
pub(crate) fn add_port(path: &mut SteeredForwarder, name: &str, number: PortNumber) -> Result<PortIndex, ControlError> {
    let index = bind(path, number, BindingKind::Port)?;
    path.note_port(index, name, prefix(path, number));
    Ok(index)
}

/// Adds one end of a ring between two workers, about a port of one of them.
///
/// # Errors
/// The switch has no such port.
pub(crate) fn add_handoff(
    path: &mut SteeredForwarder,
    name: &str,
    number: PortNumber,
    handoff: Handoff,
) -> Result<PortIndex, ControlError> {
    let index = match handoff {
        Handoff::ToPort => bind(path, number, BindingKind::To)?,
        Handoff::ForPort => bind(path, number, BindingKind::From)?,
        Handoff::ToWorker(_) | Handoff::FromWorker => path.reserve(),
    };
    let (prefix, pool) = (prefix(path, number), path.pool().clone());
    handoff.note(path, index, name, prefix, &pool);
    Ok(index)
}

/// Binds the lowest number that is free to a port of the switch.
fn bind(path: &mut SteeredForwarder, number: PortNumber, kind: BindingKind) -> Result<PortIndex, ControlError> {
    let index = path.next_index();
    let absent = || ControlError::new(format!("port {} is not one of the switch", number.0), "");
    path.bind(index, number, kind).then_some(index).ok_or_else(absent)
}

/// Bytes in front of the Ethernet headers of a port's packets.
fn prefix(path: &SteeredForwarder, number: PortNumber) -> usize {
    if path.has_tunnel_keys(number) { TUNNEL_KEY_BYTES } else { 0 }
}
