//! The account of a trial: `intended = unsent + sent`, and `sent = delivered + lost at places + unexplained`.

use serde::Serialize;

use crate::counters::Difference;
use crate::places::{self, Losses, PortRows, Row};

/// What the sender and the receiver of a trial counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets that the schedule asked for.
    pub intended: u64,
    /// Packets that the port took over for good: every packet that it gave up and every packet that the interface
    /// refused and that was not sent again belongs to these.
    pub sent: u64,
    /// Packets that the receiving port gave out, whatever they were.
    pub received: u64,
    /// Distinct packets of this trial among them.
    pub delivered: u64,
    /// Further copies of those.
    pub duplicated: u64,
    /// Packets that came after a later one.
    pub reordered: u64,
}

/// The account. Fields in the order and with the names of the JSON report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// Packets that the schedule asked for.
    pub intended: u64,
    /// Packets that the generator did not get to send.
    pub unsent: u64,
    /// Packets sent.
    pub sent: u64,
    /// Distinct packets that arrived.
    pub delivered: u64,
    /// Further copies of those.
    pub duplicated: u64,
    /// Packets that came after a later one.
    pub reordered: u64,
    /// Packets lost, by place and cause, in path order.
    pub lost: Vec<Row>,
    /// What is left of `sent`. Negative when more losses were counted than packets are missing: then a counter includes
    /// something that was not sent in this trial.
    pub unexplained: i64,
    /// Of the unexplained ones, those whose place is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unexplained_places: Vec<Row>,
}

impl Ledger {
    /// Packets in all rows of `lost`.
    pub fn lost_packets(&self) -> u64 {
        self.lost.iter().map(|row| row.packets).sum()
    }
}

/// Closes the account of a trial. `difference` is what the counters of the path added; none on a path without any (an
/// in-process link).
///
/// ```
/// use linerate_lab::ledger::{Counts, account};
/// use linerate_lab::places::{PortRows, Row};
///
/// let counts = Counts { intended: 100, sent: 90, received: 85, delivered: 85, ..Counts::default() };
/// let ports = PortRows { receiver: vec![Row::new("ring", "ring full", 5)], ..PortRows::default() };
/// let ledger = account(&counts, None, &ports);
/// assert_eq!((ledger.unsent, ledger.lost_packets(), ledger.unexplained), (10, 5, 0));
/// ```
pub fn account(counts: &Counts, difference: Option<&Difference>, ports: &PortRows) -> Ledger {
    let losses = match difference {
        Some(difference) => places::losses(difference, counts.sent, counts.received, ports),
        None => {
            let rows = ports.generator.iter().chain(&ports.receiver).filter(|row| row.packets > 0);
            Losses { rows: rows.cloned().collect(), unnamed: Vec::new() }
        }
    };
    let lost: u64 = losses.rows.iter().map(|row| row.packets).sum();
    Ledger {
        intended: counts.intended,
        unsent: counts.intended.saturating_sub(counts.sent),
        sent: counts.sent,
        delivered: counts.delivered,
        duplicated: counts.duplicated,
        reordered: counts.reordered,
        lost: losses.rows,
        unexplained: signed(counts.sent) - signed(counts.delivered) - signed(lost),
        unexplained_places: losses.unnamed,
    }
}

fn signed(packets: u64) -> i64 {
    i64::try_from(packets).unwrap_or(i64::MAX)
}
