//! Packets for tests: well-formed ones of all kinds with right checksums, and a slow decoder that shares nothing with the one under test.
#![allow(dead_code)]

pub mod make;
pub mod slow;
