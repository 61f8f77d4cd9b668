//! What tests of TCP connections and requests find.

use serde::{Deserialize, Serialize};

use crate::{Latency, Loss, number};

/// Where every connection, or every request, of a trial went.
///
/// **Invariant**: `intended = unbegun + begun`, `begun = completed + sum(lost) + unexplained`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub struct SessionAccount {
    intended: u64,
    begun: u64,
    completed: u64,
    lost: Vec<SessionLoss>,
}

/// Connections or requests that did not come to their end, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionLoss {
    /// Why: `refused`, `reset`, `timed out` and the like.
    pub cause: String,
    /// How many.
    pub count: u64,
}

/// A load and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionPoint {
    /// Connections a second, connections at a time, or requests a second, by the test.
    #[serde(deserialize_with = "number::or_null")]
    pub load: f64,
    /// Connections.
    pub connections: SessionAccount,
    /// Requests.
    pub requests: SessionAccount,
    /// Requests that were answered, for each second.
    #[serde(deserialize_with = "number::or_null")]
    pub answered_per_second: f64,
    /// From the time at which a connection was due to the end of its handshake.
    pub handshake: Option<Latency>,
    /// From the time at which a request was due to the last byte of its answer.
    pub answer: Option<Latency>,
    /// Segments that the two stacks sent again.
    pub retransmitted: u64,
    /// Packets of the two stacks that were lost, by place and cause: those rows of the ledger in which there are some.
    pub packets_lost: Vec<Loss>,
    /// Packets that are in no row of the ledger.
    pub packets_unexplained: i64,
}

/// Echoes of single bytes over connections that stand, by one stack at both ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EchoesFound {
    /// Whose TCP it is: `Linerate`, `Linux`, `smoltcp`, `lwIP`.
    #[serde(default = "linerate")]
    pub stack: String,
    /// Connections that the test asked for.
    pub connections: u64,
    /// Connections of each end whose memory was taken before any was set up; 0 where it was taken while they were.
    #[serde(default)]
    pub preallocated_connections: u64,
    /// Where they went: completed are those that were set up, stood, and were closed in order.
    #[serde(default)]
    pub connection_account: SessionAccount,
    /// Connections that were set up for a second of a core's time, both ends together.
    #[serde(deserialize_with = "number::or_null")]
    pub set_up_per_core_second: f64,
    /// Connections that were closed for a second of a core's time, both ends together.
    #[serde(deserialize_with = "number::or_null")]
    pub torn_down_per_core_second: f64,
    /// Resident bytes of a connection, both ends together; `None` where they are too few to tell.
    pub bytes_per_connection: Option<f64>,
    /// Resident bytes of the process that has both ends, huge pages included, when all connections stood and had echoed.
    #[serde(default)]
    pub resident_bytes: Option<u64>,
    /// One for each order, in the order of measuring.
    pub points: Vec<EchoPoint>,
}

fn linerate() -> String {
    "Linerate".to_owned()
}

/// UDP datagrams that two stacks send back to each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UdpFound {
    /// Cycles a second, of both ends together: an end receives a datagram and sends one.
    #[serde(deserialize_with = "number::or_null")]
    pub per_second: f64,
    /// Cycles for a second of a core's time, both ends together.
    #[serde(deserialize_with = "number::or_null")]
    pub per_core_second: f64,
    /// Cycles a second for each GHz of the cores' clock; `None` where that is not known.
    pub per_ghz: Option<f64>,
    /// Datagrams on their way at a time.
    pub window: u64,
    /// Datagrams: begun are those that were sent, completed those that arrived.
    pub datagrams: SessionAccount,
}

/// Echoes in one order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EchoPoint {
    /// `reply`: the connection whose byte came back sends next. `round-robin`: the next one in turn does.
    pub order: String,
    /// Echoes a second.
    #[serde(deserialize_with = "number::or_null")]
    pub per_second: f64,
    /// Echoes for a second of a core's time, both ends together.
    #[serde(deserialize_with = "number::or_null")]
    pub per_core_second: f64,
    /// Echoes a second for each GHz of the cores' clock; `None` where that is not known.
    #[serde(default)]
    pub per_ghz: Option<f64>,
    /// Where the bytes went: completed are those that came back.
    #[serde(default)]
    pub echoes: SessionAccount,
    /// Cycles of an echo, both ends together; `None` where the machine does not count them.
    pub cycles_per_echo: Option<f64>,
    /// Segments for each echo.
    #[serde(deserialize_with = "number::or_null")]
    pub segments_per_echo: f64,
    /// Segments without data for each echo.
    #[serde(deserialize_with = "number::or_null")]
    pub acks_per_echo: f64,
    /// Segments that were sent again.
    pub retransmitted: u64,
    /// Connections that ended meanwhile.
    pub connections_lost: u64,
}

impl SessionAccount {
    /// The account of `intended`, of which `begun` were begun and `completed` came to their end.
    ///
    /// # Errors
    /// More begun than intended.
    pub fn new(
        (intended, begun, completed): (u64, u64, u64),
        lost: Vec<SessionLoss>,
    ) -> Result<SessionAccount, UnbalancedSessions> {
        let account = SessionAccount { intended, begun, completed, lost };
        if begun > intended { Err(UnbalancedSessions) } else { Ok(account) }
    }

    /// Those that the load asked for.
    pub fn intended(&self) -> u64 {
        self.intended
    }

    /// Those that the client began.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Those that came to their end in order.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Those that did not, by cause. Causes without any are left out.
    pub fn lost(&self) -> &[SessionLoss] {
        &self.lost
    }

    /// The number of those.
    pub fn lost_total(&self) -> u64 {
        self.lost.iter().map(|loss| loss.count).fold(0, u64::saturating_add)
    }

    /// Begun and in no other row. Anything but 0 is a bug.
    pub fn unexplained(&self) -> i64 {
        let known = i128::from(self.completed) + i128::from(self.lost_total());
        i64::try_from(i128::from(self.begun) - known).unwrap_or(i64::MIN)
    }

    /// Whether all that were asked for came to their end.
    pub fn is_whole(&self) -> bool {
        self.completed == self.intended
    }

    /// `3 refused, 1 timed out`, or `0`.
    pub fn lost_words(&self) -> String {
        let words: Vec<String> =
            self.lost.iter().map(|loss| format!("{} {}", crate::units::count(loss.count), loss.cause)).collect();
        if words.is_empty() { "0".to_owned() } else { words.join(", ") }
    }
}

/// The account as it is written.
#[derive(Serialize, Deserialize)]
struct Fields {
    intended: u64,
    unbegun: u64,
    begun: u64,
    completed: u64,
    lost: Vec<SessionLoss>,
    unexplained: i64,
}

impl From<SessionAccount> for Fields {
    fn from(account: SessionAccount) -> Fields {
        let unexplained = account.unexplained();
        let SessionAccount { intended, begun, completed, lost } = account;
        Fields { intended, unbegun: intended - begun, begun, completed, lost, unexplained }
    }
}

impl TryFrom<Fields> for SessionAccount {
    type Error = UnbalancedSessions;

    fn try_from(fields: Fields) -> Result<SessionAccount, UnbalancedSessions> {
        let Fields { intended, unbegun, begun, completed, lost, unexplained } = fields;
        let account = SessionAccount::new((intended, begun, completed), lost)?;
        let balances = account.unexplained() == unexplained && unbegun == intended - begun;
        if balances { Ok(account) } else { Err(UnbalancedSessions) }
    }
}

/// Numbers that are not the account of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the account of connections or requests does not balance")]
pub struct UnbalancedSessions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_that_does_not_balance_is_refused() {
        let lost = vec![SessionLoss { cause: "timed out".into(), count: 2 }];
        let account = SessionAccount::new((10, 8, 6), lost).unwrap();
        assert_eq!((account.unexplained(), account.lost_total(), account.is_whole()), (0, 2, false));
        assert_eq!(account.lost_words(), "2 timed out");
        let text = serde_json::to_string(&account).unwrap();
        assert_eq!(serde_json::from_str::<SessionAccount>(&text).unwrap(), account);
        for (right, wrong) in [("\"unbegun\":2", "\"unbegun\":1"), ("\"unexplained\":0", "\"unexplained\":1")] {
            assert!(text.contains(right), "{text}");
            assert!(serde_json::from_str::<SessionAccount>(&text.replace(right, wrong)).is_err());
        }
        assert_eq!(SessionAccount::new((1, 2, 0), Vec::new()), Err(UnbalancedSessions));
    }
}
