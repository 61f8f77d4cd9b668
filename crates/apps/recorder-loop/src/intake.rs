//! A ring's side of the recorder.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use linerate_capture::WriteBuffer;
use linerate_pcapng::PacketHead;

use crate::message::Message;

/// What an intake was given, as other threads see it.
#[derive(Debug, Default)]
pub(crate) struct Published {
    taken: AtomicU64,
    dropped: AtomicU64,
}

/// Empty buffers. The one that came back last goes out first: its memory is still in the caches, where that of the one that has
/// waited longest is not.
#[derive(Default)]
pub(crate) struct Empty(Mutex<Vec<WriteBuffer>>);

impl Empty {
    /// The lock is held for a push or a pop, once a buffer.
    pub fn put(&self, buffer: WriteBuffer) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn take(&self) -> Option<WriteBuffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// Buffers of all intakes that are on their way to the file.
#[derive(Debug, Default)]
pub(crate) struct Level {
    now: AtomicU64,
    highest: AtomicU64,
}

impl Level {
    fn rise(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.highest.fetch_max(now, Ordering::Relaxed);
    }

    pub fn fall(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }

    /// At the moment, and at most so far.
    pub fn read(&self) -> (u64, u64) {
        (self.now.load(Ordering::Relaxed), self.highest.load(Ordering::Relaxed))
    }
}

/// What an intake was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntakeCounts {
    /// Packets.
    pub taken: u64,
    /// Of these, packets for which there was no free buffer.
    pub dropped: u64,
}

impl Published {
    /// The counts of the last [`Intake::publish`]; what was dropped is never more than what was taken.
    pub fn read(&self) -> IntakeCounts {
        let dropped = self.dropped.load(Ordering::Acquire);
        IntakeCounts { taken: self.taken.load(Ordering::Acquire), dropped }
    }
}

/// Takes the packets of one ring; for one thread. Dropping it hands over what it has.
pub struct Intake {
    number: usize,
    buffer: Option<WriteBuffer>,
    empty: Arc<Empty>,
    full: Sender<Message>,
    counts: IntakeCounts,
    published: Arc<Published>,
    in_flight: Arc<Level>,
    settle_ns: u64,
    /// When [`Intake::settle`] first saw what is in the buffer.
    waiting_since_ns: Option<u64>,
}

impl Intake {
    pub(crate) fn new(
        number: usize,
        empty: Arc<Empty>,
        full: Sender<Message>,
        published: Arc<Published>,
        in_flight: Arc<Level>,
        settle_ns: u64,
    ) -> Intake {
        Intake {
            number,
            buffer: None,
            empty,
            full,
            counts: IntakeCounts::default(),
            published,
            in_flight,
            settle_ns,
            waiting_since_ns: None,
        }
    }

    /// Takes a packet of which `kept` bytes are to be written, and has `fill` put them in their place. False when there is no
    /// buffer: then the packet is counted as dropped, and `fill` is not called. Never waits for the disk, never allocates.
    #[inline]
    pub fn packet(&mut self, head: &PacketHead, kept: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        self.counts.taken += 1;
        // The buffer at hand, or else a new one.
        for _ in 0..2 {
            if self.buffer.is_none() {
                self.buffer = self.empty.take();
            }
            let Some(buffer) = &mut self.buffer else { break };
            if let Some(place) = buffer.packet(head, kept) {
                fill(place);
                return true;
            }
            self.hand_over();
        }
        self.counts.dropped += 1;
        false
    }

    /// For a ring that has nothing more at the moment: hands over packets that have waited for `Settings::settle_ns`, and publishes the
    /// counts. So a ring that is emptied often still makes large writes. `now_ns` is of any clock that goes on evenly.
    pub fn settle(&mut self, now_ns: u64) {
        if self.buffer.as_ref().is_some_and(|buffer| !buffer.is_empty()) {
            let since_ns = *self.waiting_since_ns.get_or_insert(now_ns);
            if now_ns.saturating_sub(since_ns) >= self.settle_ns {
                self.hand_over();
            }
        }
        self.publish();
    }

    /// Hands over what was taken so far, and publishes the counts.
    pub fn flush(&mut self) {
        if self.buffer.as_ref().is_some_and(|buffer| !buffer.is_empty()) {
            self.hand_over();
        }
        self.publish();
    }

    /// Shows the counts to other threads; once a batch is often enough.
    pub fn publish(&self) {
        self.published.taken.store(self.counts.taken, Ordering::Release);
        self.published.dropped.store(self.counts.dropped, Ordering::Release);
    }

    /// True when a whole buffer is free, so that a buffer's worth of packets will not be dropped: for a source that can wait.
    pub fn has_room(&self) -> bool {
        !self.empty.is_empty()
    }

    /// The counts so far.
    pub fn counts(&self) -> IntakeCounts {
        self.counts
    }

    fn hand_over(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        self.waiting_since_ns = None;
        let packets = buffer.packets();
        self.in_flight.rise();
        if self.full.send(Message::Buffer { intake: self.number, buffer }).is_err() {
            // The writer's thread has ended, which it does only when it is broken.
            self.counts.dropped += packets;
        }
        self.publish();
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.flush();
    }
}
