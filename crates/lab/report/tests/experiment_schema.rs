//! Results of experiments against their published schema, `docs/schema/experiment-result-1.json`.

use super::experiment;
use super::hostile;
#[path = "common/validate.rs"]
mod validate;

use experiment::{rich, sizes, small};
use linerate_report::*;
use serde_json::{Value, json};
use validate::{errors, field_names, read};

fn schema() -> Value {
    serde_json::from_str(&read("schema/experiment-result-1.json")).unwrap()
}

fn value(results: &Results) -> Value {
    serde_json::from_str(&results_json(results)).unwrap()
}

fn errors_of(document: &Value) -> Vec<String> {
    let schema = schema();
    errors(&schema, &schema, document, "")
}

/// Everything that JSON has no number for, and a run that has only begun.
fn broken_numbers() -> Results {
    let mut results = rich(1);
    for finding in results.cells.iter_mut().flat_map(|cell| &mut cell.findings) {
        match &mut finding.result {
            Some(TestResult::Soak { loss_ratio, .. }) => *loss_ratio = f64::NAN,
            Some(TestResult::FrameLoss { points }) => {
                points.iter_mut().for_each(|point| point.load_pps = f64::INFINITY)
            }
            Some(TestResult::Latency { points }) => points.iter_mut().for_each(|point| point.latency = None),
            _ => {}
        }
        finding.trials.iter_mut().for_each(|made| made.machine.noise.steal_share = f64::NAN);
    }
    results
}

#[test]
fn every_sample_is_valid_and_read_back() {
    let begun = Results { cells: Vec::new(), complete: false, ..small() };
    for results in [rich(1), sizes(1, 3, 1e6, 0.01), small(), begun, hostile::hostile(), broken_numbers()] {
        assert_eq!(errors_of(&value(&results)), [""; 0]);
        let read: Results = serde_json::from_str(&results_json(&results)).unwrap();
        assert_eq!(results_json(&read), results_json(&results));
        for text in [results_terminal(&read, 80, false), results_markdown(&read), html(&read), openmetrics(&read)] {
            assert!(!text.contains("NaN") && !text.contains("inf "), "a number that is none");
        }
    }
}

#[test]
fn sample_has_every_described_field_and_the_prose_mentions_it() {
    let mut names = Vec::new();
    field_names(&schema(), &mut names);
    assert!(names.len() > 120, "{}", names.len());
    let mut sample = rich(1);
    sample.cells[0].ip = Some("IPv6".to_owned());
    let (text, prose) = (results_json(&sample), read("results.md"));
    for name in names {
        assert!(text.contains(&format!("\"{name}\":")), "{name} is never written");
        assert!(prose.contains(&format!("`{name}`")), "docs/results.md does not mention `{name}`");
    }
}

#[test]
fn broken_documents_are_found() {
    let good = value(&rich(1));
    for (place, broken) in [
        ("/schema", json!("linerate.experiment-result/2")),
        ("/cells/0/flows", json!(-1)),
        ("/cells/0/findings/0/result/test", json!("fun")),
        ("/cells/0/findings/0/result/goals/0/limited_by", json!("luck")),
        ("/cells/0/findings/0/result/goals/0/lower_pps", json!("1")),
        ("/cells/0/findings/0/trials/0/noise/disturbed", json!(1)),
        ("/cells/0/findings/0/trials/0/trial/lost", json!(null)),
        ("/cells/0/findings/0/undescribed", json!(1)),
        ("/cells/0/published/0/text", json!(null)),
        ("/started", json!("yesterday")),
    ] {
        let mut document = good.clone();
        let (parent, name) = place.rsplit_once('/').unwrap();
        document.pointer_mut(parent).unwrap()[name] = broken;
        assert!(!errors_of(&document).is_empty(), "{place}");
    }
    assert_eq!(schema()["properties"]["schema"]["const"], EXPERIMENT_SCHEMA);
}
