//! Captures over a veth pair: what is walked is what was sent, and what is not is counted.

mod common;

use std::time::{Duration, Instant};

use common::{INTERFACE, Wire, append, packet, pool, send, tagged};
use linerate_filter::{Instruction, Program, Tags, code};
use linerate_mem::Batch;
use linerate_port::{Port, PortError};
use linerate_port_packet::{CaptureOptions, RingCapture, Spread};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn options(filter: Program) -> CaptureOptions {
    CaptureOptions {
        ring_bytes: 1 << 20,
        retire_ms: 1,
        promiscuous: true,
        outgoing: false,
        hardware_timestamps: false,
        filter,
    }
}

fn open(end: &common::End, options: &CaptureOptions) -> RingCapture {
    end.namespace.run(|| RingCapture::open(INTERFACE, options)).unwrap().unwrap()
}

/// Bytes, original length and direction of each packet, until there are `count`.
fn walk(capture: &mut RingCapture, count: usize) -> Vec<(Vec<u8>, usize, bool)> {
    let deadline = Instant::now() + PATIENCE;
    let mut packets = Vec::new();
    while packets.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} packets", packets.len());
        capture.wait(50_000_000).unwrap();
        let each = |packet: linerate_port_packet::RingPacket<'_>| {
            let mut bytes = vec![0; packet.len()];
            packet.copy(&mut bytes);
            assert!(packet.time_ns() > 1_600_000_000_000_000_000 && !packet.timestamped_by_hardware());
            packets.push((bytes, packet.original_len(), packet.is_outgoing()));
        };
        capture.walk(64, each).unwrap();
    }
    packets
}

#[test]
fn packets_are_walked_with_their_tags_lengths_and_direction() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(512);
    let mut out = wire.left.open(",tx_only,qdisc", &pool);
    // A veth timestamps nothing, so the timestamps are the kernel's, and say so.
    let hardware_timestamps = CaptureOptions { hardware_timestamps: true, ..options(Program::everything(65_535)) };
    let mut back = open(&wire.right, &hardware_timestamps);
    // Of each packet 64 bytes; also those that this host sends.
    let filter = Program::everything(64);
    let mut near = open(&wire.left, &CaptureOptions { outgoing: true, filter, ..options(Program::everything(0)) });
    let packets = [packet(0, 60), tagged(1, 64, [0x81, 0x00, 0xe0, 0x07]), packet(2, 1514)];
    packets.iter().for_each(|bytes| assert!(send(&mut out, &mut pool, bytes).unwrap()));
    let far: Vec<_> = packets.iter().map(|bytes| (bytes.clone(), bytes.len(), false)).collect();
    assert_eq!(walk(&mut back, 3), far);
    let sent = walk(&mut near, 3);
    assert!(sent.iter().all(|(bytes, _, outgoing)| *outgoing && bytes.len() <= 68), "{sent:?}");
    assert_eq!(sent.iter().map(|sent| sent.1).collect::<Vec<_>>(), [60, 64, 1514]);
    assert_eq!((sent[2].0.as_slice(), back.level_bytes().1), (&packets[2][..64], 1 << 20));
}

#[test]
fn the_kernel_filters_and_tags_are_asked_for() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(512);
    let mut out = wire.left.open(",tx_only", &pool);
    let filter = linerate_filter::compile("vlan 7 or ether proto 0x88b6", Tags::Beside, 65_535).unwrap();
    let mut back = open(&wire.right, &options(filter));
    let mut last = packet(9, 60);
    last[13] = 0xb6;
    let wanted = [tagged(1, 64, [0x81, 0x00, 0xe0, 0x07]), last];
    for bytes in [&packet(0, 60), &wanted[0], &tagged(2, 64, [0x81, 0x00, 0, 8]), &wanted[1]] {
        assert!(send(&mut out, &mut pool, bytes).unwrap());
    }
    let walked: Vec<Vec<u8>> = walk(&mut back, 2).into_iter().map(|walked| walked.0).collect();
    assert_eq!(walked, wanted);
    assert_eq!(back.counters().unwrap().offered, 2, "what the filter refuses is not offered");
}

#[test]
fn offered_is_dropped_and_walked() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(4096);
    let mut out = wire.left.open(",tx_only", &pool);
    let small = CaptureOptions { ring_bytes: 65_536, ..options(Program::everything(65_535)) };
    let mut back = open(&wire.right, &small);
    let mut batch = Batch::new(&pool, 64);
    for round in 0..40 {
        (0..64).for_each(|number| append(&mut batch, &mut pool, &packet(round * 64 + number, 60)));
        while !batch.is_empty() {
            out.transmit(&mut batch).unwrap();
        }
    }
    assert!(back.level_bytes().0 > 0);
    back.stop().unwrap();
    assert!(send(&mut out, &mut pool, &packet(0, 60)).unwrap());
    let counters = back.counters().unwrap();
    assert!(counters.offered == 2560 && counters.dropped > 0 && counters.freezes > 0, "{counters:?}");
    let walked = walk(&mut back, (counters.offered - counters.dropped) as usize);
    assert_eq!(walked.len() as u64 + counters.dropped, counters.offered);
    assert_eq!(back.counters().unwrap(), counters);
}

#[test]
fn rings_share_an_interface_by_flow_or_by_queue() {
    let Some(wire) = Wire::new(1) else { return };
    let mut pool = pool(4096);
    let mut out = wire.left.open(",tx_only", &pool);
    for (spread, flows_are_spread) in [(Spread::Flows, true), (Spread::Queues, false)] {
        let options = options(Program::everything(65_535));
        let open = || RingCapture::open_rings(INTERFACE, &options, 3, spread);
        let mut rings = wire.right.namespace.run(open).unwrap().unwrap();
        // 64 flows of 20 packets: UDP over IPv4, by source port.
        for number in 0..1280 {
            let mut bytes = packet(number, 60);
            bytes[12..34]
                .copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
            bytes[34..42].copy_from_slice(&[4, number as u8 % 64, 0, 9, 0, 26, 0, 0]);
            assert!(send(&mut out, &mut pool, &bytes).unwrap());
        }
        let mut offered = Vec::new();
        for ring in &mut rings {
            ring.stop().unwrap();
            let counters = ring.counters().unwrap();
            assert_eq!(counters.dropped, 0);
            offered.push(counters.offered);
            let mut flows = [0; 64];
            let walked = walk(ring, counters.offered as usize);
            walked.iter().for_each(|(bytes, ..)| flows[usize::from(bytes[35])] += 1);
            assert!(flows.iter().all(|packets| [0, 20].contains(packets)), "{flows:?}: flows are whole");
        }
        assert_eq!(offered.iter().sum::<u64>(), 1280, "{offered:?}");
        assert_eq!(offered.iter().filter(|offered| **offered > 0).count() > 1, flows_are_spread, "{offered:?}");
    }
}

#[test]
fn trouble_is_named() {
    let Some(wire) = Wire::new(1) else { return };
    let refusal = |options: &CaptureOptions, interface: &str| {
        wire.left.namespace.run(|| RingCapture::open(interface, options)).unwrap().err().unwrap().to_string()
    };
    assert!(refusal(&options(Program::everything(1)), "no@such").contains("no@such"));
    // More than a socket may have by default, of any kernel.
    let mut long = vec![Instruction::new(code::LD_W_ABS, 0); 4095];
    long.push(Instruction::new(code::RET_K, 1));
    let long = options(Program::new(long).unwrap());
    match wire.left.namespace.run(|| RingCapture::open(INTERFACE, &long)).unwrap() {
        Err(error) => assert!(error.to_string().contains("optmem_max"), "{error}"),
        Ok(_) => eprintln!("skipped: this system has room for any filter"),
    }
    let mut capture = open(&wire.left, &options(Program::everything(65_535)));
    wire.left.device.set_up(false).unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        match capture.wait(50_000_000) {
            Err(PortError::Down { .. }) => break,
            other => assert!(Instant::now() < deadline, "{other:?}"),
        }
    }
}
