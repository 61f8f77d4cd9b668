//! The losses of `experiments/ledger-causes.toml` and `ledger-causes-ipv6.toml`: each is provoked, and ends in the row that the file expects.
//!
//! With the kernel's drop reasons nearly all lost packets are in that row, and none is there by an inference. Without, a row is that one, or says that
//! it is an inference.

use super::support;

use std::path::PathBuf;

use linerate_bpf::insn::{Reg::*, action, helper};
use linerate_bpf::programs::drop_reasons::{DropReasons, Ignored};
use linerate_bpf::{Assembler, AttachMode, BpfError, Program, ProgramOptions, XdpLink};
use linerate_experiment::{CellSpec, DutKind, Experiment};
use linerate_ledger::ledger::Ledger;
use linerate_report::Loss;
use linerate_sys::raw::RawSocket;
use linerate_testbed::dut::command::Command;
use linerate_testbed::dut::router::Router;
use linerate_testbed::dut::{self, Path};
use linerate_testbed::dut::{ExpectedLoss, parse};
use linerate_testbed::topology::{Topology, TopologySpec};
use linerate_tester::{DropReasonMode, Load, Phases, Tester, TesterSpec, TrialSpec};
use linerate_testkit::{or_skip, program_or_skip};
use support::scenario::{Scenario, assert_named, in_dut};

/// False, and the test is skipped, if some devices cannot be made: they are firewalls.
fn has_nft() -> bool {
    program_or_skip("nft", std::process::Command::new("nft").arg("--version").output()).is_some()
}

fn experiments() -> [Experiment; 2] {
    ["ledger-causes.toml", "ledger-causes-ipv6.toml"].map(experiment)
}

fn experiment(file: &str) -> Experiment {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "..", "experiments"].iter().collect();
    let text = std::fs::read_to_string(folder.join(file)).expect("the file");
    parse(&text, file).unwrap_or_else(|errors| panic!("{errors}"))
}

/// A trial of a cell at a rate.
fn ledger_of(cell: &CellSpec<'_>, pps: f64, drop_reasons: DropReasonMode) -> Option<Ledger> {
    let path = TopologySpec::default().for_flows(cell.flows);
    let built = or_skip(&cell.dut.name, dut::build(cell.dut, &path))?;
    let Path::Namespaces(topology) = built.path else { panic!("a router") };
    let spec = TesterSpec { drop_reasons, ..TesterSpec::new("packet", "packet") };
    let mut tester = or_skip("no tester", Tester::open(*topology, &spec))?;
    let load = Load::Rate { pps, duration_ns: 200_000_000 };
    let ledger = tester.trial(&TrialSpec::new(&cell.frames(), cell.flows, load)).expect("a trial").ledger;
    drop(built.device);
    Some(ledger)
}

fn expected(cell: &CellSpec<'_>) -> ExpectedLoss {
    let router: &Router = cell.dut.kind.settings().expect("all are routers");
    router.loses.clone().expect("each says what it loses")
}

#[test]
fn each_loss_is_in_its_row_by_the_kernels_word() {
    if !has_nft() {
        return;
    }
    let (experiments, mut wrong) = (experiments(), Vec::new());
    for cell in experiments.iter().flat_map(Experiment::cells) {
        let Some(ledger) = ledger_of(&cell, 5_000.0, DropReasonMode::Always) else { continue };
        let row = expected(&cell);
        eprint!("{}: ", cell.dut.name);
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            assert_named(&ledger, &[(&row.place, &row.cause)]);
            // Packets that still wait for the address of a next hop are in the neighbour table, and in no drop yet.
            let waits = |place: &str| place == "DUT, neighbour table";
            let inferred = ledger.account.lost().iter().any(|loss| loss.is_inferred() && !waits(&loss.place));
            assert!(!inferred || !has_reasons(), "{ledger:#?}");
            assert_eq!(ledger.contradictions, [] as [String; 0]);
        }));
        wrong.extend(
            checked.is_err().then(|| format!("{}: {:#?} {:?}", cell.dut.name, ledger.account.lost(), ledger.unnamed)),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A next hop is given up while the trial goes on: those that waited for it are dropped then, for another reason than those that found no room.
#[test]
fn what_waited_for_a_next_hop_that_is_given_up_is_in_its_row() {
    if !has_reasons() {
        return eprintln!("skipped: the kernel's drop reasons cannot be read");
    }
    let [ipv4, ipv6] = experiments();
    for (mut experiment, name, version) in [(ipv4, "next-hop", 4), (ipv6, "ipv6-next-hop", 6)] {
        let dut = experiment.duts.iter_mut().find(|dut| dut.name == name).expect("a device");
        let mut router = dut.kind.settings::<Router>().expect("a router").clone();
        // Three questions, one in 50 ms.
        router.setup.push(format!("sysctl -qw net.ipv{version}.neigh.lr-out.retrans_time_ms=50"));
        dut.kind = router.into();
        let cells = experiment.cells();
        let cell = cells.iter().find(|cell| cell.dut.name == name).expect("a cell");
        let path = TopologySpec::default().for_flows(cell.flows);
        let Some(built) = or_skip(name, dut::build(cell.dut, &path)) else { return };
        let Path::Namespaces(topology) = built.path else { panic!("a router") };
        let tester = Tester::open(*topology, &TesterSpec::new("packet", "packet"));
        let Some(mut tester) = or_skip("no tester", tester) else { return };
        let load = Load::Rate { pps: 5_000.0, duration_ns: 200_000_000 };
        // Long enough for the last question to be over.
        let phases = Phases { drain_ns: 300_000_000, ..Phases::default() };
        let size = cell.frames();
        let spec = TrialSpec { phases, ..TrialSpec::new(&size, cell.flows, load) };
        let ledger = tester.trial(&spec).expect("a trial").ledger;
        let row = expected(cell);
        let (account, is_meant) = (&ledger.account, |loss: &Loss| loss.place == row.place && loss.cause == row.cause);
        // Where the machine is busy some wait at the end, and are in no drop yet.
        assert!(account.lost().iter().all(is_meant), "{name}: {ledger:#?}");
        assert_eq!((account.delivered(), account.unexplained()), (0, 0), "{name}: {ledger:#?}");
        drop(built.device);
    }
}

/// A program that counts at the receiver's interface leaves the DUT's questions for addresses to the stack, and an AF_XDP port takes them with all
/// else: they hide no loss, in a later trial neither, when the first packet makes the DUT ask at once.
#[test]
fn questions_for_a_next_hop_hide_no_loss_from_a_program_at_the_receiver() {
    let experiment = experiment("ledger-causes.toml");
    let cells = experiment.cells();
    for (name, receiver) in
        [("next-hop", "sink"), ("two-next-hops", "sink"), ("next-hop", "xdp"), ("two-next-hops", "xdp")]
    {
        let cell = cells.iter().find(|cell| cell.dut.name == name).expect("a cell");
        let path = TopologySpec::default().for_flows(cell.flows);
        let Some(built) = or_skip(name, dut::build(cell.dut, &path)) else { return };
        let Path::Namespaces(topology) = built.path else { panic!("a router") };
        let ports = TesterSpec::new("packet", receiver);
        let Some(mut tester) = or_skip("no tester", Tester::open(*topology, &ports)) else { return };
        for _ in 0..3 {
            let load = Load::Rate { pps: 5_000.0, duration_ns: 200_000_000 };
            let ledger = tester.trial(&TrialSpec::new(&cell.frames(), cell.flows, load)).expect("a trial").ledger;
            assert_eq!(ledger.account.unexplained(), 0, "{name}, {receiver}: {ledger:#?}");
        }
        drop(built.device);
    }
}

/// What is lost to each of two next hops that do not answer.
#[test]
fn two_next_hops_have_a_row_each() {
    let experiment = experiment("ledger-causes.toml");
    let cells = experiment.cells();
    let cell = cells.iter().find(|cell| cell.dut.name == "two-next-hops").expect("a cell");
    let Some(ledger) = ledger_of(cell, 5_000.0, DropReasonMode::Always) else { return };
    if !has_reasons() {
        return eprintln!("skipped: the kernel's drop reasons cannot be read");
    }
    let lost = ledger.account.sent() - ledger.account.delivered();
    let to = |address: &str| -> u64 {
        let cause = format!("next hop {address} does not answer");
        ledger.account.lost().iter().filter(|row| row.cause == cause).map(|row| row.packets).sum()
    };
    let [one, other] = ["198.18.1.77", "198.18.1.78"].map(to);
    // Sixteen flows go by hash: each next hop gets some of them, and a flow is a sixteenth.
    assert!(one >= lost / 17 && other >= lost / 17 && one + other >= lost - lost / 100, "{:#?}", ledger.account);
}

/// Above the rate up to which the kernel is asked at once, by counters alone: nothing wrong is called counted.
#[test]
fn without_the_kernels_word_a_row_is_right_or_an_inference() {
    if !has_nft() {
        return;
    }
    let (experiments, mut wrong) = (experiments(), Vec::new());
    for cell in experiments.iter().flat_map(Experiment::cells) {
        let Some(ledger) = ledger_of(&cell, 60_000.0, DropReasonMode::WhenNeeded) else { continue };
        let row = expected(&cell);
        // The totals of IPv6 have one number for routes that are missing and those that prohibit (Ip6InNoRoutes).
        let counted_as = match cell.dut.name.as_str() {
            "ipv6-prohibit" => "no route, or an unreachable or prohibit route",
            _ => &row.cause,
        };
        // A busy machine fills rings and backlogs at this rate.
        let is_right = |place: &str, cause: &str| {
            place.starts_with(&row.place) && cause.contains(counted_as) || cause.contains("ring full")
        };
        let mut counted = ledger.account.lost().iter().filter(|loss| loss.packets > 0 && !loss.is_inferred());
        let stranger = counted.find(|loss| !is_right(&loss.place, &loss.cause));
        wrong.extend(stranger.map(|loss| format!("{}: {loss:#?}", cell.dut.name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn has_reasons() -> bool {
    DropReasons::attach(&[1], &Ignored::default()).is_ok()
}

/// A program for `lr-in`, attached while packets pass. `code` leaves the action in R0.
fn with_program(
    code: impl Fn(&mut Assembler),
    mode: AttachMode,
    prepare: impl Fn(&Topology) -> Result<(), String>,
) -> Option<Ledger> {
    let attach = || -> Result<Program, BpfError> {
        let mut asm = Assembler::new();
        code(&mut asm);
        asm.exit();
        Program::load_xdp("cause", &asm.assemble()?, ProgramOptions::default())
    };
    let scenario = Scenario { rate_pps: Some(5_000.0), duration_ms: 200, ..Scenario::default() };
    let program = or_skip("no program", attach())?;
    let link = std::cell::RefCell::new(None);
    scenario.run(|topology| {
        prepare(topology)?;
        let dut = topology.dut.as_ref().ok_or("no router")?;
        let attached = dut.namespace.run(|| XdpLink::attach(&program, dut.ingress.index, mode));
        let attached = attached.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        link.replace(Some(attached));
        Ok(())
    })
}

fn nothing(_: &Topology) -> Result<(), String> {
    Ok(())
}

#[test]
fn an_xdp_program_that_drops_generic_or_native() {
    for mode in [AttachMode::Generic, AttachMode::Native] {
        let Some(ledger) = with_program(|asm| asm.mov64(R0, action::DROP), mode, nothing) else { return };
        assert_named(&ledger, &[("lr-in", "dropped by the XDP program")]);
    }
}

/// The sender's end of the veth has no NAPI, so it takes no frames of XDP.
#[test]
fn an_xdp_program_that_sends_back_to_an_interface_that_refuses() {
    let Some(ledger) = with_program(|asm| asm.mov64(R0, action::TX), AttachMode::Native, nothing) else { return };
    assert_named(&ledger, &[("lr-in", "sent back by the XDP program (XDP_TX), which the interface refused")]);
}

#[test]
fn an_xdp_program_that_redirects_to_nowhere() {
    let away = |asm: &mut Assembler| {
        asm.mov64(R1, 9_999);
        asm.mov64(R2, 0);
        asm.call(helper::REDIRECT);
    };
    let Some(ledger) = with_program(away, AttachMode::Native, nothing) else { return };
    assert_named(&ledger, &[("lr-in", "redirect by the XDP program failed")]);
}

/// A kernel that routes, set up by a command: its rules and routes are named as a router's are.
#[test]
fn losses_of_the_kernel_behind_a_command_are_named() {
    if !has_nft() {
        return;
    }
    use linerate_experiment::DutSpec;
    for (line, place, cause) in [
        (
            "nft 'table ip lab { chain c { type filter hook forward priority 0; ip ttl > 0 drop; }; }'",
            "DUT, netfilter",
            "nftables chain lab c",
        ),
        ("ip route add unreachable 192.0.2.101/32", "DUT, IPv4 input", "blackhole, unreachable or prohibit route"),
    ] {
        let script = format!(
            "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.{{in}}.rp_filter=0
            ip link set {{in}} address 02:4c:52:00:01:f2; ip addr add 198.18.0.1/24 dev {{in}}; ip addr add 198.18.1.1/24 dev {{out}}
            ip neigh add 198.18.1.2 lladdr 02:4c:52:00:01:f2 dev {{out}}; {line} || exit 1
            ip route add 192.0.2.101/32 via 198.18.1.2; exec sleep 600"
        );
        let start = ["sh", "-c", &script].map(str::to_owned).to_vec();
        let ready = ["sh", "-c", "ip route show 192.0.2.101/32 | grep -q ."].map(str::to_owned).to_vec();
        let kind = DutKind::from(Command { start, ready, ready_ns: 20_000_000_000, ..Command::default() });
        let built = dut::build(&DutSpec { name: "own".into(), kind }, &TopologySpec::default());
        let Some(built) = or_skip("no device", built) else { return };
        let Path::Namespaces(topology) = built.path else { panic!("namespaces") };
        let spec = TesterSpec::new("packet", "packet");
        let Some(mut tester) = or_skip("no tester", Tester::open(*topology, &spec)) else { return };
        let scenario = Scenario { rate_pps: Some(5_000.0), duration_ms: 200, ..Scenario::default() };
        let ledger = scenario.trial(&mut tester);
        assert_named(&ledger, &[(place, cause)]);
        assert_eq!(ledger.contradictions, [] as [String; 0]);
        drop(built.device);
    }
}

/// A device that reads by packet sockets has all that it loses: the kernel's stack drops copies of the same frames, which are nobody's.
#[test]
fn copies_that_the_kernel_drops_beside_packet_sockets_are_nobodys_loss() {
    use linerate_experiment::DutSpec;
    // The frames are for this station, so the stack looks at them: it does not forward.
    let start = ["sh", "-c", "ip link set {in} address 02:4c:52:00:01:f2; exec sleep 600"].map(str::to_owned).to_vec();
    let ready = ["sh", "-c", "ip link show {in} | grep -q 02:4c:52:00:01:f2"].map(str::to_owned).to_vec();
    for reads in [true, false] {
        let command =
            Command { start: start.clone(), ready: ready.clone(), ready_ns: 20_000_000_000, ..Command::default() };
        let kind = DutKind::from(command);
        let built = dut::build(&DutSpec { name: "own".into(), kind }, &TopologySpec::default());
        let Some(built) = or_skip("no device", built) else { return };
        let Path::Namespaces(topology) = built.path else { panic!("namespaces") };
        let device = topology.dut.as_ref().expect("a device");
        let open = || RawSocket::receiver(device.ingress.index, std::time::Duration::from_secs(1));
        let _socket = reads.then(|| device.namespace.run(open).expect("enter").expect("a packet socket"));
        let spec = TesterSpec::new("packet", "packet");
        let Some(mut tester) = or_skip("no tester", Tester::open(*topology, &spec)) else { return };
        let scenario = Scenario { rate_pps: Some(5_000.0), duration_ms: 200, ..Scenario::default() };
        let ledger = scenario.trial(&mut tester);
        let lost = ledger.account.sent() - ledger.account.delivered();
        let kept = |row: &Loss| row.cause == "the device took it in and did not send it on" && row.is_inferred();
        let by_device: u64 = ledger.account.lost().iter().filter(|row| kept(row)).map(|row| row.packets).sum();
        match reads {
            true => assert!(by_device >= lost - lost / 100 && lost > 0, "{ledger:#?}"),
            false if has_reasons() => assert!(by_device <= lost / 100, "the kernel says so: {ledger:#?}"),
            false => {}
        }
        assert_eq!(ledger.contradictions, [] as [String; 0]);
        drop(built.device);
    }
}

/// The neighbour table's counters are the whole machine's: traffic of another namespace to a neighbour that is not there has no part in this.
#[test]
fn a_dead_neighbour_of_another_namespace_is_not_blamed() {
    let drops = "table ip lab { chain c { type filter hook postrouting priority 0; ip ttl > 0 drop; }; }";
    let Some(others) = support::built(Topology::router(&TopologySpec::default())) else { return };
    let dead = |topology: &Topology| in_dut(topology, "ip", &["route", "replace", "192.0.2.101", "via", "198.18.1.77"]);
    let Some(()) = or_skip("not prepared", dead(&others)) else { return };
    let busy = std::thread::spawn(move || {
        let mut tester = Tester::open(others, &TesterSpec::new("packet", "packet")).expect("a tester");
        Scenario { rate_pps: Some(5_000.0), duration_ms: 1_000, ..Scenario::default() }.trial(&mut tester)
    });
    let scenario = Scenario { rate_pps: Some(5_000.0), ..Scenario::default() };
    let ledger = scenario.run(|topology| in_dut(topology, "nft", &[drops]));
    let theirs = busy.join().expect("no panic");
    assert_named(&theirs, &[("DUT, neighbour table", "next hop 198.18.1.77 does not answer")]);
    let Some(ledger) = ledger else { return };
    assert_named(&ledger, &[("DUT, forwarding", "nftables chain lab c")]);
}
