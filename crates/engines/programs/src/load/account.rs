//! The account of a load, in connections and in requests: each that was meant to be made is in one row, and the rows add up.

use serde::{Deserialize, Serialize};

linerate_measure::named! {
    /// Why a connection or a request that was begun did not come to its end.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Cause {
        /// The server refused the connection (RST to the SYN, or port unreachable).
        Refused = "refused",
        /// The server reset the connection.
        Reset = "reset",
        /// Nothing came in time.
        TimedOut = "timed out",
        /// A router or the own neighbour table says that there is no way.
        Unreachable = "unreachable",
        /// TLS failed: a certificate is not trusted, or the server does not speak it.
        Tls = "TLS failed",
        /// The server closed the connection before it answered.
        Closed = "closed before the answer",
        /// The client closed the connection at the end of the run, and the server did not.
        Unclosed = "not closed by the server",
        /// The answer was not one of the protocol, or not the expected one.
        WrongAnswer = "wrong answer",
        /// The run ended first.
        Unfinished = "unfinished at the end",
    }
}

/// Counts while the load runs. Each number is counted where it happens; none is derived from the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Asked for by the schedule, or by whoever loops.
    pub intended: u64,
    /// Begun.
    pub begun: u64,
    /// Come to their end.
    pub completed: u64,
    /// Lost, by the order of [`Cause::ALL`].
    pub lost: [u64; Cause::ALL.len()],
}

impl Tally {
    /// Counts one that is begun.
    #[inline]
    pub fn begin(&mut self) {
        self.begun += 1;
    }

    /// Counts one that came to its end.
    #[inline]
    pub fn complete(&mut self) {
        self.completed += 1;
    }

    /// Counts some that were lost.
    pub fn lose(&mut self, cause: Cause, count: u64) {
        self.lost[cause as usize] += count;
    }
}

/// Some that were lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Why.
    pub cause: Cause,
    /// How many.
    pub count: u64,
}

/// Where every connection, or every request, of a load went.
///
/// **Invariant**: `intended = unbegun + begun`, `begun = completed + open + sum(lost) + unexplained`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Asked for by the schedule, or by whoever loops.
    pub intended: u64,
    /// Asked for, and not begun: there was no free connection, or no local port.
    pub unbegun: u64,
    /// Begun.
    pub begun: u64,
    /// Come to their end.
    pub completed: u64,
    /// Under way, in the account of a load that runs.
    pub open: u64,
    /// Lost, by cause; causes of which there was none are left out.
    pub lost: Vec<Loss>,
    /// Begun and in no other row. Anything but 0 is a bug.
    pub unexplained: i64,
}

impl Account {
    /// Closes the account of a tally, of which `open` are under way.
    pub fn new(tally: &Tally, open: u64) -> Account {
        let lost = Cause::ALL.iter().map(|cause| Loss { cause: *cause, count: tally.lost[*cause as usize] });
        let lost: Vec<Loss> = lost.filter(|loss| loss.count > 0).collect();
        let known = tally.completed + open + lost.iter().map(|loss| loss.count).sum::<u64>();
        Account {
            // More begun than were asked for would show as unexplained.
            intended: tally.intended,
            unbegun: tally.intended.saturating_sub(tally.begun),
            begun: tally.begun,
            completed: tally.completed,
            open,
            unexplained: tally.begun as i64 - known as i64 + tally.begun.saturating_sub(tally.intended) as i64,
            lost,
        }
    }

    /// Adds the account of another core. What is unexplained there does not make up for what is unexplained here.
    pub(super) fn add(&mut self, other: &Account) {
        self.intended += other.intended;
        self.unbegun += other.unbegun;
        self.begun += other.begun;
        self.completed += other.completed;
        self.open += other.open;
        let both = [&self.lost, &other.lost];
        let count = |cause| {
            both.iter().flat_map(|lost| lost.iter()).filter(|loss| loss.cause == cause).map(|loss| loss.count).sum()
        };
        let lost = Cause::ALL.iter().map(|cause| Loss { cause: *cause, count: count(*cause) });
        self.lost = lost.filter(|loss| loss.count > 0).collect();
        self.unexplained = match (self.unexplained, other.unexplained) {
            (one, other) if (one < 0) == (other < 0) || one == 0 || other == 0 => one + other,
            (one, other) => one.abs() + other.abs(),
        };
    }

    /// True if every one that was asked for is in a row.
    pub fn balances(&self) -> bool {
        self.unexplained == 0
    }

    /// Number of those that were lost.
    pub fn lost_total(&self) -> u64 {
        self.lost.iter().map(|loss| loss.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_cores_add_up_and_hide_nothing() {
        let account = |begun: u64, cause| {
            let mut tally = Tally { intended: 10, begun, completed: 5, ..Tally::default() };
            tally.lose(cause, 2);
            Account::new(&tally, 1)
        };
        let mut sum = account(8, Cause::Reset);
        sum.add(&account(8, Cause::Reset));
        sum.add(&account(8, Cause::Refused));
        assert_eq!((sum.intended, sum.unbegun, sum.begun, sum.completed, sum.open), (30, 6, 24, 15, 3));
        let lost = [Loss { cause: Cause::Refused, count: 2 }, Loss { cause: Cause::Reset, count: 4 }];
        assert_eq!((sum.lost.as_slice(), sum.unexplained), (&lost[..], 0));
        sum.add(&account(9, Cause::Reset));
        sum.add(&account(7, Cause::Reset));
        assert_eq!(sum.unexplained, 2, "one too many on a core, one too few on another");
    }

    #[test]
    fn what_is_in_no_row_is_unexplained() {
        let mut tally = Tally { intended: 10, ..Tally::default() };
        (0..8).for_each(|_| tally.begin());
        (0..4).for_each(|_| tally.complete());
        tally.lose(Cause::Reset, 2);
        tally.lose(Cause::Unfinished, 1);
        let account = Account::new(&tally, 1);
        assert!(account.balances() && account.unbegun == 2 && account.lost_total() == 3, "{account:?}");
        assert_eq!(account.lost[0], Loss { cause: Cause::Reset, count: 2 });
        assert_eq!(Account::new(&tally, 0).unexplained, 1);
        assert_eq!(Account::new(&tally, 2).unexplained, -1);
        tally.intended = 7;
        assert_eq!(Account::new(&tally, 1).unexplained, 1, "one was begun that nobody asked for");
    }
}
