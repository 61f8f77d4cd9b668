//! Ten million packets in every direction of four ports while ports come and go, mirrors start and end, and readers stop
//! reading for a while: every packet is accounted for at every check, and every frame comes back.
//!
//! A debug build moves a twentieth of them, with the same events.

mod support;

use linerate_l2::{Mirror, MirrorSelect, PortIndex, PortSettings, VlanMode};
use support::{Rig, frame};

/// Packets for each ordered pair of ports.
const EACH_WAY: u64 = if cfg!(debug_assertions) { 40_000 } else { 833_334 };
const BATCH: u64 = 32;
/// Rounds between two changes.
const PAUSE: u64 = if cfg!(debug_assertions) { 10 } else { 50 };

/// A cheap sequence of numbers that looks random (Knuth's MMIX).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Takes out what waits at a port; some ports are asleep at times.
fn drain(rig: &mut Rig, port: PortIndex) {
    let Some(queue) = rig.switch.egress(port) else { return };
    let packets = queue.batch_mut().totals().packets;
    rig.pool.put(queue.batch_mut());
    rig.switch.sent(port, packets as usize, rig.now_ns);
}

fn event(rig: &mut Rig, dice: &mut Dice) {
    let ports: Vec<PortIndex> = rig.switch.ports().collect();
    let any = |dice: &mut Dice| ports[dice.below(ports.len() as u64) as usize];
    match dice.below(6) {
        0 if ports.len() > 2 => drop(rig.switch.remove_port(any(dice), &mut rig.pool)),
        1 | 2 if ports.len() < 6 => {
            let vlan = match dice.below(4) {
                0 => VlanMode::Access { vlan: 7 },
                _ => VlanMode::default(),
            };
            let isolated = dice.below(8) == 0;
            rig.switch.add_port(PortSettings { vlan, isolated, ..PortSettings::default() }).map(|_| ()).unwrap();
        }
        3 => {
            let mirror = Mirror { select: MirrorSelect::Both(any(dice)), to: any(dice) };
            // A mirror of a port to itself is refused.
            let _ = rig.switch.add_mirror(mirror);
        }
        4 => {
            let ids: Vec<_> = rig.switch.mirrors().map(|(id, ..)| id).collect();
            ids.iter().for_each(|id| assert!(rig.switch.remove_mirror(*id)));
        }
        _ => rig.switch.flush_macs(None),
    }
}

#[test]
fn every_packet_is_accounted_for_while_ports_come_and_go() {
    let mut rig = Rig::new(8192, 512);
    let mut dice = Dice(42);
    for _ in 0..4 {
        rig.switch.add_port(PortSettings::default()).unwrap();
    }
    let mut sent = 0;
    let mut sent_at = [0u64; 8];
    let wanted = EACH_WAY * 12;
    let mut round = 0u64;
    while sent < wanted {
        round += 1;
        for from in 0..4u16 {
            // Stations 3 to 6 behind ports 0 to 3; a few broadcasts, tags and strangers.
            for packet in 0..BATCH {
                let to = (u64::from(from) + 1 + packet % 3) % 4;
                let destination = match dice.below(64) {
                    0 => 0,
                    1 => 9,
                    _ => 3 + to as u8,
                };
                let tags: &[(u16, u16)] = if dice.below(16) == 0 { &[(0x8100, 7)] } else { &[] };
                let bytes = frame(destination, from as u8 + 1, tags, 60);
                if !rig.append(&bytes, 1) {
                    break;
                }
            }
            let count = rig.arrived.len() as u64;
            sent += count;
            sent_at[usize::from(from)] += count;
            rig.forward(PortIndex(from));
        }
        for port in 0..8 {
            // A port is asleep in one of 16 spans of 64 rounds.
            if !(round / 64 + u64::from(port) * 5).is_multiple_of(16) {
                drain(&mut rig, PortIndex(port));
            }
        }
        if round.is_multiple_of(PAUSE) {
            event(&mut rig, &mut dice);
        }
        if round.is_multiple_of(20) {
            rig.check();
        }
    }
    (0..8).for_each(|port| drain(&mut rig, PortIndex(port)));
    rig.check();
    let totals = rig.switch.totals();
    assert_eq!((totals.ports.received_packets, totals.waiting), (sent, 0));
    assert!(sent_at[..4].iter().all(|count| *count >= 3 * EACH_WAY * 9 / 10), "{sent_at:?}");
    let ways = [totals.ports.unicast, totals.ports.flood_copies, totals.ports.mirror_copies];
    assert!(ways.iter().all(|packets| *packets > sent / 100), "{ways:?} of {sent}");
    rig.close();
}
