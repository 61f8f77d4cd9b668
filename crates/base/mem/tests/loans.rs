//! Whatever the other side of a loan says, each frame has one owner and comes back once.

use linerate_mem::{Batch, InvalidFrame, OwnershipTable, Pool, PoolConfig, SlotFields};

const NOTE: u16 = 7;

fn pool(frames: usize) -> Pool {
    Pool::new(PoolConfig { frames, ..PoolConfig::default() }).unwrap()
}

/// A reader that hands over these words.
fn these(words: &[u64]) -> impl FnOnce(&mut [u64]) -> usize + '_ {
    move |into| {
        into[..words.len()].copy_from_slice(words);
        words.len()
    }
}

/// Exports the first `count` slots of a batch; their words.
fn export(table: &mut OwnershipTable, batch: &mut Batch, count: usize) -> Vec<u64> {
    let mut out = Vec::new();
    let put = |words: &[u64]| {
        out.extend_from_slice(words);
        words.len()
    };
    assert_eq!(table.export(batch, count, |_| NOTE, put), count);
    out
}

#[test]
fn packets_come_back_as_the_other_side_says_but_only_once() {
    let mut pool = pool(16);
    let mut table = OwnershipTable::new(&pool);
    let (mut out, mut back) = (Batch::new(&pool, 16), Batch::new(&pool, 16));
    pool.alloc(&mut out, 8, 100);
    let words = export(&mut table, &mut out, 3);
    assert_eq!((table.loaned(), out.len()), (3, 5));
    // Another length and offset, in the same frame: that is the other side's to say.
    let fields = SlotFields::of(words[0]);
    let changed = SlotFields { offset: 256, len: 1792, more: true, ..fields }.word();
    assert_eq!(table.import(&mut back, NOTE, these(&[changed, words[1]])), Ok(2));
    assert_eq!((back.packet(0).len(), back.more(0), back.packet(1).len()), (1792, true, 100));
    assert_eq!(table.loaned(), 1);
    // A second time, a frame that was never exported, one that does not exist, another note, and the note of owned frames.
    let owned = word_of_owned(&mut table, &mut out);
    for wrong in [words[0], owned, SlotFields { frame: 16, ..fields }.word()] {
        let frame = SlotFields::of(wrong).frame;
        assert_eq!(table.import(&mut back, NOTE, these(&[wrong])), Err(InvalidFrame::NotLoaned(frame)));
        assert_eq!(table.import_free(&mut pool, these(&[wrong]), |_| true), Err(InvalidFrame::NotLoaned(frame)));
    }
    for note in [0, NOTE + 1] {
        assert!(table.import(&mut back, note, these(&[words[2]])).is_err());
        assert!(table.import(&mut back, note, these(&[owned])).is_err());
    }
    assert!(table.import_free(&mut pool, these(&[words[2]]), |note| note != NOTE).is_err());
    // Outside of the frame, or with flags that another process may not set.
    let last = SlotFields::of(words[2]);
    let beyond = SlotFields { offset: 2000, len: 49, ..last }.word();
    let no_frame = SlotFields { frame: 1 << 24, ..last }.word();
    for wrong in [beyond, words[2] | 1 << 57, words[2] | 1 << 63, no_frame] {
        assert_eq!(table.import(&mut back, NOTE, these(&[wrong])), Err(InvalidFrame::OutOfBounds(wrong)));
    }
    assert!(table.import_free(&mut pool, these(&[no_frame]), |_| true).is_err());
    // What is sound before something that is not has come.
    assert!(table.import(&mut back, NOTE, these(&[words[2], words[2]])).is_err());
    assert_eq!((back.len(), table.loaned()), (3, 0));
    drop((out, back));
    assert!(pool.is_whole());
}

/// The word of the first slot of the batch, which keeps the slot.
fn word_of_owned(table: &mut OwnershipTable, batch: &mut Batch) -> u64 {
    let mut word = 0;
    let put = |words: &[u64]| {
        word = words[0];
        0
    };
    assert_eq!(table.export(batch, 1, |_| NOTE, put), 0);
    word
}

#[test]
fn free_frames_go_and_come_back_by_the_64() {
    let mut pool = pool(100);
    let mut table = OwnershipTable::new(&pool);
    let mut words = Vec::new();
    for expected in [64, 36, 0] {
        let put = |some: &[u64]| {
            words.extend_from_slice(some);
            some.len()
        };
        assert_eq!(table.export_free(&mut pool, 1000, NOTE, put), expected);
    }
    assert_eq!((table.loaned(), pool.available()), (100, 0));
    // Who takes fewer leaves the others where they are.
    assert_eq!(table.import_free(&mut pool, these(&words[..10]), |note| note == NOTE), Ok(10));
    assert_eq!(table.export_free(&mut pool, 10, NOTE, |_| 4), 4);
    assert_eq!((table.loaned(), pool.available()), (94, 6));
    assert_eq!(table.reclaim(&mut pool), 94);
    assert_eq!((table.loaned(), table.reclaim(&mut pool)), (0, 0));
    assert!(table.import_free(&mut pool, these(&words[..1]), |_| true).is_err());
    assert!(pool.is_whole());
}

#[test]
fn slots_go_through_a_table_in_any_order() {
    let mut pool = pool(64);
    let mut table = OwnershipTable::new(&pool);
    let (mut out, mut back) = (Batch::new(&pool, 64), Batch::new(&pool, 64));
    let mut away = Vec::new();
    let rounds = if cfg!(miri) { 40 } else { 4000 };
    for round in 0..rounds {
        pool.alloc(&mut out, round % 9, 60);
        let count = out.len();
        away.extend(export(&mut table, &mut out, count));
        let wanted = (round * 7 % 11).min(away.len());
        let some: Vec<u64> = (0..wanted).map(|step| away.swap_remove((round * 13 + step * 5) % away.len())).collect();
        assert_eq!(table.import(&mut back, NOTE, these(&some)), Ok(wanted));
        // Each packet is written to: two slots of one frame would be an error under Miri, and here.
        for (packet, word) in back.iter_mut().zip(&some) {
            packet.fill(*word as u8);
            packet[..4].copy_from_slice(&SlotFields::of(*word).frame.to_be_bytes());
        }
        assert!(back.iter().zip(&some).all(|(packet, word)| packet[..4] == SlotFields::of(*word).frame.to_be_bytes()));
        assert_eq!(pool.available() + away.len() + back.len(), 64);
        assert_eq!(table.loaned(), away.len());
        pool.free(&mut back);
    }
    assert_eq!(table.reclaim(&mut pool), away.len());
    assert!(pool.is_whole());
}

#[test]
#[should_panic(expected = "of another")]
fn a_pool_of_another_region_is_no_place_for_frames() {
    let (mut first, mut second) = (pool(8), pool(8));
    let mut table = OwnershipTable::new(&first);
    let mut words = Vec::new();
    let put = |some: &[u64]| {
        words.extend_from_slice(some);
        some.len()
    };
    table.export_free(&mut first, 1, NOTE, put);
    let _ = table.import_free(&mut second, these(&words), |_| true);
}
