//! What the kernel could not put into the device's queue.

use linerate_sys::counters::CounterReader;

/// A reader that stays with the namespace in which it was opened.
pub(crate) struct QueueDrops {
    /// `None` without a /proc: nothing can be counted.
    reader: Option<CounterReader>,
    at_open: u64,
    last: u64,
}

impl QueueDrops {
    pub(crate) fn of(interface: &str) -> QueueDrops {
        let mut drops = QueueDrops { reader: CounterReader::open(interface).ok(), at_open: 0, last: 0 };
        drops.at_open = drops.read();
        drops
    }

    /// Packets since the port was opened; of a device that is gone, the last count.
    pub(crate) fn since_open(&mut self) -> u64 {
        self.read().saturating_sub(self.at_open)
    }

    fn read(&mut self) -> u64 {
        if let Some(counters) = self.reader.as_mut().and_then(|reader| reader.read().ok()) {
            self.last = counters.tx_dropped;
        }
        self.last
    }
}
