//! The tests that can share a process, a module each: one program to link.

mod golden;
mod hostile_messages;
#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;
