//! A switch whose ports have several queues, divided among its workers: flows stay in order, no worker waits for another, and one account holds.

use super::common;

use std::num::NonZeroU32;
use std::path::Path;

use common::{Station, ask, show, snapshot, start_in, wait_until};
use linerate_control::{Command, SettingValue};
use linerate_mem::{Batch, Pool};
use linerate_ofswitch::config::QueueConfig;
use linerate_ofswitch::request::{Change, Request, What};
use linerate_ofswitch::{Config, Running};
use linerate_port::{OpenOptions, Port};
use linerate_sys::affinity;

/// Packets that each queue sends.
const PACKETS: u64 = 20_000;

fn config(folder: &Path, ports: usize) -> Config {
    let allowed = affinity::allowed_cores();
    let cores = vec![allowed[0], *allowed.last().unwrap()];
    let mut config = Config { cores, queue_pairs: NonZeroU32::new(2), ..Config::default() };
    for number in 1..=ports {
        config.add_port(&format!("{number}=memif:{}", folder.join(number.to_string()).display())).unwrap();
    }
    config
}

fn forward(running: &Running, flows: &[&str]) {
    let flows = flows.iter().map(|flow| flow.to_string()).collect();
    ask(running, &Request::Flow { action: Change::Add, flows }).unwrap();
}

/// The far side of a memif port, a port for each of its queues.
struct Peer {
    queues: Vec<Box<dyn Port>>,
    pool: Pool,
    batch: Batch,
    /// By queue: packets sent, and the number of the next one that must arrive.
    sent: [u64; 2],
    next: [u64; 2],
}

impl Peer {
    fn join(running: &Running, folder: &Path, number: usize) -> Peer {
        let pool = running.pool().clone();
        let spec = format!("memif:{},role=client,queues=2", folder.join(number.to_string()).display());
        let spec = linerate_ports::parse(&spec).unwrap();
        let opened = linerate_ports::open_device(&spec, &OpenOptions::default(), &pool).unwrap();
        let (batch, queues) = (Batch::new(&pool, 256), opened.device.into_ports());
        assert_eq!(queues.len(), 2);
        Peer { queues, pool, batch, sent: [0; 2], next: [0; 2] }
    }

    /// Sends packets with the queue and their number in it; returns how many the queue took.
    fn send(&mut self, queue: usize, count: usize) -> usize {
        self.pool.alloc(&mut self.batch, count, 60);
        for (at, packet) in self.batch.iter_mut().enumerate() {
            packet.fill(0);
            packet[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
            packet[19] = queue as u8;
            packet[20..28].copy_from_slice(&(self.sent[queue] + at as u64).to_be_bytes());
        }
        let taken = self.queues[queue].transmit(&mut self.batch).unwrap();
        self.pool.free(&mut self.batch);
        self.sent[queue] += taken as u64;
        taken
    }

    /// Takes what has come to its queues, where the packets of a queue of the sender must be in order, and arrive by the queue of the same number.
    fn receive(&mut self) -> usize {
        let mut received = 0;
        for (queue, port) in self.queues.iter_mut().enumerate() {
            received += port.receive(&mut self.batch).unwrap();
            for packet in self.batch.iter_mut() {
                assert_eq!(usize::from(packet[19]), queue, "the queue of the other side");
                assert_eq!(u64::from_be_bytes(packet[20..28].try_into().unwrap()), self.next[queue], "in order");
                self.next[queue] += 1;
            }
            self.pool.free(&mut self.batch);
        }
        received
    }
}

#[test]
fn each_worker_carries_its_queues_and_flows_stay_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config(folder.path(), 2));
    forward(&running, &["in_port=1,actions=output:2"]);
    let [mut a, mut b] = [1, 2].map(|number| Peer::join(&running, folder.path(), number));
    // A packet for nobody goes nowhere; those of both queues show that both sides are connected.
    for queue in [0, 1] {
        wait_until("the peers are connected", || b.send(queue, 1) == 1);
    }
    wait_until("they are dropped", || snapshot(&running).totals.dropped == 2);
    // A worker asks its ports for their links every 10 ms.
    wait_until("the link is known", || snapshot(&running).ports[1].counters.link_up);
    while b.next != [PACKETS; 2] {
        for queue in [0, 1] {
            // Less than a queue on the way, so that nothing is dropped.
            let on_the_way = a.sent[queue] - b.next[queue];
            let count = (PACKETS - a.sent[queue]).min(128 - on_the_way.min(128));
            a.send(queue, count as usize);
        }
        if b.receive() == 0 {
            std::thread::yield_now();
        }
    }
    wait_until("all is counted", || snapshot(&running).totals.waiting == 0);
    let seen = snapshot(&running);
    let ports: Vec<(&str, usize)> = seen.ports.iter().map(|port| (port.name.as_str(), port.queues.len())).collect();
    assert_eq!(ports, [("1", 2), ("2", 2)]);
    assert_eq!(seen.ports[0].queues.iter().map(|queue| queue.received).collect::<Vec<_>>(), [PACKETS; 2]);
    assert_eq!(seen.ports[1].queues.iter().map(|queue| queue.sent).collect::<Vec<_>>(), [PACKETS; 2]);
    assert_eq!((seen.ports[0].counters.rx_packets, seen.ports[1].counters.tx_packets), (2 * PACKETS, 2 * PACKETS));
    for worker in &seen.workers {
        let counts = (worker.received, worker.sent, worker.handed_over, worker.handed_in);
        assert_eq!(
            (&worker.ports[..], counts),
            (&["1".to_string(), "2".to_string()][..], (PACKETS + 1, PACKETS, 0, 0))
        );
    }
    let latency = show(&running, What::Latency);
    assert_eq!(latency.as_array().unwrap().len(), 1, "of both workers: {latency}");
    assert_eq!(latency[0]["packets"].as_u64(), Some(2 * PACKETS));
    drop((a, b));
    // The thread that ends the switch has done nothing yet, and each worker a lot.
    let last = std::thread::spawn(|| common::stop(running)).join().unwrap();
    assert_eq!(last.ports.iter().map(|port| port.queues.len()).collect::<Vec<_>>(), [2, 2]);
    for (last, seen) in last.workers.iter().zip(&seen.workers) {
        let (last, seen) = (last.worker.cpu_ns, seen.worker.cpu_ns);
        assert!(2 * last >= seen, "{last} after {seen}");
    }
}

/// A port of one queue beside one of two: rings lead to it from the worker that has not got it. A packet of a controller finds either.
#[test]
fn a_port_of_one_queue_is_reached_from_both() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), 1);
    config.add_port("2=pipe:of-queues-2").unwrap();
    let running = start_in(folder.path(), &config);
    forward(&running, &["in_port=1,actions=output:2"]);
    let mut a = Peer::join(&running, folder.path(), 1);
    let mut b = Station::at(&running, "pipe:of-queues-2");
    for (queue, count) in [(0, 10), (1, 20)] {
        wait_until("the peers are connected", || a.send(queue, 1) == 1);
        assert_eq!(a.send(queue, count - 1), count - 1);
    }
    b.expect(30);
    let seen = snapshot(&running);
    let handed: u64 = seen.workers.iter().map(|worker| worker.handed_over).sum();
    assert!([10, 20].contains(&handed), "those of one queue cross: {handed}");
    ask(&running, &Command::RemovePort { port: "1".into() }).unwrap();
    wait_until("it is gone from both", || {
        snapshot(&running).workers.iter().all(|worker| !worker.ports.contains(&"1".into()))
    });
    assert_eq!(show(&running, What::Port).as_array().unwrap().len(), 1);
    drop((a, b));
    common::stop(running);
}

#[test]
fn queues_with_rates_are_of_one_worker() {
    let mut config = Config { queue_pairs: NonZeroU32::new(2), ..Config::default() };
    config.add_port("1=null:").unwrap();
    config.queues.push(QueueConfig {
        port: SettingValue("1".into()),
        id: 1,
        min_rate: None,
        max_rate: Some(SettingValue("1M".into())),
    });
    assert!(config.check().unwrap_err().to_string().contains("--queues"));
    config.queue_pairs = NonZeroU32::new(1);
    assert!(config.check().is_ok());
    assert_eq!(
        Config::parse("queues = 4\n[[port]]\nname = 1\nspec = \"null:\"\n").unwrap().queue_pairs,
        NonZeroU32::new(4)
    );
    assert!(Config::parse("queues = 0\n").is_err());
}
