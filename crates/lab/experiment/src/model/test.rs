//! What is found out in each cell.

use super::CellMatch;

/// A test and its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct TestSpec {
    /// What to find.
    pub kind: TestKind,
    /// How long one trial sends. For back-to-back tests the longest burst.
    pub trial_ns: u64,
    /// What the user wants to see met, as limits of its figures.
    pub limits: Vec<Limit>,
    /// The cells in which it is made; empty = all.
    pub cells: Vec<CellMatch>,
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
        /// After this time no further trial begins, and what is known by then is the result; `None` = the search ends by itself.
        time_max_ns: Option<u64>,
    },
    /// The rate delivered when the tester sends as fast as it can: median and spread of several short trials.
    Capacity {
        /// How many.
        trials: u32,
    },
    /// The highest of a few loads that one trial carries without losing a single packet: the criterion of RFC 2544 section 26.1.
    NoLoss {
        /// Shares of the throughput found before in the same cell, in (0, 1], the highest first.
        shares: Vec<f64>,
    },
    /// One-way latency at shares of the throughput found before in the same cell (RFC 2544 section 26.2, RFC 8219 sections 7.2, 7.3).
    Latency {
        /// Shares of the throughput in (0, 1); 0 stands for `idle_pps`.
        shares: Vec<f64>,
        /// The rate that share 0 means.
        idle_pps: f64,
        /// Whose timestamps.
        timestamps: TimestampSource,
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
    /// What of a ladder of loads a capture takes in, how full its rings are, and what it costs.
    Capture {
        /// Packets per second of each port, rising. At least one.
        loads_pps: Vec<f64>,
    },
    /// Round trips of ICMPv6 echoes through the device, one after the other, by the program `ping`.
    Ping {
        /// From one request to the next.
        interval_ns: u64,
    },
    /// One trial at a given load; `None`: as fast as the tester can.
    Load {
        /// Packets per second.
        pps: Option<f64>,
    },
    /// TCP connections, or requests over them, between two stacks of the tester: how many the device carries so that all succeed.
    Sessions(Sessions),
    /// Bytes that two stacks of the tester echo to each other, over as many connections as the cell has flows.
    TcpEcho {
        /// Which connection sends next, in the order of measuring. At least one.
        orders: Vec<EchoOrder>,
        /// Whose TCP it is at both ends.
        stack: EchoStack,
    },
    /// UDP datagrams that two stacks of the tester send back to each other.
    UdpLoop,
}

/// Whose timestamps a latency test measures by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TimestampSource {
    /// The network cards' where both ends have them, else the tester's.
    #[default]
    Auto,
    /// The network cards', of probes beside the load.
    Hardware,
    /// The kernel's, of probes beside the load.
    Kernel,
    /// The tester's, of every packet of the load.
    Software,
}

impl TimestampSource {
    /// In files: `auto`, `hardware`, `kernel`, `software`.
    pub fn word(self) -> &'static str {
        match self {
            TimestampSource::Auto => "auto",
            TimestampSource::Hardware => "hardware",
            TimestampSource::Kernel => "kernel",
            TimestampSource::Software => "software",
        }
    }
}

impl TestKind {
    /// Whether stacks of TCP and UDP at both ends make its load. Other tests send packets by a schedule.
    pub fn is_of_tcp(&self) -> bool {
        matches!(self, TestKind::Sessions(_) | TestKind::TcpEcho { .. } | TestKind::UdpLoop)
    }
}

/// Which connection of an echo test sends next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EchoOrder {
    /// The one whose byte came back.
    Reply,
    /// The next one in turn.
    RoundRobin,
}

impl EchoOrder {
    /// In files and reports: `reply`, `round-robin`.
    pub fn word(self) -> &'static str {
        match self {
            EchoOrder::Reply => "reply",
            EchoOrder::RoundRobin => "round-robin",
        }
    }
}

/// Whose TCP echoes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EchoStack {
    /// Linerate's.
    #[default]
    Linerate,
    /// The Linux kernel's, over a veth pair of its own.
    Linux,
    /// smoltcp's, over the ports of the cell.
    Smoltcp,
    /// lwIP's, over a queue in memory.
    Lwip,
}

impl EchoStack {
    /// In files: `linerate`, `linux`, `smoltcp`, `lwip`.
    pub fn word(self) -> &'static str {
        match self {
            EchoStack::Linerate => "linerate",
            EchoStack::Linux => "linux",
            EchoStack::Smoltcp => "smoltcp",
            EchoStack::Lwip => "lwip",
        }
    }

    /// In reports.
    pub fn name(self) -> &'static str {
        match self {
            EchoStack::Linerate => "Linerate",
            EchoStack::Linux => "Linux",
            EchoStack::Smoltcp => "smoltcp",
            EchoStack::Lwip => "lwIP",
        }
    }
}

/// A test of connections or requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Sessions {
    /// What is counted.
    pub of: SessionKind,
    /// Connections at a time: of a request rate those that requests go over, of concurrent connections the most that are tried.
    pub connections: u32,
    /// Bytes of a request, which the server sends back.
    pub bytes: u64,
    /// Longest time of a handshake, and of an answer.
    pub timeout_ns: u64,
    /// Loads to try, in the order of trying; empty: the highest load at which all succeed is searched for.
    pub loads: Vec<f64>,
    /// Relative width of the bounds at which a search ends.
    pub resolution: f64,
}

/// What a test of connections counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    /// Connections that are begun in a second; each makes one request and is closed.
    ConnectionRate,
    /// Connections that stand at a time; each makes one request and stays.
    ConcurrentConnections,
    /// Requests in a second over connections that stand.
    RequestRate,
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
    /// Whether packets that were lost while something else had a core that the path works on are left out.
    pub outside_interruptions: bool,
}
