//! What the packet path needs of the operating system: the clock, cores, signals, network namespaces
//! and devices, memory shared with other processes, and what this process is allowed to do.

pub mod affinity;
pub mod capability;
mod checked;
pub mod clock;
pub mod counters;
pub mod epoll;
pub mod ethtool;
pub mod fence;
pub mod folder_lock;
pub mod held;
pub mod memory;
pub mod napi;
pub mod netdev;
pub mod netlink;
pub mod netns;
pub mod note;
pub mod owner;
pub mod pci;
pub mod perf;
pub mod poll;
pub mod process;
pub mod promiscuous;
pub mod ptp;
pub mod random;
pub mod raw;
pub mod rss;
pub mod shared;
pub mod signal;
pub mod terminal;
pub mod timestamping;
pub mod usage;
pub mod userns;
pub mod veth;

pub use checked::checked;
