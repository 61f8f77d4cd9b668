//! Replay: packets from a receiving port to a transmitting one, at the times that they carry, at a rate, or as fast as it goes.
//!
//! ```text
//!   source --receive--> stock --those due--> outgoing --transmit--> port
//! ```
//! Slots change hands; only where the two ports have pools of their own are packets copied, once. Time is an argument. A packet
//! that is longer than the port takes is not sent, and counted. `replay/times.rs` turns recorded times into a schedule.

mod times;

use linerate_mem::{Batch, Pool};
use linerate_port::{Port, PortError};

use crate::departure::Departures;
use crate::pace::{Arrival, CatchUp, Pacer, Schedule};
use crate::sender::SenderReport;
use times::RecordedTimes;

/// When packets go out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// As fast as the port takes them.
    Full,
    /// At the recorded times, sped up by this factor (2 = twice as fast).
    Recorded(f64),
    /// At a rate.
    Rate {
        /// Packets per second.
        rate_pps: f64,
        /// How they follow each other.
        arrival: Arrival,
    },
}

/// What to replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayPlan {
    /// When packets go out.
    pub speed: Speed,
    /// Number of packets after which it ends; `None` = with the source.
    pub packets: Option<u64>,
    /// Time after which nothing more is due; `None` = no such end.
    pub duration_ns: Option<u64>,
    /// How late packets are made up for.
    pub catch_up: CatchUp,
    /// Most packets handed over at once.
    pub batch: usize,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct ReplayReport {
    /// The account, as of a sender of one stream.
    pub account: SenderReport,
    /// Packets, among the unsent, that were longer than the port takes.
    pub too_long: u64,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayNext {
    /// Call again at this time (which may have passed).
    At(u64),
    /// The source has nothing now: wait for it, or tell by [`Replay::source_ended`] that nothing will come.
    SourceEmpty,
    /// The port is full.
    PortFull,
    /// The port's pool has no frame left.
    NoFrames,
    /// Everything has been sent.
    Done,
}

/// Slots of the longest packet that a capture may hold, in frames of 2,048 bytes.
const SLOTS_OF_ONE_MAX: usize = 192;

/// Sends what a source gives into one port.
pub struct Replay {
    plan: ReplayPlan,
    clock: Clock,
    stock: Batch,
    outgoing: Batch,
    source_pool: Pool,
    port_pool: Pool,
    /// Scheduled times of packets that are due and still in stock.
    due_ns: std::collections::VecDeque<u64>,
    /// Scheduled times of the packets that are on their way out.
    times_ns: Vec<u64>,
    sent_from_batch: usize,
    /// Packets taken from the source.
    read: u64,
    ended: bool,
    departures: Departures,
    report: ReplayReport,
}

enum Clock {
    Paced(Pacer),
    Recorded(RecordedTimes),
}

impl Replay {
    /// A replay whose schedule starts at `start_ns`. The pools are those that source and port were opened on.
    pub fn new(plan: ReplayPlan, source_pool: &Pool, port_pool: &Pool, start_ns: u64) -> Replay {
        let batch = plan.batch.clamp(1, 4096);
        let (rate_pps, arrival) = match plan.speed {
            Speed::Rate { rate_pps, arrival } => (Some(rate_pps), arrival),
            _ => (None, Arrival::Constant),
        };
        let ReplayPlan { packets, duration_ns, catch_up, .. } = plan;
        let schedule = Schedule { rate_pps, arrival, packets, duration_ns, catch_up };
        let clock = match plan.speed {
            Speed::Recorded(factor) => Clock::Recorded(RecordedTimes::new(&schedule, factor, start_ns)),
            _ => Clock::Paced(Pacer::new(schedule, start_ns)),
        };
        Replay {
            plan: ReplayPlan { batch, ..plan },
            clock,
            stock: Batch::with_times(source_pool, batch.max(SLOTS_OF_ONE_MAX)),
            outgoing: Batch::with_times(port_pool, batch + SLOTS_OF_ONE_MAX),
            source_pool: source_pool.clone(),
            port_pool: port_pool.clone(),
            due_ns: std::collections::VecDeque::with_capacity(batch),
            times_ns: Vec::with_capacity(batch),
            sent_from_batch: 0,
            read: 0,
            ended: false,
            departures: Departures::default(),
            report: ReplayReport {
                account: SenderReport { sent_by_stream: vec![0], ..SenderReport::default() },
                too_long: 0,
            },
        }
    }

    /// Takes packets from the source and hands on what is due at `now_ns`.
    pub fn poll(&mut self, now_ns: u64, source: &mut dyn Port, port: &mut dyn Port) -> Result<ReplayNext, PortError> {
        if self.outgoing.is_empty() {
            self.times_ns.clear();
            self.sent_from_batch = 0;
            if self.is_over(now_ns) {
                return Ok(ReplayNext::Done);
            }
            if self.stock.is_empty() {
                self.read += source.receive(&mut self.stock)? as u64;
            }
            if self.stock.is_empty() {
                return Ok(if self.ended { ReplayNext::Done } else { ReplayNext::SourceEmpty });
            }
            self.schedule(now_ns);
            if self.due_ns.is_empty() {
                return Ok(self.next(now_ns));
            }
            self.hand_over(port.caps().frame_len_max);
            if self.outgoing.is_empty() {
                // Either there are no frames for copies, or all were too long.
                return Ok(if self.due_ns.is_empty() { ReplayNext::At(now_ns) } else { ReplayNext::NoFrames });
            }
        }
        let before = self.outgoing.totals().bytes;
        let taken = port.transmit(&mut self.outgoing)?;
        if taken == 0 {
            return Ok(ReplayNext::PortFull);
        }
        self.note_sent(taken, before - self.outgoing.totals().bytes, now_ns);
        Ok(if self.outgoing.is_empty() { ReplayNext::At(now_ns) } else { ReplayNext::PortFull })
    }

    /// The source will give nothing more.
    pub fn source_ended(&mut self) {
        self.ended = true;
    }

    /// The account so far; what was intended, and the times, are known at the end only.
    pub fn report(&self) -> &SenderReport {
        &self.report.account
    }

    /// Ends the schedule at `now_ns` and returns the account. With recorded times, packets that were due by then and are still
    /// in `source` count as intended; `None` if the source cannot be read to the end (a live one).
    pub fn finish(mut self, now_ns: u64, source: Option<&mut dyn Port>) -> ReplayReport {
        let mut report = std::mem::take(&mut self.report);
        report.account.intended = self.intended(now_ns, source);
        report.account.lateness = std::mem::take(&mut self.departures.lateness);
        report.account.gap_error = std::mem::take(&mut self.departures.gap_error);
        report
    }

    fn intended(&mut self, now_ns: u64, mut source: Option<&mut dyn Port>) -> u64 {
        if let Clock::Paced(pacer) = &mut self.clock {
            let asked = pacer.close(now_ns);
            // A schedule cannot ask for more packets than there are.
            return if self.ended { asked.min(self.read) } else { asked };
        }
        let Clock::Recorded(times) = &mut self.clock else { return 0 };
        times.close(now_ns);
        // What is due and still in stock has been counted.
        let mut counted = self.due_ns.len();
        loop {
            let before = times.taken();
            times.take(now_ns, usize::MAX, timestamps(&self.stock).skip(counted), &mut |_| {});
            let waiting = self.stock.totals().packets - counted as u64;
            self.source_pool.free(&mut self.stock);
            counted = 0;
            // The first packet that was not due yet, or the end of the source.
            let all_due = times.taken() - before == waiting;
            let more = source.as_mut().filter(|_| all_due).and_then(|source| source.receive(&mut self.stock).ok());
            if more.unwrap_or(0) == 0 {
                return times.taken();
            }
        }
    }

    fn is_over(&self, now_ns: u64) -> bool {
        if !self.due_ns.is_empty() {
            return false;
        }
        match &self.clock {
            Clock::Paced(pacer) => pacer.next_due_ns(now_ns).is_none(),
            Clock::Recorded(times) => times.is_over(),
        }
    }

    /// Marks packets at the front of the stock as due.
    fn schedule(&mut self, now_ns: u64) {
        let waiting = self.due_ns.len();
        let room = self.plan.batch - waiting.min(self.plan.batch);
        let due_ns = &mut self.due_ns;
        match &mut self.clock {
            Clock::Paced(pacer) => {
                let in_stock = self.stock.totals().packets as usize - waiting;
                let mut times_ns = Vec::new();
                pacer.take(now_ns, room.min(in_stock), &mut times_ns);
                due_ns.extend(times_ns);
            }
            Clock::Recorded(times) => {
                times.take(now_ns, room, timestamps(&self.stock).skip(waiting), &mut |time_ns| {
                    due_ns.push_back(time_ns)
                });
            }
        }
    }

    fn next(&mut self, now_ns: u64) -> ReplayNext {
        let due_ns = match &mut self.clock {
            Clock::Paced(pacer) => pacer.next_due_ns(now_ns),
            Clock::Recorded(times) => times.next_due_ns(timestamps(&self.stock).next()),
        };
        due_ns.map_or(ReplayNext::Done, ReplayNext::At)
    }

    /// Moves due packets from the stock to the outgoing batch, but for those that the port cannot take.
    fn hand_over(&mut self, len_max: usize) {
        let shared = self.stock.is_of(self.outgoing.region());
        while let (Some(time_ns), Some(span)) = (self.due_ns.front().copied(), self.stock.span(0)) {
            if span.len > len_max {
                self.source_pool.free_front(&mut self.stock, span.slots);
                self.report.too_long += 1;
                self.due_ns.pop_front();
                continue;
            }
            if shared {
                if self.outgoing.room() < span.slots {
                    break;
                }
                self.stock.move_to(&mut self.outgoing, span.slots);
            } else if !self.copy(span.slots) {
                break;
            }
            self.due_ns.pop_front();
            self.times_ns.push(time_ns);
        }
    }

    /// Copies the packet in the first `slots` of the stock to a frame of the port's pool.
    fn copy(&mut self, slots: usize) -> bool {
        let copied = self.port_pool.copy(&self.stock, 0, &mut self.outgoing);
        if copied {
            self.source_pool.free_front(&mut self.stock, slots);
        }
        copied
    }

    fn note_sent(&mut self, taken: usize, bytes: u64, now_ns: u64) {
        let account = &mut self.report.account;
        account.sent += taken as u64;
        account.bytes += bytes;
        account.batches += 1;
        account.sent_by_stream[0] += taken as u64;
        account.first_ns.get_or_insert(now_ns);
        account.last_ns = Some(now_ns);
        let from = self.sent_from_batch;
        self.sent_from_batch += taken;
        if self.plan.speed != Speed::Full {
            self.departures.note(self.times_ns[from..from + taken].iter().copied(), now_ns);
        }
    }
}

/// The time of each packet in a batch: of its first slot.
fn timestamps(batch: &Batch) -> impl Iterator<Item = u64> + '_ {
    let mut begins = true;
    (0..batch.len()).filter_map(move |index| {
        let first = std::mem::replace(&mut begins, !batch.more(index));
        first.then(|| batch.time_ns(index).unwrap_or(0))
    })
}
