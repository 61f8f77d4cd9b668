//! The result document: everything that one run found, and where.

use crate::{Baseline, Environment, Throughput, Timestamp, Trial};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name and version of the document's format. Fields may be added within a version; none is removed or changes its meaning.
pub const SCHEMA: &str = "linerate.bench/1";

/// Everything that one run found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// A short name of the run, used for its folder.
    pub name: String,
    /// What measured.
    pub tool: Tool,
    /// When the run began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// Where the work of the DUT ran, in words: `DUT NAPI threaded on core 1`, `shared core`, `in-process link`.
    pub mode: String,
    /// What was measured.
    #[serde(default)]
    pub dut: Option<Dut>,
    /// The same path without the DUT.
    #[serde(default)]
    pub baseline: Option<Baseline>,
    /// What the searches found.
    pub throughput: Vec<Throughput>,
    /// Every trial, in order.
    pub trials: Vec<Trial>,
    /// What the user wanted to reach.
    pub goals: Vec<Goal>,
    /// Where it was measured.
    pub environment: Environment,
    /// What makes the result doubtful.
    pub warnings: Vec<String>,
}

impl Document {
    /// An empty document of this version.
    pub fn new(name: impl Into<String>, tool: Tool, started: Timestamp) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            name: name.into(),
            tool,
            started,
            ended: started,
            mode: String::new(),
            dut: None,
            baseline: None,
            throughput: Vec::new(),
            trials: Vec::new(),
            goals: Vec::new(),
            environment: Environment::default(),
            warnings: Vec::new(),
        }
    }

    /// Whether every goal was met; true when there is none. Decides between exit codes 0 and 1.
    pub fn goals_met(&self) -> bool {
        self.goals.iter().all(|goal| goal.met)
    }
}

/// The program that measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Tool {
    /// A tool.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into() }
    }
}

/// The device under test.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dut {
    /// What it is.
    pub name: String,
    /// Its version.
    #[serde(default)]
    pub version: Option<String>,
    /// How it was set up.
    #[serde(default)]
    pub configuration: BTreeMap<String, String>,
}

/// Something that the user wanted to reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    /// What it is about.
    pub name: String,
    /// What was wanted, with its unit: `at least 1.200 Mpps`.
    pub wanted: String,
    /// What was measured, with its unit; `None` when it could not be.
    pub measured: Option<String>,
    /// Whether it was reached. A goal that could not be measured was not.
    pub met: bool,
}

/// The document as JSON: indented, one line end at the end. Numbers that are not finite become `null`.
pub fn json(document: &Document) -> String {
    // No map of a document has keys other than strings, and nothing is written but memory: this cannot fail.
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    text
}
