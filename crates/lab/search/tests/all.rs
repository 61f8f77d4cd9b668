//! The tests that can share a process, a module each: one program to link.

mod common;
mod devices;
mod mlr;
mod procedures;
mod rfc9971;
