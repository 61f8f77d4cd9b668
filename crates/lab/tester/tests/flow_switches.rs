//! Switches with flow entries as devices: what their entries count, what they show, and what they lose. Where Open vSwitch, or this program
//! itself, is not there, its part is skipped.

use super::support;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use linerate_experiment::DutKind;
use linerate_report::FLOW_MATCHES;
use linerate_sys::affinity::allowed_cores;
use linerate_testbed::dut::flow_table::FlowSwitch;
use linerate_testbed::dut::ofswitch::OfSwitch;
use linerate_testbed::dut::ovs::OpenVswitch;
use linerate_testbed::dut::switch_ports::SwitchPorts;
use linerate_testbed::dut::{Built, Device, DutError, Path, Shown};
use linerate_testbed::switches::SwitchSource;
use linerate_testbed::topology::{LinkKind, TopologySpec};
use linerate_tester::{Cores, Load, Tester, TesterSpec, TrialSpec, fixed_size};
use support::carry::{Direction, PACKETS, carry, carry_some, device, device_on};
use support::scenario::Scenario;

fn switches(ports: SwitchPorts, entries: u32) -> [DutKind; 2] {
    let switch = FlowSwitch { ports, entries };
    [DutKind::from(OpenVswitch(switch)), DutKind::from(OfSwitch(switch))]
}

fn text<'a>(shown: &'a [Shown], command: &str) -> &'a str {
    let found = shown.iter().find(|shown| shown.command.contains(command));
    found.map_or_else(|| panic!("{command}: {shown:?}"), |shown| shown.text.as_str())
}

#[test]
fn entries_by_address_and_by_port_count_what_they_match_and_are_shown() {
    let [ovs, of] = switches(SwitchPorts::Packet, 10);
    let xdp = DutKind::from(OfSwitch(FlowSwitch { ports: SwitchPorts::Xdp, entries: 10 }));
    for kind in [ovs, of, xdp] {
        let Some(mut built) = device(kind.clone()) else { continue };
        let before = built.device.counters().expect("counters");
        assert_eq!(before[FLOW_MATCHES], 0, "{kind:?}: {before:?}");
        carry_some(&mut built, Direction::Forward, PACKETS).all_delivered();
        carry_some(&mut built, Direction::Backward, PACKETS).all_delivered();
        let counters = built.device.counters().expect("counters");
        assert_eq!(counters[FLOW_MATCHES], 2 * PACKETS, "{kind:?}: {counters:?}");
        let shown = built.device.show().expect("it answers");
        let flows = if kind.settings::<OpenVswitch>().is_some() { "dump-flows" } else { "show flow" };
        let flows = text(&shown, flows);
        // The flow has an entry of its own, one each way, and falls through to none by port.
        let counted = |line: &&str| {
            line.contains(&format!("packets={PACKETS},")) || line.contains(&format!("packet_count={PACKETS},"))
        };
        let of_address = flows.lines().filter(counted).filter(|line| line.contains("192.0.2.1")).count();
        assert_eq!(of_address, 2, "{kind:?}: {flows}");
        assert_eq!(flows.lines().filter(|line| line.contains("in_port=")).count(), 12, "{kind:?}: {flows}");
        built.device.reset().expect("reset");
        carry_some(&mut built, Direction::Forward, PACKETS).all_delivered();
        built.device.check().expect("alive");
    }
}

#[test]
fn packets_that_no_entry_matches_are_named() {
    let Some(mut built) = device(DutKind::from(OfSwitch(FlowSwitch::default()))) else { return };
    let topology = built.path.topology().expect("namespaces");
    let Some(SwitchSource::Control(socket)) = topology.dut.as_ref().and_then(|dut| dut.forwarding.switch.as_ref())
    else {
        panic!("a switch")
    };
    let mut stream = UnixStream::connect(socket).expect("its socket");
    stream.write_all(b"{\"v\":1,\"command\":\"flow\",\"action\":\"delete\",\"flows\":[\"\"]}\n").expect("written");
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).expect("an answer");
    assert!(answer.contains("\"ok\""), "{answer}");
    let carried = carry(&mut built, Direction::Forward);
    let account = &carried.ledger.account;
    let lost: Vec<_> = account.lost().iter().filter(|row| row.packets > 0).collect();
    let [row] = lost.as_slice() else { panic!("{:#?}", carried.ledger) };
    assert_eq!((row.place.as_str(), row.cause.as_str(), row.packets), ("OpenFlow switch", "table-miss", PACKETS));
    assert!(row.inferred_from.is_none() && row.hint.is_some() && row.counter.is_some(), "{row:?}");
    assert_eq!((account.delivered(), account.unexplained()), (0, 0), "{:#?}", carried.ledger);
    assert_eq!(built.device.counters().expect("counters")[FLOW_MATCHES], 0);
}

#[test]
fn two_of_open_vswitch_over_shared_memory_live_side_by_side() {
    let interfaces = || {
        let lines = std::fs::read_to_string("/proc/net/dev").expect("the interfaces");
        let names = lines.lines().filter_map(|line| line.split_once(':').map(|(name, _)| name.trim().to_owned()));
        names.filter(|name| name.starts_with("br") || name.starts_with("ovs")).collect::<Vec<_>>()
    };
    let before = interfaces();
    let [kind, _] = switches(SwitchPorts::Memif, 1);
    let spec = TopologySpec { link: LinkKind::Memif, ..TopologySpec::default() };
    let Some(mut first) = device_on(kind.clone(), &spec) else { return };
    let Some(mut second) = device_on(kind, &spec) else { return };
    for built in [&mut first, &mut second] {
        built.device.check().expect("alive");
    }
    assert_eq!(interfaces(), before, "what it makes is not among this host's interfaces");
}

/// A device over shared memory and its tester, after a first trial, in which they connect. Open vSwitch is built once more if that ended
/// it: the polling thread of DPDK's net_memif (22.11, `eth_memif_rx` in rte_eth_memif.c) reads where a ring lies before it asks whether
/// a client is connected, so a thread that loses its core in between uses an address that was not mapped yet.
fn connected(kind: &DutKind, spec: &TopologySpec) -> Option<(Tester, Box<dyn Device>)> {
    for is_last in [false, true] {
        let Some(Built { path: path @ Path::Memory(_), mut device }) = device_on(kind.clone(), spec) else {
            return None;
        };
        let tester = Tester::around(path, &TesterSpec::new("packet", "packet"));
        let mut tester = tester.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        let (size, flows) = (fixed_size(64), Scenario::default().flows());
        let first = tester.trial(&TrialSpec::new(&size, &flows, Load::Burst { packets: 1 }));
        match device.check() {
            Err(DutError::Died { .. }) if !is_last && kind.settings::<OpenVswitch>().is_some() => {
                eprintln!("Open vSwitch died when the tester connected; it is built once more");
            }
            alive => {
                alive.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
                first.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
                return Some((tester, device));
            }
        }
    }
    None
}

#[test]
fn trials_over_shared_memory_balance_and_the_entries_count_all_that_came_in() {
    const MS: u64 = 1_000_000;
    for kind in switches(SwitchPorts::Memif, 10) {
        let spec = TopologySpec { link: LinkKind::Memif, ..TopologySpec::default() };
        let Some((mut tester, mut device)) = connected(&kind, &spec) else { continue };
        for (load, size, both) in [
            (Load::Rate { pps: 5_000.0, duration_ns: 100 * MS }, 64, true),
            (Load::Full { duration_ns: 50 * MS }, 1518, false),
        ] {
            let before = device.counters().expect("counters")[FLOW_MATCHES];
            let cores = allowed_cores();
            let cores =
                Cores { generator: cores.first().copied(), receiver: cores.first().copied(), ..Cores::default() };
            let (size, flows) = (fixed_size(size), Scenario::default().flows());
            let spec = TrialSpec { backward: both.then_some(load), cores, ..TrialSpec::new(&size, &flows, load) };
            let outcome = tester.trial(&spec).expect("a trial");
            let account = &outcome.ledger.account;
            assert!(account.delivered() > 0, "{kind:?}: {outcome:#?}");
            assert_eq!(account.unexplained(), 0, "{kind:?}: {outcome:#?}");
            let matched = device.counters().expect("counters")[FLOW_MATCHES] - before;
            assert_eq!(matched, account.sent(), "{kind:?}: {outcome:#?}");
        }
        let shown = device.show().expect("it answers");
        assert!(shown.len() >= 4 && shown.iter().all(|shown| !shown.text.trim().is_empty()), "{shown:?}");
    }
}
