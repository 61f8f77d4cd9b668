//! `-f rx` and `-f rxseq`: takes packets until the quota is full, silence follows, or a stop is asked for.

use std::sync::Arc;

use linerate_mem::Batch;
use linerate_port::{Context, Datapath, PortIndex};
use linerate_sys::clock;

use super::dump;
use super::format::Counts;
use super::log::diag;
use super::options::Options;
use super::quota::Quota;
use super::worker::{Outcome, Task, publish, serve};

/// Silence after which `-W` ends the run.
const SILENCE_NS: u64 = 1_000_000_000;
/// Time for which packets that wait in the port are still taken after a stop was asked for.
const DRAIN_NS: u64 = 50_000_000;
/// Time between two lines that say that nothing has come yet.
const WAITING_NS: u64 = 1_000_000_000;

/// Receives; `on_batch` sees every batch before its frames go back.
pub fn receive(task: Task, on_batch: &mut dyn FnMut(&Batch)) -> Outcome {
    let Task { options, thread, quota, port, pool, control, .. } = task;
    // One sync brings all packets of a ring. A batch with room left tells that no packet is left, so that the next sync is a sleep.
    let burst = if port.caps().sleep_syncs { 2 * options.burst } else { options.burst };
    let receiving = Receiving {
        options,
        thread,
        quota,
        publish: &|counts| publish(&control, counts),
        on_batch,
        counts: Counts::default(),
        first_ns: None,
        last_ns: clock::now_ns(),
        said_waiting_ns: clock::now_ns(),
        silent: false,
    };
    match serve(receiving, port, &pool, &control, burst, DRAIN_NS) {
        Ok((receiving, outcome)) => receiving.outcome(outcome),
        Err(error) => Outcome { error: Some(error), ..Outcome::default() },
    }
}

/// Slots that the first `packets` packets of a batch take.
fn slots_of(batch: &Batch, packets: usize) -> usize {
    let ends = (0..batch.len()).filter(|slot| !batch.more(*slot)).take(packets);
    ends.last().map_or(0, |slot| slot + 1)
}

struct Receiving<'a> {
    options: Arc<Options>,
    thread: usize,
    quota: Arc<Quota>,
    publish: &'a dyn Fn(&Counts),
    on_batch: &'a mut dyn FnMut(&Batch),
    counts: Counts,
    first_ns: Option<u64>,
    last_ns: u64,
    said_waiting_ns: u64,
    /// Silence followed, and ends the run.
    silent: bool,
}

impl Datapath for Receiving<'_> {
    #[inline]
    fn input(&mut self, _: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        let came = batch.totals().packets as usize;
        let wanted = self.quota.take(came);
        if wanted < came {
            let slots = batch.len() - slots_of(batch, wanted);
            context.pool.free_back(batch, slots);
        }
        if wanted > 0 {
            self.first_ns.get_or_insert(context.now_ns);
            self.last_ns = context.now_ns;
            let totals = batch.totals();
            self.counts = self.counts.plus(&Counts { packets: totals.packets, bytes: totals.bytes, events: 1 });
            (self.publish)(&self.counts);
            if self.options.dump {
                dump::batch(self.thread, batch, batch.len());
            }
            (self.on_batch)(batch);
        }
        context.pool.free(batch);
    }

    fn output(&mut self, _: PortIndex) -> Option<&mut Batch> {
        None
    }

    fn tx_done(&mut self, _: PortIndex, _: usize, _: u64) {}

    fn waiting(&self, _: PortIndex) -> u64 {
        0
    }

    fn too_long(&mut self, _: PortIndex, _: usize, _: &mut Context<'_>) {}

    fn next_deadline_ns(&self) -> u64 {
        match self.first_ns {
            None => self.said_waiting_ns + WAITING_NS,
            Some(_) if self.options.ends_in_silence => self.last_ns + SILENCE_NS,
            Some(_) => u64::MAX,
        }
    }

    fn tick(&mut self, context: &mut Context<'_>) {
        if self.first_ns.is_some() {
            self.silent = true;
        } else {
            self.said_waiting_ns = context.now_ns;
            diag!("receiver_body", "waiting for initial packets, poll returns 0 0");
        }
    }

    fn is_done(&self) -> bool {
        self.silent || self.quota.is_done()
    }
}

impl Receiving<'_> {
    /// The time runs from the first packet to the last one, or to the end when packets kept coming.
    fn outcome(self, outcome: Outcome) -> Outcome {
        let start_ns = self.first_ns.unwrap_or(outcome.start_ns);
        let end_ns = if outcome.end_ns - self.last_ns >= SILENCE_NS { self.last_ns } else { outcome.end_ns };
        Outcome { counts: self.counts, start_ns, end_ns, ..outcome }
    }
}
