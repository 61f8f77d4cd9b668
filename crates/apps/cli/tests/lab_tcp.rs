//! The shipped experiment `tcp-2018`, its quick form with one connection: every link, both placements, the loop of
//! datagrams and other stacks, beside what was published.

use super::lab_support;

use lab_support::{Experiment, can_measure, load};
use serde_json::Value;

#[test]
fn echoes_cross_every_link_and_stand_beside_the_published_ones() {
    let place = Experiment::new("");
    let ended = place.lab(&["run", "tcp-2018", "--only", "*/1/*", "--trial", "20ms", "--json"]);
    if !can_measure(&ended) {
        return;
    }
    assert!(matches!(ended.code, Some(0 | 1)), "{}", ended.stderr);
    let folder = place.only_run();
    let results = load(&folder);
    assert_eq!((&results["complete"], &results["name"]), (&Value::from(true), &Value::from("tcp-2018")));
    let cells = results["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 10, "five links, both ends on one core or on one each");
    for cell in cells {
        let (id, finding) = (cell["id"].as_str().expect("an id"), &cell["findings"][0]);
        assert!(cell["published"].as_array().is_some_and(|rows| !rows.is_empty()), "{cell}");
        if let Some(why) = finding["error"].as_str() {
            let is_of_the_machine = id.ends_with("/apart") && why.contains("cores") || why.contains("CAP_");
            assert!(is_of_the_machine, "{id}: {why}");
            eprintln!("skipped in part: {id}: {why}");
            continue;
        }
        let findings: Vec<&Value> = cell["findings"].as_array().expect("findings").iter().collect();
        let mut kinds = Vec::new();
        for finding in findings {
            if let Some(why) = finding["error"].as_str() {
                assert!(why.contains("lwIP is not installed"), "{id}: {why}");
                eprintln!("skipped in part: {why}");
                continue;
            }
            assert_whole(id, &finding["result"]);
            let trial = &finding["trials"][0]["trial"];
            assert_eq!(trial["unexplained"], 0, "{id}: {finding}");
            // Rates of packets are of the whole trial: two orders of 20 ms, and what sets connections up and closes them.
            let least_ns = if finding["test"] == "tcp-echo" { 40_000_000 } else { 20_000_000 };
            assert!(trial["duration_ns"].as_u64() > Some(least_ns), "{id}: {trial}");
            kinds.push((finding["test"].as_str(), finding["result"]["stack"].as_str().unwrap_or("-")));
        }
        let mut expected = vec![(Some("tcp-echo"), "Linerate"), (Some("udp-loop"), "-")];
        expected.extend(id.contains("/packet/").then_some((Some("tcp-echo"), "Linux")));
        expected.extend(id.contains("/pipe/").then_some((Some("tcp-echo"), "smoltcp")));
        kinds.retain(|(_, stack)| *stack != "lwIP");
        assert_eq!(kinds, expected, "{id}");
    }
    // Not report.txt: a narrow column there may break any of these over two lines.
    let report = std::fs::read_to_string(folder.join("report.md")).expect("a report");
    for words in [
        "Echoes of single bytes",
        "Bytes that were echoed",
        "Connections that echo",
        "UDP loop",
        "Published and measured",
        "yi-shu OS, 2018",
        "per GHz",
        "Linux",
        "smoltcp",
    ] {
        assert!(report.contains(words), "{words}: {report}");
    }
    // TCP makes packets of many sizes.
    let text = std::fs::read_to_string(folder.join("report.txt")).expect("a text");
    assert!(!text.contains("64 B") && !text.contains(": 0 B"), "{text}");
    let page = std::fs::read_to_string(folder.join("report.html")).expect("a page");
    assert!(["UDP loop", "times per GHz", "smoltcp"].iter().all(|words| page.contains(words)), "{folder:?}");
    place.assert_nothing_left();
}

/// Everything that was asked for was done, and nothing is unexplained.
fn assert_whole(id: &str, found: &Value) {
    let whole = |account: &Value| {
        assert_eq!(account["intended"], account["completed"], "{id}: {found}");
        assert_eq!(account["unexplained"], 0, "{id}: {found}");
        assert!(account["completed"].as_u64().is_some_and(|count| count > 0), "{id}: {found}");
    };
    if found["test"] == "udp-loop" {
        return whole(&found["datagrams"]);
    }
    assert_eq!(found["connections"], 1, "{id}");
    whole(&found["connection_account"]);
    let points = found["points"].as_array().expect("points");
    assert_eq!(points.iter().map(|point| &point["order"]).collect::<Vec<_>>(), ["reply", "round-robin"], "{id}");
    for point in points {
        assert_eq!(point["connections_lost"], 0, "{id}: {point}");
        whole(&point["echoes"]);
    }
}
