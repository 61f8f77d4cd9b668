//! Hostile addresses and lengths: each is refused, and the pool stays whole.

use linerate_mem::{Batch, Pool, PoolConfig};

use crate::abi::{Descriptor, PACKET_CONTINUES};
use crate::loans::{Completed, Loans};
use crate::placement::Placement;

fn pool() -> Pool {
    Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap()
}

fn packet(address: u64, len: u32) -> Descriptor {
    Descriptor { address, len, options: 0 }
}

/// The addresses of `count` frames that are lent to receive into.
fn lent(loans: &mut Loans, count: u32) -> Vec<u64> {
    let mut addresses = Vec::new();
    assert_eq!(loans.lend_to_receive(count, |address| addresses.push(address)), count);
    addresses
}

/// The descriptors of all slots of the batch, which are lent to be sent.
fn sent(loans: &mut Loans, batch: &mut Batch) -> Vec<Descriptor> {
    let mut descriptors = Vec::new();
    loans.lend_to_send(batch, batch.len(), |descriptor| descriptors.push(descriptor));
    descriptors
}

#[test]
fn only_frames_that_were_lent_come_back_and_only_once() {
    let mut pool = pool();
    let mut loans = Loans::new(&pool, Placement::Aligned);
    let mut batch = Batch::new(&pool, 8);
    let [address, other] = lent(&mut loans, 2)[..] else { panic!("two frames") };
    let wrong = [
        packet(address + 256, 1793),
        packet(address, 2049),
        packet(address + 2047, 2),
        packet(address, u32::MAX),
        packet(address, 65_536 + 60),
        packet(u64::MAX, 1),
        packet(64 * 2048, 60),
        packet(address + (1 << 24) * 2048, 60),
        packet(1 << 40, 60),
        packet(7 * 2048, 60),
    ];
    for descriptor in wrong {
        assert!(loans.receive(&mut batch, 1, |_| descriptor).is_err(), "{descriptor:?}");
    }
    for descriptor in &wrong[5..] {
        assert!(loans.discard(1, |_| *descriptor).is_err(), "{descriptor:?}");
    }
    assert!(loans.complete(1, |_| address).is_err(), "it was lent to receive into");
    assert!(batch.is_empty());

    let whole = [Descriptor { options: PACKET_CONTINUES, ..packet(address + 256, 1792) }, packet(other, 5)];
    assert_eq!(loans.receive(&mut batch, 1, |place| whole[place as usize]), Ok(0), "the packet goes on");
    assert_eq!(loans.receive(&mut batch, 2, |place| whole[place as usize]), Ok(2));
    assert_eq!((batch.packet(0).len(), batch.more(0), batch.more(1)), (1792, true, false));
    assert!(loans.receive(&mut batch, 1, |_| packet(address + 256, 60)).is_err(), "a second owner");
    let third = lent(&mut loans, 1)[0];
    loans.discard(1, |_| packet(third, 0)).unwrap();
    assert!(loans.discard(1, |_| packet(third, 0)).is_err());
    drop((loans, batch));
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn completions_are_of_frames_being_sent() {
    let mut pool = pool();
    let mut loans = Loans::new(&pool, Placement::Aligned);
    let mut batch = Batch::new(&pool, 8);
    pool.alloc(&mut batch, 2, 100);
    batch.set_more(0, true);
    let [first, second] = sent(&mut loans, &mut batch)[..] else { panic!("two descriptors") };
    assert!(batch.is_empty());
    assert_eq!((first.len, first.options, second.options), (100, PACKET_CONTINUES, 0));
    for wrong in [u64::MAX, 64 * 2048, 9 * 2048, second.address + (1 << 24) * 2048] {
        assert!(loans.complete(1, |_| wrong).is_err());
    }
    assert!(loans.receive(&mut batch, 1, |_| packet(first.address, 60)).is_err(), "it was lent to be sent");
    assert_eq!(loans.complete(1, |_| second.address), Ok(Completed { bytes: 100, packets: 1 }));
    assert!(loans.complete(1, |_| second.address).is_err());
    // The first one is still out; it comes back with the loans.
    drop((loans, batch));
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn many_frames_come_back_in_one_call() {
    let mut pool = Pool::new(PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap();
    let mut loans = Loans::new(&pool, Placement::Aligned);
    let mut batch = Batch::new(&pool, 200);
    pool.alloc(&mut batch, 200, 60);
    let descriptors = sent(&mut loans, &mut batch);
    let completed = loans.complete(200, |place| descriptors[place as usize].address);
    assert_eq!(completed, Ok(Completed { bytes: 12_000, packets: 200 }));
    drop((loans, batch));
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn coloured_addresses_are_checked_as_well() {
    let mut pool = pool();
    let placement = Placement::coloured(&pool);
    let mut loans = Loans::new(&pool, placement);
    let mut batch = Batch::new(&pool, 65);
    let before_packet = u64::from(placement.headroom()) + 256;
    for number in 0..64 {
        let chunk = lent(&mut loans, 1)[0];
        let address = chunk | before_packet << 48;
        let most = placement.receive_len_max(&pool) as u32;
        for wrong in [packet(chunk | 0xffff << 48, 60), packet(address, 4096), packet(u64::MAX, 60)] {
            assert!(loans.receive(&mut batch, 1, |_| wrong).is_err(), "{wrong:?} of {number}");
        }
        loans.receive(&mut batch, 1, |_| packet(address, most)).unwrap();
        assert!(loans.receive(&mut batch, 1, |_| packet(address, 60)).is_err(), "a second owner");
    }
    assert_eq!(batch.len(), 64);
    drop((loans, batch));
    pool.flush();
    assert!(pool.is_whole());
}
