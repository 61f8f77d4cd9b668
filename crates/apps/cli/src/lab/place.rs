//! Where this process can measure: in network namespaces, as root or in a user namespace, or only inside itself.

use linerate_sys::capability::{Capabilities, Capability};
use linerate_sys::netns::NetNs;
use linerate_sys::userns;

/// Where a run measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In namespaces of its own making; `as_root` tells whether programs may be loaded.
    Namespaces {
        /// Whether this process may do what needs capabilities of the host.
        as_root: bool,
    },
    /// In this process.
    InProcess {
        /// Why not in namespaces.
        why: String,
    },
}

/// Finds out where, and goes there: a user namespace is entered by a process of one thread, so this comes before any thread.
pub fn place() -> Place {
    let held = Capabilities::read();
    let namespaces = |held: &Capabilities| held.has(Capability::SysAdmin) && held.has(Capability::NetAdmin);
    if let Ok(held) = held
        && namespaces(&held)
        && NetNs::anonymous().is_ok()
    {
        return Place::Namespaces {
            as_root: held.has_for_host(Capability::Bpf) && held.has_for_host(Capability::NetRaw),
        };
    }
    match userns::enter() {
        Ok(_) => Place::Namespaces { as_root: false },
        Err(error) => Place::InProcess { why: error.to_string() },
    }
}
