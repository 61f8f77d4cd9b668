//! A switch whose ports have several queues, divided among its workers: flows stay in order, no worker waits for another, and one account holds.

use super::common;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;

use common::{Station, ask, show, snapshot, start_in, wait_until};
use linerate_control::{Command, SettingValue};
use linerate_mem::{Batch, Pool};
use linerate_port::{OpenOptions, Port};
use linerate_switch::Running;
use linerate_switch::config::Config;
use linerate_switch::request::What;
use linerate_sys::affinity;

/// Packets that each queue sends.
const PACKETS: u64 = 20_000;

fn config(folder: &Path, names: &[&str]) -> Config {
    let allowed = affinity::allowed_cores();
    let cores = vec![allowed[0], *allowed.last().unwrap()];
    let mut config =
        Config { ports_max: Some(names.len() + 2), cores, queues: NonZeroU32::new(2), ..Config::default() };
    for name in names {
        config.add_port(&format!("{name}=memif:{}", folder.join(name).display())).unwrap();
    }
    config
}

/// The far side of a memif port, a port for each of its queues.
struct Peer {
    queues: Vec<Box<dyn Port>>,
    pool: Pool,
    batch: Batch,
    number: u8,
    /// By queue: packets sent, and the number of the next one that must arrive.
    sent: [u64; 2],
    next: [u64; 2],
}

impl Peer {
    fn join(running: &Running, folder: &Path, name: &str) -> Peer {
        let pool = running.pool().clone();
        let spec = format!("memif:{},role=client,queues=2", folder.join(name).display());
        let spec = linerate_ports::parse(&spec).unwrap();
        let opened = linerate_ports::open_device(&spec, &OpenOptions::default(), &pool).unwrap();
        let batch = Batch::new(&pool, 256);
        let queues = opened.device.into_ports();
        assert_eq!(queues.len(), 2);
        Peer { queues, pool, batch, number: name.as_bytes()[0], sent: [0; 2], next: [0; 2] }
    }

    /// Sends packets with the queue and their number in it to a station; returns how many the queue took.
    fn send(&mut self, queue: usize, to: u8, count: usize) -> usize {
        self.pool.alloc(&mut self.batch, count, 60);
        for (at, packet) in self.batch.iter_mut().enumerate() {
            packet.fill(0);
            packet[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, self.number]);
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

/// Makes the address of `peer` known, by a packet to `to` that is not one of the counted.
fn learn(running: &Running, peer: &mut Peer, others: &mut [&mut Peer]) {
    let before = snapshot(running).totals.flooded;
    wait_until("the peers are connected", || peer.send(0, 0xff, 1) == 1);
    wait_until("it is flooded", || snapshot(running).totals.flooded == before + 1);
    for other in others {
        wait_until("the flood arrives", || other.receive() == 1);
        other.next = [0; 2];
    }
    peer.sent = [0; 2];
}

#[test]
fn each_worker_carries_its_queues_and_flows_stay_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config(folder.path(), &["a", "b"]));
    let [mut a, mut b] = ["a", "b"].map(|name| Peer::join(&running, folder.path(), name));
    learn(&running, &mut b, &mut [&mut a]);
    while b.next != [PACKETS; 2] {
        for queue in [0, 1] {
            // Less than a queue on the way, so that nothing is dropped.
            let on_the_way = a.sent[queue] - b.next[queue];
            let count = (PACKETS - a.sent[queue]).min(128 - on_the_way.min(128));
            a.send(queue, b'b', count as usize);
        }
        if b.receive() == 0 {
            std::thread::yield_now();
        }
    }
    let seen = snapshot(&running);
    assert_eq!(seen.totals.unbalanced, None);
    let ports: Vec<(&str, usize)> = seen.ports.iter().map(|port| (port.name.as_str(), port.queues.len())).collect();
    assert_eq!(ports, [("a", 2), ("b", 2)]);
    assert_eq!(seen.ports[0].queues.iter().map(|queue| queue.received).collect::<Vec<_>>(), [PACKETS; 2]);
    assert_eq!(seen.ports[1].queues.iter().map(|queue| queue.sent).collect::<Vec<_>>(), [PACKETS; 2]);
    assert_eq!((seen.ports[0].counters.received, seen.ports[1].counters.sent), (2 * PACKETS, 2 * PACKETS));
    for worker in &seen.workers {
        assert_eq!((&worker.ports[..], worker.handed_over), (&["a".to_string(), "b".to_string()][..], 0));
        assert!(worker.received >= PACKETS, "{worker:?}");
    }
    let latency = show(&running, What::Latency);
    let rows = latency.as_array().unwrap();
    let row = rows.iter().find(|row| row["from"] == "a" && row["to"] == "b").unwrap();
    assert_eq!((rows.len(), row["packets"].as_u64()), (2, Some(2 * PACKETS)), "of both workers: {latency}");
    drop((a, b));
    let ended = running.stop().unwrap();
    assert_eq!((ended.frames_missing, &ended.snapshot.totals.unbalanced), (0, &None));
    assert_eq!(ended.snapshot.ports.iter().map(|port| port.queues.len()).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(ended.snapshot.totals.dropped, 0);
}

/// A port of one queue beside one of two: rings lead to it from the worker that has not got it.
#[test]
fn a_port_of_one_queue_is_reached_from_both() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), &["a"]);
    config.add_port("c=pipe:queues-c").unwrap();
    let running = start_in(folder.path(), &config);
    let mut a = Peer::join(&running, folder.path(), "a");
    let mut c = Station::join(&running, "queues-c", b'c');
    assert_eq!(c.send(0xff, 1), 1);
    wait_until("it is known where c is", || snapshot(&running).totals.received == 1);
    for (queue, count) in [(0, 10), (1, 20)] {
        wait_until("the peers are connected", || a.send(queue, b'c', 1) == 1);
        assert_eq!(a.send(queue, b'c', count - 1), count - 1);
    }
    wait_until("all arrive", || {
        c.receive();
        c.received == 30
    });
    let seen = snapshot(&running);
    let handed: u64 = seen.workers.iter().map(|worker| worker.handed_over).sum();
    assert!([10, 20].contains(&handed), "those of one queue cross: {handed}");
    drop((a, c));
    let ended = running.stop().unwrap();
    assert_eq!((ended.frames_missing, &ended.snapshot.totals.unbalanced), (0, &None));
}

#[test]
fn a_port_goes_with_all_its_queues_and_has_no_limits() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config(folder.path(), &["a", "b"]));
    let limit = |port: &str, value: &str| {
        let settings = [("rate".to_string(), SettingValue(value.into()))].into();
        ask(&running, &Command::Set { port: Some(port.into()), settings })
    };
    let refused = limit("a", "10M").unwrap_err().to_string();
    assert!(refused.contains("--queues"), "{refused}");
    ask(&running, &Command::RemovePort { port: "a".into() }).unwrap();
    wait_until("it is gone from both", || snapshot(&running).workers.iter().all(|worker| worker.ports == ["b"]));
    // The name is free again.
    let spec = format!("memif:{}", folder.path().join("a2").display());
    let add = Command::AddPort { name: Some("a".into()), spec, settings: BTreeMap::new() };
    wait_until("it is added again", || ask(&running, &add).is_ok());
    assert_eq!(snapshot(&running).ports.len(), 2);
    let ended = running.stop().unwrap();
    assert_eq!((ended.frames_missing, &ended.snapshot.totals.unbalanced), (0, &None));
}
