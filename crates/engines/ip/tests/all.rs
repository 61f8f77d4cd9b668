//! The tests that can share a process, a module each: one program to link.

mod fast;
mod hostile;
mod kernel;
mod names_and_leases;
mod neighbours;
mod packets;
mod support;
