//! `valeS:P` names: on FreeBSD, ports of the kernel's switches, which netmap has.

use linerate_port::OpenError;
use linerate_switch::vale::ValeName;

/// The port that a name stands for: `valeS:P` becomes one of netmap, which makes the switch if need be.
///
/// # Errors
/// It is of this kind, but names no port.
pub fn attached(name: &str) -> Result<String, OpenError> {
    match ValeName::parse(name) {
        None => Ok(name.into()),
        Some(Ok(_)) => Ok(format!("netmap:{name}")),
        Some(Err(error)) => Err(error),
    }
}
