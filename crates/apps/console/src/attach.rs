//! `valeS:P` names: ports of Linerate's software switches.

use linerate_port::OpenError;
use linerate_switch::vale;

/// The port that a name stands for: `valeS:P` becomes a memif port of the switch valeS, which is started if need be.
///
/// # Errors
/// The switch cannot be had, or the port is in use.
pub fn attached(name: &str) -> Result<String, OpenError> {
    let program = std::env::current_exe().unwrap_or_else(|_| "linerate".into());
    vale::resolve(name, &program)
}
