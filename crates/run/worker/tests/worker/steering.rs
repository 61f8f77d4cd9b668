//! Packets of a port go to the workers of their flows; a ring that is full is waited for.

use linerate_mem::{Batch, Pool};
use linerate_port::{Context, Datapath, PortIndex};
use linerate_wire::flow_entry;
use linerate_worker::{Steered, SteeringCounters};

use crate::common::pool;

/// Notes which packets it got from which port.
#[derive(Default)]
struct Notes(Vec<(u16, Vec<u8>)>);

impl Datapath for Notes {
    fn input(&mut self, from: PortIndex, batch: &mut Batch, context: &mut Context<'_>) {
        self.0.extend(batch.iter().map(|packet| (from.0, vec![packet[35], packet[50]])));
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
}

/// A packet of a flow, with its number.
fn fill(packet: &mut [u8], flow: u8, number: u8) {
    packet.fill(0);
    packet[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    (packet[35], packet[50]) = (flow, number);
}

fn owner(flow: u8) -> usize {
    let mut packet = [0; 60];
    fill(&mut packet, flow, 0);
    usize::from(flow_entry(&packet)) % 2
}

fn arrive(path: &mut Steered<Notes>, pool: &mut Pool, batch: &mut Batch, from: u16) {
    path.input(PortIndex(from), batch, &mut Context { now_ns: 0, pool, ports: &mut () });
}

const RING: PortIndex = PortIndex(0);
const PORT: u16 = 1;
const FROM: u16 = 2;

/// The first of two workers, with a port and both rings.
fn first(pool: &Pool) -> Steered<Notes> {
    let mut path = Steered::new(Notes::default(), 0, 2);
    path.note_ring_to(RING, "a", 1, pool);
    path.note_port(PortIndex(PORT), "a", 0);
    path.note_ring_from(PortIndex(FROM), "b");
    path
}

#[test]
fn each_packet_goes_to_the_worker_of_its_flow_and_a_full_ring_holds_the_port_back() {
    let mut pool = pool();
    let mut path = first(&pool);
    let flows: Vec<u8> = (0..8).collect();
    assert!((0..2).all(|worker| flows.iter().any(|flow| owner(*flow) == worker)));
    let mut batch = Batch::new(&pool, 64);
    let (mut taken, mut arrived) = (Vec::new(), 0);
    // The frames of the pool are fewer than slots of the queue, so the ring's far end is played here: it takes nothing, then all.
    for number in 0..40_u8 {
        pool.alloc(&mut batch, flows.len(), 60);
        arrived += flows.len();
        for (flow, packet) in flows.iter().zip(batch.iter_mut()) {
            fill(packet, *flow, number);
        }
        arrive(&mut path, &mut pool, &mut batch, PORT);
        assert!(batch.is_empty());
        if number % 10 == 9 {
            let waiting = path.waiting(RING);
            let queue = path.output(RING).unwrap();
            assert_eq!(queue.totals().packets, waiting);
            taken.extend(queue.iter().map(|packet| (packet[35], packet[50])));
            pool.free(queue);
            path.tx_done(RING, waiting as usize, 0);
            assert_eq!(path.waiting(RING), 0);
        }
    }
    let of = |worker| {
        let flows = flows.iter().filter(move |flow| owner(**flow) == worker);
        flows.flat_map(|flow| (0..40).map(move |number| (*flow, number)))
    };
    let in_order = |seen: &[(u8, u8)], worker| {
        let mut sorted = seen.to_vec();
        sorted.sort();
        assert_eq!(sorted, of(worker).collect::<Vec<_>>());
        assert!(flows.iter().all(|flow| seen.iter().filter(|(other, _)| other == flow).is_sorted()), "in order");
    };
    in_order(&taken, 1);
    let own: Vec<(u8, u8)> = path
        .0
        .iter()
        .map(|(from, packet)| (packet[0], packet[1], *from))
        .map(|(flow, number, from)| {
            assert_eq!(from, PORT);
            (flow, number)
        })
        .collect();
    in_order(&own, 0);
    assert_eq!(path.steering_counters(), SteeringCounters { steered_out: taken.len() as u64, steered_in: 0 });
    assert_eq!(own.len() + taken.len(), arrived);
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn what_has_no_room_stays_with_the_worker_behind_what_had() {
    let mut pool = Pool::new(linerate_mem::PoolConfig { frames: 1024, frame_size: 2048 }).unwrap();
    let mut path = first(&pool);
    let flow = (0..8).find(|flow| owner(*flow) == 1).unwrap();
    let mut batch = Batch::new(&pool, 64);
    let (mut number, mut taken) = (0_u8, 0);
    while batch.is_empty() {
        pool.alloc(&mut batch, 48, 60);
        batch.iter_mut().for_each(|packet| fill(packet, flow, number));
        number += 1;
        arrive(&mut path, &mut pool, &mut batch, PORT);
        assert!(number < 20, "it takes without end");
    }
    // The last batch as a whole, and what came before is in the queue.
    assert_eq!((batch.len(), path.waiting(RING)), (48, u64::from(number - 1) * 48));
    let queue = path.output(RING).unwrap();
    taken += queue.len();
    pool.free(queue);
    path.tx_done(RING, taken, 0);
    arrive(&mut path, &mut pool, &mut batch, PORT);
    assert_eq!((batch.len(), path.waiting(RING)), (0, 48));
    // The ring goes: what waits for it is the datapath's to count, and from now on the flow is this worker's.
    path.removed(RING, &mut Context { now_ns: 0, pool: &mut pool, ports: &mut () });
    assert_eq!((path.0.len(), path.0.iter().all(|(from, _)| *from == u16::MAX)), (48, true));
    pool.alloc(&mut batch, 1, 60);
    batch.iter_mut().for_each(|packet| fill(packet, flow, 99));
    arrive(&mut path, &mut pool, &mut batch, PORT);
    assert_eq!(path.0.last(), Some(&(PORT, vec![flow, 99])));
    pool.flush();
    assert!(pool.is_whole());
}

#[test]
fn what_another_worker_steered_arrives_at_the_port_while_there_is_one() {
    let mut pool = pool();
    let mut path = first(&pool);
    let mut batch = Batch::new(&pool, 64);
    let mut steered = |path: &mut Steered<Notes>, pool: &mut Pool| {
        pool.alloc(&mut batch, 1, 60);
        batch.iter_mut().for_each(|packet| fill(packet, 1, 1));
        arrive(path, pool, &mut batch, FROM);
        path.0.last().unwrap().0
    };
    assert_eq!(steered(&mut path, &mut pool), u16::MAX, "a port that is not there");
    path.note_port(PortIndex(5), "b", 0);
    assert_eq!(steered(&mut path, &mut pool), 5);
    path.removed(PortIndex(5), &mut Context { now_ns: 0, pool: &mut pool, ports: &mut () });
    assert_eq!(steered(&mut path, &mut pool), u16::MAX, "a port that is gone");
    assert_eq!(path.steering_counters().steered_in, 3);
    pool.flush();
    assert!(pool.is_whole());
}
