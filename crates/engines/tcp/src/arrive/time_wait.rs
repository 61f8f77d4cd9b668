//! Segments of connections that ended (RFC 9293 section 3.10.7.4, TIME-WAIT; RFC 6191).

use super::listen;
use crate::engine::Engine;
use crate::segment::{Segment, bit};
use crate::tuple::Tuple;

pub(super) fn segment(engine: &mut Engine, tuple: &Tuple, place: u32, segment: &Segment<'_>) {
    let record = *engine.time_waits.get(place);
    if segment.has(bit::RST) {
        if segment.seq == record.rcv_nxt {
            engine.forget(place);
        }
        return;
    }
    if segment.flags & (bit::SYN | bit::ACK) == bit::SYN && begins_anew(engine, tuple, place, segment) {
        return;
    }
    // The acknowledgment that ended the connection needs no answer; anything else shows that the peer missed something.
    if segment.len() == 0 && segment.seq == record.rcv_nxt && segment.ack == record.snd_nxt {
        return;
    }
    if segment.has(bit::FIN) && segment.end() == record.rcv_nxt {
        engine.time_waits.get_mut(place).until = engine.now.in_ms(engine.config.time_wait_ms);
    }
    engine.acknowledge_record(tuple, &record);
}

/// A SYN that is certainly newer than the connection that ended begins the next one (RFC 6191, RFC 9293 section 3.6.1).
fn begins_anew(engine: &mut Engine, tuple: &Tuple, place: u32, segment: &Segment<'_>) -> bool {
    let record = *engine.time_waits.get(place);
    let is_newer = match segment.timestamps.filter(|_| record.timestamps) {
        Some((value, _)) if value != record.ts_recent => (value.wrapping_sub(record.ts_recent) as i32) > 0,
        _ => segment.seq.after(record.rcv_nxt),
    };
    let Some(listener) = engine.listeners.find(tuple.local_ip(), tuple.local_port).filter(|_| is_newer) else {
        return false;
    };
    engine.forget(place);
    engine.counters.time_wait_recycled += 1;
    let (isn, _) = engine.start_numbers(tuple);
    listen::syn(engine, tuple, listener, segment, Some(record.next_start(isn)));
    true
}
