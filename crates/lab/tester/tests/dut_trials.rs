//! Every device under the tester's load, both ways at once: the ledger closes, and what is lost has its place.

use super::support;

use linerate_experiment::DutKind;
use linerate_sys::affinity;
use linerate_testbed::dut::bridge::Bridge;
use linerate_testbed::dut::flow_table::FlowSwitch;
use linerate_testbed::dut::none::Direct;
use linerate_testbed::dut::ovs::OpenVswitch;
use linerate_testbed::dut::router::{FirewallTool, Router};
use linerate_testbed::dut::switch::Switch;
use linerate_testbed::dut::switch_ports::SwitchPorts;
use linerate_testbed::dut::xdp::XdpForwarder;
use linerate_testbed::dut::{Built, Device, Path};
use linerate_testbed::napi;
use linerate_tester::{Cores, Load, Outcome, Tester, TesterSpec, TrialSpec, fixed_size};
use support::hundred_flows;

const MS: u64 = 1_000_000;

fn rules(tool: FirewallTool) -> [DutKind; 2] {
    let with = |rules, conntrack, snat| {
        DutKind::from(Router { tool: Some(tool), rules, conntrack, snat, ..Router::default() })
    };
    [with(100, true, false), with(0, false, true)]
}

/// A tester with a device between its ends.
fn tester(kind: DutKind, ports: &TesterSpec) -> Option<(Tester, Box<dyn Device>, Cores)> {
    let Built { path, device } = support::carry::device_on(kind, &support::threaded())?;
    let Path::Namespaces(topology) = path else { panic!("namespaces") };
    let (tester, cores) = support::placed(*topology, ports)?;
    Some((tester, device, cores))
}

fn run(kind: &DutKind, ports: &TesterSpec, load: Load) -> Option<Outcome> {
    let (mut tester, mut device, cores) = tester(kind.clone(), ports)?;
    device.learn().expect("learning");
    let (size, flows) = (fixed_size(64), hundred_flows());
    let spec = TrialSpec { backward: Some(load), cores, ..TrialSpec::new(&size, &flows, load) };
    let outcome = tester.trial(&spec).expect("a trial");
    device.check().expect("it still works");
    Some(outcome)
}

/// Every packet arrived or was lost where a counter says so. A program that says nothing of its own losses (docs/ledger.md) has those that
/// are left, under a load that it cannot carry.
fn closes(kind: DutKind, silent: Option<&str>) {
    for ports in [TesterSpec::new("xdp", "sink"), TesterSpec::new("packet", "packet")] {
        for load in [Load::Rate { pps: 5_000.0, duration_ns: 100 * MS }, Load::Full { duration_ns: 100 * MS }] {
            let Some(outcome) = run(&kind, &ports.clone().both_ways(), load) else { return };
            let (ledger, what) = (&outcome.ledger, format!("{kind:?} {ports:?} {load:?}"));
            match silent.filter(|_| matches!(load, Load::Full { .. })) {
                None => support::assert_explained(ledger, &format!("{what} {:?}", outcome.readings.difference)),
                Some(place) => {
                    let account = &ledger.account;
                    assert!(account.delivered() > 0 && account.unexplained() == 0, "{what}: {ledger:?}");
                    let mut guessed = account.lost().iter().filter(|loss| loss.is_inferred());
                    assert!(guessed.all(|loss| loss.place == place), "{what}: {ledger:?}");
                }
            }
        }
    }
}

/// A reset in the middle of a trial: packets stop for a time, come again, and the next trial is as if nothing had been.
fn comes_back(kind: DutKind) {
    let ports = TesterSpec::new("packet", "packet").both_ways();
    let Some((mut tester, mut device, cores)) = tester(kind.clone(), &ports) else { return };
    device.learn().expect("learning");
    let (size, flows) = (fixed_size(64), hundred_flows());
    let mut was_hit = false;
    // On a busy machine a short trial can be over before the device is reset: longer ones, then.
    for duration_ms in [2_500, 8_000, 25_000] {
        let load = Load::Rate { pps: 2_000.0, duration_ns: duration_ms * MS };
        let spec = TrialSpec { backward: Some(load), cores, ..TrialSpec::new(&size, &flows, load) };
        let reset = std::thread::spawn(move || {
            let mut carried = || device.counters().expect("counters").values().sum::<u64>();
            let before = carried();
            support::wait_until(|| carried() > before + 500);
            let done = device.reset();
            (device, done)
        });
        let outcome = tester.trial(&spec).expect("a trial");
        let (back, done) = reset.join().expect("no panic");
        device = back;
        let done = done.expect("reset");
        let account = &outcome.ledger.account;
        assert!(account.delivered() > 0, "{kind:?} {done}: {account:?}");
        was_hit = account.delivered() < account.sent();
        if was_hit {
            break;
        }
    }
    assert!(was_hit, "{kind:?}: packets passed it all the time while it was reset");
    device.check().expect("it works again");
    let load = Load::Rate { pps: 2_000.0, duration_ns: 100 * MS };
    let spec = TrialSpec { backward: Some(load), cores, ..TrialSpec::new(&size, &flows, load) };
    let outcome = tester.trial(&spec).expect("a trial");
    let account = &outcome.ledger.account;
    assert_eq!((account.delivered(), account.unexplained()), (account.sent(), 0), "{kind:?} {:?}", outcome.ledger);
}

/// An interface that went down and up has new NAPI threads: they go ahead of others as those before did, in a reset and in the trial after it.
#[test]
fn the_threads_that_a_reset_makes_go_ahead_of_others_too() {
    let ports = TesterSpec::new("packet", "packet").both_ways();
    let Some((mut tester, mut device, cores)) = tester(DutKind::from(XdpForwarder), &ports) else { return };
    let threads = |tester: &Tester| -> Vec<i32> {
        let topology = tester.topology.as_ref().expect("namespaces");
        let hops = [topology.first_hop(), topology.first_hop_back()];
        let of = hops.map(|(namespace, interface)| napi::instances(namespace, interface.index).expect("NAPI"));
        of.iter().flatten().filter_map(|napi| napi.thread).collect()
    };
    let nice = |thread: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).expect("a thread");
        // The 19th field (proc_pid_stat(5)); the name, which is the second, ends with the last parenthesis.
        let behind = stat.rsplit_once(')').expect("a name").1.to_owned();
        behind.split_whitespace().nth(16).expect("nice").parse::<i32>().expect("a number")
    };
    let before = threads(&tester);
    if before.is_empty() || affinity::set_nice(0, -1).is_err() {
        return eprintln!("skipped: no threads of NAPI that may be put ahead");
    }
    device.reset().expect("reset");
    let after = threads(&tester);
    assert!(after.len() == before.len() && after.iter().all(|thread| !before.contains(thread)), "{before:?} {after:?}");
    assert!(after.iter().all(|thread| nice(thread) == -20), "{:?}", after.iter().map(nice).collect::<Vec<_>>());
    let (size, flows) = (fixed_size(64), hundred_flows());
    let load = Load::Rate { pps: 2_000.0, duration_ns: 50 * MS };
    tester.trial(&TrialSpec { backward: Some(load), cores, ..TrialSpec::new(&size, &flows, load) }).expect("a trial");
    let known: Vec<i32> = tester.topology.as_ref().expect("namespaces").mode().threads().to_vec();
    assert!(!known.is_empty() && known.iter().all(|thread| after.contains(thread)), "{known:?} {after:?}");
}

#[test]
fn kernel_devices_come_back_after_a_reset_under_load() {
    [DutKind::from(Router::default()), DutKind::from(Bridge), DutKind::from(XdpForwarder)]
        .into_iter()
        .for_each(comes_back);
}

#[test]
fn open_vswitch_comes_back_after_a_reset_under_load() {
    comes_back(DutKind::from(OpenVswitch(FlowSwitch::default())));
}

#[test]
fn the_plain_router_and_the_direct_path() {
    closes(DutKind::from(Router::default()), None);
    closes(DutKind::from(Direct), None);
}

#[test]
fn rules_of_iptables() {
    rules(FirewallTool::Iptables).into_iter().for_each(|kind| closes(kind, None));
}

#[test]
fn rules_of_nft() {
    rules(FirewallTool::Nft).into_iter().for_each(|kind| closes(kind, None));
}

#[test]
fn the_bridge() {
    closes(DutKind::from(Bridge), None);
}

#[test]
fn the_xdp_forwarder() {
    closes(DutKind::from(XdpForwarder), None);
}

#[test]
fn linerates_switch_comes_back_after_a_reset_under_load() {
    [SwitchPorts::Packet, SwitchPorts::Xdp].map(|ports| DutKind::from(Switch(ports))).into_iter().for_each(comes_back);
}

#[test]
fn linerates_switch() {
    [SwitchPorts::Packet, SwitchPorts::Xdp]
        .map(|ports| DutKind::from(Switch(ports)))
        .into_iter()
        .for_each(|kind| closes(kind, None));
}

#[test]
fn open_vswitch() {
    closes(DutKind::from(OpenVswitch(FlowSwitch::default())), Some("Open vSwitch"));
}
