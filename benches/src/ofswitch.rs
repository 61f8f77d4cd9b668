//! The engine of the OpenFlow switch alone: batches that are in the cache go in at port 1 and are taken out at port 2.

use std::sync::atomic::{AtomicBool, Ordering};

use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_openflow::{
    Action, Field, FlowCommand, FlowFlags, FlowMod, GROUP_ANY, Instruction, Match, NO_BUFFER, PortConfig, PortNumber,
};
use linerate_pipeline::{BindingKind, FlowTablesOptions, Forwarder, PortSettings, Switch, SwitchOptions};
use linerate_port::{Context, Datapath, Port, PortIndex};
use linerate_sys::affinity;
use linerate_worker::Steered;

use crate::measure::{Run, Stopwatch, on_two_cores};

const BATCH: usize = 64;

/// What the packets and the entries are like.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Flows of UDP, in turn.
    pub flows: u32,
    /// Packets in a row of one flow.
    pub burst: u32,
    /// Entries, each for the destination of one flow; of each mask, if there are several.
    pub entries: u32,
    /// Masks of the destination, each of as many bits next to each other as entries need that match a third to a half of all packets; the more
    /// to the left, the more important. One: all of its bits.
    pub masks: u32,
    /// Addresses follow one another, and each second entry of a mask is for another port: as in the rows `rules` and `fresh` of `ofswitch.sh`.
    pub in_row: bool,
    /// Flows that never come again follow one another.
    pub unknown: bool,
    /// The worker has a cache.
    pub cache: bool,
}

impl Load {
    /// One flow and one entry of layer 4.
    pub const ONE: Load =
        Load { flows: 1, burst: 64, entries: 1, masks: 1, in_row: false, unknown: false, cache: true };
}

fn pool() -> Pool {
    Pool::new(PoolConfig::default()).expect("16 MiB of packet memory")
}

/// Packets of flows in turn.
struct Source {
    image: Vec<u8>,
    load: Load,
    next: u32,
}

impl Source {
    fn new(load: Load) -> Source {
        let mut image = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        image.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 1, 0, 0]);
        image.extend([0, 7, 0, 9, 0, 26, 0, 0]);
        image.resize(60, 0x5a);
        Source { image, load, next: 0 }
    }

    /// Writes the next packets into the frames of a batch.
    #[inline]
    fn write(&mut self, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            packet[..60].copy_from_slice(&self.image);
            let mut flow = self.next / self.load.burst;
            if !self.load.unknown {
                flow %= self.load.flows;
            }
            packet[26..30].copy_from_slice(&flow.to_be_bytes());
            if self.load.in_row {
                packet[30..34].copy_from_slice(&0x0afe_0000u32.wrapping_add(flow).to_be_bytes());
            } else if self.load.masks > 1 {
                packet[30..34].copy_from_slice(&flow.wrapping_mul(0x9e37_79b1).to_be_bytes());
            } else {
                packet[31..34].copy_from_slice(&(flow % self.load.entries).to_be_bytes()[1..]);
            }
            self.next = self.next.wrapping_add(1);
        }
    }
}

/// The entry with this number, of mask `mask` if there are several, for packets from a port to the one after [`Pair::from`].
fn entry(number: u32, mask: Option<(u32, u128)>, port: u128, Pair(from): Pair) -> FlowMod {
    let [_, a, b, c] = number.to_be_bytes();
    let matching = Match::default().with(Field::InPort, port).with(Field::EthType, 0x0800).with(Field::IpProto, 17);
    let matching = match mask {
        None => matching.with(Field::Ipv4Dst, u32::from_be_bytes([10, a, b, c]).into()).with(Field::UdpDst, 9),
        Some((shift, bits)) => matching.with_masked(Field::Ipv4Dst, u128::from(number) << shift, bits << shift),
    };
    let output = Action::Output { port: PortNumber(from + 1), max_len: 0 };
    FlowMod {
        cookie: 0,
        cookie_mask: 0,
        table: 0,
        command: FlowCommand::Add,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        priority: 10 + mask.unwrap_or_default().0 as u16,
        buffer_id: NO_BUFFER,
        out_port: PortNumber::ANY,
        out_group: GROUP_ANY,
        flags: FlowFlags(0),
        matching,
        instructions: vec![Instruction::ApplyActions(vec![output])],
    }
}

/// The ports of a worker: one to which packets come, and the next one, by which they leave.
#[derive(Clone, Copy)]
struct Pair(u32);

fn switch(load: Load) -> Switch {
    let cache_entries_max = if load.cache { 1 << 20 } else { 0 };
    let tables = FlowTablesOptions { cache_entries_max, workers: 2, ..FlowTablesOptions::default() };
    Switch::new(SwitchOptions { tables, ..SwitchOptions::default() }, 0)
}

/// A worker of the switch with two ports, and the entries for what comes in by the first of them.
fn worker(switch: &mut Switch, pair: Pair, load: Load, pool: &Pool) -> Forwarder {
    let mut forwarder = switch.forwarder(pool, Box::new(|| ()), Box::new(|| ())).expect("room for a worker");
    for (index, port) in (pair.0..).take(2).enumerate() {
        let settings = PortSettings {
            number: PortNumber(port),
            name: format!("p{port}"),
            hw_addr: [2, 0, 0, 0, 0, port as u8],
            physical: None,
            config: PortConfig(0),
            current: 0,
            current_kbps: 0,
            max_kbps: 0,
            queues: Vec::new(),
            tunnel_id: 0,
            tunnel_keys: false,
            len_max: 1514,
        };
        switch.add_port(settings, true, 0).expect("a new port");
        assert!(forwarder.bind(PortIndex(index as u16), PortNumber(port), BindingKind::Port));
    }
    let first = u128::from(pair.0);
    let bits = u128::from((2 * load.entries).next_power_of_two() - 1);
    let masks = (0..load.masks).map(|mask| (load.masks > 1).then_some((mask, bits)));
    for (mask, number) in masks.flat_map(|mask| (0..load.entries).map(move |number| (mask, number))) {
        let port = first + u128::from(load.in_row && number % 2 == 1);
        switch.flow_mod(entry(number, mask, port, pair), 0).expect("room for the entries");
    }
    if load.masks > 1 {
        // For packets that none of them matches.
        let all = Match::default().with(Field::InPort, first);
        let others = FlowMod { priority: 1, matching: all, ..entry(0, None, first, pair) };
        switch.flow_mod(others, 0).expect("room for one more");
    }
    if load.unknown {
        // No packet matches it, but it compares whole addresses, so that the cache tells the flows apart.
        let matching = Match::default().with(Field::EthType, 0x0800).with(Field::Ipv4Src, u32::MAX.into());
        let nobody = FlowMod { priority: 1, matching, ..entry(0, None, first, pair) };
        switch.flow_mod(nobody, 0).expect("room for one more");
    }
    forwarder
}

/// Makes the packets of [`engine`], and frees them.
pub fn make(core: usize, load: Load, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let mut pool = pool();
    let mut source = Source::new(load);
    let mut batch = Batch::new(&pool, BATCH);
    let (mut made, watch) = (0, Stopwatch::start());
    while made < packets {
        pool.alloc(&mut batch, BATCH, 60);
        source.write(&mut batch);
        made += batch.len() as u64;
        pool.free(&mut batch);
    }
    watch.stop(made)
}

/// The entries of the rows `rules` and `fresh` of `ofswitch.sh`: so many flows in turn, or none that comes twice.
pub fn row(flows: Option<u32>, in_row: bool) -> Load {
    let load = Load { entries: 5_000, masks: 20, burst: 1, in_row, unknown: flows.is_none(), ..Load::ONE };
    Load { flows: flows.unwrap_or(load.flows), ..load }
}

/// The engine alone, with these entries.
pub fn rows(core: usize, flows: Option<u32>, in_row: bool, packets: u64) -> Run {
    engine(core, row(flows, in_row), packets)
}

/// The engine alone.
pub fn engine(core: usize, load: Load, packets: u64) -> Run {
    let pool = pool();
    let mut switch = switch(load);
    let forwarder = worker(&mut switch, Pair(1), load, &pool);
    let run = drive(core, forwarder, load, packets, pool);
    assert_all_left(&switch);
    run
}

/// Two workers on two cores, each with a source and a sink of its own: of one switch, or, `alone`, of two that have nothing in common.
pub fn engine_two_cores(cores: [usize; 2], load: Load, packets: u64, alone: bool) -> Run {
    let pool = pool();
    let mut switches = vec![switch(load)];
    let first = worker(&mut switches[0], Pair(1), load, &pool);
    if alone {
        switches.push(switch(load));
    }
    let last = switches.len() - 1;
    let second = worker(&mut switches[last], Pair(3), load, &pool);
    let run =
        on_two_cores(cores, [first, second], |core, forwarder| drive(core, forwarder, load, packets / 2, pool.clone()));
    switches.iter().for_each(assert_all_left);
    run
}

/// Slots of the rings between the workers of [`steered`].
const RING: usize = 1024;
/// Numbers at the workers: the two ports, the ring to the worker that has none, and the ring by which packets for the second port come back.
const ARRIVE: PortIndex = PortIndex(0);
const LEAVE: PortIndex = PortIndex(1);
const STEERED: PortIndex = PortIndex(2);
const BACK: PortIndex = PortIndex(3);

/// Two workers of one switch whose ports have one queue each, both at the first worker, which steers.
pub fn steered(cores: [usize; 2], load: Load, packets: u64) -> Run {
    let pool = pool();
    let mut switch = switch(load);
    let mut first = worker(&mut switch, Pair(1), load, &pool);
    assert!(first.bind(BACK, PortNumber(2), BindingKind::From));
    let mut first = Steered::new(first, 0, 2);
    first.note_ring_to(STEERED, "in", 1, &pool);
    first.note_port(ARRIVE, "in", 0);
    let mut second = switch.forwarder(&pool, Box::new(|| ()), Box::new(|| ())).expect("room for a worker");
    assert!(second.bind(ARRIVE, PortNumber(1), BindingKind::To) && second.bind(LEAVE, PortNumber(2), BindingKind::To));
    let mut second = Steered::new(second, 1, 2);
    second.note_port(ARRIVE, "in", 0);
    second.note_ring_from(STEERED, "in");
    let (out, came) = linerate_port_pipe::pair("steered", &pool, RING);
    let (back, home) = linerate_port_pipe::pair("back", &pool, RING);
    let done = AtomicBool::new(false);
    let run = std::thread::scope(|scope| {
        let (other, done) = (pool.clone(), &done);
        scope.spawn(move || decide(cores[1], second, (came, back), other, done));
        let run = own_ports(cores[0], first, (out, home), load, packets, pool.clone());
        done.store(true, Ordering::Release);
        run
    });
    assert_all_left(&switch);
    run
}

/// The worker that has the ports, with a source at the first one and a sink at the second.
fn own_ports(
    core: usize,
    mut path: Steered<Forwarder>,
    (mut out, mut home): (impl Port, impl Port),
    load: Load,
    packets: u64,
    mut pool: Pool,
) -> Run {
    let _ = affinity::pin_to_core(core);
    let mut source = Source::new(load);
    let (mut batch, mut back) = (Batch::new(&pool, BATCH), Batch::new(&pool, 4 * BATCH));
    let (mut made, mut left) = (0, 0);
    let watch = Stopwatch::start();
    // The last batch is whole, too.
    while made < packets || left < made {
        if batch.is_empty() && made < packets {
            made += pool.alloc(&mut batch, BATCH, 60) as u64;
            source.write(&mut batch);
        }
        let mut context = Context { now_ns: left, pool: &mut pool, ports: &mut () };
        if !batch.is_empty() {
            path.input(ARRIVE, &mut batch, &mut context);
        }
        if home.receive(&mut back).expect("a pipe does not break") > 0 {
            path.input(BACK, &mut back, &mut context);
        }
        pass_on(&mut path, STEERED, &mut out);
        let queue = path.output(LEAVE).expect("a port");
        let count = queue.len();
        pool.free(queue);
        path.tx_done(LEAVE, count, left);
        left += count as u64;
    }
    watch.stop(left)
}

/// The worker that has none.
fn decide(
    core: usize,
    mut path: Steered<Forwarder>,
    (mut came, mut back): (impl Port, impl Port),
    mut pool: Pool,
    done: &AtomicBool,
) {
    let _ = affinity::pin_to_core(core);
    let mut batch = Batch::new(&pool, BATCH);
    while !done.load(Ordering::Acquire) {
        if came.receive(&mut batch).expect("a pipe does not break") > 0 {
            path.input(STEERED, &mut batch, &mut Context { now_ns: 1, pool: &mut pool, ports: &mut () });
        }
        pass_on(&mut path, LEAVE, &mut back);
    }
}

fn pass_on(path: &mut Steered<Forwarder>, from: PortIndex, ring: &mut impl Port) {
    let Some(queue) = path.output(from).filter(|queue| !queue.is_empty()) else { return };
    let count = ring.transmit(queue).expect("a pipe does not break");
    path.tx_done(from, count, 1);
}

fn assert_all_left(switch: &Switch) {
    let totals = switch.totals();
    assert_eq!(totals.received, totals.sent, "all packets leave: {totals:?}");
}

fn drive(core: usize, mut forwarder: Forwarder, load: Load, packets: u64, mut pool: Pool) -> Run {
    let _ = affinity::pin_to_core(core);
    let mut source = Source::new(load);
    let mut batch = Batch::new(&pool, BATCH);
    let mut pass = |sent: u64| {
        pool.alloc(&mut batch, BATCH, 60);
        source.write(&mut batch);
        let mut context = Context { now_ns: sent, pool: &mut pool, ports: &mut () };
        forwarder.input(PortIndex(0), &mut batch, &mut context);
        let queue = forwarder.output(PortIndex(1)).expect("a port");
        let count = queue.len();
        pool.free(queue);
        forwarder.tx_done(PortIndex(1), count, sent);
        count as u64
    };
    // Each flow is seen twice before, so that the cache has it.
    let mut before = 0;
    while !load.unknown && before < 2 * u64::from(load.flows * load.burst) {
        before += pass(before);
    }
    let mut sent = 0;
    let watch = Stopwatch::start();
    while sent < packets {
        sent += pass(sent);
    }
    watch.stop(sent)
}
