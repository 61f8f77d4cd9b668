//! The lab as an ordinary user: a user namespace, a router in it, an exact ledger.
//!
//! Without the test harness, because a user namespace can be entered only while the process has one thread. Run as root, it
//! starts itself again as user 65534.

mod support;

use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use linerate_experiment::DutKind;
use linerate_ledger::attribution::PortRows;
use linerate_ledger::counters::CounterSources;
use linerate_ledger::ledger::{Ends, Ledger, close};
use linerate_report::Counted;
use linerate_sys::capability::{Capabilities, Capability};
use linerate_sys::{netns, userns};
use linerate_testbed::dut;
use linerate_testbed::dut::bridge::Bridge;
use linerate_testbed::dut::flow_table::FlowSwitch;
use linerate_testbed::dut::ovs::OpenVswitch;
use linerate_testbed::dut::router::{FirewallTool, Router};
use linerate_testbed::dut::xdp::XdpForwarder;
use linerate_testbed::placement::{Mode, Placement};
use linerate_testbed::topology::{Topology, TopologySpec};
use linerate_testkit::{may_skip, or_skip};
use support::carry::{Direction, carry_some, named};
use support::{Datagram, RawSocket};

const CHILD: &str = "LINERATE_TEST_ORDINARY_USER";
const PACKETS: u64 = 60;

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    if std::env::var_os(CHILD).is_some() {
        return match userns::enter() {
            Ok(entered) => in_user_namespace(&entered),
            Err(error) => {
                assert!(may_skip(&error), "{error}");
                eprintln!("skipped: {error}");
                ExitCode::SUCCESS
            }
        };
    }
    let mut again = Command::new("/proc/self/exe");
    again.env(CHILD, "1");
    let root = Capabilities::read().is_ok_and(|held| held.has(Capability::SysAdmin));
    if root {
        again.uid(65534).gid(65534);
    }
    match again.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => {
            eprintln!("the run as an ordinary user failed: {status}");
            ExitCode::FAILURE
        }
        Err(error) => {
            assert!(may_skip(&error), "cannot start as an ordinary user: {error}");
            eprintln!("skipped: cannot start as an ordinary user: {error}");
            ExitCode::SUCCESS
        }
    }
}

fn in_user_namespace(entered: &userns::UserNs) -> ExitCode {
    let held = Capabilities::read().expect("capabilities");
    assert!(held.has(Capability::NetAdmin) && !held.has_for_host(Capability::NetAdmin), "{held}");
    assert!(netns::NetNs::create_named("linerate-not-allowed").is_err(), "no names for ordinary users");
    let core = linerate_sys::affinity::allowed_cores().last().copied();
    for placement in [Placement::SenderContext, Placement::Thread { core }] {
        let spec = TopologySpec { placement, ..TopologySpec::default() };
        let Some(topology) = or_skip("no topology", Topology::router(&spec)) else { return ExitCode::SUCCESS };
        match (placement, topology.mode(), &entered.sysfs_error) {
            (Placement::SenderContext, Mode::SenderContext { why: None }, _) => {}
            (Placement::Thread { .. }, Mode::Floating { why: Some(why), .. }, _) => {
                assert!(why.contains("root"), "{why}")
            }
            (Placement::Thread { .. }, Mode::SenderContext { why: Some(_) }, Some(error)) => {
                eprintln!("skipped in part: no sysfs: {error}");
            }
            (_, mode, _) => panic!("{mode:?}"),
        }
        eprintln!("as an ordinary user, the DUT runs {}", topology.mode());
        let delivered = trial(&topology, Datagram::default());
        assert_eq!((delivered.account.delivered(), delivered.account.unexplained()), (PACKETS, 0), "{delivered:?}");
        let unrouted = Datagram { destination: Ipv4Addr::new(203, 0, 113, 9), ..Datagram::default() };
        let lost = trial(&topology, unrouted);
        assert_eq!((lost.account.lost_total(), lost.account.unexplained()), (PACKETS, 0), "{lost:?}");
        assert_eq!(lost.account.lost()[0].cause, "no route");
    }
    devices();
    ExitCode::SUCCESS
}

/// Devices that need nothing of the host work here too; one that does says what it lacks.
fn devices() {
    let rules =
        |tool| DutKind::from(Router { tool: Some(tool), rules: 10, conntrack: true, snat: true, ..Router::default() });
    for kind in [
        rules(FirewallTool::Nft),
        rules(FirewallTool::Iptables),
        DutKind::from(Bridge),
        DutKind::from(OpenVswitch(FlowSwitch::default())),
    ] {
        match dut::build(&named(kind.clone()), &TopologySpec::default()) {
            Err(error) => {
                assert!(may_skip(&error), "{kind:?}: {error}");
                eprintln!("skipped in part: {kind:?}: {error}");
            }
            Ok(mut built) => {
                carry_some(&mut built, Direction::Forward, support::carry::PACKETS).all_delivered();
                carry_some(&mut built, Direction::Backward, support::carry::PACKETS).all_delivered();
                eprintln!("as an ordinary user: {}", built.device.describe().name);
            }
        }
    }
    let refused = dut::build(&named(DutKind::from(XdpForwarder)), &TopologySpec::default());
    let error = refused.err().expect("programs need rights on the host").to_string();
    assert!(error.contains("XDP forwarder") && error.contains("run as root"), "{error}");
}

fn trial(topology: &Topology, datagram: Datagram) -> Ledger {
    let generator = RawSocket::sender(&topology.generator);
    let receiver = RawSocket::open_with(&topology.receiver, Duration::from_millis(100));
    let mut sources = CounterSources::open(topology).expect("counters");
    let blind_spot = sources.blind_spot().expect("drop reasons are root's");
    assert!(blind_spot.contains("user namespace") && blind_spot.contains("root"), "{blind_spot}");
    let before = sources.snapshot().expect("snapshot");
    let frame = datagram.frame(topology);
    for _ in 0..PACKETS {
        generator.send(&frame).expect("send");
    }
    let rest = sources.snapshot_at_rest(Duration::from_millis(50), Duration::from_secs(60));
    let (after, _) = rest.expect("snapshot");
    let delivered = receiver.drain().len() as u64;
    let counted = Counted { intended: PACKETS, sent: PACKETS, delivered, ..Counted::default() };
    close(&Ends { counted, received: delivered }, Some(&after.since(&before)), &PortRows::default()).expect("balances")
}
