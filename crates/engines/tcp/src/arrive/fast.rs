//! The fast path: header prediction for segments of connections that stand (RFC 9293 section 3.10.7.4 comes to the same result).

use super::{data, is_same};
use crate::engine::Engine;
use crate::segment::{Segment, bit};
use crate::send::{self, Ack};
use crate::{App, Conn, Flags, Io, NONE, Seq, State};

/// A segment without options but the timestamps.
#[derive(Clone, Copy)]
pub(crate) struct Plain<'a> {
    pub(crate) seq: Seq,
    pub(crate) ack: Seq,
    pub(crate) flags: u8,
    /// Not scaled.
    pub(crate) window: u16,
    /// TSval and TSecr.
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) data: &'a [u8],
}

/// Of an established connection, the segment that requests and answers are made of: data in sequence that acknowledge the small chunk that is all that
/// is kept. False, and nothing has happened, if it is another one: [`fast_path`] is next. It comes to the same as that one; whatever would take a call
/// before the program gets the data is left to it, so that nothing has to be kept over a call.
#[inline(always)]
pub(crate) fn answer_path<A: App>(engine: &mut Engine, app: &mut A, index: u32, segment: &Plain<'_>) -> bool {
    const USUAL: Flags = Flags(
        Flags::TIMESTAMPS.0
            | Flags::ECN.0
            | Flags::SILENT.0
            | Flags::PAUSED.0
            | Flags::SEND_BLOCKED.0
            | Flags::CWND_LIMITED.0,
    );
    let Engine { tcbs, send, counters, egress, now, .. } = &mut *engine;
    let tcb = &mut tcbs[index];
    let (Some((value, _)), len) = (segment.timestamps, segment.data.len()) else { return false };
    let is_expected = (tcb.flags.0 & USUAL.0 == Flags::TIMESTAMPS.0)
        & (segment.flags & !bit::PSH == bit::ACK)
        & (segment.seq == tcb.rcv_nxt)
        & (tcb.recv == NONE)
        & (value.wrapping_sub(tcb.ts_recent) as i32 >= 0)
        & (segment.ack != tcb.snd_una)
        & (len.wrapping_sub(1) < usize::from(tcb.rcv_mss))
        & (len <= (tcb.rcv_edge - tcb.rcv_nxt) as usize)
        & egress.is_confirmed(tcb.hop);
    let wnd = u32::from(segment.window) << tcb.snd_scale();
    if !is_expected || !send::on_small_ack(tcb, send, segment.ack, segment.seq, wnd, now) {
        return false;
    }
    counters.fast_path += 1;
    if tcb.ack_sent == tcb.rcv_nxt {
        tcb.ts_recent = value;
    }
    tcb.rcv_nxt += len as u32;
    let conn = Conn { index, generation: tcb.generation };
    let taken = data::offer(engine, app, conn, segment.data);
    data::note_taken(engine, app, conn, segment.data, taken, false);
    true
}

/// As [`fast_path`], for a segment with any options.
#[inline(never)]
pub(crate) fn fast_segment<A: App>(engine: &mut Engine, app: &mut A, index: u32, segment: &Segment<'_>) -> bool {
    let Segment { seq, ack, flags, window, timestamps, data, .. } = *segment;
    segment.options.is_empty() && fast_path(engine, app, index, &Plain { seq, ack, flags, window, timestamps, data })
}

/// A segment in sequence, of a connection without anything unusual. False, and nothing has happened, if it must go the long way.
#[inline(always)]
pub(crate) fn fast_path<A: App>(engine: &mut Engine, app: &mut A, index: u32, segment: &Plain<'_>) -> bool {
    let Engine { tcbs, send, counters, touched, egress, now, mss4, .. } = &mut *engine;
    let tcb = &mut tcbs[index];
    if tcb.state != State::Established {
        return false;
    }
    const OTHER: Flags = Flags(Flags::ECN.0 | Flags::SILENT.0 | Flags::PAUSED.0);
    let timestamps = tcb.flags.has(Flags::TIMESTAMPS);
    let (value, echo) = segment.timestamps.unwrap_or((0, 0));
    let is_plain = (segment.flags & !bit::PSH == bit::ACK)
        & (segment.seq == tcb.rcv_nxt)
        & (tcb.recv == NONE)
        & !tcb.flags.any(OTHER)
        & (segment.timestamps.is_some() == timestamps)
        & (!timestamps | (value.wrapping_sub(tcb.ts_recent) as i32 >= 0))
        & (segment.ack - tcb.snd_una <= tcb.snd_nxt - tcb.snd_una)
        & (segment.data.len() <= (tcb.rcv_edge - tcb.rcv_nxt) as usize);
    if !is_plain {
        return false;
    }
    counters.fast_path += 1;
    if (segment.ack != tcb.snd_una) | !segment.data.is_empty() {
        egress.confirm(tcb.hop);
    }
    if timestamps && tcb.ack_sent == tcb.rcv_nxt {
        tcb.ts_recent = value;
    }
    let wnd = u32::from(segment.window) << tcb.snd_scale();
    let conn = Conn { index, generation: tcb.generation };
    let usual = if segment.ack == tcb.snd_una {
        None
    } else {
        send::on_usual_ack(tcb, send, segment.ack, segment.seq, wnd, now)
    };
    let mut room_again = false;
    if let Some(again) = usual {
        tcb.touch(index, touched);
        room_again = again;
    } else if segment.ack != tcb.snd_una || wnd != tcb.snd_wnd || segment.data.is_empty() {
        let ts_echo = timestamps.then(|| echo.wrapping_sub(tcb.ts_offset));
        let (ack, seq, len) = (segment.ack, segment.seq, segment.data.len() as u32);
        let ack = Ack { ack, seq, wnd, sack: &[], ts_echo, ece: false, len };
        let outcome = send::on_ack(tcb, send, &ack, *now);
        tcb.touch(index, touched);
        room_again = outcome.room_again;
    }
    if room_again {
        tell_of_room(engine, app, conn, segment.data);
    } else if segment.data.is_empty() {
        counters.pure_acks += 1;
    } else {
        data::expect_next(tcb, segment.data.len(), *mss4);
        let taken = data::offer(engine, app, conn, segment.data);
        data::note_taken(engine, app, conn, segment.data, taken, false);
    }
    true
}

/// Tells the program that there is room again, and then of the data, unless the connection is over then.
#[cold]
fn tell_of_room(engine: &mut Engine, app: &mut dyn App, conn: Conn, data: &[u8]) {
    app.sendable(conn, &mut Io::new(engine));
    if !is_same(engine, conn) {
        return;
    }
    if data.is_empty() {
        engine.counters.pure_acks += 1;
    } else {
        data::in_order(engine, app, conn.index, data, false);
    }
}
