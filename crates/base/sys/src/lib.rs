//! What the packet path needs of the operating system: the clock, cores, signals (and, beside them, descriptors, network
//! namespaces and devices).

pub mod affinity;
pub mod clock;
pub mod signal;
