//! Segments in sequence of connections that begin or end: the acknowledgment that ends a handshake, and the data with it, FIN, and what
//! acknowledges a FIN. They change the same as in `established.rs`, without the steps for whatever is unusual: a short connection has
//! as many of them as of all others.

use super::established::after_ack;
use super::{connected, data, is_same};
use crate::engine::Engine;
use crate::segment::bit;
use crate::send::{self, Ack};
use crate::{App, Flags, NONE, State};

use super::fast::Plain;

/// A segment in sequence, of a connection with timestamps and without anything unusual in any state from SYN-RECEIVED on. False, and nothing has happened, if it must
/// go the long way.
#[inline(never)]
pub(crate) fn brief_path(engine: &mut Engine, app: &mut dyn App, index: u32, segment: &Plain<'_>) -> bool {
    const USUAL: Flags = Flags(Flags::TIMESTAMPS.0 | Flags::ECN.0 | Flags::SILENT.0 | Flags::PAUSED.0);
    let Engine { tcbs, send, counters, touched, egress, now, .. } = &mut *engine;
    let tcb = &mut tcbs[index];
    let Some((value, echo)) = segment.timestamps else { return false };
    let fin = segment.flags & bit::FIN != 0;
    let len = segment.data.len() as u32 + u32::from(fin);
    let is_plain = (tcb.state >= State::SynReceived)
        & (tcb.state <= State::LastAck)
        & (segment.flags & !(bit::PSH | bit::FIN) == bit::ACK)
        & (segment.seq == tcb.rcv_nxt)
        & (tcb.recv == NONE)
        & (tcb.cold == NONE)
        & (tcb.flags.0 & USUAL.0 == Flags::TIMESTAMPS.0)
        & (value.wrapping_sub(tcb.ts_recent) as i32 >= 0)
        & (segment.ack - tcb.snd_una <= tcb.snd_nxt - tcb.snd_una)
        & (len <= tcb.rcv_edge - tcb.rcv_nxt);
    let begins = tcb.state == State::SynReceived;
    let may_begin = !begins | ((segment.ack != tcb.snd_una) & tcb.flags.has(Flags::PASSIVE));
    let is_open = begins | matches!(tcb.state, State::Established | State::FinWait1 | State::FinWait2);
    if !(is_plain & may_begin & (is_open | (len == 0))) {
        return false;
    }
    if tcb.ack_sent == tcb.rcv_nxt {
        tcb.ts_recent = value;
    }
    counters.pure_acks += u64::from(len == 0);
    let has_moved = segment.ack != tcb.snd_una;
    let wnd = u32::from(segment.window) << tcb.snd_scale();
    if has_moved | (wnd != tcb.snd_wnd) | (len == 0) {
        let ts_echo = Some(echo.wrapping_sub(tcb.ts_offset));
        let ack = Ack { ack: segment.ack, seq: segment.seq, wnd, sack: &[], ts_echo, ece: false, len };
        if has_moved {
            egress.confirm(tcb.hop);
        }
        let outcome = send::on_plain_ack(tcb, send, &ack, *now);
        tcb.touch(index, touched);
        if begins {
            // Nobody knows the connection, so it was not closed either.
            tcb.state = State::Established;
            send::established(tcb, send, *now);
            counters.passive_opens += 1;
            engine.no_longer_half_open(index);
            let conn = engine.conn(index);
            connected(engine, app, index);
            if !is_same(engine, conn) {
                return true;
            }
        } else if (outcome.fin_acked | outcome.room_again) && !after_ack(engine, app, index, outcome) {
            return true;
        }
    }
    if (len > 0) & segment.data.is_empty() & (engine.tcbs[index].recv == NONE) {
        data::peer_finished(engine, app, index);
    } else if len > 0 {
        data::in_order(engine, app, index, segment.data, fin);
    }
    true
}
