//! Why pkt-gen did not start.

use std::fmt;

use linerate_port::OpenError;

use super::options::UsageError;

/// Why a run did not start.
#[derive(Debug)]
pub struct StartError(pub(super) String);

impl fmt::Display for StartError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl From<UsageError> for StartError {
    fn from(error: UsageError) -> StartError {
        StartError(error.to_string())
    }
}

impl From<OpenError> for StartError {
    fn from(error: OpenError) -> StartError {
        StartError(error.to_string())
    }
}

impl From<std::io::Error> for StartError {
    fn from(error: std::io::Error) -> StartError {
        StartError(error.to_string())
    }
}
