//! What TLS under a program tells of itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What TLS tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsDocument {
    /// Handshakes that came to their end.
    pub handshakes: u64,
    /// Connections that ended by an error of TLS, or before the end of the handshake.
    pub failed: u64,
    /// Those, by what was wrong.
    pub errors: BTreeMap<String, u64>,
}

/// Most errors that are told apart, since their words may be the peer's.
const ERRORS_MAX: usize = 32;

impl TlsDocument {
    /// Adds the counts of another core.
    pub fn add(&mut self, other: &TlsDocument) {
        self.handshakes += other.handshakes;
        self.failed += other.failed;
        for (error, times) in &other.errors {
            *self.errors.entry(error.clone()).or_default() += times;
        }
    }

    /// Counts a connection that failed.
    pub fn fail(&mut self, error: &str) {
        self.failed += 1;
        let error = if self.errors.len() < ERRORS_MAX || self.errors.contains_key(error) { error } else { "others" };
        *self.errors.entry(error.to_owned()).or_default() += 1;
    }
}
