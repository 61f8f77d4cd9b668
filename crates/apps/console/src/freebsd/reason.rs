//! Why the queues of an interface get unequal shares of its packets: drivers do not tell on FreeBSD.

/// Not known.
pub fn known_reason(_port: &str) -> Option<String> {
    None
}
