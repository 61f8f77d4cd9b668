//! The tests that can share a process, a module each: one program to link.

mod checksum;
mod common;
mod hostile;
mod hostile_frames;
mod layout;
mod offloads;
mod roundtrip;
mod tshark;
mod tunnels;
