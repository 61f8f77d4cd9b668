//! A ring that carries slots of one region from one thread to another: ownership moves with the word.
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, PoisonError};

use linerate_ring::{Consumer, Producer, ring_from};

use crate::depot::Depot;
use crate::{Batch, Pool, Region};

/// Makes a ring of at least `capacity` slots of `pool`'s region, with indices starting at `start`.
pub fn slot_ring(pool: &Pool, capacity: usize, start: u32) -> (SlotSender, SlotReceiver) {
    let (producer, consumer) = ring_from(capacity, start);
    let region = Arc::clone(pool.region());
    let depot = Arc::clone(pool.depot());
    let closing = Arc::new(Mutex::new(()));
    (
        SlotSender { producer, region: Arc::clone(&region), depot: Arc::clone(&depot), closing: Arc::clone(&closing) },
        SlotReceiver { consumer: Some(consumer), region, depot, closing },
    )
}

/// The end that slots go in.
pub struct SlotSender {
    producer: Producer,
    region: Arc<Region>,
    depot: Arc<Depot>,
    /// Held while an end goes away, so that what is left in the ring goes back to the pool exactly once.
    closing: Arc<Mutex<()>>,
}

impl SlotSender {
    /// Moves slots from the front of the batch into the ring, as many as fit, and returns how many.
    #[inline]
    pub fn send(&mut self, batch: &mut Batch) -> usize {
        let count = batch.len();
        self.send_front(batch, count)
    }

    /// As [`SlotSender::send`], for at most the first `count` slots.
    #[inline]
    pub fn send_front(&mut self, batch: &mut Batch, count: usize) -> usize {
        batch.check_region(&self.region);
        let words = batch.words();
        let count = self.producer.push(&words[..count.min(words.len())]);
        let _ = batch.drain_words(count);
        count
    }

    /// Slots that the ring can hold.
    pub fn capacity(&self) -> usize {
        self.producer.capacity()
    }

    /// Slots that fit now.
    pub fn room(&mut self) -> usize {
        self.producer.room()
    }

    /// False once the receiver has been dropped.
    pub fn peer_alive(&self) -> bool {
        self.producer.peer_alive()
    }

    /// Returns to the pool what a dropped receiver left in the ring; returns how many slots that were.
    pub fn reclaim(&mut self) -> usize {
        let words = self.producer.reclaim();
        self.depot.put_loose(words.iter().map(|word| crate::slot::frame_of(*word)));
        words.len()
    }
}

/// The end that slots come out of.
pub struct SlotReceiver {
    /// Gone only inside `drop`.
    consumer: Option<Consumer>,
    region: Arc<Region>,
    depot: Arc<Depot>,
    closing: Arc<Mutex<()>>,
}

impl SlotReceiver {
    /// Moves slots from the ring to the end of the batch, as many as it has room for, and returns how many. Only whole
    /// packets move: one of several slots stays in the ring until the batch has room for all of them.
    #[inline]
    pub fn receive(&mut self, batch: &mut Batch) -> usize {
        batch.check_region(&self.region);
        let count =
            self.consumer.as_mut().map_or(0, |consumer| consumer.pop_runs(batch.spare_words(), crate::slot::more_of));
        // SAFETY: the words were put in by a `SlotSender` of the same region, which gave up its slots.
        unsafe { batch.grow(count) };
        count
    }

    /// Slots that wait in the ring.
    pub fn available(&mut self) -> usize {
        self.consumer.as_mut().map_or(0, Consumer::available)
    }

    /// False once the sender has been dropped.
    pub fn peer_alive(&self) -> bool {
        self.consumer.as_ref().is_some_and(Consumer::peer_alive)
    }
}

impl Drop for SlotReceiver {
    /// Returns what is in the ring; what a living sender adds later, the sender reclaims.
    fn drop(&mut self) {
        let _closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut consumer) = self.consumer.take() else { return };
        let mut words = [0; 64];
        loop {
            let count = consumer.pop(&mut words);
            if count == 0 {
                break;
            }
            self.depot.put_loose(words[..count].iter().map(|word| crate::slot::frame_of(*word)));
        }
    }
}

impl Drop for SlotSender {
    fn drop(&mut self) {
        let closing = Arc::clone(&self.closing);
        let _closing = closing.lock().unwrap_or_else(PoisonError::into_inner);
        self.reclaim();
    }
}
