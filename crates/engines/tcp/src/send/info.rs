//! What the send side knows of a connection, as `ss -ti` shows it.

use super::memory::SendMemory;
use super::recovery::Phase;
use super::{cold, timer};
use crate::Tcb;

/// What the send side knows of a connection. Windows and amounts are in bytes, with SYN and FIN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendInfo {
    /// What the congestion window is doing.
    pub phase: Phase,
    /// Congestion window.
    pub cwnd: u32,
    /// Slow start threshold; `u32::MAX` before the first loss.
    pub ssthresh: u32,
    /// Smoothed round-trip time in microseconds; 0 before the first measurement.
    pub srtt_us: u32,
    /// Its variation in microseconds.
    pub rttvar_us: u32,
    /// Least round-trip time in microseconds since the first sign of loss.
    pub min_rtt_us: Option<u32>,
    /// Retransmission time-out in milliseconds, with its back-off.
    pub rto_ms: u32,
    /// Time-outs, or probes of a closed window, in a row.
    pub backoffs: u8,
    /// Sent and not acknowledged.
    pub in_flight: u32,
    /// Written and never sent.
    pub unsent: u32,
    /// SACKed.
    pub sacked: u32,
    /// Taken for lost.
    pub lost: u32,
    /// Sent again and in flight.
    pub resent: u32,
    /// Segments that were sent again since the first sign of loss.
    pub retransmissions: u32,
    /// Delivery out of order was seen.
    pub reordering_seen: bool,
}

/// What the send side knows of a connection.
pub(super) fn info(tcb: &Tcb, memory: &SendMemory) -> SendInfo {
    let recovery = cold::load(tcb, memory);
    SendInfo {
        phase: recovery.phase,
        cwnd: tcb.cwnd,
        ssthresh: tcb.ssthresh,
        srtt_us: tcb.srtt_us,
        rttvar_us: tcb.rttvar_us,
        min_rtt_us: recovery.rack.min_rtt_us(),
        rto_ms: timer::time_out_ms(tcb, memory, &recovery),
        backoffs: recovery.backoffs,
        in_flight: tcb.in_flight(),
        unsent: tcb.queued - tcb.in_flight(),
        sacked: recovery.sacked,
        lost: recovery.lost,
        resent: recovery.resent,
        retransmissions: recovery.retransmissions,
        reordering_seen: recovery.rack.reordering_seen(),
    }
}
