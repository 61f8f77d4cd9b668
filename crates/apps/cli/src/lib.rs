//! The `linerate` command, as a library: what its subcommands do, so that tests and fuzz targets reach the pure parts.
//!
//! Thin glue over the crates below it. `main.rs` picks the subcommand, `cmd/NAME.rs` reads its arguments.
#![forbid(unsafe_code)]
// They panic where a stream is closed; see linerate-console.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod cmd;
pub mod help;
pub mod lab;
pub mod ofswitch;
mod running;
pub mod switch;
pub mod tcp;
