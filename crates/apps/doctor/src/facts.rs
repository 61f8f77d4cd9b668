//! What is known about the host: plain values, `None` or empty where the kernel did not tell.

use std::collections::BTreeMap;

use serde::Serialize;

/// Everything that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Kernel release.
    pub kernel: String,
    /// Words of the kernel's command line.
    pub command_line: Vec<String>,
    /// Memory.
    pub memory: Memory,
    /// Processor cores.
    pub cores: Cores,
    /// Settings under /proc/sys, by their dotted name.
    pub sysctls: BTreeMap<String, String>,
    /// What this process may do.
    pub rights: Rights,
    /// Counters of the receive path since boot.
    pub softnet: Softnet,
    /// Names of processes that move interrupts about.
    pub interrupt_balancers: Vec<String>,
    /// Network cards on the PCI bus.
    pub pci_cards: Vec<PciCard>,
    /// Interfaces.
    pub interfaces: Vec<Interface>,
}

/// Memory of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Reserved huge pages.
    pub huge_pages: u64,
    /// Those that nobody uses.
    pub huge_pages_free: u64,
    /// Bytes of one.
    pub huge_page_bytes: u64,
    /// Which of always, madvise and never is chosen for transparent huge pages.
    pub transparent_huge_pages: Option<String>,
    /// Soft limit of locked memory in bytes; `None` = unlimited.
    pub locked_bytes_max: Option<u64>,
    /// Cores of each NUMA node.
    pub nodes: BTreeMap<u32, String>,
    /// Distances from each NUMA node to all nodes, as the firmware tells them: 10 is its own memory.
    pub distances: BTreeMap<u32, Vec<u32>>,
}

/// Processor cores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cores {
    /// Number of cores that run.
    pub online: usize,
    /// Cores that this process may use.
    pub allowed: Vec<usize>,
    /// Frequency governors in use.
    pub governors: Vec<String>,
    /// Simultaneous multi-threading is on.
    pub hyper_threads: Option<bool>,
    /// Cores kept free of other work (`isolcpus=`), as a list.
    pub isolated: String,
    /// Cores without a timer tick (`nohz_full=`), as a list.
    pub tickless: String,
    /// Known weaknesses and what the kernel does about each.
    pub vulnerabilities: BTreeMap<String, String>,
    /// Clock that the kernel reads.
    pub clock_source: Option<String>,
    /// The processor says that it is virtual.
    pub virtual_machine: bool,
    /// Exit latency in microseconds of the deepest idle state that is enabled, and its name.
    pub deepest_idle: Option<(u64, String)>,
    /// Share of time since boot that the hypervisor kept, in percent, rounded down.
    pub stolen_percent: u64,
}

/// What this process may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rights {
    /// The process runs as root.
    pub root: bool,
    /// Capabilities that are missing, each with what it is needed for.
    pub missing: Vec<(String, String)>,
    /// The process is in the machine's own user namespace.
    pub initial_user_namespace: bool,
    /// Ordinary users may make user namespaces.
    pub user_namespaces: bool,
}

/// Sums over /proc/net/softnet_stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Softnet {
    /// Packets that went through.
    pub processed: u64,
    /// Packets dropped because the backlog was full.
    pub dropped: u64,
    /// Times that the budget ran out with work left.
    pub squeezed: u64,
}

/// A network card on the PCI bus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PciCard {
    /// Where it is: `0000:01:00.0`.
    pub address: String,
    /// Driver that has it.
    pub driver: Option<String>,
    /// A killed process took it from its kernel driver and did not give it back.
    pub left: bool,
    /// The kernel driver that it had before.
    pub driver_before: Option<String>,
}

/// Timestamps that a network card makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timestamps {
    /// All of it in words.
    pub words: String,
    /// It can timestamp packets that it sends.
    pub sent: bool,
    /// Received packets that it can timestamp, by ethtool's names of the filters.
    pub received: Vec<String>,
    /// Received packets that it timestamps now: `nothing`, `all` or `some`; `None` where the driver does not tell.
    pub received_now: Option<String>,
    /// Number of its clock: /dev/ptpN.
    pub clock: Option<u32>,
    /// Whether that clock can be used.
    pub clock_state: ClockState,
}

/// Whether the clock of a network card can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockState {
    /// There is none.
    #[default]
    None,
    /// It goes on.
    Runs,
    /// It does not.
    Stands,
    /// It goes on by so much while the system's clock goes on by a thousand.
    Pace(u64),
    /// It cannot be read, and why.
    Unreadable(String),
}

/// One network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// Driver.
    pub driver: String,
    /// Set up by an administrator.
    pub up: bool,
    /// The driver sees a link.
    pub link: Option<bool>,
    /// MTU in bytes.
    pub mtu: u32,
    /// Speed in Mbit/s.
    pub speed_mbps: Option<u32>,
    /// It is a device on a bus, not a software interface.
    pub hardware: bool,
    /// Offload features, by the kernel's names: whether on, whether changeable.
    pub features: BTreeMap<String, (bool, bool)>,
    /// Receive and transmit descriptors: now, at most.
    pub rings: Option<Rings>,
    /// Receive queues.
    pub rx_queues: usize,
    /// Transmit queues.
    pub tx_queues: usize,
    /// Combined queues now and at most, where the driver tells.
    pub channels: Option<(u32, u32)>,
    /// How the card spreads packets over its receive queues; `None` where the driver has no RSS, or does not tell.
    pub rss: Option<Rss>,
    /// What the driver says of its timestamps; `None` where it does not tell.
    pub timestamps: Option<Timestamps>,
    /// Pause frames are obeyed, are sent.
    pub pause: Option<(bool, bool)>,
    /// NUMA node of the device; `None` where there is none.
    pub node: Option<u32>,
    /// Interrupts of the device: number, and the cores that it may go to.
    pub interrupts: Vec<(u32, String)>,
    /// NAPI runs in threads.
    pub threaded: Option<bool>,
    /// Packets that the interface lost since it exists, by counter.
    pub losses: BTreeMap<String, u64>,
}

/// Receive side scaling of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rss {
    /// Name of the hash function.
    pub function: String,
    /// Its key, as ethtool(8) writes it; empty if the driver does not tell.
    pub key: String,
    /// Both directions of a flow get the same queue.
    pub symmetric: bool,
    /// Entries of the indirection table for each queue, from queue 0 on.
    pub shares: Vec<usize>,
    /// Ports of UDP over IPv4 are hashed, and over IPv6; null if the driver does not tell.
    pub udp_ports: [Option<bool>; 2],
}

/// Descriptors of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rings {
    /// Receive descriptors now.
    pub rx: u32,
    /// Receive descriptors at most.
    pub rx_max: u32,
    /// Transmit descriptors now.
    pub tx: u32,
    /// Transmit descriptors at most.
    pub tx_max: u32,
}

impl Facts {
    /// A setting as a number.
    pub fn sysctl(&self, name: &str) -> Option<u64> {
        self.sysctls.get(name)?.parse().ok()
    }
}
