//! Any packets at any ports, in any VLANs, while ports come and go, beside a model that does the same with vectors and maps.
//! After every step each packet is accounted for, and each byte that leaves is the one that the model says.

use super::support;

use proptest::prelude::*;
use support::model::{Model, QUEUE_SLOTS};
use support::{Rig, frame};

use linerate_l2::{Mirror, MirrorSelect, PortIndex, PortSettings, Resize, SERVICE_TAG, SpareTable, VlanMode};

#[derive(Clone, Debug)]
enum Step {
    Packets(u16, Vec<Shape>),
    Take(u16, usize),
    Add(PortSettings),
    Set(u16, PortSettings),
    Remove(u16),
    Mirror(Mirror),
    Forget(u16, u8),
    /// A table for so many addresses.
    Resize(usize),
    /// Moves the entries of so many buckets.
    MoveEntries(usize),
}

/// A packet: addresses out of a few, tags, length, slots.
#[derive(Clone, Debug)]
struct Shape {
    destination: u8,
    source: u8,
    tags: Vec<(u16, u16)>,
    len: usize,
    slots: usize,
}

fn shape() -> impl Strategy<Value = Shape> {
    let tag = (prop_oneof![4 => Just(0x8100u16), 1 => Just(SERVICE_TAG)], 0u16..4, 0u16..16);
    let tags = proptest::collection::vec(tag.prop_map(|(kind, vlan, rest)| (kind, rest << 12 | vlan)), 0..3);
    let len = prop_oneof![1 => 0usize..20, 8 => 40usize..300, 1 => 1400usize..1600];
    let slots = prop_oneof![6 => Just(1usize), 1 => 2usize..4];
    (0u8..10, 0u8..8, tags, len, slots).prop_map(|(destination, source, tags, len, slots)| Shape {
        destination,
        source,
        tags,
        len,
        slots,
    })
}

fn settings() -> impl Strategy<Value = PortSettings> {
    let trunk = (proptest::option::of(0u16..4), proptest::collection::vec(1u16..4, 0..3), any::<bool>());
    let vlan = prop_oneof![
        3 => Just(VlanMode::default()),
        2 => (0u16..4).prop_map(|vlan| VlanMode::Access { vlan }),
        2 => trunk.prop_map(|(native, allowed, service)| VlanMode::Trunk {
            native,
            allowed: allowed.into_iter().collect(),
            ethertype: if service { SERVICE_TAG } else { 0x8100 },
        }),
        1 => (1u16..4).prop_map(|vlan| VlanMode::Tunnel { vlan }),
        1 => Just(VlanMode::None),
    ];
    let len_max = prop_oneof![3 => Just(65_535usize), 1 => 100usize..300];
    (vlan, prop_oneof![3 => Just(false), 1 => Just(true)], prop_oneof![4 => Just(true), 1 => Just(false)], len_max)
        .prop_map(|(vlan, isolated, learning, frame_len_max)| PortSettings {
            vlan,
            isolated,
            learning,
            frame_len_max,
            ..PortSettings::default()
        })
}

fn mirror() -> impl Strategy<Value = Mirror> {
    let port = (0u16..5).prop_map(PortIndex);
    let select = prop_oneof![
        port.clone().prop_map(MirrorSelect::Ingress),
        port.clone().prop_map(MirrorSelect::Egress),
        port.clone().prop_map(MirrorSelect::Both),
        (0u16..4).prop_map(MirrorSelect::Vlan),
    ];
    (select, port).prop_map(|(select, to)| Mirror { select, to })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0u16..6, proptest::collection::vec(shape(), 0..6)).prop_map(|(port, packets)| Step::Packets(port, packets)),
        10 => (0u16..6, 0usize..12).prop_map(|(port, count)| Step::Take(port, count)),
        2 => settings().prop_map(Step::Add),
        1 => (0u16..6, settings()).prop_map(|(port, settings)| Step::Set(port, settings)),
        1 => (0u16..6).prop_map(Step::Remove),
        1 => mirror().prop_map(Step::Mirror),
        1 => (0u16..4, 0u8..10).prop_map(|(vlan, mac)| Step::Forget(vlan, mac)),
        // As many as there can be in these tests always fit.
        1 => (40usize..400).prop_map(Step::Resize),
        4 => (1usize..20).prop_map(Step::MoveEntries),
    ]
}

/// Puts the shapes into the switch and the model.
fn send(rig: &mut Rig, model: &mut Model, port: PortIndex, shapes: &[Shape]) {
    for shape in shapes {
        let bytes = frame(shape.destination, shape.source, &shape.tags, shape.len);
        let slots = if bytes.len() < 64 { 1 } else { shape.slots };
        assert!(rig.append(&bytes, slots), "the pool is large enough");
        model.arrive(port, &bytes, slots);
    }
    rig.forward(port);
}

fn run(first: &[PortSettings], steps: &[Step]) {
    let mut rig = Rig::new(256, QUEUE_SLOTS);
    let mut model = Model::default();
    let add = |rig: &mut Rig, model: &mut Model, settings: &PortSettings| {
        if let Ok(port) = rig.switch.add_port(settings.clone()) {
            model.add(port, settings.clone());
        }
    };
    first.iter().for_each(|settings| add(&mut rig, &mut model, settings));
    for step in steps {
        match step {
            Step::Packets(port, shapes) => send(&mut rig, &mut model, PortIndex(*port), shapes),
            Step::Take(port, count) => {
                let port = PortIndex(*port);
                let took = rig.take(port, *count);
                assert_eq!(took, model.take(port, *count), "what port {port} sends");
            }
            Step::Add(settings) => add(&mut rig, &mut model, settings),
            Step::Set(port, settings) => {
                let known = rig.switch.set_port(PortIndex(*port), settings.clone()).is_ok();
                assert_eq!(known, model.set(PortIndex(*port), settings.clone()));
            }
            Step::Remove(port) => {
                let removed = rig.switch.remove_port(PortIndex(*port), &mut rig.pool).is_some();
                assert_eq!(removed, model.remove(PortIndex(*port)));
            }
            Step::Mirror(mirror) => {
                let added = rig.switch.add_mirror(mirror.clone()).is_ok();
                assert_eq!(added, model.mirror(mirror.clone()));
            }
            Step::Forget(vlan, mac) => {
                let known = rig.switch.forget(*vlan, support::mac(*mac));
                assert_eq!(known, model.forget(*vlan, support::mac(*mac)));
            }
            Step::Resize(entries) => drop(rig.switch.begin_resize(SpareTable::new(*entries).unwrap())),
            Step::MoveEntries(buckets) => {
                let entries = rig.switch.table_entries();
                match rig.switch.resize_step(*buckets) {
                    Resize::Done(old) => assert_eq!(old.entries(), entries),
                    Resize::Refused(_) => panic!("there are no static entries"),
                    Resize::Idle | Resize::GoesOn => assert_eq!(rig.switch.table_entries(), entries),
                }
                assert_eq!(rig.switch.mac_counters().evicted, 0);
            }
        }
        rig.check();
        model.check(&rig.switch);
        assert_eq!(rig.pool.available() + rig.held(), 256, "frames are free or in a queue");
    }
    let ports: Vec<PortIndex> = rig.switch.ports().collect();
    for port in ports {
        assert_eq!(rig.take(port, 99), model.take(port, 99));
        rig.switch.remove_port(port, &mut rig.pool);
    }
    rig.check();
    rig.close();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 100 } else { 1_000 }))]

    #[test]
    fn does_what_the_model_does(
        first in proptest::collection::vec(settings(), 0..5),
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        run(&first, &steps);
    }
}
