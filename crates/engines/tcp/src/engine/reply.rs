//! Segments that are sent at once, without a control block or beside its queue: resets, answers of TIME-WAIT, SYN cookies.

use linerate_ip::HopId;

use super::Engine;
use crate::Seq;
use crate::egress::Segment;
use crate::segment::{Segment as Arrived, bit};
use crate::time_wait::Record;
use crate::tuple::Tuple;

impl Engine {
    /// Acknowledges all that came by a connection that is in TIME-WAIT.
    pub(crate) fn acknowledge_record(&mut self, tuple: &Tuple, record: &Record) {
        let clock = self.now.tick.wrapping_add(record.ts_offset);
        let timestamps = record.timestamps.then_some((clock, record.ts_recent));
        let (seq, ack) = (record.snd_nxt, record.rcv_nxt);
        self.send_bare(tuple, &Segment { seq, ack, flags: bit::ACK, timestamps, ..Segment::EMPTY });
    }

    /// Sends the last acknowledgments that had to wait, as far as there is room.
    #[cold]
    pub(crate) fn acknowledge_last(&mut self) {
        while self.egress.can_send()
            && let Some((tuple, record)) = self.owing.pop_front()
        {
            self.acknowledge_record(&tuple, &record);
        }
    }

    /// Resets whoever sent a segment that belongs to nothing (RFC 9293 section 3.10.7.1). A reset is never answered.
    pub(crate) fn refuse(&mut self, tuple: &Tuple, arrived: &Arrived<'_>) {
        if arrived.has(bit::RST) {
            return;
        }
        if arrived.has(bit::ACK) {
            self.send_reset(tuple, arrived.ack, None);
        } else {
            self.send_reset(tuple, Seq(0), Some(arrived.end()));
        }
    }

    /// Sends RST, with ACK if there is something to acknowledge.
    pub(crate) fn send_reset(&mut self, tuple: &Tuple, seq: Seq, ack: Option<Seq>) {
        let flags = bit::RST | if ack.is_some() { bit::ACK } else { 0 };
        self.counters.out_rsts += 1;
        self.send_bare(tuple, &Segment { seq, ack: ack.unwrap_or(Seq(0)), flags, ..Segment::EMPTY });
    }

    /// Sends a segment without a block; it is lost if there is no frame or no room for it.
    pub(crate) fn send_bare(&mut self, tuple: &Tuple, segment: &Segment<'_>) {
        if !self.egress.can_send() {
            self.counters.output_stalls += 1;
            return;
        }
        let mut hop = HopId::NONE;
        self.counters.out_segs += 1;
        self.egress.transmit(tuple, &mut hop, segment, self.now);
    }
}
