//! `-f rx` and `-f rxseq`: takes packets until the quota is full, silence follows, or a stop is asked for.

use std::sync::Arc;

use linerate_mem::Batch;
use linerate_port::{Context, Datapath, PortIndex};
use linerate_sys::clock;

use super::arrivals::Arrivals;
use super::dump;
use super::format::Counts;
use super::options::Options;
use super::quota::Quota;
use super::worker::{Outcome, Task, publish, serve};

/// Time for which packets that wait in the port are still taken after a stop was asked for.
pub(super) const DRAIN_NS: u64 = 50_000_000;

/// Receives; `on_batch` sees every batch before its frames go back.
pub fn receive(task: Task, on_batch: &mut dyn FnMut(&Batch)) -> Outcome {
    let Task { options, thread, quota, port, pool, control, .. } = task;
    // One sync brings all packets of a ring. A batch with room left tells that no packet is left, so that the next sync is a sleep.
    let burst = if port.caps().sleep_syncs { 2 * options.burst } else { options.burst };
    let arrivals = Arrivals::new(options.ends_in_silence, clock::now_ns());
    let receiving =
        Receiving { options, thread, quota, publish: &|counts| publish(&control, counts), on_batch, arrivals };
    match serve(receiving, port, &pool, &control, burst, DRAIN_NS) {
        Ok((receiving, outcome)) => receiving.arrivals.into_outcome(outcome),
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
    arrivals: Arrivals,
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
            let totals = batch.totals();
            let counts = Counts { packets: totals.packets, bytes: totals.bytes, events: 1 };
            self.arrivals.add(&counts, context.now_ns);
            (self.publish)(&self.arrivals.counts);
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
        self.arrivals.next_deadline_ns()
    }

    fn tick(&mut self, context: &mut Context<'_>) {
        self.arrivals.tick(context.now_ns);
    }

    fn is_done(&self) -> bool {
        self.arrivals.are_over() || self.quota.is_done()
    }
}
