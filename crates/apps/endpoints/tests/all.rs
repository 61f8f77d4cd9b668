//! The tests that can share a process, a module each: one program to link.

mod cores;
mod link;
mod listening;
mod names;
mod sockets;
mod tls;
mod two_hosts;
