//! What either side of a TAP device leaves to the other: partial checksums, and the cutting of TCP segments.

mod common;

use common::{DEVICE, allowed, namespace, open_packet, open_tap, pool};
use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, Port, complete_checksums};
use linerate_sys::counters::CounterReader;
use linerate_sys::netns::NetNs;
use linerate_testkit::{append_partial, tcp_segments};

/// Sends segments from one port to the other, where they must arrive as they were.
fn pass(from: &mut dyn Port, to: &mut dyn Port, pool: &mut Pool, segments: &[Vec<u8>]) {
    let mut batch = Batch::new(pool, 128);
    segments.iter().for_each(|segment| append_partial(&mut batch, pool, segment));
    while !batch.is_empty() {
        from.transmit(&mut batch).unwrap();
    }
    let mut naps = 0;
    while batch.len() < segments.len() && naps < 1200 {
        if to.receive(&mut batch).unwrap() == 0 {
            to.wait(Interest::Receive, 50_000_000).unwrap();
            naps += 1;
        }
    }
    complete_checksums(&mut batch);
    assert!(batch.iter().eq(segments.iter().map(Vec::as_slice)), "{} segments arrived, or others", batch.len());
    pool.free(&mut batch);
}

/// Packets that the kernel received from the device and sent to it, by its own account.
fn counts(namespace: &NetNs) -> (u64, u64) {
    let counters = namespace.run_with_sysfs(|| CounterReader::open(DEVICE)?.read()).unwrap().unwrap();
    (counters.rx_packets, counters.tx_packets)
}

#[test]
fn segments_cross_as_one_packet_both_ways_unless_that_is_turned_off() {
    if !allowed() {
        return;
    }
    for (options, packets) in [("", 1), (",no_offload", 20)] {
        for is_ipv6 in [false, true] {
            let Some(namespace) = namespace() else { return };
            let mut pool = pool();
            let mut tap = open_tap(&namespace, options, &pool).unwrap();
            let mut kernel = open_packet(&namespace, &pool).unwrap();
            let segments = tcp_segments(is_ipv6, 20, 1400);
            let before = counts(&namespace);
            pass(&mut tap, &mut kernel, &mut pool, &segments);
            pass(&mut kernel, &mut tap, &mut pool, &segments);
            let after = counts(&namespace);
            assert_eq!((after.0 - before.0, after.1 - before.1), (packets, packets), "{options}, IPv6: {is_ipv6}");
            let (sent, received) = (tap.stats().unwrap().tx_packets, tap.stats().unwrap().rx_packets);
            assert_eq!((sent, received), (20, 20), "segments are what is counted");
        }
    }
}

#[test]
fn a_device_that_was_there_before_is_taken_with_its_notes() {
    if !allowed() {
        return;
    }
    let Some(namespace) = namespace() else { return };
    let mut pool = pool();
    // The first port turns everything off, the second everything on.
    drop(open_tap(&namespace, ",no_offload", &pool).unwrap());
    let mut tap = loop {
        match open_tap(&namespace, "", &pool) {
            Ok(tap) => break tap,
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
        }
    };
    let mut kernel = open_packet(&namespace, &pool).unwrap();
    let segments = tcp_segments(false, 60, 1460);
    pass(&mut tap, &mut kernel, &mut pool, &segments);
    pass(&mut kernel, &mut tap, &mut pool, &segments);
}
