//! Packets through a device, one way, with the ledger of it.
#![allow(dead_code)] // Each test binary uses its own part.

use std::time::Duration;

use linerate_experiment::{DutKind, DutSpec};
use linerate_ledger::attribution::PortRows;
use linerate_ledger::counters::{CounterSources, Difference};
use linerate_ledger::ledger::{Ends, Ledger, close};
use linerate_report::{Counted, Loss};
use linerate_testbed::dut::{self, Built};
use linerate_testbed::topology::{FrameAddresses, Side, Topology, TopologySpec};
use linerate_testkit::or_skip;

use super::{Datagram, RawSocket, swap, wait_until};

pub const PACKETS: u64 = 60;

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

pub fn named(kind: DutKind) -> DutSpec {
    DutSpec { name: "dut".into(), kind }
}

/// A device in namespaces, or `None` after saying why the test is skipped: a right or a tool is missing.
pub fn device(kind: DutKind) -> Option<Built> {
    device_on(kind, &TopologySpec::default())
}

/// As [`device`], on another path.
pub fn device_on(kind: DutKind, path: &TopologySpec) -> Option<Built> {
    or_skip("no device", dut::build(&named(kind), path))
}

/// What came of [`carry`].
#[derive(Debug)]
pub struct Carried {
    pub ledger: Ledger,
    /// The test frames that arrived.
    pub frames: Vec<Vec<u8>>,
}

impl Carried {
    pub fn all_delivered(&self) {
        let account = &self.ledger.account;
        assert_eq!((account.delivered(), account.unexplained()), (PACKETS, 0), "{:?}", self.ledger);
        assert_eq!((account.lost().len(), self.ledger.unnamed.len()), (0, 0), "{:?}", self.ledger);
    }
}

/// Sends [`PACKETS`] datagrams of one flow through the device.
pub fn carry(built: &mut Built, way: Direction) -> Carried {
    carry_some(built, way, 0)
}

/// As [`carry`], through a device whose process may be without a core for longer than a path is waited for: until so many have
/// arrived, or for a minute.
pub fn carry_some(built: &mut Built, way: Direction, arriving: u64) -> Carried {
    // Where an interface is down nothing can be learned.
    let _ = built.device.learn();
    let topology = built.path.topology().expect("namespaces");
    let datagram = match way {
        Direction::Forward => Datagram::default(),
        Direction::Backward => swap(Datagram::default()),
    };
    let (from, to, addresses) = match way {
        Direction::Forward => (&topology.generator, &topology.receiver, topology.forward()),
        Direction::Backward => (&topology.receiver, &topology.generator, topology.backward()),
    };
    carry_datagrams((topology, from, to), &datagram.frame_to(addresses), way, arriving)
}

/// As [`carry`], forward, of this frame.
pub fn carry_frame(built: &mut Built, frame: &[u8]) -> Carried {
    built.device.learn().expect("learning frames");
    let topology = built.path.topology().expect("namespaces");
    carry_datagrams((topology, &topology.generator, &topology.receiver), frame, Direction::Forward, 0)
}

fn carry_datagrams(
    (topology, from, to): (&Topology, &Side, &Side),
    frame: &[u8],
    way: Direction,
    arriving: u64,
) -> Carried {
    let sender = RawSocket::sender(from);
    let receiver = RawSocket::open_with(to, Duration::from_millis(200));
    let mut sources = CounterSources::open(topology).expect("counters");
    let before = sources.snapshot().expect("snapshot");
    for _ in 0..PACKETS {
        let _ = sender.send(frame);
    }
    let mut received = Vec::new();
    wait_until(|| {
        let arrived = received.iter().filter(|frame: &&Vec<u8>| is_test_frame(frame)).count() as u64;
        arrived >= arriving || {
            received.extend(receiver.drain());
            false
        }
    });
    let rest = sources.snapshot_at_rest(Duration::from_millis(50), Duration::from_secs(60));
    let (after, at_rest) = rest.expect("snapshot");
    assert!(at_rest, "the path came to rest");
    received.extend(receiver.drain());
    let total = received.len() as u64;
    let frames: Vec<Vec<u8>> = received.into_iter().filter(|frame| is_test_frame(frame)).collect();
    let delivered = frames.len() as u64;
    let counted = Counted { intended: PACKETS, sent: PACKETS, delivered, ..Counted::default() };
    let difference = match way {
        Direction::Forward => after.since(&before),
        Direction::Backward => mirrored(after.since(&before)),
    };
    let receiver = vec![Loss::new("receiving socket", "buffer full", receiver.drops())];
    let ports = PortRows { receiver, ..PortRows::default() };
    let ends = Ends { counted, received: total };
    Carried { ledger: close(&ends, Some(&difference), &ports).expect("balances"), frames }
}

/// The same path seen from its other end.
fn mirrored(difference: Difference) -> Difference {
    let dut = difference.dut.map(|mut dut| {
        std::mem::swap(&mut dut.ingress, &mut dut.egress);
        dut
    });
    Difference { generator: difference.receiver, receiver: difference.generator, dut, ..difference }
}

/// A UDP datagram with the payload of [`Datagram`], whatever became of its addresses and ports.
fn is_test_frame(frame: &[u8]) -> bool {
    frame.len() >= 60 && frame[12..14] == [0x08, 0x00] && frame[23] == 17 && frame[42..60] == [0x5a; 18]
}

/// The addresses of a frame.
pub fn addresses(frame: &[u8]) -> FrameAddresses {
    let mac = |at: usize| std::array::from_fn(|byte| frame[at + byte]);
    FrameAddresses { source: mac(6), destination: mac(0) }
}
