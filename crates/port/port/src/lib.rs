//! The waist of the hourglass: what every port is, whatever is behind it.
//!
//! A [`Port`] is one queue pair to somewhere; a [`Device`] is what was opened, with a port for each of its queue pairs. Engines see only this crate; backends implement it; `linerate-ports` turns a
//! [`PortSpec`] text into one. Read [`Port`] first, then [`Caps`] and [`Stats`].
#![forbid(unsafe_code)]

mod caps;
mod checksum;
mod datapath;
mod device;
mod error;
mod fault_pause;
mod fitting;
mod long_packet;
mod monitor;
mod options;
mod port;
mod rx_counter;
mod spec;
mod stats;
mod tx_generator;
mod vnet_header;

pub use caps::{Caps, FarSide, RxRing, TUNNEL_KEY_BYTES};
pub use checksum::{checksum_of, complete_checksum, complete_checksums, find_partial};
pub use datapath::{Context, Datapath, PortIndex, TransmitRef};
pub use device::Device;
pub use error::{OpenError, PortError};
pub use fault_pause::FaultPause;
pub use fitting::Fitting;
pub use long_packet::{LongPacket, Unfinished};
pub use monitor::{Monitor, MonitorAccount, MonitorCounts, WatchSwitch, Watched};
pub use options::{Direction, OnCorrupt, OpenOptions, TxFull};
pub use port::{Interest, LinkState, Port, Readiness};
pub use rx_counter::{Counted, RxCounter};
pub use spec::{PortSpec, SpecError};
pub use stats::{Drops, Stats, drops_that_happened};
pub use tx_generator::{ChecksumFix, FieldRule, FieldRuleKind, GeneratorRun, GeneratorStream, TxGenerator};
pub use vnet_header::{VnetHeader, merge_at};
