//! Rings in an area of this process: the tests are the kernel, and whoever else writes into the area.

use std::sync::Arc;

use linerate_mem::{Batch, Pool, PoolConfig};
use proptest::prelude::*;

use crate::abi::{BUFFER_CHANGED, MORE_FRAGMENTS, SlotWord, interface, ring};
use crate::fault::Fault;
use crate::receive::Receiver;
use crate::ring::{Ring, Taker};
use crate::sys::{Area, RingMemory};
use crate::transmit::{Sender, Totals};

pub(crate) const BUFFER: usize = 2048;
pub(crate) const SLOTS: u32 = 8;
/// Places: the ring, and buffer 0 behind it; buffers 2 to 9 are those of its slots.
pub(crate) const HEADER: usize = 128;
pub(crate) const BUFFERS: usize = 1024;
const BUFFER_COUNT: usize = 10;

/// Makes a ring at byte `header` of an area.
pub(crate) fn lay_ring(area: &Arc<Area>, header: usize) -> RingMemory {
    area.poke(header + ring::BUFFERS, (BUFFERS - header) as u64);
    area.poke_u32(header + ring::SLOTS, SLOTS);
    area.poke_u32(header + ring::BUFFER_BYTES, BUFFER as u32);
    RingMemory::new(area, header).unwrap()
}

/// An area with one ring, and the kernel's side of it.
struct Kernel {
    area: Arc<Area>,
    memory: RingMemory,
}

impl Kernel {
    fn new() -> Kernel {
        let area = Arc::new(Area::fake((BUFFERS + BUFFER_COUNT * BUFFER) / 8));
        let memory = lay_ring(&area, HEADER);
        let kernel = Kernel { area, memory };
        (0..SLOTS).for_each(|index| kernel.set_slot(index, 2 + index, 0, 0));
        kernel
    }

    fn ring(&self) -> Ring {
        Ring::new(RingMemory::new(&self.area, HEADER).unwrap()).unwrap()
    }

    fn set_slot(&self, index: u32, buffer: u32, len: u16, flags: u16) {
        self.memory.set_slot(index, SlotWord { buffer, len, flags });
    }

    fn set_head(&self, head: u32) {
        self.memory.set_head(head);
    }

    fn set_tail(&self, tail: u32) {
        self.area.poke_u32(HEADER + ring::TAIL, tail);
    }

    fn cur(&self) -> u32 {
        self.area.peek_u32(HEADER + ring::CUR)
    }

    /// A packet arrives in slot `index`.
    fn arrive(&self, index: u32, bytes: &[u8], flags: u16) {
        assert!(self.memory.write(2 + index, 0, bytes));
        self.set_slot(index, 2 + index, bytes.len() as u16, flags);
    }

    /// The bytes of slot `index`.
    fn sent(&self, index: u32) -> Vec<u8> {
        let slot = self.memory.slot(index);
        let mut bytes = vec![0; usize::from(slot.len)];
        assert!(self.memory.read(slot.buffer, 0, &mut bytes));
        bytes
    }
}

fn pool() -> Pool {
    Pool::new(PoolConfig { frames: 64, frame_size: 2048 }).unwrap()
}

fn whole(mut pool: Pool, batch: Batch) {
    drop(batch);
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn packets_arrive_around_the_end_of_the_ring() {
    let kernel = Kernel::new();
    let mut receiver = Receiver::new(kernel.ring(), true, None);
    let (mut pool, mut next) = (pool(), 0);
    let mut batch = Batch::new(&pool, 16);
    for round in 0..40u8 {
        let count = 1 + u32::from(round) % (SLOTS - 1);
        for n in 0..count {
            kernel.arrive((next + n) % SLOTS, &[round ^ n as u8; 60], 0);
        }
        next = (next + count) % SLOTS;
        kernel.set_tail(next);
        receiver.ring.look().unwrap();
        assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(count as usize));
        assert!(batch.iter().enumerate().all(|(n, packet)| packet == [round ^ n as u8; 60]));
        // The next look finds an empty ring.
        receiver.release_all();
        assert_eq!((kernel.memory.head(), receiver.ring.available()), (next, 0));
        pool.free(&mut batch);
    }
    assert_eq!(receiver.totals.bytes, receiver.totals.packets * 60);
    whole(pool, batch);
}

#[test]
fn slots_that_a_sender_waits_for_go_back_many_at_a_time() {
    for (sender_waits, expected) in [(false, [1, 2, 3, 4, 5, 6, 7]), (true, [0, 2, 2, 4, 4, 6, 6])] {
        let kernel = Kernel::new();
        let mut receiver = Receiver::new(kernel.ring(), sender_waits, None);
        let mut pool = pool();
        let mut batch = Batch::new(&pool, 1);
        (0..SLOTS - 1).for_each(|n| kernel.arrive(n, &[n as u8; 60], 0));
        kernel.set_tail(SLOTS - 1);
        receiver.ring.look().unwrap();
        for head in expected {
            assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(1));
            pool.free(&mut batch);
            assert_eq!((kernel.memory.head(), receiver.ring.look()), (head, Ok(())));
            let drained = receiver.ring.available() == 0;
            assert_eq!(receiver.must_sync(true), sender_waits && head > 0 && !drained);
            assert_eq!(receiver.must_sync(false), sender_waits && (head > 0 || drained));
        }
        receiver.release_all();
        assert_eq!((kernel.memory.head(), receiver.ring.look()), (7, Ok(())));
        whole(pool, batch);
    }
}

#[test]
fn packets_of_several_slots_and_without_bytes() {
    let kernel = Kernel::new();
    let mut receiver = Receiver::new(kernel.ring(), false, None);
    let mut pool = pool();
    let mut batch = Batch::new(&pool, 4);
    kernel.arrive(0, &[1; 2000], MORE_FRAGMENTS);
    kernel.arrive(1, &[2; 700], 0);
    kernel.arrive(2, &[], 0);
    kernel.arrive(3, &[3; 60], 0);
    kernel.arrive(4, &[4; 60], MORE_FRAGMENTS);
    kernel.set_tail(5);
    receiver.ring.look().unwrap();
    // 2,700 bytes over two frames; the packet behind the last one is not complete.
    assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(2));
    assert_eq!(batch.span(0).map(|span| (span.slots, span.len)), Some((2, 2700)));
    let mut bytes = vec![0; 2700];
    batch.reader(0, 2).read(&mut bytes);
    assert!(bytes[..2000] == [1; 2000] && bytes[2000..] == [2; 700]);
    assert_eq!((batch.packet(2), receiver.totals.empty, receiver.ring.available()), (&[3; 60][..], 1, 1));
    assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(0));
    kernel.arrive(5, &[5; 60], 0);
    kernel.set_tail(6);
    receiver.ring.look().unwrap();
    // One slot of the batch is free: the packet needs one frame.
    assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(1));
    assert_eq!(batch.packet(3).len(), 120);
    whole(pool, batch);
}

/// Slots go back without a look at their buffers: the number of one that there is not, which `receive` takes for an attack, is the kernel's
/// matter.
#[test]
fn packets_that_nobody_reads_are_counted_by_their_slots_alone() {
    let kernel = Kernel::new();
    let mut receiver = Receiver::new(kernel.ring(), true, None);
    let (mut packets, mut bytes, mut next) = (0, 0, 0);
    for round in 0..40 {
        let count = 1 + round % (SLOTS - 1);
        for n in 0..count {
            kernel.set_slot((next + n) % SLOTS, u32::MAX, 60 + n as u16, 0);
            bytes += 60 + u64::from(n);
        }
        next = (next + count) % SLOTS;
        kernel.set_tail(next);
        receiver.ring.look().unwrap();
        // At most as many as were asked for, then the rest.
        for (most, came) in [(2, 2.min(count)), (0, 0), (u64::MAX, count.saturating_sub(2))] {
            receiver.count(most).unwrap();
            packets += u64::from(came);
            assert_eq!(receiver.totals.packets, packets);
        }
        // Whoever waits for the slots gets all of them at the next sync.
        assert_eq!((kernel.memory.head(), receiver.ring.available()), (next, 0));
        assert_eq!((receiver.totals.bytes, receiver.totals.empty), (bytes, 0));
        assert!((0..SLOTS).all(|index| kernel.memory.slot(index).flags & BUFFER_CHANGED == 0));
    }
}

#[test]
fn counted_packets_are_whole() {
    let kernel = Kernel::new();
    let mut receiver = Receiver::new(kernel.ring(), false, None);
    kernel.arrive(0, &[1; 2000], MORE_FRAGMENTS);
    kernel.arrive(1, &[2; 700], 0);
    kernel.arrive(2, &[], 0);
    kernel.arrive(3, &[3; 60], 0);
    kernel.arrive(4, &[4; 60], MORE_FRAGMENTS);
    kernel.set_tail(5);
    receiver.ring.look().unwrap();
    receiver.count(1).unwrap();
    assert_eq!((receiver.totals.packets, receiver.totals.bytes, kernel.memory.head()), (1, 2700, 2));
    receiver.count(9).unwrap();
    assert_eq!((receiver.totals.packets, receiver.totals.bytes, receiver.totals.empty), (2, 2760, 1));
    // The part of a packet stays; a sleep is to end when more of it is there.
    assert_eq!((kernel.memory.head(), receiver.ring.available(), kernel.cur()), (4, 1, 5));
    kernel.arrive(5, &[5; 60], 0);
    kernel.set_tail(6);
    receiver.ring.look().unwrap();
    let mut pool = pool();
    let mut batch = Batch::new(&pool, 4);
    assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(1));
    assert_eq!((batch.packet(0).len(), receiver.totals.packets), (120, 3));
    whole(pool, batch);
    for (len, flags) in [(2049, 0), (2049, MORE_FRAGMENTS), (10, MORE_FRAGMENTS)] {
        let kernel = Kernel::new();
        let mut receiver = Receiver::new(kernel.ring(), false, None);
        kernel.arrive(0, &[1; 60], 0);
        (1..SLOTS).for_each(|index| kernel.set_slot(index, 2, len, flags));
        kernel.set_tail(SLOTS - 1);
        receiver.ring.look().unwrap();
        let outcome = receiver.count(9);
        // A packet of seven slots without an end is one that may still get it.
        assert_eq!((outcome.is_err(), receiver.totals.packets), (len > 2048, 1), "{len} {flags}");
    }
}

#[test]
fn a_packet_that_no_batch_takes_is_counted() {
    let kernel = Kernel::new();
    let mut receiver = Receiver::new(kernel.ring(), false, None);
    let mut pool = pool();
    let mut batch = Batch::new(&pool, 2);
    (0..3).for_each(|index| kernel.arrive(index, &[1; 2000], if index < 2 { MORE_FRAGMENTS } else { 0 }));
    kernel.set_tail(3);
    receiver.ring.look().unwrap();
    assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(0));
    assert_eq!((receiver.totals.too_long, receiver.ring.available()), (1, 0));
    whole(pool, batch);
}

#[test]
fn packets_are_sent_until_the_ring_is_full() {
    let kernel = Kernel::new();
    kernel.set_head(5);
    kernel.set_tail(4);
    let mut sender = Sender::new(kernel.ring(), 65_535, Taker::Device, None);
    let mut pool = pool();
    let mut batch = Batch::new(&pool, 32);
    for n in 0..10u8 {
        assert!(pool.append(&mut batch, &[n; 64], 0));
    }
    assert_eq!(sender.transmit(&mut batch, &mut pool).ok(), Some(7));
    assert_eq!((batch.len(), kernel.memory.head(), sender.unsynced), (3, 4, 7));
    assert!((0..7u8).all(|n| kernel.sent((5 + u32::from(n)) % SLOTS) == [n; 64]));
    assert_eq!((sender.pending().packets, sender.sent().packets), (7, 0));
    // The kernel sent four of them.
    kernel.set_tail(0);
    sender.ring.look().unwrap();
    assert_eq!((sender.pending().packets, sender.sent().bytes), (3, 4 * 64));
    assert_eq!(sender.transmit(&mut batch, &mut pool).ok(), Some(3));
    assert!(batch.is_empty() && sender.ring.available() == 1);
    whole(pool, batch);
}

/// Who reads the buffers may write to them.
#[test]
fn a_packet_that_is_repeated_is_written_where_it_may_be_missing() {
    for taker in [Taker::Device, Taker::Switch, Taker::Reader] {
        let kernel = Kernel::new();
        kernel.set_tail(SLOTS - 1);
        let mut sender = Sender::new(kernel.ring(), 1514, taker, None);
        assert_eq!(sender.repeat(1), Ok(None), "none is loaded");
        let other = [1; 80];
        assert!(!sender.load(&[]) && !sender.load(&[7; 1515]) && sender.load(&[7; 60]));
        assert_eq!(sender.repeat(3), Ok(Some(3)));
        assert_eq!(sender.repeat(100), Ok(Some(4)));
        assert_eq!((sender.repeat(100), sender.unsynced, kernel.memory.head()), (Ok(Some(0)), 7, 7));
        assert!((0..7).all(|index| kernel.sent(index) == [7; 60]));
        // All were sent. Meanwhile somebody wrote into buffer 2 (the one of slot 0), and the kernel put another one into slot 1 or 3.
        kernel.set_tail(6);
        sender.ring.look().unwrap();
        sender.unsynced = 0;
        assert!(
            kernel.memory.write(2, 0, &other) && kernel.memory.write(9, 0, &other) && kernel.memory.write(5, 0, &other)
        );
        kernel.set_slot(1, 9, 60, 0);
        kernel.set_slot(3, 5, 60, BUFFER_CHANGED);
        assert_eq!(sender.repeat(5), Ok(Some(5)));
        let expected = |index| if index == 0 && taker != Taker::Reader { [1; 60] } else { [7; 60] };
        assert!([7, 0, 1, 2, 3].into_iter().all(|index| kernel.sent(index) == expected(index)), "{taker:?}");
        assert_eq!(kernel.memory.slot(3).flags & BUFFER_CHANGED, 0);
        // Packets of others came in between.
        let mut pool = pool();
        let mut batch = Batch::new(&pool, 4);
        (0..2u8).for_each(|n| assert!(pool.append(&mut batch, &[n; 64], 0)));
        assert_eq!(sender.transmit(&mut batch, &mut pool).ok(), Some(2));
        kernel.set_tail(5);
        sender.ring.look().unwrap();
        sender.unsynced = 0;
        assert_eq!(sender.repeat(7), Ok(Some(7)));
        assert!((0..SLOTS).filter(|index| *index != 5).all(|index| kernel.sent(index) == [7; 60]), "{taker:?}");
        let Totals { packets, bytes } = sender.pending();
        assert_eq!((sender.sent().packets + packets, sender.sent().bytes + bytes), (21, 19 * 60 + 2 * 64));
        kernel.set_tail(4);
        sender.ring.look().unwrap();
        sender.unsynced = 0;
        kernel.set_slot(5, 1 << 20, 0, 0);
        assert!(sender.repeat(1).is_err(), "a buffer that there is not");
        whole(pool, batch);
    }
}

/// Whichever buffer a reader writes to, a packet that is not the one that was loaded goes out 61 times at most.
#[test]
fn a_buffer_that_a_reader_writes_to_is_found() {
    for slot in 0..SLOTS {
        let kernel = Kernel::new();
        kernel.set_tail(SLOTS - 1);
        let mut sender = Sender::new(kernel.ring(), 1514, Taker::Reader, None);
        assert!(sender.load(&[7; 60]));
        assert_eq!(sender.repeat(7), Ok(Some(7)));
        let mut wrong = 0;
        for round in 0..2 * SLOTS * 61 {
            // It takes one packet; the sender fills the slot that became free.
            let next = (round + SLOTS - 1) % SLOTS;
            kernel.set_tail(round % SLOTS);
            let written = round >= SLOTS && next == slot;
            assert!(!written || kernel.memory.write(kernel.memory.slot(next).buffer, 0, &[1; 60]));
            sender.ring.look().unwrap();
            assert_eq!(sender.repeat(1), Ok(Some(1)));
            wrong += u32::from(kernel.sent(next) != [7; 60]);
        }
        assert!((1..=61).contains(&wrong), "slot {slot}: {wrong} times");
        assert_eq!(kernel.sent(slot), [7; 60]);
    }
}

#[test]
fn long_packets_go_over_several_slots_or_are_refused() {
    let kernel = Kernel::new();
    kernel.set_tail(SLOTS - 1);
    let mut sender = Sender::new(kernel.ring(), 65_535, Taker::Device, None);
    assert_eq!(sender.frame_len_max, BUFFER * 7);
    let mut pool = pool();
    let mut batch = Batch::new(&pool, 32);
    let long: Vec<u8> = (0..5000u32).map(|n| n as u8).collect();
    assert!(pool.append(&mut batch, &long, 0) && pool.append(&mut batch, &vec![7; BUFFER * 7 + 1], 0));
    assert_eq!(sender.transmit(&mut batch, &mut pool).ok(), Some(1));
    assert_eq!((0..3).flat_map(|index| kernel.sent(index)).collect::<Vec<u8>>(), long);
    let more: Vec<bool> = (0..3).map(|index| kernel.memory.slot(index).flags & MORE_FRAGMENTS != 0).collect();
    assert_eq!((more, sender.pending().packets), (vec![true, true, false], 1));
    assert!(matches!(sender.transmit(&mut batch, &mut pool), Err(Fault::TooLong(14_337))));
    whole(pool, batch);
}

#[test]
fn what_cannot_be_is_refused_when_a_ring_is_opened() {
    let kernel = Kernel::new();
    for (place, value) in
        [(ring::SLOTS, 0), (ring::SLOTS, 1 << 30), (ring::BUFFER_BYTES, 0), (ring::BUFFER_BYTES, 1 << 20)]
    {
        let kernel = Kernel::new();
        kernel.area.poke_u32(HEADER + place, value);
        assert!(RingMemory::new(&kernel.area, HEADER).is_err(), "{place} {value}");
    }
    for distance in [-129i64 as u64, 1 << 40, i64::MIN as u64] {
        let kernel = Kernel::new();
        kernel.area.poke(HEADER + ring::BUFFERS, distance);
        assert!(RingMemory::new(&kernel.area, HEADER).is_err(), "{distance:#x}");
    }
    for place in [4, usize::MAX, usize::MAX - 300, 1 << 40] {
        assert!(RingMemory::new(&kernel.area, place).is_err(), "{place}");
    }
    kernel.set_head(SLOTS);
    assert!(Ring::new(RingMemory::new(&kernel.area, HEADER).unwrap()).is_err());
    kernel.set_head(0);
    kernel.set_tail(SLOTS);
    assert!(Ring::new(RingMemory::new(&kernel.area, HEADER).unwrap()).is_err());
}

#[test]
fn places_of_rings_are_found_or_refused() {
    let area = Area::fake(64);
    for (place, count) in [
        (interface::TX_RINGS, 2),
        (interface::RX_RINGS, 1),
        (interface::HOST_TX_RINGS, 1),
        (interface::HOST_RX_RINGS, 1),
    ] {
        area.poke_u32(64 + place, count);
    }
    (0..5).for_each(|ring| area.poke(64 + interface::RING_PLACES + 8 * ring, 1000 * ring as u64));
    let place = |receives, index| area.ring_place(64, receives, index);
    assert_eq!(
        (place(false, 1), place(false, 2), place(true, 0), place(true, 1)),
        (Some(1064), Some(2064), Some(3064), Some(4064))
    );
    assert_eq!((place(false, 3), place(true, 2), area.ring_place(u64::MAX, true, 0)), (None, None, None));
    area.poke_u32(64 + interface::TX_RINGS, u32::MAX);
    assert_eq!(place(true, 0), None);
}

#[test]
fn a_ring_that_somebody_else_moves_closes_the_port() {
    let kernel = Kernel::new();
    let mut ring = kernel.ring();
    kernel.set_tail(SLOTS + 5);
    assert!(ring.look().unwrap_err().0.contains("tail 13"));
    kernel.set_tail(3);
    ring.look().unwrap();
    kernel.set_head(2);
    assert!(ring.look().unwrap_err().0.contains("open twice"));
}

#[test]
fn wrong_slots_break_the_port_and_nothing_else() {
    for (buffer, len, flags) in
        [(0, 60, 0), (1, 60, 0), (10, 60, 0), (u32::MAX, 60, 0), (2, 2049, MORE_FRAGMENTS), (9, 0xffff, 0)]
    {
        let kernel = Kernel::new();
        let mut receiver = Receiver::new(kernel.ring(), false, None);
        let mut pool = pool();
        let mut batch = Batch::new(&pool, 40);
        kernel.arrive(0, &[1; 60], 0);
        kernel.set_slot(1, buffer, len, flags);
        kernel.set_tail(3);
        receiver.ring.look().unwrap();
        assert!(receiver.receive(&mut batch, &mut pool).is_err(), "{buffer} {len}");
        assert_eq!(batch.len(), 1, "what came before it is in the batch");
        whole(pool, batch);
    }
    let kernel = Kernel::new();
    kernel.set_tail(5);
    kernel.set_slot(0, 99, 0, 0);
    let mut sender = Sender::new(kernel.ring(), 1514, Taker::Device, None);
    let mut pool = pool();
    let mut batch = Batch::new(&pool, 4);
    assert!(pool.append(&mut batch, &[0; 60], 0));
    assert!(matches!(sender.transmit(&mut batch, &mut pool), Err(Fault::Corrupt(_))));
    whole(pool, batch);
}

#[test]
fn a_packet_without_an_end_breaks_the_port() {
    let kernel = Kernel::new();
    let mut receiver = Receiver::new(kernel.ring(), false, None);
    (0..SLOTS).for_each(|index| kernel.set_slot(index, 2, 10, MORE_FRAGMENTS));
    kernel.set_tail(SLOTS - 1);
    receiver.ring.look().unwrap();
    let mut pool = pool();
    let mut batch = Batch::new(&pool, 4);
    assert!(receiver.receive(&mut batch, &mut pool).is_err());
    whole(pool, batch);
}

proptest! {
    /// Whatever stands in the area, a call ends, stays inside the area, and no frame is lost.
    #[test]
    fn any_contents_are_survived(
        slots in proptest::collection::vec((0u32..14, 0u16..3000, any::<u16>()), SLOTS as usize),
        head in 0u32..10,
        tails in proptest::collection::vec((0u32..10, 0u64..4), 1..4),
    ) {
        let kernel = Kernel::new();
        for (index, (buffer, len, flags)) in slots.iter().enumerate() {
            kernel.set_slot(index as u32, *buffer, *len, *flags);
        }
        kernel.set_head(head);
        kernel.set_tail(tails[0].0);
        let open = || Ring::new(RingMemory::new(&kernel.area, HEADER).unwrap());
        let mut pool = pool();
        let mut batch = Batch::new(&pool, 6);
        if let (Ok(receive), Ok(send)) = (open(), open()) {
            let (mut receiver, mut sender) = (Receiver::new(receive, true, None), Sender::new(send, 9000, Taker::Device, None));
            for (tail, most) in tails {
                kernel.set_tail(tail);
                let counted = receiver.totals.packets;
                let _ = receiver.ring.look().and_then(|()| receiver.count(most));
                prop_assert!(receiver.totals.packets - counted <= most.min(u64::from(SLOTS)));
                let _ = receiver.ring.look().and_then(|()| receiver.receive(&mut batch, &mut pool));
                kernel.set_head(sender.ring.head());
                let _ = sender.ring.look();
                let _ = sender.transmit(&mut batch, &mut pool);
                prop_assert!(sender.pending().packets <= u64::from(SLOTS));
                kernel.set_head(receiver.ring.head());
            }
        }
        whole(pool, batch);
    }
}
