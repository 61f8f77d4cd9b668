//! Ten million packets in each of the twelve directions of four ports while ports come and go, settings change, mirrors start and
//! end, and readers stop reading for a while. Every packet is accounted for in its direction:
//!
//! ```text
//! sent = received + waiting + dropped where it came in + refused, or thrown away, where it was to go out      by reason
//!      + flooded to others only, for its station was out or in another VLAN
//! ```
//! and what this file adds up by direction is what the switch counted in all.
//!
//! A debug build moves a five-hundredth of them, with the same events.

mod support;

use linerate_l2::{
    DropCounts, DropReason, Mirror, MirrorSelect, PortCounters, PortIndex, PortSettings, Rate, Resize, SpareTable,
    VlanMode,
};
use linerate_port::Datapath;
use support::Rig;

/// Packets of each direction.
const EACH_WAY: u64 = if cfg!(debug_assertions) { 20_000 } else { 10_000_000 };
const STATIONS: usize = 4;
const BATCH: usize = 32;
/// Rounds between two changes.
const PAUSE: u64 = if cfg!(debug_assertions) { 4 } else { 400 };
const REASONS: usize = DropReason::COUNT;

/// A cheap sequence of numbers that looks random (Knuth's MMIX).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What became of the packets of a direction.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    sent: u64,
    received: u64,
    /// Number of the packet that was received last, counted from 1.
    last: u64,
    lost: [u64; REASONS],
    /// Flooded while its station was out, or did not have the VLAN.
    strayed: u64,
}

/// Losses that the switch counted since `before`.
fn since(after: &DropCounts, before: &DropCounts) -> [u64; REASONS] {
    DropReason::ALL.map(|reason| after.of(reason) - before.of(reason))
}

struct Lab {
    rig: Rig,
    dice: Dice,
    /// By station; `None` while its port is out.
    ports: [Option<PortIndex>; STATIONS],
    /// A port that only gets copies.
    monitor: PortIndex,
    directions: [[Direction; STATIONS]; STATIONS],
    /// Flooded packets that came to stations for which they were not.
    strays: u64,
    copies: u64,
    /// Ports removed, and the packets that were thrown away with them.
    removed: (u64, u64),
}

fn address(station: usize) -> [u8; 6] {
    [2, 0, 0, 0, 1, station as u8]
}

/// From, to, and the packet's number in its direction; in front of that tags come and go.
fn read(packet: &[u8]) -> (usize, usize, u64) {
    (usize::from(packet[11]), usize::from(packet[5]), u64::from_be_bytes(*packet.last_chunk().unwrap()))
}

impl Lab {
    fn new() -> Lab {
        let mut rig = Rig::new(8192, 512);
        let ports = [(); STATIONS].map(|()| rig.switch.add_port(PortSettings::default()).ok());
        let monitor = rig.switch.add_port(PortSettings::monitor()).unwrap();
        let directions = Default::default();
        Lab { rig, dice: Dice(42), ports, monitor, directions, strays: 0, copies: 0, removed: (0, 0) }
    }

    fn counters(&self, port: Option<PortIndex>) -> PortCounters {
        port.and_then(|port| self.rig.switch.port_counters(port).copied()).unwrap_or(*self.rig.switch.retired())
    }

    /// A batch of one direction: so what the switch counts meanwhile is of that direction.
    fn send(&mut self, from: usize, to: usize) {
        // A port that is out has had this number.
        let port = self.ports[from];
        let direction = &mut self.directions[from][to];
        self.rig.pool.alloc(&mut self.rig.arrived, BATCH, 60);
        for packet in self.rig.arrived.iter_mut() {
            direction.sent += 1;
            packet[..6].copy_from_slice(&address(to));
            packet[6..12].copy_from_slice(&address(from));
            packet[12..16].copy_from_slice(&[0x88, 0xb5, 0, 0]);
            packet[52..].copy_from_slice(&direction.sent.to_be_bytes());
        }
        let (came, goes) = (self.counters(port), self.counters(self.ports[to]));
        self.rig.forward(port.unwrap_or(PortIndex(99)));
        let (came_now, goes_now) = (self.counters(port), self.counters(self.ports[to]));
        let dropped = since(&came_now.dropped, &came.dropped);
        let refused = since(&goes_now.refused, &goes.refused);
        let direction = &mut self.directions[from][to];
        for reason in 0..REASONS {
            direction.lost[reason] += dropped[reason] + refused[reason];
        }
        // Of the flooded ones, those of which no copy was for their station.
        let unicast = came_now.unicast - came.unicast;
        let copies = goes_now.queued_packets - goes.queued_packets - unicast;
        direction.strayed += came_now.flooded - came.flooded - copies - refused.iter().sum::<u64>();
    }

    /// What a station finds in its queue.
    fn receive(&mut self, station: usize) {
        let Some(port) = self.ports[station] else { return };
        let Some(batch) = self.rig.switch.output(port) else { return };
        let packets = batch.len();
        for packet in batch.iter() {
            let (from, to, number) = read(packet);
            if to != station {
                self.strays += 1;
                continue;
            }
            let direction = &mut self.directions[from][to];
            assert!(number > direction.last, "{from} to {to}: {number} after {}", direction.last);
            direction.last = number;
            direction.received += 1;
        }
        self.rig.pool.free(batch);
        self.rig.switch.tx_done(port, packets, self.rig.now_ns);
    }

    fn watch(&mut self) {
        let Some(queue) = self.rig.switch.output(self.monitor) else { return };
        let packets = queue.len();
        self.rig.pool.free(queue);
        self.copies += packets as u64;
        self.rig.switch.tx_done(self.monitor, packets, self.rig.now_ns);
    }

    fn remove(&mut self, station: usize) {
        let Some(port) = self.ports[station].take() else { return };
        let mut discarded = 0;
        for packet in self.rig.switch.output(port).unwrap().iter() {
            let (from, to, _) = read(packet);
            discarded += 1;
            if to == station {
                self.directions[from][to].lost[DropReason::PortRemoved as usize] += 1;
            }
        }
        let last = self.rig.switch.remove_port(port, &mut self.rig.pool).unwrap();
        assert_eq!(last.discarded.of(DropReason::PortRemoved), discarded);
        self.removed = (self.removed.0 + 1, self.removed.1 + discarded);
    }

    fn event(&mut self) {
        let station = self.dice.below(STATIONS as u64) as usize;
        let there = self.ports[station];
        match (self.dice.below(10), there) {
            (0 | 1, Some(_)) => self.remove(station),
            (_, None) => self.ports[station] = self.rig.switch.add_port(PortSettings::default()).ok(),
            (2 | 3, Some(port)) => {
                // Now and then a port is in another VLAN, or isolated, or takes not all that comes.
                let vlan = if self.dice.below(8) == 0 { VlanMode::Access { vlan: 7 } } else { VlanMode::default() };
                // A station sends 8 million packets a second.
                let rate_packets = (self.dice.below(4) == 0).then_some(Rate { per_second: 6_000_000, burst: 100 });
                let isolated = self.dice.below(3) == 0;
                let settings = PortSettings { vlan, isolated, rate_packets, ..PortSettings::default() };
                self.rig.switch.set_port(port, settings).unwrap();
            }
            (4, Some(port)) => {
                let mirror = Mirror { select: MirrorSelect::Both(port), to: self.monitor };
                self.rig.switch.add_mirror(mirror).unwrap();
            }
            (5, _) => {
                let ids: Vec<_> = self.rig.switch.mirrors().map(|(id, ..)| id).collect();
                ids.iter().for_each(|id| assert!(self.rig.switch.remove_mirror(*id)));
            }
            (6, _) => {
                let entries = 16 << self.dice.below(8);
                drop(self.rig.switch.begin_resize(SpareTable::new(entries).unwrap()));
            }
            (7, _) => self.rig.switch.flush_macs(None),
            _ => self.rig.switch.flush_macs(there),
        }
    }

    /// Each packet of each direction, and their sums beside those of the switch.
    fn check(&mut self) {
        self.rig.check();
        let waiting = self.waiting();
        for (from, to) in ways() {
            let direction = &self.directions[from][to];
            let gone = direction.lost.iter().sum::<u64>() + direction.strayed;
            let found = direction.received + gone + waiting[from][to];
            assert_eq!(direction.sent, found, "{from} to {to}: {direction:?}, {} wait", waiting[from][to]);
        }
        let all = |of: &dyn Fn(&Direction) -> u64| ways().map(|(from, to)| of(&self.directions[from][to])).sum::<u64>();
        let ports = self.rig.switch.totals().ports;
        assert_eq!(ports.received_packets, all(&|direction| direction.sent));
        for reason in [DropReason::Isolated, DropReason::VlanNotAllowed, DropReason::RateLimit, DropReason::StormLimit]
        {
            assert_eq!(ports.dropped.of(reason), all(&|direction| direction.lost[reason as usize]), "{reason}");
        }
    }

    /// By direction, what is in the queues of those for whom it is.
    fn waiting(&mut self) -> [[u64; STATIONS]; STATIONS] {
        let mut waiting = [[0; STATIONS]; STATIONS];
        for (station, port) in self.ports.iter().enumerate() {
            let Some(queue) = port.and_then(|port| self.rig.switch.output(port)) else { continue };
            for packet in queue.iter() {
                let (from, to, _) = read(packet);
                waiting[from][to] += u64::from(to == station);
            }
        }
        waiting
    }
}

fn ways() -> impl Iterator<Item = (usize, usize)> {
    (0..STATIONS).flat_map(|from| (0..STATIONS).map(move |to| (from, to))).filter(|(from, to)| from != to)
}

#[test]
fn every_packet_of_every_direction_is_accounted_for_while_ports_come_and_go() {
    let mut lab = Lab::new();
    let mut round = 0u64;
    while ways().any(|(from, to)| lab.directions[from][to].sent < EACH_WAY) {
        round += 1;
        ways().for_each(|(from, to)| lab.send(from, to));
        for station in 0..STATIONS {
            // A station is asleep in one of 16 spans of 64 rounds.
            if !(round / 64 + station as u64 * 5).is_multiple_of(16) {
                lab.receive(station);
            }
        }
        lab.watch();
        if let Resize::Refused(_) = lab.rig.switch.resize_step(3) {
            panic!("there are no static entries");
        }
        if round.is_multiple_of(PAUSE) {
            lab.event();
        }
        if round.is_multiple_of(PAUSE * 2) {
            lab.check();
        }
    }
    (0..STATIONS).for_each(|station| lab.receive(station));
    lab.watch();
    lab.check();
    let totals = lab.rig.switch.totals();
    assert_eq!((totals.waiting, lab.copies), (0, totals.ports.mirror_copies));
    for (from, to) in ways() {
        let direction = &lab.directions[from][to];
        let lost: Vec<_> = DropReason::ALL.iter().zip(direction.lost).filter(|(_, packets)| *packets > 0).collect();
        let Direction { sent, received, strayed, .. } = direction;
        println!("{from} to {to}: {sent} sent = {received} received + {strayed} strayed + {lost:?}");
        assert!(direction.sent >= EACH_WAY && direction.received > direction.sent / 5, "{direction:?}");
    }
    println!("{} ports removed, with {} packets; {} strays", lab.removed.0, lab.removed.1, lab.strays);
    // It went in every way that there is.
    let ports = totals.ports;
    let ways = [ports.unicast, ports.flood_copies, ports.mirror_copies, lab.strays, ports.discarded.total()];
    assert!(ways.iter().all(|packets| *packets > 0), "{ways:?}");
    for reason in [DropReason::EgressFull, DropReason::PortRemoved, DropReason::Isolated, DropReason::RateLimit] {
        assert!(lab.rig.switch.drops().any(|(found, _)| found == reason), "{reason}");
    }
    lab.rig.close();
}
