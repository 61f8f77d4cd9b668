//! The matches and actions of os-ken's certification suite, on the functions that do them: no switch, no traffic. `conformance/` runs the whole
//! suite against the switch.

use super::python;

use linerate_classify::Rule;
use linerate_openflow::{Action, Field, FieldMatch, Match};
use linerate_pipeline::packet::{Headers, PipelineFields, apply, compile_match};
use serde_json::Value;

use python::bytes;

#[test]
fn every_match_and_action_of_the_suite_does_what_it_wants() {
    let Some(text) = cases() else { return };
    let mut failed = Vec::new();
    let mut count = 0;
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        count += 1;
        let (wanted, got) = (wanted(&case), run(&case));
        if wanted != got {
            failed.push(format!("{} {}\n  wanted {wanted:02x?}\n  got    {got:02x?}", case["file"], case["name"]));
        }
    }
    assert!(failed.is_empty(), "{} of {count} failed:\n{}", failed.len(), failed.join("\n"));
    assert_eq!(count, 940, "cases of match/ and action/");
}

/// What a case comes to: the port, 0 for the controller, and the packet; `None` for a packet that no entry matches.
type Outcome = Option<(u64, Vec<u8>)>;

fn wanted(case: &Value) -> Outcome {
    let packet = || bytes(&case["result"]);
    match case["wanted"].as_str().unwrap() {
        "egress" => Some((2, packet())),
        "PACKET_IN" => Some((0, packet())),
        _ => None,
    }
}

fn run(case: &Value) -> Outcome {
    let mut packet = bytes(&case["packet"]);
    let mut fields = PipelineFields { in_port: 1, in_phy_port: 1, ..Default::default() };
    let mut headers = Headers::parse(&packet);
    let mut table = 0;
    let flows = case["flows"].as_array().unwrap();
    'tables: while let Some(flow) = flows.iter().find(|flow| flow["table"] == table) {
        let (value, mask) = compile_match(&match_of(&flow["match"]));
        let rule = Rule { value, mask, priority: 1, id: 1 };
        if !rule.matches(&headers.key(&packet, &fields)) {
            break;
        }
        for step in flow["steps"].as_array().unwrap() {
            match step[0].as_str().unwrap() {
                "goto" => {
                    table = step[1].as_u64().unwrap();
                    continue 'tables;
                }
                "metadata" => {
                    let (value, mask) = (number(&step[1]) as u64, number(&step[2]) as u64);
                    fields.metadata = fields.metadata & !mask | value & mask;
                }
                "OFPActionOutput" => {
                    // The controller's number comes with the length that it wants.
                    let port = step.as_array().unwrap().iter().skip(1).filter_map(Value::as_u64).max().unwrap();
                    return Some((if port == 2 { 2 } else { 0 }, packet));
                }
                _ => apply(&action(step), &mut packet, &mut headers, &mut fields).unwrap(),
            }
        }
        break;
    }
    None
}

fn match_of(fields: &Value) -> Match {
    let fields = fields.as_array().unwrap().iter().map(|one| FieldMatch {
        field: field(&one[0]),
        value: number(&one[1]),
        mask: (!one[2].is_null()).then(|| number(&one[2])),
    });
    Match::new(fields.collect())
}

fn action(step: &Value) -> Action {
    let argument = step[1].as_u64().unwrap_or(0);
    match step[0].as_str().unwrap() {
        "set_field" => Action::SetField(field(&step[1]), number(&step[2])),
        "OFPActionCopyTtlOut" => Action::CopyTtlOut,
        "OFPActionCopyTtlIn" => Action::CopyTtlIn,
        "OFPActionSetMplsTtl" => Action::SetMplsTtl(argument as u8),
        "OFPActionDecMplsTtl" => Action::DecMplsTtl,
        "OFPActionPushVlan" => Action::PushVlan(argument as u16),
        "OFPActionPopVlan" => Action::PopVlan,
        "OFPActionPushMpls" => Action::PushMpls(argument as u16),
        "OFPActionPopMpls" => Action::PopMpls(argument as u16),
        "OFPActionSetNwTtl" => Action::SetNwTtl(argument as u8),
        "OFPActionDecNwTtl" => Action::DecNwTtl,
        "OFPActionPushPbb" => Action::PushPbb(argument as u16),
        "OFPActionPopPbb" => Action::PopPbb,
        other => panic!("{other} is no action that is known here"),
    }
}

fn field(name: &Value) -> Field {
    Field::all().find(|field| field.name() == name).unwrap_or_else(|| panic!("no field {name}"))
}

fn number(text: &Value) -> u128 {
    match text {
        Value::String(text) => text.parse().unwrap(),
        other => other.as_u64().unwrap().into(),
    }
}

/// The cases as JSON lines; `None`, and the reason printed, without os-ken.
fn cases() -> Option<String> {
    let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target/conformance/venv/bin/python3");
    let python = if std::path::Path::new(installed).exists() { installed } else { "python3" };
    python::cases(python, "os_ken/cases.py", &[], "os-ken is not installed (conformance/of13.py installs it)")
}
