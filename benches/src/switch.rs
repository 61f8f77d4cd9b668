//! The in-process switch, with one core doing everything: packets are made (copied from prepared ones), sent, looked up,
//! received, read, and their frames given back.

use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use linerate_gen::Histogram;
use linerate_l2::{PortIndex, PortSettings, Switch, SwitchConfig};
use linerate_mem::{Batch, Pool, PoolConfig};
use linerate_port::{Context, Datapath, Port};
use linerate_switch::{Clocks, InlinePort, InlineSwitch};
use linerate_sys::{affinity, clock};

use crate::measure::{Run, Stopwatch, on_two_cores};

/// Packets of a batch.
const BATCH: usize = 64;
/// Bytes of the shortest Ethernet frame, without FCS.
pub const SHORT: usize = 60;
/// Bytes of the longest one without FCS, for an MTU of 1,500.
pub const LONG: usize = 1514;

/// What the packets are like.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Bytes of a packet.
    pub len: usize,
    /// Stations on both sides together.
    pub macs: usize,
    /// Receiving ports; the packets of each batch go to one after the other.
    pub ports: usize,
}

/// A table that is a third full with the largest load, as a user would make it.
fn config() -> SwitchConfig {
    SwitchConfig { mac_entries: 16_384, ..SwitchConfig::default() }
}

fn clocks() -> Clocks {
    if std::env::var_os("LINERATE_CLOCK_STANDS_STILL").is_some() {
        return Clocks::one(first_ns);
    }
    Clocks { exact: clock::now_ns, recent: clock::recent_ns }
}

/// A clock that stands still, for who counts instructions: the slower they are executed, the more often per packet addresses are noted as seen again,
/// and aged.
fn first_ns() -> u64 {
    static FIRST: OnceLock<u64> = OnceLock::new();
    *FIRST.get_or_init(clock::recent_ns)
}

fn pool() -> Pool {
    Pool::new(PoolConfig::default()).expect("16 MiB of packet memory")
}

/// Address of a station: no two stations of a run share one.
fn station(side: u8, number: usize) -> [u8; 6] {
    let [a, b, c, d] = (number as u32).wrapping_mul(0x9e37_79b1).to_be_bytes();
    [2, side, a, b, c, d]
}

/// Packets of all pairs of stations in turn, from those of one side to those of the next.
struct Source<const SIDE: u8 = 0> {
    image: Vec<u8>,
    pairs: usize,
    next: usize,
}

impl<const SIDE: u8> Source<SIDE> {
    fn new(load: Load) -> Source<SIDE> {
        let mut image = vec![0x5a; load.len];
        image[12..14].copy_from_slice(&[0x88, 0xb5]);
        Source { image, pairs: (load.macs / 2).max(1), next: 0 }
    }

    /// Writes the next packets into the frames of a batch: a copy of the image, with the addresses.
    #[inline]
    fn write(&mut self, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            packet[..self.image.len()].copy_from_slice(&self.image);
            packet[..6].copy_from_slice(&station(SIDE + 1, self.next));
            packet[6..12].copy_from_slice(&station(SIDE, self.next));
            self.next += 1;
            if self.next == self.pairs {
                self.next = 0;
            }
        }
    }
}

/// Reads the destination of each packet, as a receiver does.
#[inline]
fn read(batch: &Batch) -> u64 {
    batch.iter().filter_map(|packet| packet.first_chunk::<8>()).fold(0, |sum, head| sum ^ u64::from_ne_bytes(*head))
}

/// Everything on one core, through [`InlineSwitch`].
pub fn inline(core: usize, load: Load, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let mut pool = pool();
    let switch = InlineSwitch::new(config(), &pool, clocks()).expect("a valid shape");
    let mut sender = switch.attach("sender").expect("room for a port");
    let mut receivers: Vec<InlinePort> =
        (0..load.ports).map(|_| switch.attach("receiver").expect("room for a port")).collect();
    switch.with(|switch| teach(switch, load, &receivers));
    let mut source = Source::<0>::new(load);
    let (mut out, mut back) = (Batch::new(&pool, BATCH), Batch::new(&pool, 2 * BATCH));
    let (mut received, mut sum) = (0, 0);
    let watch = Stopwatch::start();
    while received < packets {
        pool.alloc(&mut out, BATCH, load.len);
        source.write(&mut out);
        sender.transmit(&mut out).expect("an in-process port does not break");
        for receiver in &mut receivers {
            received += receiver.receive(&mut back).expect("an in-process port does not break") as u64;
            sum ^= read(&back);
            pool.free(&mut back);
        }
    }
    let run = watch.stop(received);
    black_box(sum);
    let totals = switch.with(|switch| switch.totals());
    assert!(totals.balances().is_ok() && totals.ports.unicast == received, "all unicast: {totals:?}");
    run
}

/// The engine alone: batches that are in the cache go in at one port and are taken out at the others.
pub fn engine(core: usize, load: Load, packets: u64) -> Run {
    let pool = pool();
    let mut switch = Switch::new(config(), &pool).expect("a valid shape");
    worker::<0>(core, load, packets, &mut switch, pool)
}

/// The same as one of two workers that share the MAC table; the other one does nothing.
pub fn engine_shared(core: usize, load: Load, packets: u64) -> Run {
    let pool = pool();
    let mut switch = Switch::new(config(), &pool).expect("a valid shape");
    let _other = switch.another_worker().expect("a valid shape");
    worker::<0>(core, load, packets, &mut switch, pool)
}

/// Two workers on two cores, each with a source and sinks of its own and the stations of `load`: with one MAC table, which is as full as that of one
/// worker with such a load would be, or, `alone`, two switches that have nothing in common.
pub fn engine_two_cores(cores: [usize; 2], load: Load, packets: u64, alone: bool) -> Run {
    let pool = pool();
    let tables = if alone { 1 } else { 2 };
    let config = || SwitchConfig { mac_entries: (tables * load.macs).next_power_of_two(), ..config() };
    let mut first = Switch::new(config(), &pool).expect("a valid shape");
    let second = if alone { Switch::new(config(), &pool) } else { first.another_worker() };
    let second = second.expect("a valid shape");
    on_two_cores(cores, [(0, first), (1, second)], |core, (number, mut switch)| match number {
        0 => worker::<0>(core, load, packets / 2, &mut switch, pool.clone()),
        _ => worker::<2>(core, load, packets / 2, &mut switch, pool.clone()),
    })
}

/// Every packet comes in at one worker and leaves by a port of the other one; this thread does the work of both, and a batch is the ring.
pub fn engine_crossing(core: usize, load: Load, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let mut pool = pool();
    let mut first = Switch::new(config(), &pool).expect("a valid shape");
    let mut second = first.another_worker().expect("a valid shape");
    let settings = PortSettings::default;
    let sender = first.add_named_port("sender", settings()).expect("room for a port");
    let into = second.add_ring_from_worker("receiver");
    let receiver = second.add_named_port("receiver", settings()).expect("room for a port");
    let out = first.add_ring_to_worker("receiver").expect("the port is there");
    let to = first.port_named("receiver").expect("the port is there");
    for number in 0..load.macs / 2 {
        first.add_static(0, station(1, number).into(), to).expect("room for the stations");
    }
    let mut source = Source::<0>::new(load);
    let (mut batch, mut ring) = (Batch::new(&pool, BATCH), Batch::new(&pool, BATCH));
    let mut sent = 0;
    let watch = Stopwatch::start();
    while sent < packets {
        pool.alloc(&mut batch, BATCH, load.len);
        source.write(&mut batch);
        let mut context = Context { now_ns: sent, pool: &mut pool, ports: &mut () };
        first.input(sender, &mut batch, &mut context);
        if let Some(queue) = first.output(out) {
            let count = queue.move_to(&mut ring, BATCH);
            first.tx_done(out, count, sent);
        }
        second.input(into, &mut ring, &mut context);
        if let Some(queue) = second.output(receiver) {
            let count = queue.len();
            pool.free(queue);
            second.tx_done(receiver, count, sent);
            sent += count as u64;
        }
    }
    watch.stop(sent)
}

/// A source at one port, sinks at the others, all of one worker.
fn worker<const SIDE: u8>(core: usize, load: Load, packets: u64, switch: &mut Switch, mut pool: Pool) -> Run {
    let _ = affinity::pin_to_core(core);
    let add = |switch: &mut Switch, name: String| {
        let index = switch.add_named_port(&name, PortSettings::default()).expect("room for a port");
        (index, switch.port_of(index).expect("it was just added"))
    };
    let (_, sender) = add(switch, format!("{SIDE} sender"));
    let receivers: Vec<(PortIndex, PortIndex)> =
        (0..load.ports).map(|port| add(switch, format!("{SIDE} receiver {port}"))).collect();
    let mut source = Source::<SIDE>::new(load);
    for station in 0..load.macs / 2 {
        let (_, port) = receivers[station % receivers.len()];
        switch.add_static(0, self::station(SIDE + 1, station).into(), port).expect("room for the stations");
    }
    let mut batch = Batch::new(&pool, BATCH);
    let mut sent = 0;
    let watch = Stopwatch::start();
    while sent < packets {
        pool.alloc(&mut batch, BATCH, load.len);
        source.write(&mut batch);
        switch.forward(sender, &mut batch, &mut pool, sent);
        for (receiver, _) in &receivers {
            let Some(queue) = switch.output(*receiver) else { continue };
            let count = queue.len();
            pool.free(queue);
            switch.tx_done(*receiver, count, sent);
            sent += count as u64;
        }
    }
    watch.stop(sent)
}

/// Stations behind the receivers are known by static entries, so that what is measured is unicast and learning on one side.
fn teach(switch: &mut Switch, load: Load, receivers: &[InlinePort]) {
    for number in 0..load.macs / 2 {
        let port = receivers[number % receivers.len()].index();
        switch.add_static(0, station(1, number).into(), port).expect("room for the stations");
    }
}

/// Hops between two readings of the clock, which cost as much as a quarter of a hop.
pub const TRAIN: usize = 16;

/// One packet at a time, from before it is sent until it is received: nanoseconds of a hop, in the mean of each [`TRAIN`].
pub fn hops_one_core(core: usize, hops: usize) -> Histogram {
    let _ = affinity::pin_to_core(core);
    let mut pool = pool();
    let switch = InlineSwitch::new(config(), &pool, clocks()).expect("a valid shape");
    let [mut a, mut b] = ["a", "b"].map(|name| switch.attach(name).expect("room for a port"));
    let mut source = Source::<0>::new(Load { len: SHORT, macs: 2, ports: 1 });
    let mut out: Vec<Batch> = (0..TRAIN).map(|_| Batch::new(&pool, 1)).collect();
    let mut back = Batch::new(&pool, TRAIN);
    switch.with(|switch| switch.add_static(0, station(1, 0).into(), b.index())).expect("room for the station");
    let mut histogram = Histogram::default();
    for train in 0..(hops + 1000) / TRAIN {
        for packet in &mut out {
            pool.alloc(packet, 1, SHORT);
            source.write(packet);
        }
        let before_ns = clock::now_ns();
        for packet in &mut out {
            a.transmit(packet).expect("an in-process port does not break");
            b.receive(&mut back).expect("an in-process port does not break");
        }
        let passed_ns = clock::now_ns() - before_ns;
        assert_eq!(back.len(), TRAIN);
        pool.free(&mut back);
        if train >= 1000 / TRAIN {
            histogram.record(passed_ns / TRAIN as u64);
        }
    }
    histogram
}

/// The same from one core to another, which spins: from before a packet is sent until it is in the receiver's hands. The next
/// one is sent when the last one has been received and a moment has passed.
pub fn hops_two_cores(cores: [usize; 2], hops: usize) -> Histogram {
    let mut pool = pool();
    let switch = InlineSwitch::new(config(), &pool, clocks()).expect("a valid shape");
    let [mut a, mut b] = ["a", "b"].map(|name| switch.attach(name).expect("room for a port"));
    switch.with(|switch| {
        switch.add_static(0, station(1, 0).into(), b.index()).expect("room for the station");
        switch.add_static(0, station(0, 0).into(), a.index()).expect("room for the station");
    });
    let mut source = Source::<0>::new(Load { len: SHORT, macs: 2, ports: 1 });
    let mut far_pool = pool.clone();
    let arrived = std::sync::Arc::new(AtomicUsize::new(0));
    let has_arrived = std::sync::Arc::clone(&arrived);
    let reader = std::thread::spawn(move || {
        let _ = affinity::pin_to_core(cores[1]);
        let mut histogram = Histogram::default();
        let mut back = Batch::new(&far_pool, 8);
        let mut seen = 0;
        while seen < hops {
            if b.receive(&mut back).expect("an in-process port does not break") == 0 {
                std::hint::spin_loop();
                continue;
            }
            let now_ns = clock::now_ns();
            for packet in back.iter() {
                let sent_ns = packet[16..].first_chunk::<8>().map_or(0, |timestamp| u64::from_ne_bytes(*timestamp));
                histogram.record(now_ns.saturating_sub(sent_ns));
                seen += 1;
            }
            far_pool.free(&mut back);
            has_arrived.store(seen, Ordering::Release);
        }
        histogram
    });
    let _ = affinity::pin_to_core(cores[0]);
    let mut out = Batch::new(&pool, 1);
    for hop in 0..hops {
        while arrived.load(Ordering::Acquire) < hop {
            std::hint::spin_loop();
        }
        pool.alloc(&mut out, 1, SHORT);
        source.write(&mut out);
        let pause_ns = clock::now_ns() + 1_000;
        while clock::now_ns() < pause_ns {
            std::hint::spin_loop();
        }
        out.packet_mut(0)[16..24].copy_from_slice(&clock::now_ns().to_ne_bytes());
        a.transmit(&mut out).expect("an in-process port does not break");
    }
    reader.join().expect("the reader has received them all")
}
