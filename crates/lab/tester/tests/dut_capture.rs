//! Linerate's own capture as a device: the ledger closes at every load, one port and two. The program has to have been built; without
//! it the test is skipped.

mod support;

use linerate_experiment::DutKind;
use linerate_report::CapturePort;
use linerate_sys::affinity::allowed_cores;
use linerate_testbed::dut::capture::{Capture, CaptureCores, CaptureTool, Reception};
use linerate_testbed::dut::{self, Built, Device, Path};
use linerate_tester::{Cores, Load, Outcome, Tester, TesterSpec, TrialSpec, fixed_size};
use linerate_testkit::or_skip;

const MS: u64 = 1_000_000;

/// `None` after saying why the test is skipped: steering and pinning want root, and libpcap or the program may not be there.
fn built(capture: Capture) -> Option<Built> {
    let built = dut::build(&support::carry::named(DutKind::from(capture)), &support::threaded());
    or_skip(&format!("{capture:?}"), built)
}

struct Rig {
    tester: Tester,
    device: Box<dyn Device>,
}

fn rig(capture: Capture, ports: usize) -> Option<Rig> {
    let Built { path, device } = built(capture)?;
    assert!(matches!(path, Path::Captured(..)), "a capture's path");
    let ends = TesterSpec::new("packet", "packet");
    let ends = if ports == 2 { ends.both_ways() } else { ends };
    let tester = Tester::around(path, &ends).expect("sending ports");
    Some(Rig { tester, device })
}

impl Rig {
    fn trial(&mut self, load: Load, ports: usize) -> (Outcome, Vec<CapturePort>) {
        let (size, flows) = (fixed_size(64), support::hundred_flows());
        let generator = allowed_cores().first().copied();
        let cores = Cores { generator, ..Cores::default() };
        let backward = (ports == 2).then_some(load);
        let trial = TrialSpec { backward, cores, ..TrialSpec::new(&size, &flows, load) };
        let outcome = self.tester.trial(&trial).expect("a trial");
        self.device.check().expect("it works");
        (outcome, self.device.captured().expect("a capture"))
    }
}

fn capture(tool: CaptureTool, receive: Reception, cores: CaptureCores) -> Capture {
    Capture { tool, receive, cores, buffer_bytes: 512 << 10, file: false }
}

/// Every packet is captured, or lost at a place with a name; and the capture's own counts are those of the account.
fn closes(rig: &mut Rig, load: Load, ports: usize) -> u64 {
    let (outcome, said) = rig.trial(load, ports);
    let account = &outcome.ledger.account;
    support::assert_explained(&outcome.ledger, &format!("{said:?}"));
    assert_eq!(said.len(), ports);
    assert_eq!(said.iter().map(|port| port.captured).sum::<u64>(), account.delivered());
    assert!(!account.lost().iter().any(|loss| loss.cause.contains("MTU")), "no frame is long: {account:?}");
    let in_rings = account.lost().iter().filter(|loss| loss.place.starts_with("ring of the capture on "));
    let in_rings: u64 = in_rings.map(|loss| loss.packets).sum();
    assert_eq!(said.iter().map(|port| port.dropped_by_ring).sum::<u64>(), in_rings);
    assert!(said.iter().all(|port| port.cpu_ns.is_some() && port.ring_capacity.is_some()), "{said:?}");
    account.sent()
}

/// At every way of receiving, on one port and on two.
fn every_packet_is_captured_or_has_a_place(tool: CaptureTool) {
    for (receive, cores) in [
        (Reception::Interrupt, CaptureCores::One),
        (Reception::Interrupt, CaptureCores::All),
        (Reception::ThreadedNapi, CaptureCores::One),
        (Reception::ThreadedNapi, CaptureCores::All),
        (Reception::BusyPoll, CaptureCores::One),
        (Reception::BusyPoll, CaptureCores::All),
    ] {
        if (tool, cores) == (CaptureTool::Xdp, CaptureCores::One) && receive != Reception::ThreadedNapi {
            continue;
        }
        for ports in [1, 2] {
            let Some(mut rig) = rig(capture(tool, receive, cores), ports) else { break };
            let sent = closes(&mut rig, Load::Rate { pps: 5_000.0, duration_ns: 100 * MS }, ports);
            assert!(sent > 0);
            closes(&mut rig, Load::Full { duration_ns: 100 * MS }, ports);
        }
    }
}

#[test]
fn every_packet_is_captured_by_packet_sockets_or_has_a_place() {
    every_packet_is_captured_or_has_a_place(CaptureTool::Packet);
}

#[test]
fn every_packet_is_captured_by_libpcap_or_has_a_place() {
    every_packet_is_captured_or_has_a_place(CaptureTool::Pcap);
}

#[test]
fn every_packet_is_captured_by_xdp_sockets_or_has_a_place() {
    every_packet_is_captured_or_has_a_place(CaptureTool::Xdp);
}

#[test]
fn the_packets_of_a_small_load_are_all_there_also_in_files() {
    let file = Capture { file: true, ..capture(CaptureTool::Packet, Reception::ThreadedNapi, CaptureCores::All) };
    let Some(mut rig) = rig(file, 2) else { return };
    // A busy machine may keep the capture from its core: then its own counts say what it lost.
    for _ in 0..10 {
        let (outcome, said) = rig.trial(Load::Rate { pps: 1_000.0, duration_ns: 100 * MS }, 2);
        let account = &outcome.ledger.account;
        if account.delivered() == account.sent() {
            assert!(said.iter().all(|port| port.captured > 0 && port.dropped_by_ring == 0), "{said:?}");
            return;
        }
        assert_eq!(account.unexplained(), 0, "{:?}", outcome.ledger);
    }
    panic!("not once were all packets captured");
}

#[test]
fn what_has_no_effect_is_refused_and_nothing_is_left() {
    let steered = capture(CaptureTool::Xdp, Reception::Interrupt, CaptureCores::One);
    let refused = dut::build(&support::carry::named(DutKind::from(steered)), &support::threaded());
    let error = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("no effect"), "{error}");
    let Some(mut built) = built(capture(CaptureTool::Packet, Reception::ThreadedNapi, CaptureCores::All)) else {
        return;
    };
    let description = built.device.describe();
    assert!(description.configuration["setting"].contains("AF_PACKET"), "{description:?}");
    assert!(built.device.mode().is_some_and(|mode| mode.contains("NAPI thread")));
    assert!(built.device.reset().is_err() && !built.device.needs_warm_up());
    drop(built);
    let mark = format!("linerate-{}-dut-", std::process::id());
    let entries = std::fs::read_dir(std::env::temp_dir()).expect("a folder").flatten();
    assert_eq!(entries.filter(|entry| entry.file_name().to_string_lossy().contains(&mark)).count(), 0);
}
