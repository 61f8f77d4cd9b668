//! Rounds of a worker at times that the tests give.

use std::sync::{Arc, Mutex};

use crate::common::{Cross, Script, Scripted, UNSEEN, pool};
use linerate_mem::Pool;
use linerate_port::{LinkState, PortIndex};
use linerate_sys::clock;
use linerate_worker::{Config, Control, Event, Loss, PortLoss, Role, Worker};

const SECOND_NS: u64 = 1_000_000_000;
const A: PortIndex = PortIndex(0);
const B: PortIndex = PortIndex(1);

struct Bench {
    worker: Worker<Cross>,
    ports: [Scripted; 2],
    events: Arc<Mutex<Vec<String>>>,
    pool: Pool,
}

/// A worker between two scripted ports, with queues of `slots`.
fn bench(slots: usize, scripts: [Script; 2], port_loss: PortLoss) -> Bench {
    let pool = pool();
    bench_of(Cross::new(&pool, slots), &pool, scripts, port_loss)
}

/// The same for a datapath that follows links.
fn following_bench(scripts: [Script; 2], port_loss: PortLoss) -> Bench {
    let pool = pool();
    let mut datapath = Cross::new(&pool, 8);
    datapath.follows_links = true;
    bench_of(datapath, &pool, scripts, port_loss)
}

fn bench_of(datapath: Cross, pool: &Pool, scripts: [Script; 2], port_loss: PortLoss) -> Bench {
    let events = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&events);
    let on_event = move |event: Event| {
        heard.lock().unwrap().push(match event {
            Event::Down { port, .. } => format!("down {port}"),
            Event::Up { port } => format!("up {port}"),
            Event::Link { port, link } => format!("link {link:?} {port}"),
            Event::PeerLost { port, .. } => format!("peer lost {port}"),
            Event::Lost { port, loss: Loss::Broken(_), .. } => format!("broken {port}"),
            Event::Lost { port, loss: Loss::Closed, .. } => format!("closed {port}"),
            Event::Lost { port, loss: Loss::Left, .. } => format!("left {port}"),
        });
    };
    let config = Config { batch: 16, port_loss, drain_output_ns: 50_000_000, ..Config::default() };
    let (mut worker, _) = Worker::new(datapath, pool, config, Box::new(on_event)).unwrap();
    let ports = scripts.map(|script| Scripted::new(pool, script));
    for (index, port) in [A, B].into_iter().zip(&ports) {
        assert_eq!(worker.attach(Box::new(port.clone()), pool, Role::default()), Some(index));
    }
    Bench { worker, ports, events, pool: pool.clone() }
}

impl Bench {
    fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }

    /// Ends with every frame back in the pool.
    fn end(self) {
        drop((self.worker, self.ports));
        let mut pool = self.pool;
        pool.flush();
        assert!(pool.is_whole());
    }
}

fn brings(brings: usize) -> Script {
    Script { brings, takes: usize::MAX, ..Script::default() }
}

#[test]
fn packets_that_the_datapath_leaves_hold_their_port_back_and_none_is_lost() {
    let mut bench = bench(8, [brings(100), Script::default()], PortLoss::EndsRun);
    for now_ns in 1..10 {
        bench.worker.round(now_ns);
    }
    let left = bench.ports[0].script.lock().unwrap().brings;
    assert_eq!(left, 100 - 16, "one batch was received: 8 packets wait in the queue, 8 with the worker");
    bench.ports[1].set(|script| script.takes = usize::MAX);
    (10..40).for_each(|now_ns| {
        bench.worker.round(now_ns);
    });
    assert_eq!(bench.ports[1].sent(), 100);
    bench.end();
}

#[test]
fn a_port_that_takes_nothing_is_told_of_once_a_second() {
    let mut bench = bench(8, [brings(8), Script::default()], PortLoss::TakesOut);
    bench.worker.round(1);
    bench.worker.round(SECOND_NS / 2);
    assert_eq!(bench.worker.datapath.log, [""; 0]);
    bench.worker.round(SECOND_NS + 2);
    assert_eq!(bench.worker.datapath.log, ["removed 1", "stuck 1"]);
    bench.ports[0].set(|script| script.brings = 8);
    bench.worker.round(SECOND_NS + 3);
    bench.worker.round(SECOND_NS + 4);
    bench.ports[1].set(|script| script.takes = 1);
    bench.worker.round(3 * SECOND_NS);
    bench.worker.round(3 * SECOND_NS + 1);
    assert_eq!(bench.worker.datapath.log.len(), 2, "it took one: a new second begins");
    bench.end();
}

#[test]
fn a_link_that_goes_down_keeps_its_number_and_comes_back() {
    for loss in [PortLoss::EndsRun, PortLoss::TakesOut] {
        let mut bench = bench(8, [brings(2), brings(2)], loss);
        bench.ports[1].set(|script| script.down = true);
        bench.worker.round(SECOND_NS);
        bench.worker.round(SECOND_NS + 1);
        assert_eq!(bench.events(), ["down 1"]);
        assert_eq!((bench.ports[0].sent(), bench.ports[1].sent()), (0, 0));
        bench.ports[1].set(|script| script.down = false);
        // It is tried again every 10 ms.
        bench.worker.round(SECOND_NS + 1_000_000);
        assert_eq!(bench.events().len(), 1);
        bench.worker.round(SECOND_NS + 11_000_000);
        bench.worker.round(SECOND_NS + 12_000_000);
        assert_eq!(bench.events(), ["down 1", "up 1"]);
        assert_eq!(bench.worker.datapath.log, ["Down 1", "Up 1"]);
        assert_eq!((bench.ports[0].sent(), bench.ports[1].sent()), (2, 2));
        bench.end();
    }
}

#[test]
fn a_carrier_that_goes_and_comes_is_told_within_10_ms_and_its_port_is_served_meanwhile() {
    let mut bench = following_bench([brings(2), brings(2)], PortLoss::EndsRun);
    bench.worker.round(SECOND_NS);
    bench.ports[1].set(|script| script.no_carrier = true);
    let asked = bench.ports[1].script.lock().unwrap().links;
    for ms in 1..10 {
        bench.worker.round(SECOND_NS + ms * 1_000_000);
    }
    assert_eq!(bench.ports[1].script.lock().unwrap().links, asked, "it is asked every 10 ms");
    bench.worker.round(SECOND_NS + 10_000_000);
    assert_eq!((bench.events(), bench.worker.link(B)), (vec!["link Down 1".into()], Some(LinkState::Down)));
    bench.ports.iter().for_each(|port| port.set(|script| script.brings = 1));
    bench.worker.round(SECOND_NS + 11_000_000);
    assert_eq!((bench.ports[0].sent(), bench.ports[1].sent()), (3, 3));
    bench.ports[1].set(|script| script.no_carrier = false);
    bench.worker.round(SECOND_NS + 20_000_000);
    assert_eq!(bench.worker.datapath.log, ["Down 1", "Up 1"]);
    assert_eq!((bench.events().len(), bench.worker.link(B)), (2, Some(LinkState::Up)));
    bench.end();
}

#[test]
fn of_many_ports_some_are_asked_for_their_links_each_10_ms_and_all_within_20() {
    let mut bench = following_bench([brings(0), brings(0)], PortLoss::EndsRun);
    let more: Vec<_> = (0..98).map(|_| Scripted::new(&bench.pool, brings(0))).collect();
    for port in &more {
        bench.worker.attach(Box::new(port.clone()), &bench.pool, Role::default()).unwrap();
    }
    let mut asked = 0;
    for round in 1..=4 {
        bench.worker.round(SECOND_NS + round * 10_000_000);
        let links: Vec<_> = bench.ports.iter().chain(&more).map(|port| port.script.lock().unwrap().links).collect();
        let before = std::mem::replace(&mut asked, links.iter().sum());
        assert_eq!((links.len(), asked - before), (100, 64));
        assert!(links.iter().all(|links| *links as u64 >= round / 2), "{round}: {links:?}");
    }
    drop(more);
    bench.end();
}

#[test]
fn an_interface_that_comes_up_before_its_carrier_is_no_link_yet() {
    let mut bench = following_bench([brings(0), brings(0)], PortLoss::EndsRun);
    bench.ports[1].set(|script| (script.down, script.no_carrier) = (true, true));
    bench.worker.round(SECOND_NS);
    bench.ports[1].set(|script| script.down = false);
    bench.worker.round(SECOND_NS + 10_000_000);
    bench.worker.round(SECOND_NS + 20_000_000);
    assert_eq!((bench.worker.link(B), &*bench.worker.datapath.log), (Some(LinkState::Down), &["Down 1".into()][..]));
    bench.ports[1].set(|script| script.no_carrier = false);
    bench.worker.round(SECOND_NS + 30_000_000);
    assert_eq!(bench.worker.datapath.log, ["Down 1", "Up 1"]);
    bench.end();
}

#[test]
fn a_datapath_that_does_not_follow_links_asks_no_port() {
    let mut bench = bench(8, [brings(2), brings(2)], PortLoss::EndsRun);
    bench.ports[1].set(|script| script.no_carrier = true);
    for ms in 1..100 {
        bench.worker.round(ms * 1_000_000);
    }
    assert_eq!((bench.ports[1].script.lock().unwrap().links, bench.events()), (0, vec![]));
    bench.end();
}

#[test]
fn a_packet_that_is_too_long_by_now_does_not_stop_the_others() {
    let mut bench = bench(8, [brings(3), Script::default()], PortLoss::EndsRun);
    bench.worker.round(1);
    bench.ports[1].set(|script| (script.takes, script.len_max) = (9, 50));
    assert!(bench.worker.round(2).moved());
    bench.ports[1].set(|script| script.len_max = 60);
    bench.worker.round(3);
    assert_eq!((bench.ports[1].sent(), &*bench.worker.datapath.log), (2, &["longer than 50 1".to_string()][..]));
    bench.end();
}

#[test]
fn a_port_that_takes_long_packets_again_is_told_of() {
    let scripts = || [brings(1), Script::default()];
    for mut bench in [bench(8, scripts(), PortLoss::EndsRun), following_bench(scripts(), PortLoss::EndsRun)] {
        bench.ports[1].set(|script| (script.takes, script.len_max) = (9, 50));
        bench.worker.round(1);
        for ms in 1..300 {
            bench.worker.round(ms * 1_000_000);
        }
        assert_eq!(bench.worker.datapath.log, ["longer than 50 1"]);
        bench.ports[1].set(|script| script.len_max = 60);
        for ms in 300..900 {
            bench.worker.round(ms * 1_000_000);
        }
        assert_eq!(bench.worker.datapath.log, ["longer than 50 1", "takes 60 1"]);
        bench.end();
    }
}

#[test]
fn a_port_that_breaks_is_handed_out_or_ends_the_run() {
    let mut taken = bench(8, [brings(2), brings(2)], PortLoss::TakesOut);
    taken.worker.round(1);
    taken.ports[0].set(|script| script.broken = true);
    taken.worker.round(2);
    assert_eq!((taken.events(), taken.worker.port(A).is_none()), (vec!["broken 0".to_string()], true));
    let again = Scripted::new(&taken.pool, brings(2));
    assert_eq!(taken.worker.attach(Box::new(again), &taken.pool, Role::default()), Some(A), "the lowest free number");
    taken.end();

    let mut ending = bench(8, [brings(2), brings(2)], PortLoss::EndsRun);
    ending.ports[0].set(|script| script.broken = true);
    let end = ending.worker.run(&Control::default());
    assert!(end.error.is_some_and(|error| error.to_string().contains("gone")));
    assert_eq!(ending.events(), [""; 0]);
    ending.end();
}

#[test]
fn only_a_port_that_forgives_stays_when_its_peer_broke_the_protocol() {
    let mut bench = bench(8, [brings(0), brings(0)], PortLoss::TakesOut);
    let forgiving = Scripted::new(&bench.pool, brings(0));
    let role = Role { forgives: true, ..Role::default() };
    bench.worker.attach(Box::new(forgiving.clone()), &bench.pool, role);
    forgiving.set(|script| script.corrupt = true);
    bench.ports[1].set(|script| script.corrupt = true);
    bench.worker.round(1);
    assert_eq!(bench.events(), ["broken 1", "peer lost 2"]);
    assert!(bench.worker.port(PortIndex(2)).is_some());
    drop(forgiving);
    bench.end();
}

#[test]
fn a_run_ends_when_all_that_packets_come_from_are_at_their_end_and_all_has_left() {
    let mut bench = bench(8, [brings(50), brings(40)], PortLoss::EndsRun);
    bench.ports.iter().for_each(|port| port.set(|script| script.closed = true));
    let end = bench.worker.run(&Control::default());
    assert!(end.error.is_none());
    assert_eq!((bench.ports[0].sent(), bench.ports[1].sent()), (40, 50));
    bench.end();
}

#[test]
fn a_port_that_is_to_go_goes_when_it_is_empty() {
    let mut bench = bench(8, [brings(40), Script::default()], PortLoss::EndsRun);
    bench.worker.round(1);
    assert!(bench.worker.leave(A, 1) && !bench.worker.leave(PortIndex(7), 1));
    bench.worker.round(2);
    assert_eq!(bench.events(), [""; 0], "it still brings packets");
    bench.ports[1].set(|script| script.takes = usize::MAX);
    (3..20).for_each(|now_ns| {
        bench.worker.round(now_ns);
    });
    assert_eq!((bench.events(), bench.ports[1].sent()), (vec!["left 0".to_string()], 40));
    // The other one has packets that nobody takes: it goes when its time is over.
    bench.ports[1].set(|script| (script.takes, script.brings) = (0, 0));
    bench.worker.leave(B, 20);
    bench.worker.round(21 + SECOND_NS);
    assert_eq!(bench.events().last().unwrap(), "left 1");
    bench.end();
}

#[test]
fn ticks_come_when_their_time_has_come() {
    let mut bench = bench(8, [brings(0), brings(0)], PortLoss::EndsRun);
    bench.worker.datapath.deadlines_ns.extend([10, 20]);
    bench.worker.round(9);
    assert_eq!(bench.worker.datapath.log, [""; 0]);
    bench.worker.round(10);
    bench.worker.round(11);
    assert_eq!(bench.worker.datapath.log, ["tick"]);
    bench.worker.round(25);
    assert_eq!(bench.worker.datapath.log, ["tick", "tick"]);
    bench.end();
}

#[test]
fn what_waits_at_the_end_leaves_and_what_cannot_is_counted() {
    let mut ended = bench(8, [brings(20), Script::default()], PortLoss::EndsRun);
    ended.worker.round(clock::now_ns());
    ended.ports[1].set(|script| script.takes = usize::MAX);
    let control = Control::default();
    control.stop();
    let end = ended.worker.run(&control);
    assert_eq!((ended.ports[1].sent(), end.port(A).unwrap().held), (16, 0));
    ended.end();

    let mut full = bench(8, [brings(20), Script::default()], PortLoss::EndsRun);
    full.worker.round(clock::now_ns());
    let end = full.worker.run(&control);
    assert_eq!((full.worker.datapath.queues[1].len(), end.port(A).unwrap().held), (8, 8));
    full.end();
}

#[test]
fn a_worker_without_ports_ends_at_once() {
    let pool = pool();
    let (mut worker, _) = Worker::new(Cross::new(&pool, 8), &pool, Config::default(), Box::new(|_| ())).unwrap();
    let control = Control::default();
    control.stop();
    worker.run(&control);
    assert!(worker.turns.rounds < 10, "{:?}: it waited for nothing", worker.turns);
}

#[test]
fn ports_hand_packets_on_unless_some_wait_already() {
    let pool = pool();
    let mut datapath = Cross::new(&pool, 16);
    datapath.passes = true;
    let config = Config { batch: 16, ..Config::default() };
    let (mut worker, _) = Worker::new(datapath, &pool, config, Box::new(|_| ())).unwrap();
    let [near, far] = [10, 0].map(|brings| Scripted::new(&pool, Script { brings, ..Script::default() }).handing_on());
    for port in [&near, &far] {
        worker.attach(Box::new(port.clone()), &pool, Role::default()).unwrap();
    }
    far.set(|script| script.takes = 4);
    assert_eq!((worker.round(1).received, worker.datapath.passed), (4, 4));
    // The far port is full: what has arrived waits in the datapath, and what comes behind it is not handed past it.
    assert!(worker.round(2).received == 6 && far.sent() == 4);
    near.set(|script| script.brings = 3);
    far.set(|script| script.takes = 100);
    worker.round(3);
    near.set(|script| script.brings = 2);
    worker.round(4);
    // An interface that is known to be down gets nothing.
    far.set(|script| script.down = true);
    worker.round(5);
    near.set(|script| script.brings = 1);
    assert_eq!(worker.round(6).received, 1);
    far.set(|script| assert_eq!(script.sent, [[UNSEEN; 4].as_slice(), &[60; 9], &[UNSEEN; 2]].concat()));
}
