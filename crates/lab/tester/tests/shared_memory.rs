//! Trials on paths of shared memory: through Linerate's own switch, and without a device. The program has to have been built;
//! without it the tests of the switch are skipped.

use super::support;

use linerate_experiment::DutKind;
use linerate_sys::affinity::allowed_cores;
use linerate_testbed::dut::none::Direct;
use linerate_testbed::dut::switch::Switch;
use linerate_testbed::dut::switch_ports::SwitchPorts;
use linerate_testbed::dut::{Built, Device, Path};
use linerate_testbed::switches::SwitchSource;
use linerate_testbed::topology::{LinkKind, MemoryPath, TopologySpec};
use linerate_tester::{Cores, Load, Outcome, Tester, TesterError, TesterSpec, TrialSpec, fixed_size};
use support::scenario::Scenario;

const MS: u64 = 1_000_000;

fn tester(kind: DutKind, mtu: u32) -> Option<(Tester, Box<dyn Device>)> {
    let built = built(kind, mtu)?;
    Some((tester_on(&built), built.device))
}

fn built(kind: DutKind, mtu: u32) -> Option<Built> {
    support::carry::device_on(kind, &TopologySpec { link: LinkKind::Memif, mtu, ..TopologySpec::default() })
}

fn tester_on(built: &Built) -> Tester {
    let Path::Memory(path) = &built.path else { panic!("shared memory") };
    over(path.clone()).unwrap_or_else(|error| panic!("{error}"))
}

fn over(path: Box<MemoryPath>) -> Result<Tester, TesterError> {
    Tester::around(Path::Memory(path), &TesterSpec::new("packet", "packet"))
}

fn trial(tester: &mut Tester, (size, load, both): (u32, Load, bool)) -> Outcome {
    let cores = allowed_cores();
    let cores = Cores { generator: cores.first().copied(), receiver: cores.last().copied(), ..Cores::default() };
    let (size, flows) = (fixed_size(size), Scenario::default().flows());
    let spec = TrialSpec { backward: both.then_some(load), cores, ..TrialSpec::new(&size, &flows, load) };
    tester.trial(&spec).expect("a trial")
}

/// Every packet is accounted for by a counter.
fn balances(outcome: &Outcome) {
    let account = &outcome.ledger.account;
    assert!(account.delivered() > 0, "{outcome:#?}");
    assert_eq!(account.unexplained(), 0, "{outcome:#?}");
    assert!(account.lost().iter().all(|row| row.inferred_from.is_none() && row.hint.is_some()), "{account:#?}");
}

fn loads() -> impl Iterator<Item = (u32, Load, bool)> {
    let loads = [
        Load::Rate { pps: 5_000.0, duration_ns: 100 * MS },
        Load::Full { duration_ns: 100 * MS },
        Load::Burst { packets: 5_000 },
    ];
    loads.into_iter().flat_map(|load| [(64, load, false), (1518, load, true)])
}

#[test]
fn trials_through_the_switch_balance_and_name_what_it_lost() {
    let Some(built) = built(DutKind::from(Switch(SwitchPorts::Memif)), 1500) else { return };
    let mut tester = tester_on(&built);
    let Built { path: Path::Memory(path), mut device } = built else { panic!("shared memory") };
    for load in loads() {
        let outcome = trial(&mut tester, load);
        balances(&outcome);
        let mut lost = outcome.ledger.account.lost().iter();
        assert!(lost.all(|row| row.place.starts_with("switch port") && row.cause == "egress-full"), "{outcome:#?}");
        assert!(outcome.ways.iter().all(|way| way.arrivals.delays.is_some()));
    }
    let counters = device.counters().expect("counters");
    assert!(counters["in received"] > 0 && counters["in sent"] > 0 && counters["out received"] > 0, "{counters:?}");
    let words = tester.describe();
    assert!(words.0.starts_with("memif (") && words.1.starts_with("memif ("), "{words:?}");
    let description = device.describe();
    assert!(description.configuration["command"].contains("FOLDER/in.sock"), "{description:?}");
    // Where its control socket is, and the sockets of its ports.
    let Some(SwitchSource::Control(socket)) = &path.switch else { panic!("a switch") };
    let folder = socket.ancestors().nth(2).expect("a folder").to_owned();
    assert!(folder.exists());
    drop((tester, device));
    assert!(!folder.exists(), "{}", folder.display());
}

#[test]
fn long_packets_pass_shared_memory_whole() {
    let Some((mut tester, _device)) = tester(DutKind::from(Switch(SwitchPorts::Memif)), 9000) else { return };
    let outcome = trial(&mut tester, (9018, Load::Rate { pps: 1_000.0, duration_ns: 100 * MS }, true));
    balances(&outcome);
    assert_eq!(outcome.ledger.account.delivered(), outcome.ledger.account.sent(), "{outcome:#?}");
}

#[test]
fn the_switch_comes_back_after_a_reset_under_load() {
    let Some((mut tester, mut device)) = tester(DutKind::from(Switch(SwitchPorts::Memif)), 1500) else { return };
    let mut was_hit = false;
    // On a busy machine a short trial can be over before the device is reset: longer ones, then.
    for duration_ms in [1_500, 6_000, 20_000] {
        let reset = std::thread::spawn(move || {
            let mut carried = || device.counters().expect("counters").values().sum::<u64>();
            let before = carried();
            support::wait_until(|| carried() > before + 500);
            let done = device.reset();
            (device, done)
        });
        let outcome = trial(&mut tester, (64, Load::Rate { pps: 5_000.0, duration_ns: duration_ms * MS }, false));
        let (back, done) = reset.join().expect("no panic");
        device = back;
        assert!(done.expect("reset").contains("started anew"));
        let account = &outcome.ledger.account;
        assert_eq!(account.unexplained(), 0, "{outcome:#?}");
        was_hit = account.delivered() < account.intended();
        if was_hit {
            break;
        }
    }
    assert!(was_hit, "packets passed it all the time while it was reset");
    device.check().expect("it works again");
    let outcome = trial(&mut tester, (64, Load::Rate { pps: 5_000.0, duration_ns: 100 * MS }, false));
    balances(&outcome);
}

#[test]
fn the_path_without_a_device_loses_nothing() {
    let (mut tester, device) = tester(DutKind::from(Direct), 1500).expect("no program is needed");
    for load in loads() {
        let outcome = trial(&mut tester, load);
        balances(&outcome);
        assert_eq!(outcome.ledger.account.delivered(), outcome.ledger.account.sent(), "{outcome:#?}");
    }
    assert!(device.describe().configuration["link"].contains("memif"));
}

#[test]
fn a_switch_that_nobody_serves_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = MemoryPath::through(folder.path(), SwitchSource::new(folder.path().join("none.ctl")), 0);
    let error = over(Box::new(path)).map(|_| ()).expect_err("nobody is there").to_string();
    assert!(error.contains("nobody came to the other end"), "{error}");
}
