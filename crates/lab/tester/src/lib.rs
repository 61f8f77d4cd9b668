//! The tester around a path: ports that send, what counts what arrives, and one trial after another between them. What packets pass of it is in
//! `linerate_tester_loop`.
//!
//! ```text
//!   first end: sending port --> path (counters.rs reads it) --> second end: a receiving port, or a counting XDP program (sink.rs)
//!   with both ways, the same from the second end to the first
//! ```
//! [`Tester::trial`] takes a [`TrialSpec`]: sizes, flows, a [`Load`] for each direction, cores, [`Phases`]. It gives an [`Outcome`].

mod cores;
mod delays;
mod endpoint;
mod ends;
mod gateway;
mod load;
mod load_run;
mod memory;
mod noise;
mod outcome;
mod phases;
mod ports;
mod probes;
mod rest;
mod sight;
mod sink;
pub mod tcp;
mod traffic;
mod trial;
mod work;

use std::io;
use std::sync::Arc;

use linerate_mem::{Pool, PoolConfig};
use linerate_port::{OpenError, Port};
use linerate_sys::clock;
use linerate_sys::netns::NetNs;

use linerate_ledger::counters::{CounterSources, CountersError};
use linerate_ledger::stalls::Watcher;
use linerate_testbed::dut::{Capture, Path};
use linerate_testbed::napi;
use linerate_testbed::placement::{self, Placement};
use linerate_testbed::switches::SwitchSource;
use linerate_testbed::topology::{FrameAddresses, Interface, Topology, TopologyError};
use linerate_tester_loop::device::Installed;
use linerate_tester_loop::fixed_loop::Calm;

use ends::{Attachment, End};
use gateway::Gateway;

pub use cores::Cores;
pub use delays::Delays;
pub use endpoint::{Arrivals, Endpoint};
pub use linerate_experiment::{NextHop, PortEnd};
pub use linerate_tester_loop::{cache_line, core_clock, timeline};
pub use load::Load;
pub use outcome::{Interruption, Outcome, Readings, Recovery, Retry, TrialError, WayOutcome};
pub use phases::{Learning, Phases};
pub use ports::PortsSpec;
pub use probes::{ProbeError, Probed, Prober};
pub use traffic::{Direction, FCS_LEN, fixed_size, mean_size, plan};
pub use trial::TrialSpec;

/// Which ports the tester uses. On a path of the tester's own making all are opened inside its namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TesterSpec {
    /// Port kind that sends: `xdp`, `packet`.
    pub sender: String,
    /// What counts: a port kind, or `sink` for the counting XDP program.
    pub receiver: String,
    /// Whether trials may have load both ways at once; each end then sends and counts.
    pub both_ways: bool,
    /// Packets of one direction of a trial that a `sink` tells apart (duplicates, reordering): one bit each, up to 2^30.
    pub sequences: u64,
    /// When the kernel is asked for the reasons of its drops, on a path of the tester's own making.
    pub drop_reasons: DropReasonMode,
}

/// When the kernel is asked for the reasons of its drops. Asking costs the receiver some tens of nanoseconds for each packet, which
/// shows in figures at the limit of a path (docs/ledger.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReasonMode {
    /// In every trial.
    Always,
    /// In trials of up to 50,000 packets a second, which it costs next to nothing; in others once a trial lost packets whose cause no
    /// counter names, from the next trial on. [`Retry::reasons`] then asks for that one.
    WhenNeeded,
}

impl TesterSpec {
    /// One way, 33 million packets in a trial (a bitmap of 4 MiB), the kernel's drop reasons in every trial.
    pub fn new(sender: impl Into<String>, receiver: impl Into<String>) -> TesterSpec {
        TesterSpec {
            sender: sender.into(),
            receiver: receiver.into(),
            both_ways: false,
            sequences: 1 << 25,
            drop_reasons: DropReasonMode::Always,
        }
    }

    /// With load both ways at once.
    pub fn both_ways(self) -> TesterSpec {
        TesterSpec { both_ways: true, ..self }
    }
}

/// Why a tester could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TesterError {
    /// A port could not be opened.
    #[error("{0}")]
    Port(#[from] OpenError),
    /// The counting program could not be loaded or attached.
    #[error("the counting XDP program: {0}")]
    Sink(#[from] linerate_bpf::BpfError),
    /// The path's counters cannot be read.
    #[error("the path's counters: {0}")]
    Counters(#[from] CountersError),
    /// A namespace could not be entered.
    #[error("a network namespace: {0}")]
    Namespace(#[from] std::io::Error),
    /// A gateway's address could not be had.
    #[error("the next hop: {0}")]
    NextHop(#[source] std::io::Error),
    /// The worker of the device inside this process could not be made.
    #[error("a descriptor to wake the worker: {0}")]
    Worker(#[source] std::io::Error),
    /// Packet memory could not be had.
    #[error("{0}")]
    Memory(#[from] linerate_mem::MapError),
}

/// A tester on a path.
pub struct Tester {
    /// The path; none for a link inside this process, for shared memory and for two ports of this host.
    pub topology: Option<Topology>,
    sources: Option<CounterSources>,
    /// The interfaces of two ports of this host, by name.
    pub cards: Vec<String>,
    /// What counts on a path of shared memory.
    switch: Option<SwitchSource>,
    ends: [End; 2],
    device: Option<Installed>,
    /// Of which end, and how to ask for its address.
    gateways: Vec<Gateway>,
    pool: Pool,
    both_ways: bool,
    /// Where the path's first hops shall work, once that was said.
    placement: Option<Placement>,
    /// The NAPI threads that the path's first hops work in.
    napi_threads: Vec<i32>,
    /// Waits for moments in which the cores keep their pace.
    calm: Calm,
    /// Who takes the cores of the trials.
    watcher: Watcher,
    /// NAPI threads of the way back, with their core.
    back_threads: Vec<(u32, u32)>,
    /// The stream id that was used last.
    stream: u16,
}

/// Nanoseconds are about a millisecond, and this a shift: a tester's stream ids begin where the clock stands, so that they are
/// others than those of the testers before it on the same device. No tester uses them up faster than one a millisecond.
const MILLISECOND_LOG2: u32 = 20;

/// Frames of a tester's pool.
const FRAMES: usize = 16_384;

impl Tester {
    /// Opens the ports on a path.
    ///
    /// # Errors
    /// What could not be opened, and what to do.
    pub fn open(topology: Topology, spec: &TesterSpec) -> Result<Tester, TesterError> {
        let pool = Pool::new(PoolConfig { frames: FRAMES, ..PoolConfig::default() })?;
        let both = spec.both_ways;
        let (near, far) = (Attachment::of(&topology.generator), Attachment::of(&topology.receiver));
        let first = End::open(&near, (true, both), spec, traffic::addresses(&topology, Direction::Forward), &pool)?;
        let second = End::open(&far, (both, true), spec, traffic::addresses(&topology, Direction::Backward), &pool)?;
        Tester::between([first, second], pool).on(topology, spec)
    }

    /// Opens the ends of the path that a device was built on, whatever joins them: where a kind of device is measured on is its own word.
    ///
    /// # Errors
    /// What could not be opened, and what to do.
    pub fn around(path: Path, spec: &TesterSpec) -> Result<Tester, TesterError> {
        match path {
            Path::Namespaces(topology) => Self::open(*topology, spec),
            Path::Captured(topology, capture) => Self::capturing(*topology, &capture, spec),
            Path::Memory(path) => Self::over_memory(&path),
            Path::InProcess => Self::in_process(),
            Path::Ports { a, b } => Self::on_ports(&PortsSpec::between(a, b, spec.both_ways)),
        }
    }

    /// Opens the sending ports on a path that ends in a capture: each end sends to its own interface of the device, the second one
    /// where there is load both ways.
    ///
    /// # Errors
    /// As [`Tester::open`].
    fn capturing(topology: Topology, capture: &Arc<dyn Capture>, spec: &TesterSpec) -> Result<Tester, TesterError> {
        let pool = Pool::new(PoolConfig { frames: FRAMES, ..PoolConfig::default() })?;
        let both = spec.both_ways;
        let sides = [(&topology.generator, Direction::Forward, true), (&topology.receiver, Direction::Backward, both)];
        let [first, second] = sides.map(|(side, way, sends)| {
            let addresses = traffic::addresses(&topology, way);
            End::open(&Attachment::of(side), (sends, false), spec, addresses, &pool)
        });
        let (mut first, mut second) = (first?, second?);
        // What the first end sends is counted at the second one's place, and the other way round.
        let ports = if both { 2 } else { 1 };
        let counts = |port| Some(Endpoint::Capture { capture: Arc::clone(capture), ports, port });
        second.endpoint = counts(0);
        first.endpoint = if both { counts(1) } else { None };
        Tester::between([first, second], pool).on(topology, spec)
    }

    /// On a path of the tester's own making.
    fn on(self, topology: Topology, spec: &TesterSpec) -> Result<Tester, TesterError> {
        let sources = match spec.drop_reasons {
            DropReasonMode::Always => CounterSources::open(&topology)?,
            DropReasonMode::WhenNeeded => CounterSources::without_drop_reasons(&topology)?,
        };
        Ok(Tester { topology: Some(topology), sources: Some(sources), both_ways: spec.both_ways, ..self })
    }

    /// With nothing but its two ends, for both ways.
    fn between(ends: [End; 2], pool: Pool) -> Tester {
        Tester {
            topology: None,
            sources: None,
            cards: Vec::new(),
            switch: None,
            ends,
            device: None,
            gateways: Vec::new(),
            pool,
            both_ways: true,
            placement: None,
            napi_threads: Vec::new(),
            calm: Calm::default(),
            watcher: Watcher::default(),
            back_threads: Vec::new(),
            stream: (clock::now_ns() >> MILLISECOND_LOG2) as u16,
        }
    }

    /// Joins two ends by in-process links, one for each direction: what remains to be measured where no namespace can be made, and
    /// what Linerate's own devices are measured on.
    ///
    /// # Errors
    /// When there is no packet memory.
    pub fn in_process() -> Result<Tester, TesterError> {
        Self::inside(false)
    }

    /// As [`Tester::in_process`], with a forwarding thread between the ends, which runs on the DUT's core during trials.
    ///
    /// # Errors
    /// As [`Tester::in_process`].
    pub fn in_process_with_wire() -> Result<Tester, TesterError> {
        Self::inside(true)
    }

    fn inside(with_wire: bool) -> Result<Tester, TesterError> {
        let pool = Pool::new(PoolConfig::default())?;
        let pipe = |name: &str| linerate_ports::pipe(name, &pool);
        let ([forth, forth_end], [back, back_end]) = (pipe("forth"), pipe("back"));
        let end = |sender, endpoint| End {
            sender: Some(sender),
            endpoint: Some(Endpoint::on_port(endpoint, &pool)),
            link: traffic::nobody(),
        };
        let (ends, device) = if with_wire {
            let ([out_forth, out_forth_end], [out_back, out_back_end]) = (pipe("out-forth"), pipe("out-back"));
            let device =
                Installed::wire(&pool, [forth_end, out_forth, back_end, out_back]).map_err(TesterError::Worker)?;
            ([end(forth, out_back_end), end(back, out_forth_end)], Some(device))
        } else {
            ([end(forth, back_end), end(back, forth_end)], None)
        };
        Ok(Tester { device, ..Tester::between(ends, pool) })
    }

    /// Puts the work of the path's first hop where it shall run (opening ports can have replaced its NAPI threads), ahead of
    /// what else runs there; with both ways, that of the first hop of the way back too.
    ///
    /// A capture says itself where it works, so its path is left as it is.
    ///
    /// # Errors
    /// When the interface has no NAPI any more though it should.
    pub fn place(&mut self, placement: Placement) -> Result<(), TopologyError> {
        let captures = self.ends.iter().any(|end| matches!(end.endpoint, Some(Endpoint::Capture { .. })));
        let Some(topology) = self.topology.as_mut().filter(|_| !captures) else { return Ok(()) };
        self.placement = Some(placement);
        self.napi_threads = topology.place_again(placement)?.threads().to_vec();
        if self.both_ways {
            let (namespace, interface) = topology.first_hop_back();
            let placed = placement::place(namespace, interface.name, interface.index, placement);
            let step = format!("turn on NAPI of {}", interface.name);
            let mode = placed.map_err(|source| TopologyError { step, source })?;
            self.napi_threads.extend(mode.threads());
            self.back_threads = mode.pinned_threads();
        }
        Ok(())
    }

    /// An interface that went down and up has other NAPI threads than before: those of the first hops are placed, known and put ahead as the
    /// old ones were. While an interface is down it has none, and stays as it is.
    fn follow_napi_threads(&mut self) {
        let (Some(placement @ Placement::Thread { .. }), Some(topology)) = (self.placement, &self.topology) else {
            return;
        };
        let hops = [Some(topology.first_hop()), self.both_ways.then(|| topology.first_hop_back())];
        let of = |(namespace, interface): (&NetNs, &Interface)| napi::instances(namespace, interface.index);
        let found: io::Result<Vec<_>> = hops.into_iter().flatten().map(of).collect();
        let Ok(found) = found else { return };
        let mut threads = found.iter().flatten().filter_map(|napi| napi.thread);
        if threads.any(|thread| !self.napi_threads.contains(&thread)) {
            // A wish, as the priority is: a load says itself what it could not carry.
            let _ = self.place(placement);
        }
    }

    /// Spreads the flows that the path's first hop takes in over these cores; with both ways, those of the way back too.
    ///
    /// # Errors
    /// What the kernel refused; it wants root.
    pub fn steer(&self, cores: &[usize]) -> Result<(), TopologyError> {
        let Some(topology) = &self.topology else { return Ok(()) };
        let first = Some(topology.first_hop());
        let back = topology.dut.as_ref().filter(|_| self.both_ways).map(|dut| (&dut.namespace, &dut.egress));
        for (namespace, interface) in [first, back].into_iter().flatten() {
            let step = format!("spread the flows of {} over cores (receive packet steering)", interface.name);
            placement::steer(namespace, interface.name, cores).map_err(|source| TopologyError { step, source })?;
        }
        Ok(())
    }

    /// Whether threads receive, instead of programs in the kernel.
    pub fn receives_by_thread(&self) -> bool {
        self.ends.iter().any(|end| matches!(end.endpoint, Some(Endpoint::Port { .. })))
    }

    /// How sending and counting are done, in words.
    pub fn describe(&self) -> (String, String) {
        let of_port = |port: &dyn Port| endpoint::in_words(port);
        let sends = self.ends[0].sender.as_deref().map(of_port).unwrap_or_default();
        let counts = self.ends[1].endpoint.as_ref().map(Endpoint::describe).unwrap_or_default();
        (sends, counts)
    }

    /// Why the kernel's drop reasons are not read, if so.
    pub fn blind_spot(&self) -> Option<&str> {
        self.sources.as_ref().and_then(CounterSources::blind_spot)
    }

    fn link(&self, way: Direction) -> FrameAddresses {
        match way {
            Direction::Forward => self.ends[0].link,
            Direction::Backward => self.ends[1].link,
        }
    }
}
