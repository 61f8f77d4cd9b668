//! What the tests of accounts share: what those of the testbed share, and packets carried through a device.
#![allow(dead_code)] // Each test binary uses its own part.

#[path = "../../../testbed/tests/support/mod.rs"]
mod testbed;

pub mod carry;

pub use testbed::*;
