//! Workers on threads of their own: sleeping, waking, jobs, stopping, two workers joined by a ring.

use std::time::Duration;

use crate::common::{Cross, pool};
use linerate_mem::{Batch, Pool};
use linerate_port::{Interest, Port, Readiness};
use linerate_port_pipe::{PipePort, pair};
use linerate_worker::{Config, Control, HandoffStage, Role, Worker};

/// A worker on a thread between `near` and `far`.
fn worker(pool: &Pool, near: PipePort, far: PipePort) -> (Worker<Cross>, linerate_worker::Handle<Cross>) {
    let cross = Cross::new(pool, 64);
    let (mut worker, handle) = Worker::new(cross, pool, Config::default(), Box::new(|_| ())).unwrap();
    for port in [near, far] {
        worker.attach(Box::new(port), pool, Role::default()).unwrap();
    }
    (worker, handle)
}

fn send(port: &mut PipePort, pool: &mut Pool, packets: usize) {
    let mut batch = Batch::new(pool, packets);
    assert_eq!(pool.alloc(&mut batch, packets, 60), packets);
    assert_eq!(port.transmit(&mut batch).unwrap(), packets);
}

fn receive(port: &mut PipePort, pool: &mut Pool, packets: usize) {
    let mut batch = Batch::new(pool, 64);
    let mut received = 0;
    while received < packets {
        received += port.receive(&mut batch).unwrap();
        pool.free(&mut batch);
        std::thread::yield_now();
    }
    assert_eq!(received, packets);
}

#[test]
fn it_sleeps_wakes_for_jobs_and_stops_at_once() {
    let mut pool = pool();
    let ((mut left, near), (far, mut right)) = (pair("near", &pool, 64), pair("far", &pool, 64));
    let (mut worker, handle) = worker(&pool, near, far);
    let control = Control::default();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| worker.run(&control));
        for _ in 0..20 {
            send(&mut left, &mut pool, 10);
            receive(&mut right, &mut pool, 10);
        }
        let sent = handle.call(|worker| worker.datapath.sent).unwrap();
        assert_eq!(sent, 200);
        while handle.call(|worker| worker.turns.sleeps).unwrap() == 0 {
            std::thread::yield_now();
        }
        send(&mut left, &mut pool, 10);
        receive(&mut right, &mut pool, 10);
        control.stop();
        assert!(running.join().unwrap().error.is_none());
    });
    worker.refuse_jobs();
    let asked = std::time::Instant::now();
    assert!(handle.call(|_| ()).is_err(), "the worker runs no more");
    assert!(asked.elapsed().as_secs() < 5, "nobody waits for an answer that never comes");
    drop(worker);
    assert!(handle.call(|_| ()).is_err(), "there is no worker any more");
    drop((left, right));
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn a_datapath_that_is_done_ends_its_worker() {
    let mut pool = pool();
    let ((mut left, near), (far, mut right)) = (pair("near", &pool, 64), pair("far", &pool, 64));
    let (mut worker, _) = worker(&pool, near, far);
    worker.datapath.done_after = 5;
    send(&mut left, &mut pool, 5);
    worker.run(&Control::default());
    receive(&mut right, &mut pool, 5);
    assert_eq!(worker.datapath.sent, 5);
}

/// Two workers with a port each hand packets over by rings, until they are stopped or their sources end.
fn hand_over(stopped: bool) {
    const ROUNDS: usize = 50;
    let mut pool = pool();
    let ((mut left, near), (far, mut right)) = (pair("near", &pool, 64), pair("far", &pool, 64));
    let ((there_tx, there_rx), (back_tx, back_rx)) = (pair("there", &pool, 64), pair("back", &pool, 64));
    let (to_other, from_other) = (Role { receives: false, ..HANDOFF }, HANDOFF);
    let mut one = joined(&pool, [(near, Role::default()), (there_tx, to_other), (back_rx, from_other)]);
    let mut other = joined(&pool, [(far, Role::default()), (back_tx, to_other), (there_rx, from_other)]);
    let controls = [Control::default(), Control::default()];
    std::thread::scope(|scope| {
        let one = scope.spawn(|| one.run(&controls[0]));
        let other = scope.spawn(|| other.run(&controls[1]));
        for _ in 0..ROUNDS {
            send(&mut left, &mut pool, 20);
            receive(&mut right, &mut pool, 20);
            send(&mut right, &mut pool, 10);
            receive(&mut left, &mut pool, 10);
        }
        // Packets that arrived before the end arrive at the other side, whichever worker ends first.
        send(&mut left, &mut pool, 30);
        send(&mut right, &mut pool, 30);
        if stopped {
            controls.iter().for_each(Control::stop);
        }
        receive(&mut right, &mut pool, 30);
        receive(&mut left, &mut pool, 30);
        drop((left, right));
        for end in [one, other].map(|thread| thread.join().unwrap()) {
            assert!(end.error.is_none());
            assert!(end.ports[1].is_none(), "the way to the other worker is closed");
        }
    });
    for worker in [&one, &other] {
        assert_eq!(worker.datapath.queues.iter().map(Batch::len).sum::<usize>(), 0);
    }
    drop((one, other));
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn two_workers_that_are_stopped_come_to_their_end() {
    hand_over(true);
}

#[test]
fn two_workers_whose_sources_end_come_to_their_end() {
    hand_over(false);
}

/// A worker that is asked to stop while so many packets wait for it, on a ring out of it of so many slots. The far side takes them after
/// this time.
fn stopped_before(packets: usize, slots: usize, taken_after: Duration, change: impl FnOnce(&mut Cross, &mut Config)) {
    let mut pool = pool();
    let ((mut left, near), (far, mut right)) = (pair("near", &pool, 128), pair("far", &pool, slots));
    let mut cross = Cross::new(&pool, 4);
    let mut config = Config { batch: 4, ..Config::default() };
    change(&mut cross, &mut config);
    let (mut worker, _) = Worker::new(cross, &pool, config, Box::new(|_| ())).unwrap();
    for port in [near, far] {
        worker.attach(Box::new(port), &pool, Role::default()).unwrap();
    }
    send(&mut left, &mut pool, packets);
    let control = Control::default();
    control.stop();
    let mut far_pool = pool.clone();
    let end = std::thread::scope(|scope| {
        let taking = scope.spawn(move || {
            std::thread::sleep(taken_after);
            let mut batch = Batch::new(&far_pool, 128);
            let mut received = 0;
            while !matches!(right.wait(Interest::Receive, 0), Ok(Readiness::Closed)) {
                received += right.receive(&mut batch).unwrap();
                far_pool.free(&mut batch);
                std::thread::yield_now();
            }
            received
        });
        let end = worker.run(&control);
        drop(worker);
        assert_eq!(taking.join().unwrap(), packets);
        end
    });
    assert!(end.error.is_none());
    assert_eq!(end.ports.iter().flatten().map(|port| port.held).sum::<u64>(), 0);
}

#[test]
fn a_worker_whose_core_was_away_at_the_end_takes_in_what_had_arrived() {
    stopped_before(60, 128, Duration::ZERO, |cross, config| {
        config.drain_input_ns = 20_000_000;
        cross.away = Duration::from_millis(60);
    });
}

#[test]
fn packets_that_had_arrived_at_the_end_wait_for_a_far_side_that_is_slow() {
    stopped_before(60, 8, Duration::from_millis(50), |_, config| config.drain_input_ns = 1_000_000_000);
}

const HANDOFF: Role = Role { receives: true, forgives: false, handoff: Some(HandoffStage::Leaving) };

/// A worker whose datapath moves packets between port 0 and the ring: out by port 1, in by port 2.
fn joined(pool: &Pool, ports: [(PipePort, Role); 3]) -> Worker<Cross> {
    let config = Config { drain_input_ns: 10_000_000_000, drain_output_ns: 10_000_000_000, ..Config::default() };
    let (mut worker, _) = Worker::new(Cross::new(pool, 64), pool, config, Box::new(|_| ())).unwrap();
    for (port, role) in ports {
        worker.attach(Box::new(port), pool, role).unwrap();
    }
    worker
}
