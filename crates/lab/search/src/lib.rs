//! RFC 2544 throughput search as a pure function of a measurer.
//!
//! RFC 2544 section 26.1: "send a specific number of frames at a specific rate through the DUT and then count the frames that are
//! transmitted by the DUT. [...] The throughput is the fastest rate at which the count of test frames transmitted by the DUT is
//! equal to the number of test frames sent to it." This crate decides which rate to try next and when to stop. It opens no
//! port and reads no clock: the caller measures, and tells it what was seen.
//!
//! Read [`Goal`] (what is looked for), then [`Search`] (the state machine), then [`Outcome`] (what was found). [`Search::run`]
//! drives a [`Measurer`]; a caller that shows progress or measures asynchronously uses [`Search::next`] and [`Search::record`].
//!
//! ```
//! use linerate_search::{Goal, Load, Search, Trial};
//!
//! // A device that carries 1.2 Mpps and drops the rest.
//! let goal = Goal::new(Load::from_pps(1_000), Load::from_pps(10_000_000));
//! let mut search = Search::new(goal)?;
//! while let Some(load) = search.next() {
//!     let intended = load.pps();
//!     let lost = intended.saturating_sub(1_200_000);
//!     search.record(Trial { load, duration_ns: 1_000_000_000, intended, unsent: 0, lost })?;
//!     println!("{}", search.bounds());
//! }
//! let outcome = search.outcome();
//! assert!(outcome.lower.unwrap().pps() <= 1_200_000 && outcome.upper.unwrap().pps() > 1_200_000);
//! assert!(outcome.trials.len() <= 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod goal;
mod load;
mod measurer;
pub mod mlr;
mod outcome;
mod search;
mod tally;
mod trial;

pub use goal::{Goal, GoalError};
pub use load::Load;
pub use measurer::{Measurer, RunError};
pub use outcome::{Bounds, Limit, Outcome, Record, Stop};
pub use search::{Reason, Search, Step};
pub use trial::{Trial, TrialError};
