//! The tests that can share a process, a module each: one program to link.

mod files;
mod hostile;
