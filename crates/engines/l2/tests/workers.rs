//! Two workers with one MAC table: what one learns, the other knows, and together they account for every packet.

use super::support;

use linerate_l2::{
    DropReason, Mirror, MirrorSelect, PortCounters, PortIndex, PortSettings, Switch, SwitchConfig, Totals,
};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Context, Datapath};
use support::{append, frame, mac};

const S: u64 = 1_000_000_000;

/// A ring between two workers: the ends' numbers there.
struct Ring {
    from: usize,
    out: PortIndex,
    to: usize,
    into: PortIndex,
}

/// Two workers, each with two ports: `a0`, `a1`, `b0`, `b1`.
struct Rig {
    workers: Vec<Switch>,
    pool: Pool,
    rings: Vec<Ring>,
    /// Worker, its number there, name.
    ports: Vec<(usize, PortIndex, String)>,
    now_ns: u64,
}

impl Rig {
    fn new(settings: impl Fn(&str) -> PortSettings) -> Rig {
        let pool = Pool::new(PoolConfig { frames: 1024, ..PoolConfig::default() }).unwrap();
        let config = SwitchConfig { mac_entries: 64, queue_slots: 64, ports_max: 8, ..SwitchConfig::default() };
        let mut first = Switch::new(config, &pool).unwrap();
        let second = first.another_worker().unwrap();
        let mut rig = Rig { workers: vec![first, second], pool, rings: Vec::new(), ports: Vec::new(), now_ns: S };
        for (home, name) in [(0, "a0"), (1, "b0"), (0, "a1"), (1, "b1")] {
            rig.add(home, name, settings(name));
        }
        rig
    }

    fn add(&mut self, home: usize, name: &str, settings: PortSettings) {
        let away = 1 - home;
        let into = self.workers[home].add_ring_from_worker(name);
        let index = self.workers[home].add_named_port(name, settings).unwrap();
        let out = self.workers[away].add_ring_to_worker(name).unwrap();
        self.rings.push(Ring { from: away, out, to: home, into });
        self.ports.push((home, index, name.into()));
    }

    fn port(&self, name: &str) -> (usize, PortIndex) {
        let (worker, index, _) = self.ports.iter().find(|(.., known)| known == name).unwrap();
        (*worker, *index)
    }

    /// A packet comes in.
    fn send(&mut self, name: &str, bytes: &[u8]) {
        let (worker, index) = self.port(name);
        let mut batch = Batch::new(&self.pool, 64);
        assert!(append(&mut self.pool, &mut batch, bytes, 1));
        self.input(worker, index, &mut batch);
        assert!(batch.is_empty());
    }

    fn input(&mut self, worker: usize, index: PortIndex, batch: &mut Batch) {
        let context = &mut Context { now_ns: self.now_ns, pool: &mut self.pool, ports: &mut () };
        self.workers[worker].input(index, batch, context);
    }

    /// Moves what waits in rings, as far as it is taken.
    fn cross(&mut self) {
        for at in 0..self.rings.len() {
            let Ring { from, out, to, into } = self.rings[at];
            let mut batch = Batch::new(&self.pool, 64);
            let Some(queue) = self.workers[from].output(out) else { continue };
            let packets = queue.len();
            queue.move_to(&mut batch, packets);
            self.workers[from].tx_done(out, packets, self.now_ns);
            if !batch.is_empty() {
                self.input(to, into, &mut batch);
            }
            assert!(batch.is_empty(), "there was room");
        }
    }

    /// What leaves by a port.
    fn take(&mut self, name: &str) -> Vec<Vec<u8>> {
        self.cross();
        let (worker, index) = self.port(name);
        let queue = self.workers[worker].output(index).unwrap();
        let packets: Vec<Vec<u8>> = (0..queue.len()).map(|at| queue.packet(at).to_vec()).collect();
        self.pool.free(queue);
        self.workers[worker].tx_done(index, packets.len(), self.now_ns);
        packets
    }

    /// Packets by port, in the order a0, b0, a1, b1.
    fn all(&mut self) -> [usize; 4] {
        ["a0", "b0", "a1", "b1"].map(|name| self.take(name).len())
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for worker in &self.workers {
            worker.totals().balances().unwrap();
            totals.merge(&worker.totals());
        }
        totals.across_workers()
    }

    fn counters(&self, name: &str) -> PortCounters {
        let mut sum = PortCounters::default();
        for worker in &self.workers {
            let counters = worker.port_named(name).and_then(|port| worker.port_counters(port));
            sum.merge(counters.unwrap_or(&PortCounters::default()));
        }
        sum.across_workers()
    }

    fn remove(&mut self, name: &str) {
        let (worker, index) = self.port(name);
        let context = &mut Context { now_ns: self.now_ns, pool: &mut self.pool, ports: &mut () };
        self.workers[worker].removed(index, context);
        self.ports.retain(|(.., known)| known != name);
    }

    fn close(self) {
        let Rig { workers, pool, .. } = self;
        drop(workers);
        assert!(pool.is_whole());
    }
}

fn plain() -> Rig {
    Rig::new(|_| PortSettings::default())
}

#[test]
fn what_one_worker_learns_the_other_one_knows() {
    let mut rig = plain();
    rig.send("a0", &frame(5, 2, &[], 60));
    assert_eq!(rig.all(), [0, 1, 1, 1], "an unknown address is flooded, over both workers");
    rig.send("b0", &frame(4, 3, &[], 60));
    assert_eq!(rig.all(), [1, 0, 0, 0], "the station at a0 was learned by the other worker");
    rig.send("a1", &frame(5, 6, &[], 60));
    assert_eq!(rig.all(), [0, 1, 0, 0]);
    assert_eq!(rig.workers[0].macs().count(), 3);
    assert_eq!(rig.workers[1].mac_counters(), rig.workers[0].mac_counters());
    let totals = rig.totals();
    totals.balances().unwrap();
    assert_eq!((totals.ports.received_packets, totals.ports.sent_packets, totals.waiting), (3, 5, 0));
    let of_b0 = rig.counters("b0");
    assert_eq!((of_b0.queued_packets, of_b0.sent_packets, of_b0.sent_bytes, of_b0.waiting()), (2, 2, 120, 0));
    rig.close();
}

#[test]
fn a_station_that_moves_to_a_port_of_the_other_worker_is_found_there() {
    let mut rig = plain();
    rig.send("a0", &frame(9, 2, &[], 60));
    rig.send("b1", &frame(9, 3, &[], 60));
    rig.all();
    rig.send("b1", &frame(4, 3, &[], 60));
    assert_eq!(rig.all(), [1, 0, 0, 0]);
    rig.send("b0", &frame(9, 2, &[], 60));
    rig.all();
    rig.send("a1", &frame(4, 8, &[], 60));
    assert_eq!(rig.all(), [0, 1, 0, 0], "from a port of the worker where it was");
    rig.send("b1", &frame(4, 3, &[], 60));
    assert_eq!(rig.all(), [0, 1, 0, 0], "and from its new one");
    assert_eq!(rig.workers[0].mac_counters().moved, 1);
    rig.close();
}

#[test]
fn ageing_flushes_and_a_larger_table_count_for_all() {
    let mut rig = plain();
    rig.send("a0", &frame(9, 2, &[], 60));
    rig.all();
    rig.workers[0].set_age_s(10);
    rig.now_ns += 20 * S;
    rig.send("b0", &frame(4, 3, &[], 60));
    assert_eq!(rig.all(), [1, 0, 1, 1], "it is too old for the other worker, too");
    rig.workers[1].age(rig.now_ns);
    assert_eq!(rig.workers[0].mac_counters().aged, 1, "whichever worker removes it");
    rig.workers[0].begin_resize(linerate_l2::SpareTable::new(1 << 10).unwrap());
    while let linerate_l2::Resize::GoesOn = rig.workers[0].resize_step(8) {}
    rig.send("a0", &frame(5, 2, &[], 60));
    assert_eq!(rig.all(), [0, 1, 0, 0], "what was known is known in the new table");
    rig.send("b1", &frame(4, 9, &[], 60));
    assert_eq!(rig.all(), [1, 0, 0, 0], "and the other worker reads the new one");
    rig.workers[0].flush_macs(None);
    rig.send("b1", &frame(4, 9, &[], 60));
    assert_eq!(rig.all(), [1, 1, 1, 0]);
    rig.close();
}

#[test]
fn a_limit_of_addresses_holds_whichever_worker_learns() {
    let mut rig = Rig::new(|name| PortSettings { learn_limit: (name == "b0").then_some(3), ..PortSettings::default() });
    for station in 0..20 {
        rig.send("b0", &frame(0, 1 + station, &[], 60));
        rig.send("a0", &frame(0, 100 + station, &[], 60));
        rig.all();
    }
    let b0 = rig.workers[0].port_named("b0");
    assert_eq!(rig.workers[0].macs().filter(|entry| Some(entry.port) == b0).count(), 3);
    assert_eq!(rig.workers[0].macs().count(), 23);
    rig.close();
}

#[test]
fn packets_stay_in_order_and_a_full_queue_holds_the_ring_back() {
    let mut rig = plain();
    rig.send("b0", &frame(9, 3, &[], 60));
    rig.all();
    let mut next = 60;
    for _ in 0..3 {
        for _ in 0..60 {
            rig.send("a0", &frame(5, 2, &[], next));
            next += 1;
        }
        let lens: Vec<usize> = rig.take("b0").iter().map(Vec::len).collect();
        assert_eq!(lens, (next - 60..next).collect::<Vec<_>>());
    }
    // Its queue has 64 places: what has none stays in the ring, nothing is dropped.
    let ring = rig.rings.iter().position(|ring| ring.from == 0 && ring.to == 1).unwrap();
    let Ring { into, .. } = rig.rings[ring];
    let mut batch = Batch::new(&rig.pool, 100);
    (0..100).for_each(|_| assert!(append(&mut rig.pool, &mut batch, &frame(5, 2, &[], 60), 1)));
    rig.input(1, into, &mut batch);
    assert_eq!(batch.len(), 36);
    rig.take("b0");
    rig.input(1, into, &mut batch);
    assert!(batch.is_empty());
    rig.take("b0");
    rig.close();
}

#[test]
fn a_port_that_is_removed_leaves_a_full_account_and_its_number_when_all_have_let_go() {
    let mut rig = plain();
    rig.send("b0", &frame(9, 3, &[], 60));
    rig.all();
    rig.send("a0", &frame(5, 2, &[], 60));
    rig.send("b1", &frame(5, 9, &[], 60));
    rig.remove("b0");
    // One packet waits for the ring, and crosses.
    rig.cross();
    assert_eq!(rig.totals().ports.discarded.of(DropReason::PortRemoved), 2);
    rig.totals().balances().unwrap();
    rig.add(1, "b0", PortSettings::default());
    let names = |worker: &Switch| worker.named_ports().into_iter().map(|(port, _)| port.0).collect::<Vec<_>>();
    assert_eq!(names(&rig.workers[0]), [0, 2, 3, 4], "the rings of the old one are still there");
    for at in 0..rig.rings.len() {
        let Ring { from, out, to, into } = rig.rings[at];
        if rig.workers[to].port_of(into) == Some(PortIndex(1)) {
            let context = &mut Context { now_ns: rig.now_ns, pool: &mut rig.pool, ports: &mut () };
            rig.workers[from].removed(out, context);
            rig.workers[to].removed(into, context);
        }
    }
    rig.add(0, "a2", PortSettings::default());
    assert_eq!(names(&rig.workers[1]), [0, 1, 2, 3, 4]);
    assert_eq!(rig.workers[1].macs().filter(|entry| entry.port == PortIndex(1)).count(), 0);
    rig.totals().balances().unwrap();
    rig.close();
}

#[test]
fn a_mirror_copies_what_either_worker_forwards() {
    let mut rig = plain();
    rig.send("b0", &frame(9, 3, &[], 60));
    rig.all();
    let port = |rig: &Rig, name| rig.workers[0].port_named(name).unwrap();
    let mirror = Mirror { select: MirrorSelect::Both(port(&rig, "b0")), to: port(&rig, "a1") };
    rig.workers.iter_mut().for_each(|worker| assert!(worker.add_mirror(mirror.clone()).is_ok()));
    rig.send("a0", &frame(5, 2, &[], 60));
    assert_eq!(rig.all(), [0, 1, 1, 0], "to the port, from the other worker");
    rig.send("b1", &frame(5, 9, &[], 60));
    assert_eq!(rig.all(), [0, 1, 1, 0], "to the port, from its own worker");
    rig.send("b0", &frame(4, 3, &[], 60));
    assert_eq!(rig.all(), [1, 0, 1, 0], "from the port");
    rig.totals().balances().unwrap();
    rig.close();
}

#[test]
fn a_static_address_stays_whoever_sees_it() {
    let mut rig = plain();
    let b0 = rig.workers[0].port_named("b0").unwrap();
    rig.workers[0].add_static(0, mac(5), b0).unwrap();
    rig.send("a1", &frame(9, 3, &[], 60));
    rig.all();
    rig.send("a0", &frame(5, 2, &[], 60));
    assert_eq!(rig.all(), [0, 1, 0, 0]);
    rig.close();
}
