//! Two workers: packets go through the tables at one, and leave by a port of the other.

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_openflow::*;
use linerate_pipeline::{BindingKind, FlowTablesOptions, Forwarder, QueueSettings, Switch, SwitchOptions};
use linerate_port::{Context, Datapath, PortIndex};

use crate::rig::*;

/// Port 1 is worker 0's; ports 2 (with queues) and 3 (of tunnels with keys) are worker 1's. Each worker has the ends of the rings behind
/// its ports: those to ports 2 and 3 at worker 0, that to port 1 at worker 1.
struct Pair {
    switch: Switch,
    workers: [Forwarder; 2],
    pool: Pool,
    now_ns: u64,
}

/// Worker, port, the number of the port in its worker, the number of the ring's end there, and that of its end at the other worker.
const PLACES: [(usize, u32, u16, u16, u16); 3] = [(0, 1, 0, 1, 2), (1, 2, 0, 3, 2), (1, 3, 1, 4, 3)];

impl Pair {
    fn new() -> Pair {
        let pool = Pool::new(PoolConfig { frames: 1024, frame_size: 2048 }).unwrap();
        let tables = FlowTablesOptions { workers: 2, ..FlowTablesOptions::default() };
        let mut switch = Switch::new(SwitchOptions { tables, ..SwitchOptions::default() }, SECOND);
        let mut worker = || switch.forwarder(&pool, Box::new(|| ()), Box::new(|| ())).unwrap();
        let workers = [worker(), worker()];
        let mut pair = Pair { switch, workers, pool, now_ns: SECOND };
        let queues = vec![QueueSettings { id: 7, min_rate_bps: None, max_rate_bps: None }];
        for (_, port, ..) in PLACES {
            let queues = if port == 2 { queues.clone() } else { Vec::new() };
            let settings = linerate_pipeline::PortSettings { tunnel_keys: port == 3, ..port_settings(port, queues) };
            pair.switch.add_port(settings, true, SECOND).unwrap();
        }
        for (home, port, index, far_end, near_end) in PLACES {
            assert!(pair.workers[home].bind(PortIndex(far_end), PortNumber(port), BindingKind::From));
            assert!(pair.workers[home].bind(PortIndex(index), PortNumber(port), BindingKind::Port));
            assert!(pair.workers[1 - home].bind(PortIndex(near_end), PortNumber(port), BindingKind::To));
        }
        pair
    }

    fn input(&mut self, worker: usize, index: u16, batch: &mut Batch) {
        let mut context = Context { now_ns: self.now_ns, pool: &mut self.pool, ports: &mut () };
        self.workers[worker].input(PortIndex(index), batch, &mut context);
        assert!(batch.is_empty());
    }

    fn take(&mut self, worker: usize, index: u16) -> Batch {
        let mut taken = Batch::new(&self.pool, 64);
        let output = self.workers[worker].output(PortIndex(index)).unwrap();
        let count = output.len();
        output.move_to(&mut taken, count);
        self.workers[worker].tx_done(PortIndex(index), count, self.now_ns);
        taken
    }

    /// A packet arrives by a port; what leaves by all ports, after the rings have been emptied.
    fn send(&mut self, port: u32, packet: &[u8]) -> Vec<Sent> {
        let mut batch = Batch::new(&self.pool, 4);
        assert!(self.pool.append(&mut batch, packet, 0));
        let (home, _, index, ..) = PLACES[port as usize - 1];
        self.input(home, index, &mut batch);
        self.collect()
    }

    fn collect(&mut self) -> Vec<Sent> {
        for (home, _, _, far_end, near_end) in PLACES {
            let mut handed = self.take(1 - home, near_end);
            if !handed.is_empty() {
                self.input(home, far_end, &mut handed);
            }
        }
        let mut sent = Vec::new();
        for (home, port, index, ..) in PLACES {
            let mut taken = self.take(home, index);
            sent.extend(taken.iter().map(|packet| (port, packet.to_vec())));
            self.pool.free(&mut taken);
        }
        sent
    }

    fn add(&mut self, matching: Match, actions: Vec<Action>) {
        self.switch.flow_mod(add(10, matching, apply(actions)), self.now_ns).unwrap();
    }

    /// Every packet is where it says it is.
    fn check(&self) {
        let totals = self.switch.totals();
        let ended = totals.queued + totals.to_controller + totals.dropped;
        assert_eq!(totals.received + totals.packet_outs + totals.copies, ended, "{totals:?}");
        assert_eq!(totals.queued + totals.taken_over, totals.sent + totals.handed_over, "{totals:?}");
        assert_eq!(totals.taken_over, totals.handed_over);
    }

    fn stats(&mut self, request: MultipartRequest) -> MultipartReply {
        self.switch.multipart(request, self.now_ns).unwrap()
    }
}

#[test]
fn packets_leave_by_ports_of_the_other_worker() {
    let mut pair = Pair::new();
    pair.add(in_port(1), vec![output(2), output(3)]);
    pair.add(in_port(2), vec![output(1)]);
    let packet = udp(1, 2, [5, 6]);
    let keyed = [&[0; 8][..], &packet].concat();
    assert_eq!(pair.send(1, &packet), [(2, packet.clone()), (3, keyed)]);
    assert_eq!(pair.send(2, &packet), [(1, packet.clone())]);
    pair.check();
    let totals = pair.switch.totals();
    assert_eq!((totals.received, totals.handed_over, totals.sent), (2, 3, 3));
    assert!(pair.pool.is_whole(), "no frame stays");
}

/// A port whose ring from the other worker is there already, but which itself is not: what is for it is dropped, and does not leave by the
/// end of the ring that only brings packets.
#[test]
fn nothing_leaves_by_a_ring_that_brings_packets() {
    let mut pair = Pair::new();
    pair.switch.add_port(port_settings(4, Vec::new()), true, SECOND).unwrap();
    let ring = PortIndex(3);
    assert!(pair.workers[0].bind(ring, PortNumber(4), BindingKind::From));
    pair.add(in_port(1), vec![output(4)]);
    assert_eq!(pair.send(1, &udp(1, 2, [5, 6])), []);
    assert_eq!(pair.workers[0].waiting(ring), 0);
    assert_eq!(pair.switch.drops(), [(linerate_pipeline::DropReason::NoPort, 1)]);
    pair.check();
    assert!(pair.pool.is_whole(), "no frame stays");
}

/// The queue that an entry chose is known at the worker that has the queues, and the bytes that it counts are the packet's.
#[test]
fn queues_are_those_that_entries_chose() {
    let mut pair = Pair::new();
    pair.add(in_port(1), vec![Action::SetQueue(7), output(2)]);
    let packet = udp(1, 2, [5, 6]);
    assert_eq!(pair.send(1, &packet), [(2, packet.clone())]);
    pair.add(in_port(1), vec![output(2)]);
    assert_eq!(pair.send(1, &packet), [(2, packet.clone())]);
    pair.check();
    let MultipartReply::Queue(queues) = pair.stats(MultipartRequest::Queue(PortNumber(2), 7)) else { panic!() };
    assert_eq!((queues[0].tx_packets, queues[0].tx_bytes), (1, 60));
    let MultipartReply::Port(ports) = pair.stats(MultipartRequest::Port(PortNumber(2))) else { panic!() };
    assert_eq!((ports[0].tx_packets, ports[0].tx_bytes), (2, 120));
}

#[test]
fn keys_of_tunnels_come_and_go_with_packets() {
    let mut pair = Pair::new();
    let key = |key: u64| in_port(3).with(Field::TunnelId, key.into());
    pair.add(key(42), vec![output(1)]);
    pair.add(
        key(43),
        vec![
            output(1),
            Action::SetField(Field::TunnelId, 44),
            Action::Output { port: PortNumber::IN_PORT, max_len: 0 },
        ],
    );
    pair.add(in_port(1), vec![Action::SetField(Field::TunnelId, 0x1_0000_0005), output(3)]);
    let packet = udp(1, 2, [5, 6]);
    let keyed = |key: u64| [&key.to_be_bytes()[..], &packet].concat();
    assert_eq!(pair.send(3, &keyed(42)), [(1, packet.clone())]);
    assert_eq!(pair.send(3, &keyed(43)), [(1, packet.clone()), (3, keyed(44))]);
    assert_eq!(pair.send(3, &keyed(45)), []);
    assert_eq!(pair.send(1, &packet), [(3, keyed(0x1_0000_0005))]);
    // Keys that change within a batch; a packet that ends in its key, and one that has nothing behind it.
    let mut batch = Batch::new(&pair.pool, 16);
    for key in [42, 42, 43, 9, 42] {
        assert!(pair.pool.append(&mut batch, &keyed(key), 0));
    }
    assert!(pair.pool.append(&mut batch, &[1, 2, 3], 0));
    assert!(pair.pool.append(&mut batch, &42u64.to_be_bytes(), 0));
    pair.input(1, 1, &mut batch);
    let sent = pair.collect();
    assert_eq!(sent.iter().filter(|(port, bytes)| *port == 1 && *bytes == packet).count(), 4);
    assert_eq!(sent.last(), Some(&(3, keyed(44))));
    pair.check();
    let MultipartReply::Port(ports) = pair.stats(MultipartRequest::Port(PortNumber(3))) else { panic!() };
    // The keys are not bytes of the packets.
    assert_eq!((ports[0].rx_packets, ports[0].rx_bytes), (10, 8 * 60));
    assert_eq!((ports[0].tx_packets, ports[0].tx_bytes), (3, 3 * 60));
    assert!(pair.pool.is_whole());
}

/// Packet-outs go to the worker that has their port.
#[test]
fn packet_outs_go_to_the_worker_of_their_port() {
    let mut pair = Pair::new();
    let data = udp(1, 2, [5, 6]);
    for port in [1, 2] {
        let actions = vec![output(port)];
        let in_port = PortNumber::CONTROLLER;
        let out = PacketOut { buffer_id: NO_BUFFER, in_port, actions, data: data.clone() };
        pair.switch.packet_out(out, pair.now_ns).unwrap();
    }
    for worker in &mut pair.workers {
        assert_eq!(worker.next_deadline_ns(), 0);
        let mut context = Context { now_ns: pair.now_ns, pool: &mut pair.pool, ports: &mut () };
        worker.tick(&mut context);
    }
    assert_eq!(pair.collect(), [(1, data.clone()), (2, data)]);
    assert_eq!(pair.switch.totals().handed_over, 0);
    pair.check();
}

/// What the user changes of a port is in force at once.
#[test]
fn the_tunnel_of_a_port_can_be_changed() {
    let mut rig = Rig::new(2);
    rig.add(add(1, Match::default().with(Field::TunnelId, 5), apply(vec![output(2)])));
    let packet = udp(1, 2, [5, 6]);
    assert_eq!(rig.send(1, &packet), []);
    let settings = linerate_pipeline::PortSettings { tunnel_id: 5, ..port_settings(1, Vec::new()) };
    assert!(rig.switch.change_port(settings, rig.now_ns));
    assert_eq!(rig.send(1, &packet).len(), 1);
    assert!(!rig.switch.change_port(port_settings(9, Vec::new()), rig.now_ns));
}
