//! Losses that come of a setting of the whole machine, or of a core that others have. They have a test binary of their own, since `cargo test` runs one binary
//! at a time, and run one after the other in it: under such a setting any other trial would lose packets too.

mod support;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use linerate_experiment::DutKind;
use linerate_ledger::counters::CounterSources;
use linerate_sys::affinity;
use linerate_testbed::dut::router::Router;
use linerate_testbed::dut::xdp::XdpForwarder;
use linerate_testbed::dut::{Built, Path};
use linerate_testbed::topology::{Topology, TopologySpec};
use linerate_tester::tcp::{Ends, SessionLoad, SessionSpec, run_sessions};
use linerate_tester::{Cores, Load, Phases, Tester, TesterSpec, TrialSpec, fixed_size};
use linerate_testkit::or_skip;
use support::built;
use support::scenario::{MachineSetting, Scenario, assert_named, in_dut};

static ALONE: Mutex<()> = Mutex::new(());

/// The NAPI thread of the device's core cannot run when the load ends: what waits in its ring is in no counter of the kernel, and is waited for.
#[test]
fn packets_in_a_ring_whose_thread_waits_for_its_core_are_waited_for() {
    let _alone = ALONE.lock();
    for kind in [DutKind::from(XdpForwarder), DutKind::from(Router::default())] {
        let ports = TesterSpec::new("packet", "packet").both_ways();
        let Some(Built { path, mut device }) = support::carry::device_on(kind.clone(), &support::threaded()) else {
            return;
        };
        let Path::Namespaces(topology) = path else { panic!("namespaces") };
        let Some((mut tester, cores)) = support::placed(*topology, &ports) else { return };
        let (Some(dut), true) = (cores.dut, cores.dut != cores.generator) else {
            return eprintln!("skipped: two cores are needed");
        };
        let (size, flows) = (fixed_size(64), support::hundred_flows());
        // Fewer packets than a ring holds.
        let load = Load::Rate { pps: 1_000.0, duration_ns: 100_000_000 };
        let spec = TrialSpec { backward: Some(load), cores, ..TrialSpec::new(&size, &flows, load) };
        let busy = std::thread::spawn(move || {
            let mut carried = || device.counters().expect("counters").values().sum::<u64>();
            let before = carried();
            support::wait_until(|| carried() > before + 8);
            affinity::pin_to_core(dut).expect("pinned");
            let is_ahead = affinity::set_fifo(0, 50);
            let end = Instant::now() + Duration::from_millis(400);
            while is_ahead.is_ok() && Instant::now() < end {}
            // With its programs, which packets in the ring still have to meet.
            (device, is_ahead)
        });
        let outcome = tester.trial(&spec).expect("a trial");
        let (_device, is_ahead) = busy.join().expect("no panic");
        if let Err(error) = is_ahead {
            return eprintln!("skipped: no thread of the real-time class: {error}");
        }
        let account = &outcome.ledger.account;
        assert_eq!((account.delivered(), account.unexplained()), (account.sent(), 0), "{kind:?} {:?}", outcome.ledger);
    }
}

/// The receiving thread of a link inside this process cannot run while the load is sent: the device's links fill up, and all that was sent is waited
/// for.
#[test]
fn packets_of_a_link_whose_receiver_waits_for_its_core_are_waited_for() {
    let _alone = ALONE.lock();
    let cores = affinity::allowed_cores();
    let [generator, .., receiver] = cores[..] else { return eprintln!("skipped: two cores are needed") };
    let mut tester = Tester::in_process_with_wire().expect("memory");
    let (size, flows) = (fixed_size(64), support::hundred_flows());
    // More packets than both links hold.
    let load = Load::Rate { pps: 50_000.0, duration_ns: 50_000_000 };
    let cores =
        Cores { generator: Some(generator), dut: Some(generator), receiver: Some(receiver), ..Cores::default() };
    let spec = TrialSpec { cores, ..TrialSpec::new(&size, &flows, load) };
    let (ready, is_ready) = std::sync::mpsc::channel();
    let busy = std::thread::spawn(move || {
        affinity::pin_to_core(receiver).expect("pinned");
        let is_ahead = affinity::set_fifo(0, 50);
        ready.send(()).expect("somebody waits");
        let end = Instant::now() + Duration::from_millis(400);
        while is_ahead.is_ok() && Instant::now() < end {}
        is_ahead
    });
    is_ready.recv().expect("it tells");
    let outcome = tester.trial(&spec).expect("a trial");
    if let Err(error) = busy.join().expect("no panic") {
        return eprintln!("skipped: no thread of the real-time class: {error}");
    }
    let account = &outcome.ledger.account;
    assert_eq!((account.delivered(), account.unexplained()), (account.sent(), 0), "{:?}", outcome.ledger);
}

#[test]
fn connection_tracking_table_of_1000() {
    let _alone = ALONE.lock();
    let _setting = match MachineSetting::change("/proc/sys/net/netfilter/nf_conntrack_max", "1000") {
        Ok(setting) => setting,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let rules = "table ip lab { chain c { type filter hook forward priority 0; ct state new accept; }; }";
    let scenario = Scenario { flows: 20_000, ..Scenario::default() };
    let Some(ledger) = scenario.run(|topology| in_dut(topology, "nft", &[rules])) else { return };
    assert_named(&ledger, &[("DUT, IPv4 input", "connection tracking table full")]);
}

#[test]
fn connections_that_a_table_of_200_has_no_room_for_are_named_in_both_accounts() {
    let _alone = ALONE.lock();
    let _setting = match MachineSetting::change("/proc/sys/net/netfilter/nf_conntrack_max", "200") {
        Ok(setting) => setting,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
    let rules = "table ip lab { chain c { type filter hook forward priority 0; ct state new accept; }; }";
    let Some(()) = or_skip("no rule", in_dut(&topology, "nft", &[rules])) else { return };
    let path = Path::Namespaces(Box::new(topology));
    let Some(mut ends) = or_skip("no ports", Ends::open(&path, "packet", 1500)) else { return };
    let mut sources = CounterSources::open(path.topology().expect("namespaces")).expect("counters");
    let flows = Scenario::default().flows();
    let spec = SessionSpec {
        load: SessionLoad::Concurrent(400),
        duration_ns: 1_000_000_000,
        bytes: 1,
        timeout_ns: 1_000_000_000,
        flows: &flows,
        cores: Cores::default(),
        phases: Phases { drain_ns: 20_000_000, drain_max_ns: 60_000_000_000, ..Phases::default() },
    };
    let outcome = run_sessions(&mut ends, Some(&mut sources), None, &spec, &mut || Ok(())).expect("a trial");
    let connections = &outcome.point.connections;
    assert!(connections.intended() >= 400 && !connections.is_whole(), "{outcome:?}");
    assert!(connections.lost().iter().any(|loss| loss.cause == "timed out"), "{outcome:?}");
    assert_eq!((connections.unexplained(), outcome.point.requests.unexplained()), (0, 0), "{outcome:?}");
    assert_named(&outcome.ledger, &[("DUT, IPv4 input", "connection tracking table full")]);
}

#[test]
fn backlog_of_100() {
    let _alone = ALONE.lock();
    let _setting = match MachineSetting::change("/proc/sys/net/core/netdev_max_backlog", "100") {
        Ok(setting) => setting,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let cores = linerate_sys::affinity::allowed_cores();
    let (Some(here), Some(there)) = (cores.first().copied(), cores.last().copied().filter(|core| *core < 32)) else {
        return eprintln!("skipped: no cores to steer packets to");
    };
    let steer = |topology: &Topology| {
        let dut = topology.dut.as_ref().ok_or("no router")?;
        let mask = format!("{:x}", 1_u32 << there);
        let to_core = || std::fs::write("/sys/class/net/lr-in/queues/rx-0/rps_cpus", mask);
        let steered = dut.namespace.run_with_sysfs(to_core).and_then(|result| result);
        steered.map_err(|error| format!("no RPS: {error}"))?;
        // So many rules that the core cannot keep up with the sender.
        let rules = "meta mark 1 drop; ".repeat(2_000);
        let chain = format!("table ip lab {{ chain c {{ type filter hook prerouting priority 0; {rules} }}; }}");
        in_dut(topology, "nft", &[&chain])
    };
    let cores = Cores { generator: Some(here), ..Cores::default() };
    let scenario = Scenario { rate_pps: None, cores, receiver: "sink", ..Scenario::default() };
    let Some(ledger) = scenario.run(steer) else { return };
    if ledger.account.lost_total() == 0 {
        return eprintln!("skipped: the cores emptied their backlogs in time");
    }
    assert_named(&ledger, &[("receive backlog of a core", "backlog full")]);
}
