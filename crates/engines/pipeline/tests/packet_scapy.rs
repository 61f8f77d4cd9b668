//! Random packets and random lists of actions: the bytes, checksums included, are those that scapy makes of them (`scapy/cases.py`).

use std::process::Command;

use linerate_openflow::Match;
use linerate_openflow::text::parse_actions;
use linerate_pipeline::packet::{Headers, PipelineFields, apply};
use serde_json::Value;

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
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scapy/cases.py");
    let output = match Command::new(&python).arg(script).args(CASES).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: python3 is not installed");
            return None;
        }
        Err(error) => panic!("{python}: {error}"),
    };
    if output.status.code() == Some(3) {
        println!("skipped: scapy is not installed (pip install scapy)");
        return None;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

fn bytes(hex: &Value) -> Vec<u8> {
    let text = hex.as_str().unwrap().as_bytes();
    text.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
