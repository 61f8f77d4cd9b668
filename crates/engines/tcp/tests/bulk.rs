//! Bulk transfers between two stacks over a path with delay, loss and reordering, in virtual time: every byte arrives, and goodput is that
//! of the response function.

mod common;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use common::{B, address, config};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Context, Datapath, PortIndex};
use linerate_tcp::send::SendConfig;
use linerate_tcp::{App, CloseReason, Conn, ConnectOptions, Io, ListenOptions, Stack};

const PORT: PortIndex = PortIndex(0);

/// Sends so many bytes of a pattern and closes, or checks what it receives.
#[derive(Default)]
struct Bulk {
    to_send: u64,
    sent: u64,
    received: u64,
    closed: Option<CloseReason>,
}

fn pattern(place: u64) -> u8 {
    (place ^ place >> 8 ^ place >> 16) as u8
}

impl Bulk {
    fn fill(&mut self, conn: Conn, io: &mut Io<'_>) {
        while self.sent < self.to_send {
            let len = (self.to_send - self.sent).min(16_384);
            let bytes: Vec<u8> = (self.sent..self.sent + len).map(pattern).collect();
            let taken = io.send(conn, &bytes) as u64;
            self.sent += taken;
            if taken < len {
                return;
            }
        }
        io.close(conn);
    }
}

impl App for Bulk {
    fn connected(&mut self, conn: Conn, io: &mut Io<'_>) {
        if self.to_send > 0 {
            self.fill(conn, io);
        }
    }

    fn received(&mut self, _: Conn, data: &[u8], _: &mut Io<'_>) -> usize {
        for byte in data {
            assert_eq!(*byte, pattern(self.received));
            self.received += 1;
        }
        data.len()
    }

    fn sendable(&mut self, conn: Conn, io: &mut Io<'_>) {
        self.fill(conn, io);
    }

    fn peer_closed(&mut self, conn: Conn, io: &mut Io<'_>) {
        io.close(conn);
    }

    fn closed(&mut self, _: Conn, why: CloseReason, _: &mut Io<'_>) {
        self.closed = Some(why);
    }
}

/// One direction of the path: a rate, a delay, and faults in thousandths.
#[derive(Clone, Copy, Default)]
struct Faults {
    loss: u64,
    /// Frames that are late by up to ten others.
    reorder: u64,
    /// Frames that overtake all others: they are not delayed.
    early: u64,
}

struct Line {
    faults: Faults,
    flying: BinaryHeap<Reverse<(u64, u64, Vec<u8>)>>,
    order: u64,
    free_at_ns: u64,
    rng: u64,
    frames: u64,
}

/// One way.
const DELAY_NS: u64 = 10_000_000;
/// Nanoseconds of a byte: 1 Gbit/s.
const BYTE_NS: u64 = 8;

impl Line {
    fn new(faults: Faults, seed: u64) -> Line {
        Line { faults, flying: BinaryHeap::new(), order: 0, free_at_ns: 0, rng: seed, frames: 0 }
    }

    fn random(&mut self) -> u64 {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        self.rng >> 11
    }

    fn launch(&mut self, frame: &[u8], now_ns: u64) {
        self.frames += 1;
        if self.random() % 1_000 < self.faults.loss {
            return;
        }
        self.free_at_ns = self.free_at_ns.max(now_ns) + frame.len() as u64 * BYTE_NS;
        let is_early = self.random() % 1_000 < self.faults.early;
        let mut at_ns = self.free_at_ns + if is_early { 0 } else { DELAY_NS };
        if self.random() % 1_000 < self.faults.reorder {
            // Up to ten full frames later.
            at_ns += 1_514 * BYTE_NS * (1 + self.random() % 10);
        }
        self.order += 1;
        self.flying.push(Reverse((at_ns, self.order, frame.to_vec())));
    }

    fn next_ns(&self) -> u64 {
        self.flying.peek().map_or(u64::MAX, |flying| flying.0.0)
    }
}

/// Sends `total` bytes from the first stack to the second; returns megabits a second.
fn transfer(faults: Faults, total: u64, send: SendConfig, seed: u64) -> f64 {
    let mut pool = Pool::new(PoolConfig { frames: 8192, frame_size: 2048 }).unwrap();
    let (mut a, mut b) = (config(1), config(2));
    (a.send, b.send) = (send.clone(), send);
    let mut a = Stack::new(a, &pool, Bulk { to_send: total, ..Bulk::default() }).unwrap();
    let mut b = Stack::new(b, &pool, Bulk::default()).unwrap();
    let mut now_ns = 1_000_000_000;
    let remote = address(B, 80);
    b.with(now_ns, |_, io| io.listen(remote, ListenOptions::default())).unwrap();
    a.with(now_ns, |_, io| io.connect(ConnectOptions::new(remote))).unwrap();
    let mut lines = [Line::new(faults, seed | 1), Line::new(faults, seed.rotate_left(32) | 1)];
    let mut end_ns = 0;
    while a.app().closed.is_none() || b.app().closed.is_none() {
        for (line, stack) in lines.iter_mut().zip([&mut a, &mut b]) {
            let Some(output) = stack.output(PORT) else { continue };
            let count = output.len();
            for place in 0..count {
                line.launch(output.packet(place), now_ns);
            }
            pool.free_front(output, count);
            stack.tx_done(PORT, count, now_ns);
        }
        let deadlines = a.next_deadline_ns().min(b.next_deadline_ns()).max(now_ns + 1_000);
        now_ns = deadlines.min(lines[0].next_ns()).min(lines[1].next_ns()).max(now_ns);
        assert!(now_ns < 3_000_000_000_000, "it takes too long: {} of {total} bytes", b.app().received);
        for (line, stack) in lines.iter_mut().zip([&mut b, &mut a]) {
            let mut batch = Batch::new(&pool, 64);
            while batch.len() < 64 && line.next_ns() <= now_ns {
                let Some(Reverse((_, _, frame))) = line.flying.pop() else { break };
                assert_eq!(pool.alloc(&mut batch, 1, frame.len()), 1);
                let last = batch.len() - 1;
                batch.packet_mut(last).copy_from_slice(&frame);
            }
            let pool = &mut pool;
            if !batch.is_empty() {
                stack.input(PORT, &mut batch, &mut Context { now_ns, pool, ports: &mut () });
            } else if stack.next_deadline_ns() <= now_ns {
                stack.tick(&mut Context { now_ns, pool, ports: &mut () });
            }
        }
        if b.app().received == total && end_ns == 0 {
            end_ns = now_ns;
        }
    }
    assert_eq!((b.app().received, a.app().closed), (total, Some(CloseReason::Normal)));
    let counters = a.with(now_ns, |_, io| io.send_counters());
    let rate = total as f64 * 8_000.0 / (end_ns - 1_000_000_000) as f64;
    println!("{rate:.2} Mbit/s, {} frames there, {} back; {counters:?}", lines[0].frames, lines[1].frames);
    for stack in [&mut a, &mut b] {
        assert_eq!(stack.with(now_ns, |_, io| io.memory_bytes()), (0, 0));
    }
    drop((a, b));
    assert!(pool.is_whole());
    rate
}

/// Megabits a second of Reno at so much loss and 20 ms (Mathis et al. 1997).
fn response(loss: u64) -> f64 {
    (1.5 / (loss as f64 / 1_000.0)).sqrt() * 1_448.0 * 8.0 / 20.0 / 1_000.0
}

#[test]
fn loss_costs_what_the_response_function_says() {
    for (loss, total, share) in [(1, 12_000_000, 0.75), (10, 4_000_000, 0.75), (50, 1_500_000, 0.5)] {
        let rate = transfer(
            Faults { loss, reorder: 0, ..Faults::default() },
            total,
            SendConfig::default(),
            0x1234_5678_9abc_def0 + loss,
        );
        assert!(rate > share * response(loss), "{rate:.2} Mbit/s at {loss} per mille; {:.2} expected", response(loss));
    }
}

#[test]
fn reordering_alone_costs_little() {
    let straight = transfer(Faults { reorder: 0, ..Faults::default() }, 12_000_000, SendConfig::default(), 5);
    let crooked = transfer(Faults { reorder: 50, ..Faults::default() }, 12_000_000, SendConfig::default(), 5);
    assert!(crooked > 0.5 * straight, "{crooked:.1} of {straight:.1} Mbit/s");
}

#[test]
fn loss_and_reordering_together_still_move() {
    for (loss, total) in [(1, 12_000_000), (10, 6_000_000), (50, 3_000_000)] {
        let rate = transfer(Faults { loss, reorder: 50, ..Faults::default() }, total, SendConfig::default(), 77 + loss);
        assert!(rate > 0.4 * response(loss), "{rate:.2} Mbit/s at {loss} per mille");
    }
}

#[test]
fn frames_that_overtake_all_others_are_no_losses() {
    let rate = transfer(Faults { early: 50, ..Faults::default() }, 12_000_000, SendConfig::default(), 5);
    assert!(rate > 20.0, "{rate:.1} Mbit/s");
}
