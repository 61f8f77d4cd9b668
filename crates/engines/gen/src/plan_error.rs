//! What can be wrong with the description of a stream.

use linerate_wire::BuildError;

/// Why a stream cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The layers do not make a frame of that length.
    #[error("{0}")]
    Build(#[from] BuildError),
    /// No length was given, or the lengths need too much memory.
    #[error("{0}")]
    Lens(String),
    /// A rule names a field that is not there, or one that cannot vary.
    #[error("field {name}: {problem}")]
    Field {
        /// The name as given.
        name: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The signature does not fit behind the headers.
    #[error(
        "a frame of {len} bytes (without FCS) has {room} bytes behind its headers, a signature needs 16: \
         use frames of at least {least} bytes, or no signature"
    )]
    NoRoomForSignature {
        /// Length of the frame.
        len: usize,
        /// Bytes behind its headers.
        room: usize,
        /// Length from which on it fits.
        least: usize,
    },
}
