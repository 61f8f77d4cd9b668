//! Proportional rate reduction (RFC 9937): how much may leave for each acknowledgment of a recovery, so that the window comes down to
//! `ssthresh` evenly, neither in a pause nor in a burst.

/// State of one recovery. All counts are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prr {
    /// Bytes that arrived at the peer during the recovery (prr_delivered).
    delivered: u32,
    /// Bytes that were sent during the recovery (prr_out).
    out: u32,
    /// Bytes in flight when the recovery began (RecoverFS).
    flight: u32,
}

impl Prr {
    /// A recovery begins with so many bytes in flight.
    pub fn new(flight: u32) -> Prr {
        Prr { delivered: 0, out: 0, flight: flight.max(1) }
    }

    /// Bytes were sent.
    pub fn sent(&mut self, bytes: u32) {
        self.out = self.out.saturating_add(bytes);
    }

    /// An acknowledgment reported `delivered` bytes, and `pipe` bytes are in flight: bytes that may leave now. `is_good` means that the
    /// acknowledgment brought `snd_una` on and reported no further loss (SafeACK); then the window may grow as in slow start (PRR-SSRB),
    /// else as much leaves as arrived (PRR-CRB, section 6.2), whatever was sent before.
    pub fn on_ack(&mut self, delivered: u32, pipe: u32, ssthresh: u32, mss: u32, is_good: bool) -> u32 {
        self.delivered = self.delivered.saturating_add(delivered);
        if pipe > ssthresh {
            let due = (u64::from(self.delivered) * u64::from(ssthresh)).div_ceil(u64::from(self.flight));
            return (due.min(u64::from(u32::MAX)) as u32).saturating_sub(self.out);
        }
        let limit = self.delivered.saturating_sub(self.out).max(delivered);
        limit.saturating_add(if is_good { mss } else { 0 }).min(ssthresh - pipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_loss_in_a_window_sends_seven_for_ten() {
        // 20 segments of 1,000 bytes in flight, one lost, ssthresh 14: each of 19 acknowledgments delivers one.
        let mut prr = Prr::new(20_000);
        // The one that is taken for lost has left; the fast retransmission goes out with the first acknowledgment.
        let (mut pipe, mut sent) = (19_000, 0);
        for number in 0..19 {
            pipe -= 1_000;
            let mut room = prr.on_ack(1_000, pipe, 14_000, 1_000, false);
            if number == 0 {
                room = room.max(1_000);
            }
            while room >= 1_000 {
                prr.sent(1_000);
                (pipe, sent, room) = (pipe + 1_000, sent + 1, room - 1_000);
            }
        }
        assert_eq!(sent, 14, "{prr:?}");
        assert_eq!(pipe, 14_000);
    }

    #[test]
    fn after_a_burst_of_losses_the_window_is_held_or_grows_by_one() {
        // 5 of 20 are left in flight: below ssthresh.
        let mut held = Prr::new(20_000);
        assert_eq!(held.on_ack(1_000, 4_000, 10_000, 1_000, false), 1_000);
        held.sent(1_000);
        assert_eq!(held.on_ack(1_000, 4_000, 10_000, 1_000, false), 1_000);
        let mut grows = Prr::new(20_000);
        assert_eq!(grows.on_ack(1_000, 4_000, 10_000, 1_000, true), 2_000);
        assert_eq!(grows.on_ack(1_000, 9_500, 10_000, 1_000, true), 500);
    }

    #[test]
    fn hostile_numbers_stay_in_bounds() {
        let mut prr = Prr::new(0);
        for _ in 0..3 {
            prr.sent(u32::MAX);
            assert!(prr.on_ack(u32::MAX, 0, u32::MAX, u32::MAX, true) > 0);
            assert_eq!(prr.on_ack(u32::MAX, u32::MAX, 1, 1, true), 0);
        }
    }
}
