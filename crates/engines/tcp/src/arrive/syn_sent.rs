//! SYN-SENT (RFC 9293 section 3.10.7.3).

use super::offer::{answer, echo, first_window};
use super::{connected, is_same, reset};
use crate::cookie::Agreed;
use crate::engine::Engine;
use crate::segment::{Segment, bit};
use crate::send::{self, Ack};
use crate::{App, Flags, State};

pub(super) fn segment(engine: &mut Engine, app: &mut dyn App, index: u32, segment: &Segment<'_>) {
    let tuple = engine.tuple(index);
    let tcb = &engine.tcbs[index];
    // First, the acknowledgment: of the SYN or nothing.
    let has_ack = segment.has(bit::ACK);
    if has_ack && !(segment.ack.after(tcb.snd_una) && segment.ack.at_most(tcb.snd_nxt)) {
        engine.refuse(&tuple, segment);
        return;
    }
    // Second, RST.
    if segment.has(bit::RST) {
        if has_ack {
            reset(engine, index);
        }
        return;
    }
    // Fourth, SYN. (The third, security, is not done by anybody.)
    if !segment.has(bit::SYN) {
        return;
    }
    let offered = answer(&tuple, segment);
    let ours = tcb.flags;
    let ecn_answer = if has_ack { segment.flags & (bit::ECE | bit::CWR) == bit::ECE } else { offered.ecn };
    let agreed = Agreed { ecn: ours.has(Flags::ECN) && ecn_answer, ..offered };
    engine.agree(index, segment.seq, &agreed);
    let now = engine.now;
    let tcb = &mut engine.tcbs[index];
    tcb.ts_recent = segment.timestamps.map_or(0, |(value, _)| value);
    first_window(tcb, segment);
    if !has_ack {
        // Both sides began at the same time: the SYN is sent again, with an acknowledgment.
        tcb.state = State::SynReceived;
        engine.resend_syn(index);
        return;
    }
    let ack = Ack {
        ack: segment.ack,
        seq: segment.seq,
        wnd: u32::from(segment.window),
        sack: &[],
        ts_echo: echo(segment, tcb.ts_offset),
        ece: false,
        len: segment.len(),
    };
    send::on_plain_ack(tcb, &mut engine.send, &ack, now);
    tcb.state = State::Established;
    tcb.flags.set(Flags::ACK_NOW);
    send::established(tcb, &mut engine.send, now);
    engine.touch(index);
    let conn = engine.conn(index);
    connected(engine, app, index);
    // Data and FIN of the segment are worked on as in ESTABLISHED.
    if is_same(engine, conn) && (!segment.data.is_empty() || segment.has(bit::FIN)) {
        super::data::segment(engine, app, index, segment.seq + 1, segment.data, segment.has(bit::FIN));
    }
}
