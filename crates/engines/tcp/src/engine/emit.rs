//! What leaves: segments of the connections that were touched, after all that arrived was worked on (RFC 9293, MUST-58 and MUST-59).

use super::syn::{syn_header, syn_options};
use super::timers::UNKNOWN;
use super::window::{ack_flags, acknowledge, right_edge, share, usual_right_edge, window_field};
use super::{DelayedAck, Engine, Event, tuple_of};
use linerate_slab::Slab;

use crate::egress::{Egress, Ends, Options, Segment, Usual};
use crate::receive::{Receive, ReceiveMemory};
use crate::segment::{SACKS_MAX, bit};
use crate::send::{self, Last};
use crate::time::NEVER;
use crate::{Flags, NONE, Now, Seq, State, Tcb};

/// What became of an attempt to send a segment.
enum Emitted {
    /// There is none.
    Nothing,
    /// One was sent, and there may be more.
    More,
    /// One was sent, and nothing is left to be sent.
    Last,
}

/// What segments may be sent with now, the same for all connections until one is sent in the general way.
#[derive(Clone, Copy, Default)]
pub(super) struct Supply {
    /// Segments that there are frames and room for.
    pub(super) segments: usize,
    /// See [`share`].
    pub(super) share: u32,
}

/// ECN bits of the IP header: the sender does ECN, ECT(0).
const ECT0: u8 = 2;

impl Engine {
    /// Sends what the touched connections have, as far as there are frames and room. Those that had to wait stay in the list.
    pub(crate) fn flush(&mut self) {
        // Before those that have data, which may fill the output for as long as they have some.
        if !self.owing.is_empty() {
            self.acknowledge_last();
        }
        // Connections that have to wait for something join the list behind those that are in it now.
        let (count, mut done) = (self.touched.len(), 0);
        self.supply.segments = 0;
        while done < count {
            let index = self.touched[done];
            if (self.supply.segments > 0 || self.look_at_supply()) && self.emit_usual(index) {
                self.supply.segments -= 1;
                done += 1;
                continue;
            }
            let tcb = &mut self.tcbs[index];
            if tcb.state == State::Closed {
                // It ended since it was touched.
                tcb.flags.clear(Flags::TOUCHED);
                done += 1;
                continue;
            }
            if !self.emit(index) {
                self.counters.output_stalls += 1;
                break;
            }
            done += 1;
            let tcb = &mut self.tcbs[index];
            tcb.flags.clear(Flags::TOUCHED);
            if send::takes_again(tcb, &self.send) {
                // What was sent made room. The congestion window may take more than waited, so the program does not wait for an acknowledgment.
                self.events.push_back(Event::Sendable(index));
            }
            let tcb = &self.tcbs[index];
            if needs_filing(tcb) || tcb.flags.has(Flags::ACK_DELAYED) {
                self.file(index);
            }
        }
        if done == self.touched.len() {
            self.touched.clear();
        } else {
            self.touched.drain(..done);
        }
    }

    /// Notes what there is to send with now; false if no segment can be sent.
    #[inline(never)]
    pub(super) fn look_at_supply(&mut self) -> bool {
        self.supply = Supply { segments: self.egress.ready(), share: share(&self.receive, &self.config) };
        self.supply.segments > 0
    }

    /// Sends what one connection has, if that is at most one segment of a connection without anything unusual, and takes it off the list;
    /// else false, and nothing has happened. The supply was looked at before, and there is some.
    #[inline(always)]
    pub(super) fn emit_usual(&mut self, index: u32) -> bool {
        const OTHER: Flags = Flags(Flags::V6.0 | Flags::ECN.0 | Flags::ECE_OWED.0);
        let Engine { tcbs, send, egress, counters, now, supply, .. } = self;
        let tcb = &mut tcbs[index];
        let has_usual_flags = tcb.flags.0 & (OTHER.0 | Flags::TIMESTAMPS.0) == Flags::TIMESTAMPS.0;
        let is_usual = tcb.is_synchronized() & has_usual_flags & (tcb.recv == NONE);
        if !is_usual || !egress.select(tcb.hop) {
            return false;
        }
        let Some(Last { seq, data, .. }) = send::next_small(tcb, send, now) else { return self.emit_less_usual(index) };
        let window = acknowledge(tcb, usual_right_edge(tcb, supply.share));
        counters.out_segs += 1;
        let value = now.tick.wrapping_add(tcb.ts_offset);
        egress.transmit_usual(tcb, &Usual { seq, flags: bit::ACK | bit::PSH, window, value, data });
        tcb.flags.clear(Flags::TOUCHED);
        if needs_filing(tcb) {
            self.file(index);
        }
        true
    }

    /// The rest of [`Engine::emit_usual`], of a connection of which not one small chunk alone is kept.
    #[inline(never)]
    fn emit_less_usual(&mut self, index: u32) -> bool {
        let Engine { tcbs, send, egress, counters, now, supply, .. } = self;
        let tcb = &mut tcbs[index];
        let (seq, data, bits);
        if send::is_idle(tcb) {
            tcb.flags.clear(Flags::CWND_LIMITED | Flags::TOUCHED);
            if !tcb.flags.has(Flags::ACK_NOW) {
                if needs_filing(tcb) || tcb.flags.has(Flags::ACK_DELAYED) {
                    self.file(index);
                }
                return true;
            }
            (seq, data, bits) = (tcb.snd_nxt, &[][..], 0);
            counters.pure_acks_out += 1;
        } else {
            let Some(last) = send::next_usual(tcb, send, now) else { return false };
            let push = if last.data.is_empty() { 0 } else { bit::PSH };
            (seq, data, bits) = (last.seq, last.data, if last.fin { bit::FIN | push } else { push });
        }
        let window = acknowledge(tcb, usual_right_edge(tcb, supply.share));
        counters.out_segs += 1;
        let value = now.tick.wrapping_add(tcb.ts_offset);
        egress.transmit_usual(tcb, &Usual { seq, flags: bit::ACK | bits, window, value, data });
        // The segment carries every acknowledgment that is owed, so only a deadline may have to be filed.
        tcb.flags.clear(Flags::TOUCHED);
        if needs_filing(tcb) {
            self.file(index);
        }
        true
    }

    /// Sends what one connection has; false if it had to stop for want of frames or room.
    #[inline(never)]
    fn emit(&mut self, index: u32) -> bool {
        if !self.tcbs[index].is_synchronized() && self.emit_usual_syn(index) {
            return true;
        }
        // How many segments this takes, and what it changes of the windows' share, is looked at afterwards.
        self.supply.segments = 0;
        if self.tcbs[index].cold != NONE {
            self.search_mtu(index);
        }
        while self.egress.can_send() {
            match self.emit_segment(index) {
                Emitted::Last => return true,
                Emitted::More => {}
                Emitted::Nothing => {
                    if self.tcbs[index].flags.has(Flags::ACK_NOW) {
                        self.send_ack(index);
                    }
                    return true;
                }
            }
        }
        false
    }

    /// Sends the next segment of the send side.
    #[inline]
    fn emit_segment(&mut self, index: u32) -> Emitted {
        let Engine { tcbs, send, receive, egress, pairs, counters, config, now, .. } = self;
        let tcb = &mut tcbs[index];
        let Some(queued) = send::next_segment(tcb, send, *now) else { return Emitted::Nothing };
        let is_urgent = tcb.flags.has(Flags::ACK_NOW);
        let (mut flags, mut window) = (ack_flags(tcb), acknowledge(tcb, right_edge(tcb, receive, config)));
        let mut timestamps = timestamps(tcb, *now);
        let mut options = None;
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
            let mss = if tcb.flags.has(Flags::V6) { self.mss6 } else { self.mss4 };
            options = Some(syn_options(tcb, mss, self.window_shift, timestamps));
            timestamps = None;
        } else if let Some(record) = receive.get_mut(tcb.recv) {
            options = report_sacks(tcb, record, queued.data.len());
            if is_urgent && !record.sacks.is_empty() && options.is_none() {
                // The data leave no room for SACK blocks, so these follow by themselves.
                tcb.flags.set(Flags::ACK_NOW);
            }
        }
        if queued.retransmission {
            counters.retrans_segs += 1;
        } else {
            counters.out_segs += 1;
        }
        let is_capable = tcb.flags.has(Flags::ECN) && !queued.retransmission && !queued.data.is_empty();
        let segment = Segment {
            seq: queued.seq,
            ack: if flags & bit::ACK == 0 { Seq(0) } else { tcb.rcv_nxt },
            flags,
            window,
            timestamps,
            options: options.as_ref().map_or(&[], Options::as_slice),
            data: queued.data,
            traffic_class: if is_capable { ECT0 } else { 0 },
            ..Segment::EMPTY
        };
        transmit(egress, tcb, pairs, receive, &segment, *now);
        if send::is_idle(tcb) && !tcb.flags.has(Flags::ACK_NOW) { Emitted::Last } else { Emitted::More }
    }

    /// Sends an acknowledgment without data.
    pub(super) fn send_ack(&mut self, index: u32) {
        let Engine { tcbs, receive, egress, pairs, counters, config, now, .. } = self;
        let tcb = &mut tcbs[index];
        acknowledge(tcb, right_edge(tcb, receive, config));
        let flags = ack_flags(tcb);
        let options = receive.get_mut(tcb.recv).and_then(|record| report_sacks(tcb, record, 0));
        let options = options.as_ref().map_or(&[][..], Options::as_slice);
        counters.out_segs += 1;
        counters.pure_acks_out += 1;
        let segment = Segment { options, ..bare(tcb, tcb.snd_nxt, flags, *now) };
        transmit(egress, tcb, pairs, receive, &segment, *now);
        receive.clean(&mut tcb.recv, now.tick);
    }

    /// Sends the SYN again, with an acknowledgment of the peer's.
    pub(crate) fn resend_syn(&mut self, index: u32) {
        if !self.egress.can_send() {
            return;
        }
        let Engine { tcbs, receive, egress, pairs, counters, now, .. } = self;
        let tcb = &mut tcbs[index];
        let mss = if tcb.flags.has(Flags::V6) { self.mss6 } else { self.mss4 };
        let (flags, window) = syn_header(tcb);
        let options = syn_options(tcb, mss, self.window_shift, timestamps(tcb, *now));
        let options = options.as_slice();
        let segment = Segment { window, timestamps: None, options, ..bare(tcb, tcb.snd_una, flags, *now) };
        counters.retrans_segs += 1;
        transmit(egress, tcb, pairs, receive, &segment, *now);
    }

    /// Sends a segment that the peer must answer, because it is not acceptable (RFC 9293 section 3.8.4).
    pub(super) fn send_probe(&mut self, index: u32) {
        if !self.egress.can_send() {
            return;
        }
        let Engine { tcbs, receive, egress, pairs, counters, now, .. } = self;
        let tcb = &mut tcbs[index];
        counters.out_segs += 1;
        let segment = bare(tcb, tcb.snd_una - 1, bit::ACK, *now);
        transmit(egress, tcb, pairs, receive, &segment, *now);
    }

    /// Files the connection's next deadline, if it is earlier than the tick that it is filed under, and a delayed acknowledgment.
    #[inline]
    pub(super) fn file(&mut self, index: u32) {
        let tcb = &mut self.tcbs[index];
        if needs_filing(tcb) {
            let due = send::deadline(tcb);
            self.due_ns.set(UNKNOWN);
            self.file_fresh(index, due);
        }
        let tcb = &mut self.tcbs[index];
        if tcb.flags.0 & (Flags::ACK_DELAYED | Flags::ACK_FILED).0 == Flags::ACK_DELAYED.0 {
            let delayed = DelayedAck { index, generation: tcb.generation as u16, due: tcb.ack_due };
            self.due_ns.set(UNKNOWN);
            if self.acks.push(delayed) {
                tcb.flags.set(Flags::ACK_FILED);
            } else {
                tcb.flags.set(Flags::ACK_NOW);
                self.touch(index);
            }
        }
    }
}

/// True if the connection's next deadline is earlier than the tick that it is filed under.
#[inline]
fn needs_filing(tcb: &Tcb) -> bool {
    let due = send::deadline(tcb);
    due != NEVER && (tcb.filed == NEVER || (due.wrapping_sub(tcb.filed) as i32) < 0)
}

/// A segment of a connection without data.
fn bare(tcb: &Tcb, seq: Seq, flags: u8, now: Now) -> Segment<'static> {
    let (ack, window, timestamps) = (tcb.rcv_nxt, window_field(tcb), timestamps(tcb, now));
    Segment { seq, ack, flags, window, timestamps, ..Segment::EMPTY }
}

/// Sends a segment of a connection, with what the program set.
#[inline]
fn transmit(
    egress: &mut Egress,
    tcb: &mut Tcb,
    pairs: &Slab<[u128; 2]>,
    receive: &ReceiveMemory,
    segment: &Segment<'_>,
    now: Now,
) {
    let dressed;
    let segment = match receive.get(tcb.recv) {
        Some(record) => {
            dressed = dressed_by(record, segment);
            &dressed
        }
        None => segment,
    };
    let ports = u32::from(tcb.local_port) << 16 | u32::from(tcb.remote_port);
    let ends = Ends { local: tcb.local, remote: tcb.remote, ports };
    if tcb.flags.has(Flags::V6) || !egress.transmit_v4(ends, tcb.hop, segment) {
        egress.transmit(&tuple_of(tcb, pairs), &mut tcb.hop, segment, now);
    }
}

/// A segment with what the program set, and with the urgent pointer if it begins before the end of urgent bytes.
#[cold]
fn dressed_by<'a>(record: &Receive, segment: &Segment<'a>) -> Segment<'a> {
    let mut segment = *segment;
    segment.traffic_class |= record.settings.dscp << 2;
    segment.hop_limit = record.settings.hop_limit;
    if let Some(end) = record.urgent.filter(|end| end.after(segment.seq) && segment.flags & bit::SYN == 0) {
        segment.flags |= bit::URG;
        segment.urgent = (end - segment.seq).min(u32::from(u16::MAX)) as u16;
    }
    segment
}

/// TSval and TSecr, if the connection has timestamps.
#[inline]
fn timestamps(tcb: &Tcb, now: Now) -> Option<(u32, u32)> {
    tcb.flags.has(Flags::TIMESTAMPS).then(|| (now.tick.wrapping_add(tcb.ts_offset), tcb.ts_recent))
}

/// SACK blocks, if there are some, and the data leave room for them.
fn report_sacks(tcb: &Tcb, record: &mut Receive, data_len: usize) -> Option<Options> {
    if !tcb.flags.has(Flags::SACK) || record.sacks.is_empty() || data_len + 40 > usize::from(tcb.mss) {
        return None;
    }
    let mut blocks = [(Seq(0), Seq(0)); SACKS_MAX];
    let count = record.sacks.report(Options::sacks_max(tcb.flags.has(Flags::TIMESTAMPS)), &mut blocks);
    let mut options = Options::NONE;
    options.push_sacks(&blocks[..count]);
    Some(options)
}
