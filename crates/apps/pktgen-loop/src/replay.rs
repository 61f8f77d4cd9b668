//! `-P FILE` and `-r`: sends packets that are not made here: those of a capture file, over and over, or whatever the buffers
//! contain.

use linerate_gen::{Arrival, CatchUp, Pacer, Schedule};
use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, Port, PortError, Readiness};
use linerate_sys::clock;
use linerate_worker::{Backoff, complete, pause};

use super::counts::Counts;
use super::worker::{Outcome, Task};

/// How long the port may take to complete what it accepted.
const FLUSH_NS: u64 = 1_000_000_000;

/// Where the packets come from.
pub enum Source {
    /// A port that returns the packets of a file.
    File(Box<dyn Port>),
    /// Frames as the last owner left them, of this length.
    Uninitialized(usize),
}

/// Sends until enough packets were sent, the source is at its end, or a stop is asked for.
pub fn replay(mut task: Task, source: Source) -> Outcome {
    let start_ns = clock::now_ns();
    let Task { burst, rate_pps, .. } = task;
    let schedule = Schedule {
        rate_pps: (rate_pps > 0.0).then_some(rate_pps),
        arrival: Arrival::Burst { packets: burst as u32 },
        packets: (task.count > 0).then_some(task.count),
        duration_ns: None,
        catch_up: CatchUp::Burst,
    };
    let mut replaying = Replaying {
        source,
        stock: Batch::new(&task.pool, burst.max(SLOTS_OF_ONE_MAX)),
        outgoing: Batch::new(&task.pool, burst * 2 + SLOTS_OF_ONE_MAX),
        pacer: Pacer::new(schedule, start_ns),
        times_ns: Vec::with_capacity(burst),
        burst,
        events: 0,
        counts: Counts::default(),
    };
    let error = replaying.run(&mut task).err().map(|error| error.to_string());
    let mut outcome = Outcome { start_ns, error, ..Outcome::default() };
    settle(&mut task, &mut outcome);
    outcome.counts.events = replaying.events;
    outcome
}

/// Slots that the longest packet of a capture file takes in frames of 2,048 bytes (262,144 bytes).
const SLOTS_OF_ONE_MAX: usize = 192;

/// Waits until the port has sent what it took, and reads what became of it.
pub fn settle(task: &mut Task, outcome: &mut Outcome) {
    outcome.tx_pending = complete(&mut *task.port, FLUSH_NS).unwrap_or_else(|error| {
        outcome.error.get_or_insert_with(|| error.to_string());
        0
    });
    outcome.end_ns = clock::now_ns();
    match task.port.stats() {
        Ok(stats) => {
            outcome.counts.packets = stats.tx_packets;
            outcome.counts.bytes = stats.tx_bytes;
            outcome.drops = stats.tx_drops;
        }
        Err(error) => {
            outcome.error.get_or_insert_with(|| error.to_string());
        }
    }
}

struct Replaying {
    source: Source,
    /// Packets of the source that are not due yet.
    stock: Batch,
    outgoing: Batch,
    pacer: Pacer,
    times_ns: Vec<u64>,
    burst: usize,
    events: u64,
    counts: Counts,
}

impl Replaying {
    fn run(&mut self, task: &mut Task) -> Result<(), PortError> {
        let mut backoff = Backoff::default();
        while !task.control.stopping() {
            let now_ns = clock::now_ns();
            if self.outgoing.is_empty() && !self.fill(&mut task.pool, now_ns)? {
                match self.pacer.next_due_ns(now_ns) {
                    None => break,
                    Some(due_ns) if due_ns > now_ns => {
                        pause(due_ns, now_ns, &mut *task.port)?;
                    }
                    // Due, but the source has nothing: it is at its end, or frames must come back first.
                    Some(_) if self.source_ended()? => break,
                    Some(_) => backoff.wait_for_frames(&mut *task.port)?,
                }
                continue;
            }
            let bytes_before = self.outgoing.totals().bytes;
            let taken = task.port.transmit(&mut self.outgoing)?;
            if taken == 0 {
                backoff.wait_for_room(&mut *task.port)?;
                continue;
            }
            backoff = Backoff::default();
            self.events += 1;
            let bytes = bytes_before - self.outgoing.totals().bytes;
            self.counts = self.counts.plus(&Counts { packets: taken as u64, bytes, events: 1 });
            task.publish(&self.counts);
        }
        Ok(())
    }

    /// Moves what is due into the outgoing batch; false when that is nothing.
    fn fill(&mut self, pool: &mut Pool, now_ns: u64) -> Result<bool, PortError> {
        self.times_ns.clear();
        let due = self.pacer.take(now_ns, self.burst, &mut self.times_ns);
        let made = match &mut self.source {
            Source::Uninitialized(len) => pool.alloc(&mut self.outgoing, due, *len),
            Source::File(port) => fill_from(&mut **port, &mut self.stock, &mut self.outgoing, due)?,
        };
        self.pacer.give_back(&self.times_ns[made..]);
        Ok(made > 0)
    }

    fn source_ended(&mut self) -> Result<bool, PortError> {
        match &mut self.source {
            Source::Uninitialized(_) => Ok(false),
            Source::File(port) => Ok(port.wait(Interest::Receive, 0)? == Readiness::Closed),
        }
    }
}

/// Moves `due` packets from the file into the outgoing batch, fewer at its end; returns how many.
fn fill_from(port: &mut dyn Port, stock: &mut Batch, outgoing: &mut Batch, due: usize) -> Result<usize, PortError> {
    let mut made = 0;
    while made < due {
        if stock.is_empty() && port.receive(stock)? == 0 {
            break;
        }
        let Some(span) = stock.span(0).filter(|span| span.slots <= outgoing.room()) else { break };
        stock.move_to(outgoing, span.slots);
        made += 1;
    }
    Ok(made)
}
