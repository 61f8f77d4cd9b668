//! Settings of the send side.

/// Which algorithm sets the congestion window after a loss and in congestion avoidance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// NewReno: the window of RFC 5681.
    NewReno,
}

/// Settings of the send side, the same for all connections of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendConfig {
    /// Bytes of all chunks together: what the connections of the shard have written and their peers have not acknowledged, with headers.
    pub budget_bytes: usize,
    /// Most bytes that one connection keeps.
    pub buffer_max: u32,
    /// Most bytes of those that were not sent yet, rounded down to whole segments. What waits for longer has left the processor's caches when its turn comes, and is read from
    /// memory again.
    pub unsent_max: u32,
    /// Most connections.
    pub connections_max: usize,
    /// Congestion control.
    pub congestion: Congestion,
    /// Initial window in segments (RFC 6928: 10); it is at most 14,600 bytes if a segment is longer than 1,460 bytes.
    pub initial_window: u32,
    /// Retransmission time-out before the first measurement, in milliseconds (RFC 6298: 1,000).
    pub rto_initial_ms: u32,
    /// Least retransmission time-out above the smoothed round-trip time, in milliseconds. RFC 6298 wants 1,000 for the time-out; Linux
    /// has 200 in this place, and recovery from a lost retransmission would be slower than its by this ratio.
    pub rto_min_ms: u32,
    /// Longest retransmission time-out, in milliseconds (RFC 6298: at least 60,000).
    pub rto_max_ms: u32,
    /// Longest that a peer delays an acknowledgment, in milliseconds (TLP.max_ack_delay of RFC 8985).
    pub ack_delay_max_ms: u32,
    /// Time for which a segment is retransmitted before the connection is given up, in milliseconds (R2 of RFC 9293: at least 100,000).
    pub give_up_ms: u32,
    /// The same for a SYN (R2 of RFC 9293: at least 180,000).
    pub give_up_syn_ms: u32,
    /// A connection that sent nothing for a retransmission time-out begins again with the initial window (RFC 5681 section 4.1).
    pub idle_restart: bool,
}

impl Default for SendConfig {
    fn default() -> SendConfig {
        SendConfig {
            budget_bytes: 256 << 20,
            buffer_max: 4 << 20,
            unsent_max: 128 << 10,
            connections_max: 65_536,
            congestion: Congestion::Cubic,
            initial_window: 10,
            rto_initial_ms: 1_000,
            rto_min_ms: 200,
            rto_max_ms: 120_000,
            ack_delay_max_ms: 200,
            give_up_ms: 900_000,
            give_up_syn_ms: 180_000,
            idle_restart: true,
        }
    }
}
