//! Acknowledgments that a segment asks for: duplicates, challenges, windows that opened.

use super::Engine;
use super::window::right_edge;
use crate::segment::{Segment, bit};
use crate::time::NEVER;
use crate::{Flags, Seq, send};

impl Engine {
    /// A segment is not acceptable: it is answered (RFC 9293 section 3.10.7.4, first). A segment with data or FIN is at once, because its
    /// sender misses an acknowledgment. Others are answered twice a second at most, or two stacks could answer each other for ever.
    pub(crate) fn answer_unacceptable(&mut self, index: u32, segment: &Segment<'_>) {
        if segment.len() == 0 || segment.has(bit::SYN) {
            self.challenge(index);
            return;
        }
        let tcb = &self.tcbs[index];
        let end = segment.seq + segment.data.len() as u32;
        if !segment.data.is_empty() && end.at_most(tcb.rcv_nxt) {
            self.note_duplicate(index, segment.seq, end);
        }
        self.tcbs[index].flags.set(Flags::ACK_NOW);
        self.touch(index);
    }

    /// Sends a challenge acknowledgment, unless this connection sent one not long ago (RFC 5961).
    pub(crate) fn challenge(&mut self, index: u32) {
        let tick = self.now.tick;
        let tcb = &mut self.tcbs[index];
        let Some(record) = self.receive.record(&mut tcb.recv) else { return };
        if record.was_challenged(tick) {
            return;
        }
        record.challenged = if tick == NEVER { 1 } else { tick };
        tcb.flags.set(Flags::ACK_NOW);
        self.counters.challenge_acks += 1;
        self.touch(index);
    }

    /// Bytes arrived that were there already: the next acknowledgment says so (RFC 2883), and leaves at once.
    pub(crate) fn note_duplicate(&mut self, index: u32, start: Seq, end: Seq) {
        let tcb = &mut self.tcbs[index];
        tcb.flags.set(Flags::ACK_NOW);
        if tcb.flags.has(Flags::SACK)
            && let Some(record) = self.receive.record(&mut tcb.recv)
        {
            record.sacks.duplicate(start, end);
            self.counters.dsack_sent += 1;
        }
        self.touch(index);
    }

    /// The program took bytes: the peer is told if the window grew by two segments or half of what it can be.
    pub(crate) fn window_opened(&mut self, index: u32) {
        let tcb = &self.tcbs[index];
        let right = right_edge(tcb, &self.receive, &self.config);
        let grown = if right.after(tcb.rcv_edge) { right - tcb.rcv_edge } else { 0 };
        if grown >= (2 * u32::from(tcb.rcv_mss)).min(self.config.receive_window_max / 2) {
            self.tcbs[index].flags.set(Flags::ACK_NOW);
            self.touch(index);
        }
    }

    /// Sends an acknowledgment now, because the connection's block will be gone at the end of the batch.
    pub(crate) fn acknowledge_now(&mut self, index: u32) {
        if !self.look_at_supply() {
            return;
        }
        self.tcbs[index].flags.set(Flags::ACK_NOW);
        if !send::is_idle(&self.tcbs[index]) || !self.emit_usual(index) {
            self.send_ack(index);
        }
    }
}
