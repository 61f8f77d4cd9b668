//! A port as workers see it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use linerate_openflow::{PortConfig, PortNumber};

use crate::tally::{Pair, PerWorker, PortTally, Tally};

/// A queue of a port: packets of an egress port that share a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// Its number, which `SET_QUEUE` names.
    pub id: u32,
    /// Rate in bit/s that it gets before others; `None`: nothing is guaranteed.
    pub min_rate_bps: Option<u64>,
    /// Rate in bit/s that it does not exceed; `None`: no limit.
    pub max_rate_bps: Option<u64>,
}

/// What one worker counts of a queue.
#[derive(Debug, Default)]
pub(crate) struct QueueTally {
    pub(crate) sent: Pair,
    pub(crate) dropped: Tally,
}

/// Parts of a port that outlive changes of its configuration.
#[derive(Debug)]
pub(crate) struct PortShared {
    /// Set by the worker that notices, before anybody else knows.
    link: AtomicBool,
    /// Number of the worker that has the port.
    home: AtomicUsize,
    pub(crate) tally: PerWorker<PortTally>,
    /// By place in the port's list of queues.
    pub(crate) queues: Vec<PerWorker<QueueTally>>,
}

impl PortShared {
    pub(crate) fn new(workers: usize, queues: usize, link: bool) -> PortShared {
        PortShared {
            link: AtomicBool::new(link),
            home: AtomicUsize::new(0),
            tally: PerWorker::new(workers),
            queues: (0..queues).map(|_| PerWorker::new(workers)).collect(),
        }
    }

    /// Number of the worker that has the port; the first if none has.
    pub(crate) fn home(&self) -> usize {
        self.home.load(Ordering::Relaxed)
    }

    pub(crate) fn set_home(&self, worker: usize) {
        self.home.store(worker, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has_link(&self) -> bool {
        self.link.load(Ordering::Relaxed)
    }

    pub(crate) fn set_link(&self, up: bool) {
        self.link.store(up, Ordering::Relaxed);
    }
}

/// A port, immutable but for its link and its counters.
#[derive(Clone, Debug)]
pub(crate) struct PortView {
    pub(crate) number: PortNumber,
    /// The port below a logical port; its own number otherwise.
    pub(crate) physical: PortNumber,
    pub(crate) tunnel_id: u64,
    /// Packets of the port begin with the key of their tunnel.
    pub(crate) tunnel_keys: bool,
    /// Longest packet in bytes.
    pub(crate) len_max: usize,
    pub(crate) config: PortConfig,
    pub(crate) queues: Vec<QueueSettings>,
    pub(crate) shared: std::sync::Arc<PortShared>,
}

impl PortView {
    #[inline]
    pub(crate) fn has(&self, bit: u32) -> bool {
        self.config.0 & bit != 0
    }

    /// True if a fast-failover bucket that watches the port may be used.
    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        !self.has(PortConfig::PORT_DOWN) && self.shared.has_link()
    }
}
