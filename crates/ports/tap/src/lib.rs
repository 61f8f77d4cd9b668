//! TAP devices as ports.
