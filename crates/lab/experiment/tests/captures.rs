//! Captures in experiment files: lists stand for several devices, and what is wrong with them is told.

use linerate_experiment::{Experiment, TestKind};
use linerate_testbed::dut::capture::{Capture, CaptureCores, CaptureTool, Reception};
use linerate_testbed::dut::parse;

const FILE: &str = r#"name = "x"
title = "X"
[[dut]]
name = "c"
kind = "capture"
tool = ["packet", "libpcap"]
receive = "threaded-napi"
buffer = ["512KiB", "10MiB"]
[matrix]
sizes = [64]
flows = [100]
directions = ["one-port", "two-ports"]
skip = [{ dut = "c-pcap-*", direction = "one-port" }]
[[test]]
kind = "capture"
loads = ["10kpps", "20kpps"]
[[published]]
source = "A. Body, 2009"
dut = "c-*-512KiB"
direction = "two-ports"
what = "capture-ratio"
value = 0.98
text = "98 %"
"#;

fn read(text: &str) -> Experiment {
    parse(text, "x.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn lists_are_devices_with_names_and_stars_match_them() {
    let experiment = read(FILE);
    let names: Vec<&str> = experiment.duts.iter().map(|dut| dut.name.as_str()).collect();
    assert_eq!(names, ["c-packet-512KiB", "c-packet-10MiB", "c-pcap-512KiB", "c-pcap-10MiB"]);
    let last: &Capture = experiment.duts[3].kind.settings().expect("a capture");
    assert_eq!((last.tool, last.receive, last.cores), (CaptureTool::Pcap, Reception::ThreadedNapi, CaptureCores::One));
    assert_eq!((last.buffer_bytes, last.file), (10 << 20, false));
    assert_eq!(experiment.tests[0].kind, TestKind::Capture { loads_pps: vec![1e4, 2e4] });
    let cells = experiment.cells();
    let ids: Vec<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(ids.len(), 6, "{ids:?}");
    assert_eq!(ids[..2], ["c-packet-512KiB/64/100/one-port", "c-packet-512KiB/64/100/two-ports"]);
    let beside =
        |row: &linerate_experiment::Published| cells.iter().filter(|cell| cell.is_matched_by(&row.cells)).count();
    assert_eq!(experiment.published.iter().map(beside).collect::<Vec<_>>(), [2]);
    let plain = read(
        &FILE
            .replace("tool = [\"packet\", \"libpcap\"]\n", "")
            .replace("buffer = [\"512KiB\", \"10MiB\"]\n", "")
            .replace("c-pcap-*", "c")
            .replace("c-*-512KiB", "c*"),
    );
    assert_eq!(plain.duts.len(), 1);
    assert_eq!(plain.duts[0].name, "c");
}

#[test]
fn what_is_wrong_is_told() {
    for (good, bad, told) in [
        ("\"libpcap\"", "\"libcap\"", "did you mean \"libpcap\"?"),
        ("\"libpcap\"", "\"af-packet\"", "packet is in `tool` twice"),
        ("\"threaded-napi\"", "\"thread\"", "expected one of interrupt, busy-poll, threaded-napi"),
        ("\"10MiB\"", "\"10MIB\"", "did you mean 10MiB?"),
        ("\"10MiB\"", "\"1KiB\"", "expected 64KiB to 1GiB"),
        ("\"10MiB\"", "\"512KiB\"", "512KiB is in `buffer` twice"),
        ("buffer = [\"512KiB\", \"10MiB\"]", "buffer = 7", "expected a text in quotes"),
        ("buffer =", "bufer =", "unknown key in [[dut]] \"bufer\""),
        ("\"20kpps\"", "\"5kpps\"", "expected the lowest first"),
        ("loads = [\"10kpps\", \"20kpps\"]", "", "needs `loads`"),
        ("c-*-512KiB", "d-*", "no DUT is called as \"d-*\""),
        ("c-*-512KiB", "c-*-7MiB", "no DUT is called as"),
        (
            "kind = \"capture\"\ntool = [\"packet\", \"libpcap\"]\nreceive = \"threaded-napi\"\nbuffer = [\"512KiB\", \"10MiB\"]",
            "kind = \"bridge\"",
            "a capture test needs a capture",
        ),
        (
            "title = \"X\"",
            "title = \"X\"\ntopology = { kind = \"in-process\" }",
            "the DUT capture contradicts the topology in-process",
        ),
        ("name = \"c\"\nkind", "name = \"c\"\nsnat = true\nkind", "unknown key in [[dut]] \"snat\""),
    ] {
        assert!(FILE.contains(good), "{good}");
        let errors = parse(&FILE.replacen(good, bad, 1), "x.toml").expect_err(bad).to_string();
        assert!(errors.contains(told), "{bad}: {errors}");
    }
    let sizes: Vec<String> = (0..16).map(|number| format!("\"{}KiB\"", 64 + number)).collect();
    let many = FILE.replace("[\"512KiB\", \"10MiB\"]", &format!("[{}]", sizes.join(", ")));
    let many = many.replace("\"threaded-napi\"", "[\"interrupt\", \"busy-poll\", \"threaded-napi\"]");
    let many = many.replace("[\"packet\", \"libpcap\"]", "[\"packet\", \"libpcap\", \"xdp\"]");
    let errors = parse(&many, "x.toml").expect_err("too many").to_string();
    assert!(errors.contains("there are 144 DUTs; expected at most 100"), "{errors}");
}
