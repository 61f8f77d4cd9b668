//! A request or an answer, alone: a connection of which nothing is kept writes a few bytes, they leave as one segment, and the acknowledgment of it
//! empties the list again. Each function here does all of one of these three steps, or says that it does not apply, and has changed nothing then.

use super::chunk::{HEADER, Line, SMALL_MAX};
use super::memory::SendMemory;
use super::usual::Last;
use super::{ack, output, rtt};
use crate::time::NEVER;
use crate::{Flags, NONE, Now, Seq, Tcb};

/// Bytes that the timestamps option takes of the MSS.
const TIMESTAMPS: u16 = 12;

/// True if [`write`] takes so many bytes: nothing of the connection is kept, and they are one small segment, for which there is a chunk that was
/// used before. The caller has checked that neither `FIN_QUEUED` nor `FIN_SENT` is set.
#[inline(always)]
pub(super) fn takes(tcb: &Tcb, memory: &SendMemory, len: usize) -> bool {
    // Every small chunk is one segment then, also beside timestamps.
    let is_one_segment = (len.wrapping_sub(1) < SMALL_MAX) & (tcb.mss >= SMALL_MAX as u16 + TIMESTAMPS);
    (tcb.queued == 0) & is_one_segment & tcb.is_synchronized() & memory.has_small()
}

/// Takes the bytes, after [`takes`] said true.
#[inline(always)]
pub(super) fn write(tcb: &mut Tcb, memory: &mut SendMemory, bytes: &[u8]) {
    let handle = memory.next_small();
    (tcb.head, tcb.tail) = (handle, handle);
    tcb.queued = bytes.len() as u32;
    memory.reuse_small(tcb.snd_una, bytes);
}

/// The only chunk that is kept, if it is a small one that was never sent, and may leave as it is, of a connection with timestamps whose round trip is
/// known and so short that the probe time-out (`timer::arm_clean_with`) is less than the shortest retransmission time-out.
#[inline(always)]
pub(super) fn next_segment<'a>(tcb: &mut Tcb, memory: &'a mut SendMemory, now: &Now) -> Option<Last<'a>> {
    const OTHER: Flags = Flags(Flags::WINDOW_PROBE.0 | Flags::FIN_OWED.0 | Flags::CWR_OWED.0 | Flags::SACK.0);
    let (seq, handle, flags) = (tcb.snd_nxt, tcb.head, tcb.flags);
    let is_alone = (tcb.snd_una == seq) & (tcb.tail == handle) & (tcb.cold == NONE) & (tcb.send_deadline == NEVER);
    if !is_alone | (flags.0 & OTHER.0 != Flags::SACK.0) {
        return None;
    }
    let (mut chunk, limits, counters) = memory.unsent_small(handle)?;
    let len = chunk.len;
    let coarse = output::coarse(*now);
    let idle_ms = u32::from(coarse.wrapping_sub(tcb.sent_at)) << output::COARSE_SHIFT;
    let fits = (len + u32::from(TIMESTAMPS) <= u32::from(tcb.mss)) & (len <= tcb.snd_wnd) & (idle_ms <= limits.idle_ms);
    // No round trip, 0, is beyond every limit.
    if !fits | (tcb.srtt_us.wrapping_sub(1) >= limits.srtt_us) {
        return None;
    }
    chunk.note_sent(now.us);
    tcb.last_sent = handle;
    tcb.snd_nxt = seq + len;
    tcb.sent_at = coarse;
    counters.segments += 1;
    counters.bytes += u64::from(len);
    tcb.flags = Flags(flags.0 & !Flags::TIMER_HIGH.0 | Flags::TIMER_LOW.0);
    tcb.send_deadline = now.in_ms(tcb.srtt_us / 500 + limits.delay_ms + 1);
    let bytes: &Line = chunk.bytes;
    Some(Last { seq, data: &bytes[HEADER..HEADER + len as usize], fin: false })
}

/// What an acknowledgment of the only chunk that is kept changes, if it is a small one in flight, and no window held the connection back. The caller
/// has checked what `usual::on_ack` says, and that neither `SEND_BLOCKED` nor `CWND_LIMITED` is set. False, and nothing has happened, if it does not apply.
#[inline(always)]
pub(super) fn on_ack(tcb: &mut Tcb, memory: &mut SendMemory, up_to: Seq, seq: Seq, wnd: u32, now: &Now) -> bool {
    let (handle, flight) = (tcb.head, up_to - tcb.snd_una);
    let is_alone = (tcb.tail == handle) & (tcb.last_sent == handle) & (tcb.cold == NONE) & (up_to == tcb.snd_nxt);
    // As `congestion::is_limited`, whatever the threshold is: the general way looks closer.
    if !is_alone | (flight > tcb.cwnd / 2) | (tcb.srtt_us == 0) {
        return false;
    }
    let Some(stamp) = memory.free_small(handle, flight) else { return false };
    ack::take_window(tcb, seq, wnd);
    (tcb.head, tcb.tail, tcb.last_sent, tcb.queued) = (NONE, NONE, NONE, 0);
    tcb.snd_una = up_to;
    tcb.send_deadline = NEVER;
    rtt::smooth(tcb, now.us.wrapping_sub(stamp));
    true
}
