//! What the packet path needs of the operating system: the clock, cores, signals, network namespaces
//! and devices, memory shared with other processes, and what this process is allowed to do.
//!
//! The files of this folder are those of Linux, or of all systems. `freebsd/` has those that differ there, by the same names and with the
//! same functions, as far as what is built for FreeBSD calls them.

#[cfg_attr(target_os = "freebsd", path = "freebsd/affinity.rs")]
pub mod affinity;
#[cfg(target_os = "linux")]
pub mod capability;
mod checked;
pub mod clock;
#[cfg_attr(target_os = "freebsd", path = "freebsd/counters.rs")]
pub mod counters;
#[cfg_attr(target_os = "freebsd", path = "freebsd/epoll.rs")]
pub mod epoll;
#[cfg_attr(target_os = "freebsd", path = "freebsd/ethtool.rs")]
pub mod ethtool;
pub mod fence;
pub mod folder_lock;
#[cfg(target_os = "linux")]
pub mod held;
mod interface;
mod interfaces;
#[cfg_attr(target_os = "freebsd", path = "freebsd/membarrier.rs")]
mod membarrier;
#[cfg(target_os = "linux")]
pub mod memory;
#[cfg(target_os = "linux")]
pub mod napi;
#[cfg_attr(target_os = "freebsd", path = "freebsd/netdev.rs")]
pub mod netdev;
#[cfg(target_os = "linux")]
pub mod netlink;
#[cfg(target_os = "linux")]
pub mod netns;
#[cfg(target_os = "linux")]
pub mod note;
mod open_files;
pub mod owner;
#[cfg(target_os = "linux")]
pub mod perf;
pub mod poll;
#[cfg_attr(target_os = "freebsd", path = "freebsd/promiscuous.rs")]
pub mod promiscuous;
#[cfg(target_os = "linux")]
pub mod ptp;
pub mod random;
#[cfg(target_os = "linux")]
pub mod raw;
#[cfg_attr(target_os = "freebsd", path = "freebsd/registered.rs")]
mod registered;
#[cfg(target_os = "linux")]
pub mod rss;
#[cfg(target_os = "linux")]
pub mod shared;
pub mod signal;
#[cfg_attr(target_os = "freebsd", path = "freebsd/slack.rs")]
mod slack;
pub mod terminal;
mod timespec;
#[cfg(target_os = "linux")]
pub mod timestamping;
#[cfg(target_os = "linux")]
pub mod usage;
#[cfg(target_os = "linux")]
pub mod userns;
#[cfg(target_os = "linux")]
pub mod veth;

pub use checked::checked;
pub use open_files::raise_open_files;
