//! A path between a send side and a receiver: delay, rate, queue, loss, reordering, copies, all from a seed, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::audit;
use super::receiver::{Receiver, ReceiverConfig, Reply, Segment, pattern};
use crate::send::{self, Ack, SendConfig, SendMemory, TimerOutcome};
use crate::{Flags, Now, Seq, State, Tcb};

pub const MSS: u16 = 1_460;
const START_NS: u64 = 5_000_000_000;

/// Faults of a path. Probabilities are in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct PathConfig {
    /// One way.
    pub delay_ms: u64,
    /// Bytes a second of the bottleneck; 0 for no limit.
    pub rate: u64,
    /// Bytes of its queue.
    pub queue: u64,
    /// Mark by ECN above half of the queue.
    pub marks: bool,
    pub loss: u32,
    pub ack_loss: u32,
    pub reorder: u32,
    /// Segments by which a late one is late.
    pub reorder_by: u64,
    pub copies: u32,
    /// Segments, and acknowledgments, that overtake all others: they are not delayed.
    pub early: u32,
    pub seed: u64,
}

impl Default for PathConfig {
    fn default() -> PathConfig {
        PathConfig {
            delay_ms: 10,
            rate: 12_500_000,
            queue: 1 << 20,
            marks: false,
            loss: 0,
            ack_loss: 0,
            reorder: 0,
            reorder_by: 10,
            copies: 0,
            early: 0,
            seed: 1,
        }
    }
}

enum Event {
    Arrives(Segment),
    Returns(Reply),
}

/// What lies on the path is sorted by time, then by order.
struct Flying {
    at_ns: u64,
    order: u64,
    event: Event,
}

impl PartialEq for Flying {
    fn eq(&self, other: &Flying) -> bool {
        (self.at_ns, self.order) == (other.at_ns, other.order)
    }
}
impl Eq for Flying {}
impl PartialOrd for Flying {
    fn partial_cmp(&self, other: &Flying) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Flying {
    fn cmp(&self, other: &Flying) -> std::cmp::Ordering {
        (self.at_ns, self.order).cmp(&(other.at_ns, other.order))
    }
}

/// What a test decides about a segment that leaves, beside chance.
pub type Fate = fn(&Segment, u64) -> bool;

pub struct Simulation {
    pub tcb: Tcb,
    pub memory: SendMemory,
    pub receiver: Receiver,
    pub path: PathConfig,
    pub now_ns: u64,
    /// Segments that left, for tests that look at them.
    pub sent: Vec<(u64, Segment)>,
    /// True drops the segment (its number counts from 0).
    pub drops: Fate,
    pub gave_up: bool,
    /// Longest time without an event while something was in flight.
    pub longest_pause_ns: u64,
    pub written: u64,
    pub keep_log: bool,
    pub sent_count: u64,
    flying: BinaryHeap<Reverse<Flying>>,
    order: u64,
    free_at_ns: u64,
    rng: u64,
}

impl Simulation {
    pub fn new(path: PathConfig, receiver: ReceiverConfig, config: SendConfig) -> Simulation {
        let iss = Seq(path.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) as u32);
        let mut tcb = Tcb { snd_una: iss, snd_nxt: iss, mss: MSS, scales: 9, state: State::SynSent, ..Tcb::default() };
        tcb.flags.put(Flags::SACK, receiver.sack);
        tcb.flags.put(Flags::TIMESTAMPS, receiver.timestamps);
        let memory = SendMemory::new(SendConfig { connections_max: 2, ..config }).unwrap();
        Simulation {
            tcb,
            memory,
            receiver: Receiver::new(receiver, iss),
            path,
            now_ns: START_NS,
            sent: Vec::new(),
            drops: |_, _| false,
            gave_up: false,
            longest_pause_ns: 0,
            written: 0,
            keep_log: true,
            sent_count: 0,
            flying: BinaryHeap::new(),
            order: 0,
            free_at_ns: 0,
            rng: path.seed | 1,
        }
    }

    /// A connection that is established, with nothing sent.
    pub fn established(path: PathConfig, receiver: ReceiverConfig, config: SendConfig) -> Simulation {
        let mut simulation = Simulation::new(path, receiver, config);
        simulation.handshake();
        assert_eq!(simulation.tcb.in_flight(), 0);
        simulation
    }

    pub fn handshake(&mut self) {
        assert!(send::open(&mut self.tcb, &mut self.memory));
        self.emit();
        while self.tcb.state != State::Established && !self.gave_up {
            assert!(self.step(), "the handshake stalls");
        }
        self.sent.clear();
    }

    pub fn now(&self) -> Now {
        Now::new(self.now_ns)
    }

    pub fn now_ms(&self) -> u64 {
        (self.now_ns - START_NS) / 1_000_000
    }

    /// Writes bytes of the pattern, as many as are taken.
    pub fn write(&mut self, len: usize) -> usize {
        let bytes: Vec<u8> = (0..len as u64).map(|place| pattern(self.written + place)).collect();
        let now = self.now();
        let taken = send::write(&mut self.tcb, &mut self.memory, &bytes, now);
        self.written += taken as u64;
        taken
    }

    pub fn close(&mut self) {
        send::close(&mut self.tcb, &mut self.memory);
    }

    /// Everything that may leave leaves.
    pub fn emit(&mut self) {
        let now = self.now();
        for _ in 0..100_000 {
            let Some(out) = send::next_segment(&mut self.tcb, &mut self.memory, now) else {
                // The audit walks the whole window; a bulk transfer is audited now and then.
                if self.keep_log || self.sent_count.is_multiple_of(512) {
                    audit::check(&self.tcb, &self.memory);
                }
                return;
            };
            let segment = Segment {
                seq: out.seq,
                data: out.data.to_vec(),
                syn: out.syn,
                fin: out.fin,
                cwr: out.cwr,
                ce: false,
                tick: now.tick,
                retransmission: out.retransmission,
            };
            assert!(segment.data.len() as u32 <= self.tcb.payload_max());
            self.launch(segment);
        }
        panic!("it never ends");
    }

    fn launch(&mut self, mut segment: Segment) {
        let number = self.sent_count;
        self.sent_count += 1;
        if self.keep_log {
            self.sent.push((self.now_ns, segment.clone()));
        }
        if (self.drops)(&segment, number) || self.chance(self.path.loss) {
            return;
        }
        let bytes = segment.data.len() as u64 + 66;
        if self.path.rate > 0 {
            let backlog_ns = self.free_at_ns.saturating_sub(self.now_ns);
            let backlog = (u128::from(backlog_ns) * u128::from(self.path.rate) / 1_000_000_000) as u64;
            if backlog + bytes > self.path.queue {
                return;
            }
            segment.ce = self.path.marks && backlog > self.path.queue / 2;
            self.free_at_ns = self.free_at_ns.max(self.now_ns) + bytes * 1_000_000_000 / self.path.rate;
        } else {
            self.free_at_ns = self.now_ns;
        }
        let delay_ms = if self.chance(self.path.early) { 0 } else { self.path.delay_ms };
        let mut at_ns = self.free_at_ns + delay_ms * 1_000_000;
        if self.chance(self.path.reorder) {
            let slot_ns = (1_526u64 * 1_000_000_000).checked_div(self.path.rate).unwrap_or(100_000);
            at_ns += slot_ns * (1 + self.random() % self.path.reorder_by);
        }
        if self.chance(self.path.copies) {
            self.fly(at_ns + 1_000, Event::Arrives(segment.clone()));
        }
        self.fly(at_ns, Event::Arrives(segment));
    }

    fn fly(&mut self, at_ns: u64, event: Event) {
        self.order += 1;
        self.flying.push(Reverse(Flying { at_ns, order: self.order, event }));
    }

    /// The next event; false if there is none.
    pub fn step(&mut self) -> bool {
        let timer_ns = match send::deadline(&self.tcb) {
            0 => u64::MAX,
            tick => {
                let ms = (tick.wrapping_sub(self.now().tick) as i32).max(0) as u64;
                (self.now_ns / 1_000_000 + ms) * 1_000_000
            }
        };
        let event_ns = self.flying.peek().map_or(u64::MAX, |flying| flying.0.at_ns);
        let ack_ns = self.receiver.due_ns.unwrap_or(u64::MAX);
        let at_ns = timer_ns.max(self.now_ns).min(event_ns).min(ack_ns);
        if at_ns == u64::MAX {
            return false;
        }
        if self.tcb.in_flight() > 0 {
            self.longest_pause_ns = self.longest_pause_ns.max(at_ns - self.now_ns);
        }
        self.now_ns = at_ns;
        if event_ns == at_ns {
            let Some(Reverse(Flying { event, .. })) = self.flying.pop() else { return false };
            match event {
                Event::Arrives(segment) => {
                    let reply = self.receiver.receive(&segment, at_ns);
                    self.answer(reply);
                }
                Event::Returns(reply) => self.acknowledge(&reply),
            }
        } else if ack_ns == at_ns {
            let reply = self.receiver.delayed();
            self.answer(Some(reply));
        } else {
            let now = self.now();
            match send::on_timer(&mut self.tcb, &mut self.memory, None, now) {
                TimerOutcome::GiveUp => self.gave_up = true,
                TimerOutcome::Nothing | TimerOutcome::Send | TimerOutcome::Doubt | TimerOutcome::Room => self.emit(),
            }
        }
        true
    }

    fn answer(&mut self, reply: Option<Reply>) {
        if let Some(reply) = reply
            && !self.chance(self.path.ack_loss)
        {
            let delay_ms = if self.chance(self.path.early) { 0 } else { self.path.delay_ms };
            self.fly(self.now_ns + delay_ms * 1_000_000, Event::Returns(reply));
        }
    }

    /// The receiver speaks up by itself, for example because its window opened.
    pub fn announce(&mut self) {
        let reply = self.receiver.delayed();
        self.answer(Some(reply));
    }

    pub fn acknowledge(&mut self, reply: &Reply) {
        let now = self.now();
        let ack = Ack {
            ack: reply.ack,
            seq: Seq(7),
            wnd: reply.window,
            sack: &reply.sack,
            ts_echo: reply.ts_echo,
            ece: reply.ece,
            len: 0,
        };
        let outcome = send::on_ack(&mut self.tcb, &mut self.memory, &ack, now);
        if outcome.syn_acked {
            self.tcb.state = State::Established;
            send::established(&mut self.tcb, &mut self.memory, now);
        }
        self.emit();
    }

    /// Goes on until the time `ms` after the beginning, or until nothing happens any more.
    pub fn run_to_ms(&mut self, ms: u64) {
        while self.next_ns() <= START_NS + ms * 1_000_000 && !self.gave_up && self.step() {}
        self.now_ns = self.now_ns.max(START_NS + ms * 1_000_000);
    }

    /// Goes on for `ms`.
    pub fn run_ms(&mut self, ms: u64) {
        self.run_to_ms(self.now_ms() + ms);
    }

    fn next_ns(&self) -> u64 {
        let timer = match send::deadline(&self.tcb) {
            0 => u64::MAX,
            tick => {
                self.now_ns / 1_000_000 * 1_000_000
                    + (tick.wrapping_sub(self.now().tick) as i32).max(0) as u64 * 1_000_000
            }
        };
        let flying = self.flying.peek().map_or(u64::MAX, |flying| flying.0.at_ns);
        timer.min(flying).min(self.receiver.due_ns.unwrap_or(u64::MAX))
    }

    /// Goes on until all that was written is acknowledged.
    pub fn run_until_acknowledged(&mut self) {
        let mut steps = 0u64;
        while self.tcb.queued > 0 && !self.gave_up {
            assert!(self.step(), "nothing happens any more, and {} bytes wait", self.tcb.queued);
            steps += 1;
            assert!(steps < 50_000_000, "no end");
        }
    }

    /// Writes and sends `total` bytes as fast as the send buffer allows, and waits for the last acknowledgment. Returns milliseconds.
    pub fn transfer(&mut self, total: u64) -> u64 {
        let begin_ns = self.now_ns;
        let goal = self.written + total;
        loop {
            let left = goal - self.written;
            let room = send::room(&self.tcb, &self.memory) as u64;
            if left > 0 && room > 0 {
                self.write(left.min(room) as usize);
                self.emit();
            }
            if self.written == goal && self.tcb.queued == 0 {
                break;
            }
            assert!(self.step(), "nothing happens any more, and {} bytes wait", self.tcb.queued);
        }
        (self.now_ns - begin_ns) / 1_000_000
    }

    /// The connection ends: all memory comes back.
    pub fn finish(&mut self) {
        send::ended(&mut self.tcb, &mut self.memory);
        assert_eq!((self.memory.used_bytes(), self.memory.recoveries()), (0, 0));
    }

    fn chance(&mut self, thousandths: u32) -> bool {
        thousandths > 0 && self.random() % 1_000 < u64::from(thousandths)
    }

    /// A random number (xorshift with a multiplication).
    pub fn random(&mut self) -> u64 {
        self.rng ^= self.rng >> 12;
        self.rng ^= self.rng << 25;
        self.rng ^= self.rng >> 27;
        self.rng.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}
