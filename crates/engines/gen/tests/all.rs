//! The tests that can share a process, a module each: one program to link.

mod in_turn;
mod packets;
mod replay;
