//! The shipped experiment `tcp-2018`, its quick form with few connections: every link, both placements, beside what was published.

mod lab_support;

use lab_support::{Experiment, can_measure, load};
use serde_json::Value;

#[test]
fn echoes_cross_every_link_and_stand_beside_the_published_ones() {
    let place = Experiment::new("");
    let ended = place.lab(&["run", "tcp-2018", "--only", "*/64/8/*", "--trial", "20ms", "--json"]);
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
        if let Some(why) = finding["why_not"].as_str() {
            let is_of_the_machine = id.ends_with("/apart") && why.contains("cores") || why.contains("CAP_");
            assert!(is_of_the_machine, "{id}: {why}");
            eprintln!("skipped in part: {id}: {why}");
            continue;
        }
        let found = &finding["found"];
        assert_eq!((&found["test"], &found["connections"]), (&Value::from("tcp-echo"), &Value::from(8)), "{id}");
        let points = found["points"].as_array().expect("points");
        assert_eq!(points.iter().map(|point| &point["order"]).collect::<Vec<_>>(), ["reply", "round-robin"], "{id}");
        for point in points {
            assert_eq!(point["connections_lost"], 0, "{id}: {point}");
        }
    }
    let report = std::fs::read_to_string(folder.join("report.txt")).expect("a report");
    for words in ["Echoes of single bytes", "Published and measured", "yi-shu OS, 2018", "per GHz"] {
        assert!(report.contains(words), "{words}: {report}");
    }
    place.assert_nothing_left();
}
