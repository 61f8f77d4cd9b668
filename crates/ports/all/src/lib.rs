//! From a port's name to an open port. **The only crate that names backends.**
//!
//! ```
//! let pool = linerate_mem::Pool::new(Default::default()).unwrap();
//! let port = linerate_ports::open("pipe:a", &pool).unwrap();
//! assert_eq!(port.caps().backend, "pipe");
//! let error = linerate_ports::open("piep:a", &pool).err().unwrap();
//! assert!(error.to_string().contains("pipe:NAME"));
//! ```
//! [`open_device`] opens a spec of the grammar in `linerate_port::PortSpec`, completed by `linerate_port::OpenOptions`, and gives a device
//! with a port for each queue pair; [`open`] opens a name as one port. A bare interface name is opened by the fastest backend that
//! works there (see `choose.rs` for which, and why). [`pool`] makes the memory that ports are opened on. [`list`] and [`interfaces`]
//! tell what there is on this machine and, for what cannot be used, why not and what to do.
//!
//! ```text
//! backend.rs     what is known of a backend       choose.rs      the backend of a bare interface
//! table.rs       the table (entry.rs: a row)          interfaces.rs  what each interface can be opened with
//! open.rs        spec -> device                   merged.rs      several queue pairs as one port
//! pool.rs        memory for ports                 filter.rs      capture filters, by libpcap or without it
//! merging.rs     AF_XDP, by which TCP segments leave in one piece
//! freebsd/       those of them that differ there
//! ```
#![forbid(unsafe_code)]

mod backend;
#[cfg_attr(target_os = "freebsd", path = "freebsd/choose.rs")]
mod choose;
mod entry;
mod filter;
#[cfg(target_os = "linux")]
mod interfaces;
#[cfg_attr(target_os = "freebsd", path = "freebsd/libpcap.rs")]
mod libpcap;
mod merged;
#[cfg(target_os = "linux")]
mod merging;
mod open;
#[cfg(target_os = "linux")]
mod pci;
mod pool;
#[cfg_attr(target_os = "freebsd", path = "freebsd/table.rs")]
mod table;

/// Rings whose packets are looked at where they lie.
#[cfg(target_os = "linux")]
pub mod capture {
    pub use linerate_port_packet::{CaptureOptions, RingCapture, RingCounters, RingPacket, Spread};
}

pub use backend::{
    Backend, access, deferrable, far_side, file, has_netmap, is_packet_socket, list, memif, offloads, shm,
    spreads_by_device,
};
pub use entry::{Access, Unusable};
pub use filter::{FilterCompiler, FilterPlace, compile_filter};
#[cfg(target_os = "linux")]
pub use interfaces::{Interface, interfaces};
pub use merged::{divide, merge, share_out};
pub use open::{Opened, open, open_device, parse, pipe};
#[cfg(target_os = "linux")]
pub use pci::{has_pci_cards, pci_card};
pub use pool::{FRAME_LEN_MAX, HEADERS, PoolPlan, frame_bytes, len_max, pool, pool_config, pools};
