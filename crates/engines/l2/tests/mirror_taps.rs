//! A mirror's port that sends packets from where they lie gets the same packets as one that gets copies, however many it can send so, and
//! the account balances.

use super::support;

use linerate_l2::{Mirror, MirrorSelect, PortIndex, PortSettings};
use linerate_mem::Batch;
use linerate_port::{Context, Datapath, TransmitRef};
use proptest::prelude::*;
use support::{Rig, frame};

const PORTS: u16 = 4;
const MONITOR: PortIndex = PortIndex(3);

#[derive(Clone, Debug)]
struct Burst {
    from: u16,
    /// Destination, source, length, slots.
    packets: Vec<(u8, u8, usize, usize)>,
    /// The mirror's port sends up to so many packets from where they lie.
    sends: usize,
}

fn burst() -> impl Strategy<Value = Burst> {
    let packet = (0u8..6, 1u8..5, 60usize..300, prop_oneof![4 => Just(1usize), 1 => Just(2usize)]);
    (0..PORTS - 1, proptest::collection::vec(packet, 1..4), 0usize..4).prop_map(|(from, packets, sends)| Burst {
        from,
        packets,
        sends,
    })
}

fn mirrors() -> impl Strategy<Value = Vec<MirrorSelect>> {
    let port = (0..PORTS - 1).prop_map(PortIndex);
    let select = prop_oneof![
        port.clone().prop_map(MirrorSelect::Ingress),
        port.clone().prop_map(MirrorSelect::Egress),
        port.prop_map(MirrorSelect::Both),
        Just(MirrorSelect::Vlan(0)),
    ];
    proptest::collection::vec(select, 1..4)
}

fn rig(mirrors: &[MirrorSelect]) -> Rig {
    let mut rig = Rig::new(512, 16);
    for _ in 1..PORTS {
        rig.switch.add_port(PortSettings::default()).unwrap();
    }
    assert_eq!(rig.switch.add_port(PortSettings::monitor()), Ok(MONITOR));
    for select in mirrors {
        rig.switch.add_mirror(Mirror { select: select.clone(), to: MONITOR }).unwrap();
    }
    rig
}

/// A port that sends up to `sends` packets from where they lie.
struct Monitor<'a> {
    sends: usize,
    seen: &'a mut Vec<Vec<u8>>,
}

impl TransmitRef for Monitor<'_> {
    fn transmit_ref(&mut self, to: PortIndex, batch: &Batch, from: usize) -> usize {
        assert_eq!(to, MONITOR);
        let (mut at, mut count) = (from, 0);
        while let Some(span) = batch.span(at).filter(|_| count < self.sends) {
            self.seen.push((at..at + span.slots).flat_map(|slot| batch.packet(slot).to_vec()).collect());
            at += span.slots;
            count += 1;
        }
        count
    }
}

/// As a worker does it, with a monitor that sends so many packets each time.
fn input(rig: &mut Rig, ingress: PortIndex, sends: usize, seen: &mut Vec<Vec<u8>>) {
    let ports = &mut Monitor { sends, seen };
    let context = &mut Context { now_ns: rig.now_ns, pool: &mut rig.pool, ports };
    rig.switch.input(ingress, &mut rig.arrived, context);
    assert!(rig.arrived.is_empty());
    rig.now_ns += 1_000;
}

proptest! {
    #[test]
    fn a_shown_port_gets_what_a_copying_one_gets(mirrors in mirrors(), bursts in proptest::collection::vec(burst(), 0..30)) {
        let [mut copying, mut showing] = [rig(&mirrors), rig(&mirrors)];
        let mut seen = Vec::new();
        for burst in &bursts {
            let from = PortIndex(burst.from);
            for rig in [&mut copying, &mut showing] {
                for (destination, source, len, slots) in &burst.packets {
                    prop_assert!(rig.append(&frame(*destination, *source, &[], *len), *slots));
                }
            }
            copying.forward(from);
            input(&mut showing, from, burst.sends, &mut seen);
            // The monitor has room for all; the others take what they have.
            let mut wanted = copying.take(MONITOR, usize::MAX);
            let mut found = std::mem::take(&mut seen);
            found.extend(showing.take(MONITOR, usize::MAX));
            wanted.sort();
            found.sort();
            prop_assert_eq!(found, wanted);
            for port in (0..PORTS - 1).map(PortIndex) {
                prop_assert_eq!(showing.take(port, usize::MAX), copying.take(port, usize::MAX));
            }
            for rig in [&copying, &showing] {
                rig.check();
            }
            let sum = |rig: &Rig| rig.switch.mirrors().map(|(_, _, counts)| counts.shown + counts.copied).sum::<u64>();
            prop_assert_eq!(sum(&showing), sum(&copying));
        }
        let counters = |rig: &Rig| *rig.switch.port_counters(MONITOR).unwrap();
        let (one, other) = (counters(&showing), counters(&copying));
        prop_assert_eq!((one.sent_packets, one.sent_bytes), (other.sent_packets, other.sent_bytes));
        copying.close();
        showing.close();
    }
}

#[test]
fn nothing_is_copied_for_a_port_that_sends_all_and_later_packets_queue_behind_copies() {
    let mut rig = rig(&[MirrorSelect::Both(PortIndex(0))]);
    let mut seen = Vec::new();
    let mut burst = |rig: &mut Rig, from: u16, sends: usize| {
        (0..4).for_each(|_| assert!(rig.append(&frame(3 + 1 - from as u8, from as u8 + 1, &[], 60), 1)));
        input(rig, PortIndex(from), sends, &mut seen);
        rig.switch.mirrors().map(|(_, _, counts)| (counts.shown, counts.copied)).next().unwrap()
    };
    assert_eq!(burst(&mut rig, 0, 9), (4, 0));
    assert_eq!(burst(&mut rig, 1, 9), (8, 0));
    // It had room for one: three wait, and the next ones wait behind them.
    assert_eq!(burst(&mut rig, 0, 1), (9, 3));
    assert_eq!(burst(&mut rig, 1, 9), (9, 7));
    rig.check();
    assert_eq!((seen.len(), rig.take(MONITOR, 99).len()), (9, 7));
    (0..PORTS - 1).for_each(|port| drop(rig.take(PortIndex(port), 99)));
    rig.check();
    rig.close();
}
