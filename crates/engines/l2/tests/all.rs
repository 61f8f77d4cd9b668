//! The tests that can share a process, a module each: one program to link.

mod hostile;
mod mirror_taps;
mod oracle;
mod semantics;
mod support;
mod workers;
