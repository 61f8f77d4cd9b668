//! What is left to the kernel: partial checksums, and the cutting of TCP segments that leave as one packet.

mod common;

use common::{INTERFACE, Wire, pool};
use linerate_mem::{Batch, Checksum, Pool};
use linerate_port::{Interest, Port, complete_checksums};
use linerate_sys::counters::CounterReader;
use linerate_testkit::{append_partial, tcp_segments};

/// Packets of the kernel's account that the near end sent while a batch of `segments` passed, which must arrive as they were.
fn pass(wire: &Wire, options: &str, segments: &[Vec<u8>]) -> u64 {
    let mut pool = pool(512);
    let mut out = wire.left.open(&format!(",tx_only{options}"), &pool);
    let mut back = wire.right.open(",rx_only", &pool);
    let sent =
        || wire.left.namespace.run_with_sysfs(|| CounterReader::open(INTERFACE)?.read()).unwrap().unwrap().tx_packets;
    let before = sent();
    let mut batch = Batch::new(&pool, 256);
    segments.iter().for_each(|segment| append_partial(&mut batch, &mut pool, segment));
    while !batch.is_empty() {
        out.transmit(&mut batch).unwrap();
    }
    assert_eq!(out.stats().unwrap().tx_packets, segments.len() as u64);
    assert_eq!(out.stats().unwrap().tx_bytes, segments.iter().map(|segment| segment.len() as u64).sum::<u64>());
    let arrived = receive_whole(&mut back, &mut pool, segments.len());
    assert!(arrived == segments, "{} segments arrived, or others", arrived.len());
    sent() - before
}

fn receive_whole(port: &mut dyn Port, pool: &mut Pool, count: usize) -> Vec<Vec<u8>> {
    let (mut batch, mut naps) = (Batch::new(pool, 256), 0);
    while batch.len() < count && naps < 1200 {
        if port.receive(&mut batch).unwrap() == 0 {
            port.wait(Interest::Receive, 50_000_000).unwrap();
            naps += 1;
        }
    }
    complete_checksums(&mut batch);
    let packets = batch.iter().map(<[u8]>::to_vec).collect();
    pool.free(&mut batch);
    packets
}

#[test]
fn segments_leave_as_one_packet_and_arrive_as_they_were() {
    let Some(wire) = Wire::new(1) else { return };
    for is_ipv6 in [false, true] {
        let segments = tcp_segments(is_ipv6, 20, 1400);
        assert_eq!(pass(&wire, "", &segments), 1);
        assert_eq!(pass(&wire, ",no_offload", &segments), 20);
        // 46 fill a packet of 64 KiB; two such packets go into one call.
        assert_eq!(pass(&wire, "", &tcp_segments(is_ipv6, 92, 1400)), 2);
        // A run that goes on behind what one call takes (128) is not cut there, but left to the next call.
        assert_eq!(pass(&wire, "", &tcp_segments(is_ipv6, 138, 1400)), 3);
    }
}

#[test]
fn packets_of_either_socket_keep_their_order() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(512);
    let mut out = wire.left.open(",tx_only", &pool);
    let mut back = wire.right.open(",rx_only", &pool);
    // Batches of whole packets go by one socket, those with a packet of which something is left to the kernel by the other one.
    let segments = tcp_segments(false, 60, 200);
    let mut batch = Batch::new(&pool, 256);
    for (round, segments) in segments.chunks(5).enumerate() {
        for (index, segment) in segments.iter().enumerate() {
            append_partial(&mut batch, &mut pool, segment);
            if round % 3 == 0 || round % 3 == 1 && index % 2 == 0 {
                batch.set_checksum(batch.len() - 1, Checksum::Unknown);
            }
        }
        while !batch.is_empty() {
            out.transmit(&mut batch).unwrap();
        }
    }
    let arrived = receive_whole(&mut back, &mut pool, segments.len());
    assert_eq!(arrived.len(), segments.len());
    for (number, (arrived, sent)) in arrived.iter().zip(&segments).enumerate() {
        // Those that were given out as whole have the checksum field that they had; the sequence numbers tell which is which.
        assert_eq!(arrived[14..50], sent[14..50], "packet {number}");
    }
}

#[test]
fn an_interface_that_cuts_nothing_gets_single_segments() {
    let Some(wire) = Wire::new(1) else { return };
    let features = ["tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-generic-segmentation"].map(|name| (name, false));
    let device = &wire.left.device;
    wire.left.namespace.run(|| device.set_features(&features)).unwrap().unwrap();
    for (is_ipv6, options) in [(false, ""), (true, ""), (false, ",qdisc"), (false, ",no_offload")] {
        assert_eq!(pass(&wire, options, &tcp_segments(is_ipv6, 20, 1400)), 20, "{options}");
    }
    // Nor does one that computes no checksum.
    let no_checksums = [("tx-checksum-ip-generic", false)];
    wire.left.namespace.run(|| device.set_features(&no_checksums)).unwrap().unwrap();
    assert_eq!(pass(&wire, "", &tcp_segments(true, 20, 1400)), 20);
    assert_eq!(pass(&wire, "", &tcp_segments(false, 1, 1400)), 1);
}
