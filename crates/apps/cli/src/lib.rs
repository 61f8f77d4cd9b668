//! The `linerate` command, as a library: what its subcommands do, so that tests and fuzz targets reach the pure parts.
//!
//! Thin glue over the crates below it. `commands.rs` lists the subcommands, `cmd/NAME.rs` reads the arguments of one.
#![forbid(unsafe_code)]
// They panic where a stream is closed; see linerate-console.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod cmd;
#[cfg_attr(target_os = "freebsd", path = "freebsd/commands.rs")]
pub mod commands;
mod deferred;
pub mod help;
#[cfg(target_os = "linux")]
pub mod lab;
#[cfg(target_os = "linux")]
pub mod ofswitch;
#[cfg(target_os = "linux")]
mod running;
#[cfg(target_os = "linux")]
pub mod switch;
#[cfg(target_os = "linux")]
mod tables;
#[cfg(target_os = "linux")]
pub mod tcp;
