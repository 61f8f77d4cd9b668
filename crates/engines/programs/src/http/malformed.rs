//! What is wrong with bytes that are no HTTP message.

/// Why bytes are not an HTTP/1.1 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The head is none.
    #[error("a malformed head")]
    Head,
    /// The head is too long, or has too many fields.
    #[error("a head of more than 16 KiB or 64 fields")]
    TooLong,
    /// `Content-Length` or `Transfer-Encoding` are wrong, or contradict each other.
    #[error("contradictory lengths of the body")]
    Length,
    /// A chunk is malformed.
    #[error("a malformed chunk")]
    Chunk,
}
