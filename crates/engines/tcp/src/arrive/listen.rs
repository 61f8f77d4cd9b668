//! Segments without a connection: SYN segments for listeners, acknowledgments that bring SYN cookies back, and all the rest.

use linerate_ip::HopId;

use super::connected;
use super::offer::{answer, first_window};
use crate::cookie::{Agreed, Cookies};
use crate::engine::{Beginning, Engine, syn_options};
use crate::segment::{Segment, bit};
use crate::tuple::Tuple;
use crate::{App, CloseReason, Flags, State, Tcb, egress, send};

/// RFC 9293 section 3.10.7.1 and 3.10.7.2.
pub(super) fn segment(engine: &mut Engine, app: &mut dyn App, tuple: &Tuple, segment: &Segment<'_>) {
    let Some(listener) = engine.listeners.find(tuple.local_ip(), tuple.local_port) else {
        engine.counters.no_connection += 1;
        engine.refuse(tuple, segment);
        return;
    };
    if segment.has(bit::RST) {
        return;
    }
    if segment.has(bit::ACK) {
        if segment.has(bit::SYN) || !cookie(engine, app, tuple, listener, segment) {
            engine.refuse(tuple, segment);
        }
        return;
    }
    if segment.has(bit::SYN) {
        syn(engine, tuple, listener, segment, None);
    }
}

/// A SYN for a listener: a block is made, or, if too many handshakes take memory already, a cookie is sent.
pub(super) fn syn(engine: &mut Engine, tuple: &Tuple, listener: u32, segment: &Segment<'_>, iss: Option<crate::Seq>) {
    let Some(listening) = engine.listeners.get(listener).copied() else { return };
    let agreed = answer(tuple, segment);
    if listening.half_open >= listening.options.backlog {
        send_cookie(engine, tuple, segment, &agreed);
        return;
    }
    let mut flags = Flags::PASSIVE;
    flags.put(Flags::NODELAY, listening.options.nodelay);
    let token = listening.options.token;
    let beginning = Beginning { tuple: *tuple, hop: HopId::NONE, state: State::SynReceived, flags, iss, token };
    let Some(index) = engine.begin(beginning) else {
        engine.counters.listen_drops += 1;
        return;
    };
    engine.listeners.count(tuple.local_ip(), tuple.local_port, true);
    engine.agree(index, segment.seq, &agreed);
    let tcb = &mut engine.tcbs[index];
    tcb.ts_recent = segment.timestamps.map_or(0, |(value, _)| value);
    first_window(tcb, segment);
    if send::open(tcb, &mut engine.send) {
        engine.touch(index);
    } else {
        engine.counters.listen_drops += 1;
        engine.end(index, CloseReason::Aborted);
    }
}

fn send_cookie(engine: &mut Engine, tuple: &Tuple, segment: &Segment<'_>, agreed: &Agreed) {
    let (_, ts_offset) = engine.start_numbers(tuple);
    let path = engine.egress.ip.path_mtu(tuple.remote_ip()).saturating_sub(if tuple.v6 { 60 } else { 40 });
    let cookie = engine.cookies.make(tuple, segment.seq, agreed.mss.min(path), engine.now);
    let clock = engine.now.tick.wrapping_add(ts_offset);
    // Without timestamps nothing but the MSS comes back.
    let agreed =
        if agreed.timestamps { *agreed } else { Agreed { window_scale: None, sack: false, ecn: false, ..*agreed } };
    let mut tcb = Tcb { ts_recent: segment.timestamps.map_or(0, |(value, _)| value), ..Tcb::default() };
    tcb.flags.put(Flags::SACK, agreed.sack);
    tcb.flags.put(Flags::TIMESTAMPS, agreed.timestamps);
    tcb.flags.put(Flags::WINDOW_SCALE, agreed.window_scale.is_some());
    let mss = if tuple.v6 { engine.mss6 } else { engine.mss4 };
    let timestamps = agreed.timestamps.then(|| (Cookies::timestamp(&agreed, clock), tcb.ts_recent));
    let options = syn_options(&tcb, mss, engine.window_shift, timestamps);
    let flags = bit::SYN | bit::ACK | if agreed.ecn { bit::ECE } else { 0 };
    engine.counters.syncookies_sent += 1;
    let window = engine.config.receive_window_max.min(u32::from(u16::MAX)) as u16;
    let (seq, ack, options) = (cookie, segment.seq + 1, options.as_slice());
    engine.send_bare(tuple, &egress::Segment { seq, ack, flags, window, options, ..egress::Segment::EMPTY });
}

/// An acknowledgment that may bring a cookie back; false if it does not.
fn cookie(engine: &mut Engine, app: &mut dyn App, tuple: &Tuple, listener: u32, segment: &Segment<'_>) -> bool {
    let (_, ts_offset) = engine.start_numbers(tuple);
    let echo = segment.timestamps.map(|(_, echo)| echo);
    let (irs, iss) = (segment.seq - 1, segment.ack - 1);
    let Some(agreed) = engine.cookies.read(tuple, irs, iss, echo, engine.now) else {
        engine.counters.syncookies_failed += 1;
        return false;
    };
    let Some(listening) = engine.listeners.get(listener).copied() else { return false };
    let mut flags = Flags::PASSIVE;
    flags.put(Flags::NODELAY, listening.options.nodelay);
    let (hop, token) = (HopId::NONE, listening.options.token);
    let beginning = Beginning { tuple: *tuple, hop, state: State::SynReceived, flags, iss: Some(iss), token };
    let Some(index) = engine.begin(beginning) else {
        engine.counters.listen_drops += 1;
        return true;
    };
    engine.counters.syncookies_recv += 1;
    engine.counters.passive_opens += 1;
    engine.agree(index, irs, &agreed);
    let now = engine.now;
    let tcb = &mut engine.tcbs[index];
    tcb.state = State::Established;
    tcb.ts_offset = ts_offset;
    (tcb.snd_una, tcb.snd_nxt) = (segment.ack, segment.ack);
    tcb.ts_recent = segment.timestamps.map_or(0, |(value, _)| value);
    tcb.snd_wnd = u32::from(segment.window) << tcb.snd_scale();
    tcb.snd_wl1 = segment.seq;
    tcb.max_wnd = segment.window.max(1);
    send::established(tcb, &mut engine.send, now);
    let conn = engine.conn(index);
    connected(engine, app, index);
    if super::is_same(engine, conn) {
        super::established::segment(engine, app, tuple, index, segment);
    }
    true
}
