//! What an experiment is. All frame sizes count the frame check sequence ("on the wire"); all times are in nanoseconds.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

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
    /// Open vSwitch with its userspace datapath, started privately.
    OpenVswitch,
    /// Linerate's own memory switch, as a program.
    Switch(SwitchPorts),
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
        matches!(self, Self::Switch(SwitchPorts::Memif))
    }
}

/// What joins Linerate's own switch to the tester.
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

/// Rules of a router.
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

/// Frame sizes on the wire with their weights. One entry is a fixed size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeSpec {
    /// `64`, `60 + FCS`, `IMIX (64 x 28, 570 x 16, 1518 x 4)`: its first word is unique in the experiment.
    pub label: String,
    /// Bytes on the wire and weight.
    pub parts: Vec<(u32, u32)>,
}

/// Which flows a load is made of: sources x destinations x source ports. The ranges of sources and destinations do not overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSpec {
    /// First source address; the others follow.
    pub source: Ipv4Addr,
    /// How many sources, at least 1.
    pub sources: u64,
    /// First destination address; the others follow.
    pub destination: Ipv4Addr,
    /// How many destinations, at least 1.
    pub destinations: u64,
    /// How many UDP source ports, at least 1.
    pub ports: u64,
    /// In which order.
    pub order: FlowOrder,
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
    /// Name of the DUT.
    pub dut: Option<String>,
    /// Name of the size.
    pub size: Option<String>,
    /// Number of flows.
    pub flows: Option<u64>,
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

/// A test and its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct TestSpec {
    /// What to find.
    pub kind: TestKind,
    /// How long one trial sends. For back-to-back tests the longest burst.
    pub trial_ns: u64,
    /// What the user wants to see met, as limits of its figures.
    pub limits: Vec<Limit>,
}

/// A limit that a figure of a test has to keep. In every repetition; a figure that could not be measured does not.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Which figure.
    pub of: LimitOf,
    /// The goal of a throughput test that it is about; `None` = all that have no limit of their own.
    pub goal: Option<String>,
    /// In the figure's unit.
    pub bound: f64,
}

/// Figures that can have a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitOf {
    /// At least so many packets per second.
    Rate,
    /// At most this share of packets lost.
    Loss,
    /// At most so many nanoseconds of median latency, at every load.
    P50,
    /// The same of the 99th percentile.
    P99,
    /// The same of the 99.9th percentile.
    P999,
    /// At most so many nanoseconds until packets pass again.
    Outage,
}

/// What a test finds.
#[derive(Debug, Clone, PartialEq)]
pub enum TestKind {
    /// RFC 2544 section 26.1, or several goals at once after RFC 9971.
    Throughput {
        /// How loads are chosen.
        search: Search,
    },
    /// One-way latency at shares of the throughput found before in the same cell (RFC 2544 section 26.2, RFC 8219 sections 7.2, 7.3).
    Latency {
        /// Shares of the throughput in (0, 1); 0 stands for `idle_pps`.
        shares: Vec<f64>,
        /// The rate that share 0 means.
        idle_pps: f64,
    },
    /// Loss against offered load, from the highest downwards until two loads in a row lose nothing (RFC 2544 section 26.3).
    FrameLoss {
        /// Loads in packets per second; empty: the tester's full rate in steps of a tenth.
        loads_pps: Vec<f64>,
    },
    /// Longest burst at full rate without loss (RFC 2544 section 26.4 with RFC 9004).
    BackToBack {
        /// Longest burst tried.
        burst_max_ns: u64,
        /// How often it is measured.
        bursts: u32,
    },
    /// Time until loss stops after an overload of 110 % is halved (RFC 2544 section 26.5).
    SystemRecovery,
    /// Time without packets across a reset of the device (RFC 2544 section 26.6, RFC 6201).
    Reset,
    /// One long trial at a share of the throughput found before in the same cell.
    Soak {
        /// Share of the throughput.
        share: f64,
    },
    /// Highest rate delivered at any offered load (maximum forwarding rate, RFC 2285 section 3.6.3, measured as in RFC 2889).
    MaxForwardingRate,
    /// One trial at a given load; `None`: as fast as the tester can.
    Load {
        /// Packets per second.
        pps: Option<f64>,
    },
}

/// How the loads of a throughput test are chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum Search {
    /// Halving between a passing and a failing load, after RFC 2544.
    Bisection {
        /// Relative width of the bounds at which it ends.
        resolution: f64,
        /// Largest share of lost packets that passes.
        loss_ratio: f64,
        /// How often a failing trial is repeated before it counts; 0 is strict.
        confirmations: u32,
    },
    /// RFC 9971.
    Mlr {
        /// What is looked for, the strictest first.
        goals: Vec<LossGoal>,
    },
}

/// One search goal of RFC 9971 section 4.
#[derive(Debug, Clone, PartialEq)]
pub struct LossGoal {
    /// `NDR`, `PDR` or the user's own.
    pub name: String,
    /// Goal loss ratio.
    pub loss_ratio: f64,
    /// Goal exceed ratio.
    pub exceed_ratio: f64,
    /// Goal final trial duration.
    pub final_trial_ns: u64,
    /// Goal duration sum.
    pub duration_sum_ns: u64,
    /// Goal initial trial duration.
    pub initial_trial_ns: u64,
    /// Goal width, relative.
    pub width: f64,
}

/// A published figure, shown beside the measured one of each cell that it matches.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Where: name and year.
    pub source: String,
    /// For which cells.
    pub cells: CellMatch,
    /// Which figure: `throughput`, `rate`, `cores`.
    pub what: String,
    /// Its value; in packets per second for rates.
    pub value: Option<f64>,
    /// As it was printed, with its unit.
    pub text: String,
}
