//! The receive side of a connection, as far as it needs memory: bytes that the program did not take yet, bytes out of order, what to
//! say about them by SACK. A connection that receives in order and whose program takes everything has none of this.

mod memory;
mod sack;

pub(crate) use memory::{ReceiveMemory, Stored};
pub(crate) use sack::Sacks;

use crate::{Keepalive, NONE, Seq};

/// Least time between challenge acknowledgments of one connection, in milliseconds.
const CHALLENGE_MS: u32 = 500;

/// What a connection keeps beside its control block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    /// Bytes in order that wait for the program.
    pub(crate) ready: List,
    /// Bytes behind a gap, in their order.
    pub(crate) ahead: List,
    /// Number of a FIN that arrived behind a gap.
    pub(crate) fin: Option<Seq>,
    /// What to say about the bytes behind gaps.
    pub(crate) sacks: Sacks,
    /// Tick of the last challenge acknowledgment (RFC 5961 section 7); 0 if there was none.
    pub(crate) challenged: u32,
    /// Probes for a silent peer.
    pub(crate) keepalive: Option<Keepalive>,
    /// Tick at which the peer was last heard of, as far as keep-alive asked.
    pub(crate) heard: u32,
    /// Keep-alive probes without an answer.
    pub(crate) probes: u32,
    /// Tick under which keep-alive is filed in the timer wheel; 0 if it is not.
    pub(crate) filed: u32,
    /// What the program set.
    pub(crate) settings: Settings,
    /// Number behind the urgent bytes that this side sends (SND.UP), until they are acknowledged.
    pub(crate) urgent: Option<Seq>,
}

/// What a program sets for one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Differentiated services code point of the segments, six bits.
    pub(crate) dscp: u8,
    /// Time to live or hop limit of the segments.
    pub(crate) hop_limit: u8,
    /// R2 of RFC 9293 in milliseconds, in place of the stack's.
    pub(crate) user_timeout_ms: Option<u32>,
}

impl Settings {
    /// Nothing was set.
    pub(crate) const USUAL: Settings = Settings { dscp: 0, hop_limit: 64, user_timeout_ms: None };
}

/// Chunks in a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    /// Bytes of data in them.
    pub(crate) bytes: u32,
    /// Number of chunks.
    pub(crate) chunks: u32,
}

impl List {
    pub(crate) const EMPTY: List = List { head: NONE, tail: NONE, bytes: 0, chunks: 0 };

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks == 0
    }
}

impl Receive {
    pub(crate) const EMPTY: Receive = Receive {
        ready: List::EMPTY,
        ahead: List::EMPTY,
        fin: None,
        sacks: Sacks::NONE,
        challenged: 0,
        keepalive: None,
        heard: 0,
        probes: 0,
        filed: 0,
        settings: Settings::USUAL,
        urgent: None,
    };

    /// True if a challenge acknowledgment was sent not long ago.
    pub(crate) fn was_challenged(&self, tick: u32) -> bool {
        self.challenged != 0 && tick.wrapping_sub(self.challenged) < CHALLENGE_MS
    }

    /// True if nothing is left that must be remembered at this tick.
    pub(crate) fn is_clean(&self, tick: u32) -> bool {
        let nothing_waits = self.ready.is_empty() && self.ahead.is_empty() && self.fin.is_none();
        let nothing_set = self.keepalive.is_none() && self.settings == Settings::USUAL && self.urgent.is_none();
        nothing_waits && nothing_set && self.sacks.is_empty() && !self.was_challenged(tick)
    }
}
