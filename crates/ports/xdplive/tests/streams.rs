//! Streams made in the kernel, accounts, and errors, on veth pairs in private namespaces.

mod common;

use common::*;
use linerate_bpf::programs::signature::Signature;
use linerate_mem::Batch;
use linerate_port::{
    ChecksumFix, FieldRule, FieldRuleKind, GeneratorRun, GeneratorStream, Interest, Port, PortError, Readiness,
};
use linerate_sys::clock;
use linerate_sys::veth;

/// Ethernet, IPv4 and UDP, with right checksums.
fn udp4(len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1]);
    frame.extend([0x04, 0, 0, 9, 0, 0, 0, 0]);
    frame.resize(len, 0x5a);
    frame[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
    frame[38..40].copy_from_slice(&(len as u16 - 34).to_be_bytes());
    let header = !sum(&[&frame[14..34]]);
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    let udp = !udp_sum(&frame);
    frame[40..42].copy_from_slice(&udp.to_be_bytes());
    frame
}

/// Ones' complement sum (RFC 1071) of big-endian words.
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u32 = words.map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |byte| u32::from(*byte))).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

fn udp_sum(frame: &[u8]) -> u16 {
    sum(&[&frame[26..34], &[0, 17], &frame[38..40], &frame[34..]])
}

/// 3 sources, for each 2 destination ports.
fn stream(len: usize) -> GeneratorStream {
    let each = FieldRule { offset: 29, width: 1, kind: FieldRuleKind::Each, first: 1, count: 3, step: 1 };
    let carry = FieldRule { offset: 36, width: 2, kind: FieldRuleKind::Carry, first: 9, count: 2, step: 100 };
    let fix = |offset, rules: &[usize], signed| ChecksumFix {
        offset,
        rules: rules.to_vec(),
        covers_signature: signed,
        zero_as_ones: signed,
    };
    GeneratorStream {
        template: udp4(len),
        rules: vec![each, carry],
        checksums: vec![fix(24, &[0], false), fix(40, &[0, 1], true)],
        signature: Some(7),
        first_sequence: 1000,
        gap_ns_fixed: 0,
    }
}

/// Runs until `packets` were made.
fn run_all(port: &mut dyn Port, packets: u64) -> GeneratorRun {
    let mut all = GeneratorRun::default();
    while all.made < packets {
        let done = port.tx_generator().unwrap().run(packets - all.made).unwrap();
        all.made += done.made;
        all.sent += done.sent;
    }
    all
}

fn tx_drops(port: &mut dyn Port) -> Vec<(String, u64)> {
    port.stats().unwrap().tx_drops.into_iter().map(|drops| (drops.cause, drops.packets)).collect()
}

#[test]
fn a_stream_arrives_as_it_was_described() {
    on_a_pair(|_| {
        for len in [60, 61, 200, 1514] {
            let socket = stack();
            let pool = small_pool();
            let mut port = open("xdplive:near", &pool).unwrap();
            port.tx_generator().unwrap().load(&stream(len)).unwrap();
            assert_eq!(run_all(&mut port, 60), GeneratorRun { made: 60, sent: 60 });
            assert_eq!(run_all(&mut port, 2), GeneratorRun { made: 2, sent: 2 });
            let packets = receive(&socket, 62);
            for (index, packet) in packets.iter().enumerate() {
                assert_eq!(packet.len(), len);
                assert_eq!(packet[29], [1, 2, 3][index % 3]);
                assert_eq!(packet[36..38], [[0, 9], [0, 109]][index / 3 % 2]);
                assert_eq!(sum(&[&packet[14..34]]), 0xffff, "IPv4 checksum of packet {index}");
                assert_eq!(udp_sum(packet), 0xffff, "UDP checksum of packet {index}");
                let signature = Signature::decode(packet).unwrap();
                assert_eq!((signature.stream, signature.sequence), (7, 1000 + index as u64));
            }
            let stats = port.stats().unwrap();
            assert_eq!((stats.tx_packets, stats.tx_bytes, stats.tx_dropped()), (62, 62 * len as u64, 0));
        }
    });
}

fn receive(socket: &PacketSocket, count: usize) -> Vec<Vec<u8>> {
    let deadline_ns = clock::now_ns() + 60_000_000_000;
    let mut packets = Vec::new();
    while packets.len() < count && clock::now_ns() < deadline_ns {
        packets.extend(socket.receive().unwrap());
    }
    assert_eq!(packets.len(), count);
    packets
}

#[test]
fn millions_are_accounted_for_to_the_packet() {
    on_a_pair(|_| {
        let (sink, _link) = sink();
        let pool = small_pool();
        let mut port = open("xdplive:near,batch=256", &pool).unwrap();
        let generator = port.tx_generator().unwrap();
        generator.load(&GeneratorStream { signature: None, ..stream(60) }).unwrap();
        let per_run = generator.packets_per_run();
        assert!(per_run >= 1 << 18);
        let mut all = GeneratorRun::default();
        for packets in [1, 2, 255, 257, 1 << 18, 100_000] {
            let done = port.tx_generator().unwrap().run(packets).unwrap();
            assert_eq!(done.made, packets);
            all.made += done.made;
            all.sent += done.sent;
        }
        // Some frames may lie in the ring of the far end until its softirq has run.
        let deadline_ns = clock::now_ns() + 60_000_000_000;
        while sink.dropped().unwrap().packets < all.sent && clock::now_ns() < deadline_ns {}
        assert_eq!(sink.dropped().unwrap().packets, all.sent);
        let stats = port.stats().unwrap();
        assert_eq!((stats.tx_packets, stats.tx_bytes), (all.sent, all.sent * 60));
        assert_eq!(stats.tx_packets + stats.tx_dropped(), all.made, "{stats:?}");
    });
}

#[test]
fn what_the_far_side_refuses_is_counted_to_the_packet() {
    on_a_pair(|namespace| {
        let (sink, _link) = sink();
        // A receiver with a thread of its own is not run between batches, so its ring of 256 fills.
        let threaded = namespace.run_with_sysfs(|| std::fs::write("/sys/class/net/far/threaded", "1"));
        if let Err(error) = threaded.and_then(|written| written) {
            return eprintln!("skipped: no threaded NAPI: {error}");
        }
        let mut pool = small_pool();
        let mut port = open("xdplive:near,batch=256", &pool).unwrap();
        port.tx_generator().unwrap().load(&stream(60)).unwrap();
        let streamed = run_all(&mut port, 1 << 20);
        let mut batch = Batch::new(&pool, 2048);
        pool.alloc(&mut batch, 2048, 100);
        assert_eq!(port.transmit(&mut batch).unwrap(), 2048);
        let stats = port.stats().unwrap();
        let made = streamed.made + 2048;
        assert_eq!(stats.tx_packets + stats.tx_dropped(), made, "{stats:?}");
        assert!(stats.tx_packets >= streamed.sent);
        if stats.tx_dropped() > 0 {
            assert_eq!(tx_drops(&mut port), [("refused by the interface".to_string(), stats.tx_dropped())]);
        }
        let deadline_ns = clock::now_ns() + 60_000_000_000;
        while sink.dropped().unwrap().packets < stats.tx_packets && clock::now_ns() < deadline_ns {}
        assert_eq!(sink.dropped().unwrap().packets, stats.tx_packets);
        eprintln!("{} of {made} packets were refused", stats.tx_dropped());
    });
}

#[test]
fn paced_packets_leave_when_they_are_due() {
    on_a_pair(|_| {
        let socket = stack();
        let pool = small_pool();
        let mut port = open("xdplive:near", &pool).unwrap();
        // 20 kpps, then a packet each 2 ms.
        for (gap_ns, packets) in [(50_000u64, 400u64), (2_000_000, 20)] {
            let paced = GeneratorStream { gap_ns_fixed: gap_ns << 32, first_sequence: 0, ..stream(60) };
            port.tx_generator().unwrap().load(&paced).unwrap();
            let per_run = port.tx_generator().unwrap().packets_per_run();
            assert!(per_run * gap_ns <= 100_000_000);
            let started_ns = clock::now_ns();
            assert_eq!(run_all(&mut port, packets).sent, packets);
            assert!(clock::now_ns() - started_ns >= gap_ns * (packets - 1), "they were sent too early");
            let times: Vec<u64> =
                receive(&socket, packets as usize).iter().map(|p| Signature::decode(p).unwrap().time_ns).collect();
            // Signatures bear the time of the schedule, whatever the machine was doing.
            assert!(times.windows(2).all(|pair| pair[1] - pair[0] == gap_ns), "{times:?}");
        }
    });
}

#[test]
fn streams_that_cannot_be_made_are_refused_in_words() {
    on_a_pair(|_| {
        let pool = small_pool();
        let mut port = open("xdplive:near", &pool).unwrap();
        let generator = port.tx_generator().unwrap();
        assert!(matches!(generator.run(1).unwrap_err(), PortError::Unsupported { .. }));
        let long = GeneratorStream { template: udp4(1515), ..stream(60) };
        assert!(matches!(generator.load(&long).unwrap_err(), PortError::FrameTooLong { len: 1515, max: 1514, .. }));
        let mut unknown = stream(60);
        unknown.checksums[0].offset = 50;
        assert!(generator.load(&unknown).unwrap_err().to_string().contains("checksum at 50"));
        let mut outside = stream(60);
        outside.rules[0].offset = 60;
        assert!(generator.load(&outside).unwrap_err().to_string().contains("field at 60"));
        let mut twice = stream(60);
        twice.rules.extend(stream(60).rules);
        assert!(generator.load(&twice).unwrap_err().to_string().contains("one is possible"));
        generator.load(&stream(60)).unwrap();
    });
}

#[test]
fn a_far_side_that_takes_no_xdp_frames_is_told() {
    on_a_pair(|_| {
        let mut pool = small_pool();
        let mut port = open("xdplive:near", &pool).unwrap();
        let mut batch = Batch::new(&pool, 8);
        pool.alloc(&mut batch, 5, 60);
        let error = port.transmit(&mut batch).unwrap_err();
        assert!(error.to_string().contains("gro on"), "{error}");
        port.tx_generator().unwrap().load(&stream(60)).unwrap();
        let error = port.tx_generator().unwrap().run(10).unwrap_err();
        assert!(error.to_string().contains("gro on"), "{error}");
        assert_eq!(tx_drops(&mut port), [("no taker of XDP frames".to_string(), 15)]);
        // Once it does, the port goes on.
        let (sink, _link) = sink();
        assert_eq!(port.tx_generator().unwrap().run(10).unwrap(), GeneratorRun { made: 10, sent: 10 });
        let deadline_ns = clock::now_ns() + 60_000_000_000;
        while sink.dropped().unwrap().packets < 10 && clock::now_ns() < deadline_ns {}
        assert_eq!(sink.dropped().unwrap().packets, 10);
        assert_eq!(port.stats().unwrap().tx_packets, 10);
        drop((port, batch));
        pool.flush();
        assert!(pool.is_whole());
    });
}

#[test]
fn interfaces_that_go_away_are_errors_and_the_totals_stay() {
    on_a_pair(|namespace| {
        let (_sink, _link) = sink();
        let pool = small_pool();
        let mut port = open("xdplive:near", &pool).unwrap();
        port.tx_generator().unwrap().load(&stream(60)).unwrap();
        let sent = port.tx_generator().unwrap().run(100).unwrap().sent;
        set_up("far", false);
        let _ = port.tx_generator().unwrap().run(10);
        set_up("far", true);
        set_up("near", false);
        assert!(matches!(port.tx_generator().unwrap().run(1).unwrap_err(), PortError::Down { .. }));
        assert!(matches!(port.wait(Interest::Transmit, 0).unwrap_err(), PortError::Down { .. }));
        set_up("near", true);
        assert_eq!(port.wait(Interest::Transmit, 0).unwrap(), Readiness::Ready);
        veth::delete(namespace, "near").unwrap();
        assert!(matches!(port.tx_generator().unwrap().run(1).unwrap_err(), PortError::Gone { .. }));
        // Another interface of the same name is another interface.
        let end = |name| veth::VethEnd { name, namespace };
        veth::create(end("near"), end("far"), 1).unwrap();
        set_up("near", true);
        assert!(matches!(port.tx_generator().unwrap().run(1).unwrap_err(), PortError::Gone { .. }));
        let stats = port.stats().unwrap();
        assert_eq!((stats.tx_packets, stats.tx_packets + stats.tx_dropped()), (sent, 110), "{stats:?}");
    });
}

#[test]
fn errors_say_what_is_wrong_and_what_to_do() {
    on_a_pair(|_| {
        let pool = small_pool();
        let refusal = |spec: &str| open(spec, &pool).map(drop).unwrap_err().to_string();
        assert!(refusal("xdplive:absent").contains("no interface"));
        assert!(refusal("xdplive:near@1").contains("leave out the @"));
        assert!(refusal("xdplive:near,batch=257").contains("1 to 256"));
        assert!(refusal("xdplive:near,native").contains("knows batch"));
        set_up("near", false);
        assert!(refusal("xdplive:near").contains("ip link set near up"));
        set_up("near", true);
        drop_capabilities().unwrap();
        assert!(refusal("xdplive:near").contains("CAP_BPF"));
    });
}

#[test]
fn another_mtu_is_noticed() {
    on_a_pair(|_| {
        let set_mtu = |mtu| ["near", "far"].iter().for_each(|name| device(name).set_mtu(mtu).unwrap());
        let _far = sink();
        let mut pool = small_pool();
        let mut port = open("xdplive:near", &pool).unwrap();
        port.tx_generator().unwrap().load(&stream(1514)).unwrap();
        assert_eq!(port.tx_generator().unwrap().run(10).unwrap(), GeneratorRun { made: 10, sent: 10 });
        set_mtu(1000);
        let error = port.tx_generator().unwrap().run(10).unwrap_err();
        assert!(matches!(error, PortError::FrameTooLong { len: 1514, max: 1014, .. }), "{error}");
        let mut batch = Batch::new(&pool, 1);
        pool.alloc(&mut batch, 1, 1514);
        batch.packet_mut(0).copy_from_slice(&udp4(1514));
        assert!(matches!(port.transmit(&mut batch), Err(PortError::FrameTooLong { max: 1014, .. })));
        set_mtu(1500);
        assert_eq!(port.tx_generator().unwrap().run(10).unwrap(), GeneratorRun { made: 10, sent: 10 });
        assert_eq!(port.transmit(&mut batch).unwrap(), 1);
        assert_eq!(port.stats().unwrap().tx_packets, 21);
    });
}
