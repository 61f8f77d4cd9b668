//! The tests that can share a process, a module each: one program to link.

mod captures;
mod errors;
mod estimate;
mod flow_switches;
mod hostile;
mod ip_versions;
mod kinds;
mod render;
mod roundtrip;
mod shipped;
