//! The send side of a connection: bytes that were written and are not acknowledged, what leaves now, loss recovery, congestion
//! control, round-trip times and time-outs. It knows nothing of frames, demultiplexing or the application.
//!
//! The rest of the stack calls it like this:
//! ```text
//! open          a SYN is to be sent (connect, or the answer of a listener); or, for a SYN cookie that came back, `established` at once
//! established   the handshake is over: MSS, scales, flags and the first window stand in the Tcb
//! write, close  the application
//! on_ack        each acceptable segment with ACK, in every state; it updates the window, too
//! next_segment  after each batch for each connection that was touched, in a loop until it returns None
//! on_timer      `deadline` has come
//! ended         the connection is gone; everything is given back
//! ```
//! Inside, from the bottom up:
//! ```text
//! chunk.rs, memory.rs   a chunk is a segment as it is sent; chunks of five sizes, with one budget
//! queue.rs              the chunks of a connection, in order
//! rtt.rs                round-trip times, the time-out
//! cubic.rs, prr.rs, rack.rs        the algorithms, without chunks
//! recovery.rs, cold.rs  what loss recovery knows of a connection; only connections that lost something have it
//! scoreboard.rs         marks on chunks: SACKED, LOST, RESENT
//! mtu.rs                longer segments than the path is known to take
//! congestion.rs         the congestion window
//! timer.rs              the one deadline
//! write.rs, output.rs, ack.rs      what the application gives, what leaves, what comes back
//! usual.rs              the latter two for one chunk at a time
//! small.rs              the three of them for one small chunk that is alone
//! ```

mod ack;
mod chunk;
mod cold;
mod config;
mod congestion;
mod counters;
mod cubic;
mod info;
mod memory;
mod mtu;
mod output;
mod prr;
mod queue;
mod rack;
mod recovery;
mod rtt;
mod scoreboard;
mod small;
#[cfg(test)]
mod tests;
mod timer;
mod usual;
mod write;

pub use config::{Congestion, SendConfig};
pub use counters::SendCounters;
pub use info::SendInfo;
pub use memory::{SEGMENT_MAX, SendMemory};
pub use recovery::Phase;
pub use usual::Last;

use crate::time::NEVER;
use crate::{Flags, NONE, Now, Seq, Tcb};

/// What a segment with ACK says to the send side. The caller has checked that the segment is acceptable (RFC 9293 section 3.10.7.4,
/// first to fifth), so that `ack` is at most `snd_nxt`; it may be before `snd_una`.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// SEG.ACK.
    pub ack: Seq,
    /// SEG.SEQ.
    pub seq: Seq,
    /// SEG.WND in bytes, scaled.
    pub wnd: u32,
    /// Ranges of the SACK option, in the order of the option; the first may be a duplicate (RFC 2883).
    pub sack: &'a [(Seq, Seq)],
    /// Tick at which the segment was sent that the timestamps option echoes.
    pub ts_echo: Option<u32>,
    /// The segment has ECE (and is no SYN).
    pub ece: bool,
    /// Bytes of data in the segment, plus SYN and FIN: a segment that has any is no duplicate acknowledgment.
    pub len: u32,
}

/// What an acknowledgment changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckOutcome {
    /// Bytes of data that were acknowledged.
    pub bytes_acked: u32,
    /// The SYN was acknowledged.
    pub syn_acked: bool,
    /// The FIN was acknowledged.
    pub fin_acked: bool,
    /// There is room, and a write was cut short before: `sendable` is due. `SEND_BLOCKED` is cleared.
    pub room_again: bool,
}

/// A segment that leaves now.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// SEG.SEQ.
    pub seq: Seq,
    /// The data; the longest is [`Tcb::payload_max`].
    pub data: &'a [u8],
    /// PSH.
    pub push: bool,
    /// SYN.
    pub syn: bool,
    /// FIN.
    pub fin: bool,
    /// The segment was sent before.
    pub retransmission: bool,
    /// CWR (RFC 3168).
    pub cwr: bool,
}

/// What a deadline changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerOutcome {
    /// Nothing was due.
    Nothing,
    /// `next_segment` may have something.
    Send,
    /// As `Send`; the third time-out in a row has come, so the path or the peer is in doubt (R1).
    Doubt,
    /// There is room again after a write was cut short: `sendable` is due. `SEND_BLOCKED` is cleared.
    Room,
    /// The peer did not answer for too long (R2): the connection ends.
    GiveUp,
}

/// The SYN of this side is to be sent: `snd_una` and `snd_nxt` are the initial sequence number. False if the budget is used up.
pub fn open(tcb: &mut Tcb, memory: &mut SendMemory) -> bool {
    write::open(tcb, memory)
}

/// The handshake is over, the SYN is acknowledged. The congestion window begins (RFC 6928).
pub fn established(tcb: &mut Tcb, memory: &mut SendMemory, now: Now) {
    tcb.cwnd = congestion::initial_window(tcb, &memory.config);
    tcb.sent_at = output::coarse(now);
    if tcb.cold == NONE {
        return;
    }
    let mut recovery = cold::load(tcb, memory);
    if std::mem::take(&mut recovery.syn_resent) {
        // RFC 5681 section 3.1: one segment. RFC 6298 rule 5.7: a time-out of 3 s if no round trip was measured.
        tcb.cwnd = queue::payload_max(tcb);
        if tcb.srtt_us == 0 {
            (tcb.srtt_us, tcb.rttvar_us) = (1_000_000, 500_000);
        }
    }
    cold::store(tcb, memory, recovery);
    if tcb.in_flight() == 0 && recovery.mtu.mss_max <= tcb.mss {
        cold::drop_state(tcb, memory);
    }
}

/// Takes bytes to be sent and returns how many: as many as the send buffer and the budget have room for. If these are not all,
/// `SEND_BLOCKED` is set. Also before the handshake is over; 0 after `close`.
#[inline]
pub fn write(tcb: &mut Tcb, memory: &mut SendMemory, bytes: &[u8], now: Now) -> usize {
    write::write(tcb, memory, bytes, now)
}

/// True if `write_small` takes so many bytes: nothing of the connection is kept, and they are one small segment, for which there is memory. The
/// caller has checked that neither `FIN_QUEUED` nor `FIN_SENT` is set.
#[inline(always)]
pub fn takes_small(tcb: &Tcb, memory: &SendMemory, len: usize) -> bool {
    small::takes(tcb, memory, len)
}

/// As `write`, after `takes_small` said true.
#[inline(always)]
pub fn write_small(tcb: &mut Tcb, memory: &mut SendMemory, bytes: &[u8]) {
    small::write(tcb, memory, bytes);
}

/// True if a write was cut short, and there is room again because bytes were sent: `sendable` is due, and `SEND_BLOCKED` is cleared.
#[inline]
pub fn takes_again(tcb: &mut Tcb, memory: &SendMemory) -> bool {
    tcb.flags.has(Flags::SEND_BLOCKED) && write::take_room_again(tcb, memory)
}

/// Bytes that `write` would take now.
pub fn room(tcb: &Tcb, memory: &SendMemory) -> usize {
    write::room_in_segments(tcb, memory)
}

/// A FIN follows the bytes that were written.
pub fn close(tcb: &mut Tcb, memory: &mut SendMemory) {
    write::close(tcb, memory);
}

/// Takes an acknowledgment and updates the window.
#[inline]
pub fn on_ack(tcb: &mut Tcb, memory: &mut SendMemory, ack: &Ack<'_>, now: Now) -> AckOutcome {
    ack::on_ack(tcb, memory, ack, now)
}

/// As `on_ack`, of an acknowledgment of one chunk, SYN and FIN included, that reports nothing else.
#[inline(always)]
pub fn on_plain_ack(tcb: &mut Tcb, memory: &mut SendMemory, ack: &Ack<'_>, now: Now) -> AckOutcome {
    match usual::on_single_ack(tcb, memory, ack, now) {
        Some(outcome) => outcome,
        None => ack::on_ack(tcb, memory, ack, now),
    }
}

/// The next segment that may leave now: by Nagle, the peer's window, the congestion window, recovery, and probes. The caller sends it.
#[inline]
pub fn next_segment<'a>(tcb: &mut Tcb, memory: &'a mut SendMemory, now: Now) -> Option<Outgoing<'a>> {
    output::next_segment(tcb, memory, now)
}

/// Takes an acknowledgment of all that is in flight, if that is one chunk and the connection has nothing unusual, and updates the window.
/// `None`, and nothing has happened, if it does not apply; else whether `sendable` is due. The caller has checked that `ack` is after
/// `snd_una` and at most `snd_nxt`, and that the segment reports nothing else.
#[inline(always)]
pub fn on_usual_ack(tcb: &mut Tcb, memory: &mut SendMemory, ack: Seq, seq: Seq, wnd: u32, now: &Now) -> Option<bool> {
    usual::on_ack(tcb, memory, ack, seq, wnd, now)
}

/// As `on_usual_ack`, if the chunk is small and no more is kept, and neither `SEND_BLOCKED` nor `CWND_LIMITED` is set: `sendable` is not due then.
#[inline(always)]
pub fn on_small_ack(tcb: &mut Tcb, memory: &mut SendMemory, ack: Seq, seq: Seq, wnd: u32, now: &Now) -> bool {
    small::on_ack(tcb, memory, ack, seq, wnd, now)
}

/// As `next_usual`, if only one small chunk is kept.
#[inline(always)]
pub fn next_small<'a>(tcb: &mut Tcb, memory: &'a mut SendMemory, now: &Now) -> Option<Last<'a>> {
    small::next_segment(tcb, memory, now)
}

/// As `next_segment` of a connection with timestamps, if only one chunk waits, and it may leave as it is. `None` says nothing.
#[inline(always)]
pub fn next_usual<'a>(tcb: &mut Tcb, memory: &'a mut SendMemory, now: &Now) -> Option<Last<'a>> {
    usual::next_segment(tcb, memory, now)
}

/// As `next_segment`, for a SYN that was never sent, without data: its number. `None` says nothing.
#[inline(always)]
pub fn next_syn(tcb: &mut Tcb, memory: &mut SendMemory, now: Now) -> Option<Seq> {
    usual::next_syn(tcb, memory, now)
}

/// True if `next_segment` has nothing for certain: all that was written is in flight, and nothing was lost.
#[inline]
pub fn is_idle(tcb: &Tcb) -> bool {
    tcb.queued == tcb.in_flight() && tcb.cold == NONE && !tcb.flags.any(Flags::WINDOW_PROBE | Flags::FIN_OWED)
}

/// The tick at which `on_timer` is due; 0 if there is none.
#[inline]
pub fn deadline(tcb: &Tcb) -> u32 {
    tcb.send_deadline
}

/// Does what is due now: time-outs, probes, reordering timers. `patience_ms` is R2 of this connection in milliseconds, in place of that of the
/// settings.
pub fn on_timer(tcb: &mut Tcb, memory: &mut SendMemory, patience_ms: Option<u32>, now: Now) -> TimerOutcome {
    timer::on_timer(tcb, memory, patience_ms, now)
}

/// The path takes segments of at most `mss` bytes from now on. What was sent in longer ones is sent again in shorter ones, and this is
/// no sign of congestion (RFC 1191 section 6.5).
pub fn mtu_changed(tcb: &mut Tcb, memory: &mut SendMemory, mss: u16, now: Now) {
    let before = std::mem::replace(&mut tcb.mss, mss);
    if mss >= before {
        return;
    }
    let mut recovery = cold::load(tcb, memory);
    recovery.mtu.mss_max = recovery.mtu.mss_max.max(before);
    let is_in_flight = tcb.in_flight() != 0 && tcb.is_synchronized();
    if is_in_flight && scoreboard::mark_too_long(tcb, memory, &mut recovery) && recovery.phase == Phase::Open {
        recovery.is_harmless = true;
        timer::arm(tcb, memory, &recovery, 0, now);
    }
    cold::store(tcb, memory, recovery);
}

/// The connection begins with segments shorter than `mss_max`, which both sides would take, because of what is known of the path.
#[cold]
pub fn mtu_is_known(tcb: &mut Tcb, memory: &mut SendMemory, mss_max: u16) {
    let mut recovery = cold::load(tcb, memory);
    recovery.mtu.mss_max = recovery.mtu.mss_max.max(mss_max);
    cold::store(tcb, memory, recovery);
}

/// Of a connection whose segments are shorter than both sides would take, because of the path: the longest MSS, and the fate of a probe (the MSS
/// that it tried, and whether it arrived), which is told once.
pub fn mtu_search(tcb: &Tcb, memory: &mut SendMemory) -> Option<(u16, Option<(u16, bool)>)> {
    let recovery = memory.recoveries.get_mut(tcb.cold).filter(|recovery| recovery.mtu.mss_max > tcb.mss)?;
    Some((recovery.mtu.mss_max, recovery.mtu.fate.take()))
}

/// A segment of an MSS of `target`, which is at most what `mtu_search` said, is to be tried when there are bytes for it (RFC 8899); 0: none.
pub fn probe_mtu(tcb: &Tcb, memory: &mut SendMemory, target: u16) {
    if let Some(recovery) = memory.recoveries.get_mut(tcb.cold) {
        recovery.mtu.target = target;
    }
}

/// Bytes of data in the first segment in flight.
pub fn first_len(tcb: &Tcb, memory: &SendMemory) -> u16 {
    if tcb.head == NONE { 0 } else { memory.header(tcb.head).len }
}

/// The retransmission time-out in milliseconds, with its back-off.
pub fn rto_ms(tcb: &Tcb, memory: &SendMemory) -> u32 {
    timer::time_out_ms(tcb, memory, &cold::load(tcb, memory))
}

/// Time-outs in a row without an answer: from three on, the path is in doubt (R1 of RFC 9293).
pub fn backoffs(tcb: &Tcb, memory: &SendMemory) -> u8 {
    cold::load(tcb, memory).backoffs
}

/// What the send side knows of a connection.
pub fn info(tcb: &Tcb, memory: &SendMemory) -> SendInfo {
    info::info(tcb, memory)
}

/// The connection is gone: its memory is given back.
pub fn ended(tcb: &mut Tcb, memory: &mut SendMemory) {
    queue::clear(tcb, memory);
    cold::drop_state(tcb, memory);
    tcb.snd_nxt = tcb.snd_una;
    tcb.send_deadline = NEVER;
}
