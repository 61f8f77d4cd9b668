//! The usual case of a request and its answer, in one piece: a small segment was sent, and one acknowledgment takes all that is in flight.
//! Each function here says that it does not apply, and has changed nothing then, or comes to the same as the general one.

use super::chunk::{HEADER, Header, Marks};
use super::memory::{SEGMENT_MAX, SendMemory};
use super::timer::{self, Timer};
use super::{Ack, AckOutcome, ack, congestion, output, queue, rtt};
use crate::time::NEVER;
use crate::{Flags, NONE, Now, Seq, Tcb};

/// What an acknowledgment of all that is in flight, one chunk, changed. The caller has checked that `up_to` is after `snd_una` and at most
/// `snd_nxt`, that nothing is reported by SACK or ECN, and that the segment, whose window `wnd` is, is not older than the last one.
#[inline(always)]
pub(super) fn on_ack(
    tcb: &mut Tcb,
    memory: &mut SendMemory,
    up_to: Seq,
    seq: Seq,
    wnd: u32,
    now: &Now,
) -> Option<bool> {
    let handle = tcb.head;
    if (tcb.cold != NONE) | (up_to != tcb.snd_nxt) | (handle != tcb.last_sent) | (handle == NONE) {
        return None;
    }
    let header = memory.header(handle);
    if (header.marks != Marks::default()) | (header.seq + u32::from(header.len) != up_to) {
        return None;
    }
    ack::take_window(tcb, seq, wnd);
    let flight = up_to - tcb.snd_una;
    memory.free(handle);
    tcb.head = header.next;
    tcb.last_sent = NONE;
    if tcb.tail == handle {
        tcb.tail = NONE;
    }
    tcb.snd_una = up_to;
    tcb.queued -= flight;
    rtt::sample(tcb, now.us.wrapping_sub(header.stamp));
    tcb.send_deadline = NEVER;
    let has_room_only = !tcb.flags.has(Flags::SEND_BLOCKED) & !congestion::is_limited(tcb, flight);
    Some(!has_room_only && grow_and_take_room(tcb, memory, flight, *now))
}

/// What an acknowledgment changes of a connection that the window or the buffer held back; whether `sendable` is due.
#[inline(never)]
fn grow_and_take_room(tcb: &mut Tcb, memory: &mut SendMemory, flight: u32, now: Now) -> bool {
    if congestion::is_limited(tcb, flight) {
        ack::grow(tcb, memory, flight, now);
    }
    tcb.flags.has(Flags::SEND_BLOCKED) && super::write::take_room_again(tcb, memory)
}

/// As [`on_ack`], also of a SYN or FIN. `None`, and nothing has happened, if it does not apply.
#[inline(always)]
pub(super) fn on_single_ack(tcb: &mut Tcb, memory: &mut SendMemory, ack: &Ack<'_>, now: Now) -> Option<AckOutcome> {
    let handle = tcb.head;
    if (tcb.cold != NONE) | (ack.ack != tcb.snd_nxt) | (handle != tcb.last_sent) | (handle == NONE) {
        return None;
    }
    let header = memory.header(handle);
    if (header.marks.without(Marks::SYN).without(Marks::FIN) != Marks::default()) | (header.end() != ack.ack) {
        return None;
    }
    ack::take_window(tcb, ack.seq, ack.wnd);
    let flight = ack.ack - tcb.snd_una;
    memory.free(handle);
    tcb.head = header.next;
    tcb.last_sent = NONE;
    if tcb.tail == handle {
        tcb.tail = NONE;
    }
    tcb.snd_una = ack.ack;
    tcb.queued -= flight;
    rtt::sample(tcb, now.us.wrapping_sub(header.stamp));
    // The first window does not depend on what is known of it before the handshake is over.
    if !header.marks.has(Marks::SYN) && congestion::is_limited(tcb, flight) {
        ack::grow(tcb, memory, flight, now);
    }
    tcb.send_deadline = NEVER;
    Some(AckOutcome {
        bytes_acked: flight - header.marks.numbers(),
        syn_acked: header.marks.has(Marks::SYN),
        fin_acked: header.marks.has(Marks::FIN),
        room_again: tcb.flags.has(Flags::SEND_BLOCKED) && super::write::take_room_again(tcb, memory),
    })
}

/// A segment that leaves, and is the last one that was written.
pub struct Last<'a> {
    /// SEG.SEQ.
    pub seq: Seq,
    /// The data.
    pub data: &'a [u8],
    /// FIN.
    pub fin: bool,
}

/// The one chunk that was never sent, if it may leave as it is, of a connection with timestamps.
#[inline(always)]
pub(super) fn next_segment<'a>(tcb: &mut Tcb, memory: &'a mut SendMemory, now: &Now) -> Option<Last<'a>> {
    let flight = tcb.in_flight();
    let is_other = tcb.cold != NONE || tcb.flags.any(Flags::WINDOW_PROBE | Flags::FIN_OWED | Flags::CWR_OWED);
    if is_other | (tcb.queued == flight) {
        return None;
    }
    let handle = if tcb.last_sent == NONE { tcb.head } else { memory.header(tcb.last_sent).next };
    if handle == NONE || handle != tcb.tail {
        return None;
    }
    let first_stamp = if flight == 0 { now.us } else { memory.header(tcb.head).stamp };
    let (chunk, config, counters) = memory.chunk(handle)?;
    let header = Header::read(chunk.first_chunk()?);
    let end = HEADER + usize::from(header.len);
    // As `queue::payload_max`; where nothing is left beside the timestamps, the general way knows what to do.
    let payload = u32::from(tcb.mss).saturating_sub(12).min(SEGMENT_MAX);
    let fin = header.marks != Marks::default();
    if (fin && header.marks != Marks::FIN) || end > chunk.len() {
        return None;
    }
    let span = u32::from(header.len) + u32::from(fin);
    if !output::fits(tcb, config, header.len, span, payload, flight, now) {
        return None;
    }
    Header::write_sent(chunk.first_chunk_mut()?, now.us);
    output::count_sent(tcb, counters, handle, &header, now);
    output::arm_sent(tcb, config, first_stamp, payload, now);
    Some(Last { seq: header.seq, data: &chunk[HEADER..end], fin })
}

/// The SYN, if it was never sent, and nothing is known of losses: its number.
#[inline(always)]
pub(super) fn next_syn(tcb: &mut Tcb, memory: &mut SendMemory, now: Now) -> Option<Seq> {
    let handle = tcb.head;
    if (tcb.cold != NONE) | (tcb.in_flight() != 0) | (handle == NONE) {
        return None;
    }
    let header = memory.header(handle);
    if (header.marks != Marks::SYN) | (header.len != 0) {
        return None;
    }
    memory.stamp(handle, now.us);
    output::count_sent(tcb, &mut memory.counters, handle, &header, &now);
    if tcb.send_deadline == NEVER {
        // As `timer::arm_clean`, before the handshake is over.
        timer::set(tcb, Timer::Timeout, rtt::rto_ms(tcb, &memory.config), now);
    } else {
        output::arm_sent(tcb, &memory.config, now.us, queue::payload_max(tcb), &now);
    }
    Some(header.seq)
}
