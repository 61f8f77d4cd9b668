//! When packets arrived, for tests of recovery and reset: the longest silence, and the last loss.
//!
//! Times are those of the receiver's clock, `CLOCK_MONOTONIC` as the sender's. Resolution: one packet gap of the load, plus the time
//! that the receiving side needs to see a packet; at 1,000 packets per second and more that is 1 ms or less. Reordering looks like a
//! loss here, so a trial with reordered packets has a `last_loss` that may be too late.

use linerate_gen::Signature;
use linerate_mem::Batch;
use linerate_sys::clock;

/// When packets of one direction arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Arrival of the first packet, in ns of CLOCK_MONOTONIC; 0 = none.
    pub first_ns: u64,
    /// Arrival of the last packet; 0 = none.
    pub last_ns: u64,
    /// Longest time between two packets that followed each other.
    pub silence_ns: u64,
    /// Arrival of the packet that ended it; 0 = there were not two packets.
    pub silence_end_ns: u64,
    /// The last time that numbers were skipped.
    pub last_loss: Option<LossSeen>,
    /// One more than the highest number that arrived.
    pub numbers_end: u64,
}

/// A gap in the numbers, by the packet after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LossSeen {
    /// When that packet arrived.
    pub arrived_ns: u64,
    /// When it was scheduled to be sent: the last lost packet was scheduled one packet gap before.
    pub scheduled_ns: u64,
}

/// A signature holds this part of a time.
const TIME_MASK: u64 = (1 << 48) - 1;

impl LossSeen {
    /// From the arrival and the low 48 bits of a scheduled time, which lies before it.
    pub fn new(arrived_ns: u64, scheduled_low_ns: u64) -> LossSeen {
        let age_ns = arrived_ns.wrapping_sub(scheduled_low_ns) & TIME_MASK;
        LossSeen { arrived_ns, scheduled_ns: arrived_ns.saturating_sub(age_ns) }
    }
}

/// Makes a timeline of the packets of one stream.
pub struct Recorder {
    stream: u16,
    timeline: Timeline,
}

impl Recorder {
    /// Of the packets of this stream.
    pub fn new(stream: u16) -> Recorder {
        Recorder { stream, timeline: Timeline::default() }
    }

    /// Notes the packets of a batch, by their timestamps where the port has some, else by the clock.
    pub fn record(&mut self, batch: &Batch) {
        let mut now_ns = 0;
        for part in batch.parts().filter(|part| !part.more) {
            let Some(signature) = Signature::read(part.bytes) else { continue };
            if signature.stream != self.stream {
                continue;
            }
            if part.time_ns == 0 && now_ns == 0 {
                now_ns = clock::now_ns();
            }
            self.note(&signature, if part.time_ns == 0 { now_ns } else { part.time_ns });
        }
    }

    fn note(&mut self, signature: &Signature, arrived_ns: u64) {
        let timeline = &mut self.timeline;
        if timeline.first_ns == 0 {
            timeline.first_ns = arrived_ns;
        } else {
            let silence_ns = arrived_ns.saturating_sub(timeline.last_ns);
            if silence_ns > timeline.silence_ns {
                (timeline.silence_ns, timeline.silence_end_ns) = (silence_ns, arrived_ns);
            }
        }
        timeline.last_ns = arrived_ns;
        // A trial's numbers start at 0 and are far fewer than 2^40.
        if signature.sequence > timeline.numbers_end {
            timeline.last_loss = Some(LossSeen::new(arrived_ns, signature.time_ns));
        }
        timeline.numbers_end = timeline.numbers_end.max(signature.sequence + 1);
    }

    /// What was noted.
    pub fn finish(self) -> Timeline {
        self.timeline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_silence_and_the_last_gap_are_kept() {
        let mut recorder = Recorder::new(4);
        let base_ns = (5 << 48) + 1_000;
        for (sequence, at_ns) in [(0, 0), (1, 10), (4, 50), (5, 55), (9, 70), (8, 80)] {
            let signature = Signature { stream: 4, sequence, time_ns: (base_ns + at_ns - 3) & TIME_MASK };
            recorder.note(&signature, base_ns + at_ns);
        }
        let timeline = recorder.finish();
        assert_eq!((timeline.first_ns, timeline.last_ns), (base_ns, base_ns + 80));
        assert_eq!((timeline.silence_ns, timeline.silence_end_ns), (40, base_ns + 50));
        let loss = LossSeen { arrived_ns: base_ns + 70, scheduled_ns: base_ns + 67 };
        assert_eq!((timeline.last_loss, timeline.numbers_end), (Some(loss), 10));
    }
}
