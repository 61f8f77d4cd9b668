//! A tester on two ports of this host, with a device outside the lab between them: a box with two cables, a program, a cable.

use linerate_experiment::{NextHop, PortEnd};
use linerate_mem::{Pool, PoolConfig};
use linerate_port::{OpenError, OpenOptions, PortSpec};
use linerate_ports::Access;
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::raw::RawSocket;

use super::endpoint::Endpoint;
use super::ends::{Attachment, End, open_port};
use super::gateway::{Gateway, Question};
use super::traffic;
use super::{FRAMES, Tester, TesterError};
use linerate_ledger::counters::CounterSources;
use linerate_testbed::topology::FrameAddresses;

/// Two ports, and how they are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortsSpec {
    /// The first end: sends, or both ways.
    pub a: PortEnd,
    /// The second end: receives, or both ways.
    pub b: PortEnd,
    /// Whether the counting XDP program counts, instead of a receiving thread.
    pub sink: bool,
    /// As [`super::TesterSpec::both_ways`]; needs ports on interfaces (`xdp:IF` with `sink`, or `packet:IF`).
    pub both_ways: bool,
    /// As [`super::TesterSpec::sequences`].
    pub sequences: u64,
}

impl PortsSpec {
    /// One way from one port to the other, a receiving thread counts.
    pub fn new(a: impl Into<String>, b: impl Into<String>) -> PortsSpec {
        let end = |port| PortEnd { port, next_hop: NextHop::OtherEnd };
        PortsSpec { a: end(a.into()), b: end(b.into()), sink: false, both_ways: false, sequences: 1 << 25 }
    }

    /// Between the ends of a path. An interface that takes one socket (AF_XDP) cannot be emptied beside the port that sends, so with both
    /// ways the counting program counts.
    pub(crate) fn between(a: PortEnd, b: PortEnd, both_ways: bool) -> PortsSpec {
        let exclusive = |end: &PortEnd| {
            linerate_ports::parse(&end.port).is_ok_and(|spec| linerate_ports::access(&spec) == Some(Access::Exclusive))
        };
        let sink = both_ways && (exclusive(&a) || exclusive(&b));
        PortsSpec { a, b, sink, both_ways, ..PortsSpec::new("", "") }
    }
}

/// An interface by name, with what is needed of it.
struct Card {
    name: String,
    index: u32,
    mac: [u8; 6],
}

impl Tester {
    /// Opens two ports in this thread's network namespace. Where both are on interfaces, the interfaces' counters cut the path:
    /// what the one sent and the other did not receive was lost in the device between them.
    ///
    /// # Errors
    /// What could not be opened, and what to do.
    pub fn on_ports(spec: &PortsSpec) -> Result<Tester, TesterError> {
        let pool = Pool::new(PoolConfig { frames: FRAMES, ..PoolConfig::default() })?;
        let here = NetNs::current()?;
        let ports = [linerate_ports::parse(&spec.a.port)?, linerate_ports::parse(&spec.b.port)?];
        let cards = [card(&ports[0]), card(&ports[1])];
        let both = spec.both_ways;
        let (a, b) = (cards[0].as_ref(), cards[1].as_ref());
        let first = open(&spec.a, &ports[0], (true, both), spec, (&here, a, b), &pool)?;
        let second = open(&spec.b, &ports[1], (both, true), spec, (&here, b, a), &pool)?;
        let sources = match &cards {
            [Some(a), Some(b)] => Some(CounterSources::of_ports(&here, (&a.name, a.index), (&b.name, b.index))?),
            _ => None,
        };
        let names = cards.iter().flatten().map(|card| card.name.clone()).collect();
        let mut tester = Tester { sources, cards: names, both_ways: both, ..Tester::between([first, second], pool) };
        for (number, (end, card)) in [&spec.a, &spec.b].into_iter().zip(&cards).enumerate() {
            if let (NextHop::Gateway { own, gateway }, Some(card)) = (end.next_hop, card) {
                let question = Question { interface: card.index, own_mac: card.mac, own, gateway };
                let (namespace, socket) = (NetNs::current()?, RawSocket::sender(card.index)?);
                tester.gateways.push(Gateway { end: number, question, namespace, socket });
            }
        }
        tester.resolve().map_err(TesterError::NextHop)?;
        Ok(tester)
    }

    /// Asks the gateways for their addresses.
    pub(super) fn resolve(&mut self) -> std::io::Result<()> {
        for gateway in &self.gateways {
            self.ends[gateway.end].link.destination = gateway.ask()?;
        }
        Ok(())
    }
}

/// The interface that a port is on; none for ports that are elsewhere (files, pipes).
fn card(spec: &PortSpec) -> Option<Card> {
    let device = Netdev::open(&spec.target).ok()?;
    let (index, mac) = (device.index().ok()?, device.mac().ok()?);
    Some(Card { name: spec.target.clone(), index, mac })
}

fn open(
    end: &PortEnd,
    port: &PortSpec,
    (sends, counts): (bool, bool),
    spec: &PortsSpec,
    (namespace, card, other): (&NetNs, Option<&Card>, Option<&Card>),
    pool: &Pool,
) -> Result<End, TesterError> {
    let needs_interface = |what: &str| {
        let hint = "name a port on an interface, such as xdp:eth1 or packet:eth1";
        TesterError::from(OpenError::new(&end.port, format!("{what} needs an interface"), hint))
    };
    if spec.both_ways && card.is_none() {
        return Err(needs_interface("load both ways"));
    }
    if spec.both_ways && !spec.sink && linerate_ports::access(port) != Some(Access::Shared) {
        let problem = "a port that sends cannot be emptied by another thread".to_owned();
        return Err(OpenError::new(&end.port, problem, "use packet: ports, or let the sink count").into());
    }
    let source = card.map_or(traffic::nobody().source, |card| card.mac);
    let destination = match end.next_hop {
        NextHop::Mac(mac) => mac,
        // A gateway's is asked for once the ports are open.
        NextHop::OtherEnd | NextHop::Gateway { .. } => other.map_or(traffic::nobody().destination, |other| other.mac),
    };
    if matches!(end.next_hop, NextHop::Gateway { .. }) && card.is_none() {
        return Err(needs_interface("asking for a gateway's address"));
    }
    let sender = if sends { Some(open_port(port, OpenOptions::transmit(), pool)?) } else { None };
    let endpoint = match (counts, card) {
        (false, _) => None,
        (true, Some(card)) if spec.sink => {
            let at = Attachment { namespace, interface: &card.name, index: card.index };
            Some(Endpoint::open(&at, "sink", spec.sequences, pool)?)
        }
        (true, None) if spec.sink => return Err(needs_interface("the counting XDP program")),
        (true, _) => Some(Endpoint::on_port(open_port(port, OpenOptions::receive(), pool)?, pool)),
    };
    Ok(End { sender, endpoint, link: FrameAddresses { source, destination } })
}
