//! The account of a trial: where every packet went. Its numbers always balance.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Packets that went missing at one place for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Where on the path, in the words of the trial's path.
    pub place: String,
    /// Why, in words.
    pub cause: String,
    /// How many.
    pub packets: u64,
    /// The counter that says so, for instance `/proc/net/softnet_stat dropped, core 1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<String>,
    /// What the cause was inferred from, in words, where no counter and no reason of the kernel says it of these packets: nothing
    /// else stands where they are missing, or a counter says no more than that it can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inferred_from: Option<String>,
    /// What to change, where something can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Loss {
    /// `packets` lost at `place` because of `cause`.
    pub fn new(place: impl Into<String>, cause: impl Into<String>, packets: u64) -> Self {
        Self { place: place.into(), cause: cause.into(), packets, counter: None, inferred_from: None, hint: None }
    }

    /// Names the counter that was read.
    pub fn counted_by(mut self, counter: impl Into<String>) -> Self {
        self.counter = Some(counter.into());
        self
    }

    /// Says that the cause is an inference, and from what.
    pub fn inferred_from(mut self, what: impl Into<String>) -> Self {
        self.inferred_from = Some(what.into());
        self
    }

    /// Whether the cause is an inference of packets that were lost.
    pub fn is_inferred(&self) -> bool {
        self.inferred_from.is_some() && self.packets > 0
    }

    /// The cause, and what it was inferred from where no counter says it.
    pub fn cause_words(&self) -> Cow<'_, str> {
        match &self.inferred_from {
            Some(what) => Cow::Owned(format!("{} (inferred from {what})", self.cause)),
            None => Cow::Borrowed(&self.cause),
        }
    }

    /// Says what to change.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether it tells of the same as another.
    fn is_same(&self, other: &Loss) -> bool {
        self.place == other.place
            && self.cause == other.cause
            && self.counter == other.counter
            && self.inferred_from == other.inferred_from
    }
}

/// The numbers that both ends of the path count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets that the schedule asked for.
    pub intended: u64,
    /// Packets that left the generator.
    pub sent: u64,
    /// Distinct packets that reached the receiver.
    pub delivered: u64,
    /// Further copies of packets already delivered.
    pub duplicated: u64,
    /// Packets that arrived after one sent later (RFC 4737 section 3.3).
    pub reordered: u64,
}

/// Where every packet of a trial went.
///
/// **Invariant**: `intended = unsent + sent`, `sent = delivered + sum(lost) + unexplained`, and the unsent packets that have a
/// cause are not more than the unsent packets. What is derived is not stored from outside, and what is loaded is checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub struct Account {
    counted: Counted,
    unsent_by: Vec<Loss>,
    lost: Vec<Loss>,
    unexplained: i64,
}

impl Account {
    /// Makes the account from what was counted. Losses at the same place with the same cause and counter are added up.
    ///
    /// # Errors
    /// More sent than intended, or losses beyond what a counter of 64 bits can hold.
    pub fn new(counted: Counted, lost: Vec<Loss>) -> Result<Self, AccountError> {
        if counted.sent > counted.intended {
            return Err(AccountError::SentExceedsIntended { sent: counted.sent, intended: counted.intended });
        }
        let lost = merged(lost)?;
        let rest = i128::from(counted.sent) - i128::from(counted.delivered) - total(&lost);
        let unexplained = i64::try_from(rest).map_err(|_| AccountError::OutOfRange)?;
        Ok(Self { counted, unsent_by: Vec::new(), lost, unexplained })
    }

    /// Says why packets were not sent: the pacer was late, the transmit ring was full.
    ///
    /// # Errors
    /// More packets with a cause than packets unsent.
    pub fn with_unsent_by(mut self, unsent_by: Vec<Loss>) -> Result<Self, AccountError> {
        let unsent_by = merged(unsent_by)?;
        let explained = total(&unsent_by);
        if explained > i128::from(self.unsent()) {
            return Err(AccountError::UnsentExceeded { explained, unsent: self.unsent() });
        }
        self.unsent_by = unsent_by;
        Ok(self)
    }

    /// The same account with other rows of losses, for instance one row divided in two.
    ///
    /// # Errors
    /// As [`Account::new`].
    pub fn with_lost(self, lost: Vec<Loss>) -> Result<Self, AccountError> {
        Self::new(self.counted, lost)?.with_unsent_by(self.unsent_by)
    }

    /// Packets that the schedule asked for.
    pub fn intended(&self) -> u64 {
        self.counted.intended
    }

    /// Packets that the schedule asked for and the generator did not send.
    pub fn unsent(&self) -> u64 {
        self.counted.intended - self.counted.sent
    }

    /// Why packets were not sent, as far as that is known.
    pub fn unsent_by(&self) -> &[Loss] {
        &self.unsent_by
    }

    /// Packets that left the generator.
    pub fn sent(&self) -> u64 {
        self.counted.sent
    }

    /// Distinct packets that reached the receiver.
    pub fn delivered(&self) -> u64 {
        self.counted.delivered
    }

    /// Further copies of packets already delivered.
    pub fn duplicated(&self) -> u64 {
        self.counted.duplicated
    }

    /// Packets that arrived after one sent later.
    pub fn reordered(&self) -> u64 {
        self.counted.reordered
    }

    /// Where packets were lost, in the order of the losses.
    pub fn places(&self) -> Vec<String> {
        let mut places: Vec<String> = Vec::new();
        for loss in &self.lost {
            if !places.contains(&loss.place) {
                places.push(loss.place.clone());
            }
        }
        places
    }

    /// Packets lost, by place and cause. A cause whose counter was read and did not move is in it with 0 packets.
    pub fn lost(&self) -> &[Loss] {
        &self.lost
    }

    /// Packets lost at a known place because of a known cause.
    pub fn lost_total(&self) -> u64 {
        u64::try_from(total(&self.lost)).unwrap_or(u64::MAX)
    }

    /// Packets sent that are neither delivered nor in a counter of loss. Negative: the counters claim more than is missing.
    pub fn unexplained(&self) -> i64 {
        self.unexplained
    }
}

fn total(losses: &[Loss]) -> i128 {
    losses.iter().map(|loss| i128::from(loss.packets)).sum()
}

fn merged(losses: Vec<Loss>) -> Result<Vec<Loss>, AccountError> {
    let mut merged: Vec<Loss> = Vec::with_capacity(losses.len());
    for loss in losses {
        match merged.iter_mut().find(|other| other.is_same(&loss)) {
            Some(other) => other.packets = other.packets.checked_add(loss.packets).ok_or(AccountError::OutOfRange)?,
            None => merged.push(loss),
        }
    }
    if u64::try_from(total(&merged)).is_err() {
        return Err(AccountError::OutOfRange);
    }
    Ok(merged)
}

/// The account as it is written.
#[derive(Serialize, Deserialize)]
struct Fields {
    intended: u64,
    unsent: u64,
    sent: u64,
    delivered: u64,
    duplicated: u64,
    reordered: u64,
    #[serde(default)]
    unsent_by: Vec<Loss>,
    lost: Vec<Loss>,
    unexplained: i64,
}

impl From<Account> for Fields {
    fn from(account: Account) -> Self {
        let unsent = account.unsent();
        let Account { counted, unsent_by, lost, unexplained } = account;
        let Counted { intended, sent, delivered, duplicated, reordered } = counted;
        Self { intended, unsent, sent, delivered, duplicated, reordered, unsent_by, lost, unexplained }
    }
}

impl TryFrom<Fields> for Account {
    type Error = AccountError;

    fn try_from(fields: Fields) -> Result<Self, AccountError> {
        let Fields { intended, unsent, sent, delivered, duplicated, reordered, unsent_by, lost, unexplained } = fields;
        let counted = Counted { intended, sent, delivered, duplicated, reordered };
        let account = Self::new(counted, lost)?.with_unsent_by(unsent_by)?;
        if account.unsent() != unsent {
            return Err(AccountError::Unbalanced {
                what: "unsent",
                written: unsent.into(),
                derived: account.unsent().into(),
            });
        }
        if account.unexplained != unexplained {
            let derived = account.unexplained.into();
            return Err(AccountError::Unbalanced { what: "unexplained", written: unexplained.into(), derived });
        }
        Ok(account)
    }
}

/// Why numbers are not the account of a trial.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// More packets sent than intended.
    #[error("{sent} packets sent, but only {intended} intended")]
    SentExceedsIntended {
        /// Packets sent.
        sent: u64,
        /// Packets intended.
        intended: u64,
    },
    /// More packets unsent for a known cause than unsent at all.
    #[error("causes are given for {explained} unsent packets, but only {unsent} were not sent")]
    UnsentExceeded {
        /// Packets unsent for a known cause.
        explained: i128,
        /// Packets unsent.
        unsent: u64,
    },
    /// A stored account does not balance.
    #[error("the account does not balance: {what} is {written}, but the other numbers make it {derived}")]
    Unbalanced {
        /// The number that is wrong.
        what: &'static str,
        /// What the document says.
        written: i128,
        /// What follows from the other numbers.
        derived: i128,
    },
    /// The losses or their difference to what is missing do not fit 64 bits: no real counters say that.
    #[error("the numbers of packets lost exceed 64 bits")]
    OutOfRange,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_claim_too_much_show_as_negative() {
        let counted = Counted { intended: 10, sent: 10, delivered: 8, ..Counted::default() };
        let account = Account::new(counted, vec![Loss::new("dut0", "queue full", 5)]).unwrap();
        assert_eq!(account.unexplained(), -3);
    }

    #[test]
    fn same_place_and_cause_are_added_up() {
        let losses = vec![Loss::new("a", "x", 1), Loss::new("b", "x", 2), Loss::new("a", "x", 3)];
        let counted = Counted { intended: 6, sent: 6, ..Counted::default() };
        let account = Account::new(counted, losses).unwrap();
        assert_eq!(account.lost(), [Loss::new("a", "x", 4), Loss::new("b", "x", 2)]);
        assert_eq!(account.unexplained(), 0);
    }

    #[test]
    fn impossible_numbers_are_refused() {
        let counted = Counted { intended: 5, sent: 6, ..Counted::default() };
        assert!(matches!(Account::new(counted, vec![]), Err(AccountError::SentExceedsIntended { .. })));
        let losses = vec![Loss::new("a", "x", u64::MAX), Loss::new("b", "x", 1)];
        assert_eq!(Account::new(Counted::default(), losses), Err(AccountError::OutOfRange));
        let counted = Counted { delivered: u64::MAX, ..Counted::default() };
        assert_eq!(Account::new(counted, vec![]), Err(AccountError::OutOfRange));
        let counted = Counted { intended: 5, sent: 4, ..Counted::default() };
        let account = Account::new(counted, vec![]).unwrap();
        let error = account.with_unsent_by(vec![Loss::new("pacer", "late", 2)]).unwrap_err();
        assert_eq!(error, AccountError::UnsentExceeded { explained: 2, unsent: 1 });
    }
}
