//! The checks, in the order in which they run. Each file is one subject of the contract.

mod checksums;
mod counters;
mod counting;
mod disturbed;
mod filling;
mod frames;
mod order;
mod peer;
mod processes;
mod refusals;
mod segments;
mod shown;
mod waiting;

use crate::{Harness, Outcome};

/// A check: an error is a breach of the contract.
pub(crate) type Check = fn(&mut dyn Harness) -> Result<Outcome, String>;

pub(crate) const CHECKS: &[(&str, Check)] = &[
    ("order and content", order::order_and_content),
    ("vlan tags", order::vlan_tags),
    ("both directions", order::both_directions),
    ("between threads", order::between_threads),
    ("ring wrap", filling::ring_wrap),
    ("partial transmit", filling::partial_transmit),
    ("small batches", filling::small_batches),
    ("counters balance", counters::balance),
    ("timestamps", counters::timestamps),
    ("frames come back", frames::come_back),
    ("pool runs dry", frames::pool_runs_dry),
    ("packets of several slots", segments::whole_packets),
    ("partial checksums", checksums::completed),
    ("shown packets", shown::shown),
    ("counted packets", counting::counted),
    ("frame too long", refusals::frame_too_long),
    ("foreign pool", refusals::foreign_pool),
    ("wait", waiting::wait),
    ("end", waiting::end),
    ("receiver gone", peer::receiver_gone),
    ("sender gone", peer::sender_gone),
    ("interface down", disturbed::down),
    ("interface deleted", disturbed::deleted),
    ("killed process", processes::killed),
];

/// Names of all checks, in their order.
pub fn check_names() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|(name, _)| *name)
}

fn passed(text: impl Into<String>) -> Result<Outcome, String> {
    Ok(Outcome::Passed(text.into()))
}

fn not_applicable(text: impl Into<String>) -> Result<Outcome, String> {
    Ok(Outcome::NotApplicable(text.into()))
}

const BLIND: &str = "nothing receives what this port sends";
