//! Losses in Linerate's own switch, provoked one by one: each has a row by port and reason, read from the switch's counters. The
//! program has to have been built; without it the tests are skipped.

use super::support;

use std::process::Command;
use std::time::Duration;

use linerate_experiment::DutKind;
use linerate_ledger::attribution::PortRows;
use linerate_ledger::ledger::{Ends, Ledger, close_over_memory};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, OpenOptions, Port, PortSpec, Readiness};
use linerate_report::Counted;
use linerate_testbed::dut::flow_table::FlowSwitch;
use linerate_testbed::dut::ofswitch::OfSwitch;
use linerate_testbed::dut::switch::Switch;
use linerate_testbed::dut::switch_ports::SwitchPorts;
use linerate_testbed::dut::{Built, Path};
use linerate_testbed::netlink::Netlink;
use linerate_testbed::switches::SwitchSource;
use linerate_testbed::topology::{Forwarding, FrameAddresses};
use linerate_tester::{Load, TesterSpec, TrialSpec, fixed_size};
use support::carry::{Carried, PACKETS, carry_frame, device};
use support::scenario::{Scenario, assert_named};
use support::{Datagram, wait_until};

const LONG: Duration = Duration::from_secs(20);

fn with_interfaces() -> Option<Built> {
    device(DutKind::from(Switch(SwitchPorts::Packet)))
}

/// All packets are in this one row, which a counter says.
fn all_at(carried: &Carried, place: &str, reason: &str) {
    let account = &carried.ledger.account;
    let [row] = account.lost() else { panic!("one row: {:#?}", carried.ledger) };
    assert_eq!(
        (row.place.as_str(), row.cause.as_str(), row.packets),
        (place, reason, PACKETS),
        "{:#?}",
        carried.ledger
    );
    assert!(row.inferred_from.is_none() && row.counter.is_some() && row.hint.is_some(), "{row:?}");
    assert_eq!((account.delivered(), account.unexplained()), (0, 0), "{:#?}", carried.ledger);
}

#[test]
fn frames_that_the_switch_sends_nowhere() {
    let Some(mut built) = with_interfaces() else { return };
    let link = built.path.topology().expect("namespaces").forward();
    for (addresses, reason) in [
        (FrameAddresses { destination: link.source, ..link }, "hairpin"),
        (FrameAddresses { source: [3, 0, 0, 0, 0, 1], ..link }, "multicast-source"),
        (FrameAddresses { destination: [0x01, 0x80, 0xc2, 0, 0, 0x0e], ..link }, "link-local"),
    ] {
        all_at(&carry_frame(&mut built, &Datagram::default().frame_to(addresses)), "switch port in", reason);
    }
    let whole = carry_frame(&mut built, &Datagram::default().frame_to(link));
    assert_eq!(
        (whole.ledger.account.delivered(), whole.ledger.account.lost_total()),
        (PACKETS, 0),
        "{:?}",
        whole.ledger
    );
}

#[test]
fn frames_that_are_too_long_for_the_way_out() {
    let Some(mut built) = with_interfaces() else { return };
    let topology = built.path.topology().expect("namespaces");
    let dut = topology.dut.as_ref().expect("a switch");
    Netlink::open_in(&dut.namespace).and_then(|mut link| link.set_mtu(dut.egress.index, 600)).expect("an MTU");
    let frame = Datagram { payload_len: 1_000, ..Datagram::default() }.frame_to(topology.forward());
    all_at(&carry_frame(&mut built, &frame), "switch port out", "too-long");
}

/// It is kept from its core for as long as it takes to fill the ring of its socket.
#[test]
fn a_switch_that_stands_still() {
    let Some(built) = with_interfaces() else { return };
    let Path::Namespaces(topology) = built.path else { panic!("namespaces") };
    let mut device = built.device;
    device.learn().expect("learning frames");
    let dut = topology.dut.as_ref().expect("a switch").try_clone().expect("a handle");
    let Some(mut tester) = support::opened(*topology, &TesterSpec::new("packet", "packet")) else { return };
    let process = process_of(&dut.forwarding).expect("its process");
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &process]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill {name}");
    };
    let arrived = || {
        let mut netlink = Netlink::open_in(&dut.namespace).expect("netlink");
        netlink.link_statistics(dut.ingress.index).expect("counters").counters.rx_packets
    };
    let (size, flows) = (fixed_size(1518), Scenario::default().flows());
    // On a busy machine a short load can be over before the switch is stopped: longer ones, then.
    let mut trials = [500, 2_000, 6_000].into_iter().map(|duration_ms| {
        let load = Load::Full { duration_ns: duration_ms * 1_000_000 };
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                let before = arrived();
                wait_until(|| arrived() > before + 100);
                signal("-STOP");
                let before = arrived();
                // More than any ring holds; or the load is over.
                wait_until(|| arrived() > before + 30_000);
                signal("-CONT");
            });
            tester.trial(&TrialSpec::new(&size, &flows, load))
        });
        outcome.expect("a trial").ledger
    });
    let in_ring = |ledger: &Ledger| ledger.account.lost().iter().any(|row| row.place == "AF_PACKET ring of lr-in");
    let Some(ledger) = trials.find(in_ring) else {
        return eprintln!("skipped: the machine was too busy to fill a ring");
    };
    assert_named(&ledger, &[("AF_PACKET ring of lr-in", "ring full"), ("AF_PACKET ring of lr-recv", "ring full")]);
    assert!(ledger.account.lost().iter().all(|row| row.inferred_from.is_none()), "{ledger:#?}");
    assert_eq!(ledger.account.unexplained(), 0, "{ledger:#?}");
}

/// The number of the process of a switch, by its folder; tests beside this one have switches of their own.
fn process_of(forwarding: &Forwarding) -> Option<String> {
    let Some(SwitchSource::Control(socket)) = &forwarding.switch else { return None };
    let folder = format!("XDG_RUNTIME_DIR={}", socket.parent()?.parent()?.display());
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = entries.filter_map(|entry| entry.file_name().into_string().ok());
    numbers.find(|number| {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{number}/{file}")).unwrap_or_default();
        read("cmdline").contains("linerate\0switch\0") && read("environ").split('\0').any(|word| word == folder)
    })
}

/// Memory shared with a switch behind which nobody takes packets: its ring and its queue fill up, and the rest is named.
#[test]
fn a_receiver_that_stands_still_behind_shared_memory() {
    stands_still(DutKind::from(Switch(SwitchPorts::Memif)), &[("switch port out", "egress-full")]);
    // Which port a packet would have left by is not in an OpenFlow switch's drops.
    let switch = FlowSwitch { ports: SwitchPorts::Memif, entries: 10 };
    stands_still(DutKind::from(OfSwitch(switch)), &[("OpenFlow switch", "egress-full"), ("OpenFlow switch", "stuck")]);
}

fn stands_still(kind: DutKind, rows: &[(&str, &str)]) {
    const SENT: u64 = 20_000;
    let Some(built) = device(kind) else { return };
    let Path::Memory(path) = &built.path else { panic!("shared memory") };
    let mut pool = Pool::new(PoolConfig::default()).expect("a pool");
    let both = OpenOptions::default();
    let open = |spec: &PortSpec| match linerate_ports::open_device(spec, &both, &pool) {
        Ok(opened) => opened.into_port(),
        Err(error) => panic!("{error}"),
    };
    let (mut sender, mut receiver) = (open(&path.ends[0].sends), open(&path.ends[1].receives));
    let mut back = open(&path.ends[1].sends);
    for port in [&mut sender, &mut back] {
        assert_eq!(port.wait(Interest::Transmit, LONG.as_nanos() as u64).expect("a port"), Readiness::Ready);
    }
    // It lays out its buffers, and stands still from then on.
    assert_eq!(take_all(receiver.as_mut(), &pool), 0);
    let source = path.switch.clone().expect("a switch");
    let (before, _) = source.read_at_rest(Duration::from_millis(50), LONG).expect("its account");
    let frame = Datagram::default().frame_to(linerate_testbed::topology::MemoryPath::forward());
    let mut left = SENT;
    let mut batch = Batch::new(&pool, 64);
    while left > 0 {
        if batch.is_empty() {
            let count = pool.alloc(&mut batch, left.min(64) as usize, frame.len());
            batch.iter_mut().take(count).for_each(|packet| packet.copy_from_slice(&frame));
        }
        left -= sender.transmit(&mut batch).expect("sent") as u64;
    }
    let (after, at_rest) = source.read_at_rest(Duration::from_millis(50), LONG).expect("its account");
    assert!(at_rest, "what waits is thrown away after a second: {after:?}");
    let delivered = take_all(receiver.as_mut(), &pool);
    let counted = Counted { intended: SENT, sent: SENT, delivered, ..Counted::default() };
    let ends = Ends { counted, received: delivered };
    let ledger = close_over_memory((&ends, &PortRows::default()), None, &after.since(&before)).expect("balances");
    named_by_the_switch(&ledger, rows);
    assert!((1..SENT / 2).contains(&delivered), "a ring full: {ledger:#?}");
}

fn named_by_the_switch(ledger: &Ledger, rows: &[(&str, &str)]) {
    assert_named(ledger, rows);
    assert!(ledger.account.lost().iter().all(|row| row.inferred_from.is_none()), "{ledger:#?}");
    assert_eq!(ledger.account.unexplained(), 0, "{ledger:#?}");
}

fn take_all(port: &mut dyn Port, pool: &Pool) -> u64 {
    let (mut pool, mut batch, mut taken) = (pool.clone(), Batch::new(pool, 256), 0);
    loop {
        match port.receive(&mut batch).expect("received") {
            0 => return taken,
            count => taken += count as u64,
        }
        pool.free(&mut batch);
    }
}
