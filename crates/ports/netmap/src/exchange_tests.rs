//! Two rings and extra buffers in an area of this process, whose buffers change places: the tests are the kernel.

use std::collections::BTreeSet;
use std::sync::Arc;

use linerate_mem::{Batch, Pool};
use proptest::prelude::*;

use crate::abi::{BUFFER_CHANGED, MORE_FRAGMENTS, SlotWord, interface, ring};
use crate::exchange::Exchange;
use crate::receive::Receiver;
use crate::ring::{Ring, Taker};
use crate::ring_tests::{BUFFER, BUFFERS, HEADER, SLOTS, lay_ring};
use crate::sys::{Area, ExtraBuffers, RingMemory};
use crate::transmit::Sender;

/// Places: the interface header at 0, the receive ring, the transmit ring, and the buffers behind them.
const RECEIVE: usize = HEADER;
const TRANSMIT: usize = 512;
/// Buffers 2 to 9 are those of the receive ring, 10 to 17 of the transmit ring, and 18 to 25 the extra ones.
const FIRST_EXTRA: u32 = 18;
const COUNT: u32 = 26;

struct Kernel {
    area: Arc<Area>,
    receive: RingMemory,
    transmit: RingMemory,
}

impl Kernel {
    fn new() -> Kernel {
        let area = Arc::new(Area::fake((BUFFERS + COUNT as usize * BUFFER) / 8));
        let kernel = Kernel { receive: lay_ring(&area, RECEIVE), transmit: lay_ring(&area, TRANSMIT), area };
        for index in 0..SLOTS {
            kernel.receive.set_slot(index, SlotWord { buffer: 2 + index, len: 0, flags: 0 });
            kernel.transmit.set_slot(index, SlotWord { buffer: 10 + index, len: 0, flags: 0 });
        }
        kernel.area.poke_u32(interface::FIRST_EXTRA, FIRST_EXTRA);
        for number in FIRST_EXTRA..COUNT {
            kernel.area.poke_u32(BUFFERS + number as usize * BUFFER, (number + 1) % COUNT);
        }
        kernel
    }

    /// The pool of the extra buffers, and both sides of a port on it.
    fn open(&self) -> (Pool, Receiver, Sender) {
        let (extra, numbers) = ExtraBuffers::fake(&self.area, BUFFERS, (COUNT, BUFFER));
        assert_eq!(numbers, (FIRST_EXTRA..COUNT).collect::<Vec<u32>>());
        let pool = extra.pool(&numbers).unwrap();
        assert_eq!(pool.available(), numbers.len());
        let exchange = Exchange::of(&pool, 1);
        assert!(exchange.is_some() && Exchange::of(&pool, 2).is_none());
        let ring = |header| Ring::new(RingMemory::new(&self.area, header).unwrap()).unwrap();
        let receiver = Receiver::new(ring(RECEIVE), true, exchange.clone());
        (pool, receiver, Sender::new(ring(TRANSMIT), 9000, Taker::Device, exchange))
    }

    /// A packet arrives in slot `index`, in whatever buffer is there.
    fn arrive(&self, index: u32, bytes: &[u8], flags: u16) {
        let buffer = self.receive.slot(index).buffer;
        assert!(self.receive.write(buffer, 0, bytes));
        self.receive.set_slot(index, SlotWord { buffer, len: bytes.len() as u16, flags });
    }

    fn set_tail(&self, header: usize, tail: u32) {
        self.area.poke_u32(header + ring::TAIL, tail);
    }

    /// The buffers of a ring's slots.
    fn buffers(ring: &RingMemory) -> Vec<u32> {
        (0..SLOTS).map(|index| ring.slot(index).buffer).collect()
    }

    /// Once the pool is gone, each buffer is in one place: a slot of a ring, or the list of extra ones.
    fn check_places(&self) {
        let mut places = [Kernel::buffers(&self.receive), Kernel::buffers(&self.transmit)].concat();
        let (_, extra) = ExtraBuffers::fake(&self.area, BUFFERS, (COUNT, BUFFER));
        assert_eq!(extra.len() as u32, COUNT - FIRST_EXTRA);
        places.extend(extra);
        places.sort_unstable();
        assert_eq!(places, (2..COUNT).collect::<Vec<u32>>());
    }
}

#[test]
fn a_list_of_extra_buffers_that_somebody_left_is_forgotten() {
    let kernel = Kernel::new();
    kernel.area.forget_extra(0);
    assert_eq!(kernel.area.peek_u32(interface::FIRST_EXTRA), 0);
    let (_extra, numbers) = ExtraBuffers::fake(&kernel.area, BUFFERS, (COUNT, BUFFER));
    assert!(numbers.is_empty());
    // A header that is not inside the area is left alone.
    kernel.area.forget_extra(u64::MAX);
    kernel.area.forget_extra(u64::MAX - 31);
}

#[test]
fn packets_pass_from_ring_to_ring_in_the_buffers_that_they_came_in() {
    let kernel = Kernel::new();
    let (mut pool, mut receiver, mut sender) = kernel.open();
    let mut batch = Batch::new(&pool, 16);
    let mut next = 0;
    for round in 0..60u8 {
        let count = 1 + u32::from(round) % (SLOTS - 1);
        (0..count).for_each(|n| kernel.arrive((next + n) % SLOTS, &[round ^ n as u8; 60], 0));
        let came_in: Vec<u32> = (0..count).map(|n| kernel.receive.slot((next + n) % SLOTS).buffer).collect();
        kernel.set_tail(RECEIVE, (next + count) % SLOTS);
        receiver.ring.look().unwrap();
        assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(count as usize));
        assert!(batch.iter().enumerate().all(|(n, packet)| packet == [round ^ n as u8; 60]));
        assert!(came_in.iter().enumerate().all(|(n, buffer)| batch.region_offset(n) == *buffer as usize * BUFFER));
        assert!((0..count).all(|n| kernel.receive.slot((next + n) % SLOTS).flags == BUFFER_CHANGED));
        // All slots of the transmit ring but one are free.
        kernel.set_tail(TRANSMIT, (next + SLOTS - 1) % SLOTS);
        sender.ring.look().unwrap();
        assert_eq!(sender.transmit(&mut batch, &mut pool).ok(), Some(count as usize));
        for (n, buffer) in (0..).zip(came_in) {
            let slot = kernel.transmit.slot((next + n) % SLOTS);
            assert_eq!((slot.buffer, slot.len, slot.flags & BUFFER_CHANGED), (buffer, 60, BUFFER_CHANGED));
        }
        next = (next + count) % SLOTS;
        assert!(batch.is_empty() && pool.available() == 8);
    }
    assert_eq!(receiver.totals.packets, sender.sent().packets + sender.pending().packets);
    drop((receiver, sender, batch, pool));
    kernel.check_places();
}

/// Whoever writes into a ring's buffers cannot write into a packet that the program has.
#[test]
fn a_buffer_that_the_program_has_is_in_no_ring() {
    let kernel = Kernel::new();
    let (mut pool, mut receiver, sender) = kernel.open();
    let (mut held, mut batch) = (Batch::new(&pool, 4), Batch::new(&pool, 4));
    (0..4).for_each(|index| kernel.arrive(index, &[7; 60], 0));
    kernel.set_tail(RECEIVE, 4);
    receiver.ring.look().unwrap();
    assert_eq!(receiver.receive(&mut held, &mut pool), Ok(4));
    let places: Vec<usize> = (0..4).map(|index| held.region_offset(index) / BUFFER).collect();
    assert_eq!(places, [2, 3, 4, 5], "the buffers that the packets came in, not copies");
    for round in 4..40u32 {
        let index = round % SLOTS;
        kernel.arrive(index, &[round as u8; 60], 0);
        kernel.set_tail(RECEIVE, (index + 1) % SLOTS);
        receiver.ring.look().unwrap();
        // Packets that others take in turn, or count.
        if round % 2 == 0 {
            assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(1));
            pool.free(&mut batch);
        } else {
            receiver.count(1).unwrap();
        }
        let lent = [Kernel::buffers(&kernel.receive), Kernel::buffers(&kernel.transmit)].concat();
        assert!(lent.iter().all(|buffer| !places.contains(&(*buffer as usize))), "round {round}: {lent:?}");
        assert!(held.iter().all(|packet| packet == [7; 60]), "round {round}");
    }
    assert_eq!(receiver.totals.packets, 40);
    drop((receiver, sender, batch, held, pool));
    kernel.check_places();
}

#[test]
fn packets_of_several_slots_stay_whole() {
    let kernel = Kernel::new();
    let (mut pool, mut receiver, mut sender) = kernel.open();
    let mut batch = Batch::new(&pool, 4);
    kernel.arrive(0, &[1; 2000], MORE_FRAGMENTS);
    kernel.arrive(1, &[2; 700], 0);
    kernel.arrive(2, &[], 0);
    kernel.arrive(3, &[3; 60], 0);
    kernel.arrive(4, &[4; 60], MORE_FRAGMENTS);
    kernel.set_tail(RECEIVE, 5);
    receiver.ring.look().unwrap();
    assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(2));
    assert_eq!(batch.span(0).map(|span| (span.slots, span.len)), Some((2, 2700)));
    assert_eq!((batch.packet(2), receiver.totals.empty, receiver.ring.available()), (&[3; 60][..], 1, 1));
    // Two slots are free: the first packet leaves whole, the other one waits.
    kernel.set_tail(TRANSMIT, 2);
    sender.ring.look().unwrap();
    assert_eq!(sender.transmit(&mut batch, &mut pool).ok(), Some(1));
    let more: Vec<bool> = (0..2).map(|index| kernel.transmit.slot(index).flags & MORE_FRAGMENTS != 0).collect();
    assert_eq!((more, batch.len(), sender.sent().packets), (vec![true, false], 1, 0));
    kernel.arrive(5, &[5; 60], 0);
    kernel.set_tail(RECEIVE, 6);
    receiver.ring.look().unwrap();
    assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(1));
    assert_eq!((receiver.totals.packets, receiver.totals.bytes), (3, 2700 + 60 + 120));
    drop((receiver, sender, batch, pool));
    kernel.check_places();
}

#[test]
fn what_begins_elsewhere_in_its_frame_is_copied() {
    let kernel = Kernel::new();
    let (mut pool, receiver, mut sender) = kernel.open();
    let mut batch = Batch::new(&pool, 4);
    assert!(pool.append(&mut batch, &[7; 60], 0) && !batch.region_offset(0).is_multiple_of(BUFFER));
    kernel.set_tail(TRANSMIT, 5);
    sender.ring.look().unwrap();
    assert_eq!(sender.transmit(&mut batch, &mut pool).ok(), Some(1));
    let slot = kernel.transmit.slot(0);
    let mut bytes = [0; 60];
    assert!(kernel.transmit.read(slot.buffer, 0, &mut bytes));
    assert_eq!((slot.buffer, slot.flags & BUFFER_CHANGED, bytes), (10, 0, [7; 60]));
    drop((receiver, sender, batch, pool));
    kernel.check_places();
}

#[test]
fn without_a_free_frame_packets_wait() {
    let kernel = Kernel::new();
    let (mut pool, mut receiver, sender) = kernel.open();
    let mut hoard = Batch::new(&pool, 8);
    assert_eq!(pool.alloc(&mut hoard, 7, 60), 7);
    (0..3).for_each(|index| kernel.arrive(index, &[index as u8; 60], 0));
    kernel.set_tail(RECEIVE, 3);
    receiver.ring.look().unwrap();
    let mut batch = Batch::new(&pool, 8);
    assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(1));
    assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(0));
    pool.free(&mut hoard);
    assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(2));
    assert!(batch.iter().enumerate().all(|(n, packet)| packet == [n as u8; 60]));
    drop((receiver, sender, batch, hoard, pool));
    kernel.check_places();
}

#[test]
fn a_buffer_that_the_ring_cannot_have_closes_the_port() {
    // None, behind the last one, one of this process's own, one that is in the slot before, and a packet that is longer than its buffer.
    for (buffer, len) in [(0, 60), (COUNT, 60), (u32::MAX, 60), (FIRST_EXTRA, 60), (2, 60), (3, 2049)] {
        let kernel = Kernel::new();
        let (mut pool, mut receiver, mut sender) = kernel.open();
        let mut batch = Batch::new(&pool, 8);
        kernel.arrive(0, &[1; 60], 0);
        kernel.receive.set_slot(1, SlotWord { buffer, len, flags: 0 });
        kernel.set_tail(RECEIVE, 2);
        receiver.ring.look().unwrap();
        assert!(receiver.receive(&mut batch, &mut pool).is_err(), "{buffer} {len}");
        assert_eq!((batch.len(), pool.available()), (0, 8), "{buffer} {len}");
        if len == 60 {
            kernel.arrive(0, &[1; 60], 0);
            kernel.receive.set_slot(1, SlotWord { buffer: 3, len: 60, flags: 0 });
            receiver.ring.look().unwrap();
            assert_eq!(receiver.receive(&mut batch, &mut pool), Ok(2));
            kernel.transmit.set_slot(1, SlotWord { buffer: if buffer == 2 { 10 } else { buffer }, len: 0, flags: 0 });
            kernel.set_tail(TRANSMIT, 3);
            sender.ring.look().unwrap();
            assert!(sender.transmit(&mut batch, &mut pool).is_err(), "{buffer}");
            assert_eq!((batch.len(), pool.available()), (2, 6), "{buffer}");
            kernel.transmit.set_slot(1, SlotWord { buffer: 11, len: 0, flags: 0 });
        } else {
            kernel.receive.set_slot(1, SlotWord { buffer: 3, len: 60, flags: 0 });
        }
        drop((receiver, sender, batch, pool));
        kernel.check_places();
    }
}

#[test]
fn nothing_is_copied_from_or_to_a_frame_of_this_process() {
    let kernel = Kernel::new();
    let (mut pool, mut receiver, mut sender) = kernel.open();
    // Two slots, and room for one: it would be copied.
    let mut batch = Batch::new(&pool, 1);
    kernel.receive.set_slot(0, SlotWord { buffer: FIRST_EXTRA, len: 60, flags: MORE_FRAGMENTS });
    kernel.receive.set_slot(1, SlotWord { buffer: 3, len: 60, flags: 0 });
    kernel.set_tail(RECEIVE, 2);
    receiver.ring.look().unwrap();
    assert!(receiver.receive(&mut batch, &mut pool).is_err() && batch.is_empty());
    assert!(pool.append(&mut batch, &[7; 60], 0));
    kernel.transmit.set_slot(0, SlotWord { buffer: FIRST_EXTRA + 1, len: 0, flags: 0 });
    kernel.set_tail(TRANSMIT, 5);
    sender.ring.look().unwrap();
    assert!(sender.transmit(&mut batch, &mut pool).is_err());
    assert_eq!((batch.len(), batch.packet(0), pool.available()), (1, &[7; 60][..], 7));
}

proptest! {
    /// Whatever stands in the rings, a call ends, no frame is lost, and none is given back twice.
    #[test]
    fn any_contents_are_survived(
        receive in proptest::collection::vec((0u32..30, 0u16..2300, any::<u16>()), SLOTS as usize),
        transmit in proptest::collection::vec(0u32..30, SLOTS as usize),
        tails in proptest::collection::vec((0u32..9, 0u32..9), 1..6),
    ) {
        let kernel = Kernel::new();
        let (mut pool, mut receiver, mut sender) = kernel.open();
        for (index, (buffer, len, flags)) in (0..).zip(receive) {
            kernel.receive.set_slot(index, SlotWord { buffer, len, flags });
        }
        for (index, buffer) in (0..).zip(transmit) {
            kernel.transmit.set_slot(index, SlotWord { buffer, len: 0, flags: 0 });
        }
        let mut batch = Batch::new(&pool, 6);
        for (received, sent) in tails {
            kernel.set_tail(RECEIVE, received);
            kernel.set_tail(TRANSMIT, sent);
            let _ = receiver.ring.look().and_then(|()| receiver.receive(&mut batch, &mut pool));
            let _ = sender.ring.look();
            let _ = sender.transmit(&mut batch, &mut pool);
            prop_assert_eq!(pool.available() + batch.len(), 8);
        }
        drop((receiver, sender, batch, pool));
        let (_, extra) = ExtraBuffers::fake(&kernel.area, BUFFERS, (COUNT, BUFFER));
        let places: BTreeSet<u32> = extra.iter().copied().collect();
        prop_assert_eq!((extra.len(), places.len()), (8, 8));
    }
}
