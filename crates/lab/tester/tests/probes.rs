//! Latency by timestamps of the kernel, on paths of which the test knows something: cards that timestamp are in `conformance/machines.py` only.

use super::support;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linerate_experiment::{Addresses6, FlowIp, FlowSpec};
use linerate_report::TimestampKind;
use linerate_sys::clock::now_ns;
use linerate_sys::raw::RawSocket;
use linerate_sys::timestamping::TimestampedBy;
use linerate_testbed::topology::{Forwarding, Topology, TopologySpec};
use linerate_tester::{Load, Probed, Tester, TesterSpec, TrialSpec, fixed_size};
use support::{built, hundred_flows, opened};

const MS: u64 = 1_000_000;
const DELAY_NS: u64 = 20 * MS;

fn probed(tester: &mut Tester, flows: &FlowSpec, both_ways: bool) -> Probed {
    let size = fixed_size(128);
    let load = Load::Rate { pps: 5_000.0, duration_ns: 400 * MS };
    let spec = TrialSpec { backward: both_ways.then_some(load), ..TrialSpec::new(&size, flows, load) };
    let prober = tester.prober(TimestampedBy::Kernel).expect("a prober");
    prober.probe(tester, &spec).expect("latencies")
}

/// Both directions through a router, over either version of IP: the probes go over UDP, and each has both timestamps.
#[test]
fn probes_pass_a_router_beside_a_load() {
    let v6 =
        Addresses6 { source: "2001:db8:0:1::1".parse().unwrap(), destination: "2001:db8:0:2::101".parse().unwrap() };
    for (ip, receiver) in [(FlowIp::V4, "sink"), (FlowIp::V4, "packet"), (FlowIp::V6(v6), "packet")] {
        let flows = FlowSpec { ip, ..hundred_flows() };
        let Some(topology) = built(Topology::router(&TopologySpec::default().for_flows(&flows))) else { return };
        let Some(mut tester) = opened(topology, &TesterSpec::new("packet", receiver).both_ways()) else { return };
        let Probed { delays, timestamps } = probed(&mut tester, &flows, true);
        eprintln!("{receiver}: {timestamps}; {:?}", delays.latency());
        let probes = timestamps.probes.expect("probes");
        assert_eq!((timestamps.kind, timestamps.error_ns), (TimestampKind::Kernel, None));
        assert_eq!(probes.measured(), delays.samples());
        // A busy machine may keep some back for longer than they are waited for, and begins to timestamp some time after it was told.
        assert!(delays.samples() > 0 && probes.rejected == 0, "{probes:?}");
        assert!(delays.latency().expect("latencies").min_ns > 0);
        // What probed leaves the next trial alone.
        let size = fixed_size(128);
        let load = Load::Rate { pps: 5_000.0, duration_ns: 50 * MS };
        let outcome = tester.trial(&TrialSpec::new(&size, &flows, load)).expect("a trial");
        support::assert_explained(&outcome.ledger, "after the probes");
    }
}

/// Passes frames from one socket to the other, each `DELAY_NS` after it came.
fn delaying(from: &RawSocket, to: &RawSocket, done: &AtomicBool) {
    let (mut waiting, mut buffer) = (VecDeque::new(), [0; 2048]);
    while !done.load(Ordering::Acquire) {
        if let Ok(len) = from.receive(&mut buffer) {
            waiting.push_back((now_ns() + DELAY_NS, buffer[..len].to_vec()));
        }
        while let Some((_, frame)) = waiting.pop_front_if(|(due_ns, _)| *due_ns <= now_ns()) {
            to.send(&frame).expect("send");
        }
    }
}

/// Over a device that carries frames as they are, the probes are frames of PTP, and their latency is the device's.
#[test]
fn probes_measure_a_known_delay() {
    let topology = Topology::switched(&TopologySpec::default(), Forwarding::by_process("a delay"));
    let Some(topology) = built(topology) else { return };
    let dut = topology.dut.as_ref().expect("a DUT").try_clone().expect("a handle");
    let sockets = dut.namespace.run(|| -> std::io::Result<_> {
        Ok((RawSocket::receiver(dut.ingress.index, Duration::from_micros(500))?, RawSocket::sender(dut.egress.index)?))
    });
    let (from, to) = sockets.expect("enter").expect("sockets");
    let Some(mut tester) = opened(topology, &TesterSpec::new("packet", "packet")) else { return };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let device = scope.spawn(|| delaying(&from, &to, &done));
        let Probed { delays, timestamps } = probed(&mut tester, &hundred_flows(), false);
        let latency = delays.latency().expect("latencies");
        eprintln!("{timestamps}; {latency:?}");
        assert!(latency.min_ns >= DELAY_NS, "earlier than the device passes it on: {latency:?}");
        assert!(timestamps.clocks.iter().all(|clock| clock.starts_with("CLOCK_REALTIME at ")), "{timestamps}");
        done.store(true, Ordering::Release);
        device.join().expect("the device");
    });
}

/// A veth has no timestamps of its own, and says so.
#[test]
fn interfaces_without_hardware_timestamps_are_named() {
    let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
    let name = topology.generator.interface.name;
    let Some(tester) = opened(topology, &TesterSpec::new("packet", "packet")) else { return };
    let why = tester.prober(TimestampedBy::Card).err().expect("no prober");
    assert_eq!(why, format!("{name} has no hardware timestamps of what it sends and receives"));
    let why = Tester::in_process().expect("a tester").prober(TimestampedBy::Kernel).err().expect("no prober");
    assert!(why.contains("not two interfaces"), "{why}");
}
