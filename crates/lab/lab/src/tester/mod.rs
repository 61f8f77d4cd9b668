//! The tester around a path: a sending port, something that counts what arrives, and one trial after another between them.
//!
//! ```text
//!   sending port --> path (counters.rs reads it) --> Endpoint: a receiving port, or a counting XDP program (sink.rs)
//! ```

mod endpoint;
mod priority;
mod sink;
mod trial;

use linerate_gen::{Advance, PlanError, Rule, StreamPlan, StreamSpec, Values};
use linerate_mem::{Pool, PoolConfig};
use linerate_port::{OpenError, Port};
use linerate_wire::{MacAddress, Stack, ethernet, ipv4, udp};

use crate::counters::{CounterSources, CountersError};
use crate::placement::{Mode, Placement};
use crate::topology::{Topology, TopologyError, TopologySpec};

use priority::go_ahead;

pub use endpoint::{Arrivals, Endpoint};
pub use trial::{Cores, Outcome, TrialError, TrialSpec};

/// Which ports the tester uses. On a path of the tester's own making both are opened inside its namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TesterSpec {
    /// Port kind that sends: `xdp`, `packet`.
    pub sender: String,
    /// What counts: a port kind, or `sink` for the counting XDP program.
    pub receiver: String,
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
    /// Packet memory could not be had.
    #[error("{0}")]
    Memory(#[from] linerate_mem::MapError),
}

/// A tester on a path.
pub struct Tester {
    /// The path; none for a link inside this process.
    pub topology: Option<Topology>,
    pub(crate) sources: Option<CounterSources>,
    pub(crate) sender: Box<dyn Port>,
    pub(crate) endpoint: Endpoint,
    pub(crate) pool: Pool,
    pub(crate) trials: u16,
}

impl Tester {
    /// Opens the ports on a path.
    ///
    /// # Errors
    /// What could not be opened, and what to do.
    pub fn open(topology: Topology, spec: &TesterSpec) -> Result<Tester, TesterError> {
        let pool = Pool::new(PoolConfig { frames: 16_384, ..PoolConfig::default() })?;
        let sender = open_sender(&topology, &spec.sender, &pool)?;
        let endpoint = Endpoint::open(&topology, &spec.receiver, &pool)?;
        let sources = Some(CounterSources::open(&topology)?);
        Ok(Tester { topology: Some(topology), sources, sender, endpoint, pool, trials: 0 })
    }

    /// Joins a sender and a receiver by an in-process link: what remains to be measured where no namespace can be made.
    ///
    /// # Errors
    /// When there is no packet memory.
    pub fn in_process() -> Result<Tester, TesterError> {
        let pool = Pool::new(PoolConfig::default())?;
        let name = format!("bench-{}", std::process::id());
        let sender = linerate_ports::open(&format!("pipe:{name}"), &pool)?;
        let receiver = linerate_ports::open(&format!("pipe:{name}"), &pool)?;
        let endpoint = Endpoint::on_port(receiver, &pool);
        Ok(Tester { topology: None, sources: None, sender, endpoint, pool, trials: 0 })
    }

    /// Puts the work of the path's first hop where it shall run (opening ports can have replaced its NAPI threads), ahead of
    /// what else runs there.
    ///
    /// # Errors
    /// When the interface has no NAPI any more though it should.
    pub fn place(&mut self, placement: Placement) -> Result<(), TopologyError> {
        let Some(topology) = &mut self.topology else { return Ok(()) };
        if let Mode::Pinned { threads, .. } | Mode::Floating { threads, .. } = topology.place_again(placement)? {
            for thread in threads {
                go_ahead(*thread);
            }
        }
        Ok(())
    }

    /// How sending and counting are done, in words.
    pub fn describe(&self) -> (String, String) {
        let caps = self.sender.caps();
        (format!("{} ({})", caps.name, caps.detail), self.endpoint.describe())
    }
}

fn open_sender(topology: &Topology, kind: &str, pool: &Pool) -> Result<Box<dyn Port>, TesterError> {
    let side = &topology.generator;
    // Only sending costs less; and a refused packet is lost, or a slow device would hold the load back.
    let options = match kind {
        "xdp" => ",tx_only",
        "packet" => ",tx_only,refused=drop",
        _ => "",
    };
    let spec = format!("{kind}:{}{options}", side.interface.name);
    Ok(side.namespace.run(|| linerate_ports::open(&spec, pool))??)
}

/// UDP over IPv4, `len` bytes without FCS, from the addresses of `path` to the first hop of `topology` (to nobody's address on
/// an in-process link). `flows` = sources x destinations, the sources changing fastest: 1 x 1 to 100 x 100.
///
/// # Errors
/// A length too short for headers and signature.
pub fn test_stream(
    topology: Option<&Topology>,
    path: &TopologySpec,
    len: usize,
    flows: (u64, u64),
    stream: u16,
) -> Result<StreamPlan, PlanError> {
    let network = ipv4::Header { src: path.sources.0, dst: path.destinations.0, ttl: 64, ..ipv4::Header::default() };
    let link = ethernet::Header {
        src: MacAddress::from(topology.map_or(NOBODY, |topology| topology.forward().source)),
        dst: MacAddress::from(topology.map_or(NOBODY, Topology::next_hop_mac)),
        ..ethernet::Header::default()
    };
    let ports = udp::Header { src_port: 1234, dst_port: 1234, ..udp::Header::default() };
    let stack = Stack::new().with(link).with(network).with(ports);
    let mut spec = StreamSpec::fixed(stack, len, Some(stream));
    let wheel = |field: &str, first: u32, count: u64, advance| Rule {
        field: field.into(),
        values: Values::Range { first: first.into(), step: 1, count },
        advance,
    };
    if flows.0 > 1 {
        spec.rules.push(wheel("ipv4.source", path.sources.0.into(), flows.0, Advance::EachPacket));
    }
    if flows.1 > 1 {
        let advance = if flows.0 > 1 { Advance::WhenPreviousWraps } else { Advance::EachPacket };
        spec.rules.push(wheel("ipv4.destination", path.destinations.0.into(), flows.1, advance));
    }
    spec.plan()
}

/// A locally administered address that no interface of the lab has.
const NOBODY: [u8; 6] = [0x02, 0x4c, 0x52, 0xff, 0xff, 0xff];
