//! Port, caps, port specs, statistics.
