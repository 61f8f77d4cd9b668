//! The TCP stack behind packetdrill's C interface, so that a packetdrill that the user has built plays its scripts against it, in virtual
//! time and without rights: `packetdrill --so_filename=liblinerate_packetdrill.so SCRIPT` (docs/packetdrill.md).
//!
//! ```text
//! abi/        the C interface: packetdrill.h of google/packetdrill; nothing but conversions
//! host.rs     Host: one mutex around the stack, its clock and its sockets; calls that wait
//! sockets.rs  Sockets: the program over the stack, a socket for each descriptor
//! calls.rs    socket calls that do not wait: options, addresses, readiness
//! info.rs     what getsockopt(TCP_INFO) says, in Linux's words
//! link.rs     Ethernet around packetdrill's IP packets, and answers to ARP and neighbour discovery
//! settings.rs the stack's settings, from packetdrill's flags and the namespace's sysctls
//! ```

mod abi;
mod calls;
mod host;
mod info;
mod link;
mod settings;
mod sockets;
#[cfg(test)]
mod tests;

pub use abi::{Interface, packetdrill_interface_init};
