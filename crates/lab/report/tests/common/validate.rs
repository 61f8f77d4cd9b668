//! A validator for the few keywords of JSON Schema that the published schemas use.
//!
//! A keyword that it does not know is an error, so it cannot overlook a constraint. It is stricter than the schema in one point: a field
//! that the schema does not describe is an error.

use linerate_report::Timestamp;
use serde_json::{Map, Value};
use std::fs;

const KEYWORDS: [&str; 17] = [
    "$schema",
    "$id",
    "$defs",
    "$ref",
    "title",
    "description",
    "type",
    "enum",
    "const",
    "format",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "minimum",
];

/// A file under `docs/`.
pub fn read(path: &str) -> String {
    fs::read_to_string(format!("{}/../../../docs/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// What is wrong with `value`, and where.
pub fn errors(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let schema = schema.as_object().unwrap();
    let mut errors: Vec<String> = Vec::new();
    // What is wrong is only put into words if it is: the words have the whole value in them, which may be the document.
    let mut expect = |holds: bool, what: &dyn Fn() -> String| {
        if !holds {
            errors.push(format!("{place}: {}", what()));
        }
    };
    for keyword in schema.keys() {
        expect(KEYWORDS.contains(&keyword.as_str()) || keyword == "anyOf", &|| {
            format!("this test does not know `{keyword}`")
        });
    }
    if let Some(types) = schema.get("type") {
        let types = types.as_array().cloned().unwrap_or_else(|| vec![types.clone()]);
        expect(types.iter().any(|name| is_of_type(value, name.as_str().unwrap())), &|| {
            format!("{value} is not of type {types:?}")
        });
    }
    if let Some(allowed) = schema.get("enum") {
        expect(allowed.as_array().unwrap().contains(value), &|| format!("{value} is not one of {allowed}"));
    }
    if let Some(constant) = schema.get("const") {
        expect(constant == value, &|| format!("{value} is not {constant}"));
    }
    if let (Some(minimum), Some(number)) = (schema.get("minimum"), value.as_f64()) {
        expect(number >= minimum.as_f64().unwrap(), &|| format!("{number} is below {minimum}"));
    }
    if schema.get("format").is_some_and(|format| format == "date-time") {
        expect(value.as_str().unwrap_or("").parse::<Timestamp>().is_ok(), &|| format!("{value} is not a time"));
    }
    if let Some(list) = value.as_array() {
        let bound = |keyword| schema.get(keyword).and_then(Value::as_u64);
        expect(bound("minItems").is_none_or(|least| list.len() as u64 >= least), &|| "too short".to_owned());
        expect(bound("maxItems").is_none_or(|most| list.len() as u64 <= most), &|| "too long".to_owned());
    }
    errors.extend(inner_errors(root, schema, value, place));
    errors
}

/// Descends into references, alternatives, lists and objects.
fn inner_errors(root: &Value, schema: &Map<String, Value>, value: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(reference) = schema.get("$ref") {
        let target = root.pointer(reference.as_str().unwrap().strip_prefix('#').unwrap()).unwrap();
        found.extend(errors(root, target, value, place));
    }
    if let Some(alternatives) = schema.get("anyOf") {
        let mut tried = Vec::new();
        let fits = alternatives.as_array().unwrap().iter().any(|alternative| {
            let errors = errors(root, alternative, value, place);
            let fits = errors.is_empty();
            tried.extend(errors);
            fits
        });
        if !fits {
            found.extend(tried);
        }
    }
    if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
        for (index, item) in list.iter().enumerate() {
            found.extend(errors(root, items, item, &format!("{place}/{index}")));
        }
    }
    let Some(object) = value.as_object() else { return found };
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !object.contains_key(name.as_str().unwrap()) {
            found.push(format!("{place}: {name} is missing"));
        }
    }
    let described = schema.get("properties").and_then(Value::as_object);
    for (name, field) in object {
        let place = format!("{place}/{name}");
        match described.and_then(|fields| fields.get(name)).or(schema.get("additionalProperties")) {
            Some(schema) => found.extend(errors(root, schema, field, &place)),
            None if described.is_some() => found.push(format!("{place}: the schema does not describe it")),
            None => {}
        }
    }
    found
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    }
}

/// The names of all fields that the schema describes.
pub fn field_names(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(object) => {
            if let Some(fields) = object.get("properties").and_then(Value::as_object) {
                names.extend(fields.keys().cloned());
            }
            object.values().for_each(|inner| field_names(inner, names));
        }
        Value::Array(list) => list.iter().for_each(|inner| field_names(inner, names)),
        _ => {}
    }
}
