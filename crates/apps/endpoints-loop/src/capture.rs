//! The file that frames are written to as they pass between the stack and its port: what each queue of the port writes, under one lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linerate_mem::Batch;
use linerate_port::{Caps, Interest, Port, PortError, Readiness, Stats};

/// A port that several threads write to.
#[derive(Clone)]
pub struct SharedPort(Arc<Mutex<Box<dyn Port>>>);

impl SharedPort {
    /// Shares the port.
    pub fn new(port: Box<dyn Port>) -> SharedPort {
        SharedPort(Arc::new(Mutex::new(port)))
    }

    /// The port, while no other thread has it.
    pub fn lock(&self) -> MutexGuard<'_, Box<dyn Port>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what one queue shows it.
pub struct QueueWriter {
    caps: Caps,
    file: SharedPort,
    /// What it wrote; what the file lost of it is the file's to tell.
    stats: Stats,
}

impl QueueWriter {
    /// A writer to the file.
    pub fn new(file: SharedPort) -> QueueWriter {
        let caps = file.lock().caps().clone();
        QueueWriter { caps, file, stats: Stats::default() }
    }
}

impl Port for QueueWriter {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.file.lock().receive(batch)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        let before = batch.totals();
        let result = self.file.lock().transmit(batch);
        let left = batch.totals();
        self.stats.tx_packets += before.packets - left.packets;
        self.stats.tx_bytes += before.bytes - left.bytes;
        result
    }

    fn transmit_ref(&mut self, batch: &Batch, from: usize) -> Result<usize, PortError> {
        let written = self.file.lock().transmit_ref(batch, from)?;
        let mut at = from;
        for span in (0..written).map_while(|_| batch.span(at).inspect(|span| at += span.slots)) {
            self.stats.tx_bytes += span.len as u64;
        }
        self.stats.tx_packets += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        self.file.lock().flush()
    }

    /// A file takes what it gets, and brings nothing.
    fn wait(&mut self, interest: Interest, _: u64) -> Result<Readiness, PortError> {
        Ok(if interest == Interest::Transmit { Readiness::Ready } else { Readiness::Closed })
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        Ok(self.stats.clone())
    }
}
