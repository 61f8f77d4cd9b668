//! Scenarios for TCP stacks, packet by packet: a text says what arrives, what the program does, and what must leave and when.
//!
//! [`Script::parse`] reads the language, which docs/tcp-scripts.md describes; [`run`] plays one [`Scenario`] against a [`Subject`]: a stack with its
//! program under a virtual clock, or a kernel behind a TAP device in real time. The runner plays the peer: it answers ARP and neighbour
//! solicitations, counts sequence numbers from the initial ones of both sides, echoes timestamps and scales windows, so a scenario
//! only says what it is about.
//!
//! ```
//! use linerate_tcpscript::Script;
//! let text = "scenario reset_for_a_closed_port\n< S 0 win 1000\n> RA 0 ack 1\n";
//! assert_eq!(Script::parse(text).unwrap().scenarios[0].steps.len(), 2);
//! assert!(Script::parse("scenario a\n> Q 0\n").unwrap_err().to_string().starts_with("line 2: "));
//! ```
#![forbid(unsafe_code)]

mod expect;
mod flow;
mod frame;
mod parse;
mod pattern;
mod run;
mod script;
mod subject;

pub use parse::ParseError;
pub use pattern::stream_byte;
pub use run::{Failure, run};
pub use script::{
    Action, AppExpectation, Bound, Call, Ecn, EndReason, IcmpError, Message, Numbers, Open, Relation, Scenario, Script,
    Segment, SoftError, Stamp, Step, When,
};
pub use subject::{Endpoints, Event, Subject};
