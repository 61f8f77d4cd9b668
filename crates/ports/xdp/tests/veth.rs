//! AF_XDP ports on both ends of a veth pair: contents, order, accounts.

mod common;

use common::*;
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Interest, Port, PortError, Readiness};

fn length(number: u32) -> usize {
    60 + (number as usize * 37) % 1455
}

#[test]
fn packets_arrive_whole_and_in_order() {
    for (options, mode) in
        [("", "native"), (",native", "native"), (",generic", "generic"), (",zerocopy=no,ring=256", "native")]
    {
        on_a_pair(1, |_| {
            let mut pool = small_pool();
            let mut near = open(&format!("xdp:near{options}"), &pool).unwrap();
            let mut far = open(&format!("xdp:far@0{options}"), &pool).unwrap();
            assert!(far.caps().detail.contains(mode), "{}", far.caps().detail);
            assert_eq!(far.caps().frame_len_max, 1514);
            let name = if options.is_empty() { "xdp:near@0".into() } else { format!("xdp:near{options}") };
            assert_eq!(near.caps().name, name);
            let mut sending = Batch::new(&pool, 32);
            let mut received = Batch::new(&pool, 48);
            let (mut expected, mut bytes) = (0, 0);
            for round in 0..400 {
                add_packets(&mut pool, &mut sending, round * 32, 32, length);
                while !sending.is_empty() {
                    near.transmit(&mut sending).unwrap();
                }
                receive_until(&mut far, &mut received, 32).unwrap();
                assert_eq!(received.len(), 32, "round {round}");
                for packet in received.iter() {
                    assert_eq!(read_packet(packet), Some(expected));
                    assert_eq!(packet.len(), length(expected));
                    bytes += packet.len() as u64;
                    expected += 1;
                }
                pool.free(&mut received);
            }
            flush(&mut near);
            let (sent, got) = (near.stats().unwrap(), far.stats().unwrap());
            assert_eq!((sent.tx_packets, sent.tx_bytes, sent.tx_dropped()), (expected.into(), bytes, 0));
            assert_eq!((got.rx_packets, got.rx_bytes, got.rx_dropped()), (expected.into(), bytes, 0), "{got:?}");
            drop((near, far, sending, received));
            assert!(is_whole(&mut pool));
        });
    }
}

/// The kernel spreads flows over all queues of an interface, so a port that has some of them gets some of the packets.
#[test]
fn a_port_says_that_it_does_not_have_all_queues() {
    on_a_pair(2, |_| {
        let pool = small_pool();
        let detail = |spec: &str| open(spec, &pool).unwrap().caps().detail.clone();
        let one = detail("xdp:near");
        assert!(
            one.ends_with("1 of 2 receive queues: packets of the others stay with the host (queues=2 takes all)"),
            "{one}"
        );
        assert!(!detail("xdp:near,tx_only").contains("receive queues"));
        let both = open_device("xdp:near,queues=2", &pool).unwrap().into_ports();
        assert!(both.iter().all(|port| !port.caps().detail.contains("receive queues")));
    });
}

#[test]
fn a_receiver_polls_the_device_by_itself() {
    on_a_pair(1, |_| {
        // On a veth there are two halves of each interface: its NAPI runs in softirqs of the sender unless it defers its interrupts.
        let mut pool = small_pool();
        let mut near = open("xdp:near", &pool).unwrap();
        let mut far = open("xdp:far,busy_poll=64,defer=200", &pool).unwrap();
        assert!(far.caps().detail.contains("busy polling by 64, packets of 200 us at once"), "{}", far.caps().detail);
        let (mut sending, mut received) = (Batch::new(&pool, 32), Batch::new(&pool, 48));
        for round in 0..200 {
            add_packets(&mut pool, &mut sending, round * 32, 32, length);
            while !sending.is_empty() {
                near.transmit(&mut sending).unwrap();
            }
            receive_until(&mut far, &mut received, 32).unwrap();
            for (number, packet) in received.iter().enumerate() {
                assert_eq!(read_packet(packet), Some(round * 32 + number as u32), "round {round}");
            }
            pool.free(&mut received);
        }
        assert_eq!(far.stats().unwrap().rx_dropped(), 0);
    });
}

#[test]
fn options_that_cannot_be_are_refused_in_words() {
    on_a_pair(1, |_| {
        let pool = small_pool();
        let error = |spec: &str| open(spec, &pool).map(drop).unwrap_err().to_string();
        assert!(error("xdp:near,symmetric").contains("the driver of near takes no key for RSS"));
        assert!(error("xdp:near,busy_poll=0").contains("busy_poll"));
        assert!(error("xdp:near,busy_poll=64,tx_only").contains("busy_poll is for a port that receives"));
        assert!(error("xdp:near,defer=200,tx_only").contains("defer is for a port that receives"));
    });
}

#[test]
fn a_sender_alone_attaches_nothing() {
    on_a_pair(1, |_| {
        let mut pool = small_pool();
        let mut near = open("xdp:near,tx_only", &pool).unwrap();
        assert!(!near.caps().receives);
        // Were there a program on it, this would be refused.
        let program = linerate_bpf::programs::drop_count::DropCount::load(false).unwrap();
        let ifindex = device("near").index().unwrap();
        linerate_bpf::XdpLink::attach(program.program(), ifindex, linerate_bpf::AttachMode::Native).unwrap();
        let mut batch = Batch::new(&pool, 256);
        for round in 0..40 {
            add_packets(&mut pool, &mut batch, round * 256, 256, |_| 60);
            while !batch.is_empty() {
                near.transmit(&mut batch).unwrap();
            }
        }
        assert_eq!(near.receive(&mut batch).unwrap(), 0);
        flush(&mut near);
        let stats = near.stats().unwrap();
        assert_eq!(stats.tx_packets + stats.tx_dropped(), 40 * 256);
        assert_eq!(stats.tx_bytes, stats.tx_packets * 60);
        drop((near, batch));
        assert!(is_whole(&mut pool));
    });
}

#[test]
fn what_a_full_receiver_loses_is_counted_to_the_packet() {
    for options in ["", ",generic", ",ring=64", ",frags", ",frags,generic"] {
        on_a_pair(1, |_| {
            let mut pool = small_pool();
            let mut far = open(&format!("xdp:far{options}"), &pool).unwrap();
            let mut near = open("xdp:near,tx_only", &pool).unwrap();
            let mut sending = Batch::new(&pool, 64);
            for round in 0..100 {
                add_packets(&mut pool, &mut sending, round * 64, 64, |_| 200);
                while !sending.is_empty() {
                    near.transmit(&mut sending).unwrap();
                }
            }
            flush(&mut near);
            let (level, all) = far.rx_occupancy().unwrap();
            assert!(level == all && all > 0 && near.rx_occupancy().is_none(), "{options}: {level} of {all}");
            let mut received = Batch::new(&pool, 64);
            loop {
                if far.receive(&mut received).unwrap() == 0 {
                    break;
                }
                pool.free(&mut received);
            }
            assert_eq!(far.rx_occupancy(), Some((0, all)));
            let (sent, got) = (near.stats().unwrap(), far.stats().unwrap());
            assert_eq!(sent.tx_packets + sent.tx_dropped(), 6400);
            assert_eq!(got.rx_packets + got.rx_dropped(), sent.tx_packets, "{got:?}");
            assert!(got.rx_dropped() > 3000, "{got:?}");
            assert_eq!(got.rx_drops[0].cause, "no free frame in the fill ring");
            // The receiver works on afterwards.
            add_packets(&mut pool, &mut sending, 9, 1, |_| 60);
            near.transmit(&mut sending).unwrap();
            receive_until(&mut far, &mut received, 1).unwrap();
            assert_eq!(read_packet(received.packet(0)), Some(9));
            drop((near, far, sending, received));
            assert!(is_whole(&mut pool));
        });
    }
}

#[test]
fn packets_that_the_driver_refuses_are_counted() {
    on_a_pair(1, |_| {
        let mut pool = small_pool();
        let mut near = open("xdp:near,tx_only", &pool).unwrap();
        let mut batch = Batch::new(&pool, 50);
        // A veth whose other end is down has no carrier; the kernel then takes packets and drops them.
        set_up("far", false);
        add_packets(&mut pool, &mut batch, 0, 50, length);
        near.transmit(&mut batch).unwrap();
        set_up("far", true);
        add_packets(&mut pool, &mut batch, 50, 50, length);
        near.transmit(&mut batch).unwrap();
        flush(&mut near);
        let stats = near.stats().unwrap();
        assert_eq!(stats.tx_packets + stats.tx_dropped(), 100, "{stats:?}");
        assert_eq!(stats.tx_drops[0].cause, "refused by the driver");
        // The carrier comes back when the kernel's link watch has run, which may be after the second batch.
        match stats.tx_packets {
            0 => assert_eq!(stats.tx_bytes, 0),
            50 => assert_eq!(stats.tx_bytes, (50..100).map(|number| length(number) as u64).sum::<u64>()),
            other => assert!(other < 50),
        }
        drop((near, batch));
        assert!(is_whole(&mut pool));
    });
}

#[test]
fn packets_over_several_frames() {
    for (options, frame_size) in [(",native", 2048), (",generic", 2048), ("", 4096)] {
        on_a_pair(1, |_| {
            set_mtu(9000);
            let config = PoolConfig { frames: 4096, frame_size };
            let mut pool = Pool::new(config).unwrap();
            // The MTU says that one frame is not enough.
            let mut far = open(&format!("xdp:far{options}"), &pool).unwrap();
            let mut near = open("xdp:near,tx_only", &pool).unwrap();
            assert!(far.caps().frags_max > 1);
            assert_eq!(near.caps().frame_len_max, 9014);
            let mut batch = Batch::new(&pool, 64);
            let mut received = Batch::new(&pool, 64);
            let lengths = [60, 1514, 1600, 3000, 9014, 9013, 14, 5000, 9014];
            for (number, len) in lengths.into_iter().enumerate() {
                add_segmented(&mut pool, &mut batch, number as u32, len);
            }
            assert_eq!(near.transmit(&mut batch).unwrap(), lengths.len());
            flush(&mut near);
            let mut packets: Vec<Vec<u8>> = vec![Vec::new()];
            while packets.len() <= lengths.len() {
                receive_until(&mut far, &mut received, 1).unwrap();
                assert!(!received.is_empty(), "{} of {} packets", packets.len() - 1, lengths.len());
                for index in 0..received.len() {
                    packets.last_mut().unwrap().extend(received.packet(index));
                    if !received.more(index) {
                        packets.push(Vec::new());
                    }
                }
                pool.free(&mut received);
            }
            packets.pop();
            let got: Vec<usize> = packets.iter().map(Vec::len).collect();
            assert_eq!(got, lengths);
            for (number, packet) in packets.iter().enumerate().filter(|(_, packet)| packet.len() > 18) {
                assert_eq!(read_packet(packet), Some(number as u32));
            }
            let (sent, got) = (near.stats().unwrap(), far.stats().unwrap());
            let bytes: u64 = lengths.iter().map(|len| *len as u64).sum();
            assert_eq!((sent.tx_packets, sent.tx_bytes), (lengths.len() as u64, bytes));
            assert_eq!((got.rx_packets, got.rx_bytes, got.rx_drops), (lengths.len() as u64, bytes, vec![]));
            // A batch with too little room for any packet of this kind would block the port for ever.
            let mut narrow = Batch::new(&pool, 2);
            add_segmented(&mut pool, &mut batch, 1, 9014);
            add_segmented(&mut pool, &mut batch, 2, 60);
            near.transmit(&mut batch).unwrap();
            receive_until(&mut far, &mut narrow, 1).unwrap();
            assert_eq!(read_packet(narrow.packet(0)), Some(2));
            assert_eq!(far.stats().unwrap().rx_dropped(), 1);
            drop((near, far, batch, received, narrow));
            assert!(is_whole(&mut pool));
        });
    }
}

#[test]
fn as_many_slots_as_the_port_says_make_a_packet() {
    on_a_pair(1, |_| {
        let mut pool = small_pool();
        let mut near = open("xdp:near,frags,tx_only", &pool).unwrap();
        let mut far = open("xdp:far,frags", &pool).unwrap();
        let most = near.caps().frags_max;
        let (mut batch, mut received) = (Batch::new(&pool, 64), Batch::new(&pool, 8));
        for slots in [most, most + 1] {
            let first = batch.len();
            pool.alloc(&mut batch, slots, 50);
            (0..slots).for_each(|slot| batch.set_more(first + slot, slot + 1 < slots));
        }
        let error = near.transmit(&mut batch).unwrap_err();
        assert!(matches!(&error, PortError::Unsupported { what, .. } if what.contains("18 frames")), "{error}");
        assert_eq!(batch.len(), most + 1);
        flush(&mut near);
        receive_until(&mut far, &mut received, 1).unwrap();
        assert_eq!(received.packet(0).len(), most * 50);
        let stats = near.stats().unwrap();
        assert_eq!((stats.tx_packets, stats.tx_bytes, stats.tx_dropped()), (1, most as u64 * 50, 0));
        drop((near, far, batch, received));
        assert!(is_whole(&mut pool));
    });
}

/// Appends a packet of `len` bytes over as many slots as it needs.
fn add_segmented(pool: &mut Pool, batch: &mut Batch, number: u32, len: usize) {
    let mut bytes = vec![0; len.max(18)];
    write_packet(&mut bytes, number);
    let mut rest = &bytes[..len];
    while !rest.is_empty() {
        let (part, after) = rest.split_at(rest.len().min(pool.packet_len_max()));
        let at = batch.len();
        assert_eq!(pool.alloc(batch, 1, part.len()), 1);
        batch.packet_mut(at).copy_from_slice(part);
        batch.set_more(at, !after.is_empty());
        rest = after;
    }
}

#[test]
fn each_queue_is_a_port_of_the_device() {
    on_a_pair(3, |_| {
        let mut pool = small_pool();
        let far = open_device("xdp:far,queues=3,ring=512", &pool).unwrap();
        assert_eq!((far.queues(), far.name()), (3, "xdp:far,queues=3,ring=512"));
        let mut receivers = far.into_ports();
        let names: Vec<String> = receivers.iter().map(|port| port.caps().name.clone()).collect();
        assert_eq!(names, ["xdp:far@0,ring=512", "xdp:far@1,ring=512", "xdp:far@2,ring=512"]);
        let mut senders = open_device("xdp:near,queues=3,tx_only", &pool).unwrap().into_ports();
        let (mut batch, mut received) = (Batch::new(&pool, 64), Batch::new(&pool, 64));
        for (queue, (near, far)) in senders.iter_mut().zip(&mut receivers).enumerate() {
            add_packets(&mut pool, &mut batch, queue as u32 * 1000, 64, |_| 100);
            near.transmit(&mut batch).unwrap();
            receive_until(far, &mut received, 64).unwrap();
            let numbers: Vec<u32> = received.iter().map(|packet| read_packet(packet).unwrap()).collect();
            assert_eq!(numbers, (queue as u32 * 1000..queue as u32 * 1000 + 64).collect::<Vec<_>>());
            pool.free(&mut received);
            // Back on the same queue: every port sends, too.
            add_packets(&mut pool, &mut batch, queue as u32, 8, |_| 60);
            assert_eq!(far.transmit(&mut batch).unwrap(), 8);
            flush(far);
            assert_eq!((far.stats().unwrap().rx_packets, far.stats().unwrap().tx_packets), (64, 8));
        }
        drop((senders, receivers, batch, received));
        assert!(is_whole(&mut pool));
    });
}

#[test]
fn ports_of_one_process_share_the_program() {
    on_a_pair(2, |_| {
        let mut pool = small_pool();
        let mut first = Some(open("xdp:far@0", &pool).unwrap());
        let mut second = open("xdp:far@1", &pool).unwrap();
        let error = open("xdp:far@1,generic", &pool).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("another"), "{error}");
        let mut near = open("xdp:near@1,tx_only", &pool).unwrap();
        let mut batch = Batch::new(&pool, 8);
        let mut received = Batch::new(&pool, 8);
        for number in 0..2 {
            add_packets(&mut pool, &mut batch, number, 1, |_| 60);
            near.transmit(&mut batch).unwrap();
            receive_until(&mut second, &mut received, 1).unwrap();
            assert_eq!(read_packet(received.packet(0)), Some(number));
            pool.free(&mut received);
            // Goes without taking the program from the other.
            first = None;
        }
        assert!(first.is_none());
        drop((second, near, batch, received));
        assert!(is_whole(&mut pool));
    });
}

#[test]
fn packets_that_cannot_be_sent_are_refused_in_their_turn() {
    on_a_pair(1, |_| {
        let mut pool = small_pool();
        let mut near = open("xdp:near", &pool).unwrap();
        let mut far = open("xdp:far", &pool).unwrap();
        let (mut batch, mut received) = (Batch::new(&pool, 8), Batch::new(&pool, 8));
        add_packets(&mut pool, &mut batch, 0, 4, |number| if number == 2 { 1515 } else { 60 });
        let error = near.transmit(&mut batch).unwrap_err();
        assert!(matches!(error, PortError::FrameTooLong { len: 1515, max: 1514, .. }), "{error}");
        assert_eq!((batch.len(), batch.packet(0).len()), (2, 1515));
        batch.set_len(0, 13);
        assert!(matches!(near.transmit(&mut batch).unwrap_err(), PortError::Unsupported { .. }));
        // With a VLAN tag 4 bytes more are right.
        batch.set_len(0, 1518);
        write_packet(batch.packet_mut(0), 2);
        batch.packet_mut(0)[12..14].copy_from_slice(&[0x81, 0]);
        batch.set_more(1, true);
        assert_eq!(near.transmit(&mut batch).unwrap(), 1);
        assert_eq!((batch.len(), near.transmit(&mut batch).unwrap()), (1, 0), "the packet is not complete");
        let at = batch.len();
        add_packets(&mut pool, &mut batch, 5, 1, |_| 60);
        assert!(matches!(near.transmit(&mut batch).unwrap_err(), PortError::FrameTooLong { len: 120, .. }));
        assert_eq!(batch.len(), at + 1);
        receive_until(&mut far, &mut received, 3).unwrap();
        let lengths: Vec<usize> = received.iter().map(<[u8]>::len).collect();
        assert_eq!(lengths, [60, 60, 1518]);
        let mut other = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
        let mut foreign = Batch::new(&other, 8);
        other.alloc(&mut foreign, 1, 60);
        assert!(matches!(near.transmit(&mut foreign).unwrap_err(), PortError::ForeignPool { .. }));
        assert!(matches!(near.receive(&mut foreign).unwrap_err(), PortError::ForeignPool { .. }));
        assert_eq!(near.wait(Interest::Receive, 1_000_000).unwrap(), Readiness::TimedOut);
        drop((near, far, batch, received));
        assert!(is_whole(&mut pool));
    });
}

#[test]
fn another_mtu_is_noticed() {
    on_a_pair(1, |_| {
        let mut pool = small_pool();
        let mut near = open("xdp:near,tx_only", &pool).unwrap();
        let mut batch = Batch::new(&pool, 1);
        let mut send = |near: &mut dyn Port, number| {
            add_packets(&mut pool, &mut batch, number, 1, |_| 1514);
            let result = near.transmit(&mut batch);
            pool.free(&mut batch);
            flush(near);
            result
        };
        assert_eq!(send(&mut near, 0).unwrap(), 1);
        set_mtu(1000);
        let refused = (1..1000).find_map(|number| send(&mut near, number).err()).expect("still sends what is too long");
        assert!(matches!(refused, PortError::FrameTooLong { len: 1514, max: 1014, .. }), "{refused}");
        assert_eq!(near.caps().frame_len_max, 1014);
        set_mtu(1500);
        assert_eq!(send(&mut near, 1000).unwrap(), 1, "there is room again");
    });
}

#[test]
fn promiscuous_while_it_receives_unless_told_not_to() {
    let Some(namespace) = pair(1) else { return };
    for (spec, wanted) in [("xdp:far", true), ("xdp:far,promisc=no", false), ("xdp:far,tx_only", false)] {
        let port = namespace.run(|| open(spec, &small_pool()).unwrap()).unwrap();
        let Some(during) = promiscuous(&namespace, "far") else { return eprintln!("skipped: no sysfs to look into") };
        assert_eq!(during, wanted, "{spec}");
        drop(port);
        assert_eq!(promiscuous(&namespace, "far"), Some(false), "{spec}");
    }
}

#[test]
fn a_pool_without_frames_loses_packets_and_recovers() {
    on_a_pair(1, |_| {
        let mut pool = Pool::new(PoolConfig { frames: 512, ..PoolConfig::default() }).unwrap();
        let mut far = open("xdp:far", &pool).unwrap();
        let mut near = open("xdp:near,tx_only", &pool).unwrap();
        let (mut batch, mut hoard) = (Batch::new(&pool, 64), Batch::new(&pool, 512));
        let mut sent = 0;
        for round in 0..20 {
            add_packets(&mut pool, &mut batch, round * 32, 32, |_| 60);
            sent += near.transmit(&mut batch).unwrap() as u64;
            flush(&mut near);
            far.receive(&mut hoard).unwrap();
            if pool.available() < 64 {
                break;
            }
        }
        let held = hoard.len();
        assert!(held > 100);
        pool.free(&mut hoard);
        pool.flush();
        far.receive(&mut hoard).unwrap();
        add_packets(&mut pool, &mut batch, 7, 1, |_| 60);
        sent += near.transmit(&mut batch).unwrap() as u64;
        receive_until(&mut far, &mut hoard, 1).unwrap();
        let stats = far.stats().unwrap();
        assert_eq!(stats.rx_packets + stats.rx_dropped(), sent - near.stats().unwrap().tx_dropped());
        drop((near, far, batch, hoard));
        assert!(is_whole(&mut pool));
    });
}
