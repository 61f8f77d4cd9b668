//! What the thread of a ring and the one that reports share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use linerate_ports::capture::RingCounters;
use linerate_sys::clock;

/// How long an answer is waited for; a thread that has a core at times answers within a tenth of a second.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Counts of one ring, all of one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Packets taken out of the ring that passed the filter.
    pub taken: u64,
    /// Bytes that those packets had.
    pub bytes: u64,
    /// Of the taken ones, those with a timestamp of the NIC's clock.
    pub timestamped_by_nic: u64,
    /// Of the taken ones, those for which there was no buffer.
    pub dropped_for_buffers: u64,
    /// The ring's own, read after the others.
    pub ring: RingCounters,
    /// Bytes in the ring, where that is known.
    pub level_bytes: Option<u64>,
    /// Time that the thread ran on a core.
    pub cpu_ns: u64,
}

/// What the thread of a ring and the one that reports share.
#[derive(Default)]
pub struct Control {
    /// Asks the thread to end.
    pub stop: AtomicBool,
    /// Number of the last question for counts, and of the last one answered.
    asked: AtomicU64,
    answered: AtomicU64,
    counts: Mutex<Counts>,
    /// The thread has ended, for whatever reason.
    pub ended: AtomicBool,
    /// It ended because of what ends the whole capture: an error, or packets enough.
    pub ends_capture: AtomicBool,
}

/// A question for counts.
#[derive(Clone, Copy)]
pub struct Question(u64);

impl Control {
    /// Asks for counts; the thread answers when it has walked what waits.
    pub fn ask(&self) -> Question {
        Question(self.asked.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// The counts, no older than the question unless the thread has ended, or is stuck (in a port that waits for its other side).
    pub fn answer(&self, question: Question) -> Counts {
        let deadline_ns = clock::now_ns() + PATIENCE_NS;
        let waits = || self.answered.load(Ordering::Acquire) < question.0 && !self.ended.load(Ordering::Acquire);
        while waits() && clock::now_ns() < deadline_ns {
            clock::sleep_until_ns(clock::now_ns() + 1_000_000);
        }
        self.last()
    }

    /// The counts of the last answer.
    pub fn last(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the thread: the question that waits for an answer.
    pub(crate) fn question(&self) -> Option<Question> {
        let asked = self.asked.load(Ordering::Acquire);
        (asked > self.answered.load(Ordering::Acquire)).then_some(Question(asked))
    }

    /// For the thread: shows counts.
    pub(crate) fn show(&self, counts: Counts) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = counts;
    }

    /// For the thread: the counts shown are the answer.
    pub(crate) fn answered(&self, question: Question) {
        self.answered.store(question.0, Ordering::Release);
    }
}
