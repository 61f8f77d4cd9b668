//! Linerate's own switch as a device. The program has to have been built; without it the test is skipped.

mod support;

use linerate_experiment::DutKind;
use linerate_testbed::dut::Built;
use linerate_testbed::dut::switch::Switch;
use linerate_testbed::dut::switch_ports::SwitchPorts;
use support::carry::{Direction, PACKETS, carry_some, device};

fn carries_all(built: &mut Built, way: Direction) {
    carry_some(built, way, PACKETS).all_delivered();
}

#[test]
fn the_switch_carries_packets_both_ways_counts_them_is_reset_and_leaves_nothing() {
    for ports in [SwitchPorts::Packet, SwitchPorts::Xdp] {
        let Some(built) = device(DutKind::from(Switch(ports))) else { return };
        works_and_leaves_nothing(built);
    }
}

fn works_and_leaves_nothing(mut built: Built) {
    assert!(built.device.needs_warm_up());
    built.device.learn().expect("learning frames");
    carries_all(&mut built, Direction::Forward);
    carries_all(&mut built, Direction::Backward);
    let counters = built.device.counters().expect("counters");
    assert!(counters["in received"] >= PACKETS && counters["out received"] >= PACKETS, "{counters:?}");
    assert!(counters["in sent"] >= PACKETS && counters["out sent"] >= PACKETS, "{counters:?}");
    let done = built.device.reset().expect("reset");
    assert!(done.contains("started anew"), "{done}");
    carries_all(&mut built, Direction::Forward);
    built.device.check().expect("alive");
    let description = built.device.describe();
    assert!(description.version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit())));
    drop(built);
    let mark = format!("linerate-{}-dut-", std::process::id());
    let entries = std::fs::read_dir(std::env::temp_dir()).expect("a folder").flatten();
    let left = entries.filter(|entry| entry.file_name().to_string_lossy().contains(&mark)).count();
    assert_eq!(left, 0);
}
