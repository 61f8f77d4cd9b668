//! The tests that can share a process, a module each: one program to link.

mod config;
mod hostile;
mod in_turn;
mod packets;
mod replay;
