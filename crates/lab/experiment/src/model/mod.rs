//! What an experiment is. All frame sizes count the frame check sequence ("on the wire"); all times are in nanoseconds.

mod dut;
mod test;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use dut::{DutKind, DutReader, DutSettings, DutSpec, shell_line};
pub use test::{
    EchoOrder, EchoStack, Limit, LimitOf, LossGoal, Search, SessionKind, Sessions, TestKind, TestSpec, TimestampSource,
};

/// A plan: every DUT x size x flow pattern x direction x kind of tester port x placement on cores is a cell, less those in `skip`; in
/// each cell every test runs so many times.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Short and stable: letters, digits and dashes. Results carry it.
    pub name: String,
    /// For people.
    pub title: String,
    /// What it is about, and where it comes from. May be empty.
    pub about: String,
    /// Between which ends packets go.
    pub topology: TopologyKind,
    /// Between two ports of this host: two other ports with a cable from one to the other, on which the baseline is measured.
    pub baseline_ports: Option<[String; 2]>,
    /// Bytes of layer 3 in one frame, on every link that the lab makes.
    pub mtu: u32,
    /// Which ports the tester uses: a dimension of the matrix. Empty = the best that work.
    pub testers: Vec<TesterPorts>,
    /// Where threads run, in cells whose placement is no dimension.
    pub cores: Cores,
    /// Where threads run: a dimension of the matrix. Empty = `cores` for all.
    pub placements: Vec<CoresSpec>,
    /// The devices, by name, in order. At least one.
    pub duts: Vec<DutSpec>,
    /// Frame sizes. At least one.
    pub sizes: Vec<SizeSpec>,
    /// Flow patterns. At least one.
    pub flows: Vec<FlowSpec>,
    /// Directions. At least one.
    pub directions: Vec<Direction>,
    /// Combinations that are left out.
    pub skip: Vec<CellMatch>,
    /// What surrounds each trial.
    pub phases: Phases,
    /// Tests of each cell, in order. At least one.
    pub tests: Vec<TestSpec>,
    /// How often each test is repeated in each cell. At least 1.
    pub repetitions: u32,
    /// Each cell gets further repetitions of all its tests while they end nearer to this time, in nanoseconds, than it did without.
    pub cell_time_ns: Option<u64>,
    /// A trial during which the hypervisor took more than this share of time, or a tester's thread was kept from its core for
    /// longer than `gap_max_ns`, is disturbed: it is repeated up to `disturbed_retries` times, then marked.
    pub steal_max: f64,
    /// See `steal_max`.
    pub gap_max_ns: u64,
    /// See `steal_max`.
    pub disturbed_retries: u32,
    /// What others published for the same experiment.
    pub published: Vec<Published>,
}

impl Experiment {
    /// Whether its tests are those of [`TestKind::is_of_tcp`]. They are all of one sort.
    pub fn is_of_tcp(&self) -> bool {
        self.tests.iter().any(|test| test.kind.is_of_tcp())
    }
}

/// Between which ends packets go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopologyKind {
    /// Network namespaces of the lab's own making, joined by veth pairs.
    Namespaces,
    /// Two ports of this host, by their specs. The DUT between them is external or a command.
    Ports {
        /// Sends, or both ways.
        a: PortEnd,
        /// Receives, or both ways.
        b: PortEnd,
    },
    /// Two ends of a link inside this process; the DUT is Linerate's own.
    InProcess,
}

impl TopologyKind {
    /// In files: `namespaces`, `ports`, `in-process`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Ports { .. } => "ports",
            Self::InProcess => "in-process",
        }
    }
}

/// A port of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortEnd {
    /// Its spec: `xdp:eth1`, `packet:eth1`, any that `linerate ports` lists.
    pub port: String,
    /// To whom frames that are sent here are addressed.
    pub next_hop: NextHop,
}

/// To whom frames are addressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop {
    /// To the other end: behind a cable, a switch, a program that passes frames on.
    OtherEnd,
    /// To this Ethernet address.
    Mac([u8; 6]),
    /// To a router's address, which is asked for by ARP or neighbour discovery before each trial. The asking also tells the router
    /// ours, and goes on every half second while the load runs. Both are of one family.
    Gateway {
        /// Our own address on this link. It need not be the interface's.
        own: IpAddr,
        /// The router's.
        gateway: IpAddr,
    },
}

/// Kinds of port of the tester: port kinds such as `xdp` and `packet`; `sink` counts by an XDP program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TesterPorts {
    /// Sends.
    pub sender: String,
    /// Counts.
    pub receiver: String,
}

/// What joins two TCP stacks of the tester directly, instead of interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectLink {
    /// Memory that both share.
    SharedMemory,
    /// A link inside the process.
    InProcess,
}

impl TesterPorts {
    /// What joins the ends directly; `None`: interfaces.
    pub fn direct_link(&self) -> Option<DirectLink> {
        match self.sender.as_str() {
            "memif" => Some(DirectLink::SharedMemory),
            "pipe" => Some(DirectLink::InProcess),
            _ => None,
        }
    }
}

/// Cores by number; `None` = the lab chooses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cores {
    /// The sending thread.
    pub generator: Option<usize>,
    /// The DUT.
    pub dut: DutCores,
    /// The receiving thread.
    pub receiver: Option<usize>,
}

/// Where the DUT works.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DutCores {
    /// Its first hop on a core of its own where there are two, its processes wherever the scheduler puts them.
    #[default]
    Chosen,
    /// In the sender's context, which holds the sender back instead of losing packets.
    Shared,
    /// On so many cores that neither send nor, where there are enough, receive. At least 1.
    Own(usize),
    /// On these: its first hop on the first of them, its flows and processes on all. At least one, each once.
    Listed(Vec<usize>),
}

/// A placement on cores: an entry of the matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoresSpec {
    /// Unique in the experiment: `apart`, `shared` or the user's own.
    pub name: String,
    /// What runs where.
    pub cores: Cores,
}

/// Frame sizes on the wire with their weights. One entry is a fixed size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeSpec {
    /// `64`, `60 + FCS`, `IMIX (64 x 28, 570 x 16, 1518 x 4)`: its first word is unique in the experiment.
    pub label: String,
    /// Bytes on the wire and weight.
    pub parts: Vec<(u32, u32)>,
}

/// Which flows a load is made of: sources x destinations x source ports, of IPv4, of IPv6, or of each. The ranges of sources and
/// destinations do not overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSpec {
    /// First source address of IPv4; the others follow.
    pub source: Ipv4Addr,
    /// How many sources, at least 1; with both versions of IP, of each.
    pub sources: u64,
    /// First destination address of IPv4; the others follow.
    pub destination: Ipv4Addr,
    /// How many destinations, at least 1; with both versions of IP, of each.
    pub destinations: u64,
    /// How many UDP source ports, at least 1.
    pub ports: u64,
    /// In which order.
    pub order: FlowOrder,
    /// Of which version of IP the packets are, and the addresses of those of IPv6.
    pub ip: FlowIp,
}

/// The versions of IP in a flow pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowIp {
    /// IPv4 alone.
    V4,
    /// IPv6 alone.
    V6(Addresses6),
    /// As many flows of IPv6 as of IPv4, whose packets take turns.
    Dual(Addresses6),
}

/// The first addresses of a pattern's flows of IPv6. The others follow in the low 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses6 {
    /// First source.
    pub source: Ipv6Addr,
    /// First destination.
    pub destination: Ipv6Addr,
}

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

impl FlowIp {
    /// The versions, IPv4 first.
    pub fn versions(self) -> &'static [IpVersion] {
        match self {
            Self::V4 => &[IpVersion::V4],
            Self::V6(_) => &[IpVersion::V6],
            Self::Dual(_) => &[IpVersion::V4, IpVersion::V6],
        }
    }

    /// Whether there are flows of a version.
    pub fn has(self, version: IpVersion) -> bool {
        self.versions().contains(&version)
    }

    /// The addresses of IPv6, where there are flows of it.
    pub fn addresses6(self) -> Option<Addresses6> {
        match self {
            Self::V4 => None,
            Self::V6(addresses) | Self::Dual(addresses) => Some(addresses),
        }
    }

    /// For people: `IPv4`, `IPv6`, `IPv4 and IPv6`.
    pub fn words(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6(_) => "IPv6",
            Self::Dual(_) => "IPv4 and IPv6",
        }
    }
}

/// What the lab does around each trial (RFC 2544 section 23), besides resolving addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    /// Packets at a low rate before each cell's first trial, so that a stateful device knows the flows.
    pub warm_up_ns: u64,
    /// From the end of learning to the first packet.
    pub wait_ns: u64,
    /// From the last packet until the counters are read: late packets still count.
    pub drain_ns: u64,
    /// Before the next trial.
    pub rest_ns: u64,
}

/// Selects cells. A field that is `None` matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CellMatch {
    /// Name of the DUT; `*` in it stands for any text.
    pub dut: Option<String>,
    /// Name of the size.
    pub size: Option<String>,
    /// Number of flows.
    pub flows: Option<u64>,
    /// Name of the flow pattern.
    pub flow_pattern: Option<String>,
    /// Direction.
    pub direction: Option<Direction>,
    /// Name of the tester's ports.
    pub tester: Option<String>,
    /// Name of the placement on cores.
    pub cores: Option<String>,
}

/// The order of a pattern's flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowOrder {
    /// Ports fastest, then sources, then destinations; each flow once a round.
    Odometer,
    /// Each packet's flow at random, from this seed.
    Random(u64),
}

/// One way, or both at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first end to the second.
    OneWay,
    /// Both ways at once, each with the stated load.
    BothWays,
}

/// A published figure, shown beside the measured one of each cell that it matches.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Where: name and year.
    pub source: String,
    /// For which cells.
    pub cells: CellMatch,
    /// Which figure: `throughput`, `rate`, `cores`, `capture-ratio`, `idle`, `ping`, `echoes`, `udp-cycles`.
    pub what: String,
    /// Its value; in packets per second for rates, in nanoseconds for round trips.
    pub value: Option<f64>,
    /// Clock of the cores that it was measured on, in GHz.
    pub clock_ghz: Option<f64>,
    /// As it was printed, with its unit.
    pub text: String,
}
