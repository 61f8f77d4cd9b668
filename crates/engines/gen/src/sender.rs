//! The sending side of one port: schedule -> packets -> port, one batch a call. Time is an argument.
//!
//! ```text
//!  intended   what the schedule asked for
//!  made       packets written into frames, each with a number of its stream
//!  sent       packets that the port took                              intended = unsent + sent
//! ```
//! What the port did not take stays in the batch and goes first at the next call; new packets are made only when nothing is
//! left over, so at most one batch is ever made and not sent.

use linerate_measure::Histogram;
use linerate_mem::{Batch, Pool};
use linerate_port::{Port, PortError};

use crate::departure::Departures;
use crate::pace::{Pacer, Schedule};
use crate::stream::{Stream, StreamPlan};

/// Packets of a batch unless asked otherwise.
pub const BATCH_DEFAULT: usize = 64;

/// A port's worth of streams.
pub struct SenderPlan {
    /// The streams, each with its weight (packets of every `sum of weights` that are its own), at least one.
    pub streams: Vec<(StreamPlan, u32)>,
    /// When packets go out.
    pub schedule: Schedule,
    /// Most packets made at once.
    pub batch: usize,
    /// Number of each stream's first packet.
    pub first_sequence: u64,
    /// Whether the streams take turns, one packet each, and their packets share one run of numbers (and then one id in the signature),
    /// so that a receiver takes them for one stream. Weights then have no effect.
    pub in_turn: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct SenderReport {
    /// Packets that the schedule asked for.
    pub intended: u64,
    /// Packets that the port took.
    pub sent: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Packets sent of each stream: the receiver is to see the numbers below (from the first).
    pub sent_by_stream: Vec<u64>,
    /// Calls of the port's `transmit` that took something.
    pub batches: u64,
    /// Times at which the first and the last packet were handed to the port.
    pub first_ns: Option<u64>,
    /// See `first_ns`.
    pub last_ns: Option<u64>,
    /// How long after its scheduled time each packet was handed to the port.
    pub lateness: Histogram,
    /// Difference between the pause before a packet and the pause that the schedule asked for, as an absolute value.
    pub gap_error: Histogram,
}

impl SenderReport {
    /// Packets that the schedule asked for and that were not sent.
    pub fn unsent(&self) -> u64 {
        self.intended - self.sent
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Call again at this time (which may have passed).
    At(u64),
    /// The port is full: wait for room, then call again.
    PortFull,
    /// The pool has no frame left: those under way must come back first.
    NoFrames,
    /// Everything that the schedule asked for has been sent.
    Done,
}

/// Sends streams into one port.
pub struct Sender {
    streams: Vec<Stream>,
    mixer: Mixer,
    pacer: Pacer,
    batch: Batch,
    batch_max: usize,
    len_max: usize,
    pool: Pool,
    /// Scheduled times of the packets in the batch, and their streams, from `times_at` on.
    times_ns: Vec<u64>,
    owners: Vec<u16>,
    sent_from_batch: usize,
    scratch: Vec<u8>,
    /// One length, one frame for each packet, of one stream or of several that take turns.
    uniform: bool,
    /// Of streams that take turns: whose turn it is.
    turn: usize,
    /// Stream, image and length of the next packet, where it is known: there was no frame for it.
    pending: Option<(usize, usize, usize)>,
    departures: Departures,
    /// What earlier schedules asked for.
    intended_before: u64,
    report: SenderReport,
}

impl Sender {
    /// A sender whose schedule starts at `start_ns`. `pool` is the one that the port was opened on.
    pub fn new(plan: &SenderPlan, pool: &Pool, start_ns: u64) -> Sender {
        let mut streams: Vec<Stream> = plan.streams.iter().map(|(stream, _)| Stream::new(stream)).collect();
        let count = streams.len() as u64;
        for (at, stream) in streams.iter_mut().enumerate() {
            let (more, stride) = if plan.in_turn { (at as u64, count) } else { (0, 1) };
            stream.set_sequence(plan.first_sequence + more);
            stream.set_stride(stride);
        }
        let weights = plan.streams.iter().map(|(_, weight)| if plan.in_turn { 1 } else { *weight }).collect();
        let len_max = streams.iter().map(Stream::len_max).max().unwrap_or(0);
        let segments = len_max.div_ceil(pool.packet_len_max().max(1)).max(1);
        let batch_max = plan.batch.clamp(1, 4096);
        Sender {
            uniform: (streams.len() == 1 || plan.in_turn)
                && streams.iter().all(|stream| stream.is_one_size() && stream.len_max() == len_max)
                && segments == 1,
            turn: 0,
            pending: None,
            report: SenderReport { sent_by_stream: vec![0; streams.len()], ..SenderReport::default() },
            streams,
            mixer: Mixer::new(weights),
            pacer: Pacer::new(plan.schedule, start_ns),
            batch: Batch::new(pool, batch_max * segments),
            batch_max,
            len_max,
            pool: pool.clone(),
            times_ns: Vec::with_capacity(batch_max),
            owners: Vec::with_capacity(batch_max),
            sent_from_batch: 0,
            scratch: vec![0; if segments > 1 { len_max } else { 0 }],
            departures: Departures::default(),
            intended_before: 0,
        }
    }

    /// Ends the schedule at `now_ns` and goes on by another one that starts at `start_ns`. Streams and their numbers go on as if
    /// nothing had happened; what was due and not made by then is unsent.
    pub fn change_schedule(&mut self, schedule: Schedule, now_ns: u64, start_ns: u64) {
        self.intended_before += self.pacer.close(now_ns);
        self.pacer = Pacer::new(schedule, start_ns);
    }

    /// Goes on at another rate until the schedule's own end. Packets that were due by `now_ns` and not made are unsent.
    pub fn change_rate(&mut self, rate_pps: f64, now_ns: u64) {
        self.intended_before += self.pacer.change_rate(rate_pps, now_ns);
    }

    /// Length of the longest packet, in bytes without FCS: what the port must take.
    pub fn len_max(&self) -> usize {
        self.len_max
    }

    /// Makes what is due at `now_ns` and hands it to the port.
    #[inline(always)]
    pub fn poll(&mut self, now_ns: u64, port: &mut dyn Port) -> Result<Next, PortError> {
        if self.batch.is_empty() {
            self.times_ns.clear();
            self.owners.clear();
            self.sent_from_batch = 0;
            if let Some(next) = self.fill(now_ns) {
                return Ok(next);
            }
        }
        let bytes_before = if self.uniform { 0 } else { self.batch.totals().bytes };
        let taken = port.transmit(&mut self.batch)?;
        if taken == 0 {
            return Ok(Next::PortFull);
        }
        self.report.bytes +=
            if self.uniform { (taken * self.len_max) as u64 } else { bytes_before - self.batch.totals().bytes };
        self.note_sent(taken, now_ns);
        if !self.batch.is_empty() {
            return Ok(Next::PortFull);
        }
        Ok(self.pacer.next_due_ns(now_ns).map_or(Next::Done, Next::At))
    }

    /// Ends the schedule at `now_ns` and returns the account. What was made and not taken is unsent.
    pub fn finish(mut self, now_ns: u64) -> SenderReport {
        // Packets in the batch were taken from the schedule, so they are among those it asked for.
        self.report.intended = self.intended_before + self.pacer.close(now_ns);
        self.report.lateness = self.departures.lateness;
        self.report.gap_error = self.departures.gap_error;
        self.report
    }

    /// The account so far; `intended` and the times are known at the end only.
    pub fn report(&self) -> &SenderReport {
        &self.report
    }

    /// Fills the empty batch with packets that are due; `Some` when there is none to send now.
    #[inline(always)]
    fn fill(&mut self, now_ns: u64) -> Option<Next> {
        let due = self.pacer.take(now_ns, self.batch_max, &mut self.times_ns);
        if due == 0 {
            return Some(self.pacer.next_due_ns(now_ns).map_or(Next::Done, Next::At));
        }
        if self.uniform { self.fill_uniform(due) } else { self.fill_mixed(due) }
    }

    /// One length: the hot loop.
    #[inline(always)]
    fn fill_uniform(&mut self, due: usize) -> Option<Next> {
        let had = self.pool.alloc(&mut self.batch, due, self.len_max);
        match &mut self.streams[..] {
            [stream] => {
                stream.write_all(0, self.batch.iter_mut().zip(self.times_ns.iter().copied()));
                self.owners.resize(had, 0);
            }
            _ => self.write_in_turn(had),
        }
        self.give_back_unmade(due, had)
    }

    /// Writes the batch's packets, of which each stream has every so many.
    fn write_in_turn(&mut self, packets: usize) {
        let count = self.streams.len();
        for (at, stream) in self.streams.iter_mut().enumerate() {
            let first = (at + count - self.turn) % count;
            let all = self.batch.iter_mut().zip(self.times_ns.iter().copied());
            stream.write_all(0, all.skip(first).step_by(count));
        }
        self.owners.extend((0..packets).map(|number| ((self.turn + number) % count) as u16));
        self.turn = (self.turn + packets) % count;
    }

    fn fill_mixed(&mut self, due: usize) -> Option<Next> {
        let mut made = 0;
        while made < due {
            let (at, image, len) = self.pending.take().unwrap_or_else(|| {
                let at = self.mixer.next();
                let (image, len) = self.streams[at].next_image();
                (at, image, len)
            });
            let stream = &mut self.streams[at];
            let time_ns = self.times_ns[made];
            let held = self.batch.len();
            if len <= self.pool.packet_len_max() {
                if self.pool.alloc(&mut self.batch, 1, len) == 0 {
                    self.pending = Some((at, image, len));
                    break;
                }
                stream.write(image, self.batch.packet_mut(held), time_ns);
            } else {
                let sequence = stream.sequence();
                stream.write(image, &mut self.scratch[..len], time_ns);
                if !self.pool.append(&mut self.batch, &self.scratch[..len], 0) {
                    stream.set_sequence(sequence);
                    self.pending = Some((at, image, len));
                    break;
                }
            }
            self.owners.push(at as u16);
            made += 1;
        }
        self.give_back_unmade(due, made)
    }

    /// Packets that were due and for which there was no frame are due again.
    #[inline]
    fn give_back_unmade(&mut self, due: usize, made: usize) -> Option<Next> {
        if made < due {
            self.pacer.give_back(&self.times_ns[made..]);
            self.times_ns.truncate(made);
        }
        (made == 0).then_some(Next::NoFrames)
    }

    /// Books `taken` packets as handed over at `now_ns`.
    #[inline]
    fn note_sent(&mut self, taken: usize, now_ns: u64) {
        let from = self.sent_from_batch;
        self.sent_from_batch += taken;
        self.report.sent += taken as u64;
        self.report.batches += 1;
        self.report.first_ns.get_or_insert(now_ns);
        self.report.last_ns = Some(now_ns);
        if let [only] = &mut self.report.sent_by_stream[..] {
            *only += taken as u64;
        } else {
            for owner in &self.owners[from..from + taken] {
                self.report.sent_by_stream[usize::from(*owner)] += 1;
            }
        }
        if self.pacer.is_paced() {
            self.departures.note(self.times_ns[from..from + taken].iter().copied(), now_ns);
        }
    }
}

/// Which stream comes next: each gets its weight's share, spread evenly (smooth weighted round robin).
struct Mixer {
    weights: Vec<u32>,
    credit: Vec<i64>,
    total: i64,
}

impl Mixer {
    fn new(weights: Vec<u32>) -> Mixer {
        let total = weights.iter().map(|weight| i64::from(*weight)).sum();
        Mixer { credit: vec![0; weights.len()], weights, total }
    }

    #[inline]
    fn next(&mut self) -> usize {
        if self.weights.len() < 2 {
            return 0;
        }
        let mut best = 0;
        for at in 0..self.weights.len() {
            self.credit[at] += i64::from(self.weights[at]);
            if self.credit[at] > self.credit[best] {
                best = at;
            }
        }
        self.credit[best] -= self.total;
        best
    }
}
