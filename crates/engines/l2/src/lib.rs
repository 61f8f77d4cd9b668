//! The learning switch (IEEE 802.1D/Q bridging, without spanning tree): MAC and VLAN tables, floods, limits, mirrors, and an
//! account of every packet. No sockets, no threads, no clock: the program hands batches in and takes batches out.
//!
//! ```text
//!             forward(ingress, batch, pool, now)          output(port) -> Port::transmit -> tx_done(port, n, now)
//! batch  ---> parse -> police -> decide -> distribute ---> egress queues ---> ports
//! forward.rs                     table.rs  flood.rs, mirror.rs   queue.rs
//! ```
//! Read [`Switch`] and then `forward.rs`. Several workers serve the ports of one switch with a [`Switch`] each and one MAC table
//! (`workers.rs`, `table/shared.rs`). The equations of the account are in [`Totals`]. A worker drives the switch as its
//! [`linerate_port::Datapath`] (`datapath.rs`).
//!
//! ```
//! use linerate_l2::{PortSettings, Switch, SwitchConfig};
//! use linerate_mem::{Batch, Pool};
//! use linerate_port::Datapath;
//!
//! let mut pool = Pool::new(Default::default()).unwrap();
//! let mut switch = Switch::new(SwitchConfig::default(), &pool).unwrap();
//! let [a, b] = [(); 2].map(|()| switch.add_port(PortSettings::default()).unwrap());
//! let mut batch = Batch::new(&pool, 32);
//! pool.alloc(&mut batch, 1, 60);
//! batch.packet_mut(0)[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
//! switch.forward(a, &mut batch, &mut pool, 1_000);
//! assert_eq!(switch.output(b).map(|queue| queue.len()), Some(1));
//! // A port would take it here.
//! pool.free(switch.output(b).unwrap());
//! switch.tx_done(b, 1, 1_500);
//! assert_eq!(switch.macs().next().unwrap().port, a);
//! switch.totals().balances().unwrap();
//! ```
#![forbid(unsafe_code)]

mod binding;
mod counters;
mod datapath;
mod flood;
mod forward;
mod member;
mod mirror;
mod mirror_tap;
mod mirroring;
mod packet;
mod parse;
mod queue;
mod resize;
mod settings;
mod switch;
mod table;
mod vlan;
mod workers;

pub use counters::{DropCounts, DropReason, PortCounters, Totals, VlanCounters};
pub use linerate_measure::Rate;
pub use mirror::{FlowMatch, Mirror, MirrorCounts, MirrorId, MirrorSelect};
pub use resize::{Resize, SpareTable};
pub use settings::{ConfigError, PortIndex, PortSettings, SettingsError, StormLimits, SwitchConfig};
pub use switch::Switch;
pub use table::{MacCounters, MacEntry};
pub use vlan::{CUSTOMER_TAG, SERVICE_TAG, VlanMode, VlanSet};
