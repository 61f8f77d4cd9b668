//! Findings for people, and as JSON.

use std::fmt::Write;

use serde::Serialize;

use super::facts::Facts;
use super::{Finding, Severity};

/// Version of the JSON document; rises when a reader must change.
pub const SCHEMA: u32 = 1;

/// Width of a line of prose.
const WIDTH: usize = 100;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    findings: &'a [Finding],
    facts: &'a Facts,
}

/// One JSON document: schema, findings, and the facts that they stand on.
pub fn json(facts: &Facts, findings: &[Finding]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(&Document { schema: SCHEMA, findings, facts })
}

/// Text: what is wrong, why it matters and the command, gravest first; then what is good, in short.
pub fn text(facts: &Facts, findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings.iter().filter(|finding| finding.severity != Severity::Good) {
        let Finding { topic, what, why, fix, .. } = finding;
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{:<8} {topic}: {what}", word(finding.severity));
        wrap(why, &mut out);
        if !fix.is_empty() {
            let _ = writeln!(out, "         fix: {fix}");
        }
        out.push('\n');
    }
    let good = findings.iter().filter(|finding| finding.severity == Severity::Good);
    for Finding { topic, what, .. } in good {
        let _ = writeln!(out, "good     {topic}: {what}");
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (problems, warnings, notes) = (count(Severity::Problem), count(Severity::Warning), count(Severity::Note));
    let _ = write!(
        out,
        "\n{} checks on kernel {}: {problems} problems, {warnings} warnings, {notes} notes",
        findings.len(),
        facts.kernel,
    );
    out
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Good => "good",
        Severity::Note => "note",
        Severity::Warning => "WARNING",
        Severity::Problem => "PROBLEM",
    }
}

fn wrap(text: &str, out: &mut String) {
    const INDENT: &str = "         ";
    let mut line = String::from(INDENT);
    for word in text.split_whitespace() {
        if line.len() + word.len() >= WIDTH && line.len() > INDENT.len() {
            let _ = writeln!(out, "{}", line.trim_end());
            line = String::from(INDENT);
        }
        line.push_str(word);
        line.push(' ');
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        vec![
            Finding::warning("eth1 LRO", "on", &"word ".repeat(60)).fix("ethtool -K eth1 lro off"),
            Finding::good("cores", "8"),
        ]
    }

    #[test]
    fn text_shows_the_command_and_stays_narrow() {
        let text = text(&Facts { kernel: "6.1".into(), ..Facts::default() }, &findings());
        assert!(text.starts_with("WARNING  eth1 LRO: on\n"));
        assert!(text.contains("\n         fix: ethtool -K eth1 lro off\n"));
        assert!(text.ends_with("2 checks on kernel 6.1: 0 problems, 1 warnings, 0 notes"));
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
    }

    #[test]
    fn json_names_the_fields() {
        let json = json(&Facts::default(), &findings()).expect("JSON");
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(value["schema"], 1);
        assert_eq!(value["findings"][0]["severity"], "warning");
        assert_eq!(value["findings"][0]["fix"], "ethtool -K eth1 lro off");
        assert!(value["facts"]["cores"]["online"].is_number());
    }
}
