//! `-f rx` and `-f rxseq`: takes packets until the quota is full, silence follows, or a stop is asked for.

use std::sync::Arc;

use linerate_mem::Batch;
use linerate_port::{Context, Datapath, PortIndex};
use linerate_sys::clock;

use super::arrivals::{Arrivals, DRAIN_NS};
use super::count;
use super::counts::Counts;
use super::dump;
use super::quota::Quota;
use super::sequence::Numbers;
use super::worker::{Outcome, Task, publish, serve};

/// `-f rx`. A port that counts packets by itself hands none out where that is enough.
pub fn receive(mut task: Task) -> Outcome {
    if count::is_enough(&mut task) { count::count(task) } else { take(task, &mut |_| {}) }
}

/// `-f rxseq`: follows the numbers of all packets.
pub fn receive_numbers(task: Task) -> Outcome {
    let mut numbers = Numbers::default();
    let mut outcome = take(task, &mut |batch| numbers.record(batch));
    outcome.results.push(numbers.totals());
    outcome
}

/// Takes packets; `on_batch` sees every batch before its frames go back.
fn take(task: Task, on_batch: &mut dyn FnMut(&Batch)) -> Outcome {
    let Task { thread, quota, burst, ends_in_silence, dump, port, pool, control, .. } = task;
    // One sync brings all packets of a ring. A batch with room left tells that no packet is left, so that the next sync is a sleep.
    let burst = if port.caps().sleep_syncs { 2 * burst } else { burst };
    let arrivals = Arrivals::new(ends_in_silence, clock::now_ns());
    let receiving = Receiving { dump, thread, quota, publish: &|counts| publish(&control, counts), on_batch, arrivals };
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
    dump: bool,
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
            if self.dump {
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
