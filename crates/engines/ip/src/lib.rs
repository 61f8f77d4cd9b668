//! The layer below TCP of one shard: Ethernet with a VLAN tag, ARP, IPv4, IPv6 with neighbour discovery, ICMP both ways, path MTU,
//! UDP, DHCP, names. Frames and the time come in; frames, packets for TCP and UDP, and events go out. No sockets, no threads, no clock.
//!
//! ```text
//! frame --fast4, fast6--> TCP or UDP, nothing else to do                      the rule: a few compares
//!       --receive-------> Inbound: Tcp, Udp, Error | Handled | Dropped        everything else, and all checks
//! packet to send --hop--> HopId --header--> 14 or 18 bytes to copy, or None: `park` the packet until the neighbour answers
//! time --tick--> resolving, probing, duplicate detection, leases, reassembly  `next_deadline_ns` says when
//! ```
//! Read [`Ip`] first. [`Counters`] say what became of every frame, and their sums balance.
#![forbid(unsafe_code)]

mod address;
mod config;
mod counters;
mod dhcp;
mod dns;
mod error_limit;
mod event;
mod fast;
mod inbound;
mod ip;
mod link;
mod neighbour;
mod output;
mod path_mtu;
mod random;
mod routes;
mod shard;
mod shared_lease;
mod steering;
mod udp;

pub use address::AddressState;
pub use config::{AddressRange, ConfigError, DhcpMode, IpConfig, Limits, Redirects};
pub use counters::{Counters, DropReason};
pub use dns::{ResolveError, ResolveId, Resolver};
pub use event::Event;
pub use fast::{Fast4, Fast6, Usual4, UsualSyn4};
pub use inbound::{ErrorKind, IcmpError, Inbound, Original, Packet};
pub use ip::{ErrorOut, Ip, NoRoute};
pub use link::LinkHeader;
pub use neighbour::HopId;
pub use output::Output;
pub use shard::{SHARDS_MAX, Shard};
pub use shared_lease::SharedLease;
pub use steering::{Steering, steering};
pub use udp::{BindError, Datagram, SendError, Udp, UdpCounters, UdpId};
