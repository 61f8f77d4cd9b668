//! Hostile addresses and lengths: each is refused, and the pool stays whole.

use linerate_mem::{Batch, Pool, PoolConfig};

use crate::abi::{Descriptor, PACKET_CONTINUES};
use crate::sys::{Completed, Custody};
use crate::umem::Placement;

fn pool() -> Pool {
    Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap()
}

fn packet(address: u64, len: u32) -> Descriptor {
    Descriptor { address, len, options: 0 }
}

#[test]
fn only_frames_that_were_lent_come_back_and_only_once() {
    let mut pool = pool();
    let mut custody = Custody::new(&pool, Placement::Aligned);
    let mut batch = Batch::new(&pool, 8);
    let address = custody.lend_to_receive().unwrap();
    let other = custody.lend_to_receive().unwrap();
    let wrong = [
        packet(address + 256, 1793),
        packet(address, 2049),
        packet(address + 2047, 2),
        packet(address, u32::MAX),
        packet(u64::MAX, 1),
        packet(64 * 2048, 60),
        packet(1 << 40, 60),
        packet(7 * 2048, 60),
    ];
    for descriptor in wrong {
        assert!(custody.receive_into(&mut batch, descriptor).is_err(), "{descriptor:?}");
        assert!(custody.discard(descriptor).is_err(), "{descriptor:?}");
    }
    assert!(custody.complete(address).is_err(), "it was lent to receive into");
    assert!(batch.is_empty());

    let continued = Descriptor { options: PACKET_CONTINUES, ..packet(address + 256, 1792) };
    custody.receive_into(&mut batch, continued).unwrap();
    assert_eq!((batch.packet(0).len(), batch.more(0)), (1792, true));
    assert!(custody.receive_into(&mut batch, packet(address + 256, 60)).is_err(), "a second owner");
    custody.discard(packet(other, 0)).unwrap();
    assert!(custody.discard(packet(other, 0)).is_err());
    drop((custody, batch));
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn completions_are_of_frames_being_sent() {
    let mut pool = pool();
    let mut custody = Custody::new(&pool, Placement::Aligned);
    let mut batch = Batch::new(&pool, 8);
    pool.alloc(&mut batch, 2, 100);
    batch.set_more(0, true);
    let first = custody.lend_to_send(&mut batch).unwrap();
    let second = custody.lend_to_send(&mut batch).unwrap();
    assert!(custody.lend_to_send(&mut batch).is_none());
    assert_eq!((first.len, first.options, second.options), (100, PACKET_CONTINUES, 0));
    for wrong in [u64::MAX, 64 * 2048, 9 * 2048] {
        assert!(custody.complete(wrong).is_err());
    }
    assert!(custody.receive_into(&mut batch, packet(first.address, 60)).is_err(), "it was lent to be sent");
    assert_eq!(custody.complete(second.address).unwrap(), Completed { len: 100, ends_packet: true });
    assert!(custody.complete(second.address).is_err());
    // The first one is still out; it comes back with the custody.
    let mut foreign = Batch::new(&self::pool(), 1);
    assert!(custody.lend_to_send(&mut foreign).is_none());
    drop((custody, batch));
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn coloured_addresses_are_checked_as_well() {
    let mut pool = pool();
    let placement = Placement::coloured(&pool);
    let mut custody = Custody::new(&pool, placement);
    let mut batch = Batch::new(&pool, 64);
    let before_packet = u64::from(placement.headroom()) + 256;
    for number in 0..64 {
        let chunk = custody.lend_to_receive().unwrap();
        let address = chunk | before_packet << 48;
        let most = placement.receive_len_max(&pool) as u32;
        for wrong in [packet(chunk | 0xffff << 48, 60), packet(address, 4096), packet(u64::MAX, 60)] {
            assert!(custody.receive_into(&mut batch, wrong).is_err(), "{wrong:?} of {number}");
        }
        custody.receive_into(&mut batch, packet(address, most)).unwrap();
        assert!(custody.receive_into(&mut batch, packet(address, 60)).is_err(), "a second owner");
    }
    assert_eq!(batch.len(), 64);
    drop((custody, batch));
    pool.flush();
    assert!(pool.is_whole());
}
