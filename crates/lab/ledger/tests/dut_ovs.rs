//! Open vSwitch as a device, started privately.

mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use linerate_experiment::DutKind;
use linerate_testbed::dut::flow_table::FlowSwitch;
use linerate_testbed::dut::ovs::OpenVswitch;
use linerate_testbed::dut::{Built, DutError};
use support::carry::{Direction, PACKETS, carry_some, device};

#[test]
fn open_vswitch_carries_packets_both_ways_counts_them_is_reset_dies_and_leaves_nothing() {
    let Some(mut built) = device(DutKind::from(OpenVswitch(FlowSwitch::default()))) else { return };
    assert!(built.device.needs_warm_up());
    carry_some(&mut built, Direction::Forward, PACKETS).all_delivered();
    carry_some(&mut built, Direction::Backward, PACKETS).all_delivered();
    let counters = built.device.counters().expect("counters");
    assert_eq!((counters["flow in_port=1"], counters["flow in_port=2"]), (PACKETS, PACKETS), "{counters:?}");
    assert!(counters["datapath hit"] + counters["datapath missed"] >= 2 * PACKETS, "{counters:?}");
    let done = built.device.reset().expect("reset");
    assert!(done.contains("started anew"), "{done}");
    carry_some(&mut built, Direction::Forward, PACKETS).all_delivered();
    carry_some(&mut built, Direction::Backward, PACKETS).all_delivered();
    built.device.check().expect("alive");
    let description = built.device.describe();
    assert!(description.version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit())));
    dies_and_is_told_by_name(built);
    assert_eq!(own_processes(), []);
    assert_eq!(own_folders(), Vec::<String>::new());
}

fn dies_and_is_told_by_name(mut built: Built) {
    let processes = own_processes();
    assert_eq!(processes.len(), 2, "{processes:?}");
    let (switch, _) = processes.iter().find(|(_, command)| command.contains("ovs-vswitchd")).expect("the switch");
    let killed = Command::new("kill").args(["-9", switch]).status().expect("kill");
    assert!(killed.success());
    let deadline = Instant::now() + Duration::from_secs(60);
    let error = loop {
        match built.device.check() {
            Err(error) => break error,
            Ok(()) => assert!(Instant::now() < deadline, "it goes on living"),
        }
    };
    assert!(matches!(&error, DutError::Died { name, .. } if name == "ovs-vswitchd"), "{error}");
    assert!(error.to_string().contains("signal: 9"), "{error}");
    assert!(matches!(built.device.counters(), Err(DutError::Died { .. })));
}

/// Numbers and command lines of the processes that use a folder of this process.
fn own_processes() -> Vec<(String, String)> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let process = |entry: std::fs::DirEntry| {
        let command = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        command.contains(&mark()).then(|| (entry.file_name().to_string_lossy().into_owned(), command))
    };
    entries.filter_map(process).collect()
}

fn own_folders() -> Vec<String> {
    let entries = std::fs::read_dir(std::env::temp_dir()).expect("a folder").flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.contains(&mark())).collect()
}

fn mark() -> String {
    format!("linerate-{}-dut-", std::process::id())
}
