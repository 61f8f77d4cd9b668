//! What the tests of the stack share: a stack under a virtual clock, a program that does what scenarios say, settings and values by name.
#![allow(dead_code, unused_imports)]

pub mod program;
pub mod settings;
pub mod subject;
pub mod values;

pub use linerate_tcp::machine::Machine;
pub use subject::ScriptSubject;
