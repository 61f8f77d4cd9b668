//! RACK (RFC 8985 sections 5 and 6): a segment is lost if one that was sent later was delivered, and a reordering window has passed.
//!
//! What is here are the variables and rules of the RFC; `recovery.rs` walks the chunks.

use crate::Seq;

/// Recoveries after which the reordering window is back at its least (RFC 8985 section 6.2 step 4).
const PERSIST: u8 = 16;
/// SACKed segments from which on a loss is certain as long as no reordering was seen (DupThresh).
pub(super) const DUP_THRESH: u32 = 3;

/// RACK's variables of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rack {
    /// Transmission of the segment that was sent last of those that were delivered, in microseconds (RACK.xmit_ts).
    sent_us: u32,
    /// Its end (RACK.end_seq).
    end: Seq,
    /// Its round-trip time in microseconds (RACK.rtt); 0 before the first delivery.
    rtt_us: u32,
    /// Highest end of a segment that was delivered (RACK.fack).
    fack: Seq,
    /// Least round-trip time in microseconds that was seen.
    min_rtt_us: u32,
    /// Delivery out of order was seen (RACK.reordering_seen).
    reordering_seen: bool,
    /// The reordering window in quarters of the least round-trip time (RACK.reo_wnd_mult).
    quarters: u8,
    /// Recoveries until `quarters` is reset (RACK.reo_wnd_persist).
    persist: u8,
    /// The end of the round trip in which the last duplicate was reported (RACK.dsack_round).
    dsack_round: Option<Seq>,
}

/// A segment that was delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    /// Its last transmission in microseconds.
    pub sent_us: u32,
    /// Its end.
    pub end: Seq,
    /// It was sent more than once.
    pub is_resent: bool,
    /// The timestamp that the peer echoed is older than the last transmission: an earlier one was delivered.
    pub is_older: bool,
}

/// What the reordering window depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    /// A recovery is under way, from a loss or a time-out.
    pub in_recovery: bool,
    /// Segments above `snd_una` that were SACKed.
    pub sacked_segments: u32,
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: u32,
}

impl Rack {
    /// Variables of a connection whose numbers up to `una` were acknowledged.
    pub fn new(una: Seq, srtt_us: u32) -> Rack {
        Rack {
            sent_us: 0,
            end: una,
            rtt_us: 0,
            fack: una,
            min_rtt_us: if srtt_us == 0 { u32::MAX } else { srtt_us },
            reordering_seen: false,
            quarters: 1,
            persist: PERSIST,
            dsack_round: None,
        }
    }

    /// Steps 1 to 3 of section 6.2, for one segment that was delivered. True if it was sent after all others that were: then others may
    /// be found lost.
    pub fn delivered(&mut self, segment: Delivered, now_us: u32) -> bool {
        let Delivered { sent_us, end, is_resent, is_older } = segment;
        if self.fack.before(end) {
            self.fack = end;
        } else if end.before(self.fack) && !is_resent {
            self.reordering_seen = true;
        }
        let rtt_us = now_us.wrapping_sub(sent_us);
        if is_resent && (is_older || rtt_us < self.min_rtt_us) {
            return false;
        }
        self.min_rtt_us = self.min_rtt_us.min(rtt_us.max(1));
        let is_latest = self.rtt_us == 0 || sent_after(sent_us, end, self.sent_us, self.end);
        if is_latest {
            (self.sent_us, self.end, self.rtt_us) = (sent_us, end, rtt_us.max(1));
        }
        is_latest
    }

    /// The peer reported a duplicate: a retransmission was not needed, so the window grows, at most once a round trip (step 4).
    pub fn duplicate(&mut self, una: Seq, nxt: Seq) {
        if self.dsack_round.is_some_and(|round| una.before(round)) {
            return;
        }
        self.dsack_round = Some(nxt);
        self.quarters = self.quarters.saturating_add(1);
        self.persist = PERSIST;
    }

    /// A recovery ended (step 4).
    pub fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// The reordering window in microseconds (RACK.reo_wnd): quarters of the least round-trip time, as in the RFC, until duplicates showed
    /// that this is too little; then of the smoothed one, because segments that overtake others make the least one very short.
    pub fn window_us(&self, context: Context) -> u32 {
        if !self.reordering_seen && (context.in_recovery || context.sacked_segments >= DUP_THRESH) {
            return 0;
        }
        let is_too_short = self.min_rtt_us == u32::MAX || self.quarters > 1;
        let base_us = if is_too_short { context.srtt_us } else { self.min_rtt_us };
        (u64::from(base_us / 4) * u64::from(self.quarters)).min(u64::from(context.srtt_us)) as u32
    }

    /// True if the segment was sent before the one that was sent last of those delivered: only then it can be taken for lost.
    pub fn is_overtaken(&self, sent_us: u32, end: Seq) -> bool {
        self.rtt_us != 0 && sent_after(self.sent_us, self.end, sent_us, end)
    }

    /// Microseconds until an overtaken segment is lost (step 5); 0 if it is.
    pub fn until_lost_us(&self, sent_us: u32, window_us: u32, now_us: u32) -> u32 {
        let waited = now_us.wrapping_sub(sent_us);
        self.rtt_us.saturating_add(window_us).saturating_sub(waited)
    }

    /// True if the peer could have answered a segment that was sent at `sent_us` (section 6.3: what a time-out takes for lost).
    pub fn is_overdue(&self, sent_us: u32, now_us: u32) -> bool {
        now_us.wrapping_sub(sent_us) >= self.rtt_us
    }

    /// Least round-trip time in microseconds; `None` before the first.
    pub fn min_rtt_us(&self) -> Option<u32> {
        (self.min_rtt_us != u32::MAX).then_some(self.min_rtt_us)
    }

    /// True if delivery out of order was seen.
    pub fn reordering_seen(&self) -> bool {
        self.reordering_seen
    }
}

/// RACK_sent_after: the first segment was sent after the second, at the same time if its numbers are higher.
fn sent_after(first_us: u32, first_end: Seq, second_us: u32, second_end: Seq) -> bool {
    first_us == second_us && first_end.after(second_end) || (second_us.wrapping_sub(first_us) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Context = Context { in_recovery: false, sacked_segments: 1, srtt_us: 100_000 };

    fn once(sent_us: u32, end: u32) -> Delivered {
        Delivered { sent_us, end: Seq(end), is_resent: false, is_older: false }
    }

    fn again(sent_us: u32, end: u32, is_older: bool) -> Delivered {
        Delivered { sent_us, end: Seq(end), is_resent: true, is_older }
    }

    /// RFC 8985 section 3.2: P1 is lost, P2 arrives. Without reordering before, P1 is lost after a quarter of the round trip.
    #[test]
    fn an_overtaken_segment_is_lost_after_the_window() {
        let mut rack = Rack::new(Seq(0), 0);
        rack.delivered(once(1_000, 200), 101_000);
        assert!(rack.is_overtaken(900, Seq(100)) && rack.is_overtaken(1_000, Seq(100)));
        assert!(!rack.is_overtaken(1_000, Seq(300)) && !rack.is_overtaken(1_001, Seq(100)));
        let window_us = rack.window_us(QUIET);
        assert_eq!(window_us, 25_000);
        assert_eq!(rack.until_lost_us(1_000, window_us, 101_000), 25_000);
        assert_eq!(rack.until_lost_us(1_000, window_us, 126_000), 0);
    }

    #[test]
    fn three_sacked_segments_or_a_recovery_need_no_window_until_reordering_is_seen() {
        let mut rack = Rack::new(Seq(0), 0);
        rack.delivered(once(1_000, 400), 101_000);
        assert_eq!(rack.window_us(Context { sacked_segments: 3, ..QUIET }), 0);
        assert_eq!(rack.window_us(Context { in_recovery: true, ..QUIET }), 0);
        rack.delivered(once(1_000, 300), 101_500);
        assert!(rack.reordering_seen());
        assert_eq!(rack.window_us(Context { sacked_segments: 3, ..QUIET }), 25_000);
    }

    /// Section 5.1: a retransmission that is acknowledged too early was not what was acknowledged.
    #[test]
    fn retransmissions_count_only_if_they_were_what_arrived() {
        let mut rack = Rack::new(Seq(0), 50_000);
        rack.delivered(once(1_000, 100), 51_000);
        rack.delivered(again(60_000, 200, false), 70_000);
        assert!(
            rack.is_overtaken(900, Seq(50)) && !rack.is_overtaken(2_000, Seq(50)),
            "10 ms is less than any round trip"
        );
        rack.delivered(again(60_000, 200, true), 120_000);
        assert!(!rack.is_overtaken(2_000, Seq(50)), "the echoed timestamp is that of the first transmission");
        rack.delivered(again(60_000, 200, false), 120_000);
        assert!(rack.is_overtaken(2_000, Seq(50)), "a lost retransmission is found by a later one that was delivered");
        assert!(!rack.reordering_seen(), "retransmissions say nothing of reordering");
    }

    #[test]
    fn duplicates_widen_the_window_once_a_round_trip_and_sixteen_recoveries_reset_it() {
        let mut rack = Rack::new(Seq(0), 0);
        rack.delivered(once(0, 500), 40_000);
        rack.delivered(once(0, 400), 40_000);
        rack.duplicate(Seq(400), Seq(900));
        rack.duplicate(Seq(500), Seq(950));
        assert_eq!(rack.window_us(QUIET), 50_000);
        rack.duplicate(Seq(900), Seq(1_500));
        assert_eq!(rack.window_us(QUIET), 75_000);
        for _ in 0..20 {
            rack.duplicate(Seq(5_000), Seq(0));
            rack.dsack_round = None;
        }
        assert_eq!(rack.window_us(QUIET), 100_000, "never longer than the smoothed round trip");
        for _ in 0..16 {
            assert!(rack.window_us(QUIET) > 10_000);
            rack.recovered();
        }
        assert_eq!(rack.window_us(QUIET), 10_000);
    }

    #[test]
    fn times_wrap() {
        let mut rack = Rack::new(Seq(u32::MAX - 50), 0);
        rack.delivered(once(u32::MAX - 10, 100), 49_989);
        assert!(rack.is_overtaken(u32::MAX - 20, Seq(50)) && !rack.is_overtaken(5, Seq(50)));
        assert_eq!(rack.until_lost_us(u32::MAX - 20, 0, 49_979), 0);
        assert!(rack.until_lost_us(5, 0, 10_000) > 0 && rack.is_overdue(u32::MAX - 20, 49_989));
    }
}
