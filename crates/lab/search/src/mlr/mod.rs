//! Multiple Loss Ratio search (MLRsearch, RFC 9971): throughput for several goals in one pass.
//!
//! A [`Goal`] says which share of packets may be lost, in which share of the trials, and how long a load has to be tried. Every
//! trial counts for every goal. A load is a *lower bound* of a goal once no trial that is still to come could undo it within the
//! goal's duration sum, an *upper bound* once none could save it, else undecided ([`DurationSums::classify`]). The result of a
//! goal is its *relevant* bounds: the smallest upper bound, and the largest lower bound below that.
//!
//! Read [`Goal`], then `tally.rs` (the classification), `database.rs` (bounds), `target.rs` (short trials before long ones),
//! `choice.rs` and its strategies (which load next), [`Search`] (the state machine), [`Outcome`].
//!
//! ```
//! use linerate_search::mlr::{Goal, Limits, Order, Search};
//! use linerate_search::{Load, Trial};
//!
//! // A device that carries 1.2 Mpps and drops the rest.
//! let limits = Limits::new(Load::from_pps(1_000), Load::from_pps(10_000_000));
//! let mut search = Search::new(limits, vec![Goal::ndr(), Goal::pdr()])?;
//! while let Some(Order { load, duration_ns }) = search.next() {
//!     let intended = load.pps() * duration_ns / 1_000_000_000;
//!     let lost = intended - intended.min(1_200_000 * duration_ns / 1_000_000_000);
//!     search.record(Trial { load, duration_ns, intended, unsent: 0, lost, lost_in_interruptions: 0 })?;
//! }
//! let ndr = &search.outcome().goals[0];
//! assert!(ndr.lower.unwrap().pps() <= 1_200_000 && ndr.upper.unwrap().pps() > 1_200_000);
//! assert!(ndr.is_regular());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/search.md` tells the order of loads and what it saves; `tests/synthetic.rs` measures it.
//!
//! # Where this differs from the RFC, or chooses
//! - The Trial Effective Duration is the trial's duration: what surrounds a trial is not counted.
//! - Conditional throughput takes the quantile over the sum of the full-length trials, as the RFC's text does. The code of its
//!   appendix takes it over the goal's duration sum where that is longer, which pads it with total loss.
//! - Goal width is relative to the upper bound: `upper - lower <= width * upper`, or 1 pps.
//! - In the RFC's example search the load is called a lower bound for the goal "20% exceed" at points 5 and 6, against the rules
//!   and the printed ratios (42.857 % and 27.273 %). The rules count here: an upper bound.
//! - A first trial at the maximum whose result is thrown away (FD.io CSIT's warm-up) is left to the caller.

mod choice;
mod database;
mod goal;
mod outcome;
mod search;
mod step;
mod strategy;
mod tally;
mod target;
mod view;

pub use goal::{Goal, GoalError, Limits};
pub use outcome::{GoalOutcome, Outcome, Record};
pub use search::Search;
pub use step::{Order, Step};
pub use tally::{DurationSums, LoadClass, conditional_throughput_pps};
pub use view::Reason;
