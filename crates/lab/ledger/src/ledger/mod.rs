//! The account of a trial: `intended = unsent + sent`, and `sent = delivered + lost at places + unexplained`.
//!
//! The arithmetic is [`linerate_report::Account`]'s; here the losses come together: those that counters of the path show
//! ([`crate::attribution`]) and those that the ports know themselves.

pub mod remarks;

use linerate_report::{Account, AccountError, Counted, Loss};

use crate::attribution::{self, Direction, Losses, PortRows};
use crate::counters::Difference;
use crate::drops::hints;
use linerate_testbed::switches::SwitchCounters;

/// What the ends of a trial counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ends {
    /// Packets by the sender's and the receiver's own count. `sent` is what the port took over for good: packets that it gave
    /// up later, and packets that the interface refused and that were not sent again, belong to it.
    pub counted: Counted,
    /// Frames that the receiving port gave out, whatever they were: delivered ones, duplicates and other traffic.
    pub received: u64,
}

/// A closed account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    /// Where every packet went.
    pub account: Account,
    /// Of the unexplained packets, those whose place is known and whose cause is not.
    pub unnamed: Vec<Loss>,
    /// Drops that the kernel tells of and that the path's totals do not miss, in words.
    pub contradictions: Vec<String>,
}

impl Ledger {
    /// A sentence for each place where packets were lost without a cause.
    pub fn unnamed_notes(&self) -> impl Iterator<Item = String> + '_ {
        let lost = self.unnamed.iter().filter(|loss| loss.packets > 0);
        lost.map(|loss| format!("{} packets lost {}: no counter names the cause", loss.packets, loss.place))
    }
}

/// Closes the account of a trial. `difference` is what the counters of the path added; none on a path without any (an
/// in-process link).
///
/// ```
/// use linerate_ledger::ledger::{Ends, close};
/// use linerate_ledger::attribution::PortRows;
/// use linerate_report::{Counted, Loss};
///
/// let counted = Counted { intended: 100, sent: 90, delivered: 85, ..Counted::default() };
/// let ports = PortRows { receiver: vec![Loss::new("ring", "ring full", 5)], ..PortRows::default() };
/// let account = close(&Ends { counted, received: 85 }, None, &ports)?.account;
/// assert_eq!((account.unsent(), account.lost_total(), account.unexplained()), (10, 5, 0));
/// # Ok::<(), linerate_report::AccountError>(())
/// ```
///
/// # Errors
/// As [`Account::new`]: more sent than intended.
pub fn close(ends: &Ends, difference: Option<&Difference>, ports: &PortRows) -> Result<Ledger, AccountError> {
    close_ways((ends, ports), None, difference)
}

/// As [`close`] for load in one direction or both at once: the sums of the two. The kernel's totals inside a DUT do not tell
/// directions apart, so its losses cannot be kept by direction; what the ends counted can.
///
/// # Errors
/// As [`close`].
pub fn close_ways(
    forward: (&Ends, &PortRows),
    backward: Option<(&Ends, &PortRows)>,
    difference: Option<&Difference>,
) -> Result<Ledger, AccountError> {
    let way = |(ends, ports): (&Ends, _)| of_way(ends, ports);
    let losses = match difference {
        Some(difference) => attribution::losses_of_ways(difference, way(forward), backward.map(way)),
        None => {
            let ports = [Some(forward), backward].into_iter().flatten().map(|(_, ports)| ports);
            let mut rows: Vec<Loss> =
                ports.flat_map(|ports| [ports.generator.as_slice(), &ports.receiver].concat()).collect();
            hints::add(&mut rows);
            Losses { rows, ..Losses::default() }
        }
    };
    of_losses(forward, backward, losses)
}

/// As [`close_ways`] on a path of shared memory, through a switch of which this was added to the account.
///
/// # Errors
/// As [`close`].
pub fn close_over_memory(
    forward: (&Ends, &PortRows),
    backward: Option<(&Ends, &PortRows)>,
    switch: &SwitchCounters,
) -> Result<Ledger, AccountError> {
    let ways: Vec<Direction<'_>> =
        [Some(forward), backward].into_iter().flatten().map(|(ends, ports)| of_way(ends, ports)).collect();
    of_losses(forward, backward, attribution::losses_over_memory(switch, &ways))
}

fn of_losses(
    forward: (&Ends, &PortRows),
    backward: Option<(&Ends, &PortRows)>,
    losses: Losses,
) -> Result<Ledger, AccountError> {
    let counted = match backward {
        Some((backward, _)) => sum(forward.0.counted, backward.counted),
        None => forward.0.counted,
    };
    let (unnamed, contradictions) = (losses.unnamed.clone(), losses.contradictions.clone());
    let rows = losses.rows_of(counted.sent.saturating_sub(counted.delivered));
    Ok(Ledger { account: Account::new(counted, rows)?, unnamed, contradictions })
}

fn of_way<'a>(ends: &Ends, ports: &'a PortRows) -> Direction<'a> {
    let counted = &ends.counted;
    let known = counted.delivered + counted.duplicated + ports.other_streams;
    Direction { sent: counted.sent, received: ends.received, unknown: ends.received.saturating_sub(known), ports }
}

fn sum(one: Counted, other: Counted) -> Counted {
    Counted {
        intended: one.intended + other.intended,
        sent: one.sent + other.sent,
        delivered: one.delivered + other.delivered,
        duplicated: one.duplicated + other.duplicated,
        reordered: one.reordered + other.reordered,
    }
}
