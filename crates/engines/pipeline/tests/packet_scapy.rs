//! Random packets and random lists of actions: the bytes, checksums included, are those that scapy makes of them (`scapy/cases.py`).

use super::python;

use linerate_openflow::Match;
use linerate_openflow_text::parse_actions;
use linerate_pipeline::packet::{Headers, PipelineFields, apply};
use serde_json::Value;

use python::bytes;

/// Packets, and the seed of their numbers.
const CASES: [&str; 2] = ["1500", "13"];

#[test]
fn actions_make_what_scapy_makes() {
    let Some(text) = cases() else { return };
    let mut count = 0;
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (before, expected) = (bytes(&case["packet"]), bytes(&case["expected"]));
        let mut packet = before.clone();
        let (mut headers, mut fields) = (Headers::parse(&packet), PipelineFields::default());
        for action in case["actions"].as_array().unwrap() {
            let parsed = parse_actions(action.as_str().unwrap(), &Match::default()).unwrap();
            for action in &parsed {
                apply(action, &mut packet, &mut headers, &mut fields).unwrap();
            }
        }
        assert!(
            packet == expected,
            "{}\npacket {before:02x?}\nwanted {expected:02x?}\ngot    {packet:02x?}",
            case["actions"]
        );
        count += 1;
    }
    assert_eq!(count.to_string(), CASES[0]);
}

/// The cases as JSON lines; `None`, and the reason printed, without scapy. `LINERATE_SCAPY_PYTHON` names a Python that has it.
fn cases() -> Option<String> {
    let python = std::env::var("LINERATE_SCAPY_PYTHON").unwrap_or_else(|_| "python3".into());
    python::cases(&python, "scapy/cases.py", &CASES, "scapy is not installed (pip install scapy)")
}
