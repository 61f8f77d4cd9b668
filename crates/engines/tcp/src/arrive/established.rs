//! Segments of connections that stand or are about to (RFC 9293 section 3.10.7.4), with RFC 7323 (PAWS) and RFC 5961.

use super::offer::echo;
use super::{connected, data, is_same, reset};
use crate::engine::Engine;
use crate::segment::{Options, Segment, bit};
use crate::send::{self, Ack, AckOutcome};
use crate::tuple::Tuple;
use crate::{App, CloseReason, Flags, Io, Seq, State, Tcb};

/// ECN bits of the IP header: congestion experienced.
const CE: u8 = 3;

/// A segment of a connection from SYN-RECEIVED on.
pub(super) fn segment(engine: &mut Engine, app: &mut dyn App, tuple: &Tuple, index: u32, segment: &Segment<'_>) {
    let mut segment = *segment;
    let tcb = &mut engine.tcbs[index];
    if tcb.state == State::SynReceived && segment.has(bit::SYN) && segment.seq + 1 == tcb.rcv_nxt {
        if !segment.has(bit::ACK) {
            // The SYN came again, so the answer was lost.
            engine.resend_syn(index);
            return;
        }
        // Both sides began at the same time, and this is the answer to the SYN of this side.
        segment.flags &= !bit::SYN;
        segment.seq += 1;
        tcb.flags.set(Flags::ACK_NOW);
        engine.touch(index);
    }
    if !validate(engine, index, &segment) {
        return;
    }
    let conn = engine.conn(index);
    if engine.tcbs[index].state == State::SynReceived && !complete(engine, app, tuple, index, &segment) {
        return;
    }
    if !is_same(engine, conn) || !acknowledge(engine, app, index, &segment) || !is_same(engine, conn) {
        return;
    }
    congestion(&mut engine.tcbs[index], &segment);
    if segment.has(bit::URG) {
        urgent(engine, app, index, &segment);
        if !is_same(engine, conn) {
            return;
        }
    }
    if matches!(engine.tcbs[index].state, State::Established | State::FinWait1 | State::FinWait2) {
        data::segment(engine, app, index, segment.seq, segment.data, segment.has(bit::FIN));
    } else if segment.has(bit::FIN) || !segment.data.is_empty() {
        // The peer sends again what was received: its FIN was not acknowledged yet, as far as it knows.
        engine.tcbs[index].flags.set(Flags::ACK_NOW);
        engine.touch(index);
    }
    if is_same(engine, conn) {
        let tick = engine.now.tick;
        let tcb = &engine.tcbs[index];
        if let Some(record) = engine.receive.get_mut(tcb.recv) {
            record.urgent = record.urgent.filter(|end| end.after(tcb.snd_una));
        }
        engine.receive.clean(&mut engine.tcbs[index].recv, tick);
    }
}

/// PAWS, sequence, RST, SYN, and whether there is an acknowledgment; false if the segment is dropped. What is to be answered is.
fn validate(engine: &mut Engine, index: u32, segment: &Segment<'_>) -> bool {
    let tcb = &mut engine.tcbs[index];
    let is_reset = segment.has(bit::RST);
    if tcb.flags.has(Flags::TIMESTAMPS) && !is_reset {
        match segment.timestamps {
            Some((value, _)) if (value.wrapping_sub(tcb.ts_recent) as i32) < 0 && !tcb.flags.has(Flags::SILENT) => {
                engine.counters.paws_rejected += 1;
                engine.answer_unacceptable(index, segment);
                return false;
            }
            Some(_) => {}
            // RFC 7323 section 3.2: dropped without an answer.
            None => return false,
        }
    }
    if !is_acceptable(tcb, segment) {
        if !is_reset {
            engine.answer_unacceptable(index, segment);
        }
        return false;
    }
    if is_reset {
        if segment.seq == tcb.rcv_nxt {
            reset(engine, index);
        } else {
            engine.challenge(index);
        }
        return false;
    }
    if segment.has(bit::SYN) {
        engine.counters.syn_challenges += 1;
        engine.challenge(index);
        return false;
    }
    if !segment.has(bit::ACK) {
        return false;
    }
    if let Some(record) = engine.receive.get_mut(engine.tcbs[index].recv) {
        (record.heard, record.probes) = (engine.now.tick, 0);
    }
    true
}

/// The four cases of RFC 9293 section 3.10.7.4. Like Linux, a segment without data may also begin at the right edge: the peer has sent
/// all that it may, and this segment overtook its data. With a closed window, the acknowledgment of a segment in sequence counts (MUST-66).
fn is_acceptable(tcb: &Tcb, segment: &Segment<'_>) -> bool {
    let (seq, end) = (segment.seq, segment.end());
    if segment.len() == 0 || tcb.rcv_edge == tcb.rcv_nxt {
        return seq.at_least(tcb.rcv_nxt) && seq.at_most(tcb.rcv_edge);
    }
    seq.is_in(tcb.rcv_nxt, tcb.rcv_edge) || (end - 1).is_in(tcb.rcv_nxt, tcb.rcv_edge)
}

/// The acknowledgment that ends a handshake; false if the segment is dropped.
fn complete(engine: &mut Engine, app: &mut dyn App, tuple: &Tuple, index: u32, segment: &Segment<'_>) -> bool {
    let now = engine.now;
    let tcb = &mut engine.tcbs[index];
    if !segment.ack.after(tcb.snd_una) || segment.ack.after(tcb.snd_nxt) {
        engine.refuse(tuple, segment);
        return false;
    }
    let is_passive = tcb.flags.has(Flags::PASSIVE);
    let ack = ack_of(tcb, segment, &[]);
    send::on_ack(tcb, &mut engine.send, &ack, now);
    let closed = tcb.flags.any(Flags::FIN_QUEUED | Flags::FIN_SENT);
    tcb.state = if closed { State::FinWait1 } else { State::Established };
    send::established(tcb, &mut engine.send, now);
    engine.touch(index);
    if is_passive {
        engine.no_longer_half_open(index);
        engine.counters.passive_opens += 1;
    }
    connected(engine, app, index);
    true
}

/// Takes the acknowledgment in; false if the segment is dropped, or the connection is over.
fn acknowledge(engine: &mut Engine, app: &mut dyn App, index: u32, segment: &Segment<'_>) -> bool {
    let now = engine.now;
    let tcb = &mut engine.tcbs[index];
    // RFC 5961 section 5.2.
    if segment.ack.after(tcb.snd_nxt) || segment.ack.before(tcb.snd_una - tcb.max_window()) {
        engine.challenge(index);
        return false;
    }
    if let Some((value, _)) = segment.timestamps
        && tcb.flags.has(Flags::TIMESTAMPS)
        && segment.seq.at_most(tcb.ack_sent)
    {
        tcb.ts_recent = value;
        tcb.flags.clear(Flags::SILENT);
    }
    let options = if segment.options.is_empty() { Options::default() } else { Options::parse(segment.options) };
    let sacks = if tcb.flags.has(Flags::SACK) { options.sacks() } else { &[] };
    let ack = ack_of(tcb, segment, sacks);
    if segment.ack.after(tcb.snd_una) || segment.end().after(tcb.rcv_nxt) {
        // What was sent arrived, or the peer had an acknowledgment and sent on: the neighbour works (RFC 4861 section 7.3.1).
        engine.egress.confirm(tcb.hop);
    }
    let outcome = send::on_ack(tcb, &mut engine.send, &ack, now);
    if segment.len() == 0 {
        engine.counters.pure_acks += 1;
    }
    engine.touch(index);
    after_ack(engine, app, index, outcome)
}

/// What an acknowledgment changes beside the send side; false if the connection is over.
pub(super) fn after_ack(engine: &mut Engine, app: &mut dyn App, index: u32, outcome: AckOutcome) -> bool {
    if outcome.fin_acked {
        match engine.tcbs[index].state {
            State::FinWait1 => engine.tcbs[index].state = State::FinWait2,
            State::Closing => {
                engine.time_wait(index);
                return false;
            }
            State::LastAck => {
                engine.end(index, CloseReason::Normal);
                return false;
            }
            _ => {}
        }
    }
    if outcome.room_again {
        let conn = engine.conn(index);
        app.sendable(conn, &mut Io::new(engine));
        return is_same(engine, conn);
    }
    true
}

fn ack_of<'a>(tcb: &Tcb, segment: &Segment<'_>, sack: &'a [(Seq, Seq)]) -> Ack<'a> {
    Ack {
        ack: segment.ack,
        seq: segment.seq,
        wnd: u32::from(segment.window) << tcb.snd_scale(),
        sack,
        ts_echo: if tcb.flags.has(Flags::TIMESTAMPS) { echo(segment, tcb.ts_offset) } else { None },
        ece: segment.has(bit::ECE) && tcb.flags.has(Flags::ECN),
        len: segment.len(),
    }
}

/// Tells the program how far urgent bytes reach. The pointer points behind them (RFC 9293 section 3.8.5).
fn urgent(engine: &mut Engine, app: &mut dyn App, index: u32, segment: &Segment<'_>) {
    let (conn, next) = (engine.conn(index), engine.tcbs[index].rcv_nxt);
    let end = segment.seq + u32::from(segment.urgent);
    if end.after(next) {
        app.urgent(conn, end - next, &mut Io::new(engine));
    }
}

/// The receiver's part of ECN (RFC 3168 section 6.1.3): ECE from a mark until CWR.
fn congestion(tcb: &mut Tcb, segment: &Segment<'_>) {
    if !tcb.flags.has(Flags::ECN) {
        return;
    }
    if segment.has(bit::CWR) {
        tcb.flags.clear(Flags::ECE_OWED);
    }
    if segment.ecn == CE {
        tcb.flags.set(Flags::ECE_OWED | Flags::ACK_NOW);
    }
}
