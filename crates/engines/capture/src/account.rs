//! The account of an interface: where every packet of it is.
//!
//! ```text
//! received by the interface = filtered out + offered to the ring
//! offered to the ring       = dropped by the ring + in the ring + taken out of it
//! taken out of the ring     = counted only + dropped by the writer + in flight to the file + written
//! ```

use std::fmt;

use serde::Serialize;

/// What was counted, each by whoever does the thing: the interface, the ring, the thread that reads it, the writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Packets that the interface received (with both directions captured, those that it sent, too), by its own counters;
    /// `None` where those are not known. Read after the ring's, so that it is not the lower one.
    pub received: Option<u64>,
    /// Packets that passed the filter and reached the ring, those among them that found no room.
    pub offered: u64,
    /// Packets that found the ring full.
    pub dropped_by_ring: u64,
    /// Packets that the reading thread took out of the ring.
    pub taken: u64,
    /// Of these, packets that were not meant for a file.
    pub counted_only: u64,
    /// Of these, packets for which there was no free buffer: the writer was slower than the packets.
    pub dropped_for_buffers: u64,
    /// Of these, packets whose buffer could not be written: the disk was full, or broken.
    pub dropped_by_errors: u64,
    /// Of these, packets in a file.
    pub written: u64,
}

/// Where every packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Account {
    #[serde(flatten)]
    counted: Counted,
    filtered: Option<u64>,
    in_ring: u64,
    in_flight: u64,
}

/// Counts that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccountError {
    /// More packets came out of a place than went in.
    #[error("the account does not add up: {out} {out_words}, of {into} {into_words}")]
    Unbalanced {
        /// Packets that came out.
        out: u64,
        /// What they are.
        out_words: &'static str,
        /// Packets that went in.
        into: u64,
        /// What they are.
        into_words: &'static str,
    },
    /// At the end of a capture, packets are still somewhere between the ring and the file.
    #[error("the account is not closed: {in_ring} packets in the ring, {in_flight} in flight to the file")]
    Open {
        /// In the ring.
        in_ring: u64,
        /// Between ring and file.
        in_flight: u64,
    },
}

impl Account {
    /// The account of a running capture.
    ///
    /// # Errors
    /// When more packets came out of a place than went in.
    pub fn running(counted: Counted) -> Result<Account, AccountError> {
        let Counted { received, offered, dropped_by_ring, taken, .. } = counted;
        let filtered = match received {
            None => None,
            Some(received) => Some(rest(received, "received by the interface", &[offered], "offered to the ring")?),
        };
        let in_ring = rest(offered, "offered to the ring", &[dropped_by_ring, taken], "dropped by it or taken out")?;
        let gone = [counted.counted_only, counted.dropped_for_buffers, counted.dropped_by_errors, counted.written];
        let in_flight = rest(taken, "taken out of the ring", &gone, "counted, dropped or written")?;
        Ok(Account { counted, filtered, in_ring, in_flight })
    }

    /// The account of a capture that is over: no packet is between the places.
    ///
    /// # Errors
    /// As [`Account::running`], and when packets are still on their way.
    pub fn closed(counted: Counted) -> Result<Account, AccountError> {
        let account = Account::running(counted)?;
        let Account { in_ring, in_flight, .. } = account;
        if in_ring > 0 || in_flight > 0 {
            return Err(AccountError::Open { in_ring, in_flight });
        }
        Ok(account)
    }

    /// The counts that it was made of.
    pub fn counted(&self) -> &Counted {
        &self.counted
    }

    /// Packets of the interface that never reached the ring: not passed by the filter, of the other direction, or dropped by
    /// the interface or the kernel before. `None` where the interface's counters are not known.
    pub fn filtered(&self) -> Option<u64> {
        self.filtered
    }

    /// Packets in the ring.
    pub fn in_ring(&self) -> u64 {
        self.in_ring
    }

    /// Packets between the ring and the file.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Packets that the writer dropped, for either cause.
    pub fn dropped_by_writer(&self) -> u64 {
        self.counted.dropped_for_buffers + self.counted.dropped_by_errors
    }

    /// Packets that were wanted and lost.
    pub fn lost(&self) -> u64 {
        self.counted.dropped_by_ring + self.dropped_by_writer()
    }
}

impl fmt::Display for Account {
    /// One line, as in the comment of a statistics block.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = &self.counted;
        if let (Some(received), Some(filtered)) = (counted.received, self.filtered) {
            write!(out, "received {received} = filtered out {filtered} + offered {}; ", counted.offered)?;
        }
        let Counted { offered, dropped_by_ring, taken, counted_only, written, .. } = counted;
        write!(
            out,
            "offered {offered} = dropped by ring {dropped_by_ring} + in ring {} + taken {taken}; ",
            self.in_ring
        )?;
        write!(out, "taken {taken} = counted only {counted_only} + dropped by writer {}", self.dropped_by_writer())?;
        write!(out, " (no free buffer {}, ", counted.dropped_for_buffers)?;
        write!(out, "errors {}) + in flight {} + written {written}", counted.dropped_by_errors, self.in_flight)
    }
}

/// What is left of `whole` without `parts`.
fn rest(whole: u64, whole_words: &'static str, parts: &[u64], parts_words: &'static str) -> Result<u64, AccountError> {
    let out = parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
    let unbalanced = AccountError::Unbalanced { out, out_words: parts_words, into: whole, into_words: whole_words };
    whole.checked_sub(out).ok_or(unbalanced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COUNTED: Counted = Counted {
        received: Some(1000),
        offered: 900,
        dropped_by_ring: 50,
        taken: 850,
        counted_only: 0,
        dropped_for_buffers: 30,
        dropped_by_errors: 20,
        written: 800,
    };

    #[test]
    fn a_closed_account_says_where_every_packet_is() {
        let account = Account::closed(COUNTED).unwrap();
        assert_eq!((account.filtered(), account.dropped_by_writer(), account.lost()), (Some(100), 50, 100));
        assert_eq!(
            account.to_string(),
            "received 1000 = filtered out 100 + offered 900; offered 900 = dropped by ring 50 + in ring 0 + taken 850; \
             taken 850 = counted only 0 + dropped by writer 50 (no free buffer 30, errors 20) + in flight 0 + written 800"
        );
    }

    #[test]
    fn what_does_not_add_up_is_no_account() {
        let refused = |counted| Account::running(counted).unwrap_err().to_string();
        assert!(refused(Counted { received: Some(899), ..COUNTED }).contains("900 offered to the ring, of 899"));
        assert!(refused(Counted { offered: 899, ..COUNTED }).contains("900 dropped by it or taken out, of 899"));
        assert!(refused(Counted { written: 801, ..COUNTED }).contains("851 counted, dropped or written, of 850"));
        assert!(refused(Counted { written: u64::MAX, ..COUNTED }).contains("of 850"));
        let open = Counted { offered: 903, written: 798, ..COUNTED };
        assert_eq!(Account::closed(open), Err(AccountError::Open { in_ring: 3, in_flight: 2 }));
        let account = Account::running(open).unwrap();
        assert_eq!((account.in_ring(), account.in_flight()), (3, 2));
    }

    proptest! {
        /// Whatever is counted: an account that exists adds up.
        #[test]
        fn an_account_adds_up(numbers in proptest::array::uniform7(0u64..100), received in proptest::option::of(0u64..100)) {
            let [offered, dropped_by_ring, taken, counted_only, dropped_for_buffers, dropped_by_errors, written] = numbers;
            let counted = Counted {
                received, offered, dropped_by_ring, taken, counted_only, dropped_for_buffers, dropped_by_errors, written,
            };
            if let Ok(account) = Account::running(counted) {
                prop_assert_eq!(received, account.filtered().map(|filtered| filtered + offered));
                prop_assert_eq!(offered, dropped_by_ring + account.in_ring() + taken);
                prop_assert_eq!(taken, counted_only + account.dropped_by_writer() + account.in_flight() + written);
            }
        }
    }
}
