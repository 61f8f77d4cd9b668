//! What every result names: the program that measured, the device under test, and what the user wanted to reach.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
