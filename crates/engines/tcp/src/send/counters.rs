//! What the send sides of a shard did, in segments and events.

/// Counts since the start, over all connections of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounters {
    /// Segments that were sent for the first time, those with SYN or FIN included.
    pub segments: u64,
    /// Bytes of data that were sent for the first time.
    pub bytes: u64,
    /// Segments that were sent again after a retransmission time-out.
    pub retransmitted_timeout: u64,
    /// Segments that were sent again in a fast recovery (RACK, SACK, duplicate acknowledgments).
    pub retransmitted_fast: u64,
    /// Segments that were sent again as a tail loss probe.
    pub retransmitted_probe: u64,
    /// Segments that were sent again because the path takes shorter ones, or the peer had taken its window back.
    pub retransmitted_harmless: u64,
    /// SYNs that were sent again.
    pub retransmitted_syn: u64,
    /// Tail loss probes that were new data.
    pub probes_new: u64,
    /// Probes of a closed window.
    pub window_probes: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Fast recoveries that began.
    pub recoveries: u64,
    /// Reductions because of ECN.
    pub ecn_reductions: u64,
    /// Losses that a tail loss probe repaired (RFC 8985 section 7.4).
    pub probe_losses: u64,
    /// Reductions that were undone, because what was sent again had not been lost.
    pub undone: u64,
    /// Duplicates that peers reported (RFC 2883).
    pub duplicates: u64,
    /// Peers that dropped what they had reported by SACK.
    pub reneged: u64,
    /// Writes that found the budget of the shard used up.
    pub budget_exhausted: u64,
    /// Connections that were given up (R2).
    pub given_up: u64,
}
