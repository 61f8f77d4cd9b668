//! The end of a run: what has arrived, what waits to leave, what ports took and did not finish.

use linerate_port::{Datapath, Interest, Port, PortError, PortIndex, Stats};
use linerate_sys::clock;

use crate::HandoffStage;
use crate::worker::Served;

/// Pause between two attempts to send what waits.
const NAP_NS: u64 = 50_000;

/// A turn at the end of a run takes no longer than this, and a pause neither: beyond it the thread had no core, and that time is not taken off
/// what the worker may still do. A thread that others keep from its core for a second would else leave packets behind that had arrived.
const TURN_MAX_NS: u64 = 1_000_000;

/// How a run ended.
pub struct End {
    /// What broke a port and ended the run; counts and totals are right all the same.
    pub error: Option<PortError>,
    /// The ports by number; `None` where there was none at the end.
    pub ports: Vec<Option<PortEnd>>,
    /// Time on a core, in nanoseconds.
    pub core_ns: u64,
}

/// A port at the end of a run.
#[derive(Default)]
pub struct PortEnd {
    /// Its totals.
    pub stats: Stats,
    /// The totals of each queue pair that it stands for; empty if they cannot be read.
    pub queues: Vec<Stats>,
    /// Packets that it took and whose sending was not complete.
    pub tx_pending: u64,
    /// Packets that were received from it and that the datapath never took (it held them back); their frames are free again.
    pub held: u64,
}

impl End {
    /// A port at the end.
    pub fn port(&self, port: PortIndex) -> Option<&PortEnd> {
        self.ports.get(usize::from(port.0))?.as_ref()
    }
}

impl<D: Datapath> Served<D> {
    pub(crate) fn finish(&mut self, began_ns: u64) -> End {
        self.drain_input();
        self.drain_output();
        self.erased().end(began_ns)
    }

    /// Receives what had arrived when the stop was asked for. While the datapath takes no more of it, because a port that its packets leave by
    /// is full, that port is waited for.
    fn drain_input(&mut self) {
        let mut left_ns = self.config.drain_input_ns;
        while left_ns > 0 && !self.datapath.is_done() {
            let now_ns = clock::now_ns();
            let round = self.round_of_all(now_ns);
            if round.received == 0 && !self.ports.hold_packets() {
                break;
            }
            self.erased().nap_unless(round.moved(), now_ns);
            left_ns = left_ns.saturating_sub(turn_ns(now_ns));
        }
    }

    /// Sends what waits, as far as ports take it, and what other workers still hand over.
    fn drain_output(&mut self) {
        let mut left_ns = self.config.drain_output_ns;
        self.ports.close_outside(true);
        loop {
            let now_ns = clock::now_ns();
            let moved = self.round_of_all(now_ns).moved();
            if self.erased().is_drained() || left_ns == 0 {
                break;
            }
            self.erased().nap_unless(moved, now_ns);
            left_ns = left_ns.saturating_sub(turn_ns(now_ns));
        }
    }
}

impl Served<dyn Datapath + '_> {
    fn end(&mut self, began_ns: u64) -> End {
        let mut error = self.error.take();
        let drain_ns = self.config.drain_output_ns;
        let Served { ports, homes, .. } = self;
        let ends = ports.0.iter_mut().map(|attached| {
            let attached = attached.as_mut()?;
            let held = attached.held.totals().packets;
            if let Some(home) = homes.get_mut(attached.pool) {
                home.pool.free(&mut attached.held);
            }
            let tx_pending = complete(&mut *attached.port, drain_ns).unwrap_or(0);
            let stats = attached.port.stats().unwrap_or_else(|failure| {
                error.get_or_insert(failure);
                Stats::default()
            });
            let queues = attached.port.queue_stats().unwrap_or_default();
            Some(PortEnd { stats, queues, tx_pending, held })
        });
        let ports = ends.collect();
        self.homes.iter_mut().for_each(|home| home.pool.flush());
        End { error, ports, core_ns: clock::thread_cpu_ns() - began_ns }
    }

    /// Closes the ways to other workers by which nothing will come any more; true if nothing is left to send.
    fn is_drained(&mut self) -> bool {
        self.look_for_last_packet();
        let sourceless = self.ports.are_exhausted(None).is_none() && !self.waits();
        if sourceless {
            for stage in [HandoffStage::Arrived, HandoffStage::Leaving] {
                self.close_handoffs(stage);
            }
        }
        self.exhausted || sourceless
    }

    /// After a turn that began at `now_ns` and moved nothing.
    fn nap_unless(&mut self, moved: bool, now_ns: u64) {
        if !moved {
            self.tidy(now_ns);
            clock::sleep_until_ns(now_ns + NAP_NS);
        }
    }
}

/// How much of its time a worker has used since `began_ns`, the start of a turn.
fn turn_ns(began_ns: u64) -> u64 {
    clock::now_ns().saturating_sub(began_ns).clamp(1, TURN_MAX_NS)
}

/// Waits until what a port took is complete, for `patience_ns` at most; returns how many packets are not.
///
/// # Errors
/// The port broke.
pub fn complete(port: &mut dyn Port, patience_ns: u64) -> Result<u64, PortError> {
    let give_up_ns = clock::now_ns() + patience_ns;
    loop {
        let pending = port.flush()?;
        if pending == 0 || clock::now_ns() > give_up_ns {
            return Ok(pending as u64);
        }
        port.wait(Interest::Transmit, 1_000_000)?;
    }
}
