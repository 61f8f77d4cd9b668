//! What `getsockopt(TCP_INFO)` says, in Linux's words (`struct tcp_info` of include/uapi/linux/tcp.h): windows in segments, times in
//! microseconds. Members for which the stack keeps nothing are 0.

use linerate_tcp::send::{Phase, SendInfo};
use linerate_tcp::{Info, State};

/// Bytes that are given: as many as the structure has in any kernel so far, or more.
pub const LEN: usize = 320;

/// Bits of `tcpi_options`.
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const SCALED: u8 = 4;
const ECN: u8 = 8;
/// `TCP_INFINITE_SSTHRESH`.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// The structure's bytes.
pub fn bytes(info: &Info, send: Option<&SendInfo>) -> [u8; LEN] {
    let mut out = [0; LEN];
    // Without the timestamps of each segment (RFC 7323 section 3.2).
    let mss = u32::from(info.mss).saturating_sub(if info.timestamps { 12 } else { 0 }).max(1);
    let segments = |count: u32| count.div_ceil(mss);
    out[0] = state(info.state);
    out[1] = send.map_or(0, |send| match send.phase {
        Phase::Open if send.sacked > 0 => 1,
        Phase::Open => 0,
        Phase::Reduced => 2,
        Phase::Recovery => 3,
        Phase::Loss => 4,
    });
    out[2] = info.backoffs;
    out[4] = info.backoffs;
    let bits = [(info.timestamps, TIMESTAMPS), (info.sack, SACK), (info.scales != (0, 0), SCALED), (info.ecn, ECN)];
    out[5] = bits.iter().filter(|(has, _)| *has).map(|(_, bit)| bit).sum();
    out[6] = info.scales.0 & 15 | info.scales.1 << 4;
    let mut put = |at: usize, value: u32| out[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    put(8, send.map_or(info.rto_ms, |send| send.rto_ms).saturating_mul(1000));
    put(16, mss);
    put(24, segments(info.in_flight));
    if let Some(send) = send {
        put(28, segments(send.sacked));
        put(32, segments(send.lost));
        put(36, segments(send.resent));
        put(148, send.min_rtt_us.unwrap_or(u32::MAX));
        put(144, segments(send.unsent));
    }
    put(68, info.srtt_us);
    put(72, info.rttvar_us);
    put(76, if info.ssthresh == u32::MAX { NO_THRESHOLD } else { info.ssthresh / mss });
    put(80, info.cwnd / mss);
    put(84, mss);
    put(100, send.map_or(0, |send| send.retransmissions));
    put(228, info.send_window);
    put(232, info.receive_window);
    out
}

/// A state by the number that Linux has for it (include/net/tcp_states.h).
pub fn state(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}
