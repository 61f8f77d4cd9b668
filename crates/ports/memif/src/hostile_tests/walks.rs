//! What a peer can make one call go through is bounded, whatever it writes into rings of the largest size, and a peer that writes
//! while the port reads gets wrong packets and nothing else.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_sys::shared::{SharedMapping, memory_file};

use crate::link::{Buffers, LentEnd, RingEnd, SLOTS_MAX};
use crate::options::LOG2_SLOTS_MAX;
use crate::receive::{Corrupt, ReceiveSide, Received, Store};
use crate::sides::Receiver;
use crate::sys::{Descriptor, NEXT, Regions, Ring};
use crate::transmit::{Sent, TransmitSide};

thread_local!(static LOOKS: Cell<usize> = const { Cell::new(0) });

/// Counts a descriptor that the calling thread reads.
pub(crate) fn count_look() {
    LOOKS.set(LOOKS.get() + 1);
}

const SLOTS: u16 = 1 << LOG2_SLOTS_MAX;
const BATCH: usize = 256;
const FRAMES: usize = 4096;
/// Descriptors that a call may read. Those of plain packets are read once; those of others when they turn out not to be plain, to find
/// the packet's end, to copy it and to take marks away; of the last packet there may be as many as a packet may have.
const CALL_MAX: usize = 4 * (BATCH + 2 * SLOTS_MAX as usize);

/// A ring that a peer made, and the memory behind it.
struct Peer {
    ring: Ring,
    regions: Arc<Regions>,
    pool: Pool,
    batch: Batch,
    received: Received,
    sent: Sent,
}

impl Peer {
    fn new() -> Peer {
        Peer::with(Pool::new(PoolConfig { frames: FRAMES, ..PoolConfig::default() }).unwrap())
    }

    fn with(pool: Pool) -> Peer {
        let bytes = Ring::bytes(LOG2_SLOTS_MAX) + (1 << 20);
        let file = memory_file(c"peer", bytes).unwrap();
        let mapping = Arc::new(SharedMapping::map(file.as_fd(), bytes).unwrap());
        let ring = Ring::at(&mapping, 0, LOG2_SLOTS_MAX).unwrap();
        ring.format(0);
        let regions = Arc::new(Regions::new(vec![mapping]));
        let batch = Batch::new(&pool, BATCH);
        Peer { ring, regions, pool, batch, received: Received::default(), sent: Sent::default() }
    }

    fn end(&self) -> RingEnd {
        let ring = self.ring.another();
        RingEnd { ring, buffers: Buffers::Peers(Arc::clone(&self.regions)), bell: None }
    }

    /// Writes all slots alike, but for flags, which are of the slot's number.
    fn fill(&self, length: u32, flags: impl Fn(u16) -> u16) {
        let offset = Ring::bytes(LOG2_SLOTS_MAX) as u32;
        (0..SLOTS).for_each(|slot| self.ring.write(slot, Descriptor { flags: flags(slot), region: 0, length, offset }));
    }

    fn receive(&mut self, side: &mut ReceiveSide) -> Result<usize, Corrupt> {
        LOOKS.set(0);
        self.pool.free(&mut self.batch);
        let mut store = Store { pool: &mut self.pool, totals: &mut self.received };
        let result = side.receive(&mut self.batch, &mut store);
        assert!(LOOKS.get() <= CALL_MAX, "{} descriptors in one call", LOOKS.get());
        result
    }

    /// Receives all that is in the ring; the calls that it took.
    fn receive_ring(&mut self) -> usize {
        let mut side = ReceiveSide::new(self.end(), false);
        self.ring.head().store(SLOTS, Ordering::Release);
        let mut calls = 0;
        while self.ring.tail().load(Ordering::Relaxed) != SLOTS {
            self.receive(&mut side).unwrap();
            calls += 1;
        }
        calls
    }

    /// Counts all that is in the ring.
    fn count_ring(&mut self) {
        let mut side = ReceiveSide::new(self.end(), false);
        self.ring.head().store(SLOTS, Ordering::Release);
        while self.ring.tail().load(Ordering::Relaxed) != SLOTS {
            self.count(&mut side, BATCH as u64).unwrap();
        }
    }

    fn count(&mut self, side: &mut ReceiveSide, packets: u64) -> Result<u64, Corrupt> {
        LOOKS.set(0);
        let result = side.count(packets, &mut self.received);
        assert!(LOOKS.get() <= CALL_MAX, "{} descriptors in one call", LOOKS.get());
        result
    }

    /// Sends batches of packets of `len` bytes, so many times; the packets that were taken.
    fn transmit(&mut self, len: usize, calls: usize) -> usize {
        let mut side = TransmitSide::new(self.end());
        self.ring.head().store(SLOTS, Ordering::Release);
        let mut taken = 0;
        for _ in 0..calls {
            self.pool.free(&mut self.batch);
            assert_eq!(self.pool.alloc(&mut self.batch, BATCH, len), BATCH);
            LOOKS.set(0);
            let (count, stop) = side.transmit(&mut self.batch, &mut self.pool, &mut self.sent);
            assert!(LOOKS.get() <= CALL_MAX, "{} descriptors in one call", LOOKS.get());
            assert!(count > 0 && stop.is_none());
            taken += count;
        }
        taken
    }
}

/// What becomes of a ring of slots that are alike, but for flags, whether packets are received or counted. Neither keeps a call.
fn walked(length: u32, flags: impl Fn(u16) -> u16) -> Received {
    let (mut peer, mut counting) = (Peer::new(), Peer::new());
    peer.fill(length, &flags);
    counting.fill(length, &flags);
    assert!(peer.receive_ring() >= usize::from(SLOTS / SLOTS_MAX));
    counting.count_ring();
    assert_eq!(counting.received, peer.received);
    peer.received
}

#[test]
fn packets_that_are_refused_do_not_keep_a_call() {
    assert_eq!(walked(0, |_| 0).empty, u64::from(SLOTS));
    // Of 65,600 bytes in 41 slots.
    let received = walked(1600, |slot| if slot % 41 < 40 && slot + 1 < SLOTS { NEXT } else { 0 });
    assert_eq!(received.unfit, u64::from(SLOTS / 41));
}

#[test]
fn packets_of_many_slots_do_not_keep_a_call() {
    let received = walked(1, |slot| if (slot + 1) % SLOTS_MAX > 0 { NEXT } else { 0 });
    assert_eq!((received.packets, received.bytes), (16, u64::from(SLOTS)));
}

#[test]
fn a_packet_that_goes_on_and_on_is_no_packet() {
    for filled in [SLOTS_MAX, SLOTS - 1, SLOTS] {
        let mut peer = Peer::new();
        peer.fill(1, |_| NEXT);
        let mut side = ReceiveSide::new(peer.end(), false);
        peer.ring.head().store(filled, Ordering::Release);
        let Corrupt(what) = peer.receive(&mut side).unwrap_err();
        assert!(what.contains("without an end"), "{what}");
        assert_eq!(peer.count(&mut side, u64::MAX).unwrap_err(), Corrupt(what));
    }
    // One whose end has yet to come is waited for.
    let mut peer = Peer::new();
    peer.fill(1, |_| NEXT);
    let mut side = ReceiveSide::new(peer.end(), false);
    peer.ring.head().store(SLOTS_MAX - 1, Ordering::Release);
    assert_eq!((peer.receive(&mut side), peer.count(&mut side, u64::MAX)), (Ok(0), Ok(0)));
}

#[test]
fn packets_are_counted_where_they_lie_up_to_the_number_that_is_wanted_or_one_that_cannot_be() {
    let mut peer = Peer::new();
    peer.fill(100, |slot| if slot % 5 == 3 { NEXT } else { 0 });
    let wrong = Descriptor { flags: 0, region: 7, length: 60, offset: 0 };
    peer.ring.write(20, wrong);
    let mut side = ReceiveSide::new(peer.end(), false);
    peer.ring.head().store(40, Ordering::Release);
    // Of five slots four packets: the fourth has two.
    for (wanted, counted, tail) in [(3, 3, 3), (1, 1, 5), (0, 0, 5), (u64::MAX, 12, 20)] {
        assert_eq!(peer.count(&mut side, wanted), Ok(counted));
        assert_eq!(peer.ring.tail().load(Ordering::Relaxed), tail);
    }
    let totals = Received { packets: 16, bytes: 2000, ..Received::default() };
    assert_eq!(peer.received, totals);
    // What cannot be shows once nothing sound lies before it, and stays.
    for _ in 0..2 {
        let Corrupt(what) = peer.count(&mut side, u64::MAX).unwrap_err();
        assert!(what.contains("region 7"), "{what}");
    }
    assert_eq!(peer.received, totals);
    assert_eq!(peer.pool.available(), FRAMES);
}

#[test]
fn a_server_cannot_keep_a_client_that_lends_its_frames() {
    let spec = "memif:/nowhere,role=client,zerocopy".parse().unwrap();
    let pool = crate::pool(&spec, PoolConfig { frames: 65_536, ..PoolConfig::default() }).unwrap();
    for (length, flags, says) in [(0, 0, None), (1, NEXT, Some("without an end"))] {
        let mut peer = Peer::with(pool.clone());
        let end = LentEnd { ring: peer.ring.another(), bell: None };
        let mut side = Receiver::new(crate::link::End::Lent(end), &mut peer.pool, 1);
        let mut calls = 0;
        peer.fill(length, |_| flags);
        let filled = peer.ring.head().load(Ordering::Acquire);
        assert!(filled >= 2 * SLOTS_MAX);
        peer.ring.tail().store(filled, Ordering::Release);
        let error = loop {
            LOOKS.set(0);
            let mut store = Store { pool: &mut peer.pool, totals: &mut peer.received };
            let result = side.receive(&mut peer.batch, &mut store);
            assert!(LOOKS.get() <= CALL_MAX, "{} descriptors in one call", LOOKS.get());
            calls += 1;
            if result.is_err() || peer.received.empty == u64::from(filled) {
                break result.err();
            }
        };
        assert!(says.is_some() || calls >= usize::from(filled / SLOTS_MAX), "{calls} calls");
        assert_eq!(error.is_some_and(|Corrupt(what)| what.contains(says.unwrap_or("?"))), says.is_some());
    }
}

#[test]
fn buffers_that_hold_nearly_nothing_do_not_keep_a_call() {
    // 1,000 bytes in one byte each, which is as much as fits; and 1,500 that do not.
    let mut peer = Peer::new();
    peer.fill(1, |_| 0);
    assert_eq!((peer.transmit(1000, 8), peer.sent.unfit), (16, 0));
    let mut peer = Peer::new();
    peer.fill(1, |_| 0);
    assert_eq!((peer.transmit(1500, 8), peer.sent.unfit), (8, 8));
}

/// A peer that rewrites descriptors and marks while the port reads them: each packet has the length that was decided on, and none of
/// the bytes of others that were in its frame.
#[test]
fn a_peer_that_writes_meanwhile() {
    let mut peer = Peer::new();
    let offset = Ring::bytes(LOG2_SLOTS_MAX) as u32;
    let whole =
        |slot: u16| Descriptor { flags: if slot.is_multiple_of(4) { 0 } else { NEXT }, region: 0, length: 900, offset };
    peer.fill(900, |slot| whole(slot).flags);
    let writer = peer.ring.another();
    let (stop, mut corrupt) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            let others = [(0, NEXT, 0), (u32::MAX, 0, 0), (1, NEXT, 0), (2000, 0, 0), (60, NEXT, 3)];
            for round in 0_usize.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let slot = round as u16 % 64;
                let (length, flags, region) = others[round % others.len()];
                writer.write(slot, Descriptor { flags, region, length, offset });
                // Some are wrong at any time.
                let before = (round.wrapping_sub(5) % 64) as u16;
                writer.write(before, whole(before));
            }
        });
        let _stop = StopAtEnd(stop);
        while corrupt < 200 || peer.received.packets < 20_000 {
            let mut side = ReceiveSide::new(peer.end(), false);
            peer.ring.head().store(64, Ordering::Release);
            corrupt += usize::from(peer.receive(&mut side).is_err());
            assert!(peer.batch.iter().all(|packet| packet.iter().all(|byte| *byte == 0)), "bytes of others");
            // What the next packets in these frames must not show.
            peer.batch.iter_mut().for_each(|frame| frame.fill(0xee));
        }
    });
    peer.pool.free(&mut peer.batch);
    assert_eq!(peer.pool.available(), FRAMES);
}

/// Ends the writer, also where the test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
