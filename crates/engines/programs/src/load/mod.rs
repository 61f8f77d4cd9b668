//! The stateful load generator: connections and requests by a schedule or in loops, and an account of each.
//!
//! ```text
//! config.rs    flags and files -> Plan          url.rs schedule.rs: their words
//! plan.rs      what is to be done, checked      account.rs meters.rs: what became of it
//! client.rs    the program that does it         begin.rs timers.rs connection.rs answer.rs wrong.rs datagrams.rs: its parts
//! ```

mod account;
mod answer;
mod begin;
mod client;
mod config;
mod connection;
mod datagrams;
mod document;
mod meters;
mod plan;
mod random;
mod schedule;
mod timers;
mod url;
mod wrong;

pub use account::{Account, Cause, Loss, Tally};
pub use client::{Client, Stage};
pub use config::{Config, RequestConfig, Text};
pub use document::{KindDocument, LoadDocument, LoadReading, Times};
pub use meters::{FirstWrong, KindMeters, Meters};
pub use plan::{Answer, Expected, Kind, Pacing, Plan, Target};
pub use schedule::{Gaps, Piece, Rate, Timetable};
pub use url::{Host, Scheme, Url};

#[cfg(test)]
mod tests;
