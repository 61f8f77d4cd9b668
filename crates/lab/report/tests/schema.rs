//! Documents against their published schema, `docs/schema/bench-1.json`.
//!
//! The validator is `common/validate.rs`.

mod common;
#[path = "common/validate.rs"]
mod validate;

use common::{any_document, sample};
use linerate_report::{Document, SCHEMA, Timestamp, Tool, json};
use proptest::prelude::*;
use serde_json::{Value, json as value};
use validate::{errors, field_names, read};

fn schema() -> Value {
    serde_json::from_str(&read("schema/bench-1.json")).unwrap()
}

fn errors_of(document: &Value) -> Vec<String> {
    let schema = schema();
    errors(&schema, &schema, document, "")
}

#[test]
fn sample_and_empty_document_are_valid() {
    let empty = Document::new("empty", Tool::new("linerate", "0"), Timestamp::from_unix_ms(0));
    for document in [sample(), empty] {
        let document = serde_json::from_str(&json(&document)).unwrap();
        assert_eq!(errors_of(&document), [""; 0]);
    }
}

#[test]
fn sample_has_every_described_field() {
    let mut names = Vec::new();
    field_names(&schema(), &mut names);
    assert!(names.len() > 90, "{}", names.len());
    let text = json(&sample());
    for name in names {
        assert!(text.contains(&format!("\"{name}\":")), "{name} is never written");
    }
}

#[test]
fn prose_describes_every_field() {
    let mut names = Vec::new();
    field_names(&schema(), &mut names);
    let prose = read("results.md");
    for name in names {
        assert!(prose.contains(&format!("`{name}`")), "docs/results.md does not mention `{name}`");
    }
}

#[test]
fn broken_documents_are_found() {
    let good: Value = serde_json::from_str(&json(&sample())).unwrap();
    for (place, broken) in [
        ("/schema", value!("linerate.bench/2")),
        ("/trials/0/intended", value!(-1)),
        ("/trials/0/intended", value!(1.5)),
        ("/trials/0/purpose", value!("fun")),
        ("/trials/0/lost", value!(null)),
        ("/trials/1/lost/0/packets", value!("1")),
        ("/trials/0/rates", value!({})),
        ("/trials/0/undescribed", value!(1)),
        ("/throughput/0/bounds/lower_pps", value!("1")),
        ("/environment/sysctls", value!({"a": 1})),
        ("/environment/cache_line/cores", value!([1])),
        ("/started", value!("yesterday")),
        ("/dut", value!([])),
    ] {
        let mut document = good.clone();
        let (parent, name) = place.rsplit_once('/').unwrap();
        document.pointer_mut(parent).unwrap()[name] = broken;
        assert!(!errors_of(&document).is_empty(), "{place}");
    }
    let mut document = good;
    document["trials"][0].as_object_mut().unwrap().remove("unexplained");
    assert_eq!(errors_of(&document).len(), 1);
}

#[test]
fn schema_is_of_this_version() {
    assert_eq!(schema()["properties"]["schema"]["const"], SCHEMA);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_document_is_valid(document in any_document()) {
        let document = serde_json::from_str(&json(&document)).unwrap();
        prop_assert_eq!(errors_of(&document), Vec::<String>::new());
    }
}
