//! The accounts of switches: Linerate's own, asked over their control sockets, and Open vSwitch's.

mod counters;
mod open_vswitch;
mod source;

pub use counters::SwitchCounters;
pub use counters::place_of_port;
pub(crate) use open_vswitch::{of_ports, until_heard};
pub use source::SwitchSource;
