//! The tests that can share a process, a module each: one program to link.

mod basic;
mod common;
mod hidden_numbers;
mod hostile;
mod mechanisms;
mod owed_acks;
mod path_mtu;
mod sharded;
mod support;
mod udp;
