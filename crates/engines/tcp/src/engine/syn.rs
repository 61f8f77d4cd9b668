//! SYN segments: their flags, their options, and the usual one in one piece.

use linerate_ip::HopId;

use super::Engine;
use super::window::{acknowledge, usual_right_edge};
use crate::egress::{Ends, Options, Segment};
use crate::segment::bit;
use crate::{Flags, NONE, Seq, State, Tcb, send};

impl Engine {
    /// Sends the SYN of a connection for the first time, if it is one over IPv4 with all options that this stack knows; else false, and nothing
    /// has happened.
    pub(super) fn emit_usual_syn(&mut self, index: u32) -> bool {
        const ALL: Flags = Flags(Flags::TIMESTAMPS.0 | Flags::SACK.0 | Flags::WINDOW_SCALE.0);
        if self.supply.segments == 0 && !self.look_at_supply() {
            return false;
        }
        let Engine { tcbs, send, egress, counters, now, supply, .. } = self;
        let tcb = &mut tcbs[index];
        if !tcb.flags.has(ALL) | tcb.flags.has(Flags::V6) | (tcb.recv != NONE) {
            return false;
        }
        if tcb.hop == HopId::NONE || !egress.select(tcb.hop) {
            // A connection that a listener took does not know its hop yet.
            let Some(hop) = egress.known_hop(tcb.local, tcb.remote).filter(|hop| egress.select(*hop)) else {
                return false;
            };
            tcb.hop = hop;
        }
        let Some(seq) = send::next_syn(tcb, send, *now) else { return false };
        acknowledge(tcb, usual_right_edge(tcb, supply.share));
        let (flags, window) = syn_header(tcb);
        counters.out_segs += 1;
        let ack = if flags & bit::ACK == 0 { Seq(0) } else { tcb.rcv_nxt };
        let segment = Segment { seq, ack, flags, window, ..Segment::EMPTY };
        let timestamps = (now.tick.wrapping_add(tcb.ts_offset), tcb.ts_recent);
        let ports = u32::from(tcb.local_port) << 16 | u32::from(tcb.remote_port);
        let ends = Ends { local: tcb.local, remote: tcb.remote, ports };
        egress.transmit_syn(ends, &segment, all_options(self.mss4, self.window_shift, timestamps));
        self.supply.segments -= 1;
        true
    }
}

/// Flags and window of a SYN. Its window is never scaled (RFC 7323 section 2.2).
pub(super) fn syn_header(tcb: &mut Tcb) -> (u8, u16) {
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
pub(crate) fn syn_options(tcb: &Tcb, mss: u16, shift: u8, timestamps: Option<(u32, u32)>) -> Options {
    if let Some(timestamps) = timestamps
        && tcb.flags.has(Flags::SACK | Flags::WINDOW_SCALE)
    {
        return Options::of(all_options(mss, shift, timestamps));
    }
    let [high, low] = mss.to_be_bytes();
    let mut options = Options::NONE;
    options.push(&[2, 4, high, low]);
    match (tcb.flags.has(Flags::SACK), timestamps) {
        (sack, Some((value, echo))) => {
            options.push(if sack { &[4, 2] } else { &[1, 1] });
            let ([a, b, c, d], [e, f, g, h]) = (value.to_be_bytes(), echo.to_be_bytes());
            options.push(&[8, 10, a, b, c, d, e, f, g, h]);
        }
        (true, None) => options.push(&[1, 1, 4, 2]),
        (false, None) => {}
    }
    if tcb.flags.has(Flags::WINDOW_SCALE) {
        options.push(&[1, 3, 3, shift]);
    }
    options
}

/// MSS, SACK permitted, timestamps, window scale.
fn all_options(mss: u16, shift: u8, (value, echo): (u32, u32)) -> [u32; 5] {
    [0x0204_0000 | u32::from(mss), 0x0402_080a, value, echo, 0x0103_0300 | u32::from(shift)]
}
