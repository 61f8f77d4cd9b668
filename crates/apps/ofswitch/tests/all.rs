//! The tests that can share a process, a module each: one program to link.

mod common;
mod controllers;
mod forwarding;
mod hostile;
mod loading;
mod queues;
mod steering;
mod tls;
