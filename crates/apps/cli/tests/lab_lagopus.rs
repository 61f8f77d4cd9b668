//! The shipped experiment `lagopus-2014`, the shortest of it: each switch at the smallest size with one flow. Open vSwitch's cells are
//! skipped where it is not installed.

use super::lab_support;

use lab_support::{Experiment, can_measure, load};
use serde_json::Value;

const MATCHED: &str = "matched by flow entries";

#[test]
fn each_switch_is_measured_beside_the_published_exam_and_its_counters_are_reconciled() {
    let place = Experiment::new("");
    let only = ["--only", "*-0/60/1/one-way", "--trial", "100ms", "--json"];
    let ended = place.lab(&[&["run", "lagopus-2014"], &only[..]].concat());
    if !can_measure(&ended) {
        return;
    }
    assert!(matches!(ended.code, Some(0 | 1)), "{}", ended.stderr);
    let folder = place.only_run();
    let results = load(&folder);
    assert_eq!((&results["complete"], &results["name"]), (&Value::from(true), &Value::from("lagopus-2014")));
    let cells = results["cells"].as_array().expect("cells");
    let names: Vec<&str> = cells.iter().filter_map(|cell| cell["dut_name"].as_str()).collect();
    assert_eq!(names, ["back-to-back-0", "ofswitch-0", "ovs-0", "ofswitch-memif-0", "ovs-dpdk-0"]);
    for cell in cells {
        let (id, findings) = (cell["id"].as_str().expect("an id"), cell["findings"].as_array().expect("findings"));
        if let Some(why) = findings[0]["error"].as_str() {
            assert!(!id.starts_with("ofswitch") && !id.starts_with("back"), "{id}: {why}");
            eprintln!("skipped: {id}: {why}");
            continue;
        }
        let trials = findings[0]["trials"].as_array().expect("trials");
        let used = trials.iter().rfind(|trial| trial["not_used"].is_null()).expect("a trial that counts");
        let count = |name: &str| used["trial"][name].as_u64().unwrap_or_else(|| panic!("{name} of {used}"));
        assert_eq!(count("unexplained"), 0, "{used}");
        if id.starts_with("back") {
            continue;
        }
        // Nothing else is on the path, so what an entry counted was sent, and what arrived was counted.
        let matched = used["dut_counters"][MATCHED].as_u64().expect("a counter");
        assert!((count("delivered")..=count("sent")).contains(&matched), "{used}");
        let shown = folder.join("shown").join(id.replace('/', "-"));
        let text = std::fs::read_to_string(shown.join("load-1--trial-1.txt")).expect("what it showed");
        assert!(text.contains("### before the trial: ") && text.contains("### after the trial: "), "{text}");
        if id.starts_with("ofswitch") {
            assert!(text.contains("ofswitch ctl show flow\n") && text.contains("in_port=1 actions=output:2"), "{text}");
            assert!(cell["published"].as_array().is_some_and(|rows| !rows.is_empty()), "{cell}");
        }
    }
    for dut in [0, 1] {
        let ping = &cells[dut]["findings"][1];
        assert!(ping["test"] == "ping" && (ping["result"]["sent"] == 10 || ping["error"].is_string()), "{ping}");
    }
    // Not report.txt: a narrow column there may break any of these over two lines.
    let report = std::fs::read_to_string(folder.join("report.md")).expect("a report");
    for words in ["Published and measured", "ainoniwa.net, 2014", "Flow counters and the tester's"] {
        assert!(report.contains(words), "{words}: {report}");
    }
    place.assert_nothing_left();
}
