//! Devices under test, and what each kind can be told.

use std::collections::BTreeMap;

/// A device under test.
#[derive(Debug, Clone, PartialEq)]
pub struct DutSpec {
    /// Unique in the experiment.
    pub name: String,
    /// What it is.
    pub kind: DutKind,
}

/// What a device is.
#[derive(Debug, Clone, PartialEq)]
pub enum DutKind {
    /// The Linux kernel, routing between the two links.
    Router(Firewall),
    /// The Linux kernel's bridge.
    Bridge,
    /// An XDP program that redirects what arrives on one link to the other.
    XdpForwarder,
    /// Open vSwitch with a datapath in user space, started privately.
    OpenVswitch(FlowSwitch),
    /// Linerate's own OpenFlow switch, as a program.
    OfSwitch(FlowSwitch),
    /// Linerate's own software switch, as a program.
    Switch(SwitchPorts),
    /// Linerate's own capture, as a program. The first interface is captured, and with load both ways the second as well.
    Capture(Capture),
    /// Linerate's own in-process link.
    Pipe,
    /// Any program that takes the two interfaces.
    Command(Command),
    /// A box cabled to the two ports. Commands read its counters.
    External {
        /// What it is, for the report.
        description: String,
        /// Prints `name value` lines; run before and after each trial. Empty: none.
        counters: Vec<String>,
    },
    /// No device: the two ends are joined directly. What a baseline measures.
    None,
}

impl DutKind {
    /// Whether it shares memory with the tester, instead of being joined to it by interfaces.
    pub fn shares_memory(&self) -> bool {
        let ports = match self {
            Self::Switch(ports) => Some(*ports),
            Self::OpenVswitch(switch) | Self::OfSwitch(switch) => Some(switch.ports),
            _ => None,
        };
        ports == Some(SwitchPorts::Memif)
    }

    /// Whether it is a switch with flow entries.
    pub fn is_flow_switch(&self) -> bool {
        matches!(self, Self::OpenVswitch(_) | Self::OfSwitch(_))
    }

    /// Whether it leaves its core to others while no packet comes: all but Open vSwitch with DPDK, which polls without end.
    pub fn sleeps_at_rest(&self) -> bool {
        !matches!(self, Self::OpenVswitch(FlowSwitch { ports: SwitchPorts::Memif, .. }))
    }

    /// How many flow entries by address it is given.
    pub fn flow_entries(&self) -> u32 {
        match self {
            Self::OpenVswitch(switch) | Self::OfSwitch(switch) => switch.entries,
            _ => 0,
        }
    }

    /// The commands that it runs with the rights of who runs the experiment, as words of a shell.
    pub fn commands(&self) -> Vec<String> {
        let line = |words: &Vec<String>| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        match self {
            Self::Router(router) => router.setup.iter().chain(&router.teardown).cloned().collect(),
            Self::Command(own) => {
                let all = [&own.start, &own.ready, &own.counters, &own.stop, &own.version];
                all.into_iter().filter(|words| !words.is_empty()).map(line).collect()
            }
            Self::External { counters, .. } if !counters.is_empty() => vec![line(counters)],
            _ => Vec::new(),
        }
    }

    /// Whether it only takes packets in, each interface for itself: a direction of the load is then one port of it.
    pub fn captures(&self) -> bool {
        matches!(self, Self::Capture(_))
    }
}

/// A word as a shell takes it back.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,+@%".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// `linerate capture` as a device: it takes what it is sent, counts it, and sends nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capture {
    /// By which of the kernel's ways it gets packets.
    pub tool: CaptureTool,
    /// How its interfaces receive.
    pub receive: Reception,
    /// Where that is done, and where it runs itself.
    pub cores: CaptureCores,
    /// Bytes of the ring of each interface.
    pub buffer_bytes: u64,
    /// Whether it writes a file; else it counts.
    pub file: bool,
}

/// By which of the kernel's ways a capture gets packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureTool {
    /// A ring of an AF_PACKET socket, walked by Linerate itself.
    Packet,
    /// The same socket by way of libpcap.
    Pcap,
    /// AF_XDP.
    Xdp,
}

impl CaptureTool {
    /// In files and names: `packet`, `pcap`, `xdp`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Pcap => "pcap",
            Self::Xdp => "xdp",
        }
    }
}

/// How an interface receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reception {
    /// In a soft interrupt on the core that the packet is steered to.
    Interrupt,
    /// By the reading thread itself, which polls the interface's queue (SO_BUSY_POLL of socket(7)).
    BusyPoll,
    /// By a kernel thread for each queue (`threaded`, Documentation/networking/napi.rst).
    ThreadedNapi,
}

impl Reception {
    /// In files and names: `interrupt`, `busy-poll`, `threaded-napi`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::BusyPoll => "busy-poll",
            Self::ThreadedNapi => "threaded-napi",
        }
    }
}

/// Where packets are received and captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureCores {
    /// Reception and capture on one core, the device's.
    One,
    /// Both on all cores, flows spread by receive packet steering where that has an effect.
    All,
}

impl CaptureCores {
    /// In files and names: `one`, `all`.
    pub fn word(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::All => "all",
        }
    }
}

/// A switch that forwards by OpenFlow flow entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowSwitch {
    /// What joins it to the tester.
    pub ports: SwitchPorts,
    /// So many flow entries by address, before the two by port that every packet of the test matches in the end.
    pub entries: u32,
}

/// What joins a switch in a process of its own to the tester.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SwitchPorts {
    /// AF_PACKET on its two interfaces.
    #[default]
    Packet,
    /// AF_XDP on them.
    Xdp,
    /// Memory that it shares with the tester, by memif: no interface, and no kernel in between.
    Memif,
}

/// Rules of a router, and the commands that set it up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Firewall {
    /// Which tool makes them; needed when anything below is set.
    pub tool: Option<FirewallTool>,
    /// So many rules that no packet of the test matches, before all others.
    pub rules: u32,
    /// The two rules of the 2019 experiment: accept RELATED and ESTABLISHED towards each side.
    pub conntrack: bool,
    /// Source addresses are translated, one rule for each direction.
    pub snat: bool,
    /// Settings of the DUT's namespace, by path under /proc/sys: `net/netfilter/nf_conntrack_max` and the like.
    pub sysctls: BTreeMap<String, String>,
    /// Command lines for `sh -c` in the DUT's namespace, run one after another once all else is set.
    pub setup: Vec<String>,
    /// The same, run before the namespace goes; what they answer does not matter.
    pub teardown: Vec<String>,
    /// The row of the ledger that its losses are expected in.
    pub loses: Option<ExpectedLoss>,
}

/// Where packets are expected to be lost, and why: beginnings of the words of a ledger's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedLoss {
    /// Where.
    pub place: String,
    /// Why.
    pub cause: String,
}

/// What installs rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirewallTool {
    /// `iptables`.
    Iptables,
    /// `nft`.
    Nft,
}

/// A program as a device. In every word `{in}` and `{out}` stand for the names of the two interfaces. It is started in the DUT's
/// namespace without a shell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// Starts it; ends when the device is stopped.
    pub start: Vec<String>,
    /// Ends with status 0 once it is ready; tried until `ready_ns` is over. Empty: ready at once.
    pub ready: Vec<String>,
    /// Longest wait for that.
    pub ready_ns: u64,
    /// Prints `name value` lines; run before and after each trial. Empty: none.
    pub counters: Vec<String>,
    /// Stops it; empty: SIGTERM, then SIGKILL.
    pub stop: Vec<String>,
    /// Prints its version in the first line. Empty: none.
    pub version: Vec<String>,
}
