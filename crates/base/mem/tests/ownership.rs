//! Whatever happens to slots - taken, sent, received, dropped half-way - every frame has one owner and comes back.

use linerate_mem::{Batch, Checksum, HEADROOM, Pool, PoolConfig, Scattered, SlotTable, Span, Written, slot_ring};
#[cfg(not(miri))]
use proptest::prelude::*;

fn pool(frames: usize) -> Pool {
    Pool::new(PoolConfig { frames, ..PoolConfig::default() }).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Take(usize),
    Put(usize),
    Send,
    Receive,
    ReturnReceived,
    Move(usize),
}

#[cfg(not(miri))]
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0usize..90).prop_map(Step::Take),
        (0usize..40).prop_map(Step::Put),
        Just(Step::Send),
        Just(Step::Receive),
        Just(Step::ReturnReceived),
        (0usize..40).prop_map(Step::Move),
    ]
}

#[cfg(not(miri))]
proptest! {
    #[test]
    fn every_frame_has_one_owner(start in any::<u32>(), steps in proptest::collection::vec(step(), 0..120)) {
        owners(start, &steps);
    }
}

/// The generators of proptest take minutes in the interpreter; these steps take seconds.
#[cfg(miri)]
#[test]
fn every_frame_has_one_owner() {
    for seed in 0..4usize {
        let steps = (0..40).map(|at| match (at * (seed + 1) + seed) % 7 {
            0 | 1 => Step::Take((at * 13 + seed) % 90),
            2 => Step::Put((at * 11) % 40),
            3 => Step::Send,
            4 => Step::Receive,
            5 => Step::ReturnReceived,
            _ => Step::Move((at * 5) % 40),
        });
        owners(u32::MAX - 9 * seed as u32, &steps.collect::<Vec<_>>());
    }
}

fn owners(start: u32, steps: &[Step]) {
    let mut pool = pool(300);
    let mut other = pool.clone();
    let (mut sender, mut receiver) = slot_ring(&pool, 32, start);
    let mut out = Batch::new(&pool, 64);
    let mut back = Batch::with_times(&pool, 48);
    let mut in_ring = 0;
    let mut next = 0u32;
    for step in steps {
        match *step {
            Step::Take(count) => {
                let held = out.len();
                let taken = pool.alloc(&mut out, count, 60);
                for index in held..held + taken {
                    next += 1;
                    out.packet_mut(index)[..4].copy_from_slice(&next.to_be_bytes());
                }
            }
            Step::Put(count) => pool.free_front(&mut out, count),
            Step::Send => in_ring += sender.send(&mut out),
            Step::Receive => in_ring -= receiver.receive(&mut back),
            Step::ReturnReceived => other.free(&mut back),
            Step::Move(count) => {
                out.move_to(&mut back, count);
            }
        }
        // No two live packets share bytes: all marks differ.
        let mut is_seen = vec![false; next as usize + 1];
        for packet in out.iter().chain(back.iter()) {
            let mark = u32::from_be_bytes([packet[0], packet[1], packet[2], packet[3]]);
            assert!(!std::mem::replace(&mut is_seen[mark as usize], true), "two packets share the bytes of {mark}");
        }
        let held = out.len() + back.len();
        other.flush();
        assert_eq!(pool.available() + held + in_ring, 300);
    }
    drop((sender, receiver, out, back, other));
    assert!(pool.is_whole());
}

#[test]
fn an_empty_pool_gives_what_it_has() {
    let mut pool = pool(100);
    let mut batch = Batch::new(&pool, 128);
    assert_eq!(pool.alloc(&mut batch, 128, 9000), 100);
    assert_eq!(batch.packet(0).len(), pool.packet_len_max());
    assert_eq!(pool.alloc(&mut batch, 1, 60), 0);
    assert!(pool.alloc_slot(60).is_none());
    drop(batch);
    assert!(pool.is_whole());
}

#[test]
fn a_packet_stays_inside_its_frame() {
    let mut pool = pool(16);
    let mut batch = Batch::new(&pool, 16);
    pool.alloc(&mut batch, 16, 60);
    for index in 0..16 {
        batch.set_len(index, 60_000);
        assert!(batch.packet(index).len() <= pool.region().frame_size());
        batch.packet_mut(index).fill(index as u8);
    }
    assert!((0..16).all(|index| batch.packet(index) == vec![index as u8; batch.packet(index).len()]));
}

#[test]
fn filling_stops_when_told_and_wastes_no_frame() {
    let mut pool = pool(100);
    let len_max = pool.packet_len_max();
    let mut batch = Batch::with_times(&pool, 200);
    let mut next = 0;
    let mut three = |bytes: &mut [u8]| {
        assert_eq!(bytes.len(), len_max);
        next += 1;
        bytes[..4].fill(next);
        (next % 4 != 0).then_some(Written { len: 4, time_ns: next.into(), ..Written::default() })
    };
    assert_eq!(pool.fill(&mut batch, 10, &mut three), 3);
    assert_eq!(pool.fill(&mut batch, 2, &mut three), 2);
    assert_eq!(pool.available(), 95);
    for (index, number) in [1u8, 2, 3, 5, 6].into_iter().enumerate() {
        assert_eq!(batch.packet(index), [number; 4]);
        assert_eq!(batch.time_ns(index), Some(number.into()));
    }
    // What is said to be longer than the room is cut; an empty pool ends the filling.
    assert_eq!(pool.fill(&mut batch, 200, |_| Some(Written { len: usize::MAX, ..Written::default() })), 95);
    assert!(batch.iter().skip(5).all(|packet| packet.len() == len_max));
    drop(batch);
    assert!(pool.is_whole());
}

#[test]
fn packets_that_are_written_one_by_one_do_not_overlap() {
    let mut pool = pool(100);
    let len_max = pool.packet_len_max();
    let mut batch = Batch::with_times(&pool, 101);
    let lens = [0, 1, 43, 60, 64, 500, 1514, len_max];
    let len = |number: usize| lens[number % lens.len()];
    for number in 0..100 {
        assert!(pool.alloc_one(&mut batch, len_max + 1, Checksum::Unknown).is_none(), "it is too long");
        let bytes = pool.alloc_one(&mut batch, len(number), Checksum::Partial).unwrap();
        assert_eq!(bytes.len(), len(number));
        bytes.fill(number as u8);
        batch.set_time_ns(number, 7);
    }
    assert!(pool.alloc_one(&mut batch, 60, Checksum::Unknown).is_none(), "no frame is free");
    let mut offsets = std::collections::HashSet::new();
    for number in 0..100 {
        assert_eq!(batch.packet(number), vec![number as u8; len(number)]);
        assert_eq!(batch.checksum(number), Checksum::Partial);
        let offset = batch.region_offset(number) % pool.region().frame_size();
        assert!((HEADROOM..=pool.region().frame_size() - len(number)).contains(&offset));
        offsets.insert(offset);
    }
    // Short packets begin in more lines than long ones can.
    assert!(offsets.len() > 8, "{offsets:?}");
    pool.free_front(&mut batch, 1);
    // The place of the packet that left the front is behind the others.
    pool.alloc_one(&mut batch, 4, Checksum::Unknown).unwrap().fill(1);
    assert!((0..99).all(|number| batch.packet(number) == vec![number as u8 + 1; len(number + 1)]));
    assert_eq!(batch.packet(99), [1; 4]);
    assert_eq!(batch.time_ns(99), Some(0), "the packet has no time of another one");
    let mut full = Batch::new(&pool, 1);
    pool.free_front(&mut batch, 2);
    assert!(pool.alloc_one(&mut full, 4, Checksum::Unknown).is_some());
    assert!(pool.alloc_one(&mut full, 4, Checksum::Unknown).is_none(), "there is no room");
    drop((batch, full));
    assert!(pool.is_whole());
}

#[test]
fn a_copied_packet_is_whole_or_not_there() {
    let mut pool = pool(10);
    let len_max = pool.packet_len_max();
    let long: Vec<u8> = (0..len_max * 3 + 5).map(|at| at as u8).collect();
    let mut batch = Batch::with_times(&pool, 6);
    assert!(pool.append(&mut batch, &long, 7));
    assert!(!pool.append(&mut batch, &long, 8), "there is no room for four more");
    assert!(pool.append(&mut batch, &[], 9) && pool.append(&mut batch, &[1; 60], 10));
    let lens: Vec<usize> = batch.iter().map(<[u8]>::len).collect();
    assert_eq!(lens, [len_max, len_max, len_max, 5, 0, 60]);
    let more: Vec<bool> = (0..6).map(|index| batch.more(index)).collect();
    assert_eq!(more, [true, true, true, false, false, false]);
    assert_eq!(batch.iter().take(4).collect::<Vec<_>>().concat(), long);
    assert_eq!((batch.time_ns(0), batch.time_ns(5)), (Some(7), Some(10)));
    let mut other = Batch::new(&pool, 6);
    assert!(pool.append(&mut other, &long, 0));
    assert!(!pool.append(&mut other, &[1; 60], 0), "there is no frame left");
    drop((batch, other));
    assert!(pool.is_whole());
}

#[test]
fn order_and_times_survive_compaction() {
    let mut pool = pool(64);
    let mut batch = Batch::with_times(&pool, 8);
    let mut oldest = 0u64;
    let mut newest = 0u64;
    for _ in 0..50 {
        let held = batch.len();
        let taken = pool.alloc(&mut batch, 3, 60);
        for index in held..held + taken {
            batch.set_time_ns(index, newest);
            newest += 1;
        }
        for _ in 0..2 {
            assert_eq!(batch.time_ns(0), Some(oldest));
            pool.free_front(&mut batch, 1);
            oldest += 1;
        }
    }
}

#[test]
fn slots_cross_threads_while_ends_come_and_go() {
    let rounds = if cfg!(miri) { 3 } else { 200 };
    let mut pool = pool(512);
    for round in 0..rounds {
        let (mut sender, mut receiver) = slot_ring(&pool, 16, round);
        let mut sending = pool.clone();
        let mut receiving = pool.clone();
        let thread = std::thread::spawn(move || {
            let mut batch = Batch::new(&sending, 8);
            for _ in 0..20 {
                sending.alloc(&mut batch, 8, 60);
                sender.send(&mut batch);
            }
        });
        let mut batch = Batch::new(&receiving, 8);
        for _ in 0..round % 20 {
            receiver.receive(&mut batch);
            receiving.free(&mut batch);
        }
        drop((receiver, batch, receiving));
        thread.join().unwrap();
        pool.flush();
        assert!(pool.is_whole(), "round {round}");
    }
}

#[test]
fn only_whole_packets_come_out_of_a_ring() {
    let mut pool = pool(64);
    let (mut sender, mut receiver) = slot_ring(&pool, 8, u32::MAX - 2);
    let mut out = Batch::new(&pool, 8);
    pool.alloc(&mut out, 5, 100);
    assert!(!out.has_frags());
    for index in [0, 2, 3] {
        out.set_more(index, true);
    }
    assert!(out.has_frags());
    assert_eq!(out.span(0), Some(Span { slots: 2, len: 200 }));
    assert_eq!(out.span(1), Some(Span { slots: 1, len: 100 }));
    assert_eq!(out.span(2), Some(Span { slots: 3, len: 300 }));
    assert_eq!(out.span(5), None);
    // The second packet is sent in two halves; its first half alone does not come out.
    assert_eq!(sender.send_front(&mut out, 4), 4);
    let mut small = Batch::new(&pool, 1);
    let mut back = Batch::new(&pool, 4);
    assert_eq!(receiver.receive(&mut small), 0);
    assert_eq!(receiver.receive(&mut back), 2);
    assert_eq!(receiver.receive(&mut back), 0);
    assert_eq!(out.span(0).map(|span| span.slots), Some(1));
    assert_eq!(sender.send(&mut out), 1);
    // Two of four slots are taken: three do not fit.
    assert_eq!(receiver.receive(&mut back), 0);
    pool.free(&mut back);
    assert_eq!(receiver.receive(&mut back), 3);
    drop((sender, receiver, out, back, small));
    assert!(pool.is_whole());
}

#[test]
fn copies_go_from_any_region_into_as_few_frames_as_they_need() {
    let mut source_pool = Pool::new(PoolConfig { frames: 64, frame_size: 1024 }).unwrap();
    let mut pool = pool(8);
    let mut source = Batch::with_times(&source_pool, 64);
    let mut into = Batch::with_times(&pool, 6);
    let packet: Vec<u8> = (0..5000usize).map(|n| (n * 31 % 251) as u8).collect();
    for len in [0, 1, 60, 576, 577, 1600, 1601, 3200, 5000] {
        assert!(source_pool.append(&mut source, &packet[..len], 77));
        assert!(pool.copy(&source, 0, &mut into));
        let bytes = into.iter().collect::<Vec<_>>().concat();
        assert_eq!(bytes, packet[..len]);
        assert_eq!(into.span(0), Some(Span { slots: len.div_ceil(pool.packet_len_max()).max(1), len }));
        assert_eq!(into.time_ns(into.len() - 1), source.time_ns(0));
        pool.free(&mut into);
        source_pool.free(&mut source);
    }
    // Neither the frames, nor the room, nor the end of the packet: nothing happens.
    assert!(source_pool.append(&mut source, &packet[..5000], 0));
    assert!(pool.copy(&source, 0, &mut into));
    let mut hoard = Batch::new(&pool, 8);
    pool.alloc(&mut hoard, 2, 60);
    pool.flush();
    let free = pool.available();
    assert!(!pool.copy(&source, 0, &mut into));
    pool.free(&mut hoard);
    assert_eq!((into.len(), pool.available()), (4, free + 2));
    assert!(!pool.copy(&source, 0, &mut into), "no room");
    source.set_more(source.len() - 1, true);
    let mut empty = Batch::new(&pool, 8);
    assert!(!pool.copy(&source, 0, &mut empty) && !pool.copy(&source, 99, &mut empty));
    pool.free_back(&mut into, 3);
    assert_eq!((into.len(), into.packet(0)), (1, &packet[..1600]));
    drop((into, empty, hoard));
    assert!(pool.is_whole());
}

#[test]
fn packets_begin_in_many_lines_and_behind_the_headroom() {
    // (bytes of a frame, bytes of a packet, lines of a frame that packets begin in)
    let cases = [(512, 64, 7), (1024, 60, 15), (2048, 60, 31), (2048, 64, 31), (2048, 1514, 7), (2048, 1600, 7)];
    for (frame_size, len, lines) in cases {
        let mut pool = Pool::new(PoolConfig { frames: 64, frame_size }).unwrap();
        assert_eq!(pool.packet_len_max(), frame_size - 448);
        let mut batch = Batch::new(&pool, 64);
        assert_eq!(pool.alloc(&mut batch, 64, len), 64);
        let mut begins: Vec<usize> = Vec::new();
        for index in 0..64 {
            assert_eq!(batch.packet(index).len(), len);
            let tail_room = batch.tail_room(index);
            assert!(batch.prepend(index, HEADROOM));
            begins.push(frame_size - len - tail_room);
            // Whatever the length, what is written stays inside the frame.
            batch.set_len(index, usize::MAX);
            if !cfg!(miri) {
                batch.packet_mut(index).fill(index as u8);
            }
        }
        let untouched = |index: usize| batch.packet(index).iter().all(|byte| *byte == index as u8);
        assert!(cfg!(miri) || (0..64).all(untouched));
        begins.sort();
        begins.dedup();
        assert_eq!(begins, (1..=lines).map(|line| line * 64).collect::<Vec<_>>(), "{frame_size} {len}");
        pool.free(&mut batch);
        assert!(pool.is_whole());
    }
}

#[test]
fn the_front_of_a_packet_moves_inside_its_frame() {
    let mut pool = Pool::new(PoolConfig { frames: 4, frame_size: 2048 }).unwrap();
    let mut batch = Batch::new(&pool, 4);
    pool.alloc(&mut batch, 4, 60);
    for index in 0..4 {
        batch.packet_mut(index).iter_mut().zip(0..).for_each(|(byte, value)| *byte = value);
        batch.adj(index, 20);
        assert_eq!((batch.packet(index).len(), batch.packet(index)[0]), (40, 20));
        assert!(batch.prepend(index, 36));
        assert_eq!((batch.packet(index).len(), batch.packet(index)[17], batch.packet(index)[75]), (76, 1, 59));
        assert!(!batch.prepend(index, 2048));
        let room = batch.tail_room(index);
        batch.set_len(index, usize::MAX);
        assert_eq!((batch.packet(index).len(), batch.tail_room(index)), (76 + room, 0));
        while batch.prepend(index, 1) {}
        assert_eq!(batch.packet(index).len(), 2048);
        batch.adj(index, usize::MAX);
        assert_eq!(batch.packet(index).len(), 0);
    }
    pool.free(&mut batch);
    assert!(pool.is_whole());
}

#[test]
fn moving_keeps_order_and_times() {
    let mut pool = pool(16);
    let (mut plain, mut timed) = (Batch::new(&pool, 8), Batch::with_times(&pool, 4));
    pool.alloc(&mut plain, 8, 60);
    (0..8).for_each(|index| plain.packet_mut(index)[0] = index as u8);
    assert_eq!(plain.move_to(&mut timed, 3), 3);
    (0..3).for_each(|index| timed.set_time_ns(index, 100 + index as u64));
    assert_eq!(timed.move_to(&mut plain, 2), 2);
    // Behind what was there, though the words had to move to the front for it.
    assert_eq!(plain.iter().map(|packet| packet[0]).collect::<Vec<_>>(), [3, 4, 5, 6, 7, 0, 1]);
    assert_eq!(plain.move_to(&mut timed, 99), 3);
    assert_eq!(timed.iter().map(|packet| packet[0]).collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert_eq!((timed.time_ns(0), timed.time_ns(1)), (Some(102), Some(0)));
    let mut other = Batch::with_times(&pool, 4);
    timed.move_to(&mut other, 1);
    assert_eq!(other.time_ns(0), Some(102));
}

#[test]
fn one_packet_moves_as_several_do() {
    let mut pool = pool(16);
    let (mut one, mut other) = (Batch::new(&pool, 4), Batch::new(&pool, 3));
    let mut next = 0u8;
    let mut send = |pool: &mut Pool, one: &mut Batch| {
        assert_eq!(pool.alloc(one, 1, 60), 1);
        one.packet_mut(0)[0] = next;
        next += 1;
    };
    for round in 0..10 {
        send(&mut pool, &mut one);
        assert_eq!(one.move_to(&mut other, 0), 0);
        assert_eq!(one.move_to(&mut other, 1 + round % 2), 1);
        assert_eq!((one.len(), other.packet(other.len() - 1)[0]), (0, round as u8));
        // The words of `other` reach its end, while there is room in front of them.
        if round > 0 {
            pool.free_front(&mut other, 1);
        }
    }
    assert_eq!((one.move_to(&mut other, 1), other.len()), (0, 1));
    (0..2).for_each(|_| {
        send(&mut pool, &mut one);
        one.move_to(&mut other, 1);
    });
    send(&mut pool, &mut one);
    assert_eq!((one.move_to(&mut other, 1), one.len()), (0, 1), "there is no room");
    drop((one, other));
    assert!(pool.is_whole());
}

#[test]
#[should_panic(expected = "another")]
fn one_packet_does_not_move_to_a_batch_of_another_region() {
    let (mut pool, foreign) = (pool(4), pool(4));
    let (mut batch, mut other) = (Batch::new(&pool, 4), Batch::new(&foreign, 4));
    pool.alloc(&mut batch, 1, 60);
    batch.move_to(&mut other, 1);
}

#[test]
fn a_frame_that_is_used_again_has_one_owner_and_all_of_its_room() {
    let (mut pool, mut foreign) = (pool(64), pool(4));
    let (mut free, mut arrived) = (Batch::new(&pool, 8), Batch::new(&pool, 8));
    let len = pool.packet_len_max();
    pool.alloc(&mut free, 8, len);
    pool.alloc(&mut arrived, 1, 60);
    assert!(!pool.reuse(&mut arrived, &mut free), "no packet was taken from `free`");
    let mut sent = Batch::new(&pool, 8);
    assert_eq!(free.move_to(&mut sent, 2), 2);
    // As a packet arrives: its front was cut, its checksum is known, and it says that it goes on.
    arrived.adj(0, 14);
    arrived.set_checksum(0, Checksum::Verified);
    arrived.set_more(0, true);
    let offset = arrived.region_offset(0);
    assert!(pool.reuse(&mut arrived, &mut free));
    assert_eq!((free.len(), arrived.len(), free.more(0), free.checksum(0)), (7, 0, false, Checksum::Unknown));
    assert_eq!((free.packet(0).len(), free.region_offset(0) / 2048), (len, offset / 2048));
    assert!(free.region_offset(0) % 2048 >= HEADROOM && free.region_offset(0) % 2048 + len <= 2048);
    assert!(!pool.reuse(&mut arrived, &mut free), "nothing arrived");
    pool.alloc(&mut arrived, 2, 60);
    assert!(!pool.reuse(&mut arrived, &mut free), "two packets arrived");
    let mut stranger = Batch::new(&foreign, 4);
    foreign.alloc(&mut stranger, 1, 60);
    assert!(!pool.reuse(&mut stranger, &mut free) && !foreign.reuse(&mut stranger, &mut free));
    assert!(!pool.reuse(&mut sent, &mut stranger) && stranger.len() == 1);
    // No two packets share a frame.
    let frames = |batch: &Batch| (0..batch.len()).map(|at| batch.region_offset(at) / 2048).collect::<Vec<_>>();
    let mut all = [frames(&free), frames(&arrived), frames(&sent)].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 7 + 2 + 2);
    drop((free, arrived, sent, stranger));
    assert!(pool.is_whole() && foreign.is_whole());
}

#[test]
fn frames_of_packets_that_arrived_are_free_as_far_as_there_is_room() {
    let (mut pool, mut foreign) = (pool(64), pool(4));
    let (mut free, mut arrived) = (Batch::new(&pool, 8), Batch::new(&pool, 8));
    let len = pool.packet_len_max();
    pool.alloc(&mut free, 5, len);
    pool.alloc(&mut arrived, 5, 60);
    arrived.adj(4, 14);
    arrived.set_checksum(4, Checksum::Verified);
    arrived.set_more(3, true);
    pool.renew(&mut arrived, &mut free);
    assert_eq!((free.len(), arrived.len()), (8, 2));
    for at in 0..8 {
        let offset = free.region_offset(at) % 2048;
        assert_eq!((free.packet(at).len(), free.more(at), free.checksum(at)), (len, false, Checksum::Unknown));
        assert!(offset >= HEADROOM && offset + len <= 2048);
    }
    pool.renew(&mut arrived, &mut free);
    assert_eq!((free.len(), arrived.len()), (8, 2), "there is no room");
    // Of a batch whose front was taken out, the place is used again.
    let mut sent = Batch::new(&pool, 8);
    assert_eq!(free.move_to(&mut sent, 3), 3);
    pool.renew(&mut arrived, &mut free);
    assert_eq!((free.len(), arrived.len()), (7, 0));
    pool.renew(&mut arrived, &mut free);
    assert_eq!(free.len(), 7, "nothing arrived");
    let mut stranger = Batch::new(&foreign, 4);
    foreign.alloc(&mut stranger, 1, 60);
    pool.renew(&mut stranger, &mut free);
    foreign.renew(&mut stranger, &mut free);
    pool.renew(&mut sent, &mut stranger);
    let mut timed = Batch::with_times(&pool, 8);
    pool.renew(&mut sent, &mut timed);
    assert_eq!((stranger.len(), free.len(), sent.len(), timed.len()), (1, 7, 3, 0));
    // No two packets share a frame.
    let frames = |batch: &Batch| (0..batch.len()).map(|at| batch.region_offset(at) / 2048).collect::<Vec<_>>();
    let mut all = [frames(&free), frames(&sent)].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 10);
    drop((free, arrived, sent, stranger, timed));
    assert!(pool.is_whole() && foreign.is_whole());
}

#[test]
fn a_slot_that_is_written_on_its_way_moves_when_it_is_finished() {
    let (mut pool, foreign) = (pool(16), pool(4));
    let (mut free, mut output) = (Batch::new(&pool, 4), Batch::new(&pool, 2));
    assert!(free.begin_move(&mut output).is_none(), "there is no slot");
    pool.alloc(&mut free, 4, 100);
    free.set_checksum(0, Checksum::Verified);
    assert!(free.begin_move(&mut output).is_some());
    assert_eq!((free.len(), output.len()), (4, 0), "it was not finished");
    for number in 0..2 {
        let mut slot = free.begin_move(&mut output).unwrap();
        slot.bytes()[0] = number;
        // More than the slot has is cut.
        slot.finish(if number == 0 { 60 } else { 2000 }, Checksum::Partial);
    }
    assert!(free.begin_move(&mut output).is_none(), "there is no room");
    assert!(free.begin_move(&mut Batch::new(&foreign, 4)).is_none(), "it is of another pool");
    assert!(free.begin_move(&mut Batch::with_times(&pool, 4)).is_none(), "it keeps times");
    assert_eq!((free.len(), output.len(), output.checksum(0)), (2, 2, Checksum::Partial));
    assert_eq!([0, 1].map(|at| (output.packet(at)[0], output.packet(at).len())), [(0, 60), (1, 100)]);
    drop((free, output));
    assert!(pool.is_whole());
}

#[test]
fn slots_leave_a_table_once_in_any_order_and_the_rest_goes_back_with_it() {
    let mut pool = pool(128);
    let (mut batch, mut taken) = (Batch::new(&pool, 64), Batch::new(&pool, 64));
    let mut table = SlotTable::new(&pool, 8);
    assert_eq!(table.insert(&mut batch), None, "there is nothing to put in");
    pool.alloc(&mut batch, 10, 60);
    batch.iter_mut().enumerate().for_each(|(index, packet)| packet[0] = index as u8);
    let numbers: Vec<u32> = std::iter::from_fn(|| table.insert(&mut batch)).collect();
    assert_eq!((numbers.len(), table.len(), table.room(), batch.len()), (8, 8, 0, 2));
    for (nth, number) in numbers.iter().rev().take(5).enumerate() {
        assert!(table.remove(*number, &mut taken));
        assert!(!table.remove(*number, &mut taken), "it left the table already");
        assert_eq!(taken.packet(nth)[0] as usize, 7 - nth);
    }
    assert!(!table.remove(8, &mut taken) && !table.remove(u32::MAX, &mut taken));
    assert!(!table.remove(numbers[0], &mut Batch::new(&pool, 0)), "there is no room");
    assert!(table.insert(&mut batch).is_some());
    pool.free(&mut batch);
    pool.free(&mut taken);
    assert_eq!((table.len(), pool.available()), (4, 124));
    drop(table);
    drop((batch, taken));
    assert!(pool.is_whole());
}

#[test]
fn packets_of_several_frames_are_written_and_read_frame_by_frame() {
    let mut pool = pool(10);
    let len_max = pool.packet_len_max();
    let mut batch = Batch::with_times(&pool, 6);
    let mut lens = Vec::new();
    let scattered = pool.scatter(&mut batch, len_max * 2 + 5, 9, |frame| {
        frame.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at + lens.len()) as u8);
        lens.push(frame.len());
    });
    assert_eq!((scattered, lens), (Scattered::Done, vec![len_max, len_max, 5]));
    assert_eq!((batch.span(0), batch.time_ns(2)), (Some(Span { slots: 3, len: len_max * 2 + 5 }), Some(9)));
    // More than there are slots, or frames: never. More than is free now: not now.
    let never = |_: &mut [u8]| panic!("there is nothing to write");
    assert_eq!(pool.scatter(&mut batch, len_max * 6 + 1, 0, never), Scattered::TooLong);
    assert_eq!(pool.scatter(&mut Batch::new(&pool, 64), len_max * 10 + 1, 0, never), Scattered::TooLong);
    assert_eq!(pool.scatter(&mut batch, len_max * 4, 0, never), Scattered::NotNow);
    assert_eq!(pool.scatter(&mut Batch::new(&pool, 64), len_max * 8, 0, never), Scattered::NotNow);
    assert_eq!((batch.len(), pool.available()), (3, 7));
    // Read in chunks of any size, and past the end.
    let whole = batch.iter().collect::<Vec<_>>().concat();
    // One byte after the other takes the interpreter seconds.
    let least = if cfg!(miri) { 61 } else { 1 };
    for most in [least, 7, len_max - 1, len_max, len_max + 1, usize::MAX] {
        let (mut reader, mut read) = (batch.reader(0, 3), Vec::new());
        loop {
            let chunk = reader.chunk(most);
            if chunk.is_empty() {
                break;
            }
            assert!(chunk.len() <= most);
            read.extend_from_slice(chunk);
        }
        assert_eq!(read, whole);
    }
    let (mut reader, mut read) = (batch.reader(0, 3), vec![0; whole.len() + 10]);
    assert!(reader.chunk(0).is_empty());
    assert_eq!((reader.read(&mut read[..100]), reader.read(&mut read[100..])), (100, whole.len() - 100));
    assert_eq!(read[..whole.len()], whole);
    assert_eq!(batch.reader(1, 1).read(&mut read), len_max, "one frag of it");
    drop(batch);
    assert!(pool.is_whole());
}
