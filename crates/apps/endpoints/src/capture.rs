//! The file that frames are written to as they pass between the stack and its port: one file, and a writer for each queue of the port.
//!
//! ```text
//! queue 0, a core --Monitor--> QueueWriter --+
//! queue 1, a core --Monitor--> QueueWriter --+--lock--> file
//! ```
//! Frames of one queue are in the file in their order; between queues they are in the order of the writes, each with its time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linerate_control::{ControlError, add_drops};
use linerate_mem::{Batch, Pool};
use linerate_port::{
    Caps, Drops, Interest, MonitorAccount, OpenOptions, Port, PortError, Readiness, Stats, drops_that_happened,
};

use crate::document::CaptureDocument;

/// A capture that is being written.
pub(crate) struct Capture {
    path: PathBuf,
    file: SharedFile,
    /// What the watchers of queues that are gone did not get into it, by cause.
    missing: Vec<Drops>,
}

#[derive(Clone)]
struct SharedFile(Arc<Mutex<Box<dyn Port>>>);

/// Writes what one queue shows it.
struct QueueWriter {
    caps: Caps,
    file: SharedFile,
    /// What it wrote; what the file lost of it is the file's to tell.
    stats: Stats,
}

impl Capture {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// It cannot be created.
    pub(crate) fn create(path: &Path, pool: &Pool) -> Result<Capture, ControlError> {
        let spec = linerate_ports::file(&path.display().to_string());
        let opened = linerate_ports::open_device(&spec, &OpenOptions::transmit(), pool);
        let file = opened.map_err(|error| ControlError::new(error.to_string(), ""))?.into_port();
        Ok(Capture { path: path.to_owned(), file: SharedFile(Arc::new(Mutex::new(file))), missing: Vec::new() })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A watcher for one queue.
    pub(crate) fn writer(&self) -> Box<dyn Port> {
        let caps = self.file.lock().caps().clone();
        Box::new(QueueWriter { caps, file: self.file.clone(), stats: Stats::default() })
    }

    /// Keeps the account of a watcher whose queue is gone; the capture goes on when it comes back.
    pub(crate) fn keep(&mut self, account: MonitorAccount) {
        // A peer that comes and goes makes no more rows.
        add_drops(&mut self.missing, &account.stats.tx_drops);
    }

    /// What is in the file, and what is missing, when the watchers of all queues have ended with these accounts.
    pub(crate) fn ended(self, accounts: impl Iterator<Item = MonitorAccount>) -> CaptureDocument {
        let mut file = self.file.lock();
        // What a failed write lost is in the totals.
        let _ = file.flush();
        let stats = file.stats().unwrap_or_default();
        let mut causes = self.missing;
        accounts.for_each(|account| add_drops(&mut causes, &account.stats.tx_drops));
        add_drops(&mut causes, &stats.tx_drops);
        CaptureDocument {
            file: self.path.display().to_string(),
            written: stats.tx_packets,
            missed: causes.iter().map(|drop| drop.packets).sum(),
            causes: drops_that_happened(&causes),
        }
    }
}

impl SharedFile {
    fn lock(&self) -> MutexGuard<'_, Box<dyn Port>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use linerate_mem::PoolConfig;

    use super::*;

    #[test]
    fn a_peer_that_comes_and_goes_takes_no_more_memory() {
        let (folder, pool) = (tempfile::tempdir().unwrap(), Pool::new(PoolConfig::default()).unwrap());
        let mut capture = Capture::create(&folder.path().join("frames.pcapng"), &pool).unwrap();
        let lost = Drops { place: "monitor of memif:x".into(), cause: "no free frame for a copy".into(), packets: 2 };
        let account = || {
            let stats = Stats { tx_drops: vec![lost.clone()], ..Stats::default() };
            MonitorAccount { stats, ..MonitorAccount::default() }
        };
        (0..1000).for_each(|_| capture.keep(account()));
        assert_eq!(capture.missing.len(), 1);
        let document = capture.ended([account()].into_iter());
        assert_eq!((document.written, document.missed, document.causes.len()), (0, 2002, 1));
    }
}
