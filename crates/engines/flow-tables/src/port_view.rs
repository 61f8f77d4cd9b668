//! A port as workers see it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use linerate_openflow::{PortConfig, PortNumber, PortStats, QueueStats};

use crate::tally::{Pair, PerWorker, PortTally, Tally};

/// A counter that the switch does not keep.
const UNKNOWN: u64 = u64::MAX;

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
pub struct PortShared {
    /// Set by the worker that notices, before anybody else knows.
    link: AtomicBool,
    /// Number of the worker that has the port.
    home: AtomicUsize,
    pub(crate) tally: PerWorker<PortTally>,
    /// By place in the port's list of queues.
    pub(crate) queues: Vec<PerWorker<QueueTally>>,
}

impl PortShared {
    /// A port that no worker has yet, for so many workers.
    pub fn new(workers: usize, queues: usize, link: bool) -> PortShared {
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
    /// Its counters, for a message about the port with this number, which is so old.
    pub fn stats(&self, port: PortNumber, duration_ns: u64) -> PortStats {
        let sum = |of: fn(&PortTally) -> &Tally| self.tally.sum(of);
        PortStats {
            port,
            rx_packets: sum(|tally| &tally.received.packets),
            tx_packets: sum(|tally| &tally.sent.packets),
            rx_bytes: sum(|tally| &tally.received.bytes),
            tx_bytes: sum(|tally| &tally.sent.bytes),
            rx_dropped: sum(|tally| &tally.rx_dropped),
            tx_dropped: sum(|tally| &tally.tx_dropped),
            rx_errors: 0,
            tx_errors: 0,
            rx_frame_errors: UNKNOWN,
            rx_over_errors: UNKNOWN,
            rx_crc_errors: UNKNOWN,
            collisions: UNKNOWN,
            duration_ns,
        }
    }

    /// Counters of the queue at this place of its list, whose number is `queue`.
    pub fn queue_stats(&self, place: usize, port: PortNumber, queue: u32, duration_ns: u64) -> QueueStats {
        let tally = &self.queues[place];
        QueueStats {
            port,
            queue,
            tx_bytes: tally.sum(|tally| &tally.sent.bytes),
            tx_packets: tally.sum(|tally| &tally.sent.packets),
            tx_errors: tally.sum(|tally| &tally.dropped),
            duration_ns,
        }
    }

    /// True if its link is up.
    pub fn has_link(&self) -> bool {
        self.link.load(Ordering::Relaxed)
    }

    /// Sets its link.
    pub fn set_link(&self, up: bool) {
        self.link.store(up, Ordering::Relaxed);
    }
}

/// A port, immutable but for its link and its counters.
#[derive(Clone, Debug)]
pub struct PortView {
    /// Its number.
    pub number: PortNumber,
    /// The port below a logical port; its own number otherwise.
    pub physical: PortNumber,
    /// `TUNNEL_ID` of the packets that arrive by it.
    pub tunnel_id: u64,
    /// Packets of the port begin with the key of their tunnel.
    pub tunnel_keys: bool,
    /// Longest packet in bytes.
    pub len_max: usize,
    /// Its configuration.
    pub config: PortConfig,
    /// Its queues.
    pub queues: Vec<QueueSettings>,
    /// What outlives changes of its configuration.
    pub shared: std::sync::Arc<PortShared>,
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
