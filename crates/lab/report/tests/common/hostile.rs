//! Results whose every text tries to be something else.

use super::experiment;
use linerate_report::Results;
use serde_json::Value;

/// Markup, formulas, escapes and ends of everything.
pub const HOSTILE: &str = "<script>alert(1)</script>\"'&|[a](http://example.com)\\`\n=1,\u{202e}\x1b[2J";

/// The rich results with every name and word replaced.
pub fn hostile() -> Results {
    let mut value = serde_json::to_value(experiment::rich(5)).unwrap();
    replace(&mut value, "");
    serde_json::from_value(value).unwrap()
}

fn replace(value: &mut Value, key: &str) {
    match value {
        Value::String(_)
            if [
                "schema",
                "test",
                "purpose",
                "limited_by",
                "stop",
                "ring_trend",
                "kind",
                "part",
                "started",
                "ended",
            ]
            .contains(&key) => {}
        Value::String(text) => *text = format!("={HOSTILE}{text}"),
        Value::Array(list) => list.iter_mut().for_each(|inner| replace(inner, key)),
        Value::Object(map) => map.iter_mut().for_each(|(key, inner)| replace(inner, key)),
        _ => {}
    }
}
