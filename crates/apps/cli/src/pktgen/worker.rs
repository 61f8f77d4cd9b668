//! One thread of a run: what it is given, what it gives back.

use std::sync::Arc;

use linerate_mem::{Batch, Pool};
use linerate_port::{Drops, Port};
use linerate_wire::MacAddress;
use linerate_worker::Control;

use super::dump;
use super::format::Counts;
use super::options::Options;

/// What a thread works with.
pub struct Task {
    /// The run's options.
    pub options: Arc<Options>,
    /// Number of the thread, from 0.
    pub thread: usize,
    /// Packets that this thread is to send; 0 = until stopped.
    pub count: u64,
    /// Packets that all receiving threads together are to take.
    pub quota: Arc<super::quota::Quota>,
    /// The thread's own port.
    pub port: Box<dyn Port>,
    /// Where `-P` reads its packets.
    pub file: Option<Box<dyn Port>>,
    /// The pool that the ports were opened on.
    pub pool: Pool,
    /// Source address of packets made here.
    pub source_mac: MacAddress,
    /// Stop request and live counts.
    pub control: Control,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Packets, bytes, port calls.
    pub counts: Counts,
    /// When the work began and ended, on `linerate_sys::clock`.
    pub start_ns: u64,
    /// See `start_ns`.
    pub end_ns: u64,
    /// Lines that belong behind the totals.
    pub results: Vec<String>,
    /// Packets that the port lost, by its own account.
    pub drops: Vec<Drops>,
    /// Packets that the port accepted and had not finished a second after the last one.
    pub incomplete: u64,
    /// What ended the work before its time, if something did.
    pub error: Option<String>,
}

impl Task {
    /// Publishes counts for the reports.
    #[inline]
    pub fn publish(&self, counts: &Counts) {
        self.control.meter.set(counts.packets, counts.bytes, counts.events);
    }

    /// Prints the packets of a batch if `-X` asks for it.
    #[inline]
    pub fn show(&self, batch: &Batch) {
        if self.options.dump {
            dump::batch(self.thread, batch, batch.len());
        }
    }
}
