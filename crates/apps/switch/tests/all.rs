//! The tests that can share a process, a module each: one program to link.

mod common;
mod conformance;
mod control;
mod directions;
mod inline;
mod pipes;
mod queues;
mod steering;
mod workers;
