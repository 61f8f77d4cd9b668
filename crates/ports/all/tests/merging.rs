//! AF_XDP with AF_PACKET beside it: which packets leave by which, in order, each counted once.

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, LinkState, OpenOptions, Port, PortError, Readiness, complete_checksums};
use linerate_ports::{open_device, parse};
use linerate_sys::counters::CounterReader;
use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use linerate_testkit::{append_partial, or_skip, tcp_segments};

/// `near` and `far`, and whether AF_XDP can be used here.
fn pair(queues: u32) -> Option<NetNs> {
    let usable = linerate_ports::list().into_iter().find(|listed| listed.name == "xdp")?.usable;
    or_skip("no AF_XDP", usable.map_err(|missing| missing.cause))?;
    let namespace = or_skip("no network namespace", NetNs::anonymous())?;
    let end = |name| VethEnd { name, namespace: &namespace };
    veth::create(end("near"), end("far"), queues).unwrap();
    let prepare = || {
        for scope in ["all", "default", "near", "far"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
        }
        veth::bring_up(&Netdev::open("near")?, &Netdev::open("far")?)
    };
    namespace.run(prepare).unwrap().unwrap();
    Some(namespace)
}

fn open(namespace: &NetNs, spec: &str, pool: &Pool) -> Box<dyn Port> {
    let asked = OpenOptions { merges_segments: Some(true), ..OpenOptions::low_latency() };
    let opened = namespace.run(|| open_device(&parse(spec).unwrap(), &asked, pool)).unwrap();
    opened.unwrap().into_port()
}

/// Sends packets in one batch, sees that they arrive as they are and in order, and returns how many the interface sent for that.
fn pass(namespace: &NetNs, near: &mut dyn Port, far: &mut dyn Port, pool: &mut Pool, packets: &[Vec<u8>]) -> u64 {
    let sent = || namespace.run_with_sysfs(|| CounterReader::open("near")?.read()).unwrap().unwrap().tx_packets;
    let (before, counted) = (sent(), near.stats().unwrap());
    let mut batch = Batch::new(pool, 128);
    packets.iter().for_each(|packet| append_partial(&mut batch, pool, packet));
    while !batch.is_empty() {
        near.transmit(&mut batch).unwrap();
        assert_eq!(near.wait(Interest::Transmit, u64::MAX).unwrap(), Readiness::Ready);
    }
    while near.flush().unwrap() > 0 {}
    let (mut arrived, mut naps) = (Batch::new(pool, 128), 0);
    while arrived.len() < packets.len() && naps < 1200 {
        if far.receive(&mut arrived).unwrap() == 0 {
            far.wait(Interest::Receive, 50_000_000).unwrap();
            naps += 1;
        }
    }
    complete_checksums(&mut arrived);
    assert!(arrived.iter().eq(packets.iter()), "{} of {} packets arrived, or others", arrived.len(), packets.len());
    pool.free(&mut arrived);
    let after = near.stats().unwrap();
    let bytes: usize = packets.iter().map(Vec::len).sum();
    assert_eq!(after.tx_packets - counted.tx_packets, packets.len() as u64);
    assert_eq!(after.tx_bytes - counted.tx_bytes, bytes as u64);
    assert!(after.tx_drops.is_empty(), "{:?}", after.tx_drops);
    sent() - before
}

#[test]
fn only_runs_of_long_segments_leave_as_one_packet() {
    let Some(namespace) = pair(1) else { return };
    let mut pool = Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() }).unwrap();
    let mut far = open(&namespace, "packet:far", &pool);
    for is_ipv6 in [false, true] {
        let (long, short) = (tcp_segments(is_ipv6, 20, 1400), tcp_segments(is_ipv6, 20, 200));
        for (spec, merges) in [("xdp:near", true), ("xdp:near,merge=no", false)] {
            let mut near = open(&namespace, spec, &pool);
            let mut pass = |packets: &[Vec<u8>]| pass(&namespace, &mut *near, &mut *far, &mut pool, packets);
            assert_eq!(pass(&long), if merges { 1 } else { 20 }, "{spec}");
            assert_eq!(pass(&short), 20, "{spec}");
            // One that is not a part of the run stays before or behind it.
            let mixed = [&short[..1], &long, &short[1..2]].concat();
            assert_eq!(pass(&mixed), if merges { 3 } else { 22 }, "{spec}");
            assert_eq!(near.caps().detail.contains("merged by AF_PACKET"), merges);
        }
    }
    drop(far);
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn a_far_end_with_a_program_gets_single_segments() {
    let Some(namespace) = pair(1) else { return };
    let mut pool = Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() }).unwrap();
    let (mut near, mut far) = (open(&namespace, "xdp:near", &pool), open(&namespace, "xdp:far", &pool));
    for count in [2, 20, 100] {
        let sent = pass(&namespace, &mut *near, &mut *far, &mut pool, &tcp_segments(false, count, 1400));
        assert_eq!(sent, count as u64, "the interface must not be handed more than its far end takes");
    }
}

#[test]
fn on_an_interface_of_several_queues_only_who_writes_it_merges() {
    let Some(namespace) = pair(2) else { return };
    let mut pool = Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() }).unwrap();
    let mut far = open(&namespace, "packet:far", &pool);
    for (spec, sent) in [("xdp:near", 20), ("xdp:near,merge=yes", 1), ("xdp:near@1,merge=yes", 1)] {
        let mut near = open(&namespace, spec, &pool);
        let segments = tcp_segments(true, 20, 1400);
        assert_eq!(pass(&namespace, &mut *near, &mut *far, &mut pool, &segments), sent, "{spec}");
    }
}

#[test]
fn what_is_wrong_has_the_name_of_the_port() {
    let Some(namespace) = pair(1) else { return };
    let mut pool = Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() }).unwrap();
    let (mut near, mut far) = (open(&namespace, "xdp:near", &pool), open(&namespace, "packet:far", &pool));
    let segments = tcp_segments(false, 20, 1400);
    let set_up = |up| namespace.run(|| Netdev::open("near").unwrap().set_up(up)).unwrap().unwrap();
    set_up(false);
    let mut batch = Batch::new(&pool, 128);
    segments.iter().for_each(|packet| append_partial(&mut batch, &mut pool, packet));
    match near.transmit(&mut batch) {
        Err(PortError::Down { port, .. }) => assert_eq!(port, near.caps().name),
        other => assert_eq!(other.unwrap(), 20, "AF_XDP takes packets until it is asked after the interface"),
    }
    assert_eq!(near.link().unwrap(), LinkState::Down);
    pool.free(&mut batch);
    set_up(true);
    while near.link().unwrap() != LinkState::Up {}
    // Those that AF_XDP took are sent now, or stand in its account.
    while near.flush().unwrap() > 0 {}
    let (taken, lost) = (near.stats().unwrap().tx_packets, near.stats().unwrap().tx_drops);
    let lost: u64 = lost.iter().map(|row| row.packets).sum();
    assert!([0, 20].contains(&(taken + lost)), "{taken} sent, {lost} lost");
    let mut late = Batch::new(&pool, 128);
    while late.len() < taken as usize {
        far.receive(&mut late).unwrap();
    }
    pool.free(&mut late);
    assert_eq!(pass(&namespace, &mut *near, &mut *far, &mut pool, &segments), 1);
    let mut too_long = Batch::new(&pool, 128);
    segments.iter().for_each(|packet| append_partial(&mut too_long, &mut pool, packet));
    pool.alloc(&mut too_long, 1, 1515);
    let refused = loop {
        match near.transmit(&mut too_long) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    let name = near.caps().name.clone();
    assert!(matches!(&refused, PortError::FrameTooLong { port, len: 1515, max: 1514 } if *port == name), "{refused}");
    assert_eq!(too_long.len(), 1);
    pool.free(&mut too_long);
}
