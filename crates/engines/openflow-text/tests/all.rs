//! The tests that can share a process, a module each: one program to link.

mod hostile_text;
#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;
mod ovs_ofctl;
mod text;
