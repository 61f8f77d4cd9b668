//! Losses provoked one by one in real namespaces: each has its row, exact to the packet, and nothing is left unexplained.

use super::support;

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use linerate_bpf::asm::Assembler;
use linerate_bpf::insn::{Reg, helper};
use linerate_bpf::link::{AttachMode, XdpLink};
use linerate_bpf::program::{Program, ProgramOptions};
use linerate_bpf::programs::drop_count::DropCount;
use linerate_bpf::run::LiveRun;
use linerate_ledger::attribution::PortRows;
use linerate_ledger::counters::CounterSources;
use linerate_ledger::ledger::{Ends, Ledger, close};
use linerate_report::{Counted, Loss};
use linerate_testbed::netlink::{Netlink, Route};
use linerate_testbed::placement::Placement;
use linerate_testbed::topology::{Dut, Topology, TopologySpec};
use linerate_testkit::or_skip;
use support::{Datagram, RawSocket, built};

const PACKETS: u64 = 60;

/// Sends `PACKETS` copies of one datagram over a fresh router on which `prepare` was done.
fn provoke(prepare: impl FnOnce(&Topology), datagram: Datagram) -> Option<Ledger> {
    let topology = built(Topology::router(&TopologySpec::default()))?;
    prepare(&topology);
    let frame = datagram.frame(&topology);
    Some(trial(&topology, &vec![frame; PACKETS as usize]))
}

fn trial(topology: &Topology, frames: &[Vec<u8>]) -> Ledger {
    trial_with(topology, frames, CounterSources::open(topology).expect("counters"))
}

fn trial_with(topology: &Topology, frames: &[Vec<u8>], mut sources: CounterSources) -> Ledger {
    let generator = RawSocket::sender(&topology.generator);
    let receiver = RawSocket::open_with(&topology.receiver, Duration::from_millis(100));
    let before = sources.snapshot().expect("snapshot");
    for frame in frames {
        // Taken over for good, whether the interface refuses it or not.
        let _ = generator.send(frame);
    }
    let rest = sources.snapshot_at_rest(Duration::from_millis(50), Duration::from_secs(60));
    let (after, at_rest) = rest.expect("snapshot");
    assert!(at_rest, "the path came to rest");
    let received = receiver.drain();
    let delivered = received.iter().filter(|frame| is_test_packet(frame)).count() as u64;
    let sent = frames.len() as u64;
    let counted = Counted { intended: sent, sent, delivered, ..Counted::default() };
    let ends = Ends { counted, received: received.len() as u64 };
    let receiver = vec![Loss::new("receiving socket", "buffer full", receiver.drops())];
    let ports = PortRows { receiver, ..PortRows::default() };
    close(&ends, Some(&after.since(&before)), &ports).expect("balances")
}

fn is_test_packet(frame: &[u8]) -> bool {
    frame.len() >= 42 && frame[12..14] == [0x08, 0x00] && frame[23] == 17 && frame[34..38] == [0x04, 0xd2, 0x04, 0xd2]
}

/// All packets are in one row, at this place and with a cause that has these words.
fn assert_one_row(ledger: &Ledger, place: &str, cause: &str) {
    let account = &ledger.account;
    assert_eq!((account.delivered(), account.unexplained()), (0, 0), "{ledger:?}");
    let [row] = account.lost() else { panic!("one row: {ledger:?}") };
    assert_eq!((row.place.as_str(), row.packets), (place, PACKETS), "{ledger:?}");
    assert!(row.cause.contains(cause), "{ledger:?}");
    assert_eq!(ledger.unnamed, []);
}

fn dut(topology: &Topology) -> (&Dut, Netlink) {
    let dut = topology.dut.as_ref().expect("router");
    (dut, Netlink::open_in(&dut.namespace).expect("netlink"))
}

#[test]
fn a_plain_router_loses_nothing() {
    let Some(ledger) = provoke(|_| (), Datagram::default()) else { return };
    assert_eq!((ledger.account.delivered(), ledger.account.unexplained()), (PACKETS, 0), "{ledger:?}");
    assert_eq!((ledger.account.lost().len(), ledger.unnamed.len()), (0, 0), "{ledger:?}");
}

#[test]
fn no_route() {
    let datagram = Datagram { destination: Ipv4Addr::new(203, 0, 113, 9), ..Datagram::default() };
    let Some(ledger) = provoke(|_| (), datagram) else { return };
    assert_one_row(&ledger, "DUT, IPv4 input", "no route");
}

#[test]
fn ttl_expired() {
    let Some(ledger) = provoke(|_| (), Datagram { ttl: 1, ..Datagram::default() }) else { return };
    assert_one_row(&ledger, "DUT, IPv4 input", "TTL expired");
}

#[test]
fn wrong_checksum() {
    let Some(ledger) = provoke(|_| (), Datagram { broken_checksum: true, ..Datagram::default() }) else { return };
    assert_one_row(&ledger, "DUT, IPv4 input", "checksum");
}

#[test]
fn addressed_to_the_dut_itself() {
    let datagram = Datagram { destination: Ipv4Addr::new(198, 18, 0, 1), ..Datagram::default() };
    let Some(ledger) = provoke(|_| (), datagram) else { return };
    assert_one_row(&ledger, "DUT, IPv4 input", "own stack");
}

#[test]
fn a_next_hop_that_does_not_answer() {
    let add_route = |topology: &Topology| {
        let (dut, mut netlink) = dut(topology);
        let route = Route {
            network: Ipv4Addr::new(203, 0, 113, 0).into(),
            prefix_len: 24,
            gateway: Ipv4Addr::new(198, 18, 1, 77).into(),
            interface: dut.egress.index,
        };
        netlink.add_route(route).expect("route");
    };
    let datagram = Datagram { destination: Ipv4Addr::new(203, 0, 113, 9), ..Datagram::default() };
    let Some(ledger) = provoke(add_route, datagram) else { return };
    assert_one_row(&ledger, "DUT, neighbour table", "198.18.1.77 does not answer");
}

#[test]
fn longer_than_the_way_out_and_not_to_be_fragmented() {
    let shrink = |topology: &Topology| {
        let (dut, mut netlink) = dut(topology);
        netlink.set_mtu(dut.egress.index, 600).expect("mtu");
    };
    let datagram = Datagram { payload_len: 1000, dont_fragment: true, ..Datagram::default() };
    let Some(ledger) = provoke(shrink, datagram) else { return };
    assert_one_row(&ledger, "DUT, forwarding", "MTU of its route or of the interface");
}

#[test]
fn longer_than_the_way_in() {
    let shrink = |topology: &Topology| {
        let (dut, mut netlink) = dut(topology);
        netlink.set_mtu(dut.ingress.index, 600).expect("mtu");
    };
    let Some(ledger) = provoke(shrink, Datagram { payload_len: 1000, ..Datagram::default() }) else { return };
    assert_one_row(&ledger, "lr-in", "MTU of lr-in");
}

#[test]
fn longer_than_the_receiver_takes() {
    let shrink = |topology: &Topology| {
        let mut netlink = Netlink::open_in(&topology.receiver.namespace).expect("netlink");
        netlink.set_mtu(topology.receiver.interface.index, 600).expect("mtu");
    };
    let Some(ledger) = provoke(shrink, Datagram { payload_len: 1000, ..Datagram::default() }) else { return };
    assert_one_row(&ledger, "lr-recv", "MTU of lr-recv");
}

#[test]
fn egress_down() {
    let down = |topology: &Topology| {
        let (dut, mut netlink) = dut(topology);
        netlink.set_up(dut.egress.index, false).expect("down");
    };
    let Some(ledger) = provoke(down, Datagram::default()) else { return };
    // Its routes went with it.
    assert_one_row(&ledger, "DUT, IPv4 input", "no route");
}

#[test]
fn receiver_down() {
    let down = |topology: &Topology| {
        let mut netlink = Netlink::open_in(&topology.receiver.namespace).expect("netlink");
        netlink.set_up(topology.receiver.interface.index, false).expect("down");
    };
    let Some(ledger) = provoke(down, Datagram::default()) else { return };
    assert_one_row(&ledger, "lr-out", "lr-recv is down");
}

#[test]
fn another_stations_mac_address() {
    let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
    let mut frame = Datagram::default().frame(&topology);
    frame[5] ^= 0x40;
    let ledger = trial(&topology, &vec![frame; PACKETS as usize]);
    assert_one_row(&ledger, "lr-in", "MAC address");
}

#[test]
fn an_ethertype_that_nobody_takes() {
    let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
    let mut frame = Datagram::default().frame(&topology);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    let ledger = trial(&topology, &vec![frame; PACKETS as usize]);
    assert_one_row(&ledger, "lr-in", "EtherType");
}

#[test]
fn an_xdp_program_on_the_way_in() {
    let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
    let (dut, _) = dut(&topology);
    let Some(program) = or_skip("no XDP program", DropCount::load(false)) else { return };
    let attach = || XdpLink::attach(program.program(), dut.ingress.index, AttachMode::Native);
    let _link = dut.namespace.run(attach).expect("enter").expect("attach");
    let frame = Datagram::default().frame(&topology);
    let ledger = trial(&topology, &vec![frame; PACKETS as usize]);
    assert_one_row(&ledger, "lr-in", "XDP program");
}

#[test]
fn an_nftables_rule_without_a_counter() {
    for (hook, place) in
        [("prerouting", "DUT, IPv4 input"), ("forward", "DUT, forwarding"), ("postrouting", "DUT, forwarding")]
    {
        let rules =
            format!("table ip lab {{ chain c {{ type filter hook {hook} priority 0; ip daddr 192.0.2.101 drop; }}; }}");
        let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
        let (dut, _) = dut(&topology);
        let applied = dut.namespace.run(|| Command::new("nft").arg(&rules).status()).expect("enter");
        if !support::applied("nft", applied) {
            return;
        }
        let frame = Datagram::default().frame(&topology);
        let ledger = trial(&topology, &vec![frame; PACKETS as usize]);
        assert_one_row(&ledger, place, "nftables chain lab c");
    }
}

#[test]
fn a_blackhole_route_has_no_counter_and_still_its_place() {
    let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
    let (dut, _) = dut(&topology);
    let arguments = ["route", "add", "blackhole", "203.0.113.0/24"];
    let applied = dut.namespace.run(|| Command::new("ip").args(arguments).status()).expect("enter");
    if !support::applied("ip", applied) {
        return;
    }
    let datagram = Datagram { destination: Ipv4Addr::new(203, 0, 113, 9), ..Datagram::default() };
    let ledger = trial(&topology, &vec![datagram.frame(&topology); PACKETS as usize]);
    assert_one_row(&ledger, "DUT, IPv4 input", "blackhole");
}

/// No counter moves: its place is known by the totals, its cause only where the kernel may be asked.
#[test]
fn a_martian_source_is_located_by_counters_and_named_by_the_kernels_reason() {
    let Some(topology) = built(Topology::router(&TopologySpec::default())) else { return };
    let datagram = Datagram { source: Ipv4Addr::LOCALHOST, ..Datagram::default() };
    let frames = vec![datagram.frame(&topology); PACKETS as usize];
    let without = CounterSources::without_drop_reasons(&topology).expect("counters");
    let ledger = trial_with(&topology, &frames, without);
    assert_eq!(ledger.account.unexplained(), PACKETS as i64, "{ledger:?}");
    assert_eq!(ledger.account.lost(), []);
    let [row] = ledger.unnamed.as_slice() else { panic!("one place: {ledger:?}") };
    assert_eq!(row.packets, PACKETS);
    assert!(row.place.contains("between IPv4 input and forwarding"), "{row:?}");
    if let Some(why) = CounterSources::open(&topology).expect("counters").blind_spot() {
        return eprintln!("skipped in part: {why}");
    }
    assert_one_row(&trial(&topology, &frames), "DUT, IPv4 input", "loopback address");
}

#[test]
fn xdp_frames_that_find_the_ring_full_are_one_row_although_four_counters_move() {
    let spec = TopologySpec { placement: Placement::Thread { core: None }, ..TopologySpec::default() };
    let Some(topology) = built(Topology::direct(&spec)) else { return };
    let program = redirect_to(topology.generator.interface.index);
    let Some(program) = or_skip("no XDP program", program) else { return };
    let mut sources = CounterSources::open(&topology).expect("counters");
    let before = sources.snapshot().expect("snapshot");
    let sent = 50_000;
    let template = Datagram::default().frame(&topology);
    let run = LiveRun { template: &template, ingress_ifindex: 0, repeat: sent, batch_frames: 64 };
    topology.generator.namespace.run(|| run.run(&program)).expect("enter").expect("run");
    let (after, at_rest) =
        sources.snapshot_at_rest(Duration::from_millis(50), Duration::from_secs(60)).expect("snapshot");
    assert!(at_rest);
    // No port receives here: what the receiver's interface counts stands for it.
    let difference = after.since(&before);
    let delivered = difference.receiver.interface.rx_packets;
    let counted = Counted { intended: sent.into(), sent: sent.into(), delivered, ..Counted::default() };
    let ledger =
        close(&Ends { counted, received: delivered }, Some(&difference), &PortRows::default()).expect("balances");
    assert_eq!(ledger.account.unexplained(), 0, "{ledger:?}\n{difference:?}");
    let refused = difference.generator.interface.driver_sum("tx", "xdp_xmit_errors");
    match ledger.account.lost() {
        [] => eprintln!("skipped: the receiver kept up"),
        [row] => assert_eq!((row.place.as_str(), row.packets), ("receive ring of lr-recv", refused)),
        rows => panic!("one row: {rows:?}"),
    }
}

fn redirect_to(interface: u32) -> Result<Program, Box<dyn std::error::Error>> {
    let mut program = Assembler::new();
    program.mov64(Reg::R1, i32::try_from(interface)?);
    program.mov64(Reg::R2, 0);
    program.call(helper::REDIRECT);
    program.exit();
    Ok(Program::load_xdp("redirect", &program.assemble()?, ProgramOptions::default())?)
}

/// A generator that is faster than the DUT's NAPI thread, with both on one core so that the thread has to wait.
#[test]
fn a_full_ring_is_one_row_whoever_counts_the_refused_frames() {
    let core = *linerate_sys::affinity::allowed_cores().first().expect("a core");
    let spec = TopologySpec { placement: Placement::Thread { core: Some(core) }, ..TopologySpec::default() };
    for build in [Topology::router, Topology::direct] {
        let Some(topology) = built(build(&spec)) else { return };
        if !topology.mode().can_lose() {
            return eprintln!("skipped: the DUT runs {}", topology.mode());
        }
        for resend in [false, true] {
            overload(&topology, core, resend);
        }
    }
}

fn overload(topology: &Topology, core: usize, resend: bool) {
    let mut sources = CounterSources::open(topology).expect("counters");
    let receiver = RawSocket::open_with(&topology.receiver, Duration::from_millis(200));
    let frame = Datagram::default().frame(topology);
    let before = sources.snapshot().expect("snapshot");
    let (received, refused, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let sent = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                received.fetch_add(receiver.drain().len() as u64, Ordering::Relaxed);
            }
        });
        let sent = scope.spawn(|| {
            linerate_sys::affinity::pin_to_core(core).expect("pin");
            let socket = RawSocket::sender(&topology.generator);
            let mut sent = 0;
            for _ in 0..200_000 {
                match socket.send(&frame) {
                    Ok(()) => sent += 1,
                    Err(_) => sent += u64::from(!resend && refused.fetch_add(1, Ordering::Relaxed) < u64::MAX),
                }
            }
            sent
        });
        let sent = sent.join().expect("sender");
        sources.snapshot_at_rest(Duration::from_millis(100), Duration::from_secs(60)).expect("snapshot");
        done.store(true, Ordering::Release);
        sent
    });
    let after = sources.snapshot().expect("snapshot");
    let delivered = received.load(Ordering::Relaxed);
    let counted = Counted { intended: sent, sent, delivered, ..Counted::default() };
    let socket = Loss::new("receiving socket", "buffer full", receiver.drops());
    let ports = PortRows { receiver: vec![socket], ..PortRows::default() };
    let difference = after.since(&before);
    let ledger = close(&Ends { counted, received: delivered }, Some(&difference), &ports).expect("balances");
    assert_eq!(ledger.account.unexplained(), 0, "{ledger:?}\n{difference:?}");
    let ring = |loss: &&Loss| loss.place.starts_with("receive ring");
    let in_ring: u64 = ledger.account.lost().iter().filter(ring).map(|loss| loss.packets).sum();
    match resend {
        true => assert_eq!(in_ring, 0, "what was refused was not sent: {ledger:?}"),
        false => assert_eq!(in_ring, refused.load(Ordering::Relaxed), "{ledger:?}"),
    }
    if !resend && in_ring == 0 {
        eprintln!("skipped in part: the NAPI thread kept up");
    }
}
