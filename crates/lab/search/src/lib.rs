//! The searches and procedures of the lab as pure functions of a measurer: RFC 2544, MLRsearch (RFC 9971), RFC 9004.
//!
//! RFC 2544 section 26.1: "send a specific number of frames at a specific rate through the DUT and then count the frames that are
//! transmitted by the DUT. [...] The throughput is the fastest rate at which the count of test frames transmitted by the DUT is
//! equal to the number of test frames sent to it." This crate decides which rate to try next and when to stop. It opens no
//! port and reads no clock: the caller measures, and tells it what was seen.
//!
//! Read [`Goal`] (what is looked for), then [`Search`] (the state machine), then [`Outcome`] (what was found). The caller
//! makes a trial at each load that [`Search::next`] asks for, and hands it to [`Search::record`].
//!
//! The others have the same shape, `next` / `record` / `outcome`:
//!
//! | | finds | after |
//! |---|---|---|
//! | [`Search`] | throughput, by bisection | RFC 2544 section 26.1 |
//! | [`mlr::Search`] | several throughputs in one pass | RFC 9971 |
//! | [`frame_loss`] | loss against offered load | RFC 2544 section 26.3 |
//! | [`back_to_back`] | longest burst without loss, and the buffer behind it | RFC 2544 section 26.4, RFC 9004 |
//! | [`recovery`] | the loads of an overload and of the time after it | RFC 2544 section 26.5 |
//! | [`no_loss`] | a load that one trial carries without any loss | RFC 2544 section 26.1, without its search |
//! | [`max_forwarding_rate`] | highest rate delivered at any load | RFC 2285 section 3.6.3, RFC 2889 |
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
//!     search.record(Trial { load, duration_ns: 1_000_000_000, intended, unsent: 0, lost, lost_in_interruptions: 0 })?;
//!     println!("{}", search.bounds());
//! }
//! let outcome = search.outcome();
//! assert!(outcome.lower.unwrap().pps() <= 1_200_000 && outcome.upper.unwrap().pps() > 1_200_000);
//! assert!(outcome.trials.len() <= 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod back_to_back;
pub mod frame_loss;
mod goal;
mod load;
pub mod max_forwarding_rate;
pub mod mlr;
pub mod no_loss;
mod outcome;
pub mod recovery;
mod search;
mod statistics;
mod step;
mod tally;
mod trial;

pub use goal::{Goal, GoalError};
pub use load::Load;
pub use outcome::{Bounds, Limit, Outcome, Record, Stop};
pub use search::Search;
pub use statistics::{PlanError, Statistics};
pub use step::{Reason, Step};
pub use trial::{Trial, TrialError};
