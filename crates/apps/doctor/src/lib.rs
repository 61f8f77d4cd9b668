//! `linerate doctor`: looks at the host as someone who tunes packet paths would.
//!
//! [`gather`] reads facts, the modules below judge them. A judgement is a pure function from facts to findings, so each is
//! tested with facts written by hand.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod facts;
pub mod gather;
pub mod show;
mod timestamps;

mod cores;
mod drops;
mod interfaces;
mod kernel;
mod memory;
mod pci;
mod rights;
mod rss;

use serde::Serialize;

use facts::Facts;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Good,
    /// Worth knowing when results are read; nothing is wrong.
    Note,
    /// Costs packets or makes results vary.
    Warning,
    /// Something cannot work, or results are wrong.
    Problem,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What was looked at: `huge pages`, `eth1 ring sizes`.
    pub topic: String,
    /// What was found.
    pub what: String,
    /// Why it matters for packet rates.
    pub why: String,
    /// The command that changes it; empty where nothing needs to be or can be done.
    pub fix: String,
}

impl Finding {
    fn new(severity: Severity, topic: &str, what: impl Into<String>, why: &str) -> Finding {
        Finding { severity, topic: topic.into(), what: what.into(), why: why.into(), fix: String::new() }
    }

    fn good(topic: &str, what: impl Into<String>) -> Finding {
        Finding::new(Severity::Good, topic, what, "")
    }

    fn note(topic: &str, what: impl Into<String>, why: &str) -> Finding {
        Finding::new(Severity::Note, topic, what, why)
    }

    fn warning(topic: &str, what: impl Into<String>, why: &str) -> Finding {
        Finding::new(Severity::Warning, topic, what, why)
    }

    fn problem(topic: &str, what: impl Into<String>, why: &str) -> Finding {
        Finding::new(Severity::Problem, topic, what, why)
    }

    fn fix(mut self, command: impl Into<String>) -> Finding {
        self.fix = command.into();
        self
    }
}

/// All findings about a host, the gravest first, otherwise in the order in which they were looked at.
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(rights::check(facts));
    findings.extend(memory::check(facts));
    findings.extend(cores::check(facts));
    findings.extend(kernel::check(facts));
    findings.extend(drops::check(facts));
    findings.extend(pci::check(facts));
    for interface in &facts.interfaces {
        findings.extend(interfaces::check(interface, facts));
        findings.extend(rss::check(interface));
        findings.extend(timestamps::check(interface));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The finding about a topic.
    pub fn about<'a>(findings: &'a [Finding], topic: &str) -> &'a Finding {
        findings.iter().find(|finding| finding.topic == topic).unwrap_or_else(|| panic!("nothing about {topic}"))
    }

    #[test]
    fn the_gravest_come_first_and_each_says_why() {
        let findings = examine(&Facts::default());
        assert!(findings.windows(2).all(|pair| pair[0].severity >= pair[1].severity));
        for finding in findings {
            assert!(finding.severity == Severity::Good || !finding.why.is_empty(), "{finding:?}");
            assert!(!finding.what.is_empty() && !finding.topic.is_empty());
        }
    }

    #[test]
    fn this_host_can_be_looked_at() {
        let findings = examine(&gather::gather(&[]).expect("facts"));
        assert!(findings.iter().any(|finding| finding.topic == "huge pages"));
    }
}
