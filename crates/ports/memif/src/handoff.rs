//! Where the control thread leaves rings for a port: the port looks at one number a call, and takes a lock only when that
//! changed.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::link::Pair;
use crate::sys::Doorbell;

/// Deliveries that wait for a port at most. Connections that come and go while nobody looks at the port are kept, because there may be
/// packets in their rings; of more than these, the packets of the first ones are lost uncounted.
const WAITING_MAX: usize = 16;

/// A port's place at an interface.
pub(crate) struct QueueHandoff {
    /// The queue pair that it serves.
    pub(crate) queue: u16,
    /// Rung when something was delivered, for a port that sleeps.
    pub(crate) changed: Doorbell,
    /// Counts deliveries.
    epoch: AtomicU64,
    /// Each with its number.
    waiting: Mutex<VecDeque<(u64, Delivery)>>,
}

/// The rings of a new connection; none when a connection ended.
#[derive(Default)]
pub(crate) struct Delivery {
    /// Number of the connection, 0 for none.
    pub(crate) connection: u64,
    pub(crate) pair: Pair,
}

impl QueueHandoff {
    pub(crate) fn new(queue: u16) -> io::Result<QueueHandoff> {
        let (epoch, waiting) = (AtomicU64::new(0), Mutex::default());
        Ok(QueueHandoff { queue, changed: Doorbell::new()?, epoch, waiting })
    }

    /// Number of the latest delivery.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Takes what was delivered first of all that waits, with its number.
    pub(crate) fn collect(&self) -> Option<(u64, Delivery)> {
        let mut waiting = self.waiting();
        let first = waiting.pop_front();
        if waiting.is_empty() {
            self.changed.silence();
        }
        first
    }

    pub(crate) fn deliver(&self, delivery: Delivery) {
        let mut waiting = self.waiting();
        let number = self.epoch.load(Ordering::Relaxed) + 1;
        if waiting.len() == WAITING_MAX {
            waiting.pop_front();
        }
        waiting.push_back((number, delivery));
        // In this order: whoever has seen the new number can take the ringing away for good.
        self.changed.ring();
        self.epoch.store(number, Ordering::Release);
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(u64, Delivery)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
