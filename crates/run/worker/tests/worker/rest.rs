//! Many ports of the kernel, few of which are busy.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::pool;
use linerate_mem::{Batch, Pool};
use linerate_port::{Caps, Context, Datapath, Interest, Port, PortError, PortIndex, Readiness, Stats};
use linerate_sys::poll::{PollFor, poll};
use linerate_worker::{Config, Control, Event, PortLoss, Role, Worker};

/// A port whose packets are bytes in a pipe of the kernel, and that counts how often it is looked at.
struct Kernel {
    caps: Caps,
    pool: Pool,
    reader: PipeReader,
    looks: Arc<AtomicUsize>,
}

impl Kernel {
    fn has_something(&self) -> bool {
        poll(self.reader.as_fd(), PollFor::Reading, 0).unwrap().ready
    }
}

impl Port for Kernel {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let mut packets = 0;
        while self.has_something() && self.pool.alloc(batch, 1, 60) == 1 {
            self.reader.read_exact(&mut [0]).unwrap();
            packets += 1;
        }
        Ok(packets)
    }

    fn transmit(&mut self, _: &mut Batch) -> Result<usize, PortError> {
        Ok(0)
    }

    fn wait(&mut self, _: Interest, _: u64) -> Result<Readiness, PortError> {
        Ok(if self.has_something() { Readiness::Ready } else { Readiness::TimedOut })
    }

    fn arm_wakeup(&mut self, add: &mut dyn FnMut(BorrowedFd<'_>)) -> bool {
        add(self.reader.as_fd());
        true
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        Ok(Stats::default())
    }
}

/// Counts what comes, by port.
#[derive(Default)]
struct Count(Vec<usize>);

impl Datapath for Count {
    fn input(&mut self, from: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        self.0[usize::from(from.0)] += batch.len();
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

    fn removed(&mut self, _: PortIndex, _: &mut Context<'_>) {}
}

/// A worker with so many ports; the far ends of their pipes, and how often each was looked at.
struct Switchboard {
    worker: Worker<Count>,
    ends: Vec<PipeWriter>,
    looks: Vec<Arc<AtomicUsize>>,
}

impl Switchboard {
    fn new(pool: &Pool, ports: usize, on_event: impl FnMut(Event) + Send + 'static) -> Switchboard {
        let config = Config { port_loss: PortLoss::TakesOut, sleep_max_ns: 60_000_000_000, ..Config::default() };
        let (worker, _) = Worker::new(Count::default(), pool, config, Box::new(on_event)).unwrap();
        let mut board = Switchboard { worker, ends: Vec::new(), looks: Vec::new() };
        (0..ports).for_each(|_| board.attach(pool));
        board
    }

    fn attach(&mut self, pool: &Pool) {
        let (reader, writer) = pipe().unwrap();
        let looks = Arc::new(AtomicUsize::new(0));
        let caps = Caps { name: "kernel".into(), receives: true, rx_syscalls: true, frags_max: 1, ..Caps::default() };
        let port = Kernel { caps, pool: pool.clone(), reader, looks: Arc::clone(&looks) };
        let index = usize::from(self.worker.attach(Box::new(port), pool, Role::default()).unwrap().0);
        let came = &mut self.worker.datapath.0;
        came.resize(came.len().max(index + 1), 0);
        self.ends.truncate(index);
        self.looks.truncate(index);
        self.ends.push(writer);
        self.looks.push(looks);
    }

    /// Rounds one after the other; how often each port was looked at meanwhile.
    fn rounds(&mut self, rounds: usize) -> Vec<usize> {
        let looks =
            |board: &Switchboard| board.looks.iter().map(|looks| looks.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let before = looks(self);
        (0..rounds).for_each(|_| _ = self.worker.round(linerate_sys::clock::now_ns()));
        looks(self).iter().zip(before).map(|(after, before)| after - before).collect()
    }
}

#[test]
fn ports_that_bring_nothing_are_looked_at_when_something_comes() {
    let pool = pool();
    let mut board = Switchboard::new(&pool, 10, |_| ());
    // The shares of the ports leave some rounds out.
    board.rounds(1000);
    assert_eq!(board.rounds(100), [0; 10], "they rest");
    board.ends[3].write_all(b"12").unwrap();
    board.ends[9].write_all(b"1").unwrap();
    let looks = board.rounds(1);
    assert_eq!((looks[3], looks[9], looks.iter().sum::<usize>()), (1, 1, 2));
    assert_eq!(board.worker.datapath.0, [0, 0, 0, 2, 0, 0, 0, 0, 0, 1]);
    // A busy one is looked at in each round, and its packets wake no other.
    board.rounds(1000);
    for _ in 0..200 {
        board.ends[5].write_all(b"1").unwrap();
        board.rounds(1);
    }
    board.rounds(1);
    assert_eq!(board.worker.datapath.0, [0, 0, 0, 2, 0, 200, 0, 0, 0, 1]);
    assert_eq!(board.rounds(1).iter().sum::<usize>(), 1);
}

#[test]
fn few_ports_never_rest() {
    let pool = pool();
    let mut board = Switchboard::new(&pool, 3, |_| ());
    board.rounds(1000);
    assert!(board.rounds(100).iter().all(|looks| *looks > 50));
}

#[test]
fn a_port_that_rests_leaves_and_its_number_is_taken_anew() {
    let pool = pool();
    let lost = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&lost);
    let mut kept = Vec::new();
    let mut board = Switchboard::new(&pool, 10, move |event| {
        told.fetch_add(1, Ordering::Relaxed);
        // Whoever gets the port keeps its descriptor.
        kept.push(event);
    });
    board.rounds(1000);
    let mut end = board.ends.pop().unwrap();
    assert!(board.worker.leave(PortIndex(9), linerate_sys::clock::now_ns()));
    board.rounds(1);
    assert_eq!(lost.load(Ordering::Relaxed), 1);
    board.attach(&pool);
    board.rounds(1000);
    end.write_all(b"1").unwrap();
    assert_eq!(board.rounds(100), [0; 10], "a port that is gone wakes the one that has its number now");
    board.ends[9].write_all(b"123").unwrap();
    board.rounds(1);
    assert_eq!(board.worker.datapath.0[9], 3);
}

#[test]
fn a_worker_that_sleeps_is_woken_by_a_port_that_rests() {
    let pool = pool();
    let mut board = Switchboard::new(&pool, 10, |_| ());
    board.rounds(1000);
    let Switchboard { mut worker, mut ends, looks } = board;
    let control = Control::default();
    let took = std::thread::scope(|scope| {
        let running = scope.spawn(|| worker.run(&control));
        let took = || {
            // Its sleep is one of 0.85 s by now, which ends in half a second, unless this machine was away.
            std::thread::sleep(Duration::from_secs(2));
            let (seen, asked) = (looks[7].load(Ordering::Relaxed), Instant::now());
            ends[7].write_all(b"1").unwrap();
            while looks[7].load(Ordering::Relaxed) == seen {
                assert!(asked.elapsed() < Duration::from_secs(20), "it sleeps on");
                std::thread::sleep(Duration::from_micros(100));
            }
            asked.elapsed()
        };
        let took = std::iter::repeat_with(took).take(3).find(|took| *took < Duration::from_millis(200));
        control.stop();
        assert!(running.join().unwrap().error.is_none());
        took
    });
    assert!(took.is_some(), "a packet waits until a sleep ends by itself");
}
