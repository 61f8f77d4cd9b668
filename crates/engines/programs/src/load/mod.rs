//! The stateful load generator: connections and requests by a schedule or in loops, and an account of each.
//!
//! ```text
//! linerate-load   flags and files -> Plan: what is to be done, checked
//! schedule.rs  when it is due                   account.rs meters.rs: what became of it
//! client.rs    the program that does it         begin.rs timers.rs connection.rs answer.rs wrong.rs datagrams.rs: its parts
//! ```

mod account;
mod answer;
mod begin;
mod client;
mod connection;
mod datagrams;
mod document;
mod meters;
mod random;
mod schedule;
mod timers;
mod wrong;

pub use account::{Account, Cause, Loss, Tally};
pub use client::{Client, Stage};
pub use document::{KindDocument, LoadDocument, LoadReading, Times};
pub use linerate_load::{
    Answer, Config, Expected, Gaps, Host, Kind, Pacing, Piece, Plan, Rate, RequestConfig, Scheme, Target, Text, Url,
};
pub use meters::{FirstWrong, KindMeters, Meters};
pub use schedule::Timetable;

#[cfg(test)]
mod tests;
