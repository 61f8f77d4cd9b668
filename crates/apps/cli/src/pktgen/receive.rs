//! `-f rx` and `-f rxseq`: takes packets until the quota is full, silence follows, or a stop is asked for.

use linerate_mem::Batch;
use linerate_port::{Interest, PortError, Readiness};
use linerate_sys::clock;

use super::format::Counts;
use super::log::diag;
use super::worker::{Outcome, Task};

/// Silence after which `-W` ends the run.
const SILENCE_NS: u64 = 1_000_000_000;
/// Longest sleep, so that a stop is seen.
const NAP_NS: u64 = 20_000_000;
/// Packets of another thread are looked for without sleeping for so long after the last one.
const SPIN_NS: u64 = 100_000;
/// Time for which packets that wait in the port are still taken after a stop was asked for.
const DRAIN_NS: u64 = 50_000_000;
/// Time between two lines that say that nothing has come yet.
const WAITING_NS: u64 = 1_000_000_000;

/// Receives; `on_batch` sees every batch before its frames go back.
pub fn receive(mut task: Task, on_batch: &mut dyn FnMut(&Batch)) -> Outcome {
    let mut state = Receiving::new(&task);
    let error = state.run(&mut task, on_batch).err();
    let mut outcome = state.outcome(clock::now_ns());
    outcome.error = error.map(|error| error.to_string());
    match task.port.stats() {
        Ok(stats) => outcome.drops = stats.rx_drops,
        Err(error) => outcome.error = outcome.error.or(Some(error.to_string())),
    }
    outcome
}

/// Slots that the first `packets` packets of a batch take, and how many packets those are.
fn slots_of(batch: &Batch, packets: usize) -> (usize, usize) {
    let ends = (0..batch.len()).filter(|slot| !batch.more(*slot)).take(packets);
    ends.fold((0, 0), |(_, count), slot| (slot + 1, count + 1))
}

/// Most slots of a packet: 65,535 bytes in the smallest frames.
const SLOTS_OF_ONE_MAX: usize = 64;

struct Receiving {
    batch: Batch,
    counts: Counts,
    first_ns: Option<u64>,
    last_ns: u64,
    began_ns: u64,
    said_waiting_ns: u64,
    stop_seen_ns: Option<u64>,
}

impl Receiving {
    fn new(task: &Task) -> Receiving {
        let now_ns = clock::now_ns();
        Receiving {
            batch: Batch::new(&task.pool, task.options.burst.max(SLOTS_OF_ONE_MAX)),
            counts: Counts::default(),
            first_ns: None,
            last_ns: now_ns,
            began_ns: now_ns,
            said_waiting_ns: now_ns,
            stop_seen_ns: None,
        }
    }

    fn run(&mut self, task: &mut Task, on_batch: &mut dyn FnMut(&Batch)) -> Result<(), PortError> {
        loop {
            let stopping = task.control.stopping();
            let now_ns = clock::now_ns();
            if task.quota.is_done() || stopping && self.drained_long_enough(now_ns) {
                return Ok(());
            }
            if self.take(task, now_ns, on_batch)? > 0 {
                continue;
            }
            if stopping || self.is_silent(task, now_ns) || self.wait(task)? == Readiness::Closed {
                return Ok(());
            }
        }
    }

    /// Takes what has arrived, within the quota.
    #[inline]
    fn take(&mut self, task: &mut Task, now_ns: u64, on_batch: &mut dyn FnMut(&Batch)) -> Result<usize, PortError> {
        let claimed = task.quota.claim(task.options.burst);
        if claimed == 0 {
            return Ok(0);
        }
        let taken = if claimed < task.options.burst {
            self.take_few(task, claimed)
        } else {
            task.port.receive(&mut self.batch)
        };
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                task.quota.settle(claimed, 0);
                return Err(error);
            }
        };
        task.quota.settle(claimed, taken);
        if taken > 0 {
            self.first_ns.get_or_insert(now_ns);
            self.last_ns = now_ns;
            let totals = self.batch.totals();
            let moved = Counts { packets: totals.packets, bytes: totals.bytes, events: 1 };
            self.counts = self.counts.plus(&moved);
            task.publish(&self.counts);
            task.show(&self.batch);
            on_batch(&self.batch);
            task.pool.free(&mut self.batch);
        }
        Ok(taken)
    }

    /// The last packets of a quota come through a batch that has room for no more of them.
    #[cold]
    fn take_few(&mut self, task: &mut Task, claimed: usize) -> Result<usize, PortError> {
        let slots_of_one = task.port.caps().frame_len_max.div_ceil(task.pool.packet_len_max()).max(1);
        let mut few = Batch::new(&task.pool, claimed.max(slots_of_one));
        task.port.receive(&mut few)?;
        let (slots, packets) = slots_of(&few, claimed);
        few.move_to(&mut self.batch, slots);
        Ok(packets)
    }

    fn is_silent(&self, task: &Task, now_ns: u64) -> bool {
        task.options.ends_in_silence && self.first_ns.is_some() && now_ns - self.last_ns >= SILENCE_NS
    }

    fn drained_long_enough(&mut self, now_ns: u64) -> bool {
        now_ns - *self.stop_seen_ns.get_or_insert(now_ns) >= DRAIN_NS
    }

    fn wait(&mut self, task: &mut Task) -> Result<Readiness, PortError> {
        // The sender of such a port is a thread that fills the ring again faster than this one could be woken.
        if !task.port.caps().async_tx && clock::now_ns() - self.last_ns < SPIN_NS {
            std::thread::yield_now();
            return Ok(Readiness::TimedOut);
        }
        let readiness = task.port.wait(Interest::Receive, NAP_NS)?;
        let now_ns = clock::now_ns();
        if self.first_ns.is_none() && now_ns - self.said_waiting_ns >= WAITING_NS {
            self.said_waiting_ns = now_ns;
            diag!("receiver_body", "waiting for initial packets, poll returns 0 0");
        }
        Ok(readiness)
    }

    /// The time runs from the first packet to the last one, or to `now_ns` when packets kept coming.
    fn outcome(&self, now_ns: u64) -> Outcome {
        let start_ns = self.first_ns.unwrap_or(self.began_ns);
        let end_ns = if now_ns - self.last_ns >= SILENCE_NS { self.last_ns } else { now_ns };
        Outcome { counts: self.counts, start_ns, end_ns, ..Outcome::default() }
    }
}
