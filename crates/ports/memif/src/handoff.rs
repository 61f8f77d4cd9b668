//! Where the control thread leaves rings for a port: the port looks at one number a call, and takes a lock only when that
//! changed.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::link::Pair;
use crate::sys::Doorbell;

/// A port's place at an interface.
pub(crate) struct QueueHandoff {
    /// The queue pair that it serves.
    pub(crate) queue: u16,
    /// Rung when something was delivered, for a port that sleeps.
    pub(crate) changed: Doorbell,
    /// Counts deliveries.
    epoch: AtomicU64,
    waiting: Mutex<Delivery>,
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

    /// Takes what was delivered last.
    pub(crate) fn collect(&self) -> Delivery {
        self.changed.silence();
        std::mem::take(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn deliver(&self, delivery: Delivery) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = delivery;
        // In this order: whoever has seen the new number can take the ringing away for good.
        self.changed.ring();
        self.epoch.fetch_add(1, Ordering::Release);
    }
}
