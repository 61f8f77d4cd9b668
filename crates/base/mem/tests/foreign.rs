//! Memory of others as a region: an area as netmap's, and buffers as those of DPDK's mbufs, both imitated (docs/memory.md).
#![allow(unsafe_code)]

use std::ptr::NonNull;

use linerate_mem::{Batch, LOANED, OwnershipTable, Pool, PoolConfig, Region, SlotFields};

const BUFFER: usize = 2048;

/// Memory that belongs to nobody here.
struct Area(NonNull<u8>, std::alloc::Layout);

// SAFETY: the memory is touched through the region only, and by the one thread of the test.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Area {
    fn new(buffers: usize) -> Area {
        let layout = std::alloc::Layout::from_size_align(buffers * BUFFER, 4096).unwrap();
        // SAFETY: the size is not 0.
        Area(NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).unwrap(), layout)
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: made by `new` with this layout.
        unsafe { std::alloc::dealloc(self.0.as_ptr(), self.1) };
    }
}

/// A slot of a netmap ring: the index of its buffer, and the length of the packet at the buffer's first byte.
#[derive(Clone, Copy)]
struct NetmapSlot {
    buffer: u32,
    len: u16,
}

#[test]
fn a_netmap_area_whose_rings_swap_buffers() {
    let area = Area::new(32);
    let base = area.0;
    // SAFETY: the area has so many bytes and lives in the companion; the test writes into buffers that are loaned only.
    let region = unsafe { Region::from_raw(base, (32, BUFFER), Box::new(area)) }.unwrap();
    // All buffers are netmap's at first; the extra ones (NETMAP_REQ, ni_bufs_head) become free frames.
    let mut pool = Pool::shared(region, false);
    let table = pool.ownership().unwrap().clone();
    let mut table = table.lock().unwrap();
    let extra: Vec<u64> = (16..32).map(|frame| SlotFields { frame, offset: 0, len: 0, more: false }.word()).collect();
    let read = |words: &mut [u64]| {
        words[..16].copy_from_slice(&extra);
        16
    };
    assert_eq!(table.import_free(&mut pool, read, |_| true), Ok(16));
    let mut ring: Vec<NetmapSlot> = (2..10).map(|buffer| NetmapSlot { buffer, len: 60 }).collect();
    let mut batch = Batch::new(&pool, 8);
    for round in 0..20u8 {
        for slot in &ring {
            // SAFETY: the kernel's part: it writes into buffers of its ring, which are loaned.
            unsafe { base.add(slot.buffer as usize * BUFFER).as_ptr().write_bytes(slot.buffer as u8 ^ round, 60) };
        }
        // Receive: the ring's buffers come in, free ones take their places.
        let taken = table.import(&mut batch, LOANED, |words| {
            for (word, slot) in words.iter_mut().zip(&ring) {
                *word = SlotFields { frame: slot.buffer, offset: 0, len: slot.len, more: false }.word();
            }
            ring.len()
        });
        assert_eq!(taken, Ok(8));
        for (packet, slot) in batch.iter().zip(&ring) {
            assert_eq!(packet, [slot.buffer as u8 ^ round; 60]);
        }
        // A packet at the first byte of its buffer has no headroom.
        assert!(!batch.prepend(0, 4));
        let put = |words: &[u64]| {
            ring.iter_mut().zip(words).for_each(|(slot, word)| slot.buffer = SlotFields::of(*word).frame);
            words.len()
        };
        assert_eq!(table.export_free(&mut pool, 8, LOANED, put), 8);
        assert_eq!((pool.available(), table.loaned()), (8, 16));
        // A buffer that the ring names twice is refused.
        let twice = SlotFields { frame: batch_frame(&batch), offset: 0, len: 60, more: false }.word();
        let read = |words: &mut [u64]| {
            words[0] = twice;
            1
        };
        assert!(table.import_free(&mut pool, read, |_| true).is_err());
        pool.free(&mut batch);
    }
}

/// Number of the first packet's frame.
fn batch_frame(batch: &Batch) -> u32 {
    (batch.region_offset(0) / BUFFER) as u32
}

#[test]
fn mbufs_with_pinned_buffers_in_a_region() {
    // rte_pktmbuf_pool_create_extbuf over a region of ours: mbuf N has frame N for good, and DPDK's pool holds the free mbufs.
    let mut pool = Pool::new(PoolConfig { frames: 64, frame_size: BUFFER }).unwrap();
    let mut table = OwnershipTable::new(&pool);
    let mut mempool: Vec<u32> = Vec::new();
    let put = |words: &[u64]| {
        mempool.extend(words.iter().map(|word| SlotFields::of(*word).frame));
        words.len()
    };
    assert_eq!(table.export_free(&mut pool, 48, LOANED, put), 48);
    let mut batch = Batch::new(&pool, 16);
    for _ in 0..20 {
        // rte_eth_rx_burst: data_off 128 (RTE_PKTMBUF_HEADROOM), the first packet in two mbufs.
        let received: Vec<u32> = mempool.drain(..8).collect();
        let taken = table.import(&mut batch, LOANED, |words| {
            for (index, (word, frame)) in words.iter_mut().zip(&received).enumerate() {
                *word = SlotFields { frame: *frame, offset: 128, len: 100, more: index == 0 }.word();
            }
            8
        });
        assert_eq!(taken, Ok(8));
        assert!(batch.span(0).is_some_and(|span| span.slots == 2) && batch.prepend(2, 4));
        pool.alloc(&mut batch, 4, 60);
        // rte_eth_tx_burst: data_off and data_len from the slot; the driver frees the mbuf to the mempool.
        let mut sent = Vec::new();
        let put = |words: &[u64]| {
            sent.extend(words.iter().map(|word| SlotFields::of(*word)));
            words.len()
        };
        assert_eq!(table.export(&mut batch, 12, |_| LOANED, put), 12);
        assert_eq!((sent[0].offset, sent[2].offset, sent[2].len), (128, 124, 104));
        mempool.extend(sent.iter().map(|slot| slot.frame));
        // rte_pktmbuf_alloc_bulk: free frames for this side again.
        let back: Vec<u64> =
            mempool.drain(..4).map(|frame| SlotFields { frame, offset: 0, len: 0, more: false }.word()).collect();
        let read = |words: &mut [u64]| {
            words[..4].copy_from_slice(&back);
            4
        };
        assert_eq!(table.import_free(&mut pool, read, |_| true), Ok(4));
        assert_eq!((table.loaned(), mempool.len()), (48, 48));
    }
    assert_eq!(table.reclaim(&mut pool), 48);
    drop(batch);
    assert!(pool.is_whole());
}
