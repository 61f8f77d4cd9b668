//! From a port's name to an open port. **The only crate that names backends.**
//!
//! ```
//! let pool = linerate_mem::Pool::new(Default::default()).unwrap();
//! let port = linerate_ports::open("pipe:a", &pool).unwrap();
//! assert_eq!(port.caps().backend, "pipe");
//! let error = linerate_ports::open("piep:a", &pool).err().unwrap();
//! assert!(error.to_string().contains("pipe:NAME"));
//! ```
//! [`pool_for`] makes the pool for a port whose memory is its own. [`open`] and [`open_for`] open any name of the grammar in `linerate_port::PortSpec`; a bare interface name is opened by the
//! fastest backend that works there (see `choose.rs` for which, and why). [`list`] and [`interfaces`] tell what there is on
//! this machine and, for what cannot be used, why not and what to do.
//!
//! ```text
//! backend.rs     the table of backends            choose.rs      the backend of a bare interface
//! open.rs        spec text -> port                interfaces.rs  what each interface can be opened with
//! filter.rs      capture filters, by libpcap or without it
//! ```
#![forbid(unsafe_code)]

mod backend;
mod choose;
mod filter;
mod interfaces;
mod open;

/// Rings whose packets are looked at where they lie.
pub mod capture {
    pub use linerate_port_packet::{CaptureOptions, RingCapture, RingCounters, RingPacket, Spread};
}

pub use backend::{Backend, Unusable, list};
pub use filter::{FilterCompiler, FilterPlace, compile_filter};
pub use interfaces::{Interface, interfaces};
pub use open::{Opened, Usage, frames_held, has_own_memory, open, open_for, pool_for};
