//! What a running loop and its owner share: the request to stop, and live counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use linerate_sys::signal::stop_requested;

/// Stops a loop from another thread, and reads its counts while it runs.
#[derive(Clone, Default)]
pub struct Control {
    stop: Arc<AtomicBool>,
    /// Signals to the process are for somebody else.
    sheltered: bool,
    /// The loop's live counts.
    pub meter: Arc<Meter>,
}

impl Control {
    /// A control that signals to the process do not stop: whoever made it will, when it is time (a receiver ends after the
    /// senders of its process).
    pub fn sheltered() -> Control {
        Control { sheltered: true, ..Control::default() }
    }

    /// Asks the loop to end after its current batch.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// True once [`Control::stop`] was called, or the process was asked to stop by a signal (unless sheltered from that).
    #[inline]
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire) || !self.sheltered && stop_requested()
    }
}

/// Live counts of one loop; written by it alone, once a batch.
#[derive(Default)]
#[repr(align(128))]
pub struct Meter {
    packets: AtomicU64,
    bytes: AtomicU64,
    batches: AtomicU64,
    lost: AtomicU64,
}

/// Counts at one moment (each of them is exact; they may be one batch apart).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterReading {
    /// Packets so far.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Calls of the port that moved something.
    pub batches: u64,
    /// Of a receiver: packets that had not arrived when it last counted them, a few times a second.
    pub lost: u64,
}

impl Meter {
    /// The counts now.
    pub fn read(&self) -> MeterReading {
        MeterReading {
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }

    /// Publishes the counts of a loop.
    #[inline]
    pub fn set(&self, packets: u64, bytes: u64, batches: u64) {
        self.packets.store(packets, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.batches.store(batches, Ordering::Relaxed);
    }

    /// Publishes the sums of several loops' counts.
    #[inline]
    pub(super) fn store(&self, readings: impl Iterator<Item = MeterReading>) {
        let (mut packets, mut bytes, mut batches) = (0, 0, 0);
        for reading in readings {
            packets += reading.packets;
            bytes += reading.bytes;
            batches += reading.batches;
        }
        self.set(packets, bytes, batches);
    }

    pub(crate) fn set_lost(&self, lost: u64) {
        self.lost.store(lost, Ordering::Relaxed);
    }
}
