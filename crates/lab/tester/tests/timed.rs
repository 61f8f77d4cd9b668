//! Times that the tester reports against times that the test itself knows: a delay, an outage. What is asserted is causality
//! (nothing arrives before it was sent, nothing while the path was cut), not speed.

use super::support;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linerate_gen::Signature;
use linerate_sys::clock::{now_ns, sleep_until_ns};
use linerate_sys::raw::RawSocket;
use linerate_testbed::netlink::Netlink;
use linerate_testbed::topology::{Forwarding, Topology, TopologySpec};
use linerate_tester::{Load, Outcome, TesterSpec, TrialSpec, fixed_size};
use support::{built, hundred_flows, opened};

const MS: u64 = 1_000_000;
const DELAY_NS: u64 = 20 * MS;

/// Passes frames from one socket to the other, each `DELAY_NS` after it came. How late each one was then, by its signature.
fn delaying(from: &RawSocket, to: &RawSocket, done: &AtomicBool) -> Vec<u64> {
    let (mut waiting, mut delays, mut buffer) = (VecDeque::new(), Vec::new(), [0; 2048]);
    while !done.load(Ordering::Acquire) || !waiting.is_empty() {
        if let Ok(len) = from.receive(&mut buffer)
            && let Some(signature) = Signature::read(&buffer[..len])
        {
            waiting.push_back((now_ns() + DELAY_NS, signature.time_ns, buffer[..len].to_vec()));
        }
        while let Some((due_ns, scheduled_ns, frame)) = waiting.pop_front_if(|(due_ns, ..)| *due_ns <= now_ns()) {
            assert!(due_ns > 0);
            delays.push((now_ns() & ((1 << 48) - 1)) - scheduled_ns);
            to.send(&frame).expect("send");
        }
    }
    delays.sort_unstable();
    delays
}

/// One trial over a device that delays, how late each packet was when the device passed it on, in order, and how many it had no room
/// for; `None` after saying that the test is skipped.
fn delayed(sender: &str, receiver: &str) -> Option<(Outcome, Vec<u64>, u64)> {
    let forwarding = Forwarding::by_process("a delay");
    let topology = built(Topology::switched(&TopologySpec::default(), forwarding))?;
    let dut = topology.dut.as_ref().expect("a DUT").try_clone().expect("a handle");
    let sockets = dut.namespace.run(|| -> std::io::Result<_> {
        Ok((RawSocket::receiver(dut.ingress.index, Duration::from_micros(500))?, RawSocket::sender(dut.egress.index)?))
    });
    let (from, to) = sockets.expect("enter").expect("sockets");
    let mut tester = opened(topology, &TesterSpec::new(sender, receiver))?;
    let (size, flows) = (fixed_size(64), hundred_flows());
    let load = Load::Rate { pps: 2_000.0, duration_ns: 200 * MS };
    let done = AtomicBool::new(false);
    Some(std::thread::scope(|scope| {
        let device = scope.spawn(|| delaying(&from, &to, &done));
        let mut spec = TrialSpec { timed: true, ..TrialSpec::new(&size, &flows, load) };
        // Longer than the delay, or the path would look at rest.
        spec.phases.drain_ns = 4 * DELAY_NS;
        let outcome = tester.trial(&spec);
        done.store(true, Ordering::Release);
        let delays = device.join().expect("the device");
        (outcome.expect("a trial"), delays, from.take_drops().expect("socket statistics"))
    }))
}

/// The delays that the tester reports are those of the device, and what comes after it: no less in any trial, and no more than that
/// in one of ten, since a machine that others use may keep packets back behind the device too.
#[test]
fn sinks_and_ports_measure_a_known_delay() {
    for (sender, receiver) in [("xdp", "sink"), ("packet", "packet")] {
        let mut measured = false;
        for _ in 0..10 {
            let Some((outcome, real, dropped)) = delayed(sender, receiver) else { return };
            let account = &outcome.ledger.account;
            assert_eq!(account.unexplained(), 0, "{:?}", outcome.ledger);
            // A busy machine may keep the device from its core for longer than its socket's buffer lasts.
            let guessed: u64 = account.lost().iter().filter(|row| row.is_inferred()).map(|row| row.packets).sum();
            assert!(guessed <= dropped, "the device had no room for {dropped}: {:?}", outcome.ledger);
            let Some(latency) = outcome.delays.as_ref().and_then(|delays| delays.latency()) else {
                assert_eq!(account.delivered(), 0, "what arrives has a delay: {:?}", outcome.ledger);
                continue;
            };
            assert_eq!(latency.samples, account.delivered(), "{latency:?}");
            let curve = outcome.delays.as_ref().expect("delays").curve();
            assert_eq!(curve.iter().map(|(_, packets)| packets).sum::<u64>(), latency.samples);
            assert!(latency.min_ns >= real[0] && real[0] >= DELAY_NS, "earlier than sent: {latency:?}");
            let median = real[real.len() / 2];
            eprintln!("{receiver}: passed on after {} ns, median {median}; {latency:?}", real[0]);
            if latency.samples != real.len() as u64 {
                continue;
            }
            // Half of the packets arrived after half of them had been passed on; buckets are 1.6 % wide.
            assert!(latency.p50_ns >= real[(real.len() - 1) / 2], "{latency:?}");
            assert!(latency.mean_ns >= real.iter().sum::<u64>() as f64 / real.len() as f64);
            measured = latency.min_ns <= real[0] + DELAY_NS / 2 && latency.p50_ns <= median + DELAY_NS / 2;
            if measured {
                break;
            }
        }
        assert!(measured, "{receiver}: not once was the delay measured that there was");
    }
}

#[test]
fn an_outage_lasts_as_long_as_the_interface_was_down() {
    for (sender, receiver) in [("xdp", "sink"), ("packet", "packet")] {
        let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
        let dut = topology.dut.as_ref().expect("a DUT").try_clone().expect("a handle");
        let mut inside = Netlink::open_in(&dut.namespace).expect("netlink");
        let Some(mut tester) = opened(topology, &TesterSpec::new(sender, receiver)) else { continue };
        let (size, flows) = (fixed_size(64), hundred_flows());
        let load = Load::Rate { pps: 10_000.0, duration_ns: 500 * MS };
        let received =
            |netlink: &mut Netlink| netlink.link_statistics(dut.ingress.index).expect("statistics").counters.rx_packets;
        let (outcome, (down_ns, up_ns)) = std::thread::scope(|scope| {
            let cut = scope.spawn(|| {
                while received(&mut inside) < 1_000 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                inside.set_up(dut.ingress.index, false).expect("down");
                let down_ns = now_ns();
                sleep_until_ns(down_ns + 100 * MS);
                let up_ns = now_ns();
                inside.set_up(dut.ingress.index, true).expect("up");
                (down_ns, up_ns)
            });
            let spec = TrialSpec { timed: true, ..TrialSpec::new(&size, &flows, load) };
            (tester.trial(&spec).expect("a trial"), cut.join().expect("the cut"))
        });
        let way = &outcome.ways[0];
        let timeline = way.arrivals.timeline.expect("timed");
        if timeline.last_ns < up_ns {
            // The generator had no core for the rest of the load.
            eprintln!("skipped in part: the load ended before the interface was up again");
            continue;
        }
        if timeline.silence_end_ns < down_ns {
            eprintln!("skipped in part: the generator had no core for longer than the interface was down");
            assert!(timeline.silence_ns >= up_ns - down_ns, "{timeline:?} {down_ns} {up_ns}");
            continue;
        }
        let outage_ns = way.outage_ns().expect("it came back");
        eprintln!("{receiver}: cut for {} ns, outage {outage_ns} ns", up_ns - down_ns);
        assert!(timeline.silence_end_ns >= up_ns, "nothing arrives while it is down: {timeline:?} {up_ns}");
        // A packet that was on its way when it went down may have arrived a little later.
        assert!(outage_ns >= (up_ns - down_ns) / 2, "{outage_ns} for {}", up_ns - down_ns);
        // A generator that is late sends packets that were due before the cut after it, or none at all meanwhile.
        let Some(loss) = timeline.last_loss else {
            eprintln!("skipped in part: nothing was sent while the interface was down");
            continue;
        };
        assert!(loss.arrived_ns >= up_ns && loss.scheduled_ns <= loss.arrived_ns, "{loss:?} {down_ns} {up_ns}");
    }
}

/// A port that breaks half-way ends the trial, and its account still closes.
#[test]
fn a_broken_sending_port_leaves_a_right_account() {
    let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
    let interface = topology.generator.interface.index;
    let mut outside = Netlink::open_in(&topology.generator.namespace).expect("netlink");
    let Some(mut tester) = opened(topology, &TesterSpec::new("packet", "packet")) else { return };
    let (size, flows) = (fixed_size(64), hundred_flows());
    // Far longer than it takes to notice that the port is to break.
    let load = Load::Rate { pps: 5_000.0, duration_ns: 60_000 * MS };
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while outside.link_statistics(interface).expect("statistics").counters.tx_packets < 500 {
                std::thread::sleep(Duration::from_millis(1));
            }
            outside.set_up(interface, false).expect("down");
        });
        tester.trial(&TrialSpec::new(&size, &flows, load)).expect("a partial account")
    });
    let account = &outcome.ledger.account;
    eprintln!("{:?} {:?} {account:?}", outcome.interrupted, outcome.notes);
    assert!(outcome.interrupted.is_some(), "{:?}", outcome.notes);
    assert!(account.delivered() >= 500 && account.sent() < 300_000, "{account:?}");
    assert_eq!(account.unexplained(), 0, "{:?}\n{:?}", outcome.ledger, outcome.readings.difference);
}
