//! The generator, the receiver, and pipes between them.

use linerate_gen::{Receiver, ReceiverConfig, Sender, Start, Stream};
use linerate_impair::Impaired;
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::Port;
use linerate_sys::{affinity, clock};
use linerate_worker::{self as worker, Control};

use crate::measure::{Run, Stopwatch};
use crate::traffic::{PACKET_LEN, Traffic};

/// Packets of a sender's batch.
const BATCH: usize = 64;
/// Slots of a pipe.
const RING: usize = 1024;

/// What the receiving side does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Nothing: its frame goes back unread.
    Unread,
    /// Its signature is read and checked; loss, order and latency are kept.
    Checked,
}

fn pool() -> Pool {
    Pool::new(PoolConfig::default()).expect("16 MiB of packet memory")
}

fn receiver() -> Receiver {
    Receiver::new(ReceiverConfig { start: Start::At(0), ..ReceiverConfig::default() })
}

fn assert_all_delivered(receiver: &Receiver, packets: u64) {
    let counts = receiver.streams()[0].counts();
    assert_eq!((counts.delivered, counts.lost, counts.reordered), (packets, 0, 0));
}

/// Generator into `null:`, by the product's sending loop.
pub fn gen_null(core: usize, traffic: Traffic, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let pool = pool();
    let spec = "null:".parse().expect("a spec");
    let mut port = linerate_port_null::open(spec, &pool).expect("null: opens everywhere").into_port();
    let watch = Stopwatch::start();
    let end = worker::send(&mut port, &traffic.send(packets, BATCH), &pool, clock::now_ns(), &Control::default());
    let run = watch.stop(packets);
    assert_eq!(end.report.sent, packets);
    run
}

/// A pipe with both ends on one core: a batch is sent, received, and its frames given back, in turn.
pub fn pipe_one_core(core: usize, reading: Reading, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let mut pool = pool();
    let (mut near, mut far) = linerate_port_pipe::pair("bench", &pool, RING);
    let mut sender = Sender::new(&Traffic::SignedFlows.send(packets, BATCH), &pool, 0);
    let mut receiver = receiver();
    let mut batch = Batch::new(&pool, BATCH);
    let mut received = 0;
    let watch = Stopwatch::start();
    while received < packets {
        let now_ns = clock::now_ns();
        sender.poll(now_ns, &mut near).expect("a pipe does not break");
        received += far.receive(&mut batch).expect("a pipe does not break") as u64;
        if reading == Reading::Checked {
            receiver.record(&batch, now_ns);
        }
        pool.free(&mut batch);
    }
    let run = watch.stop(packets);
    if reading == Reading::Checked {
        assert_all_delivered(&receiver, packets);
    }
    run
}

/// Packets of 60 bytes into `null:` with these impairments. They are made anew only where one was lost, so that what is counted is
/// an impaired port and little else: time is read, fates are drawn, packets wait and leave.
pub fn impaired_null(core: usize, words: &str, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let mut pool = pool();
    let settings = words.parse().expect("words that mean something");
    let null = linerate_port_null::open("null:".parse().expect("a spec"), &pool).expect("null: opens everywhere");
    let mut port = Impaired::with_clock(Box::new(null.into_port()), None, Some(&settings), &pool, Ticking(0));
    let mut batch = Batch::new(&pool, BATCH);
    let watch = Stopwatch::start();
    let mut sent = 0;
    while sent < packets {
        pool.alloc(&mut batch, BATCH, PACKET_LEN);
        sent += port.transmit(&mut batch).expect("null: does not break") as u64;
    }
    let run = watch.stop(packets);
    let stats = port.stats().expect("null: can always count");
    assert!(stats.tx_drops.iter().all(|drops| drops.cause == "random loss"), "{:?}", stats.tx_drops);
    run
}

/// A clock that goes on by the time of a batch at 1 Mpps whenever it is read.
struct Ticking(u64);

impl linerate_impair::Clock for Ticking {
    fn now_ns(&mut self) -> u64 {
        self.0 += 1000 * BATCH as u64;
        self.0
    }

    fn sleep_until_ns(&mut self, deadline_ns: u64) {
        self.0 = self.0.max(deadline_ns);
    }
}

/// A pipe from one thread to another, by the product's sending loop; checked, also by its receiving loop.
pub fn pipe_two_cores(cores: [usize; 2], traffic: Traffic, reading: Reading, packets: u64) -> Run {
    let pool = pool();
    let (mut near, far) = linerate_port_pipe::pair("bench", &pool, RING);
    let far_pool = pool.clone();
    let reader = std::thread::spawn(move || {
        let _ = affinity::pin_to_core(cores[1]);
        let watch = Stopwatch::start();
        match reading {
            Reading::Unread => discard(far, far_pool, packets),
            Reading::Checked => check(far, far_pool, packets),
        }
        watch.stop(packets)
    });
    let _ = affinity::pin_to_core(cores[0]);
    let watch = Stopwatch::start();
    let end = worker::send(&mut near, &traffic.send(packets, BATCH), &pool, clock::now_ns(), &Control::default());
    let sent = watch.stop(packets);
    drop(near);
    let read = reader.join().expect("the reader ends when the sender is gone");
    assert_eq!(end.report.sent, packets);
    Run { packets, wall_ns: watch.stop(packets).wall_ns, core_ns: sent.core_ns.max(read.core_ns) }
}

fn discard(mut far: linerate_port_pipe::PipePort, mut pool: Pool, packets: u64) {
    let mut batch = Batch::new(&pool, 4 * BATCH);
    let mut received = 0;
    while received < packets {
        match far.receive(&mut batch).expect("a pipe does not break") {
            0 => std::hint::spin_loop(),
            count => received += count as u64,
        }
        pool.free(&mut batch);
    }
}

fn check(far: linerate_port_pipe::PipePort, pool: Pool, packets: u64) {
    let mut receiver = receiver();
    let mut ports: Vec<Box<dyn Port>> = vec![Box::new(far)];
    let end = worker::receive(&mut ports, &mut receiver, &pool, &Control::default(), &mut |_| {});
    assert!(end.error.is_none());
    assert_all_delivered(&receiver, packets);
}

/// The receiver alone: batches of signed packets that lie in the first-level cache. Only [`record_batch`] is timed.
pub fn receive_check(core: usize, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let mut pool = pool();
    let mut receiver = receiver();
    let mut stream = Stream::new(&Traffic::SignedFlows.plan());
    let mut batch = Batch::new(&pool, 4 * BATCH);
    let mut run = Run::default();
    while run.packets < packets {
        let now_ns = clock::now_ns();
        pool.alloc(&mut batch, 4 * BATCH, PACKET_LEN);
        batch.iter_mut().for_each(|packet| stream.write(0, packet, now_ns));
        let start_ns = clock::now_ns();
        record_batch(&mut receiver, &batch, now_ns);
        run.wall_ns += clock::now_ns() - start_ns;
        run.packets += batch.len() as u64;
        pool.free(&mut batch);
    }
    assert_all_delivered(&receiver, run.packets);
    run.core_ns = run.wall_ns;
    run
}

/// What is counted of [`receive_check`]; a function of its own, so that a profiler can tell it apart.
#[inline(never)]
pub fn record_batch(receiver: &mut Receiver, batch: &Batch, now_ns: u64) {
    receiver.record(batch, now_ns);
}
