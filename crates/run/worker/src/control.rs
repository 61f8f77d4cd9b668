//! What a running loop and its owner share: the request to stop, and live counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use linerate_sys::signal::stop_requested;

use crate::notifier::Notifier;

/// Stops a loop from another thread, and reads its counts while it runs.
#[derive(Clone, Default)]
pub struct Control {
    shared: Arc<Shared>,
    /// The loop goes on when the process gets a signal to stop.
    ignores_signals: bool,
    /// The loop's live counts.
    pub meter: Arc<Meter>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Bits of a rate in packets per second that was asked for and not taken yet; 0 = none.
    rate: AtomicU64,
    /// A rate was asked for.
    rate_changed: AtomicBool,
    /// Wakes the loop if it sleeps.
    sleeper: OnceLock<Notifier>,
}

impl Control {
    /// A control whose loop goes on when the process gets a signal to stop: whoever made it calls [`Control::stop`] when it is time
    /// (a receiver ends after the senders of its process).
    pub fn ignoring_signals() -> Control {
        Control { ignores_signals: true, ..Control::default() }
    }

    /// Asks the loop to end after its current batch, and wakes it if it is a worker that sleeps.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(sleeper) = self.shared.sleeper.get() {
            sleeper.notify();
        }
    }

    /// True once [`Control::stop`] was called, or the process was asked to stop by a signal (unless sheltered from that).
    #[inline]
    pub fn stopping(&self) -> bool {
        self.shared.stop.load(Ordering::Acquire) || !self.ignores_signals && stop_requested()
    }

    /// Asks a sender of streams to go on at another rate, in packets per second.
    pub fn set_rate_pps(&self, rate_pps: f64) {
        self.shared.rate_changed.store(true, Ordering::Relaxed);
        self.shared.rate.store(rate_pps.to_bits(), Ordering::Release);
    }

    /// True once [`Control::set_rate_pps`] was called.
    pub fn rate_was_changed(&self) -> bool {
        self.shared.rate_changed.load(Ordering::Relaxed)
    }

    /// For the loop: the rate that was asked for since the last call.
    #[inline]
    pub(crate) fn take_rate_pps(&self) -> Option<f64> {
        if self.shared.rate.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(f64::from_bits(self.shared.rate.swap(0, Ordering::AcqRel))).filter(|rate_pps| *rate_pps > 0.0)
    }

    /// [`Control::stop`] wakes the loop by this. A control serves one loop; later ones are not woken.
    pub(crate) fn wakes(&self, sleeper: &Notifier) {
        let _ = self.shared.sleeper.set(sleeper.clone());
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
    pub fn store(&self, readings: impl Iterator<Item = MeterReading>) {
        let (mut packets, mut bytes, mut batches) = (0, 0, 0);
        for reading in readings {
            packets += reading.packets;
            bytes += reading.bytes;
            batches += reading.batches;
        }
        self.set(packets, bytes, batches);
    }

    /// Publishes how many packets a receiver misses.
    pub fn set_lost(&self, lost: u64) {
        self.lost.store(lost, Ordering::Relaxed);
    }
}
