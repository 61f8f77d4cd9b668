//! What leaves: segments of the connections that were touched, after all that arrived was worked on (RFC 9293, MUST-58 and MUST-59).

use super::{DelayedAck, Engine, tuple_of};
use crate::egress::{Options, Segment};
use crate::receive::{Receive, ReceiveMemory};
use crate::segment::{SACKS_MAX, bit};
use crate::send;
use crate::time::NEVER;
use crate::{Flags, NONE, Now, Seq, StackConfig, State, Tcb};

/// ECN bits of the IP header: the sender does ECN, ECT(0).
const ECT0: u8 = 2;

impl Engine {
    /// Sends what the touched connections have, as far as there are frames and room. Those that had to wait stay in the list.
    pub(crate) fn flush(&mut self) {
        while let Some(index) = self.touched.front().copied() {
            if !self.emit(index) {
                self.counters.output_stalls += 1;
                return;
            }
            self.touched.pop_front();
            self.tcbs[index].flags.clear(Flags::TOUCHED);
            self.file(index);
        }
    }

    /// Sends what one connection has; false if it had to stop for want of frames or room.
    fn emit(&mut self, index: u32) -> bool {
        if self.tcbs[index].state == State::Closed {
            return true;
        }
        while self.egress.can_send() {
            if !self.emit_segment(index) {
                if self.tcbs[index].flags.has(Flags::ACK_NOW) {
                    self.send_ack(index);
                }
                return true;
            }
        }
        false
    }

    /// Sends the next segment of the send side; false if there is none.
    fn emit_segment(&mut self, index: u32) -> bool {
        let Engine { tcbs, send, receive, egress, pairs, counters, config, now, .. } = self;
        let tcb = &mut tcbs[index];
        let Some(queued) = send::next_segment(tcb, send, *now) else { return false };
        let tuple = tuple_of(tcb, pairs);
        let is_urgent = tcb.flags.has(Flags::ACK_NOW);
        let mut flags = acknowledge(tcb, right_edge(tcb, receive, config));
        let mut window = window_field(tcb);
        let mut options = usual_options(tcb, *now);
        if queued.push {
            flags |= bit::PSH;
        }
        if queued.fin {
            flags |= bit::FIN;
        }
        if queued.cwr {
            flags |= bit::CWR;
        }
        if queued.syn {
            (flags, window) = syn_header(tcb);
            let mss = if tuple.v6 { self.mss6 } else { self.mss4 };
            options = syn_options(tcb, mss, self.window_shift, now.tick.wrapping_add(tcb.ts_offset));
        } else if let Some(record) = receive.get_mut(tcb.recv)
            && !report_sacks(tcb, record, &mut options, queued.data.len())
            && is_urgent
        {
            // The data leave no room for SACK blocks, so these follow by themselves.
            tcb.flags.set(Flags::ACK_NOW);
        }
        if queued.retransmission {
            counters.retrans_segs += 1;
        } else {
            counters.out_segs += 1;
        }
        let is_capable = tcb.flags.has(Flags::ECN) && !queued.retransmission && !queued.data.is_empty();
        let ack = if flags & bit::ACK == 0 { Seq(0) } else { tcb.rcv_nxt };
        let ecn = if is_capable { ECT0 } else { 0 };
        let segment = Segment { seq: queued.seq, ack, flags, window, options, data: queued.data, ecn };
        egress.transmit(&tuple, &mut tcb.hop, &segment, *now);
        true
    }

    /// Sends an acknowledgment without data.
    pub(super) fn send_ack(&mut self, index: u32) {
        let Engine { tcbs, receive, egress, pairs, counters, config, now, .. } = self;
        let tcb = &mut tcbs[index];
        let tuple = tuple_of(tcb, pairs);
        let flags = acknowledge(tcb, right_edge(tcb, receive, config));
        let mut options = usual_options(tcb, *now);
        if let Some(record) = receive.get_mut(tcb.recv) {
            report_sacks(tcb, record, &mut options, 0);
        }
        let (seq, ack, window) = (tcb.snd_nxt, tcb.rcv_nxt, window_field(tcb));
        let segment = Segment { seq, ack, flags, window, options, data: &[], ecn: 0 };
        counters.out_segs += 1;
        counters.pure_acks_out += 1;
        egress.transmit(&tuple, &mut tcb.hop, &segment, *now);
        receive.clean(&mut tcb.recv, now.tick);
    }

    /// Sends the SYN again, with an acknowledgment of the peer's.
    pub(crate) fn resend_syn(&mut self, index: u32) {
        if !self.egress.can_send() {
            return;
        }
        let Engine { tcbs, egress, pairs, counters, now, .. } = self;
        let tcb = &mut tcbs[index];
        let tuple = tuple_of(tcb, pairs);
        let mss = if tuple.v6 { self.mss6 } else { self.mss4 };
        let (flags, window) = syn_header(tcb);
        let options = syn_options(tcb, mss, self.window_shift, now.tick.wrapping_add(tcb.ts_offset));
        let segment = Segment { seq: tcb.snd_una, ack: tcb.rcv_nxt, flags, window, options, data: &[], ecn: 0 };
        counters.retrans_segs += 1;
        egress.transmit(&tuple, &mut tcb.hop, &segment, *now);
    }

    /// Sends a segment that the peer must answer, because it is not acceptable (RFC 9293 section 3.8.4).
    pub(super) fn send_probe(&mut self, index: u32) {
        if !self.egress.can_send() {
            return;
        }
        let Engine { tcbs, egress, pairs, counters, now, .. } = self;
        let tcb = &mut tcbs[index];
        let (tuple, options) = (tuple_of(tcb, pairs), usual_options(tcb, *now));
        let (seq, ack, window) = (tcb.snd_una - 1, tcb.rcv_nxt, window_field(tcb));
        let segment = Segment { seq, ack, flags: bit::ACK, window, options, data: &[], ecn: 0 };
        counters.out_segs += 1;
        egress.transmit(&tuple, &mut tcb.hop, &segment, *now);
    }

    /// Files the connection's next deadline, if it is earlier than the tick that it is filed under, and a delayed acknowledgment.
    #[inline]
    pub(super) fn file(&mut self, index: u32) {
        let tcb = &mut self.tcbs[index];
        let due = send::deadline(tcb);
        if due != NEVER && (tcb.filed == NEVER || (due.wrapping_sub(tcb.filed) as i32) < 0) {
            match self.wheel.add(index, due) {
                Some(tick) => tcb.filed = if tick == NEVER { 1 } else { tick },
                None => self.touch(index),
            }
        }
        let tcb = &mut self.tcbs[index];
        if tcb.flags.0 & (Flags::ACK_DELAYED | Flags::ACK_FILED).0 == Flags::ACK_DELAYED.0 {
            let delayed = DelayedAck { index, generation: tcb.generation as u16, due: tcb.ack_due };
            if self.acks.push(delayed) {
                tcb.flags.set(Flags::ACK_FILED);
            } else {
                tcb.flags.set(Flags::ACK_NOW);
                self.touch(index);
            }
        }
    }
}

/// The options of a segment without SYN.
#[inline]
fn usual_options(tcb: &Tcb, now: Now) -> Options {
    match tcb.flags.has(Flags::TIMESTAMPS) {
        true => Options::timestamps(now.tick.wrapping_add(tcb.ts_offset), tcb.ts_recent),
        false => Options::NONE,
    }
}

/// Right edge of the window that this side may advertise now, out of what is left of the budget of all connections.
#[inline]
pub(super) fn right_edge(tcb: &Tcb, receive: &ReceiveMemory, config: &StackConfig) -> Seq {
    let share = (receive.free_bytes() / 2).min(config.receive_window_max as usize) as u32;
    let waiting = if tcb.recv == NONE { 0 } else { receive.get(tcb.recv).map_or(0, |record| record.ready.bytes) };
    // A connection of which nothing waits always gets room for a few segments: its program takes them at once.
    let floor = if waiting == 0 { 4 * u32::from(tcb.rcv_mss) } else { 0 };
    tcb.rcv_nxt + share.max(floor).saturating_sub(waiting)
}

/// Notes that an acknowledgment leaves, moves the right edge of the window, and returns the flags of the header.
#[inline]
fn acknowledge(tcb: &mut Tcb, right: Seq) -> u8 {
    tcb.flags.clear(Flags::ACK_NOW | Flags::ACK_DELAYED);
    tcb.ack_sent = tcb.rcv_nxt;
    // Receiver's avoidance of silly windows (RFC 9293 section 3.8.6.2.2): the edge moves by a segment at least, or not at all.
    let least = u32::from(tcb.rcv_mss).min((right - tcb.rcv_nxt) / 2).max(1);
    if right.at_least(tcb.rcv_edge + least) {
        let scale = tcb.rcv_scale();
        let field = ((right - tcb.rcv_nxt) >> scale).min(u32::from(u16::MAX));
        tcb.rcv_edge = tcb.rcv_edge.max(tcb.rcv_nxt + (field << scale));
    }
    if tcb.flags.has(Flags::ECE_OWED) { bit::ACK | bit::ECE } else { bit::ACK }
}

/// The window as it stands in the header, rounded up, so that the edge that the peer sees never moves back.
#[inline]
fn window_field(tcb: &Tcb) -> u16 {
    let scale = tcb.rcv_scale();
    let window = tcb.rcv_edge - tcb.rcv_nxt;
    ((window + ((1 << scale) - 1)) >> scale).min(u32::from(u16::MAX)) as u16
}

/// Flags and window of a SYN. Its window is never scaled (RFC 7323 section 2.2).
fn syn_header(tcb: &mut Tcb) -> (u8, u16) {
    let is_answer = tcb.state != State::SynSent;
    let ecn = match (tcb.flags.has(Flags::ECN), is_answer) {
        (false, _) => 0,
        (true, true) => bit::ECE,
        (true, false) => bit::ECE | bit::CWR,
    };
    let window = (tcb.rcv_edge - tcb.rcv_nxt).min(u32::from(u16::MAX)) as u16;
    (bit::SYN | ecn | if is_answer { bit::ACK } else { 0 }, window)
}

/// Options of a SYN: those that are offered, or, in an answer, those that were agreed on.
pub(crate) fn syn_options(tcb: &Tcb, mss: u16, shift: u8, ts_value: u32) -> Options {
    let [high, low] = mss.to_be_bytes();
    let mut options = Options::NONE;
    options.push(&[2, 4, high, low]);
    match (tcb.flags.has(Flags::SACK), tcb.flags.has(Flags::TIMESTAMPS)) {
        (sack, true) => {
            options.push(if sack { &[4, 2] } else { &[1, 1] });
            let ([a, b, c, d], [e, f, g, h]) = (ts_value.to_be_bytes(), tcb.ts_recent.to_be_bytes());
            options.push(&[8, 10, a, b, c, d, e, f, g, h]);
        }
        (true, false) => options.push(&[1, 1, 4, 2]),
        (false, false) => {}
    }
    if tcb.flags.has(Flags::WINDOW_SCALE) {
        options.push(&[1, 3, 3, shift]);
    }
    options
}

/// Adds SACK blocks; false if there are some, but the data leave no room for them.
fn report_sacks(tcb: &Tcb, record: &mut Receive, options: &mut Options, data_len: usize) -> bool {
    if !tcb.flags.has(Flags::SACK) || record.sacks.is_empty() {
        return true;
    }
    if data_len + 40 > usize::from(tcb.mss) {
        return false;
    }
    let mut blocks = [(Seq(0), Seq(0)); SACKS_MAX];
    let count = record.sacks.report(options.sacks_max(), &mut blocks);
    options.push_sacks(&blocks[..count]);
    true
}
