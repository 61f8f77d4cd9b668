//! The file that frames are written to as they pass between the stack and its port: one file, and a writer for each queue of the port.
//!
//! ```text
//! queue 0, a core --Monitor--> QueueWriter --+
//! queue 1, a core --Monitor--> QueueWriter --+--lock--> file
//! ```
//! Frames of one queue are in the file in their order; between queues they are in the order of the writes, each with its time.

use std::path::{Path, PathBuf};

use linerate_control::{ControlError, add_drops};
use linerate_endpoints_loop::capture::{QueueWriter, SharedPort};
use linerate_mem::Pool;
use linerate_port::{Drops, MonitorAccount, OpenOptions, Port, drops_that_happened};

use crate::document::CaptureDocument;

/// A capture that is being written.
pub(crate) struct Capture {
    path: PathBuf,
    file: SharedPort,
    /// What the watchers of queues that are gone did not get into it, by cause.
    missing: Vec<Drops>,
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
        Ok(Capture { path: path.to_owned(), file: SharedPort::new(file), missing: Vec::new() })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A watcher for one queue.
    pub(crate) fn writer(&self) -> Box<dyn Port> {
        Box::new(QueueWriter::new(self.file.clone()))
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

#[cfg(test)]
mod tests {
    use linerate_mem::PoolConfig;
    use linerate_port::Stats;

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
