//! Data and FIN of a segment that was accepted (RFC 9293 section 3.10.7.4, seventh and eighth).

use super::is_same;
use crate::engine::Engine;
use crate::receive::Stored;
use crate::{App, CloseReason, Conn, Flags, Io, NONE, Seq, State, Tcb};

/// Data that may begin before what is expected, behind it, or end behind the window.
pub(super) fn segment(
    engine: &mut Engine,
    app: &mut dyn App,
    index: u32,
    mut seq: Seq,
    mut data: &[u8],
    mut fin: bool,
) {
    let tcb = &mut engine.tcbs[index];
    if data.is_empty() && !fin {
        return;
    }
    if seq.before(tcb.rcv_nxt) {
        let old = (tcb.rcv_nxt - seq) as usize;
        let (duplicate, rest) = data.split_at(old.min(data.len()));
        fin &= old <= data.len();
        data = rest;
        let end = seq + duplicate.len() as u32;
        if !duplicate.is_empty() {
            engine.note_duplicate(index, seq, end);
        }
        seq = engine.tcbs[index].rcv_nxt;
    }
    let tcb = &mut engine.tcbs[index];
    let room = (tcb.rcv_edge - seq) as usize;
    if data.len() > room {
        (data, fin) = (&data[..room], false);
        tcb.flags.set(Flags::ACK_NOW);
    }
    engine.touch(index);
    if seq == engine.tcbs[index].rcv_nxt {
        if !data.is_empty() || fin {
            in_order(engine, app, index, data, fin);
        }
    } else {
        out_of_order(engine, index, seq, data, fin);
    }
}

/// Data that is expected next, and fits into the window.
#[inline(always)]
pub(super) fn in_order(engine: &mut Engine, app: &mut dyn App, index: u32, data: &[u8], fin: bool) {
    let tcb = &mut engine.tcbs[index];
    let conn = Conn { index, generation: tcb.generation };
    expect_next(tcb, data.len(), engine.mss4);
    let taken = if tcb.flags.has(Flags::PAUSED) || data.is_empty() { 0 } else { offer(engine, app, conn, data) };
    note_taken(engine, app, conn, data, taken, fin);
}

/// What is expected next is behind `len` bytes of data that arrived in order.
#[inline(always)]
pub(super) fn expect_next(tcb: &mut Tcb, len: usize, mss: u16) {
    tcb.rcv_nxt += len as u32;
    if len > usize::from(tcb.rcv_mss) {
        tcb.rcv_mss = tcb.rcv_mss.max(len.min(usize::from(mss)) as u16);
    }
}

/// Offers the program data that came next, and returns how many bytes it took.
#[inline(always)]
pub(super) fn offer<A: App + ?Sized>(engine: &mut Engine, app: &mut A, conn: Conn, data: &[u8]) -> usize {
    app.received(conn, data, &mut Io::new(engine)).min(data.len())
}

/// Notes the acknowledgment that is owed for data that came next, and keeps what the program did not take.
#[inline(always)]
pub(super) fn note_taken(engine: &mut Engine, app: &mut dyn App, conn: Conn, data: &[u8], taken: usize, fin: bool) {
    let (index, len) = (conn.index, data.len());
    let (tick, delay) = (engine.now.tick, engine.config.ack_delay_ms);
    let Engine { tcbs, touched, .. } = engine;
    let tcb = &mut tcbs[index];
    if (tcb.generation != conn.generation) | (tcb.state == State::Closed) {
        return;
    }
    if (taken == len) & !fin & (tcb.recv == NONE) {
        note_received(tcb, len, tick, delay);
        tcb.touch(index, touched);
        return;
    }
    keep_rest(engine, app, conn, data, taken, fin);
}

/// As [`in_order`], for data that the program did not take all of, or something that waited behind them.
#[inline(never)]
fn keep_rest(engine: &mut Engine, app: &mut dyn App, conn: Conn, data: &[u8], taken: usize, mut fin: bool) {
    let (index, len) = (conn.index, data.len());
    let seq = engine.tcbs[index].rcv_nxt - len as u32;
    if taken < len {
        let tcb = &mut engine.tcbs[index];
        tcb.flags.set(Flags::PAUSED);
        let kept = engine.receive.append(&mut tcb.recv, seq + taken as u32, &data[taken..]);
        if taken + kept < len {
            // There is no memory for the rest, so the peer has to send it again.
            tcb.rcv_nxt = seq + (taken + kept) as u32;
            tcb.flags.set(Flags::ACK_NOW);
            engine.counters.rcvq_drop += 1;
            fin = false;
        }
    }
    if engine.tcbs[index].recv != NONE {
        fin |= close_gap(engine, app, index);
        if !is_same(engine, conn) {
            return;
        }
    }
    let (tick, delay) = (engine.now.tick, engine.config.ack_delay_ms);
    note_received(&mut engine.tcbs[index], len, tick, delay);
    engine.touch(index);
    if fin {
        peer_finished(engine, app, index);
    }
}

/// Data in order are acknowledged at once after two full segments, else after the delay (RFC 9293 section 3.8.6.3). The delay waits for
/// data that the acknowledgment can leave with: small segments of a connection that had none in time are acknowledged at once.
#[inline(always)]
fn note_received(tcb: &mut Tcb, len: usize, tick: u32, delay: u32) {
    if tcb.rcv_nxt - tcb.ack_sent >= 2 * u32::from(tcb.rcv_mss) {
        tcb.flags.set(Flags::ACK_NOW);
    } else if !tcb.flags.has(Flags::ACK_DELAYED) {
        let is_small = len < usize::from(tcb.rcv_mss);
        let at_once = is_small & tcb.flags.has(Flags::ACK_AT_ONCE);
        tcb.flags.set(if at_once { Flags::ACK_NOW } else { Flags::ACK_DELAYED });
        tcb.ack_due = tick.wrapping_add(delay) as u16;
    }
}

/// Hands over what waited behind a gap that is closed now; true if a FIN follows.
fn close_gap(engine: &mut Engine, app: &mut dyn App, index: u32) -> bool {
    let tcb = &mut engine.tcbs[index];
    // Closing a gap, or a part of one, is acknowledged at once (RFC 5681 section 4.2).
    let had_gap = engine.receive.get(tcb.recv).is_some_and(|record| !record.ahead.is_empty());
    tcb.flags.put(Flags::ACK_NOW, had_gap || tcb.flags.has(Flags::ACK_NOW));
    let next = engine.receive.join(tcb.recv, tcb.rcv_nxt);
    if next != tcb.rcv_nxt {
        tcb.rcv_nxt = next;
        if !tcb.flags.has(Flags::PAUSED) {
            deliver_ready(engine, app, index);
        }
    }
    let (recv, next) = (engine.tcbs[index].recv, engine.tcbs[index].rcv_nxt);
    let Some(record) = engine.receive.get_mut(recv) else { return false };
    record.fin.take_if(|fin| *fin == next).is_some()
}

fn out_of_order(engine: &mut Engine, index: u32, seq: Seq, data: &[u8], fin: bool) {
    let tcb = &mut engine.tcbs[index];
    // An acknowledgment of a segment out of order leaves at once (RFC 5681 section 4.2).
    tcb.flags.set(Flags::ACK_NOW);
    if !data.is_empty() {
        match engine.receive.store(&mut tcb.recv, seq, data) {
            Stored::Kept(duplicate) => {
                engine.counters.ofo_queue += 1;
                if let Some((start, end)) = duplicate {
                    engine.note_duplicate(index, start, end);
                }
            }
            Stored::NoRoom => {
                engine.counters.ofo_drop += 1;
                return;
            }
        }
    }
    let tcb = &mut engine.tcbs[index];
    if fin && let Some(record) = engine.receive.record(&mut tcb.recv) {
        record.fin = Some(seq + data.len() as u32);
    }
}

/// Offers the program what it did not take, until it takes no more.
pub(crate) fn deliver_ready(engine: &mut Engine, app: &mut dyn App, index: u32) {
    let conn = engine.conn(index);
    if !is_same(engine, conn) {
        return;
    }
    engine.tcbs[index].flags.clear(Flags::PAUSED);
    let mut bytes = std::mem::take(&mut engine.scratch);
    loop {
        let recv = engine.tcbs[index].recv;
        bytes.clear();
        bytes.extend_from_slice(engine.receive.front(recv));
        if bytes.is_empty() {
            break;
        }
        let taken = app.received(conn, &bytes, &mut Io::new(engine)).min(bytes.len());
        if !is_same(engine, conn) {
            engine.scratch = bytes;
            return;
        }
        engine.receive.consume(recv, taken);
        if taken < bytes.len() {
            engine.tcbs[index].flags.set(Flags::PAUSED);
            break;
        }
    }
    engine.scratch = bytes;
    engine.window_opened(index);
    if engine.tcbs[index].flags.has(Flags::PAUSED) {
        return;
    }
    tell_of_close(engine, app, index);
    if is_same(engine, conn) && engine.tcbs[index].state == State::TimeWait {
        engine.release(index, CloseReason::Normal);
    }
}

/// The peer's FIN arrived in order.
pub(super) fn peer_finished(engine: &mut Engine, app: &mut dyn App, index: u32) {
    let conn = engine.conn(index);
    let tcb = &mut engine.tcbs[index];
    tcb.rcv_nxt += 1;
    tcb.rcv_edge = tcb.rcv_edge.max(tcb.rcv_nxt);
    tcb.flags.set(Flags::FIN_RECEIVED | Flags::ACK_NOW);
    let was = tcb.state;
    match was {
        State::Established => tcb.state = State::CloseWait,
        State::FinWait1 => tcb.state = State::Closing,
        _ => {}
    }
    engine.touch(index);
    if !engine.tcbs[index].flags.has(Flags::PAUSED) {
        tell_of_close(engine, app, index);
    }
    if was == State::FinWait2 && is_same(engine, conn) {
        engine.acknowledge_now(index);
        engine.time_wait(index);
    }
}

/// Tells the program once that the peer closed.
fn tell_of_close(engine: &mut Engine, app: &mut dyn App, index: u32) {
    let flags = &mut engine.tcbs[index].flags;
    if flags.has(Flags::FIN_RECEIVED) && !flags.has(Flags::CLOSE_TOLD) {
        flags.set(Flags::CLOSE_TOLD);
        let conn = engine.conn(index);
        app.peer_closed(conn, &mut Io::new(engine));
    }
}
