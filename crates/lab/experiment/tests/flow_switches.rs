//! Switches with flow entries in experiment files, tests of some cells only, and patterns by their names.

use linerate_experiment::{DutKind, Experiment, TestKind};
use linerate_testbed::dut::flow_table::FlowSwitch;
use linerate_testbed::dut::ofswitch::OfSwitch;
use linerate_testbed::dut::ovs::OpenVswitch;
use linerate_testbed::dut::parse;
use linerate_testbed::dut::switch_ports::SwitchPorts;

const FILE: &str = r#"name = "x"
title = "X"
[[dut]]
name = "of"
kind = "ofswitch"
ports = "memif"
entries = [0, 1000]
[[dut]]
name = "ovs"
kind = "openvswitch"
[matrix]
sizes = [64, 128]
flows = [1, { sources = 100 }, { destinations = 100 }]
[[test]]
kind = "load"
[[test]]
kind = "ping"
trial = "180s"
interval = "10ms"
p50_at_most = "20ms"
cells = [{ size = 64, flows = 1 }, { dut = "ovs", flows = "1x100" }]
[[published]]
source = "A. Body, 2014"
dut = "of-0"
size = 64
flows = "1x100"
what = "rate"
text = "700 kpps"
"#;

fn read(text: &str) -> Experiment {
    parse(text, "x.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn each_number_of_entries_is_a_device() {
    let experiment = read(FILE);
    let duts: Vec<_> = experiment.duts.iter().map(|dut| (dut.name.as_str(), dut.kind.clone())).collect();
    let of = |ports, entries| DutKind::from(OfSwitch(FlowSwitch { ports, entries }));
    let memif = SwitchPorts::Memif;
    assert_eq!(
        duts,
        [("of-0", of(memif, 0)), ("of-1000", of(memif, 1_000)), ("ovs", OpenVswitch(FlowSwitch::default()).into())]
    );
    assert!(experiment.duts[0].kind.shares_memory() && !experiment.duts[2].kind.shares_memory());
    assert_eq!(
        (experiment.duts[1].kind.flow_entries(), experiment.duts[2].kind.flow_entries()),
        (Some(1_000), Some(0))
    );
}

#[test]
fn the_entries_of_a_switch_are_loaded_once_for_all_cells_that_they_serve() {
    let text = FILE.replace("entries = [0, 1000]", "entries = [0, 10, 20000]");
    let text = text.replace(
        "{ destinations = 100 }]",
        "{ destinations = 100 }, 10000]\ndirections = [\"one-way\", \"both-ways\"]",
    );
    let experiment = read(&text);
    let cells = experiment.cells();
    let loads = |dut: &str| {
        let of: Vec<_> = cells.iter().filter(|cell| cell.dut.name == dut).collect();
        assert_eq!(of.len(), 2 * 4 * 2, "sizes, patterns, directions");
        1 + of.windows(2).filter(|pair| !experiment.keeps_device(pair[0], pair[1])).count()
    };
    // In each direction: once where no entry is by address or all flows have entries, else once for each pattern.
    assert_eq!(["of-0", "of-10", "of-20000", "ovs"].map(loads), [2, 8, 2, 2]);
    let widest = experiment.flows_of_device(&cells[0]);
    assert_eq!((widest.sources, widest.destinations), (100, 100), "{widest:?}");
    let first = cells.iter().position(|cell| cell.dut.name == "of-10").expect("its cells");
    assert!(!experiment.keeps_device(&cells[first - 1], &cells[first]), "another switch");
}

#[test]
fn patterns_of_as_many_flows_are_told_apart_by_their_names() {
    let experiment = read(FILE);
    let row = &experiment.published[0].cells;
    let cells = experiment.cells();
    let beside: Vec<&str> = cells.iter().filter(|cell| cell.is_matched_by(row)).map(|cell| cell.id.as_str()).collect();
    assert_eq!(beside, ["of-0/64/1x100/one-way"]);
}

#[test]
fn a_test_is_made_in_its_cells_only_and_is_estimated_so() {
    let experiment = read(FILE);
    assert_eq!(experiment.tests[1].kind, TestKind::Ping { interval_ns: 10_000_000 });
    let cells = experiment.cells();
    let pinged: Vec<&str> =
        cells.iter().filter(|cell| cell.has(&experiment.tests[1])).map(|cell| cell.id.as_str()).collect();
    let expected =
        ["of-0/64/1", "of-1000/64/1", "ovs/64/1", "ovs/64/1x100", "ovs/128/1x100"].map(|id| format!("{id}/one-way"));
    assert_eq!(pinged, expected);
    let everywhere =
        read(&FILE.replace("cells = [{ size = 64, flows = 1 }, { dut = \"ovs\", flows = \"1x100\" }]\n", ""));
    let (some, all) = (experiment.estimate(), everywhere.estimate());
    assert_eq!(all.trials - some.trials, 18 - 5);
    assert_eq!(all.sending_ns - some.sending_ns, (18 - 5) * 180_000_000_000);
}

#[test]
fn what_is_wrong_is_told() {
    for (good, bad, told) in [
        ("[0, 1000]", "[0, 0]", "0 is in `entries` twice"),
        ("[0, 1000]", "5_000_000", "expected a whole number from 0 to 4000000"),
        ("entries =", "entrys =", "unknown key in [[dut]] \"entrys\""),
        ("\"memif\"", "\"vhost\"", "unknown kind of the switch's ports"),
        ("kind = \"openvswitch\"", "kind = \"openvswitch\"\nports = \"xdp\"", "expected one of packet, memif"),
        ("name = \"ovs\"", "name = \"of-1000\"", "two DUTs are called \"of-1000\""),
        ("\"1x100\"\nwhat", "\"1x101\"\nwhat", "did you mean \"1x100\"?"),
        ("{ size = 64, flows = 1 }", "{ dut = \"of-0\", size = 65 }", "unknown size"),
        ("interval = \"10ms\"", "interval = \"1ms\"", "expected 2ms to 1s"),
        ("title = \"X\"", "title = \"X\"\ntopology = { kind = \"in-process\" }", "the DUT ofswitch contradicts"),
    ] {
        assert!(FILE.contains(good), "{good}");
        let errors = parse(&FILE.replacen(good, bad, 1), "x.toml").expect_err(bad).to_string();
        assert!(errors.contains(told), "{bad}: {errors}");
    }
    let nowhere = FILE.replace("directions", "x").replace("cells = [", "cells = [{ direction = \"both-ways\" }, ");
    let errors = parse(&nowhere, "x.toml").expect_err("no such cell").to_string();
    assert!(errors.contains("this matches no cell of the matrix"), "{errors}");
}
